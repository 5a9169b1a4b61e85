"""A rule of a policy: of which calls it speaks, by tool and by arguments, and what it says of them. Pure data.

What a model writes into arguments is hostile, so a pattern is read in two ways. One that *permits* (``when`` of an
``allow``, ``unless`` of a ``deny`` or an ``ask``) is read strictly: the text as it stands. One that *forbids* is read
loosely: also as the path that it comes down to, and whatever its case.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, cast, get_args
from urllib.parse import unquote

import msgspec

from ..errors import ConfigurationError
from ..outputs import text as text_of
from ..tools import Tool

Ruling = Literal["allow", "deny", "ask"]
RULINGS: tuple[Ruling, ...] = get_args(Ruling)
Pattern = str | tuple[str, ...]
MARKS = ("dangerous", "irreversible")
"""Words for all tools that are declared so, where a tool is named."""
LONGEST = 4096
"""Characters of an argument above which no pattern permits it."""
ANY_MORE = "**"


class Rule(msgspec.Struct, frozen=True):
    """``Rule("deny", "write_file", unless=({"path": "notes/*"},), why="only notes may be written")``.

    - ``tool``: a name or a glob of names; ``dangerous`` and ``irreversible`` stand for all that are declared so.
    - ``when``: it speaks of calls that fit one of these; without any, of all. Each is a pattern by argument, and all of
      them must fit. ``unless``: but not of calls that fit one of these.
    - ``why``: what the model is told of it.
    - ``approved``: an allow that a person has given for good: it lifts what would only ask, though never a deny.

    A pattern is a glob for the argument as text (structured values as JSON): ``*`` stands for any characters, slashes
    too, ``?`` for one. Of a list every element must fit it to permit, and one is enough to forbid. A tuple of globs is
    for a list, element by element; a last ``**`` stands for any number more: ``("git", "log", "**")``. An argument
    that a call does not have fits nothing. No pattern permits a text with a ``..`` in a path (also percent-encoded),
    with control characters, or of more than 4,096 characters.
    """

    decision: Ruling
    tool: str = "*"
    when: tuple[Mapping[str, Pattern], ...] = ()
    unless: tuple[Mapping[str, Pattern], ...] = ()
    why: str = ""
    approved: bool = False


Fits = Callable[[Any], bool]


class Compiled:
    """A rule ready to be asked. Raises :class:`ConfigurationError` for one that says nothing clear."""

    __slots__ = ("_names", "_unless", "_when", "arguments", "rule")

    def __init__(self, rule: Rule) -> None:
        if rule.decision not in RULINGS:
            raise ConfigurationError(f"a rule must say one of {', '.join(RULINGS)}, not {rule.decision!r}")
        permits = rule.decision == "allow"
        if rule.approved and not permits:
            raise ConfigurationError(f"a rule that is approved is one that allows; this one says {rule.decision!r}")
        self.rule = rule
        self.arguments = frozenset(name for one in (*rule.when, *rule.unless) for name in one)
        """Names of the arguments that it looks at."""
        self._names = re.compile(_regex(rule.tool, "."))
        self._when = _conditions(rule.when, permits)
        self._unless = _conditions(rule.unless, not permits)

    def speaks_of(self, tool: Tool) -> bool:
        if self._names.fullmatch(tool.name) is not None:
            return True
        return self.rule.tool in MARKS and bool(getattr(tool, self.rule.tool))

    def fits(self, values: Mapping[str, Any]) -> bool:
        return (not self._when or _any(self._when, values)) and not _any(self._unless, values)


def check(rules: Iterable[Rule], tools: Collection[Tool]) -> None:
    """Raises :class:`ConfigurationError` for a rule that cannot be read, or that looks at arguments which none of the
    tools that it speaks of has: it would never do what it is there for. Tools that are not there are no error."""
    for rule in rules:
        compiled = Compiled(rule)
        spoken = [tool for tool in tools if compiled.speaks_of(tool)]
        for name in sorted(compiled.arguments):
            if spoken and not any(name in tool.fields for tool in spoken):
                fields = sorted({field for tool in spoken for field in tool.fields})
                raise ConfigurationError(
                    f"a rule ({rule.decision} {rule.tool!r}) looks at the argument {name!r}, which is not there; "
                    f"{', '.join(tool.name for tool in spoken)} takes {', '.join(fields) or 'none'}"
                )


def _any(conditions: tuple[dict[str, Fits], ...], values: Mapping[str, Any]) -> bool:
    return any(all(name in values and fits(values[name]) for name, fits in one.items()) for one in conditions)


def _conditions(given: object, permits: bool) -> tuple[dict[str, Fits], ...]:
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise ConfigurationError(f"the conditions of a rule are a tuple of mappings, not {given!r}")
    found = []
    for one in given:
        if not isinstance(one, Mapping) or not one:
            raise ConfigurationError(f"a condition of a rule has a pattern for each argument; this is none: {one!r}")
        found.append({str(name): _fits(pattern, permits) for name, pattern in one.items()})
    return tuple(found)


def _fits(pattern: object, permits: bool) -> Fits:
    if isinstance(pattern, str):
        return _each(_permits(pattern)) if permits else _forbids(pattern)
    if not isinstance(pattern, tuple | list) or not all(isinstance(one, str) for one in pattern):
        raise ConfigurationError(f"a pattern is a text, or a tuple of texts for a list; not {pattern!r}")
    parts = cast("tuple[str, ...]", tuple(pattern))
    more = parts[-1:] == (ANY_MORE,)
    make = _permits if permits else _forbids
    each = [make(part) for part in (parts[:-1] if more else parts)]

    def fits(value: Any) -> bool:
        if not isinstance(value, list | tuple) or len(value) < len(each) or (len(value) > len(each) and not more):
            return False
        return all(fit(one) for fit, one in zip(each, value, strict=False))

    return fits


def _permits(pattern: str) -> Fits:
    found = re.compile(_regex(pattern, r"[^\x00-\x1f\x7f-\x9f]"))

    def fits(value: Any) -> bool:
        text = text_of(value)
        return len(text) <= LONGEST and found.fullmatch(text) is not None and not _climbs(text)

    return fits


def _each(fits: Fits) -> Fits:
    def every(value: Any) -> bool:
        if isinstance(value, list | tuple | set | frozenset):
            return bool(value) and all(map(fits, value))
        return fits(value)

    return every


def _forbids(pattern: str) -> Fits:
    found = re.compile(_regex(_folded(pattern), "."), re.DOTALL)

    def fits(value: Any) -> bool:
        if isinstance(value, list | tuple | set | frozenset):
            return any(map(fits, value))
        return any(found.fullmatch(text) is not None for text in _readings(text_of(value)))

    return fits


def _regex(glob: str, character: str) -> str:
    """Each run of stars takes as little as will do and is never tried again, so that matching stays linear in the
    text for each of them: the leftmost place is as good as any other."""
    first, *rest = re.split(r"\*+", glob)
    parts = [_literal(first, character)]
    for place, part in enumerate(rest, 1):
        literal = _literal(part, character)
        parts.append(f"{character}*{literal}" if place == len(rest) else f"(?>{character}*?{literal})")
    return "".join(parts)


def _literal(part: str, character: str) -> str:
    return "".join(character if one == "?" else re.escape(one) for one in part)


def _climbs(text: str) -> bool:
    if ".." not in text and "%" not in text:
        return False
    return any(".." in re.split(r"[/\\]", reading) for reading in (text, unquote(text)))


def _readings(text: str) -> Iterator[str]:
    yield (folded := _folded(text))
    tidied = posixpath.normpath(unquote(folded).replace("\\", "/").strip())
    yield tidied
    if tidied.startswith("//"):
        yield tidied[1:]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
