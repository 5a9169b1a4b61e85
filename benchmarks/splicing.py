"""Splices loops into good recorded runs, so that recall is measured on loops whose onset is known. Pure and seeded.

A splice is the beginning of a good run, up to a random place, and then a loop: some consecutive calls of that very run,
taken at that place, go round until the record ends (a loop ends by being stopped, not by itself). It lies within one
user turn and one agent context. How the laps differ from each other is its class:

- ``exact``: not at all. ``noise``: fresh calls between. ``shuffled``: each lap in another order.
- ``volatile_results``, ``volatile_arguments``: something in them is new each time that says nothing (``volatile.py``).
- ``near``: reworded, requoted, resliced, and still nothing new (``rewording.py``).
- ``error``: one call fails in one way whatever its arguments (``rewording.py``).

Nothing here knows how loops are found: no mask and no threshold of the detectors is used.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence

import msgspec

from rewording import Failing, near
from volatile import VolatileArguments, VolatileResults
from watchkeeper.cli.recorded import RecordedRun, Step

KEPT = 4096
"""Characters of a result that a record keeps, as in the corpora."""
PERIODS = range(1, 9)
SHARES = (0.20, 0.35, 0.50)
"""Shares of fresh calls in a loop with noise."""
CLASSES = ("exact", "noise", "shuffled", "volatile_results", "volatile_arguments", "near", "error")
LEAST_CALLS = 10
LEAST_LAPS = 6


class Splice(msgspec.Struct, frozen=True):
    """A run that has a loop from ``onset`` (an index of calls, from 0) to its end."""

    run: RecordedRun
    source: str
    kind: str
    variant: str
    period: int
    onset: int
    laps: tuple[int, ...]
    """For each call from the onset on the lap that it belongs to, from 1; 0: a call that is no part of the loop."""
    body: tuple[Step, ...]
    """The calls that go round, as the good run had them."""

    def lap_at(self, position: int) -> int:
        """The lap that the call at this index is in (a fresh call between: the lap around it)."""
        return max(self.laps[: position - self.onset + 1], default=0)


Lap = Callable[[int], list[Step]]
"""The calls of the lap with this number, from 1."""


class Splicer:
    """Makes splices of the good runs of one source."""

    def __init__(
        self,
        source: str,
        runs: Sequence[RecordedRun],
        seed: int = 1,
        *,
        least_calls: int = LEAST_CALLS,
        least_laps: int = LEAST_LAPS,
    ) -> None:
        self.source = source
        self.seed = seed
        self._least = (least_calls, least_laps)
        self._runs = [run.calls for run in runs]
        self._ids = [run.id for run in runs]
        self._places = {period: list(self._find(period)) for period in PERIODS}
        self._fillers = [call for calls in self._runs for call in calls if not call.args_partial]

    def splice(self, kind: str, period: int, number: int) -> Splice | None:
        """The splice with this number; equal seeds and numbers give equal splices. None: no run has such a place."""
        places = self._places[period]
        if not places:
            return None
        rng = random.Random(f"{self.seed}/{self.source}/{kind}/{period}/{number}")
        which, start = rng.choice(places)
        calls = self._runs[which]
        body = calls[start : start + period]
        here = body[0]
        variant, lap = _laps(kind, body, rng)
        calls_least, laps_least = self._least
        count = max(-(-calls_least // period), laps_least)
        numbered = [(number, call) for number in range(1, count + 1) for call in lap(number)]
        if kind == "noise":
            share = SHARES[number % len(SHARES)]
            variant = f"{share:.0%}"
            numbered = list(self._mixed(numbered, share, calls[:start], rng))
        looped = [
            msgspec.structs.replace(
                call, call_id=f"loop {position}", user_turn=here.user_turn, agent=here.agent, args_partial=False
            )
            for position, (_, call) in enumerate(numbered)
        ]
        name = f"splice/{kind}/{self.source}/p{period}/{number}/{self._ids[which]}@{start}"
        return Splice(
            RecordedRun(name, (*calls[:start], *looped), model="spliced"),
            self.source,
            kind,
            variant,
            period,
            start,
            tuple(lap for lap, _ in numbered),
            tuple(body),
        )

    def _find(self, period: int) -> Iterator[tuple[int, int]]:
        """Where so many calls in a row are all different, whole, and in one context; the last call before the loop
        must not be one of them: the onset would be earlier."""
        for which, calls in enumerate(self._runs):
            for start in range(len(calls) - period + 1):
                body = calls[start : start + period]
                if any(call.args_partial for call in body) or len({call.agent for call in body}) > 1:
                    continue
                names = {_named(call) for call in body}
                if len(names) == period and not (start and _named(calls[start - 1]) in names):
                    yield which, start

    def _mixed(
        self, loop: list[tuple[int, Step]], share: float, before: Sequence[Step], rng: random.Random
    ) -> Iterator[tuple[int, Step]]:
        """The loop with fresh calls between: calls that neither it nor the run before it has."""
        known = {_named(call) for _, call in loop} | {_named(call) for call in before}
        wanted = round(len(loop) * share / (1 - share))
        fresh: list[Step] = []
        while len(fresh) < wanted:
            call = rng.choice(self._fillers)
            if _named(call) not in known:
                known.add(_named(call))
                fresh.append(call)
        gaps = sorted(rng.randrange(1, len(loop)) for _ in fresh)
        for position, one in enumerate(loop):
            while gaps and gaps[0] == position:
                gaps.pop(0)
                yield 0, fresh.pop()
            yield one


def _laps(kind: str, body: list[Step], rng: random.Random) -> tuple[str, Lap]:
    """What this class makes of the laps: its name for the variant, and the maker of laps."""
    if kind in ("exact", "noise"):
        return "", lambda lap: body
    if kind == "shuffled":
        return "", lambda lap: body if lap == 1 else rng.sample(body, len(body))
    if kind == "volatile_results":
        results = VolatileResults(body, rng)
        return results.variant, lambda lap: [rerecorded(call, text) for call, text in results.lap()]
    if kind == "volatile_arguments":
        arguments = VolatileArguments(body, rng)
        with_results = VolatileResults(body, rng, whole_outputs=False) if rng.random() < 0.2 else None
        if with_results is None:
            return arguments.variant, lambda lap: arguments.lap()
        return (
            f"{arguments.variant} + results",
            lambda lap: [
                msgspec.structs.replace(rerecorded(call, text), args=other.args, tool=other.tool)
                for (call, text), other in zip(with_results.lap(), arguments.lap(), strict=True)
            ],
        )
    if kind == "near":
        variant, rewordings = near(body, rng)
        return variant, lambda lap: [rerecorded(*one()) for one in rewordings]
    failing = Failing(body[0], rng)
    return failing.variant, lambda lap: [rerecorded(*failing.once())]


def rerecorded(step: Step, text: str) -> Step:
    """The step with another result, as a recorder would have kept it: the beginning, and a digest of the whole."""
    old = step.result if isinstance(step.result, str) else ""
    unseen = max((step.result_len or 0) - len(old), 0) if old[:64] and old[-64:] in text else 0
    whole = text + (step.result_sha256 or "") if unseen else text
    return msgspec.structs.replace(
        step,
        result=text[:KEPT],
        result_len=len(text) + unseen,
        result_sha256=hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest(),
    )


def _named(call: Step) -> tuple[str, bytes]:
    return call.tool, msgspec.json.encode(call.args, order="deterministic")
