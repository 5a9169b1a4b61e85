"""The form of an answer: a type or a JSON schema, as words for the model and as a check of what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..errors import ConfigurationError
from ..fitting import MAX_PROBLEMS, Problem, fit
from .found import json_in
from .schema import Schema

MAX_STATED = 1_000
"""Bounds on lengths above this are checked, but not sent to a server, which would make a grammar of them."""


class Fitted(msgspec.Struct, frozen=True):
    """An answer that has the form. ``value``: of the type, or plain JSON data for a schema."""

    value: Any


class Misfit(msgspec.Struct, frozen=True):
    """An answer that does not have it: every problem at once, each with its path."""

    problems: tuple[Problem, ...]


class Form:
    """What an answer must be: a type that msgspec converts (a struct, a dataclass, a TypedDict, ``list[int]``, …), or a
    mapping that is a JSON schema.

    Raises :class:`ConfigurationError` for a type of which msgspec knows no schema, and for a schema with a word that
    would not be checked.
    """

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted
        self.plain = wanted is str
        """Any text will do."""
        self._check: Callable[[Any], Fitted | Misfit]
        if isinstance(wanted, Mapping):
            checked = Schema(wanted)
            self.schema: dict[str, Any] = checked.root
            self._check = lambda value: _outcome(checked.problems(value), value)
        else:
            self.schema = _schema_of(wanted)
            self._check = self._as_type

    @property
    def grammar(self) -> dict[str, Any]:
        """The schema as a server gets it."""
        found: dict[str, Any] = _without_long_bounds(self.schema)
        return found

    def text(self) -> str:
        """The schema as the model reads it."""
        return msgspec.json.encode(self.schema).decode()

    def read(self, text: str, clean: Callable[[Any], Any] = lambda value: value) -> Fitted | Misfit:
        """What the text says, if exactly one thing in it has the form. ``clean`` is applied to what was decoded.

        Never raises, whatever the text is. JSON in fences or between words is found; of several that fit, two that say
        different things are one too many.
        """
        if self.plain:
            return Fitted(text)
        found = json_in(text)
        values = [clean(value) for value in found.values]
        tried = [self._check(value) for value in values or [text.strip()]]
        fitted = [one for one in tried if isinstance(one, Fitted)]
        if not fitted:
            if not values and found.wrong is not None and (found.wrong.incomplete or _opens(text)):
                return Misfit((Problem("", str(found.wrong)),))
            return tried[0] if values else _without_json(tried[0])
        if any(_encoded(one.value) != _encoded(fitted[0].value) for one in fitted[1:]):
            return Misfit((Problem("", f"{len(fitted)} JSON values in it have the form; send exactly one"),))
        return fitted[0]

    def _as_type(self, value: Any) -> Fitted | Misfit:
        try:
            fitted = fit(value, self.wanted, "field")
        except Exception as error:  # a type of the host's own may do anything when it is made
            return Misfit((Problem("", f"it cannot be read: {type(error).__name__}: {error}"[:300]),))
        if fitted and isinstance(fitted[0], Problem):
            return Misfit(tuple(one for one in fitted if isinstance(one, Problem))[:MAX_PROBLEMS])
        return Fitted(fitted[0])

    def encoded(self, value: Any) -> str:
        """A value of the form as JSON."""
        return value if self.plain else _encoded(value).decode("utf-8", "replace")


def _outcome(problems: tuple[Problem, ...], value: Any) -> Fitted | Misfit:
    return Misfit(problems) if problems else Fitted(value)


def _without_json(misfit: Fitted | Misfit) -> Fitted | Misfit:
    first = misfit.problems[0] if isinstance(misfit, Misfit) else None
    return misfit if first is None or first.path else Misfit((Problem("", f"there is no JSON in it: {first.text}"),))


def _opens(text: str) -> bool:
    return "{" in text or "[" in text


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value).encode("utf-8", "replace")


def _schema_of(wanted: Any) -> dict[str, Any]:
    try:
        schema = msgspec.json.schema(wanted)
        msgspec.json.Decoder(wanted)
    except Exception as error:  # what is no type at all may raise anything
        raise ConfigurationError(
            f"answer_type {getattr(wanted, '__name__', wanted)!r} cannot be used: {str(error).splitlines()[0]}; "
            "use a msgspec struct, a dataclass, a TypedDict or plain types, or a JSON schema as a dict"
        ) from error
    schema = msgspec.json.decode(msgspec.json.encode(schema, enc_hook=str))  # defaults are shown as JSON, too
    definitions = schema.get("$defs", {})
    own = schema.get("$ref", "").rpartition("/")[2]
    if own in definitions and f'"#/$defs/{own}"' not in msgspec.json.encode(definitions).decode():
        rest = {name: one for name, one in definitions.items() if name != own}
        schema = {**definitions[own], **({"$defs": rest} if rest else {})}  # servers want an object at the root
    return schema


def _without_long_bounds(schema: Any) -> Any:
    if isinstance(schema, dict):
        long = ("minLength", "maxLength", "minItems", "maxItems")
        return {
            name: _without_long_bounds(one)
            for name, one in schema.items()
            if not (name in long and isinstance(one, int) and one > MAX_STATED)
        }
    return [_without_long_bounds(one) for one in schema] if isinstance(schema, list) else schema
