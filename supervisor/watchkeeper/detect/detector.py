"""What a detector is. Each is a pure state machine in a file of its own; third parties add theirs by entry point."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol, runtime_checkable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import Ring, Round

When = Literal["always", "known", "trouble", "polls", "never"]
"""When a detector is asked about a round: always; if anything in it is known or moved; if a call failed or did not run,
or the detector is ``busy``; if it holds a poll, or the detector is ``busy``; never (it hears other facts)."""


@runtime_checkable
class Detector(Protocol):
    """Judges rounds. It must be cheap, must not keep more than a bounded state, and never looks at a clock.

    ``round`` is called when the calls of a turn all have their results, and returns findings. A new user message makes
    a new detector. One that raises is switched off with a fact; the run goes on.

    Some attributes may be there beside: ``when`` it is asked (:data:`When`) and, for that, whether it is ``busy``;
    ``folds``, by kind of fact what takes one of its context and returns findings; and ``steps`` (:class:`Steps`), at
    which counts its findings become a nudge, a block, a stop.
    """

    name: str

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]: ...


@runtime_checkable
class RunDetector(Protocol):
    """Judges the rounds of all agent contexts of a run together. A message of the user does not make a new one."""

    name: str

    def round(self, round: Round, ring: Ring, context: str) -> Iterable[Finding]: ...


Factory = Callable[[Thresholds, frozenset[str]], Detector]
"""Makes a detector from the thresholds and the names of the tools that are declared ``poll``."""
RunFactory = Callable[[Thresholds, frozenset[str]], RunDetector]
