"""Who looks at the clock: what it said is played to the same place of the code, whatever ran in between."""

from __future__ import annotations

from types import FrameType

APPEND = "Log.append"
LIVE = frozenset({"_until_end", "snapshot"})
"""Functions that look as often as they are woken, and put nothing of it into a fact."""
STEERED = frozenset({"Run.cancel", "Run.hand_over", "Run.pause", "Run._pause", "Run.resume", "Run.steer"})
"""What a host calls, or the cassette in its place."""
DEPTH = 4


def site_of(frame: FrameType | None) -> str | None:
    """The function that looks and the one that called it; None for one whose looks do not count."""
    names: list[str] = []
    while frame is not None and len(names) < DEPTH:
        code = frame.f_code
        if code.co_name in LIVE:
            return None
        names.append(code.co_qualname)
        if names[0] == APPEND or names[0] in STEERED:
            return names[0]
        frame = frame.f_back
    return "<".join(names[:2])
