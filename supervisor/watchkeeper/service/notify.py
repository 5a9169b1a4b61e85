"""Says to systemd how the service stands (``sd_notify``, ``WatchdogSec``); says nothing where nobody asked for it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

WAIT = 0.5
"""Seconds that a message may wait for room; a sign of life waits for none, for there is another soon."""


class Notifier:
    """Sends datagrams to ``$NOTIFY_SOCKET``. The protocol is that of sd_notify(3)."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        asked = environ.get("WATCHDOG_USEC", "")
        self.watchdog: float | None = int(asked) / 1e6 if mine and asked.isdecimal() and int(asked) else None
        """Seconds within which systemd wants a sign of life; None: it wants none."""

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}\nMAINPID={os.getpid()}")

    def reloading(self, now: int) -> None:
        """``now``: the monotonic clock in microseconds. To be followed by :meth:`ready`."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now}")

    def stopping(self, status: str) -> None:
        self._send(f"STOPPING=1\nSTATUS={status}")

    def alive(self) -> None:
        self._send("WATCHDOG=1", wait=0.0)

    def _send(self, text: str, wait: float = WAIT) -> None:
        if not self._address.startswith(("/", "@")):
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(wait)
            try:
                sender.sendto(text.encode(), address)
            except OSError:  # nobody listens, or not fast enough: the work goes on
                return
