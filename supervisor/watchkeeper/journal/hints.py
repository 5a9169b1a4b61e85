"""Hints between processes: one byte by a Unix datagram, "look now". They may get lost: one looks each second, too."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path

LOOK = 1.0
"""Seconds after which one looks without a hint."""
APART, FURTHEST = 0.004, 0.02
"""Seconds between two hints, at first and where one follows the other: what is written by then needs one only."""

_PROC = os.path.isdir("/proc/self/fd")


class Hints:
    """A socket of one's own in the folder, heard by a thread that calls ``look``; ``ring`` tells all others there.

    Where no socket can be made, one looks every second and is not hinted at.
    """

    def __init__(self, folder: Path, name: str, look: Callable[[], None]) -> None:
        self._folder = folder
        self._look = look
        self._own = f"{name[:40]}-{os.getpid()}-{secrets.token_hex(3)}.sock"
        self._closed = threading.Event()
        self._at: int | None = None
        self._socket: socket.socket | None = None
        self._sender: socket.socket | None = None
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        """For the folder and the sender, which are closed while another thread may be about to use them."""

    def open(self) -> None:
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._at = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket = heard
            heard.bind(self._place(self._own))
            heard.setblocking(False)
        threading.Thread(target=self._listen, name="watchkeeper-hears", daemon=True).start()
        threading.Thread(target=self._tell, name="watchkeeper-tells", daemon=True).start()

    def ring(self) -> None:
        """Tell everybody else, at once or, if that was just done, within 4 ms, within 20 ms where it goes on and on;
        from any thread."""
        self._wanted.set()

    def _tell(self) -> None:
        apart = APART
        while True:
            self._wanted.wait()
            if self._closed.is_set():
                break
            self._wanted.clear()
            with self._lock:
                self._tell_others()
            self._closed.wait(apart)
            apart = min(2 * apart, FURTHEST) if self._wanted.is_set() else APART

    def _tell_others(self) -> None:
        """Sockets of processes that are gone are cleared away."""
        if self._at is None or self._sender is None:
            return
        try:
            names = os.listdir(self._at)
        except OSError:
            return
        for name in names:
            if name.endswith(".sock") and name != self._own:
                try:
                    self._sender.sendto(b"!", self._place(name))
                except ConnectionRefusedError:
                    with contextlib.suppress(OSError):
                        os.unlink(name, dir_fd=self._at)
                except OSError:
                    continue  # full: it is about to look

    def close(self) -> None:
        """Closing twice changes nothing."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._wanted.set()
        with self._lock, contextlib.suppress(OSError):
            if self._at is not None and self._sender is not None:
                self._sender.sendto(b".", self._place(self._own))
        with self._lock:
            if self._sender is not None:
                self._sender.close()
            if self._at is not None:
                with contextlib.suppress(OSError):
                    os.unlink(self._own, dir_fd=self._at)
                os.close(self._at)
                self._at = None

    def _place(self, name: str) -> str:
        """A short way to a name in the folder: the path of a socket may have 107 bytes only."""
        return f"/proc/self/fd/{self._at}/{name}" if _PROC else str(self._folder / name)

    def _listen(self) -> None:
        heard = self._socket
        while not self._closed.is_set():
            if heard is None:
                self._closed.wait(LOOK)
            else:
                heard = _heard(heard)
            if not self._closed.is_set():
                self._look()
        if self._socket is not None:
            self._socket.close()


def _heard(heard: socket.socket) -> socket.socket | None:
    """Wait for a hint, and take all that are there; None once it cannot be heard any more."""
    try:
        poll = select.poll()
        poll.register(heard, select.POLLIN)
        if poll.poll(LOOK * 1000):
            while True:
                heard.recv(1)
        return heard
    except BlockingIOError:
        return heard
    except OSError:
        return None
