"""The program: it runs one command, and says how that ended."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable

from . import front
from .exits import CANCELLED, COMPLETED, FAILED, CommandError, complain, forget_stdout, settle_streams, told_of

CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing fails with where the output has no room any more."""
HELP_ASKED: tuple[list[str], ...] = ([], ["--help"], ["-h"])
"""Arguments that ask for the first page of the help."""


def start(arguments: list[str]) -> int:
    """Run the command that the arguments name; the exit code."""
    settle_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except CommandError as error:
        complain(str(error))
        return error.code
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # how rich ends where nobody reads
            forget_stdout()
            return CANCELLED
        complain(told_of(error))
        return FAILED
    except (KeyboardInterrupt, OSError, BaseExceptionGroup) as error:
        ended = _ended_by(error)
        if ended is None:
            raise
        return ended
    return code if isinstance(code, int) else COMPLETED


def _run(arguments: list[str]) -> object:
    """What needs no parsing is done without the parser, which takes longer to load than it does."""
    if arguments in HELP_ASKED and front.can_print():
        front.print_page()
        return COMPLETED
    if arguments == ["ps"]:
        from .listing import list_runs

        return list_runs()
    from .app import run

    return run(arguments)


def _ended_by(error: BaseException) -> int | None:
    """The exit code for an interrupt, and for an output that nobody reads or that has no room; None for all else."""
    if _has(error, lambda one: isinstance(one, KeyboardInterrupt)):
        complain("interrupted")
        return CANCELLED
    if _has(error, lambda one: isinstance(one, BrokenPipeError)):
        forget_stdout()
        return CANCELLED
    if _has(error, lambda one: isinstance(one, OSError) and one.errno in CANNOT_WRITE):
        forget_stdout()
        complain("the output cannot be written: there is no room for it, or its device fails")
        return FAILED
    return None


def _has(error: BaseException, wanted: Callable[[BaseException], bool]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(wanted) is not None
    return wanted(error)
