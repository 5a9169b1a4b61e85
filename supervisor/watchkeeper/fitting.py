"""Values that drifted from their types, converted where that loses nothing; otherwise every problem with its path."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import json
import re
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from . import jsontext

MAX_PROBLEMS = 12
MAX_TEXT = 300
"""Characters of one problem."""
MAX_CONVERTED = 1000
"""Drifted values in one call that are converted; what drifts more often is not arguments any more."""
SHOWN = 60

T = typing.TypeVar("T")


class Problem(msgspec.Struct, frozen=True, gc=False):
    """One thing that is wrong: where (a path such as ``lines[2].text``), and what was expected."""

    path: str
    text: str


def fit(value: Any, wanted: type[T], noun: str = "parameter") -> tuple[T, bool] | tuple[Problem, ...]:
    """``value`` (out of JSON) as a ``wanted`` and whether anything had to be converted, or all that is wrong with it.
    ``noun``: what its members are called.

    Converted is only what says the same in another type: ``"3"`` and ``3.0`` for an integer, ``"true"`` for a boolean,
    a string of JSON for a list or an object, and null for what may be left out. Strings are never made of anything.
    """
    try:
        return msgspec.convert(value, wanted, str_keys=True), False
    except (msgspec.ValidationError, RecursionError):
        pass
    fitting = _Fitting(noun)
    try:
        fitted = fitting.fit(value, wanted, "")
        if not fitting.problems:
            return msgspec.convert(fitted, wanted, str_keys=True), True
    except msgspec.ValidationError as error:
        fitting.problem("", _plain(error))
    except RecursionError:
        fitting.problem("", "the values are nested too deeply")
    return tuple(fitting.problems[:MAX_PROBLEMS])


class _Field(NamedTuple):
    name: str
    type: Any
    required: bool


class _Fitting:
    """One attempt: what is wrong so far, and how much has been converted."""

    def __init__(self, noun: str) -> None:
        self.problems: list[Problem] = []
        self.converted = 0
        self._noun = noun

    def problem(self, path: str, text: str) -> None:
        self.problems.append(Problem(_cut(path, 120), _cut(text, MAX_TEXT)))

    def fit(self, given: Any, wanted: Any, path: str) -> Any:
        """The value as it fits, or as it is, with the problems noted."""
        try:
            msgspec.convert(given, wanted, str_keys=True)
        except msgspec.ValidationError as error:
            wrong = error
        else:
            return given
        if len(self.problems) >= MAX_PROBLEMS:
            return given
        inside = given
        for other in self._others(given):
            if self._fits(other, wanted):
                self.converted += 1
                return other
            if isinstance(other, dict | list):
                inside = other  # what is wrong is in there
        before = len(self.problems)
        inner = self._inside(inside, _bare(wanted), path)
        if len(self.problems) > before:
            return given
        if inner is not None and self._fits(inner, wanted):
            return inner
        self.problem(path, _wrong(wrong, given, wanted))
        return given

    def _others(self, given: Any) -> Iterable[Any]:
        """The same in other types, where it is the same."""
        if self.converted >= MAX_CONVERTED:
            return
        if isinstance(given, str) and given and given == given.strip():
            try:
                value = jsontext.decode(given)
            except jsontext.NotJSON:
                return
            if not isinstance(value, str):
                yield value
                yield from self._others(value)
        elif isinstance(given, float) and given.is_integer() and abs(given) < 2**53:
            yield int(given)

    def _fits(self, value: Any, wanted: Any) -> bool:
        try:
            msgspec.convert(value, wanted, str_keys=True)
        except (msgspec.ValidationError, RecursionError):
            return False
        return True

    def _inside(self, given: Any, wanted: Any, path: str) -> Any:
        """The list or object with each part fitted; None if it is none or its parts have no types of their own."""
        arguments = typing.get_args(wanted)
        origin = typing.get_origin(wanted)
        if origin in (types.UnionType, typing.Union):
            return self._alternative(given, [one for one in arguments if one is not type(None)], path)
        if isinstance(given, list):
            return self._items(given, origin, arguments, path)
        if not isinstance(given, dict):
            return None
        if origin in (dict, Mapping) and len(arguments) == 2:
            return {key: self.fit(value, arguments[1], at(path, key)) for key, value in given.items()}
        fields = _fields(wanted)
        return None if fields is None else self._members(given, fields, _forbids(wanted), path)

    def _alternative(self, given: Any, alternatives: list[Any], path: str) -> Any:
        """The first alternative that it can be made to fit; what is wrong with it if only one is of its kind."""
        if isinstance(given, dict | list):
            alternatives = [one for one in alternatives if _kind(one) is type(given)]
        for wanted in alternatives:
            attempt = _Fitting(self._noun) if len(alternatives) > 1 else self
            before = len(attempt.problems)
            fitted = attempt.fit(given, wanted, path)
            if len(attempt.problems) == before:
                return fitted
        return None

    def _items(self, given: list[Any], origin: Any, arguments: tuple[Any, ...], path: str) -> Any:
        if origin is tuple and (len(arguments) != 2 or arguments[1] is not ...):
            if len(arguments) != len(given):
                return None
            return [self.fit(item, arguments[i], f"{path}[{i}]") for i, item in enumerate(given)]
        if not arguments or not isinstance(origin, type) or not issubclass(origin, Collection):
            return None
        return [self.fit(item, arguments[0], f"{path}[{i}]") for i, item in enumerate(given)]

    def _members(self, given: dict[str, Any], fields: Sequence[_Field], closed: bool, path: str) -> Any:
        known = {field.name: field for field in fields}
        fitted: dict[str, Any] = {}
        for key, value in given.items():
            field = known.get(key)
            if field is None:
                if closed:
                    self.problem(at(path, key), f"unknown {self._noun}{_meant(key, known, self._noun)}")
                else:
                    fitted[key] = value
            elif value is None and not field.required and not self._fits(None, field.type):
                self.converted += 1  # null for what may be left out: it is left out
            else:
                fitted[key] = self.fit(value, field.type, at(path, key))
        for field in fields:
            if field.required and field.name not in given:
                self.problem(at(path, field.name), f"missing; expected {expected(field.type)}")
        return fitted


def _fields(wanted: Any) -> list[_Field] | None:
    """The members of a type that is made of named ones; None for other types."""
    if not isinstance(wanted, type):
        return None
    if issubclass(wanted, msgspec.Struct):
        config = wanted.__struct_config__
        if config.array_like or config.tag is not None:
            return None
        return [_Field(field.encode_name, field.type, field.required) for field in msgspec.structs.fields(wanted)]
    if dataclasses.is_dataclass(wanted):
        hints = typing.get_type_hints(wanted, include_extras=True)
        return [_Field(field.name, hints[field.name], _has_no_default(field)) for field in dataclasses.fields(wanted)]
    if typing.is_typeddict(wanted):
        required: frozenset[str] = getattr(wanted, "__required_keys__", frozenset())
        hints = typing.get_type_hints(wanted, include_extras=True)
        return [_item(name, hint, name in required) for name, hint in hints.items()]
    return None


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _forbids(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, msgspec.Struct) and _config(wanted).forbid_unknown_fields


def _config(wanted: type[msgspec.Struct]) -> Any:
    return wanted.__struct_config__


def _kind(wanted: Any) -> type | None:
    """``list`` or ``dict`` if that is what the type looks like in JSON."""
    plain = _bare(wanted)
    origin = typing.get_origin(plain) or plain
    if not isinstance(origin, type) or issubclass(origin, str | bytes):
        return None
    if issubclass(origin, Mapping) or _fields(plain) is not None:
        return dict
    return list if issubclass(origin, Collection) else None


def _bare(wanted: Any) -> Any:
    return typing.get_args(wanted)[0] if typing.get_origin(wanted) is typing.Annotated else wanted


def _item(name: str, hint: Any, required: bool) -> _Field:
    marked = typing.get_origin(hint) in (typing.Required, typing.NotRequired)
    inner = typing.get_args(hint)[0] if marked else hint
    return _Field(name, inner, required and typing.get_origin(hint) is not typing.NotRequired)


# -- words ----------------------------------------------------------------------------------------------------------

_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "a boolean",
    "null": "null",
    "array": "a list",
    "object": "an object",
    "bytes": "a string of base64",
    "any": "a value",
    "datetime": "a date and time such as 2030-01-31T12:00:00Z",
    "date": "a date such as 2030-01-31",
}
_KINDS = {int: "int", float: "float", str: "str", bool: "bool", type(None): "null", list: "array", dict: "object"}
_CODE = re.compile(r"`([^`]*)`")


def expected(wanted: Any) -> str:
    """What a type wants, in words."""
    described = ""
    if typing.get_origin(wanted) is typing.Annotated:
        notes = [note.description for note in wanted.__metadata__ if isinstance(note, msgspec.Meta)]
        described = next((f" ({note})" for note in notes if note), "")
    plain = _bare(wanted)
    origin, arguments = typing.get_origin(plain), typing.get_args(plain)
    if (options := _options(plain)) is not None:
        text = f"one of {', '.join(options)}" if len(options) > 1 else options[0]
    elif origin in (types.UnionType, typing.Union):
        text = " or ".join(expected(one) for one in arguments)
    elif isinstance(plain, type) and (fields := _fields(plain)):
        text = f"an object with {', '.join(field.name for field in fields)}"
    elif (kind := _kind(plain)) is not None:
        text = _WORDS[_KINDS[kind]]
    else:
        text = _WORDS.get(_KINDS.get(plain) or getattr(plain, "__name__", "any").lower(), "a value")
    return text + described


def _options(wanted: Any) -> list[str] | None:
    """The values of a Literal or an Enum, as JSON."""
    if typing.get_origin(wanted) is typing.Literal:
        return [json.dumps(one) for one in typing.get_args(wanted)]
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return [json.dumps(one.value, default=str) for one in wanted]
    return None


def _wrong(error: Exception, given: Any, wanted: Any) -> str:
    kind = _WORDS[_KINDS[type(given)]]
    got = kind if isinstance(given, dict | list | None) else f"{kind} ({_shown(given)})"
    if _options(_bare(wanted)) is not None or " - at `$" in str(error):
        return f"expected {expected(wanted)}, got {got}"
    return f"{_plain(error).partition(', got ')[0]}, got {got}"


def _plain(error: Exception) -> str:
    """The words of msgspec in those of JSON, without its path."""
    text = str(error).partition(" - at `")[0]

    def word(match: re.Match[str]) -> str:
        parts = match.group(1).split(" | ")
        if all(part in _WORDS for part in parts):
            return " or ".join(_WORDS[part] for part in parts)
        return repr(match.group(1))

    text = _CODE.sub(word, text)
    return text[:1].lower() + text[1:]


def _shown(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=True, default=str), SHOWN)


def _meant(key: str, known: Mapping[str, _Field], noun: str) -> str:
    near = difflib.get_close_matches(key[:SHOWN], known, 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; the {noun}s are {', '.join(known)}" if known else f"; there are no {noun}s"


def at(path: str, key: object) -> str:
    """The path of a member."""
    name = _cut(ascii(str(key))[1:-1], SHOWN)
    return f"{path}.{name}" if path else name


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
