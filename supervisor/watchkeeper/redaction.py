"""Secrets, cut out of every text before it reaches a model, the log, a delta or an outcome. Pure.

By value: what is known to be secret, also as JSON, in a URL and in base64. By pattern: what looks like a key of a known
kind; each pattern begins with a few fixed characters, and one look for all of these is all that a text without a secret
costs. Each text is looked through once, where it comes in: a reply where it is put together, a result where it is made.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import quote, quote_plus

import msgspec

from .errors import ConfigurationError

MARK = "[redacted]"
LEAST = 6
"""Characters of a value below which it cannot be told from ordinary text."""
SHORTEST = 16
"""Characters of a text below which no pattern is looked for."""
HELD = 8192
"""Characters of a stream that are held back at most while they may be part of a secret."""
KEPT = 1024
"""Of these so many are still held back when there are more."""
_NAMES = re.compile(r"(?:(?:^|_)(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)|_PWD)$", re.IGNORECASE)
"""Environment variables that hold a secret, by their names. ``PWD`` alone is the shell's working directory."""
_ESCAPES = re.compile(r"\\u00[0-9a-fA-F]{2}|\\/")
"""What JSON may write in place of a character that needs no escape: whoever decodes the text sees the character."""
_PAIR = "\0\0"
"""Stands for two backslashes, of which the second begins no escape."""


class Pattern(msgspec.Struct, frozen=True):
    """``begins``: the fixed text with which every match begins. ``sign``: a fixed text in every match that is rare
    elsewhere, by default the same; without it nothing is looked for. What the groups of ``regex`` match is kept."""

    begins: str
    regex: re.Pattern[str]
    sign: str = ""


def _pattern(begins: str, rest: str, before: str = "", sign: str = "") -> Pattern:
    """``before``: what must stand before it, without being part of it."""
    return Pattern(begins, re.compile(f"{before}{rest.format(re.escape(begins))}"), sign)


_NAMES_IN_QUERIES = (
    r"(?i:api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret|secret|passw(?:or)?d|sig(?:nature)?)"
)
_IN_QUERIES = r"({}" + _NAMES_IN_QUERIES + r"=)[^&\s\"'<>#\\]{{8,}}"
_KEYS_IN_QUERIES = r"({}(?:key|token)=)(?=[^&\s]{{0,200}}\d)[A-Za-z0-9_.~-]{{16,}}"
_BEARER = r"({}\s+)(?=\S{{0,200}}\d)[A-Za-z0-9._~+/-]{{16,}}=*"
_BASIC = r"({}\s+)(?=\S{{0,200}}[\d=])(?=\S{{0,200}}[A-Z])[A-Za-z0-9+/]{{12,}}=*"
_WORD = r"\b"
PATTERNS: tuple[Pattern, ...] = (
    _pattern("sk-", r"{}(?=[\w-]{{0,200}}\d)[A-Za-z0-9_-]{{20,}}", _WORD, sign="k-"),
    _pattern("gh", r"{}[pousr]_[A-Za-z0-9]{{30,}}"),
    _pattern("github_pat_", r"{}[A-Za-z0-9_]{{30,}}"),
    _pattern("glpat-", r"{}[A-Za-z0-9_-]{{20,}}"),
    _pattern("xox", r"{}[abeprs]-[A-Za-z0-9-]{{10,}}"),
    _pattern("AKIA", r"{}[0-9A-Z]{{16}}\b"),
    _pattern("AIza", r"{}[0-9A-Za-z_-]{{35}}"),
    _pattern("hf_", r"{}[A-Za-z0-9]{{30,}}", sign="f_"),
    _pattern("sk_live_", r"{}[A-Za-z0-9]{{16,}}", sign="k_live_"),
    _pattern("rk_live_", r"{}[A-Za-z0-9]{{16,}}", sign="k_live_"),
    _pattern("eyJ", r"{}[A-Za-z0-9_-]{{8,}}\.eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}", r"(?<![\w-])", sign="yJ"),
    _pattern("-----BEGIN", r"{} [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    _pattern("Bearer", _BEARER, _WORD),
    _pattern("bearer", _BEARER, _WORD),
    _pattern("Basic", _BASIC, _WORD),
    _pattern("basic", _BASIC, _WORD),
    _pattern("://", r"({}[^/\s:@\"'<>]{{1,64}}:)[^/\s@\"'<>]{{3,}}(@)", sign="//"),
    _pattern("?", _IN_QUERIES),
    _pattern("&", _IN_QUERIES),
    _pattern("?", _KEYS_IN_QUERIES),
    _pattern("&", _KEYS_IN_QUERIES),
)
"""Keys of well-known services, tokens, private keys, and what stands for a secret in a URL or a header."""


class Redaction:
    """What is secret. The same text gives the same text, and one without secrets is given back as it is.

    - ``values``: texts that are secret, each of at least 6 characters.
    - ``environment``: variables of which those count whose names end in KEY, TOKEN, SECRET, PASSWORD and the like, if
      what they hold looks made up (16 characters, or 8 with letters and digits).
    - ``patterns``: kinds of secrets; empty: by value alone.

    Raises :class:`ConfigurationError` for a value that is too short. A ``Redaction(patterns=())`` cuts out nothing.
    """

    def __init__(
        self,
        values: Iterable[str] = (),
        *,
        environment: Mapping[str, str] | None = None,
        patterns: Iterable[Pattern] = PATTERNS,
    ) -> None:
        if isinstance(values, str):
            raise ConfigurationError("the values of a redaction are several texts; make it a list of one")
        known = {value.strip() for value in values}
        if any(len(value) < LEAST for value in known):
            raise ConfigurationError(f"a secret of less than {LEAST} characters cannot be told from ordinary text")
        known |= {value.strip() for name, value in (environment or {}).items() if _is_secret(name, value)}
        self._known = frozenset(known)
        # Longest first: one may be part of another.
        self._values = sorted({form for value in known for form in _forms(value)}, key=lambda one: (-len(one), one))
        self._inside = frozenset("".join(self._values))
        """Characters in one of which a text ends that may go on as a value."""
        self._patterns = tuple(patterns)
        self._looks = tuple((pattern.begins, pattern.regex) for pattern in self._patterns)
        begins = [begins for begins, _ in self._looks]
        signs = dict.fromkeys(pattern.sign or pattern.begins for pattern in self._patterns)
        self._sign_in = re.compile("|".join(map(re.escape, signs)) or "(?!)").search
        self._shortest = min((*map(len, self._values), SHORTEST if begins else sys.maxsize))
        """Characters of a text below which there is nothing to look for."""
        self._begin_in = re.compile("|".join(map(re.escape, dict.fromkeys(begins))) or "(?!)").search
        self._pieces = tuple({one[:n] for one in begins for n in range(1, len(one))})
        """What a text ends in that may go on as the beginning of a match."""

    def __repr__(self) -> str:
        return f"<Redaction of {len(self._values)} values and {len(self._looks)} patterns>"

    @property
    def inert(self) -> bool:
        """It cuts out nothing."""
        return not self._values and not self._looks

    def and_of(self, values: Iterable[str]) -> Redaction:
        """This one and these values too, as far as they can be told from ordinary text; an inert one stays as it is."""
        more = {value for value in values if len(value.strip()) >= LEAST} - self._known
        if self.inert or not more:
            return self
        return Redaction(self._known | more, patterns=self._patterns)

    def clear(self, text: str) -> bool:
        """No sign of a secret is in it: then none is in it, nor in any part of it. A quick look at several at once."""
        return self._sign_in(text) is None and not self._holds(text)

    def _holds(self, text: str) -> bool:
        """A value that is known to be secret is in it."""
        return bool(self._values) and any(value in text for value in self._values)

    def text(self, text: str) -> str:
        """The text with ``[redacted]`` in the place of each secret, also of one that is written in escapes of JSON."""
        if len(text) < self._shortest:
            return text
        text = self._without(text)
        if "\\u00" in text or "\\/" in text:
            plain = _unescaped(text)
            if (clean := self._without(plain)) is not plain:
                return clean
        return text

    def _without(self, text: str) -> str:
        length = len(text)
        for value in self._values:
            if value in text:
                text = text.replace(value, MARK)
        if length >= SHORTEST and self._sign_in(text) is not None:
            for begins, regex in self._looks:
                if begins in text:
                    text = regex.sub(_marked, text)
        return text

    def ended(self, text: str, cut: bool = False) -> str:
        """A text that is at its end, redacted; ``[redacted]`` stands for a value that it ends in the middle of, too, if
        half of it is there, or of a text that was ``cut`` off its first six characters."""
        text = self.text(text)
        for value in self._values:
            for n in range(min(len(value) - 1, len(text)), (LEAST if cut else max(LEAST, len(value) // 2)) - 1, -1):
                if text.endswith(value[:n]):
                    return text[:-n] + MARK
        return text

    def within(self, text: str, limit: int) -> str:
        """At most the first ``limit`` characters, redacted before they are cut: no half of a secret is left."""
        return self.text(text[: limit + HELD])[:limit]

    def anything(self, value: Any) -> Any:
        """The same for every text in plain data and messages; what holds no secret is given back as it is."""
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is tuple or kind is list:
            changed = [self.anything(one) for one in value]
            same = all(one is other for one, other in zip(changed, value, strict=True))
            return value if same else kind(changed)
        if kind is dict:
            found = {self.anything(name): self.anything(one) for name, one in value.items()}
            same = all(name in value and value[name] is one for name, one in found.items())
            return value if same else found
        if isinstance(value, msgspec.Struct):
            changes = {}
            for name in texts_of(kind):
                before = getattr(value, name)
                if before and (after := self.anything(before)) is not before:
                    changes[name] = after
            return msgspec.structs.replace(value, **changes) if changes else value
        return value

    def settled(self, text: str) -> bool:
        """Nothing in it is part of a secret, whatever comes next: the quick look at a piece of a stream."""
        if text[-1:] in self._inside or text.endswith(self._pieces) or self._begin_in(text) is not None:
            return False
        return len(text) < LEAST or not self._holds(text)

    def begins_at(self, text: str) -> int:
        """Where what may go on to be a secret begins: from there on the text has to be held back."""
        place = len(text)
        for value in self._values:
            start = max(len(text) - len(value) + 1, 0)
            while (start := text.find(value[0], start)) >= 0:
                if value.startswith(text[start:]):
                    place = min(place, start)
                    break
                start += 1
        if not self._looks:
            return place
        if (key := text.rfind("-----BEGIN")) >= 0 and "-----END" not in text[key:]:
            place = min(place, key)
        words = text.rsplit(None, 2)
        start = len(words[0]) if len(words) == 3 else 0
        last = text[start:]
        return min(place, start) if last.endswith(self._pieces) or self._begin_in(last) is not None else place

    def whole_before(self, text: str, place: int) -> int:
        """The place, or the beginning of the secret that it is in the middle of."""
        before = -1
        while place != before:
            before = place
            for value in self._values:
                start = text.find(value, max(place - len(value) + 1, 0), place + len(value) - 1)
                if start >= 0:
                    place = start
            for begins, regex in self._looks:
                if begins in text:
                    place = next((m.start() for m in regex.finditer(text) if m.start() < place < m.end()), place)
        return place


def texts_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a struct that may hold text somewhere: all but numbers, truth values and words of a fixed list."""
    found = _TEXTS.get(kind)
    if found is None:
        fields = msgspec.structs.fields(kind)
        found = _TEXTS[kind] = tuple(field.name for field in fields if not _is_plain(field.type))
    return found


_TEXTS: dict[type[msgspec.Struct], tuple[str, ...]] = {}


def _is_plain(kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is dict:  # of amounts, by dimension
        return _is_plain(inner[1])
    if origin in (Union, UnionType, tuple):
        return all(one is Ellipsis or _is_plain(one) for one in inner)
    return kind in (int, float, bool, NoneType) or origin is Literal


NOTHING_SECRET = Redaction(patterns=())


class Stream:
    """A text that comes in pieces, redacted: a piece is given out when it can no longer be part of a secret."""

    __slots__ = ("_redaction", "held", "touched")

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self.held = ""
        """What may be the beginning of a secret."""
        self.touched = False
        """Something was cut out, or may have to be; if not, the whole text has no secret either."""

    def feed(self, piece: str) -> str:
        """One more piece; what may be given out now, which may be nothing."""
        redaction = self._redaction
        if redaction.inert:
            return piece
        if "\\" in piece:  # escapes are looked into once the text is whole
            self.touched = True
        text = self.held + piece
        if redaction.settled(text):
            self.held = ""
            return text
        place = redaction.begins_at(text)
        if place < len(text):
            place = redaction.whole_before(text, place)
        if len(text) - place > HELD:
            self.touched = True
            text = redaction.text(text)
            place = max(len(text) - KEPT, 0)
        self.held = text[place:]
        return self._out(text[:place] if self.held else text)

    def rest(self, cut: bool = False) -> str:
        """What was held back: the text is at its end. ``cut``: in the middle of something."""
        held, self.held = self.held, ""
        whole = self._redaction.ended(held, cut)
        if whole is not held:
            self.touched = True
        return whole

    def _out(self, text: str) -> str:
        redacted = self._redaction.text(text)
        if redacted is not text:
            self.touched = True
        return redacted


def _marked(match: re.Match[str]) -> str:
    kept = match.groups()
    return (kept[0] or "") + MARK + (kept[1] or "" if len(kept) > 1 else "") if kept else MARK


def _unescaped(text: str) -> str:
    """The text with the characters themselves; what JSON must escape stays escaped."""
    text = text.replace("\\\\", _PAIR)
    for written in set(_ESCAPES.findall(text)):
        character = chr(int(written[2:], 16)) if written != "\\/" else "/"
        if character.isprintable() and character not in '"\\':
            text = text.replace(written, character)
    return text.replace(_PAIR, "\\\\")


def _is_secret(name: str, value: str) -> bool:
    value = value.strip()
    if _NAMES.search(name) is None or len(value) < 8:
        return False
    return len(value) >= 16 or (any(c.isdigit() for c in value) and any(c.isalpha() for c in value))


def _forms(value: str) -> Iterable[str]:
    """A secret as it is, as JSON text, in a URL, and in base64 wherever it begins there."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")
    yield quote_plus(value)
    raw = value.encode("utf-8", "surrogatepass")
    for shift in range(3):
        # Without the characters at either end that also depend on what stands beside it.
        whole = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")
        inner = whole[(0, 2, 3)[shift] : len(whole) - ((shift + len(raw)) % 3 != 0)]
        if len(inner) >= 8:
            yield inner
            yield inner.replace("+", "-").replace("/", "_")
