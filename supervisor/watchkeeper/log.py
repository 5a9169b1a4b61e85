"""The log of a run: numbered facts, append-only; folds see each at once, readers follow with cursors.

The log is the one truth. Folds (ledger, history, budget, evidence) are applied inside :meth:`Log.append`; readers
(watchdog, journal, viewers) come along in their own tasks. A reader that *must* see everything holds the facts back
from trimming; a viewer that is slow sees a gap.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import anyio

from .messages import Event
from .messages import Gap as Gap
from .redaction import NOTHING_SECRET, Redaction, texts_of
from .seams import Seams
from .shelf import PACK, Shelf, Texts

KEEP = 1000
"""Facts that the log keeps for late viewers, and the lag of watchdog or journal at which no new call starts."""

JOURNAL = "journal"
"""Name of the reader that makes facts durable: before a writing call runs it must have passed the fact of its start."""

BACKLOG = 256
"""Facts after which a lazy reader is woken although nobody waits for it."""

FRESH = 8
"""Facts that are not packed: readers that keep up look at them."""

OURS = frozenset(
    (
        *("run", "parent", "context", "call_id", "held", "child", "approval", "arguments_hash", "idempotency_key"),
        *("code", "command"),
    )
)
"""Fields that hold names, ids and digests of ours, or ids of calls, which are made without secrets."""

E = TypeVar("E", bound=Event)


class Fold(Protocol):
    """Something that is computed from the facts: ``folds`` names a function for each type of fact that matters to it.

    They are asked for once, when it is attached, and called in the order of the facts, inside :meth:`Log.append`; they
    must not raise.
    """

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], None]]: ...


class Reader:
    """A cursor on a log. ``passed`` is the number of the last fact that the reader is done with.

    A lazy reader has an ``alarm`` and does not wait for facts: it is told when somebody waits for it
    (:meth:`Log.passed`), when it has a backlog, and at the end. One that can ``look``, which deals with all facts that
    are there and never waits, is asked to at once by whoever waits for it: that is two turns of the event loop less.
    """

    def __init__(
        self,
        log: Log,
        name: str,
        after: int,
        must: bool,
        look: Callable[[], None] | None = None,
        alarm: Callable[[], None] | None = None,
    ) -> None:
        self.look = look
        self.alarm = alarm
        self.log = log
        self.name = name
        self.must = must
        self.closed = False
        self.taken = after
        self.passed = after

    async def take(self, limit: int = KEEP) -> list[Event | Gap]:
        """The next facts, at least one; waits for it. An empty list means: the log has ended.

        On cancellation nothing is lost: the cursor has not moved.
        """
        while True:
            found = self.take_nowait(limit)
            if found or self.log.closed:
                return found
            await self.wait()

    async def wait(self) -> None:
        """Wait until there is something to take, or the log has ended."""
        log = self.log
        if log.n == self.taken and not (log.closed or self.closed):
            await log._changed()

    def wake(self) -> None:
        """Let a lazy reader look now."""
        if self.alarm is not None:
            self.alarm()

    def take_nowait(self, limit: int = KEEP) -> list[Event | Gap]:
        """The next facts, none if there are none; what is no longer kept comes first, as one :class:`Gap`."""
        log = self.log
        found: list[Event | Gap] = []
        first = log.first
        if self.taken + 1 < first:
            found.append(Gap(self.taken + 1, first - 1))
            self.taken = first - 1
        start = self.taken + 1 - first
        count = min(limit, log.n - self.taken)
        if count > 0:
            found += log._part(start, count)
            self.taken += count
        return found

    @property
    def has_backlog(self) -> bool:
        return self.log.n - self.taken >= BACKLOG

    def done(self, n: int | None = None) -> None:
        """Say that all facts up to ``n`` (default: all taken ones) have been dealt with."""
        self.passed = self.taken if n is None else n
        if self.log._barriers:
            self.log._check_barriers()

    def skip(self, n: int) -> None:
        """Pass over the facts up to ``n``: they have been dealt with before."""
        self.taken = max(self.taken, n)
        self.done()

    def close(self) -> None:
        """It reads no more: it holds nothing back and nobody waits for it. Closing twice changes nothing."""
        self.closed = True
        self.wake()
        if self.log._readers.get(self.name) is self:
            del self.log._readers[self.name]
        self.log._check_barriers()


class Log:
    """The facts of one run. No fact holds a secret: ``redaction`` cuts them out before anybody sees it."""

    def __init__(
        self,
        run: str,
        seams: Seams,
        *,
        parent: str | None = None,
        context: str = "main",
        keep: int = KEEP,
        redaction: Redaction = NOTHING_SECRET,
    ) -> None:
        self.run = run
        self.parent = parent
        self.context = context
        self.keep = keep
        self.seams = seams
        self.redaction = redaction
        self._clock = seams.clock
        self.began = seams.clock()
        self._at = seams.wall()
        self.n = 0
        """Number of the last fact."""
        self.turn = 0
        self.user_turn = 0
        self.closed = False
        self._shelf = Shelf(run)
        """The older ones of the facts that are kept."""
        self._events: list[Event] = []
        """The others."""
        self._folds: dict[type[Event], tuple[Callable[[Any], None], ...]] = {}
        self._readers: dict[str, Reader] = {}
        self._waiting: anyio.Event | None = None
        self._barriers: list[tuple[str, int, anyio.Event]] = []
        self._attend_at = min(keep + 1, FRESH + PACK)
        """Number of the fact at which there is something to pack or to trim, or a lazy reader to wake."""
        self.last_t = 0.0

    @property
    def first(self) -> int:
        """Number of the oldest fact that is still kept."""
        return self.n - len(self._events) - len(self._shelf) + 1

    def rest_on(self, texts: Texts) -> None:
        """The texts of results are held there: the log need not hold them a second time."""
        self._shelf.texts = texts

    def attach(self, fold: Fold) -> None:
        for kind, apply in fold.folds.items():
            self._folds[kind] = (*self._folds.get(kind, ()), apply)

    def append(self, kind: type[E], *, slot: int = 0, **fields: Any) -> E:
        """Append a fact and return it. Raises ``RuntimeError`` after the end record: nothing comes after that."""
        if not self.redaction.inert:
            for name in fields.keys() & texts_of(kind):
                if name not in OURS:
                    fields[name] = self.redaction.anything(fields[name])
        return self.append_clean(kind, slot=slot, **fields)

    def append_clean(self, kind: type[E], *, slot: int = 0, **fields: Any) -> E:
        """The same for a fact without a secret: its texts were redacted where they came in. For what each call and each
        piece of a reply has."""
        if self.closed:
            raise RuntimeError(f"the log of run {self.run} has ended: {kind.__name__} comes too late")
        self.n = n = self.n + 1
        self.last_t = t = self._clock() - self.began
        event = kind(n, self.run, self._at + t, t, self.parent, self.context, self.turn, slot, self.user_turn, **fields)
        self._events.append(event)
        folds = self._folds.get(kind)
        if folds is not None:
            for apply in folds:
                apply(event)
        if self._waiting is not None:
            self._waiting.set()
            self._waiting = None
        if n >= self._attend_at:
            self._attend()
        return event

    def begin(self) -> None:
        """Set the run's clock to 0."""
        self.began = self._clock()
        self._at = self.seams.wall()

    def restore(self, facts: Iterable[Event], also: Callable[[Event], None]) -> None:
        """Begin with the facts of an earlier attempt at the run: numbers, turns and clock go on behind the last one,
        and the folds see each of them, ``also`` before the others. The time between the attempts is no time of the
        run. Raises ``ValueError`` if a number is missing."""
        at = 0.0
        for event in facts:
            if event.n != self.n + 1:
                raise ValueError(f"fact {self.n + 1} of run {self.run} is missing: the next one is {event.n}")
            self.n, self.last_t, self.turn, self.user_turn = event.n, event.t, event.turn, event.user_turn
            self.context, at = event.context, event.at
            also(event)
            self._events.append(event)
            if self.n >= self._attend_at:
                self._attend()
            for apply in self._folds.get(type(event), ()):
                apply(event)
        self.began = self._clock() - self.last_t
        self._at = max(self.seams.wall(), at) - self.last_t

    def close(self) -> None:
        """End the log. Readers take what is left and then get nothing more."""
        self.closed = True
        if self._waiting is not None:
            self._waiting.set()
            self._waiting = None
        self._wake_lazy()

    def kept(self) -> tuple[Event, ...]:
        """The facts that are still there, from :attr:`first` on."""
        return (*self._shelf.part(0, len(self._shelf)), *self._events)

    def _part(self, start: int, count: int) -> list[Event]:
        """So many of the facts that are kept, from this place on."""
        place = start - len(self._shelf)
        if place >= 0:
            return self._events[place : place + count]
        found = self._shelf.part(start, count)
        return found + self._events[: count - len(found)]

    def reader(
        self,
        name: str,
        *,
        after: int = 0,
        must: bool = False,
        look: Callable[[], None] | None = None,
        alarm: Callable[[], None] | None = None,
    ) -> Reader:
        """A cursor that starts behind fact ``after``; a reader that ``must`` sees every fact from there on.

        Raises ``ValueError`` if there is a reader of that name, or if it must see facts that are no longer kept.
        """
        if name in self._readers:
            raise ValueError(f"the log of run {self.run} has a reader named {name!r} already")
        if must and after + 1 < self.first:
            raise ValueError(f"reader {name!r} must see fact {after + 1}, and the log begins with {self.first}")
        reader = Reader(self, name, self._within(after), must, look, alarm)
        self._readers[name] = reader
        return reader

    async def events(self, after: int = 0) -> AsyncIterator[Event | Gap]:
        """Follow the facts from behind ``after`` to the end: for viewers. A slow one gets a :class:`Gap`."""
        reader = Reader(self, "", self._within(after), False)
        while batch := await reader.take():
            for event in batch:
                yield event

    def _within(self, after: int) -> int:
        return min(max(after, 0), self.n)

    def has_passed(self, name: str, n: int) -> bool:
        """The reader is done with fact ``n``, or there is no such reader."""
        reader = self._readers.get(name)
        return reader is None or reader.passed >= n

    async def passed(self, name: str, n: int) -> None:
        """Wait until the reader is done with fact ``n``: the one barrier. At once if there is no such reader."""
        while True:
            reader = self._readers.get(name)
            if reader is None or reader.passed >= n:
                return
            if reader.look is not None:
                reader.look()
                if reader.passed >= n:
                    return
            event = anyio.Event()
            barrier = (name, n, event)
            self._barriers.append(barrier)
            reader.wake()
            try:
                await event.wait()
            finally:
                if barrier in self._barriers:
                    self._barriers.remove(barrier)

    async def durable(self) -> None:
        """Wait until all facts so far are durable; at once without a journal."""
        if JOURNAL in self._readers:
            await self.passed(JOURNAL, self.n)

    @property
    def is_journaled(self) -> bool:
        """Somebody makes the facts durable."""
        return JOURNAL in self._readers

    def lag(self) -> int:
        """By how many facts the slowest reader that must see everything is behind."""
        n = self.n
        behind = 0
        for reader in self._readers.values():
            if reader.must and n - reader.passed > behind:
                behind = n - reader.passed
        return behind

    @property
    def lags(self) -> bool:
        """A reader that must see everything is behind by more than the bound."""
        return self.lag() > KEEP

    async def caught_up(self) -> None:
        """Wait until no reader that must see everything lags by more than the bound."""
        while self.lags:
            slowest = min((r for r in self._readers.values() if r.must), key=lambda r: r.passed)
            await self.passed(slowest.name, self.n - KEEP // 2)

    def _wake_lazy(self) -> None:
        for reader in list(self._readers.values()):
            reader.wake()

    def _attend(self) -> None:
        """Not for each fact, but every few: pack what all have read, trim what nobody needs, wake lazy readers that
        have a backlog."""
        n = self.n
        again, read = n + 1 + min(self.keep // 16, PACK - 1), n
        for reader in self._readers.values():
            if reader.must:
                read = min(read, reader.taken)
            if reader.alarm is not None:
                due = reader.taken + BACKLOG
                if n < due:
                    again = min(again, due)
                else:
                    reader.wake()
        self._attend_at = again
        packs = (min(read, n - FRESH) - n + len(self._events)) // PACK
        for place in range(0, packs * PACK, PACK):
            self._shelf.put(self._events[place : place + PACK])
        if packs > 0:
            del self._events[: packs * PACK]
        self._trim(read + 1)

    async def _changed(self) -> None:
        if self._waiting is None:
            self._waiting = anyio.Event()
        await self._waiting.wait()

    def _check_barriers(self) -> None:
        kept = []
        for barrier in self._barriers:
            name, n, event = barrier
            reader = self._readers.get(name)
            if reader is None or reader.passed >= n:
                event.set()
            else:
                kept.append(barrier)
        self._barriers = kept

    def _trim(self, needed: int) -> None:
        """Drop what is beyond what is to be kept, up to the fact ``needed``, which somebody has not read yet."""
        shelf = self._shelf
        while len(shelf) and self.n - shelf.first - PACK + 1 >= self.keep and shelf.first + PACK <= needed:
            shelf.drop()
        if not len(shelf):
            del self._events[: max(0, min(len(self._events) - self.keep, needed - self.first))]
