"""What an episode has cost: calls and tokens since its onset."""

from __future__ import annotations

from array import array
from bisect import bisect_left

import msgspec

from ..messages import ChildEnded, Finding, Settled

KEPT = 64
"""Points of a total that are remembered: 0.8 KB. The newer half is exact, which is as far back as an onset lies as a
rule; of the older ones every second goes whenever room is needed, so an onset in there may be named some calls late."""
MOST = 2**63 - 1
LAST = 2**32 - 1
"""Numbers of facts beyond it, in a record that is not ours, are it."""


class Total:
    """A running total, and where it stood at the facts that it grew with."""

    __slots__ = ("_at", "_before", "now")

    def __init__(self) -> None:
        self._at = array("I")
        self._before = array("Q")
        self.now = 0

    def add(self, n: int, amount: int) -> None:
        if len(self._at) == KEPT:
            for points in (self._at, self._before):
                del points[1 : KEPT // 2 : 2]
        self._at.append(n if 0 <= n <= LAST else min(max(n, 0), LAST))
        self._before.append(self.now)
        if amount > 0:
            self.now = min(self.now + amount, MOST)

    def before(self, n: int) -> int:
        """What it was before fact ``n``."""
        place = bisect_left(self._at, n)
        return self._before[place] if place < len(self._at) else self.now


class Spent:
    """Totals of one run and its sub-agents. Feed it what is settled, what sub-agents have used up at their end, and the
    calls of a round, before they are judged."""

    __slots__ = ("calls", "tokens")

    def __init__(self) -> None:
        self.calls = Total()
        self.tokens = Total()

    def settled(self, event: Settled) -> None:
        self.tokens.add(event.n, int(event.amounts.get("tokens", 0)))

    def child_ended(self, event: ChildEnded) -> None:
        self.calls.add(event.n, event.calls)
        self.tokens.add(event.n, event.tokens)

    def of(self, finding: Finding) -> Finding:
        """The finding with its onset call and what has been spent from then on; without an onset as it is."""
        if not finding.onset:
            return finding
        before = self.calls.before(finding.onset)
        return msgspec.structs.replace(
            finding,
            onset_call=before + 1,
            calls_since=self.calls.now - before,
            tokens_since=self.tokens.now - self.tokens.before(finding.onset),
        )
