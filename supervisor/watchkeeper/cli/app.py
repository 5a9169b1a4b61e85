"""The program and its commands; each is loaded when it is called."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable

from cyclopts import App, CycloptsError, Parameter

from .. import __version__
from .exits import CANCELLED, COMPLETED, FAILED, USAGE, CommandError, complain, forget_stdout, settle_streams, told_of

HELP = """A supervisor for LLM agents that cannot run away."""
EPILOGUE = (
    """Exit codes: 0 completed, 1 failed, 2 usage, 3 stopped by watchkeeper, 4 cancelled, 6 handed over to a person."""
)
OF_RECORDING = "Exit codes: 0 ended by Ctrl-C, 1 not all could be recorded, 2 usage."
OF_RECORDINGS = (
    "Exit codes: 0 all was read and judged, 1 something could not be read, a detector failed, or there was no run (or "
    "none that passes the filters), 2 usage, 4 interrupted, or nobody reads the output."
)
OF_CASE = (
    "Exit codes: 0 the test is made, 1 something could not be read or written, or a detector failed, 2 usage, or no "
    "such run or call, 4 interrupted, or nobody reads the output."
)
OF_BENCH = "Exit codes: 0 all was measured, 1 something could not be, 2 usage, 4 interrupted."
OF_CONFIG = "Exit codes: 0 the configuration can be taken, 2 usage, 78 it cannot."

COMMANDS = frozenset({"run", "record", "demo", "replay", "stats", "bench", "case", "config"})
CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing fails with where the output has no room any more."""


def application() -> App:
    app = App(
        name="watchkeeper",
        help=HELP,
        help_epilogue=EPILOGUE,
        help_format="plaintext",  # markdown would take half the time of --help to load
        version=__version__,
        default_parameter=Parameter(negative=(), show_default=False),
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for name, purpose, epilogue in (
        ("run", "Give a task to an agent and supervise it.", EPILOGUE),
        ("record", "Record what an agent that is not ours and its model say to each other.", OF_RECORDING),
        ("demo", "Watch four short runs, or with --real a real small model on this machine. Needs no key.", EPILOGUE),
        ("replay", "Judge recorded runs: what would have been nudged, blocked and stopped, and when.", OF_RECORDINGS),
        ("stats", "Say what recorded runs did: calls, repeats, failures, and what each rule saw.", OF_RECORDINGS),
        ("bench", "Measure the overhead on this machine, beside raw controls and other runtimes.", OF_BENCH),
        ("case", "Make a failing test of a recorded run and what should have been done in it.", OF_CASE),
    ):
        app.command(f"watchkeeper.cli.{name}:{name}", name=name, help=purpose, help_epilogue=epilogue)
    config = App(name="config", help="Look at the configuration of service and agents.", help_epilogue=OF_CONFIG)
    for name, purpose in (
        ("check", "Look whether the configuration can be taken, and its agents can be made."),
        ("show", "Show every setting as it counts."),
    ):
        config.command(f"watchkeeper.cli.config:{name}", name=name, help=purpose, help_epilogue=OF_CONFIG)
    app.command(config)
    return app


def start(arguments: list[str]) -> int:
    """Run the command that the arguments name; the exit code."""
    settle_streams()
    try:
        code = application()(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        complain(f"{' '.join(str(error).split())} ({' '.join(_called(arguments))} --help says more)")
        return USAGE
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


def _called(arguments: list[str]) -> tuple[str, ...]:
    return ("watchkeeper", *(name for name in arguments[:1] if name in COMMANDS))


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
