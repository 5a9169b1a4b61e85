"""A run's way to its long-term store: redacted, bounded, in time, and never the end of the run."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import anyio

from .. import failures
from ..context.digest import harmless
from ..escapes import neutral
from ..log import Log
from ..messages import ContextCompacted, Event, ModelReplied, NotesFailed, NotesShown
from ..threads import Job, Threads
from ..wording import Wording
from .forgetting import Weights
from .offer import RECALL
from .store import Note, Store

SECONDS = 5.0
"""That the store may take for one thing."""
FAILURES = 3
"""In a row, after which it is asked no more."""
SHOWN = 5
"""Notes that are shown by themselves at once."""
TEXT = 2000
"""Characters of a note."""
ABOUT = 200
QUERY = 2000


class Recollection:
    """Adds notes, finds them, and shows by itself those that may matter. A fold over the run's log."""

    def __init__(self, store: Store, threads: Threads, log: Log, wording: Wording) -> None:
        self._store = store
        self._threads = threads
        self._log = log
        self._wording = wording
        self._weights = Weights()
        self._in_view: set[Note] = set()
        self._failures = 0
        self._turn = anyio.Lock()
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            ModelReplied: self._replied,
            ContextCompacted: self._compacted,
        }

    async def add(self, text: str, about: str = "") -> bool:
        """Keep a note; False if that did not work."""
        redaction = self._log.redaction
        text, about = redaction.within(text.strip(), TEXT), redaction.within(about.strip(), ABOUT)
        return bool(text) and await self._reach(self._store.add, text, about) is not _FAILED

    async def search(self, query: str, limit: int = SHOWN) -> list[Note]:
        """Notes that have to do with the query, without those that were shown again and again for nothing."""
        found = self._weights.sorted(await self._find(query, limit))[:limit]
        self._weights.shown(found, query)
        return found

    async def show(self, query: str) -> None:
        """Show the model what may matter to the query and is not in its view already."""
        found = [note for note in self._weights.sorted(await self._find(query, SHOWN)) if note not in self._in_view]
        if not found:
            return
        found = found[:SHOWN]
        self._in_view.update(found)
        self._weights.shown(found, query)
        told = self._wording.notes([line(note) for note in found])
        self._log.append(NotesShown, text=told.text, notes=len(found))

    async def _find(self, query: str, limit: int) -> list[Note]:
        query = self._log.redaction.text(query[:QUERY])
        found = await self._reach(self._store.search, query, 2 * limit)
        if found is _FAILED:
            return []
        return [note for note in map(self._clean, found) if note is not None]

    def _clean(self, note: Any) -> Note | None:
        """A note as it may be shown; None for what is none, whatever a store of somebody else's gives."""
        if not (isinstance(note, Note) and isinstance(note.text, str) and isinstance(note.about, str)):
            return None
        within = self._log.redaction.within
        text, about = within(note.text, TEXT), within(note.about, ABOUT)
        return note if (text, about) == (note.text, note.about) else Note(text, about)

    async def _reach(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if self._failures >= FAILURES:
            return _FAILED
        why = f"it took longer than {SECONDS:g} s"
        with anyio.move_on_after(SECONDS):
            try:
                async with self._turn:
                    found = await self._call(method, *arguments)
                    if method == self._store.search:
                        found = _first(found, arguments[1])
                self._failures = 0
                return found
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever a store raises is no more than that
                if failures.holds(error, anyio.get_cancelled_exc_class()):
                    raise
                why = ": ".join(failures.describe(error, None, self._log.redaction)[:2])
        if self._log.closed:
            return _FAILED  # a call that outlives its run
        self._failures += 1
        self._log.append(NotesFailed, error=self._log.redaction.within(why, 300), off=self._failures >= FAILURES)
        return _FAILED

    async def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if inspect.iscoroutinefunction(method):
            return await method(*arguments)
        function = partial(_called, method, arguments)
        found = await self._threads.run(function, contextvars.copy_context(), _nothing, _left)
        return await found if inspect.isawaitable(found) else found

    def _replied(self, event: ModelReplied) -> None:
        self._weights.replied(event, RECALL)

    def _compacted(self, event: ContextCompacted) -> None:
        self._in_view.clear()


def line(note: Note) -> str:
    """A note in one line, with nothing in it that could be taken for a word of ours."""
    about = f"{note.about}: " if note.about else ""
    return harmless(neutral(" ".join(f"{about}{note.text}".split())))


def _called(method: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """In the thread also what a generator does, so that the loop does not wait for it."""
    found = method(*arguments)
    return _first(found, arguments[1]) if isinstance(found, Iterator) else found


def _first(found: Iterable[Any], most: int) -> list[Any]:
    """So many at most: what is found may have no end."""
    return list(islice(found, most))


_FAILED = object()


def _nothing() -> None:
    pass


def _left(job: Job) -> None:
    pass
