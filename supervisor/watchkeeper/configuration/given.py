"""What was given by hand, put into settings: everything must be known and of the right type.

What is not is named with its key and what is allowed. Pure.
"""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from ..thresholds import Steps

OFF = "off"
"""Says of what may be left out that it is; TOML has no word for nothing."""
SHARES = frozenset({"remind_at", "finish_at"})
POSITIVE = frozenset(
    {
        *("window", "breaker", "silence", "refuse_equal", "interval", "guard_seconds", "max_turns", "parallel"),
        *("restate_goal", "drift", "workers", "max_runs", "context_window", "first_chunk_timeout"),
    }
)
"""Numbers for which 0 would make no sense."""


class Wrong(Exception):
    """Something in the file cannot be taken; the message names the key."""


def changed(struct: Any, given: dict[str, Any], path: str, also: tuple[str, ...] = ()) -> Any:
    """A copy of a struct with what is given put in; ``also``: other keys that are allowed here."""
    hints = get_type_hints(type(struct))
    changes = {}
    for key, value in given.items():
        where = f"{path}.{key}" if path else key
        if key not in hints:
            raise Wrong(f"{where} is unknown{meant(key, (*hints, *also))}; allowed here: {listed((*hints, *also))}")
        changes[key] = _value(hints[key], getattr(struct, key), value, where)
    return msgspec.structs.replace(struct, **changes)


def _value(kind: Any, before: Any, given: Any, where: str) -> Any:
    if given == OFF and type(None) in get_args(kind):
        return None
    if isinstance(before, Steps) or kind is Steps:
        return steps_given(before, given, where)
    if isinstance(before, msgspec.Struct):
        if not isinstance(given, dict):
            raise Wrong(f"{where} must be a table ([{where}]), not {shown(given)}")
        return changed(before, given, where)
    if isinstance(given, dict) and (struct := _struct_in(kind)) is not None:
        return _made(struct, given, where)
    try:
        value = msgspec.convert(given, kind)
    except msgspec.ValidationError:
        raise Wrong(f"{where} must be {_words(kind)}, not {shown(given)}") from None
    numbers = {f"{where}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {where: value}
    for key, number in numbers.items():
        if isinstance(number, int | float) and not isinstance(number, bool):
            _check_number(key, number)
    return value


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    parts = (kind, *get_args(kind))
    return next((part for part in parts if isinstance(part, type) and issubclass(part, msgspec.Struct)), None)


def _made(struct: type[msgspec.Struct], given: dict[str, Any], where: str) -> Any:
    """A struct of which nothing is there yet."""
    fields = struct.__struct_fields__
    for key in given:
        if key not in fields:
            raise Wrong(f"{where}.{key} is unknown{meant(key, fields)}; allowed here: {listed(fields)}")
    try:
        return msgspec.convert(given, struct)
    except msgspec.ValidationError as error:
        raise Wrong(f"{where}: {error}") from None


def steps_given(before: Steps | None, given: Any, where: str) -> Steps:
    names = Steps.__struct_fields__
    if isinstance(given, list) and len(given) == len(names):
        given = dict(zip(names, given, strict=True))
    elif given == OFF:
        given = dict.fromkeys(names, OFF)
    elif not isinstance(given, dict):
        example = '[3, 5, 8], { nudge = 3, stop = 8 } or "off"'
        raise Wrong(f"{where} must be the counts for {listed(names)}, such as {example}, not {shown(given)}")
    steps: Steps = changed(before or Steps(), given, where)
    counts = [count for count in msgspec.structs.astuple(steps) if count is not None]
    if any(count < 1 for count in counts):
        raise Wrong(f"{where}: counts begin at 1")
    if counts != sorted(counts):
        raise Wrong(f"{where}: {listed(names)} must not fall: they are {', '.join(map(str, counts))}")
    return steps


def _check_number(where: str, value: float) -> None:
    name = where.rpartition(".")[2]
    if not math.isfinite(value) or value < 0 or (name in POSITIVE and value == 0):
        raise Wrong(f"{where} must be {'more than 0' if name in POSITIVE else 'at least 0'}, not {value:g}")
    if name in SHARES and value > 1:
        raise Wrong(f"{where} is a share and must be at most 1, not {value:g}")


def _words(kind: Any) -> str:
    """A type in words."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    if get_origin(kind) in (Union, types.UnionType):
        said = " or ".join(map(_words, parts))
        return f'{said} or "{OFF}"' if type(None) in get_args(kind) else said
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{word}"' for word in get_args(kind))
    if get_origin(kind) is tuple and get_origin(get_args(kind)[0]) is Mapping:
        return 'a table of patterns by argument, such as { path = "notes/*" }, or a list of such tables'
    if get_origin(kind) in (tuple, list, frozenset, set):
        return 'a list of names, such as ["one", "two"]'
    if (struct := _struct_in(kind)) is not None:
        return f"a table with {listed(struct.__struct_fields__)}"
    if get_origin(kind) is dict:
        return "a table of whole numbers, such as { search = 5 }"
    plain = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return plain.get(kind, "something else")


def meant(key: str, known: tuple[str, ...], before: str = "") -> str:
    """The nearest known name, as a question; ``before`` stands before each of them."""
    near = difflib.get_close_matches(key, known, 1)
    return f" (did you mean {before}{near[0]}?)" if near else ""


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
