"""One target worked on again and again, with no look at what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from ..fingerprint import digest
from ..messages import Finding
from ..thresholds import Thresholds
from .arguments import LONGEST, parts_of
from .round import Pair, Ring, Round
from .saying import is_in_vain

_PAYLOAD = re.compile(
    r"(?:\w+\.)*(?:content|contents|text|body|code|data|value|patch|diff|new\w*|replace\w*|replacement|insert\w*"
    r"|html|css|source|payload|message|edits?|lines?|(?!old|find|search)\w*_(?:text|str(?:ing)?))"
)
"""What is written; what is left says where."""
_REPLACED = re.compile(r"(?:\w+\.)*(?:old|find|search)\w*")
_TALK = re.compile(
    r"(?:^|[_.\-/])(?:append|add|insert|create|execute|run|log|record|say|tell|send|post|reply|message|notify|comment|chat|mail|email|respond|ask)(?:$|[_.\-/])"
)
"""Tools that add to something or speak to somebody: many messages to one person are a conversation."""


class Churn:
    """Rounds in a row of one tool on one target, with other contents each time and one and the same acknowledgement.

    A large change is made of many edits, so the bar is high; what ends the streak is any call of another kind: a test,
    a look, another target.
    """

    name = "churn"
    __slots__ = ("_calls", "_count", "_key", "_onset", "_result", "_steps", "_target", "_tool", "_weight")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._steps = thresholds.churn
        self._tool = self._result = self._key = ""
        self._target: str | None = None
        self._count = 0
        self._weight = 1
        """What each call counts: one that says that it brought nothing counts twice."""
        self._onset = 0
        self._calls: tuple[str, ...] = ()

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        pair = round.first
        block = self._steps.block
        refused = pair.refused and pair.tool == self._tool and block is not None and self._count >= block
        alone = len(round.pairs) == 1 and pair.ran and pair.signature is None and not _talks(pair.tool)
        if not refused and (
            not alone or pair.tool != self._tool or pair.family != self._result or pair.key == self._key
        ):
            self._begin(pair, None)
            return ()
        target = self._target if refused else target_of(pair.arguments, is_in_vain(pair.content))
        if target is None or (self._target is not None and target != self._target):
            self._begin(pair, target)
            return ()
        self._target, self._key = target, pair.key
        self._count += self._weight
        self._calls = (*self._calls[-7:], pair.call_id)
        if not self._steps.tells(self._count):
            return ()
        return (
            Finding(
                detector=self.name,
                pattern="one target again and again",
                count=self._count,
                calls=self._calls,
                keys=(f"tool:{pair.tool}",),
                subject=f"{pair.tool} {target}",
                tool=pair.tool,
                onset=self._onset,
                known=pair.content[:400],
            ),
        )

    def _begin(self, pair: Pair, target: str | None) -> None:
        """Anew. What the first call was about is taken to be what the second one is about."""
        self._tool, self._result, self._key, self._target = pair.tool, pair.family, pair.key, target
        self._weight = 2 if pair.ran and is_in_vain(pair.content) else 1
        self._count, self._onset, self._calls = self._weight, pair.n, (pair.call_id,)


@lru_cache(maxsize=128)
def _is_written(name: str, failed: bool) -> bool:
    """Whether a part of this name is what is written, or is to be replaced and was not there."""
    return bool(_PAYLOAD.fullmatch(name) or (failed and _REPLACED.fullmatch(name)))


@lru_cache(maxsize=128)
def _talks(tool: str) -> bool:
    return _TALK.search(tool.lower()) is not None


def target_of(arguments: str, failed: bool = False) -> str | None:
    """What a call is about, as a digest: its arguments without what is written. None if nothing else is there, or if
    nothing is written. What is to be replaced says where, unless it was not there (``failed``)."""
    parts = parts_of(arguments[:LONGEST])
    where = [part for part in parts if not _is_written(part.partition(": ")[0], failed)]
    if not where or len(where) == len(parts):
        return None
    return digest("\n".join(where).encode("utf-8", "replace"))
