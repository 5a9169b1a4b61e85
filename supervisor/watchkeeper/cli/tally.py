"""What came of many reviews: one row a run, and a summary of them all."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any

from .filters import BAD, GOOD
from .interval import Share
from .judging import Judged, position_of
from .review import ACTIONS as STRENGTH

ACTIONS = ("nudge", "block", "stop")


def row_of(judged: Judged) -> dict[str, Any]:
    """One run as plain data. Positions are indices of calls, from 0; None where there is nothing."""
    strongest, label = judged.strongest(), judged.label
    row: dict[str, Any] = {
        "id": judged.run,
        "outcome": judged.outcome,
        "label": label.stuck if label is not None else None,
        "onset": label.onset if label is not None else None,
        "nudged_at": judged.first("nudge"),
        "blocked_at": judged.first("block"),
        "stopped_at": judged.first("stop"),
        "detector": strongest.detector if strongest is not None else None,
        "pattern": strongest.pattern if strongest is not None else None,
        "calls_saved": judged.saved,
        "calls": judged.calls,
        "source": judged.source,
        "model": judged.model,
        "began_at": strongest.began if strongest is not None else None,
        "calls_since": strongest.calls_since if strongest is not None else None,
    }
    if strongest is not None and strongest.tokens_since:
        row["tokens_since"] = strongest.tokens_since
    if (paused := judged.first("pause")) is not None:
        row["paused_at"] = paused
    if judged.standard is not None:
        row["default"] = {
            **{f"{verb}_at": position_of(judged.standard, action) for action, verb in _verbs()},
            "calls_saved": judged.standard_saved,
        }
    if judged.differences:
        row["differs"] = list(judged.differences)
    return row


def caught_at(judged: Judged) -> int | None:
    """Where a run that is labelled as stuck was caught: blocked or stopped at its onset or later, the stop first."""
    onset = onset_of(judged)
    return next((at for at in (judged.first("stop"), judged.first("block")) if at is not None and at >= onset), None)


def onset_of(judged: Judged) -> int:
    return judged.label.onset or 0 if judged.label is not None else 0


class Tally:
    """Sums up runs. A good run is one that succeeded; blocks have figures of their own and are no stops.

    Caught is a run that is labelled as stuck and was blocked or stopped at its onset or later; a nudge does not count.
    The delay is the number of calls from the onset to the stop (to the block where no stop came).
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(
            (
                *("runs", "calls", "nudged", "blocked", "stopped"),
                *("good_runs", "good_nudged", "good_blocked", "good_stopped", "failed_runs", "failed_stopped"),
                *("stuck_labels", "stuck_caught", "healthy_labels", "healthy_nudged", "healthy_blocked"),
                *("healthy_stopped", "calls_saved", "differing"),
            ),
            0,
        )
        self.delays: list[int] = []
        self.by_detector: Counter[tuple[str, str]] = Counter()
        """Runs by detector or guard and the strongest that it did in them."""
        self._against: dict[str, int] | None = None

    def add(self, judged: Judged) -> None:
        counts = self._counts
        counts["runs"] += 1
        counts["calls"] += judged.calls
        counts["calls_saved"] += judged.saved
        counts["differing"] += bool(judged.differences)
        done = {action: judged.first(action) is not None for action in ACTIONS}
        kinds = [""]
        if judged.outcome in GOOD:
            counts["good_runs"] += 1
            kinds.append("good_")
        elif judged.outcome in BAD:
            counts["failed_runs"] += 1
            counts["failed_stopped"] += done["stop"]
        if judged.label is not None and judged.label.stuck == "no":
            counts["healthy_labels"] += 1
            kinds.append("healthy_")
        for kind in kinds:
            for action, verb in _verbs():
                counts[kind + verb] += done[action]
        if judged.label is not None and judged.label.stuck == "yes":
            counts["stuck_labels"] += 1
            at = caught_at(judged)
            if at is not None:
                counts["stuck_caught"] += 1
                self.delays.append(at - onset_of(judged))
        strongest: dict[str, str] = {}
        for one in judged.judgements:
            strongest[one.detector] = max(strongest.get(one.detector, one.action), one.action, key=STRENGTH.index)
        self.by_detector.update(strongest.items())
        if judged.standard is not None:
            self._compare(judged, judged.standard)

    def summary(self) -> dict[str, Any]:
        calls, saved = self._counts["calls"], self._counts["calls_saved"]
        return {
            **self._counts,
            "median_delay_calls": median(self.delays) if self.delays else None,
            "calls_saved_share": round(saved / calls, 6) if calls else 0.0,
            **({"against_default": self._against} if self._against is not None else {}),
        }

    def share(self, hits: str, of: str) -> Share:
        return Share(self._counts[hits], self._counts[of])

    def _compare(self, judged: Judged, standard: tuple[Any, ...]) -> None:
        if self._against is None:
            names = [f"{when}_{verb}" for _, verb in _verbs() for when in ("now", "no_longer")]
            self._against = dict.fromkeys((*names, "calls_saved_more"), 0)
        for action, verb in _verbs():
            now, before = judged.first(action) is not None, position_of(standard, action) is not None
            self._against[f"now_{verb}"] += now and not before
            self._against[f"no_longer_{verb}"] += before and not now
        self._against["calls_saved_more"] += judged.saved - judged.standard_saved


def _verbs() -> tuple[tuple[str, str], ...]:
    return (("nudge", "nudged"), ("block", "blocked"), ("stop", "stopped"))
