"""The commands as cyclopts parses them; each is loaded when it is called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cyclopts import App, CycloptsError, Group, Parameter, UnusedCliTokensError

from .. import __version__
from .commands import COMMANDS, EPILOGUE, GROUPS, HELP, NAMES, OTHERS, RECORDS, RUNS, SERVICE
from .exits import CommandError


def run(arguments: list[str]) -> object:
    """What the command that the arguments name returns. Raises :class:`CommandError` for wrong usage."""
    try:
        return application()(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        told = _left_over(error.unused_tokens) if isinstance(error, UnusedCliTokensError) else str(error)
        raise CommandError(f"{told} ({' '.join(_called(arguments))} --help says more)") from error


def _left_over(words: Sequence[str] | None) -> str:
    named = ", ".join(map(repr, words or ()))
    return f"nothing here takes {named}: a text of several words needs quotes, and each option its name"


def _called(arguments: list[str]) -> tuple[str, ...]:
    return ("watchkeeper", *(name for name in arguments[:1] if name in NAMES))


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
    lists = {name: Group(name, sort_key=place) for place, name in enumerate((RUNS, SERVICE, RECORDS, OTHERS))}
    _add(app, COMMANDS, lists)
    for name, list_of_help, purpose, commands in GROUPS:
        group = App(name=name, help=purpose, group=lists[list_of_help])
        _add(group, commands, {})
        app.command(group)
    return app


def _add(app: App, commands: Iterable[tuple[str, str, str, str, str]], lists: dict[str, Group]) -> None:
    for name, module, list_of_help, purpose, epilogue in commands:
        path = f"watchkeeper.cli.{module}:{name}"
        app.command(path, name=name, help=purpose, help_epilogue=epilogue, group=lists.get(list_of_help))
