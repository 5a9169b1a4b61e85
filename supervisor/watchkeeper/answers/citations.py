"""Claims linked to calls: which calls an answer cites, and what of it is not borne out by them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from ..ledger import Entry, Ledger
from ..messages import CallRecord, Message, Unverified

CITED = "[call:"
"""With which a citation begins, whatever else is set: one look for it is all that an answer without any costs."""
MAX_UNVERIFIED = 50
MAX_CLAIMS = 2_000
"""Sentences of an answer that are looked at one by one; what comes after them cites nothing, whatever it says."""
SHOWN = 300
"""Characters of a claim that are kept."""
_CITATION = re.compile(r"\[call:([^\[\]\n]{1,1000})\]")
_END = re.compile(r"(?<=[.!?])\s++(?!\[call:)|\n+")
_BEFORE = re.compile(r"(?<![ \t])[ \t]++(?=[.,;:!?]|$)")
"""Space that a citation leaves behind. As the others it looks at each run of spaces once: answers are hostile."""
_WORD = re.compile(r"\w")
_NO_CLAIM = re.compile(r"^(?:#{1,6}\s.*|[^.!?]*:)$")
"""A heading, or what only leads up to what follows."""


class Claim(msgspec.Struct, frozen=True):
    """A sentence of an answer and the calls that it cites."""

    text: str
    calls: tuple[str, ...]


def citation(call_id: str) -> str:
    """How a call is cited."""
    return f"{CITED}{call_id}]"


def claims(text: str) -> list[Claim]:
    """The sentences of a text, list items and lines being such, with what they cite. Bounded by the text."""
    parts = _END.split(text, MAX_CLAIMS)
    rest = parts.pop() if len(parts) > MAX_CLAIMS else ""
    found = [Claim(_bare(part), cited) for part in parts if (cited := tuple(_cited(part))) or _states(part)]
    if rest.strip():
        whole = _bare(rest)
        found += [Claim(whole, ()), Claim(whole, tuple(_cited(rest)))]
    return found


def of_value(value: Any) -> list[Claim]:
    """The texts in a value that cite something: what else stands in data need not be a claim."""
    return [Claim(_bare(text), cited) for text in _texts(value) if CITED in text and (cited := tuple(_cited(text)))]


def unverified(found: list[Claim], calls: Mapping[str, CallRecord | Entry]) -> tuple[Unverified, ...]:
    """What is wrong with what they cite: a call that is not there, did not succeed or found nothing."""
    wrong = [
        Unverified(claim.text, why, call_id)
        for claim in found
        for call_id in claim.calls
        if (why := _why_not(calls.get(call_id))) is not None
    ]
    return tuple(wrong[:MAX_UNVERIFIED])


def uncited(found: list[Claim]) -> tuple[Unverified, ...]:
    """The sentences that cite nothing."""
    return tuple(Unverified(claim.text, "uncited") for claim in found if not claim.calls)[:MAX_UNVERIFIED]


def labelled(messages: Iterable[Message], ledger: Ledger) -> list[Message]:
    """The conversation with each result that may be cited under the words that cite it. What looks like such words in
    a result itself is made to look otherwise."""
    entries = ledger.entries

    def shown(message: Message) -> Message:
        if message.role != "tool":
            return message
        entry = entries.get(message.call_id or "")
        content = message.content.replace(CITED, "(call:")
        if entry is not None and _why_not(entry) is None:
            content = f"{citation(entry.call_id)}\n{content}"
        return message if content == message.content else msgspec.structs.replace(message, content=content)

    return list(map(shown, messages))


def _bare(text: str) -> str:
    """A claim without its citations."""
    return _BEFORE.sub("", _CITATION.sub("", text)).strip()[:SHOWN]


def _why_not(call: CallRecord | Entry | None) -> Any:
    if call is None or (isinstance(call, Entry) and not call.ended):
        return "no_such_call"
    if call.kind != "finished":
        return "not_successful"
    return None if call.productive else "not_productive"


def _cited(text: str) -> Iterator[str]:
    for match in _CITATION.finditer(text):
        for one in match[1].split(","):
            if call_id := one.strip().removeprefix("call:").strip():
                yield call_id


def _states(part: str) -> bool:
    plain = part.strip().strip("*_`> -")
    return _WORD.search(plain) is not None and _NO_CLAIM.match(plain) is None


def _texts(value: Any) -> Iterator[str]:
    open_ = [value]
    while open_:
        one = open_.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            open_ += [*reversed(list(one.values()))]
        elif isinstance(one, list | tuple | set | frozenset):
            open_ += [*reversed(list(one))]
