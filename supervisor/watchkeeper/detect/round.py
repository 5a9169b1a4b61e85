"""A round: the calls of one turn with their results, judged as a whole; and the window of recent pairs."""

from __future__ import annotations

from array import array
from zlib import crc32

from .bloom import Bloom
from .recent import Recent

OURS = frozenset({"block", "equal", "side_effects"})
"""Guards whose refusals repeat what is known: they count as an equal pair and never reset a streak."""
FAILURES = ("failed", "timed_out")
"""Kinds of results that are failures of the tool."""
FEW = 8
"""Calls of a round up to which each is looked at closely; a wider fan-out is compared as it is."""
SHOWN = 64
"""Calls of a round that are kept, for findings to name."""
EVER = 200
"""Pairs that are remembered for longer than the window, if only roughly."""
RESULTS = 128
"""Results of a wide fan-out that are kept as digests, to compare refused calls with."""


class Pair:
    """One call with its result, as detectors compare them.

    What is rarely set is a default of the class: a fan-out makes many of these at once.
    """

    id = 0
    """Hash of call and result, once the ring has it."""
    signature: str | None = None
    """For a failure: the error's class and last line with what varies masked."""
    error: str | None = None
    poll = False
    """Whether it is judged by the patience of polls: declared as one, told that something goes on, or a wait."""
    telling = True
    """Whether its result is more than an acknowledgement: "ok" may be said to many different things."""
    ran = True
    """False for a call that was refused, denied, or answered from memory: it says nothing new about the tool."""
    refused = False
    """Refused by a rule of ours that repeats what is known."""
    novel = False
    """Whether no such pair was seen in this context before."""
    stale = False
    """Whether it was seen twice before: once more may be a second look, or a second pass over many things."""
    moved = False
    """Whether the call was made before and had another result: something goes on."""
    masked = False
    """Whether its result is the one before but for ids, or for what was learned to be volatile: it may be the next of
    many things of a kind."""
    drifted = False
    """Whether its result differs from the one before in ways that were only learned to be volatile."""
    like = False
    """Whether the call was recognised as an earlier one with other arguments."""
    near = False
    """Whether it is an earlier call put differently: alike, and with the same result."""
    arguments = ""
    """As shown in the log: canonical JSON, perhaps cut."""
    content = ""
    """What the model saw."""

    def __init__(self, n: int, t: float, call_id: str, tool: str, key: str, result: str, kind: str) -> None:
        self.n = n
        self.t = t
        self.call_id = call_id
        self.tool = tool
        self.key = key
        """What the call is known by: calls that differ in volatile parts only have one key."""
        self.result = self.family = result
        """What the result is known by: equal but for volatile parts; and among calls that are put differently."""
        self.kind = kind

    @property
    def both(self) -> tuple[str, str]:
        return self.key, self.result


class Trace:
    """What is kept of a round that has been judged: enough to find a cycle and to name its calls."""

    __slots__ = ("calls", "fingerprint", "keys", "n", "poll", "telling", "tool")

    def __init__(self, round: Round) -> None:
        self.fingerprint = round.fingerprint
        first = round.first
        self.n, self.tool = first.n, first.tool
        pairs = round.pairs[:SHOWN]
        if len(pairs) == 1:
            self.keys: tuple[str, ...] = (first.key,)
            self.calls: tuple[str, ...] = (first.call_id,)
            self.poll, self.telling = first.poll, first.telling
        else:
            self.keys = tuple([pair.key for pair in pairs])
            self.calls = tuple([pair.call_id for pair in pairs])
            self.poll = any([pair.poll for pair in round.pairs])
            self.telling = any([pair.telling for pair in pairs])


class Round:
    """The calls of one turn, in slot order. Equal pairs in one round are one piece of evidence, not several."""

    __slots__ = (
        "calls",
        "fingerprint",
        "first",
        "moved",
        "novel",
        "pairs",
        "polls",
        "t",
        "trace",
        "troubled",
        "unseen",
        "wide",
    )

    def __init__(self, pairs: list[Pair], calls: int = 0) -> None:
        self.calls = calls or len(pairs)
        """How many calls of it have ended, however alike."""
        self.first = first = pairs[0]
        self.t = pairs[-1].t
        self.novel = False
        """Whether any pair of it is new in this context."""
        self.unseen = False
        """Whether any pair of it was never seen, not even with another number in it."""
        self.trace: Trace | None = None
        if len(pairs) == 1:
            self.wide = False
            self.troubled = first.kind != "finished"
            """Whether any call of it failed or did not run."""
            self.moved = first.moved
            """Whether a known call in it had another result: something goes on."""
            self.polls = first.poll
            """Whether any call of it is judged by the patience of polls."""
            self.pairs = pairs
            self.fingerprint = hash(first.both)
        else:
            self.wide = len(pairs) > FEW
            self.troubled = any([pair.kind != "finished" for pair in pairs])
            self.moved = not self.wide and any([pair.moved for pair in pairs])
            self.polls = any([pair.poll for pair in pairs])
            distinct = {pair.both: pair for pair in pairs}
            self.pairs = list(distinct.values())
            self.fingerprint = hash(frozenset(distinct) if len(distinct) > 1 else first.both)

    def traced(self) -> Trace:
        """What is kept of it; made once for all who keep it."""
        if self.trace is None:
            self.trace = Trace(self)
        return self.trace


class Ring:
    """The recent pairs of one agent context: one window that all detectors read."""

    __slots__ = ("_once", "_pairs", "_results", "_size", "_twice", "recent", "rounds")

    def __init__(self, size: int) -> None:
        self._size = size
        self._pairs = array("q")
        """Hashes of pairs, the latest last."""
        self._once = Bloom(EVER)
        self._twice = Bloom(EVER // 2)
        self._results: dict[str, str] = {}
        """Results of wide fan-outs, of which the recent calls hold nothing."""
        self.recent = Recent()
        self.rounds = 0
        """How many there have been."""

    def add(self, round: Round) -> None:
        """Note a round; says of each pair whether it is new."""
        self.rounds += 1
        ring, pairs = self._pairs, round.pairs
        for pair in pairs:
            pair.id = hash((pair.key, pair.result))
        if round.wide:
            # Of a wide fan-out only the window is remembered, and only as much of it as finds room.
            known = set(ring)
            for pair in pairs:
                if pair.id not in known:
                    pair.novel = round.novel = True
            for pair in pairs[-RESULTS:]:
                if pair.ran:
                    self._results.pop(pair.key, None)
                    self._results[pair.key] = pair.result
            pairs = pairs[-self._size :]
            while len(self._results) > RESULTS:
                del self._results[next(iter(self._results))]
        else:
            for pair in pairs:
                if not self._once.add(print_ := crc32(f"{pair.key}\0{pair.result}".encode("utf-8", "replace"))):
                    pair.novel = round.novel = round.unseen = True
                elif pair.drifted:  # perhaps it leads somewhere
                    pair.novel = round.novel = True
                elif self._twice.add(print_):
                    pair.stale = True
        ring.extend([pair.id for pair in pairs])
        if len(ring) > self._size:
            del ring[: len(ring) - self._size]

    def count(self, pair: Pair) -> int:
        """How often the pair stands in the window."""
        return self._pairs.count(pair.id or hash(pair.both))

    def result(self, key: str) -> str | None:
        """What the last result of a call that ran is known by, if it is still kept."""
        return self.recent.result(key) or self._results.get(key)

    def content(self, pair: Pair) -> str:
        """What is known of a call, for messages: the result of the last one that ran, if it is still kept."""
        shown = None if pair.ran else self.recent.shown(pair.key)
        return pair.content[:400] if shown is None else shown
