"""What would be done to a recorded run, for tests that ``watchkeeper case`` makes: needs no extra. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..messages import Event, decode_event
from ..profiles import PROFILES, profile_named
from .declared import Declared
from .recorded import RecordedRun, events_of
from .review import Judgement, Review, Settings


def of_steps(
    steps: Iterable[Mapping[str, Any]],
    *,
    profile: str | None = None,
    poll: Iterable[str] = (),
    stable: Iterable[str] = (),
) -> list[Judgement]:
    """What would be done to a run with these steps (tool, args, result, and what else a record holds), in order.

    Each has the index of the call (``position``, from 0), the ``action`` and the ``detector``.
    """
    run = msgspec.convert({"id": "case", "steps": list(steps)}, RecordedRun)
    settings = settings_for(profile, poll, stable)
    events = events_of(run, polls=settings.polls, stable=settings.stable, tools=settings.tools)
    return judged(events, settings, logged=False)


def of_log(
    lines: Iterable[str], *, profile: str | None = None, poll: Iterable[str] = (), stable: Iterable[str] = ()
) -> list[Judgement]:
    """The same for the events of a run in a log of ours, one a line."""
    return judged(map(decode_event, lines), settings_for(profile, poll, stable), logged=True)


def judged(events: Iterable[Event], settings: Settings, *, logged: bool) -> list[Judgement]:
    review = Review("case", settings, logged=logged)
    for event in events:
        review.observe(event)
    return review.judgements


def settings_for(profile: str | None, poll: Iterable[str], stable: Iterable[str]) -> Settings:
    """Raises :class:`ConfigurationError` for a profile that is not there."""
    declared: dict[str, Declared] = {}
    for names, field in ((poll, "poll"), (stable, "stable")):
        for name in names:
            declared[name] = msgspec.structs.replace(declared.get(name, Declared()), **{field: True})
    chosen = profile_named(profile) if profile is not None else None
    return Settings(profile=chosen, profiles=PROFILES, declared=declared)
