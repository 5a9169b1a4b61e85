"""Detectors of third parties, and the steps that a policy gives them instead of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..detect.detector import Detector, Factory
from ..detect.round import Ring, Round
from ..messages import Finding
from ..thresholds import Steps, Thresholds


class Stepped(msgspec.Struct, frozen=True):
    """A factory whose detector climbs by other steps."""

    make: Factory
    name: str
    steps: Steps

    def __call__(self, thresholds: Thresholds, polls: frozenset[str]) -> Detector:
        return _Climbing(self.make(thresholds, polls), self.steps)


class _Climbing:
    """A detector as it is, but for its steps."""

    def __init__(self, detector: Detector, steps: Steps) -> None:
        self._detector = detector
        self.name = detector.name
        self.steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._detector, name)

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        return self._detector.round(round, ring)


def steps_declared(factories: Iterable[Factory]) -> dict[str, Steps | None]:
    """What detectors declare as their steps, by their names; one that cannot be made is not among them."""
    found: dict[str, Steps | None] = {}
    for make in factories:
        with contextlib.suppress(Exception, SystemExit):  # the judge makes it too, and says what is wrong
            detector = make(Thresholds(), frozenset())
            steps = getattr(detector, "steps", None)
            found[detector.name] = steps if isinstance(steps, Steps) else None
    return found


def with_steps(factories: Iterable[Factory], steps: Mapping[str, Steps]) -> tuple[Factory, ...]:
    """The factories, those of the named detectors with these steps."""
    if not steps:
        return tuple(factories)
    found: list[Factory] = []
    for make in factories:
        name = next(iter(steps_declared([make])), "")
        found.append(Stepped(make, name, steps[name]) if name in steps else make)
    return tuple(found)


def as_declared(factories: Iterable[Factory]) -> tuple[Factory, ...]:
    """The factories as third parties made them."""
    return tuple(one.make if isinstance(one, Stepped) else one for one in factories)
