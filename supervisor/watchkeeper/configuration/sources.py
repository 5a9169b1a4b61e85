"""Where settings come from: a TOML file, the environment, the command line; each a table with places."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..cli.places import line_of
from ..profiles import Limits
from .given import meant
from .schema import AgentSettings, LogSettings, OtelSettings, ServiceSettings

PREFIX = "WATCHKEEPER_"
COMMAND_LINE = "the command line"
MAX_BYTES = 1 << 20
OTHERS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("CONFIG", "URL", "TOKEN", "TOKEN_KEY", "CALL", "WORKER", "LINE", "STACKS"),
        *("MODEL_PYTHON", "DATA", "REAL_MODEL", "PROPERTIES"),  # of the scripts and the tests
    )
)
"""Variables with our prefix that are no settings."""
STATE = f"{PREFIX}STATE"
"""The variable for ``service.state``, which programs read that read no configuration."""
_AT = re.compile(r" \(at line (\d+), column \d+\)")


class Source(msgspec.Struct, frozen=True):
    """A table, who says of a key where it stands, and the folder that its paths are relative to."""

    table: dict[str, Any]
    place: Callable[[str], str]
    folder: Path | None = None


class Unreadable(Exception):
    """A source that cannot be read; the message names it and the remedy."""


def files_of(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that are read unless one is named: that of ``WATCHKEEPER_CONFIG`` alone, else
    ``/etc/watchkeeper/config.toml`` and ``$XDG_CONFIG_HOME/watchkeeper/config.toml`` (``~/.config/…``), as far as they
    are there; the second has the last word. A file in the current folder is not taken: it may be somebody else's."""
    if named := environ.get(f"{PREFIX}CONFIG"):
        return (Path(named),)
    home = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME') or os.path.expanduser('~')}/.config"
    both = (Path("/etc/watchkeeper/config.toml"), Path(home, "watchkeeper", "config.toml"))
    return tuple(path for path in both if path.is_file())


def from_file(path: Path) -> Source:
    """Raises :class:`Unreadable`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise Unreadable(f"{path}: longer than {MAX_BYTES >> 20} MB, which is no configuration")
        text = data.decode("utf-8-sig")
        table = tomllib.loads(text)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise Unreadable(f"{path}: {why}; name a TOML file that can be read") from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path}: not text in UTF-8: {error}") from error
    except (ValueError, RecursionError) as error:
        at = _AT.search(str(error))
        raise Unreadable(f"{path}{f':{at[1]}' if at else ''}: not TOML: {_AT.sub('', str(error))}") from error

    def place(key: str) -> str:
        line = line_of(text, key)
        return f"{path}:{line}" if line else str(path)

    return Source(table, place, path.absolute().parent)


def from_environment(environ: Mapping[str, str], agents: Iterable[str]) -> tuple[list[Source], list[str]]:
    """A source for each variable, and what is wrong with the others. ``agents``: those that files have named."""
    known, kinds = variables(agents), known_kinds()
    sources, problems = [], []
    for name in sorted(name for name in environ if name.startswith(PREFIX) and name not in OTHERS):
        settings = known.get(name, [])
        if len(settings) == 1:
            sources.append(_nested(settings[0], _parsed(environ[name], kinds[_plain(settings[0])]), name))
        elif settings:
            keys = " and ".join(".".join(one) for one in settings)
            problems.append(f"{name}: stands for {keys}; rename one of the agents, or say it in a file")
        else:
            names = tuple(one.removeprefix(PREFIX) for one in known)
            hint = meant(
                name.removeprefix(PREFIX), names, PREFIX
            ) or "; agents are declared in a file" * name.startswith(f"{PREFIX}AGENTS_")
            problems.append(f"{name}: there is no such setting{hint}; unset it")
    return sources, problems


def from_command_line(overrides: Mapping[str, Any]) -> list[Source]:
    """``overrides``: values by dotted key, such as ``service.workers``; None: not given."""
    given = {key: value for key, value in overrides.items() if value is not None}
    return [_nested(tuple(key.split(".")), value, COMMAND_LINE) for key, value in given.items()]


def variables(agents: Iterable[str]) -> dict[str, list[tuple[str, ...]]]:
    """The settings that each environment variable stands for: one, unless names of agents are all too alike."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for key in known_kinds():
        for path in [("agents", name, *key[2:]) for name in agents] if key[0] == "agents" else [key]:
            name = STATE if key == ("service", "state") else PREFIX + re.sub(r"\W", "_", "_".join(path)).upper()
            found.setdefault(name, []).append(path)
    return found


def known_kinds() -> dict[tuple[str, ...], Any]:
    """The type of every setting that a variable can stand for, by its path; the name of an agent is ``*`` there."""
    found: dict[tuple[str, ...], Any] = {("policy", "file"): str}
    for path, kind in (
        (("service",), ServiceSettings),
        (("limits",), Limits),
        (("agents", "*"), AgentSettings),
        (("agents", "*", "limits"), Limits),
        (("log",), LogSettings),
        (("otel",), OtelSettings),
    ):
        _collect(found, path, kind)
    found.pop(("agents", "*", "limits"))
    return found


def _collect(found: dict[tuple[str, ...], Any], path: tuple[str, ...], kind: type[msgspec.Struct]) -> None:
    for field in msgspec.structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            _collect(found, (*path, field.encode_name), field.type)
        else:
            found[(*path, field.encode_name)] = field.type


def _plain(path: tuple[str, ...]) -> tuple[str, ...]:
    return ("agents", "*", *path[2:]) if path[0] == "agents" else path


def _parsed(text: str, kind: Any) -> Any:
    """What a variable says: a text as it is, a list of names with commas, all else as TOML would have it."""
    if kind is str or "Literal" in str(kind):
        return text
    if "tuple" in str(kind) and not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _nested(path: tuple[str, ...], value: Any, origin: str) -> Source:
    for name in reversed(path):
        value = {name: value}
    return Source(value, lambda key: origin)
