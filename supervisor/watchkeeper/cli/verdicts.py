"""What would be done to a recorded run, for tests that ``watchkeeper case`` makes: needs no extra."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..detect.detector import Factory
from ..messages import Event, decode_event
from ..plugins import load_detectors
from ..profiles import PROFILES, Profile, profile_named
from .declared import Declared
from .plugged import steps_declared, with_steps
from .policy import Policy, policy_of
from .recorded import RecordedRun, Step, events_of
from .review import Judgement, Review, Settings


def of_steps(
    steps: Iterable[Mapping[str, Any] | str],
    *,
    profile: str | None = None,
    policy: Mapping[str, Any] | None = None,
    poll: Iterable[str] = (),
    stable: Iterable[str] = (),
) -> list[Judgement]:
    """What would be done to a run with these steps (tool, args, result, and what else a record holds), in order.

    A step may be a text in JSON. ``policy`` is what a policy file says. Each judgement has the index of the call
    (``position``, from 0), the ``action`` and the ``detector``.
    """
    taken = [
        msgspec.json.decode(one, type=Step) if isinstance(one, str) else msgspec.convert(one, Step) for one in steps
    ]
    settings = settings_for(profile, poll, stable, policy)
    run = RecordedRun("case", tuple(taken))
    events = events_of(run, polls=settings.polls, stable=settings.stable, tools=settings.tools)
    return reviewed(events, settings, logged=False).judgements


def of_log(
    lines: Iterable[str],
    *,
    profile: str | None = None,
    policy: Mapping[str, Any] | None = None,
    poll: Iterable[str] = (),
    stable: Iterable[str] = (),
) -> list[Judgement]:
    """The same for the events of a run in a log of ours, one a line."""
    return reviewed(map(decode_event, lines), settings_for(profile, poll, stable, policy), logged=True).judgements


def reviewed(events: Iterable[Event], settings: Settings, *, logged: bool) -> Review:
    review = Review("case", settings, logged=logged)
    for event in events:
        review.observe(event)
    return review


def settings_for(
    profile: str | None, poll: Iterable[str], stable: Iterable[str], policy: Mapping[str, Any] | None = None
) -> Settings:
    """With the detectors of third parties that are installed. Raises :class:`ConfigurationError` for a profile that is
    not there, ``ValueError`` for a policy that cannot be taken."""
    detectors = load_detectors()
    said = policy_of(policy, plugged=steps_declared(detectors)) if policy is not None else None
    return settings_with(detectors, profile_named(profile) if profile is not None else None, said, poll, stable)


def settings_with(
    detectors: Iterable[Factory],
    profile: Profile | None,
    policy: Policy | None,
    poll: Iterable[str],
    stable: Iterable[str],
) -> Settings:
    """By the policy where there is one, else by the profile, else by that of the run."""
    declared = dict(policy.tools) if policy is not None else {}
    for names, field in ((poll, "poll"), (stable, "stable")):
        for name in names:
            declared[name] = msgspec.structs.replace(declared.get(name, Declared()), **{field: True})
    return Settings(
        profile=policy.profile if policy is not None else profile,
        profiles=PROFILES,
        declared=declared,
        extra=with_steps(detectors, policy.steps if policy is not None else {}),
    )
