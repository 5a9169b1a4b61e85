"""From the JSON text that a model wrote to the arguments that a tool gets. Everything in it is hostile."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from . import jsontext
from .fitting import MAX_PROBLEMS, Problem, fit
from .jsontext import MAX_DEPTH, MAX_DIGITS, NotJSON
from .tools import Tool

MAX_CHARACTERS = 256 * 1024
"""Longer argument texts are refused unread."""
MAX_ECHO = 800
"""Characters of bad arguments that are shown back to the model."""


class Parsed(msgspec.Struct, frozen=True, gc=False):
    """Arguments that fit the tool. ``values`` are what the tool, an approval and the journal all see."""

    values: dict[str, Any]
    canonical: bytes
    """Deterministic JSON of the values with defaults filled in."""
    repaired: bool = False
    """Something had to be unwrapped or converted; nothing was guessed."""


class BadArguments(msgspec.Struct, frozen=True):
    """Arguments that do not fit; every problem at once, so that the model can mend them in one go."""

    problems: tuple[Problem, ...]
    echo: str = ""
    length: int = 0
    incomplete: bool = False
    """The text ends in the middle: it was probably cut off."""


_encode = msgspec.json.Encoder(order="deterministic").encode
_LONG_NUMBER = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")
_decode = msgspec.json.Decoder().decode


def parse(tool: Tool, raw: str | None) -> Parsed | BadArguments:
    """Parse, convert and check. Never raises, whatever ``raw`` is."""
    text = raw if isinstance(raw, str) else "" if raw is None else str(raw)
    if len(text) > MAX_CHARACTERS:
        return _bad(
            text, Problem("", f"the arguments are {len(text)} characters long; at most {MAX_CHARACTERS} are read")
        )
    repaired = False
    value = _plain_object(text)
    if value is not None:
        try:
            struct = msgspec.convert(value, tool.arguments_type)
            return Parsed(msgspec.structs.asdict(struct), _encode(struct))
        except (TypeError, ValueError, OverflowError, RecursionError):
            pass  # it takes a closer look
    else:
        try:
            value, repaired = _object(text)
        except NotJSON as error:
            return _bad(text, Problem("", str(error)), incomplete=error.incomplete)
    fitted = fit(value, tool.arguments_type)
    if isinstance(fitted[0], Problem):
        return _bad(text, *(problem for problem in fitted if isinstance(problem, Problem)))
    struct, converted = fitted
    try:
        return Parsed(msgspec.structs.asdict(struct), _canonical(struct), repaired or bool(converted))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return _bad(text, Problem("", f"the arguments cannot be encoded again: {str(error)[:200]}"))


def _canonical(struct: msgspec.Struct) -> bytes:
    """Deterministic order sorts what has no order."""
    try:
        return _encode(struct)
    except TypeError:  # keys that are no strings
        return _encode(msgspec.to_builtins(struct, str_keys=True, order="deterministic"))


def canonical(tool: Tool, values: dict[str, Any]) -> bytes:
    """Deterministic JSON of these values. Raises ``TypeError`` or ``ValueError`` for what the tool does not take."""
    return _canonical(tool.arguments_type(**values))


def _bad(text: str, *problems: Problem, incomplete: bool = False) -> BadArguments:
    echo = text[:MAX_ECHO].encode("utf-8", "replace").decode("utf-8", "replace")
    return BadArguments(problems[:MAX_PROBLEMS], echo, len(text), incomplete)


def _plain_object(text: str) -> dict[str, Any] | None:
    """The object of a text that is plainly one: the fast way of nearly all calls; None if it takes a closer look.

    As many colons as keys: then no key can be there twice, and no object is inside another.
    """
    if text.count("[") >= MAX_DEPTH or (len(text) > MAX_DIGITS and _LONG_NUMBER.search(text)):
        return None
    try:
        value = _decode(text)
    except (ValueError, RecursionError):
        return None
    return value if type(value) is dict and text.count(":") == len(value) else None


def _object(text: str) -> tuple[dict[str, Any], bool]:
    """A JSON object, and whether it had to be unwrapped. Unwrapped is only what leaves no doubt: a code fence, the same
    object twice, prose behind the object, an object in a string, nothing at all for no arguments."""
    stripped = text.strip()
    if stripped in ("", "null"):
        return {}, True
    unfenced = _unfence(stripped)
    value, end = jsontext.decode_first(unfenced)
    rest = unfenced[end:].strip()
    repaired = unfenced != stripped or bool(rest)
    if isinstance(value, str) and not rest and value.lstrip().startswith("{"):
        value, repaired = jsontext.decode(value), True
    if not isinstance(value, dict):
        raise NotJSON(f"expected a JSON object, got {_kind(value)}")
    if rest.startswith("{"):
        if jsontext.decode(rest) != value:
            raise NotJSON("there are several JSON objects; send exactly one")
    elif rest.startswith(tuple(',:[]}"')):
        raise NotJSON(f"there is more after the JSON object (char {end}); send exactly one object")
    return value, repaired


def _unfence(text: str) -> str:
    if not (text.startswith("```") and text.endswith("```") and len(text) > 6):
        return text
    inner = text[3:-3].strip()
    return inner[4:].strip() if inner[:4].lower() == "json" else inner


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
