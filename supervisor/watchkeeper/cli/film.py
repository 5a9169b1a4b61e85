"""What a run looked like call by call, kept small: enough to draw it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from ..fingerprint import digest
from ..messages import CallEnded, CallProposed, Event, RunStarted

DRAWN = 120
"""Calls of one run that are drawn."""
AROUND = 12
"""Calls before and after what matters that are drawn with it."""
HEAD = 600
TAIL = 200
"""Calls at the beginning and at the end that are kept."""
AFTER = 12
"""Calls that are kept after the stop."""
SHOWN = 240
"""Characters of arguments and results that are kept."""
KEYS = 20_000
"""Different calls and results that are told apart; what comes later counts as seen never before."""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One call. Equal calls have equal numbers, and so have equal results."""

    position: int
    tool: str
    arguments: str
    result: str
    failed: bool
    context: str
    user_turn: int
    call: int
    answer: int


class Film:
    """A fold over the events of one run. Keeps the first and the last calls of it, and those before
    something was done."""

    def __init__(self) -> None:
        self.calls = 0
        self._head: list[Frame] = []
        self._kept: list[Frame] = []
        self._tail: deque[Frame] = deque(maxlen=TAIL)
        self._numbers: dict[str, int] = {}
        self._positions: dict[str, int] = {}

    def around(self, marks: Iterable[int]) -> tuple[Frame, ...]:
        """At most :data:`DRAWN` calls, with what lies around the marked ones; where calls are left out, positions
        jump."""
        found = {one.position: one for one in (*self._head, *self._kept, *self._tail)}
        frames = [found[position] for position in sorted(found)]
        if len(frames) <= DRAWN:
            return tuple(frames)
        places = sorted(marks) or [0]
        near = [one for one in frames if places[0] - AROUND <= one.position <= places[-1] + AROUND]
        half = DRAWN // 2
        return tuple(near if len(near) <= DRAWN else near[:half] + near[-half:])

    def keep(self) -> None:
        """Something was done just now: keep the calls that led to it."""
        if len(self._kept) < HEAD:
            self._kept += list(self._tail)[-AROUND:]

    def observe(self, event: Event, stopped_at: int | None) -> None:
        if isinstance(event, RunStarted):
            self.__init__()  # type: ignore[misc]
        elif isinstance(event, CallProposed):
            self._positions[event.call_id] = self.calls
            self.calls += 1
        elif isinstance(event, CallEnded):
            result = event.result
            position = self._positions.pop(result.call_id, self.calls - 1)
            if stopped_at is not None and position > stopped_at + AFTER:
                return
            key = event.key or f"{result.tool}\0{event.arguments}"
            answer = event.result_key or digest(result.content.encode("utf-8", "replace"))
            frame = Frame(
                position,
                result.tool,
                event.arguments[:SHOWN],
                result.content[:SHOWN],
                result.kind != "finished",
                event.context,
                event.user_turn,
                self._number(f"c{key}"),
                self._number(f"r{answer}"),
            )
            (self._head if len(self._head) < HEAD else self._tail).append(frame)

    def _number(self, key: str) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = len(self._numbers)
            if number >= KEYS:
                return KEYS + self.calls
            self._numbers[key] = number
        return number
