"""What came of many reviews: one row a run, and a summary of them all."""

from __future__ import annotations

from statistics import median
from typing import Any

from .labels import Label
from .review import Review

GOOD = ("success", "completed")
BAD = ("fail", "failed")


def row_of(review: Review, label: Label | None) -> dict[str, Any]:
    """One run as plain data. Positions are indices of calls, from 0; None where there is nothing."""
    strongest = review.strongest()
    return {
        "id": review.run,
        "outcome": review.outcome,
        "label": label.stuck if label is not None else None,
        "onset": label.onset if label is not None else None,
        "nudged_at": review.first("nudge"),
        "blocked_at": review.first("block"),
        "stopped_at": review.first("stop"),
        "detector": strongest.detector if strongest is not None else None,
        "pattern": strongest.pattern if strongest is not None else None,
        "calls_saved": review.saved,
    }


class Tally:
    """Sums up rows. A good run is one that succeeded; blocks have figures of their own and are no stops.

    Caught is a run that is labelled as stuck and was blocked or stopped at its onset or later; a nudge does not count.
    The delay is the number of calls from the onset to the stop (to the block where no stop came).
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(
            (
                *("runs", "calls", "nudged", "blocked", "stopped"),
                *("good_runs", "good_nudged", "good_blocked", "good_stopped", "failed_stopped"),
                *("stuck_labels", "stuck_caught", "healthy_labels", "healthy_nudged", "healthy_blocked"),
                *("healthy_stopped", "calls_saved", "differing"),
            ),
            0,
        )
        self._delays: list[int] = []

    def add(self, row: dict[str, Any], review: Review, differs: int = 0) -> None:
        counts = self._counts
        counts["runs"] += 1
        counts["calls"] += review.calls
        counts["calls_saved"] += review.saved
        counts["differing"] += bool(differs)
        nudged, blocked, stopped = (row[name] is not None for name in ("nudged_at", "blocked_at", "stopped_at"))
        counts["nudged"] += nudged
        counts["blocked"] += blocked
        counts["stopped"] += stopped
        if row["outcome"] in GOOD:
            counts["good_runs"] += 1
            counts["good_nudged"] += nudged
            counts["good_blocked"] += blocked
            counts["good_stopped"] += stopped
        elif row["outcome"] in BAD:
            counts["failed_stopped"] += stopped
        if row["label"] == "yes":
            counts["stuck_labels"] += 1
            self._count_stuck(row)
        elif row["label"] == "no":
            counts["healthy_labels"] += 1
            counts["healthy_nudged"] += nudged
            counts["healthy_blocked"] += blocked
            counts["healthy_stopped"] += stopped

    def summary(self) -> dict[str, Any]:
        calls, saved = self._counts["calls"], self._counts["calls_saved"]
        return {
            **self._counts,
            "median_delay_calls": median(self._delays) if self._delays else None,
            "calls_saved_share": round(saved / calls, 6) if calls else 0.0,
        }

    def _count_stuck(self, row: dict[str, Any]) -> None:
        onset = row["onset"] or 0
        after = [at for at in (row["stopped_at"], row["blocked_at"]) if at is not None and at >= onset]
        if after:
            self._counts["stuck_caught"] += 1
            self._delays.append(after[0] - onset)
