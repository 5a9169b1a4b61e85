"""The program and its commands; each is loaded when it is called."""

from __future__ import annotations

import contextlib
import sys

from cyclopts import App, CycloptsError, Parameter

from .. import __version__
from .exits import CANCELLED, COMPLETED, USAGE, CommandError, complain, forget_stdout

HELP = """A supervisor for LLM agents that cannot run away."""
EPILOGUE = (
    """Exit codes: 0 completed, 1 failed, 2 usage, 3 stopped by watchkeeper, 4 cancelled, 6 handed over to a person."""
)


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
    for name, purpose in (
        ("run", "Give a task to an agent and supervise it."),
        ("demo", "Watch four short runs, or with --real a real small model on this machine. Needs no key."),
        ("replay", "Judge recorded runs: what would have been nudged, blocked and stopped, and when."),
    ):
        app.command(f"watchkeeper.cli.{name}:{name}", name=name, help=purpose)
    return app


def start(arguments: list[str]) -> int:
    """Run the command that the arguments name; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = application()(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        complain(f"{' '.join(str(error).split())} (watchkeeper --help says more)")
        return USAGE
    except CommandError as error:
        complain(str(error))
        return error.code
    except BrokenPipeError:
        forget_stdout()
        return CANCELLED
    except KeyboardInterrupt:
        complain("interrupted")
        return CANCELLED
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        complain("interrupted")
        return CANCELLED
    return code if isinstance(code, int) else COMPLETED
