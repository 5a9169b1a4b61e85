"""Which recorded runs are meant. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

GOOD = ("success", "completed")
BAD = ("fail", "failed")
GROUPS = {"good": GOOD, "failed": BAD}
"""Words for outcomes of several records: ours say completed and failed, others success and fail."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns as of :func:`fits`; none of a kind lets all pass. ``outcome`` knows the words of :data:`GROUPS`."""

    only: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()

    def wants(self, run: str, source: str, model: str, outcome: str) -> bool:
        return (
            _any(self.only, run)
            and _any(self.source, source)
            and _any(self.model, model)
            and (not self.outcome or any(outcome in GROUPS.get(word, (word,)) for word in self.outcome))
        )


class LeftOut(msgspec.Struct, frozen=True):
    """Stands for a run that does not pass."""

    run: str


def fits(value: str, pattern: str) -> bool:
    """Whether a name is meant by a pattern with ``*`` and ``?``. Brackets stand for themselves, as many ids have some,
    and for one of the characters in them."""
    return fnmatchcase(value, pattern.replace("[", "[[]")) or fnmatchcase(value, pattern)


def _any(patterns: tuple[str, ...], value: str) -> bool:
    return not patterns or any(fits(value, pattern) for pattern in patterns)
