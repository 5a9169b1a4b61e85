"""Runaway volume of one run and its sub-agents: calls, tokens, money, rate, depth."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..messages import ChildEnded, ChildStarted, Event, Finding, RunStarted, Settled
from ..thresholds import Thresholds
from .round import Ring, Round

UNLIMITED = 2000
"""Calls that are the line of a run without a limit of calls."""
MINUTE = 60.0
SLICES = 6
"""Parts of the minute that calls are counted by: the rate is that of the last 50 to 60 seconds, never more."""


class Volume:
    """Says by how much a line is passed, in percent of it, once for each percent.

    It belongs to the run, not to an agent context or a user turn: what a run uses up does not begin anew. Of sub-agents
    it knows what they report at their end. A run is at 100 when it has *passed* a line: one that has just reached it
    has done nothing that the line forbids.
    """

    name = "volume"
    __slots__ = ("_calls", "_is_given", "_least", "_lines", "_slices", "_spend", "_tokens", "_told")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str] = frozenset()) -> None:
        lines = {
            "calls": UNLIMITED if thresholds.volume_calls is None else thresholds.volume_calls,
            "calls of a good run": thresholds.step_line,
            "calls a minute": thresholds.volume_rate,
            "tokens": thresholds.volume_tokens,
            "spend": thresholds.volume_spend,
            "levels of sub-agents": thresholds.volume_depth,
        }
        self._lines = {name: line for name, line in lines.items() if line is not None}
        self._least = min(self._lines.values(), default=math.inf)
        """No line is passed before this is."""
        self._is_given = thresholds.volume_calls is not None
        self._told: dict[str, tuple[int, int]] = {}
        """By line: percent and onset of the last finding."""
        self._calls = 0
        self._tokens = 0.0
        self._spend = 0.0
        self._slices = array("q", [0] * 2 * SLICES if "calls a minute" in self._lines else [])
        """Calls of each slice of the last minute, then the numbers of those slices."""

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], Iterable[Finding]]]:
        folds: dict[type[Event], Callable[[Any], Iterable[Finding]]] = {
            RunStarted: self._started,
            ChildEnded: self._child_ended,
        }
        if not self._lines.keys().isdisjoint(("tokens", "spend")):
            folds[Settled] = self._settled
        if "levels of sub-agents" in self._lines:
            folds[ChildStarted] = self._child_started
        return folds

    def round(self, round: Round, ring: Ring, context: str) -> Iterable[Finding]:
        self._calls += round.calls
        if self._calls <= self._least and not self._slices:
            return ()
        found: list[Finding] = []
        self._many_calls(round.first.n, round.first.call_id, found)
        if self._slices:
            self._pass("calls a minute", self._rate(round.t, round.calls), round.first.n, round.first.call_id, found)
        return found

    def _started(self, event: RunStarted) -> tuple[Finding, ...]:
        if event.limits.get("calls") is not None and not self._is_given:
            self._lines.pop("calls", None)
            self._least = min(self._lines.values(), default=math.inf)
        if event.earlier:  # it goes on with the work of another run: what that has used up counts
            self._calls += int(event.earlier.get("calls", 0))
            self._tokens += event.earlier.get("tokens", 0)
            self._spend += event.earlier.get("money", 0)
        return ()

    def _settled(self, event: Settled) -> list[Finding]:
        return self._cost(event.amounts, event.n)

    def _child_started(self, event: ChildStarted) -> list[Finding]:
        found: list[Finding] = []
        self._pass("levels of sub-agents", 1, event.n, event.call_id, found)
        return found

    def _child_ended(self, event: ChildEnded) -> list[Finding]:
        self._calls += event.calls
        found = self._cost(event.spent or {"tokens": event.tokens}, event.n)
        self._many_calls(event.n, "", found)
        self._pass("levels of sub-agents", event.depth, event.n, "", found)
        return found

    def _many_calls(self, n: int, call_id: str, found: list[Finding]) -> None:
        self._pass("calls", self._calls, n, call_id, found)
        self._pass("calls of a good run", self._calls, n, call_id, found)

    def _cost(self, amounts: Mapping[str, float], n: int) -> list[Finding]:
        found: list[Finding] = []
        self._tokens += amounts.get("tokens", 0)
        self._spend += amounts.get("money", 0)
        self._pass("tokens", self._tokens, n, "", found)
        self._pass("spend", self._spend, n, "", found)
        return found

    def _rate(self, t: float, calls: int) -> int:
        """Calls of the last minute. 0 in the first one: a beginning is no rate, and records have no times at all."""
        number = int(t / MINUTE * SLICES)
        place = number % SLICES
        counts = self._slices
        if counts[SLICES + place] != number:
            counts[place], counts[SLICES + place] = 0, number
        counts[place] += calls
        if t < MINUTE:
            return 0
        return sum(counts[i] for i in range(SLICES) if counts[SLICES + i] > number - SLICES)

    def _pass(self, line: str, value: float, n: int, call_id: str, found: list[Finding]) -> None:
        most = self._lines.get(line)
        if most is None or value <= most:
            self._told.pop(line, None)
            return
        percent = int(100 * value / most) if most else 100 + int(value)
        told, onset = self._told.get(line, (0, n))
        if percent <= told:
            return
        self._told[line] = percent, onset
        found.append(
            Finding(
                detector=self.name,
                pattern=f"{value:g} {line}, the line is {most:g}",
                count=percent,
                calls=(call_id,) if call_id else (),
                subject=line,
                onset=onset,
            )
        )
