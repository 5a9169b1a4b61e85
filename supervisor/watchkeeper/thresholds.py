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

    def tells(self, count: int) -> bool:
        """Whether a count is worth a finding: it is one of the steps, or half as much again beyond the last of them."""
        last = self.stop or self.block or self.nudge
        if last is not None and count > last:
            return (count - last) % ((last + 1) // 2) == 0
        return count == self.nudge or count == self.block or count == self.stop


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

    erring: Steps = Steps(5, 8, 12)
    """The same for errors of one kind, that differ in names and numbers."""

    complaint: Steps = Steps(6, 10, 15)
    """The same for results that end in one complaint but do not count as failures (what a shell says, as a rule)."""

    recurring: Steps = Steps(6, 9, 12)
    """Equal pairs within the window, others in between. Good runs: 4 / 3 / 5."""

    interleaved: Steps = Steps(4, 5, 6)
    """Laps of a cycle with fresh calls in between: one more than without, for what is fresh may be progress."""

    stale: Steps = Steps(6, 10, 16)
    """Rounds in a row without news. Good runs of the public corpora: 3; what is looked up again is rarely so much."""

    similar: Steps = Steps(4, 6, 8)
    """Calls put differently in a row with one and the same result."""

    fruitless: Steps = Steps(12, 22, 32)
    """Calls of one tool in a row that found nothing, whatever they looked for."""

    churn: Steps = Steps(12, 20, 30)
    """Calls on one target in a row with one acknowledgement. A large change is made of many edits."""

    turned_away: Steps = Steps(3, None, 6)
    """Rounds in a row in which no call ran, whichever tools they asked for."""

    arguments: Steps = Steps(4, None, 5)
    """Bad arguments for one tool, rounds in a row: three tries to mend them, then a word, then the end."""

    breaker: int = 30
    """Equal pairs within the window, whatever stands between them: a hard ceiling that nothing lifts."""

    handover: Steps = Steps(3, 4, 5)
    """Laps of agents that hand over to each other, or of one sub-task that is spawned with the very same work, with
    nothing new in between: as with any other cycle told within 3 laps, stopped within 5."""

    volume: Steps = Steps(100, None, 150)
    """How much of a line below is used, in percent: told when it is passed, stopped at half as much again."""
    volume_calls: int | None = None
    """Calls of a run and its sub-agents. None: 2,000 for a run that has no limit of calls, as recorded ones, and off
    for one that has, because somebody has chosen it. The largest good runs known have hundreds of calls; a runaway in
    the field made 10,943."""
    volume_tokens: int | None = None
    """Tokens likewise. Off: each turn pays for the whole conversation anew, so long good runs use millions, and the
    budget, which looks before each request, is the better limit."""
    volume_spend: float | None = None
    """Money likewise (the budget's dimension ``money``). Off: what is much depends on the task, not on the run."""
    volume_rate: int | None = None
    """Calls within a minute. Off: a fan-out of a thousand reads is one honest second."""
    volume_depth: int | None = None
    """Levels of sub-agents below the run. Off: the supervisor starts none deeper than 2."""
    step_line: int | None = None
    """Calls beyond which few good runs of this class of task go, learned from earlier ones (``step_line()``). Off until
    it has been learned: a line of another class tells nothing."""

    chant: Steps = Steps(None, None, 3)
    """Replies in a row whose stream was cut because it chanted. Each of them is sent back with a word of its own, so
    the ladder needs none; who has not listened twice will not the third time."""
    chant_cut: bool = True
    """Listen to the streams of replies and cut them when they chant (in mode ``observe``: only say so)."""

    monologue: Steps = Steps(None, None, 3)
    """Near-equal replies without a call, in a row, with no word from the user in between. Each of them was sent back
    with a word of its own, so the ladder needs none; who has not listened twice will not the third time. (Empty ones
    have a limit of their own.)"""

    thoughts: Steps = Steps(4, None, 12)
    """Near-equal long thoughts in a row, before calls that may differ. Good runs: 1, once the calls of one reply count
    as one. The calls have detectors of their own, so only very many are a reason to end."""

    compaction: Steps = Steps(3, None, 6)
    """Compactions of the context in a row with nothing new from any call in between. One that was not enough and one
    more happen; from then on what is left to drop is what the work needs."""

    silence: float = 120.0
    """Seconds without any fact while nothing with a deadline of its own is going on."""


PERIODS = range(2, 9)
"""Periods of cycles that are looked for; the one with the most laps wins, of equal ones the smallest."""
