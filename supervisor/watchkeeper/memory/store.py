"""What a long-term store is: two methods, so that whatever finds text by text can be one."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Protocol, runtime_checkable

import msgspec


class Note(msgspec.Struct, frozen=True):
    """A fact in a few sentences, and what it is about."""

    text: str
    about: str = ""


@runtime_checkable
class Store(Protocol):
    """Keeps notes and finds them again. Its methods may be plain, and are then called in a thread, or async.

    Whatever they raise, and whatever takes longer than 5 seconds, is a fact of the run (``NotesFailed``) and no more;
    after the third time the store is asked no more in that run.
    """

    def add(self, text: str, about: str) -> Awaitable[None] | None:
        """Keep a note. An equal one that is there already is not kept twice."""
        ...

    def search(self, query: str, limit: int) -> Awaitable[Iterable[Note]] | Iterable[Note]:
        """At most so many notes that have to do with the query, which may be any text; the best first."""
        ...
