"""From the JSON text that a model wrote to the arguments that a tool gets. Everything in it is hostile."""

from __future__ import annotations

import difflib
import json
from typing import Any

import msgspec

from .tools import Tool

MAX_CHARACTERS = 256 * 1024
"""Longer argument texts are refused unread."""
MAX_DEPTH = 64
MAX_ECHO = 800
"""Characters of bad arguments that are shown back to the model."""
MAX_PROBLEMS = 12


class Parsed(msgspec.Struct, frozen=True, gc=False):
    """Arguments that fit the tool. ``values`` are what the tool, an approval and the journal all see."""

    values: dict[str, Any]
    canonical: bytes
    """Deterministic JSON of the values with defaults filled in."""
    repaired: bool = False


class Problem(msgspec.Struct, frozen=True, gc=False):
    """One thing that is wrong: where (a path such as ``lines[2].text``), and what was expected."""

    path: str
    text: str


class BadArguments(msgspec.Struct, frozen=True):
    """Arguments that do not fit; every problem at once, so that the model can mend them in one go."""

    problems: tuple[Problem, ...]
    echo: str = ""
    length: int = 0
    incomplete: bool = False
    """The text ends in the middle: it was probably cut off."""


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


def parse(tool: Tool, raw: str | None) -> Parsed | BadArguments:
    """Parse, convert and check. Never raises, whatever ``raw`` is."""
    text = raw if isinstance(raw, str) else "" if raw is None else str(raw)
    if len(text) > MAX_CHARACTERS:
        return _bad(
            text, Problem("", f"the arguments are {len(text)} characters long; at most {MAX_CHARACTERS} are read")
        )
    try:
        value = _decode(text)
        plain = type(value) is dict and text.count(":") == len(value) and text.count("[") < MAX_DEPTH
    except (ValueError, RecursionError, UnicodeError):
        plain, value = False, None
    repaired = False
    if not plain:
        loaded = _load(text)
        if isinstance(loaded, BadArguments):
            return loaded
        value, repaired = loaded
    try:
        struct = msgspec.convert(value, tool.arguments_type)
    except (msgspec.ValidationError, RecursionError):
        fitted = _fit(tool, value)
        if isinstance(fitted, tuple):
            return _bad(text, *fitted)
        struct, repaired = fitted, True
    try:
        # Deterministic order sorts the keys; the values keep the types that the tool declares.
        return Parsed(msgspec.structs.asdict(struct), _encode(struct), repaired)
    except (TypeError, ValueError, RecursionError) as error:
        return _bad(text, Problem("", f"the arguments cannot be encoded again: {error}"))


def _bad(text: str, *problems: Problem, incomplete: bool = False) -> BadArguments:
    echo = text[:MAX_ECHO].encode("utf-8", "replace").decode("utf-8", "replace")
    return BadArguments(problems[:MAX_PROBLEMS], echo, len(text), incomplete)


# -- the text -----------------------------------------------------------------------------------------------------


def _load(text: str) -> tuple[dict[str, Any], bool] | BadArguments:
    """A JSON object from text that was not plainly one; what is unambiguous is unwrapped, nothing is guessed."""
    stripped = text.strip()
    if stripped in ("", "null"):
        return {}, True
    unfenced = _unfence(stripped)
    if _depth(unfenced) > MAX_DEPTH:
        return _bad(text, Problem("", f"the JSON is nested more than {MAX_DEPTH} levels deep"))
    try:
        value, end = _strict.raw_decode(unfenced)
        rest = unfenced[end:].strip()
        if rest.startswith("{"):
            second, second_end = _strict.raw_decode(rest)
            if second != value or rest[second_end:].strip():
                return _bad(text, Problem("", "there are several JSON objects; send exactly one"))
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # lone surrogates hide in escapes
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(unfenced.rstrip()) or error.msg.startswith("Unterminated")
        if at_end:
            problem = Problem("", f"the arguments are not complete JSON (the text breaks off; see char {error.pos})")
        else:
            problem = Problem("", f"the arguments are not valid JSON: {error.msg} (char {error.pos})")
        return _bad(text, problem, incomplete=at_end)
    except _Refused as error:
        return _bad(text, Problem("", str(error)))
    except UnicodeError:
        return _bad(text, Problem("", "the text holds half a character (a lone surrogate)"))
    except (ValueError, RecursionError) as error:
        return _bad(text, Problem("", f"the arguments cannot be read: {error}"))
    if not isinstance(value, dict):
        return _bad(text, Problem("", f"expected a JSON object, got {_kind(value)}"))
    return value, unfenced != stripped or bool(rest)


class _Refused(ValueError):
    pass


def _no_constant(name: str) -> Any:
    raise _Refused(f"{name} is not a JSON number")


def _no_infinity(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _Refused(f"the number {text[:40]} is out of range")
    return number


def _bounded_int(text: str) -> int:
    if len(text) > 400:
        raise _Refused(f"the number {text[:20]}… has {len(text)} digits")
    return int(text)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Refused(f"the key {twice!r} stands there twice; send it once")
    return found


_strict = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_no_infinity, parse_int=_bounded_int
)


def _unfence(text: str) -> str:
    if text.startswith("```") and text.endswith("```") and len(text) > 6:
        first, _, rest = text[3:-3].partition("\n")
        if first.strip().lower() in ("", "json"):
            return rest.strip()
        inner = text[3:-3].strip()
        return inner[4:].strip() if inner.lower().startswith("json") else inner
    return text


def _depth(text: str) -> int:
    """Nesting depth of brackets outside strings; linear, so that it can run before any recursive parser."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


# -- the values ---------------------------------------------------------------------------------------------------


def _fit(tool: Tool, value: dict[str, Any]) -> msgspec.Struct | tuple[Problem, ...]:
    """Convert what drifted where that is lossless ("5" for an int); otherwise name every problem."""
    problems: list[Problem] = []
    fitted: dict[str, Any] = {}
    for key, given in value.items():
        field = tool.fields.get(key)
        if field is None:
            near = difflib.get_close_matches(key, tool.fields, 1)
            hint = (
                f"; did you mean {near[0]!r}?" if near else f"; the parameters are {', '.join(tool.fields) or 'none'}"
            )
            problems.append(Problem(key[:80], f"unknown parameter{hint}"))
            continue
        converted = _convert(given, field.type)
        if isinstance(converted, Problem) and given is None and not field.required:
            continue
        if isinstance(converted, Problem):
            problems.append(Problem(f"{key}{converted.path}", converted.text))
        else:
            fitted[key] = converted[0]
    problems += [
        Problem(name, f"missing; expected {_expected(tool, name)}")
        for name in tool.fields
        if name in tool.required and name not in value
    ]
    if problems:
        return tuple(problems)
    try:
        return msgspec.convert(fitted, tool.arguments_type)
    except msgspec.ValidationError as error:
        return (Problem("", str(error)),)


def _convert(given: Any, wanted: Any) -> tuple[Any] | Problem:
    try:
        msgspec.convert(given, wanted)
    except (msgspec.ValidationError, RecursionError) as error:
        first = error
    else:
        return (given,)
    candidates: list[Any] = []
    if (
        isinstance(given, str)
        and given
        and given == given.strip()
        and len(given) <= MAX_CHARACTERS
        and _depth(given) <= MAX_DEPTH
    ):
        try:
            candidates.append(_strict.decode(given))
        except (ValueError, RecursionError):
            pass
    candidates += [c for c in (_loosen(candidate) for candidate in [given, *candidates]) if isinstance(c, (dict, list))]
    for candidate in candidates:
        if isinstance(candidate, str):
            continue
        try:
            msgspec.convert(candidate, wanted)
        except (msgspec.ValidationError, RecursionError):
            continue
        return (candidate,)
    text, _, path = str(first).partition(" - at `$")
    got = f" ({_shown(given)})" if not path else ""
    return Problem(path.rstrip("`").removeprefix("[...]"), text[0].lower() + text[1:] + got)


def _loosen(value: Any) -> Any:
    """Inside an object or a list: strings that are JSON numbers or booleans become those."""
    if isinstance(value, dict):
        return {key: _loosen(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_loosen(item) for item in value]
    if isinstance(value, str) and (value in ("true", "false") or value.lstrip("-").isdigit()):
        try:
            return _strict.decode(value)
        except ValueError:
            return value
    return value


def _expected(tool: Tool, name: str) -> str:
    schema = tool.schema.get("properties", {}).get(name, {})
    kind = schema.get("type") or ("one of " + ", ".join(map(repr, schema["enum"])) if "enum" in schema else "a value")
    described = schema.get("description")
    return f"{kind} ({described})" if described else str(kind)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
