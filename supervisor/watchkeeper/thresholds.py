"""The thresholds of detection, all in one place, each with its reason.

Figures with a source are from 3,100 public runs of 30 models: the largest value of each metric within a run, at the
99th percentile of good runs (customer service / coding / multi-context).
"""

from __future__ import annotations

import msgspec


class Steps(msgspec.Struct, frozen=True):
    """At which count a finding becomes a nudge, a block, a stop. None: that step is left out."""

    nudge: int | None = None
    block: int | None = None
    stop: int | None = None


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """When the watchdog acts. Counts include the current call and, for refused ones, their proposals."""

    window: int = 30
    """Recent pairs of call and result that detectors can look back on."""

    equal: Steps = Steps(3, 5, 8)
    """Equal call with equal result, rounds in a row. Good runs: 2 / 2 / 2; the very largest 8 / 5 / 3."""

    equal_any: Steps = Steps(20, 45, 60)
    """Equal call whatever the result. Arguments alone are no proof: a poll that progresses looks like this, so the
    first word comes at 20 and a block only where no good run was seen."""

    cycle: Steps = Steps(3, 4, 5)
    """Laps of a cycle of calls with equal results, of period 2 to 8: told within 3 laps, stopped within 5."""

    poll: Steps = Steps(10, 20, 30)
    """Unchanged polls of a tool that is declared ``poll``, once its patience has run out."""
    poll_patience: float = 120.0
    """Seconds without a change before unchanged polls count at all."""

    failing: Steps = Steps(3, 5, 8)
    """Rounds in a row in which one tool failed with one error signature. Good runs: same error class 2 / 5 / 6 in a
    row; 85 % of transient errors heal within two retries; three failures of one tool in a row happen in 2 % of good
    runs, eight in none."""
    failing_in_any_way: bool = False
    """Count failures of a tool in a row whatever the error, instead of those of one signature."""

    arguments: Steps = Steps(4, None, 5)
    """Bad arguments for one tool, rounds in a row: three tries to mend them, then a word, then the end."""

    breaker: int = 30
    """Equal pairs within the window, whatever stands between them: a hard ceiling that nothing lifts."""

    silence: float = 120.0
    """Seconds without any fact while nothing with a deadline of its own is going on."""


PERIODS = range(2, 9)
"""Periods of cycles that are looked for; the one with the most laps wins, of equal ones the smallest."""
