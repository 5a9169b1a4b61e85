"""A JSON schema as a check: a part of the language, and no schema with a word outside of it.

A library for all of it would be one more dependency, and its errors are not written for a model. What is not checked
here is refused where the schema is read, so that nothing passes because nobody looked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from typing import Any
from uuid import UUID

import msgspec

from ..errors import ConfigurationError
from ..fitting import MAX_PROBLEMS, Problem, at

Json = dict[str, Any]

MAX_STEPS = 100_000
"""Parts of a schema that are held against parts of one value; beyond it the value does not pass."""
MAX_NESTED = 100
"""Levels of a schema within a schema."""
MATCHED = 10_000
"""Characters of a text that a pattern is looked for in; a longer one does not pass."""
SHOWN = 60

_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: _is_number(value) and value == int(value)),
    "number": ("a number", lambda value: _is_number(value)),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "null": ("null", lambda value: value is None),
    "array": ("a list", lambda value: isinstance(value, list)),
    "object": ("an object", lambda value: isinstance(value, dict)),
}
_FORMATS: dict[str, tuple[str, Any]] = {
    "date-time": ("a date and time such as 2030-01-31T12:00:00Z", datetime),
    "date": ("a date such as 2030-01-31", date),
    "time": ("a time such as 12:00:00Z", time),
    "uuid": ("a UUID", UUID),
}
_DEFINITIONS = ("$defs", "definitions")
_NOTES = frozenset(("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")) | {
    *("$comment", "$schema", "$id", *_DEFINITIONS)
}
"""Words that say something to people and ask nothing of a value."""
_SCHEMAS = frozenset(("items", "additionalProperties", "not"))
"""Words whose value is a schema."""
_LISTS = frozenset(("anyOf", "oneOf", "allOf"))
"""Words whose value is a list of schemas for the same value."""
_COUNTS = frozenset(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"))
_BOUNDS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
CHECKED = sorted(
    _SCHEMAS
    | _LISTS
    | _COUNTS
    | _BOUNDS
    | {"type", "enum", "const", "properties", "required", "uniqueItems", "pattern", "format", "$ref"}
)
"""The words that are checked."""


class Schema:
    """A schema that has been read whole.

    Raises :class:`ConfigurationError` for a word that is not checked here, a value that no schema has, a reference that
    leads nowhere, out of the schema or back to itself, and a pattern that is none; it names the place.
    """

    def __init__(self, schema: object) -> None:
        if not isinstance(schema, Mapping):
            raise ConfigurationError(f"a JSON schema is an object, not {type(schema).__name__}")
        try:
            self.root: Json = json.loads(json.dumps(schema, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"the JSON schema is not plain JSON: {error}") from None
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._schemas: dict[int, tuple[str, Json]] = {}
        """Every schema that was read, by identity, with its place."""
        self._read(self.root, "#", 0)
        for name in _DEFINITIONS:
            for key, one in self._members(self.root.get(name, {}), f"#/{name}").items():
                self._read(one, f"#/{name}/{key}", 1)
        for where, one in self._schemas.values():
            self._check_reference(one, where)
        for where, one in self._schemas.values():
            self._no_circle(one, where)

    def problems(self, value: Any) -> tuple[Problem, ...]:
        """What is wrong with a value out of JSON, at most :data:`MAX_PROBLEMS`, each with its path; none: it fits."""
        checking = _Checking(self)
        try:
            checking.check(value, self.root, "")
        except (_TooMuch, RecursionError):
            return (Problem("", "the value is too large to be checked; send a shorter one"),)
        return tuple(checking.problems[:MAX_PROBLEMS])

    def pattern(self, text: str) -> re.Pattern[str]:
        return self._patterns[text]

    def target(self, reference: str) -> Any:
        """What a reference points to. Raises ``LookupError``."""
        if not reference.startswith("#"):
            raise LookupError(reference)
        found: Any = self.root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict):
                raise LookupError(reference)
            found = found[key]
        return found

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, schema: Any, where: str, depth: int) -> None:
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise self._wrong(where, f"a schema is an object or true or false, not {json.dumps(schema)[:SHOWN]}")
        if depth > MAX_NESTED:
            raise self._wrong(where, f"it is nested more than {MAX_NESTED} levels deep")
        self._schemas[id(schema)] = where, schema
        for word, asked in schema.items():
            self._word(word, asked, f"{where}/{word}", depth)

    def _word(self, word: str, asked: Any, where: str, depth: int) -> None:
        if word in _NOTES:
            if word in _DEFINITIONS and where.count("/") > 1:
                raise self._wrong(where, "definitions are read at the root only; move them there")
        elif word in _SCHEMAS:
            self._read(asked, where, depth + 1)
        elif word in _LISTS:
            if not isinstance(asked, list) or not asked:
                raise self._wrong(where, "it takes a list of schemas")
            for i, one in enumerate(asked):
                self._read(one, f"{where}/{i}", depth + 1)
        elif word == "properties":
            for key, one in self._members(asked, where).items():
                self._read(one, f"{where}/{key}", depth + 1)
        elif word == "$ref":
            if not isinstance(asked, str):
                raise self._wrong(where, "it takes a text")
        elif (wrong := self._plain(word, asked)) is not None:
            raise self._wrong(where, wrong)

    def _plain(self, word: str, asked: Any) -> str | None:
        """What is wrong with a word that holds no schema."""
        if word in _COUNTS:
            return None if _is_number(asked) and asked == int(asked) and asked >= 0 else "it takes a whole number"
        if word in _BOUNDS:
            good = _is_number(asked) and (word != "multipleOf" or asked > 0)
            return None if good else "it takes a number" + (" above 0" if word == "multipleOf" else "")
        if word == "type":
            named = asked if isinstance(asked, list) else [asked]
            good = bool(named) and all(isinstance(one, str) and one in _TYPES for one in named)
            return None if good else f"it takes one or more of {', '.join(_TYPES)}"
        if word == "required":
            good = isinstance(asked, list) and all(isinstance(one, str) for one in asked)
            return None if good else "it takes a list of names"
        if word == "enum":
            return None if isinstance(asked, list) and asked else "it takes a list of values"
        if word == "uniqueItems":
            return None if isinstance(asked, bool) else "it takes true or false"
        if word == "format":
            good = isinstance(asked, str) and asked in _FORMATS
            return None if good else f"the formats that are checked are {', '.join(_FORMATS)}"
        if word == "pattern":
            return self._compiled(asked)
        if word == "const":
            return None
        return f"it is not checked here; what is checked is {', '.join(CHECKED)}"

    def _compiled(self, asked: Any) -> str | None:
        try:
            self._patterns[asked] = re.compile(asked)
        except (re.error, TypeError, RecursionError) as error:
            return f"the pattern cannot be read: {error}"
        return None

    def _check_reference(self, schema: Json, where: str) -> None:
        reference = schema.get("$ref", "#")
        try:
            found = self.target(reference)
        except LookupError:
            found = None
        if not isinstance(found, bool) and id(found) not in self._schemas:
            shown = json.dumps(reference)[:SHOWN]
            raise self._wrong(f"{where}/$ref", f"{shown} is no schema in here; others are not looked up")

    def _members(self, asked: Any, where: str) -> Json:
        if not isinstance(asked, dict):
            raise self._wrong(where, "it takes an object with a schema for each name")
        return asked

    def _no_circle(self, start: Json, where: str) -> None:
        """A schema that says of a value only that it is what the schema says would be checked for ever."""
        open_, seen = [start], set[int]()
        while open_:
            for one in self._same_value(open_.pop()):
                if one is start:
                    raise self._wrong(where, "it leads back to itself without a step into the value")
                if id(one) not in seen:
                    seen.add(id(one))
                    open_.append(one)

    def _same_value(self, schema: Json) -> Iterator[Json]:
        """The schemas that hold for the very same value."""
        if isinstance(reference := schema.get("$ref"), str):
            yield from (one for one in [self.target(reference)] if isinstance(one, dict))
        for word in _LISTS & schema.keys():
            yield from (one for one in schema[word] if isinstance(one, dict))
        if isinstance(schema.get("not"), dict):
            yield schema["not"]

    @staticmethod
    def _wrong(where: str, what: str) -> ConfigurationError:
        return ConfigurationError(f"the JSON schema cannot be used, at {where}: {what}")


class _TooMuch(Exception):
    pass


class _Checking:
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
            raise _TooMuch
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
        elif _is_number(value):
            self._number(value, schema, path)
        for one in schema.get("allOf", ()):
            self.check(value, one, path)
        self._alternatives(value, schema, path)

    def _kind(self, value: Any, schema: Json, path: str) -> bool:
        """Whether it is of the type and among the values; if not, the rest says nothing more."""
        asked = schema.get("type")
        named = [asked] if isinstance(asked, str) else asked or []
        if named and not any(_TYPES[one][1](value) for one in named):
            words = " or ".join(_TYPES[one][0] for one in named)
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
        words, kind = _FORMATS.get(schema.get("format", ""), ("", None))
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
        inner = _Checking(self._schema)
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


def _is_number(value: Any) -> bool:
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
    kind = next(words for words, fits in _TYPES.values() if fits(value))
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
    words = " or ".join(_TYPES[one][0] for one in named) or "a value"
    if named == ["object"] and schema.get("properties"):
        words += f" with {', '.join(schema['properties'])}"
    described = schema.get("description")
    return f"{words} ({described})" if isinstance(described, str) and described else words
