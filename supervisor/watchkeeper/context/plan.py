"""Which messages a view leaves out next, and which outputs it shortens, so that it is no longer than its target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..messages import Message
from . import digest
from .cuts import Cuts, Note, shorter, size
from .units import ALWAYS, SAID, Standing, Unit, units


class Frame(NamedTuple):
    """What the note about the messages left out takes, in characters."""

    bare: int = 0
    """Without anything said of them."""
    calls: int = 0
    """At most, for the calls that found something."""
    summary: int = 0
    """At most, for a summary; 0: there is none."""


class Plan(NamedTuple):
    cuts: Cuts
    """Without a note."""
    left: tuple[Unit, ...]
    """All that is left out, in order."""
    fresh: tuple[Unit, ...]
    """Of that what is left out from now on and is worth a summary."""


def plan(
    messages: Sequence[Message], cuts: Cuts, standing: Standing, note: Note, *, target: int, frame: Frame, keep: int
) -> Plan:
    """Cut on from ``cuts`` until the view has at most ``target`` characters, or nothing is left that may be cut.

    First old outputs are shortened, oldest first; then old units are left out, by worth and age; then what is recent
    (of the last ``keep`` rounds) goes the same two ways, the newest round last and only shortened. What the user said,
    the step of a plan that is being done, open calls and those that an answer has to rest on are never left out.
    """
    planning = _Planning(messages, cuts, standing, note, target, frame)
    rounds = [place for place, unit in enumerate(planning.units) if unit.round]
    newest = rounds[-1] if rounds else len(planning.units)
    recent = rounds[-min(keep, len(rounds))] if rounds else newest
    old, later, last = planning.units[:recent], planning.units[recent:newest], planning.units[newest:]
    planning.shorten(unit for unit in old if not planning.is_needed(unit))
    planning.drop(old)
    planning.shorten((*old, *later))
    planning.drop(later)
    planning.shorten(last)
    return planning.done()


class _Planning:
    """A plan in the making. What the note will take is counted as it grows, never below what it comes to."""

    def __init__(
        self, messages: Sequence[Message], cuts: Cuts, standing: Standing, note: Note, target: int, frame: Frame
    ) -> None:
        self._messages = messages
        self._standing = standing
        self._note = note
        self._target = target
        self._frame = frame
        self.units = units(messages, standing)
        self._before = cuts
        self._shortened = set(cuts.shortened)
        self._dropped = set(cuts.dropped)
        self._lines = 0
        self._summed = False
        self._size = 0
        for unit in self.units:
            if unit.first in self._dropped:
                self._count(unit)
            else:
                self._size += sum(map(self._seen, unit.places))

    def is_needed(self, unit: Unit) -> bool:
        return any(call.id in self._standing.needed for call in self._messages[unit.first].calls)

    @property
    def fits(self) -> bool:
        return self._size + self._note_size() <= self._target

    def _note_size(self) -> int:
        if not self._dropped:
            return 0
        summary = self._frame.summary if self._summed else 0
        return self._frame.bare + min(self._frame.calls, self._lines + digest.RESERVE) + summary

    def _seen(self, place: int) -> int:
        message = self._messages[place]
        return size(shorter(message, self._note) if place in self._shortened else message)

    def _count(self, unit: Unit) -> None:
        """What the note says of a unit that is left out."""
        self._lines += sum(len(line) + 1 for line in digest.lines(self._messages, unit, self._standing))
        self._summed = self._summed or unit.worth >= SAID

    def shorten(self, some: Iterable[Unit]) -> None:
        for unit in some:
            for place in unit.places[1:]:
                if self.fits:
                    return
                message = self._messages[place]
                if place in self._shortened or place in self._dropped or message.call_id in self._standing.open:
                    continue
                saved = size(message) - size(shorter(message, self._note))
                if saved > 0:
                    self._shortened.add(place)
                    self._size -= saved

    def drop(self, some: Iterable[Unit]) -> None:
        going = [unit for unit in some if unit.worth < ALWAYS and unit.first not in self._dropped]
        for unit in sorted(going, key=lambda unit: (unit.worth, unit.first)):
            if self.fits:
                return
            self._size -= sum(map(self._seen, unit.places))
            self._dropped.update(unit.places)
            self._shortened.difference_update(unit.places)
            self._count(unit)

    def done(self) -> Plan:
        cuts = Cuts(frozenset(self._shortened), frozenset(self._dropped))
        left = tuple(unit for unit in self.units if unit.first in self._dropped)
        fresh = tuple(unit for unit in left if unit.first not in self._before.dropped and unit.worth >= SAID)
        return Plan(cuts, left, fresh)
