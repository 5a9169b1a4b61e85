"""The parent of one command: a small process that can prove that nothing of it is left.

Run as a script: ``reaper.py CONTROL DIRECTORY GRACE PROGRAM ARGUMENTS…``, the first two being descriptors of a socket
and of the directory to work in. It declares itself the reaper of all its descendants (Linux), so that one whose parent
has died is handed to it and not to the system, also after ``setsid`` and a double fork. Only when the kernel says that
it has no child any more (``ECHILD``) is the tree gone. It ends the tree when the command has ended, when the socket's
other end shuts down or dies, or when a signal tells it to, then writes one line of JSON to the socket and exits.

Only the standard library is imported, and little of it: this starts with every command.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

KILL_SECONDS = 2.0
"""How long it goes on killing what does not die."""
LEFTOVER_GRACE = 0.5
"""Seconds between TERM and KILL for what a command that has ended by itself left running."""


class Reaper:
    def __init__(self, control: int, grace: float) -> None:
        self._control = control
        self._grace = grace
        self._stop = False
        self._main: int | None = None
        self._status: int | None = None
        self._wakeup, write_end = os.pipe()
        for end in (self._wakeup, write_end):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self, argv: list[str]) -> str:
        """Start the command, wait for its end or the order to stop, end its tree; a report as JSON."""
        sure = _adopt_descendants()
        try:
            self._main = os.posix_spawnp(
                argv[0], argv, os.environ, setpgroup=0, setsigmask=[], setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
            )
        except OSError as error:
            return f'{{"errno": {error.errno or 0}}}'
        _let_go_of_streams()
        while self._status is None and not self._stop:
            self._wait(None)
            self._reap()
        ended = self._end_all(LEFTOVER_GRACE if self._status is not None else self._grace)
        # Without a child there is no descendant either, if all that are orphaned come to us.
        left = [] if sure and not self._reap() else sorted(self._descendants())
        status = "null" if self._status is None else os.waitstatus_to_exitcode(self._status)
        known = "true" if sure else "false"
        return f'{{"status": {status}, "ended": {ended}, "left": {left}, "sure": {known}}}'

    def _on_stop(self, *_: object) -> None:
        self._stop = True

    def _wait(self, seconds: float | None) -> None:
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        if not self._stop:
            poll.register(self._control, select.POLLIN)
        for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000):
            if descriptor == self._control:
                self._stop = True
            else:
                os.read(self._wakeup, 4096)

    def _reap(self) -> bool:
        """Collect what has died; False if there is nothing left that could."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._main:
                self._status = status

    def _end_all(self, grace: float) -> int:
        """TERM, a grace period, then KILL again and again until nothing is left; how many there were at first."""
        if not self._reap():
            return 0
        count = self._signal_all(signal.SIGTERM, signal.SIGCONT)  # one that is held would not see the first
        deadline = time.monotonic() + grace
        while (left := deadline - time.monotonic()) > 0:
            self._wait(left)
            if not self._reap():
                return count
        deadline = time.monotonic() + KILL_SECONDS
        while time.monotonic() < deadline:
            self._signal_all(signal.SIGKILL)
            self._wait(0.005)
            if not self._reap():
                break
        return count

    def _signal_all(self, *numbers: int) -> int:
        pids = self._descendants()
        for number in numbers:
            for pid in pids:
                try:
                    os.kill(pid, number)
                except OSError:  # gone meanwhile, or not ours to end: then it is reported as left
                    continue
        return len(pids)

    def _descendants(self) -> list[int]:
        """Parents before their children: a shell whose child dies first reports that and not its own end."""
        if not os.path.isdir("/proc/self"):
            return self._group()
        children: dict[int, list[int]] = {}
        for name in os.listdir("/proc"):
            if name.isdecimal() and (parent := _parent(name)) is not None:
                children.setdefault(parent, []).append(int(name))
        found = [os.getpid()]
        for pid in found:
            found.extend(children.pop(pid, ()))
        return found[1:]

    def _group(self) -> list[int]:
        """Without /proc: the command's process group, named by a negative number."""
        try:
            os.kill(-(self._main or 0), 0)
        except OSError:
            return []
        return [-(self._main or 0)]


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[1]) if len(fields) > 1 else None


def _adopt_descendants() -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    set_child_subreaper = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>
    return ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0) == 0 and os.path.isdir("/proc/self")


def _let_go_of_streams() -> None:
    """The streams are the command's: a reader must see their end when the command is gone, not when we are."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def main() -> None:
    control, directory = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(control, False)
    os.fchdir(directory)
    os.close(directory)
    report = Reaper(control, float(sys.argv[3])).run(sys.argv[4:])
    try:
        os.write(control, report.encode())
    except OSError:  # nobody is there to read it
        os._exit(1)
    os._exit(0)  # at once: whoever cancels waits for this process


if __name__ == "__main__":
    main()
