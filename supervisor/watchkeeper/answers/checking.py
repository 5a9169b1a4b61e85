"""A value held against a schema that has been read: what is wrong with it, and where."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from ..fitting import MAX_PROBLEMS, Problem, at

if TYPE_CHECKING:
    from .schema import Schema

Json = dict[str, Any]

MAX_STEPS = 100_000
"""Parts of a schema that are held against parts of one value; beyond it the value does not pass."""
MATCHED = 10_000
"""Characters of a text that a pattern is looked for in; a longer one does not pass."""
SHOWN = 60

TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: is_number(value) and value == int(value)),
    "number": ("a number", lambda value: is_number(value)),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "null": ("null", lambda value: value is None),
    "array": ("a list", lambda value: isinstance(value, list)),
    "object": ("an object", lambda value: isinstance(value, dict)),
}
FORMATS: dict[str, tuple[str, Any]] = {
    "date-time": ("a date and time such as 2030-01-31T12:00:00Z", datetime),
    "date": ("a date such as 2030-01-31", date),
    "time": ("a time such as 12:00:00Z", time),
    "uuid": ("a UUID", UUID),
}


class TooMuch(Exception):
    """Raised when holding a value against a schema would take too long."""


class Checking:
    """One value held against a schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._steps = 0
        self.problems: list[Problem] = []

    def wrong(self, path: str, text: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(path[:120], text[:300]))

    def check(self, value: Any, schema: Any, path: str) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TooMuch
        if isinstance(schema, bool):
            if not schema:
                self.wrong(path, "nothing may stand here")
            return
        if (reference := schema.get("$ref")) is not None:
            self.check(value, self._schema.target(reference), path)
        if not self._kind(value, schema, path):
            return
        if isinstance(value, dict):
            self._object(value, schema, path)
        elif isinstance(value, list):
            self._list(value, schema, path)
        elif isinstance(value, str):
            self._text(value, schema, path)
        elif is_number(value):
            self._number(value, schema, path)
        for one in schema.get("allOf", ()):
            self.check(value, one, path)
        self._alternatives(value, schema, path)

    def _kind(self, value: Any, schema: Json, path: str) -> bool:
        """Whether it is of the type and among the values; if not, the rest says nothing more."""
        asked = schema.get("type")
        named = [asked] if isinstance(asked, str) else asked or []
        if named and not any(TYPES[one][1](value) for one in named):
            words = " or ".join(TYPES[one][0] for one in named)
            if named == ["object"] and "properties" in schema:
                words += f" with {', '.join(schema['properties'])}"
            self.wrong(path, f"expected {words}, got {_got(value)}")
            return False
        among = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if among is not None and not any(_same(value, one) for one in among):
            shown = ", ".join(json.dumps(one) for one in among)
            self.wrong(path, f"expected {'one of ' if len(among) > 1 else ''}{shown}, got {_got(value)}")
            return False
        if "const" in schema and not _same(value, schema["const"]):
            self.wrong(path, f"expected {json.dumps(schema['const'])}, got {_got(value)}")
            return False
        return True

    def _object(self, value: Json, schema: Json, path: str) -> None:
        known = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                self.wrong(at(path, name), f"missing; expected {_wanted(known.get(name, True))}")
        others = schema.get("additionalProperties", True)
        for name, part in value.items():
            if name in known:
                self.check(part, known[name], at(path, name))
            elif others is False:
                listed = f"; the fields are {', '.join(known)}" if known else ""
                self.wrong(at(path, name), f"unknown field{listed}")
            elif others is not True:
                self.check(part, others, at(path, name))
        self._size(len(value), "Properties", "fields", schema, path)

    def _list(self, value: list[Any], schema: Json, path: str) -> None:
        items = schema.get("items", True)
        for i, part in enumerate(value):
            self.check(part, items, f"{path}[{i}]")
        self._size(len(value), "Items", "items", schema, path)
        if schema.get("uniqueItems"):
            self._steps += len(value)
            seen = {json.dumps(_plain(one), sort_keys=True) for one in value}
            if len(seen) < len(value):
                self.wrong(path, "expected items that are all different")

    def _text(self, value: str, schema: Json, path: str) -> None:
        self._size(len(value), "Length", "characters", schema, path)
        pattern = schema.get("pattern")
        if pattern is not None and (len(value) > MATCHED or not self._schema.pattern(pattern).search(value)):
            self.wrong(path, f"expected a string that matches {pattern}, got {_got(value)}")
        words, kind = FORMATS.get(schema.get("format", ""), ("", None))
        if kind is not None:
            try:
                msgspec.convert(value, kind)
            except msgspec.ValidationError:
                self.wrong(path, f"expected {words}, got {_got(value)}")

    def _number(self, value: float, schema: Json, path: str) -> None:
        for word, told, fits in _LIMITS:
            if word in schema and not fits(value, schema[word]):
                self.wrong(path, f"expected a number {told} {schema[word]}, got {_got(value)}")

    def _size(self, size: int, what: str, noun: str, schema: Json, path: str) -> None:
        least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
        if least is not None and size < least:
            self.wrong(path, f"expected at least {least} {noun}, got {size}")
        if most is not None and size > most:
            self.wrong(path, f"expected at most {most} {noun}, got {size}")

    def _alternatives(self, value: Any, schema: Json, path: str) -> None:
        if "not" in schema and not self._against(value, schema["not"], path):
            self.wrong(path, f"this may not stand here: {_got(value)}")
        for word in ("anyOf", "oneOf"):
            if word not in schema:
                continue
            wrong = [self._against(value, one, path) for one in schema[word]]
            fitting = sum(not one for one in wrong)
            if not fitting:
                near = max(wrong, key=lambda one: max(len(problem.path) for problem in one))
                deeper = any(problem.path != path[:120] for problem in near)
                if deeper or len(wrong) == 1:
                    self.problems.extend(near[: MAX_PROBLEMS - len(self.problems)])
                else:
                    self.wrong(path, f"expected {' or '.join(map(_wanted, schema[word]))}, got {_got(value)}")
            elif word == "oneOf" and fitting > 1:
                self.wrong(path, f"it fits {fitting} of the alternatives, and may fit only one")

    def _against(self, value: Any, schema: Any, path: str) -> list[Problem]:
        """What is wrong with the value by a schema that may not hold."""
        inner = Checking(self._schema)
        inner._steps = self._steps
        inner.check(value, schema, path)
        self._steps = inner._steps
        return inner.problems


_LIMITS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("minimum", "of at least", lambda value, limit: value >= limit),
    ("maximum", "of at most", lambda value, limit: value <= limit),
    ("exclusiveMinimum", "above", lambda value, limit: value > limit),
    ("exclusiveMaximum", "below", lambda value, limit: value < limit),
    ("multipleOf", "that is a multiple of", lambda value, limit: _is_multiple(value, limit)),
)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_multiple(value: float, of: float) -> bool:
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    try:
        parts = value / of
    except OverflowError:
        return False
    return math.isfinite(parts) and abs(parts - round(parts)) < 1e-9 * max(1.0, abs(parts))


def _plain(value: Any) -> Any:
    """Numbers that are the same are written the same."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or not isinstance(one, dict | list):
        return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)
    return json.dumps(_plain(one), sort_keys=True) == json.dumps(_plain(other), sort_keys=True)


def _got(value: Any) -> str:
    kind = next(words for words, fits in TYPES.values() if fits(value))
    if value is None or isinstance(value, dict | list):
        return kind
    text = json.dumps(value)
    return f"{kind} ({text if len(text) <= SHOWN else f'{text[: SHOWN - 3]}...'})"


def _wanted(schema: Any) -> str:
    """What a schema wants, in a few words."""
    if not isinstance(schema, dict):
        return "a value"
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(one) for one in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    asked = schema.get("type")
    named = [asked] if isinstance(asked, str) else asked or []
    words = " or ".join(TYPES[one][0] for one in named) or "a value"
    if named == ["object"] and schema.get("properties"):
        words += f" with {', '.join(schema['properties'])}"
    described = schema.get("description")
    return f"{words} ({described})" if isinstance(described, str) and described else words
