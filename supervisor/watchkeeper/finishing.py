"""The word that a run is to finish, before the limit that is near. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from .messages import LimitsRaised, Reminded

FINISHING = "finish_"
"""With which the word that the run is to finish begins (``Reminded.about``), before the limit that is near."""


def frees(finishing: str | None, amounts: Mapping[str, float]) -> bool:
    """Whether so much more lifts the limit that a run is finishing for. That of turns has no other name in a budget;
    time is limited in seconds."""
    names = {"time": "seconds", "working_time": "working_seconds"}
    return finishing is not None and names.get(finishing, finishing) in amounts


def after(finishing: str | None, fact: Reminded | LimitsRaised) -> str | None:
    """For which limit a run is to finish once that fact is there; ``finishing``: before it. None: for none."""
    if isinstance(fact, LimitsRaised):
        return None if frees(finishing, fact.amounts) else finishing
    return fact.about.removeprefix(FINISHING) if fact.about.startswith(FINISHING) else finishing
