"""A round: the calls of one turn with their results, judged as a whole; and the ring of recent pairs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

OURS = frozenset({"block", "equal"})
"""Guards whose refusals repeat what is known: they count as an equal pair and never reset a streak."""


class Pair:
    """One call with its result, as detectors compare them."""

    __slots__ = (
        "call_id", "content", "error", "key", "kind", "n", "ran", "refused", "result", "signature", "t", "tool"
    )  # fmt: skip

    def __init__(self, n: int, t: float, call_id: str, tool: str, key: str, result: str, kind: str) -> None:
        self.n = n
        self.t = t
        self.call_id = call_id
        self.tool = tool
        self.key = key
        self.result = result
        self.kind = kind
        self.error: str | None = None
        self.signature: str | None = None
        """For a failure: the error's class and last line with what varies masked."""
        self.ran = True
        """False for a call that was refused, denied, or answered from memory: it says nothing new about the tool."""
        self.refused = False
        """Refused by a rule of ours that repeats what is known."""
        self.content = ""
        """The first part of what the model saw, for messages."""

    @property
    def both(self) -> tuple[str, str]:
        return self.key, self.result


class Round:
    """The calls of one turn, in slot order. Equal pairs in one round are one piece of evidence, not several."""

    __slots__ = ("fingerprint", "first", "pairs", "t")

    def __init__(self, pairs: list[Pair]) -> None:
        self.first = pairs[0]
        self.t = pairs[-1].t
        if len(pairs) == 1:
            self.pairs = pairs
            self.fingerprint: object = self.first.both
        else:
            distinct = {pair.both: pair for pair in pairs}
            self.pairs = list(distinct.values())
            self.fingerprint = frozenset(distinct) if len(distinct) > 1 else self.first.both


class Ring:
    """The recent pairs of one agent context: one window that all detectors read."""

    def __init__(self, size: int) -> None:
        self._pairs: deque[tuple[str, str]] = deque(maxlen=size)
        self._counts: dict[tuple[str, str], int] = {}
        self.last_result: dict[str, tuple[str, str]] = {}
        """By call key: the last result key, and the content, of a call that ran; the latest last. Bounded."""

    def add(self, pairs: Iterable[Pair]) -> None:
        ring, counts = self._pairs, self._counts
        for pair in pairs:
            if len(ring) == ring.maxlen:
                old = ring[0]
                left = counts[old] - 1
                if left:
                    counts[old] = left
                else:
                    del counts[old]
            both = pair.both
            ring.append(both)
            counts[both] = counts.get(both, 0) + 1
            if pair.ran:
                self.last_result.pop(pair.key, None)
                self.last_result[pair.key] = (pair.result, pair.content)
                if len(self.last_result) > 256:
                    self.last_result.pop(next(iter(self.last_result)))

    def count(self, pair: Pair) -> int:
        """How often the pair stands in the window."""
        return self._counts.get(pair.both, 0)
