"""The proof of a cancel in lines: what was at work in a tree when it was asked for, and what ended when. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..service.proof import Ended, InFlight
from .listed import Listed
from .narrator import INDENT, Line, line
from .printable import count, duration, identifier, one_line


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a cancel."""

    one: Listed
    """The run, as it stands then."""
    in_flight: tuple[InFlight, ...] = ()
    ended: tuple[Ended, ...] = ()
    seconds: float | None = None
    """From the moment at which the run took the cancel to its last task joined, as it has measured that itself."""
    waited: float | None = None
    """From sending the request to the end record seen here; None: it was not seen."""

    def plain(self) -> dict[str, Any]:
        """For JSON: as the service's answer to a cancel, and ``waited``."""
        return {
            "run": self.one.plain(),
            "in_flight": msgspec.to_builtins(self.in_flight),
            "ended": msgspec.to_builtins(self.ended),
            "seconds": self.seconds,
            "waited": self.waited,
        }


def told(proof: Cancelled, short: str) -> Iterator[Line]:
    """The proof in lines."""
    name, outcome = identifier(short), proof.one.status.outcome
    if proof.waited is None:
        yield line(f"{name}: has not ended yet ({proof.one.state})", "bad")
    else:
        reason = f" ({one_line(outcome.reason, 80)})" if outcome is not None else ""
        joined = f", its last task joined after {duration(proof.seconds)}" if proof.seconds is not None else ""
        yield Line(
            (
                (f"{name}: {proof.one.state}", "good"),
                (f"{reason} in {duration(proof.waited)}{joined}; ", "plain"),
                (f"{count(len(proof.in_flight), 'call')} in flight" if proof.in_flight else "nothing in flight", "dim"),
            ),
            wrap=True,
        )
    landed = {(one.run, one.call): one for one in proof.ended}
    for one in proof.in_flight:
        end = landed.get((one.run, one.call))
        how = f"{end.kind} after {duration(end.seconds)}" if end is not None else "has not ended"
        whose = f"  (sub-agent {identifier(one.run)})" if one.run != proof.one.run else ""
        what = f"{one_line(one.tool, 40)} {one_line(one.call, 40)}".rstrip()
        good = end is not None and end.kind != "abandoned"
        yield Line(((f"{INDENT}{what}: ", "plain"), (how, "plain" if good else "bad"), (whose, "dim")))
