"""What a run does by nature: its calls by tool, what it repeats, and how it fails. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..fingerprint import digest
from ..messages import CallEnded, Event, ModelReplied, Settled, UserMessage

PLACES = 20
"""Places of one failure that are kept."""
CODES = 100
"""Kinds of failures that are told apart in one run."""
PAIRS = 20_000
"""Different calls that are told apart in one run."""


class _Streak:
    """The longest row of equal values; the row ends where a value differs, and where the user speaks."""

    __slots__ = ("last", "length", "longest")

    def __init__(self) -> None:
        self.last: object = None
        self.length = 0
        self.longest = 0

    def see(self, value: object) -> None:
        self.length = self.length + 1 if value == self.last else 1
        self.last = value
        self.longest = max(self.longest, self.length)


class _Context:
    """What is followed in each agent context apart."""

    __slots__ = ("call", "errors", "pair", "seen")

    def __init__(self) -> None:
        self.call, self.pair = _Streak(), _Streak()
        self.errors = 0
        self.seen: dict[str, str] = {}
        """By call: its last result."""


class Habits:
    """A fold over the events of one run. ``timed``: its events have times, which say where failures are; else indices
    of calls do.

    An equal call has the tool and arguments of one before, in its context and since the user spoke last; an equal pair
    has its result too.
    """

    def __init__(self, *, timed: bool) -> None:
        self._timed = timed
        self.calls = 0
        self.tools: Counter[str] = Counter()
        self.equal_calls = 0
        self.equal_pairs = 0
        self.failed = 0
        self.failures: dict[str, list[float]] = {}
        self.codes: Counter[str] = Counter()
        self.longest_errors = 0
        self.error_streaks: Counter[int] = Counter()
        """How many rows of failed calls there were, by length; single failures are no row."""
        self.tokens: float | None = None
        self.spend: Counter[str] = Counter()
        self._longest = [0, 0]
        self._contexts: dict[str, _Context] = {}

    @property
    def longest_call(self) -> int:
        """The most equal calls in a row."""
        return max([self._longest[0], *(one.call.longest for one in self._contexts.values())])

    @property
    def longest_pair(self) -> int:
        """The most equal calls with equal results in a row."""
        return max([self._longest[1], *(one.pair.longest for one in self._contexts.values())])

    def observe(self, event: Event) -> None:
        if isinstance(event, CallEnded):
            self._ended(event)
        elif isinstance(event, UserMessage):
            self._close(event.context)
        elif isinstance(event, Settled):
            self.spend.update(event.amounts)
        elif isinstance(event, ModelReplied) and event.usage is not None:
            self.tokens = (self.tokens or 0) + event.usage.total

    def end(self) -> None:
        """Count what was still going on."""
        for context in list(self._contexts):
            self._close(context)

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        here = self._contexts.setdefault(event.context, _Context())
        position = self.calls
        self.calls += 1
        self.tools[result.tool] += 1
        key = event.key or f"{result.tool}\0{event.arguments}"
        answer = event.result_key or digest(result.content.encode("utf-8", "replace"))
        before = here.seen.get(key)
        self.equal_calls += before is not None
        self.equal_pairs += before == answer
        if before is not None or len(here.seen) < PAIRS:
            here.seen[key] = answer
        here.call.see(key)
        here.pair.see((key, answer))
        if result.kind == "finished":
            self._errors_end(here)
            return
        here.errors += 1
        self.longest_errors = max(self.longest_errors, here.errors)
        self.failed += 1
        code = str(result.error or result.kind)[:120]
        if code not in self.codes and len(self.codes) >= CODES:
            code = "other"
        self.codes[code] += 1
        places = self.failures.setdefault(code, [])
        if len(places) < PLACES:
            places.append(round(event.t, 3) if self._timed else position)

    def _errors_end(self, context: _Context) -> None:
        if context.errors > 1:
            self.error_streaks[context.errors] += 1
        context.errors = 0

    def _close(self, context: str) -> None:
        here = self._contexts.pop(context, None)
        if here is not None:
            self._errors_end(here)
            self._longest = [max(self._longest[0], here.call.longest), max(self._longest[1], here.pair.longest)]

    def row(self) -> dict[str, Any]:
        """As plain data; call :meth:`end` before."""
        calls = self.calls
        return {
            "calls": calls,
            "by_tool": dict(self.tools.most_common()),
            "equal_calls": self.equal_calls,
            "equal_pairs": self.equal_pairs,
            "equal_call_share": round(self.equal_calls / calls, 4) if calls else 0.0,
            "equal_pair_share": round(self.equal_pairs / calls, 4) if calls else 0.0,
            "longest_equal_calls": self.longest_call,
            "longest_equal_pairs": self.longest_pair,
            "failed": self.failed,
            "failures": {
                code: {"count": count, "t" if self._timed else "at": self.failures[code]}
                for code, count in self.codes.most_common()
            },
            "error_streaks": {str(length): count for length, count in sorted(self.error_streaks.items())},
            "longest_errors": self.longest_errors,
            "tokens": self.tokens,
            "spend": dict(self.spend) or None,
        }
