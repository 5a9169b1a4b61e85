"""A JSON schema as a check: a part of the language, and no schema with a word outside of it.

A library for all of it would be one more dependency, and its errors are not written for a model. What is not checked
here is refused where the schema is read, so that nothing passes because nobody looked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ConfigurationError
from ..fitting import MAX_PROBLEMS, Problem
from .checking import FORMATS, SHOWN, TYPES, Checking, Json, TooMuch, is_number

MAX_NESTED = 100
"""Levels of a schema within a schema."""
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
        checking = Checking(self)
        try:
            checking.check(value, self.root, "")
        except (TooMuch, RecursionError):
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
            return None if is_number(asked) and asked == int(asked) and asked >= 0 else "it takes a whole number"
        if word in _BOUNDS:
            good = is_number(asked) and (word != "multipleOf" or asked > 0)
            return None if good else "it takes a number" + (" above 0" if word == "multipleOf" else "")
        if word == "type":
            named = asked if isinstance(asked, list) else [asked]
            good = bool(named) and all(isinstance(one, str) and one in TYPES for one in named)
            return None if good else f"it takes one or more of {', '.join(TYPES)}"
        if word == "required":
            good = isinstance(asked, list) and all(isinstance(one, str) for one in asked)
            return None if good else "it takes a list of names"
        if word == "enum":
            return None if isinstance(asked, list) and asked else "it takes a list of values"
        if word == "uniqueItems":
            return None if isinstance(asked, bool) else "it takes true or false"
        if word == "format":
            good = isinstance(asked, str) and asked in FORMATS
            return None if good else f"the formats that are checked are {', '.join(FORMATS)}"
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
