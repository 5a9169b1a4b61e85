"""The shell tool: one command with its arguments, in a process tree that is ended as a whole."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta

from watchkeeper import Tool, ToolError, ToolOutput, tool

from .process import Command, Ended
from .root import Root, shown

MAX_SECONDS = 600.0
MAX_ARGUMENTS = 1_000
MAX_BYTES = 100_000
"""Bytes of all arguments together, below what systems take in one argument."""
MAX_INPUT = 1_000_000
ALLOWED = ("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TMPDIR", "TERM", "TZ", "USER", "LOGNAME")
"""Environment variables that a command gets, where they are set. Nothing else is inherited."""
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib64", "/lib32")
_SYSTEM_FILES = (
    "alternatives",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "passwd",
    "ssl/certs",
)
_TEMPORARY = "/tmp"  # noqa: S108  (a file system of the sandbox's own, empty and in memory)

Argv = Annotated[
    list[str],
    Meta(min_length=1, max_length=MAX_ARGUMENTS, description="program and arguments, such as ['ls', '-l', 'src']"),
]
Cwd = Annotated[str, Meta(max_length=4096, description="directory to run in, relative to the root directory")]
Seconds = Annotated[float, Meta(gt=0, le=MAX_SECONDS, description="the command is ended after so many seconds")]
Input = Annotated[str, Meta(max_length=MAX_INPUT, description="text for its standard input")]


class Shell:
    """Runs commands with a working directory below a root and an environment of its own."""

    def __init__(self, root: Root, env_allow: Iterable[str] = (), sandbox: Sandbox | None = None) -> None:
        self._root = root
        self._names = (*ALLOWED, *env_allow)
        self._sandbox = sandbox

    async def run_command(self, argv: Argv, cwd: Cwd = ".", seconds: Seconds = 60, stdin: Input = "") -> ToolOutput:
        """Run a program and get its output (stdout and stderr together). There is no shell: for pipes, variables or
        globs use ['sh', '-c', '…']. When it ends, whatever it left running in the background is ended too."""
        _refuse_unusable(argv)
        seconds = seconds if 0 < seconds <= MAX_SECONDS else MAX_SECONDS
        parts = self._root.parts(cwd)
        try:
            with self._root.directory(parts) as directory:
                command = Command(
                    self._sandbox.wrapped(argv, self._root.path, parts) if self._sandbox else argv,
                    directory=directory,
                    environment=self._environment(),
                    seconds=seconds,
                )
                ended = await command.run(_encoded(stdin))
        except FileNotFoundError:
            return self._root.missing(parts)
        if self._sandbox:
            ended.ended = 0  # what is left in a sandbox for a moment is the sandbox itself
        return _told(ended, argv, seconds)

    def _environment(self) -> dict[str, str]:
        given = {name: os.environ[name] for name in self._names if name in os.environ}
        return {"PATH": os.defpath, **given, **({"HOME": self._root.path} if self._sandbox else {})}


class Sandbox:
    """bubblewrap: the system read-only, the root writable, nothing else of the machine, and no network by default.

    Raises :class:`ToolError` where ``bwrap`` is not installed.
    """

    def __init__(self, *, network: bool = False, readable: Iterable[str] = ()) -> None:
        program = shutil.which("bwrap")
        if program is None:
            raise ToolError(
                "a sandbox was asked for, but bubblewrap (bwrap) is not installed",
                hint="install the package bubblewrap, or leave the sandbox out: commands then run with all your rights",
            )
        self._start = [
            program,
            "--unshare-all",
            "--die-with-parent",
            "--new-session",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]
        self._start += [
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--tmpfs",
            _TEMPORARY,
            "--setenv",
            "TMPDIR",
            _TEMPORARY,
            "--ro-bind",
            "/usr",
            "/usr",
        ]
        for path in _SYSTEM:
            link = os.path.islink(path)
            self._start += ["--symlink", os.readlink(path), path] if link else ["--ro-bind-try", path, path]
        for path in (*(f"/etc/{name}" for name in _SYSTEM_FILES), *readable):
            self._start += ["--ro-bind-try", path, path]
        if network:
            self._start += ["--share-net", "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"]

    def wrapped(self, argv: list[str], root: str, cwd: tuple[str, ...]) -> list[str]:
        """The command as one that sets up the sandbox first."""
        return [*self._start, "--bind", root, root, "--chdir", "/".join((root, *cwd)), "--", *argv]


def tools(
    *,
    root: str | os.PathLike[str] = ".",
    env_allow: Iterable[str] = (),
    sandbox: bool = False,
    network: bool = False,
    readable: Iterable[str] = (),
    **_: Any,
) -> list[Tool]:
    """The tool ``run_command``. Commands start in ``root`` or below it.

    Without ``sandbox`` a command may do whatever the user who runs this may: the root is where it starts, not what it
    is confined to. With it (bubblewrap, Linux) it can write only below the root, read only the system's programs and
    ``readable``, and has no network unless ``network``. ``env_allow`` names more environment variables to hand on.

    Raises ``NotADirectoryError`` if the root does not exist, :class:`ToolError` if there is no bubblewrap.
    """
    if sys.platform == "win32":
        raise ToolError("run_command needs a POSIX system")
    shell = Shell(Root(root), env_allow, Sandbox(network=network, readable=readable) if sandbox else None)
    # No effect is declared: what a command touches nobody can tell, nor whether it does more than read.
    return [
        tool(timeout=MAX_SECONDS + 15, dangerous=True, max_output=22_000)(shell.run_command),
    ]


def _told(ended: Ended, argv: list[str], seconds: float) -> ToolOutput:
    """What a model reads of a command that has ended."""
    if ended.errno:
        return _not_started(ended.errno, argv)
    notes, error = _ending(ended, seconds)
    if ended.ended and not (ended.timed_out or ended.flooded):
        notes.append(f"{ended.ended} processes that it left running were ended")
    if ended.left:
        notes.append(f"these processes could not be ended: {', '.join(map(str, ended.left))}")
    elif not ended.sure:
        notes.append("processes that left its process group, if any, may still be running")
    text = ended.output.text()
    if not text and not notes:
        notes.append("no output, exit code 0")
    separator = "\n" if text and not text.endswith("\n") else ""
    content = text + separator + "\n".join(f"[{note}]" for note in notes)
    evidence = {} if ended.status is None else {"exit_code": ended.status}
    return ToolOutput(content, productive=error is None, error=error, evidence=evidence)


def _ending(ended: Ended, seconds: float) -> tuple[list[str], str | None]:
    if ended.timed_out:
        return [f"ended after {seconds:g} seconds: it was not done"], "timeout"
    if ended.flooded:
        return [f"ended after {ended.output.total:,} bytes of output"], "too_much_output"
    if ended.status is None:
        return ["it was stopped from outside; its exit code is not known"], "stopped"
    if ended.status < 0:
        return [f"killed by signal {-ended.status} ({_signal_name(-ended.status)})"], f"signal_{-ended.status}"
    if ended.status > 0:
        return [f"exit code {ended.status}"], f"exit_{ended.status}"
    return [], None


def _not_started(number: int, argv: list[str]) -> ToolOutput:
    program = shown(argv[0])[:200]
    if number == errno.ENOENT:
        text = f"there is no program {program}"
        if len(argv) == 1 and " " in argv[0]:
            text += "; argv is a list of program and arguments, such as ['ls', '-l'], not one line"
        return ToolOutput(text, productive=False, error="not_found")
    raise ToolError(f"{program} cannot be run: {os.strerror(number).lower()}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unnamed"


def _refuse_unusable(argv: list[str]) -> None:
    if not argv or not argv[0]:
        raise ToolError("argv is empty", hint="give a program and its arguments, such as ['ls', '-l']")
    size = sum(len(_encoded(argument)) + 1 for argument in argv)
    if any("\0" in argument for argument in argv):
        raise ToolError("an argument contains a NUL character")
    if len(argv) > MAX_ARGUMENTS or size > MAX_BYTES:
        raise ToolError(
            f"{len(argv):,} arguments of {size:,} bytes are too many; {MAX_ARGUMENTS:,} and {MAX_BYTES:,} are the most",
            hint="write long text to a file, or give it as stdin",
        )


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError("an argument is not valid Unicode text") from None
