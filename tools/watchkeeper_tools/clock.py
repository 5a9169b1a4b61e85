"""Time tools: what time it is, and waiting."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Annotated, Any

import anyio
from msgspec import Meta

from watchkeeper import Effect, Tool, ToolError, ToolOutput, tool

MAX_SECONDS = 300.0
"""The longest that one call waits."""

Seconds = Annotated[float, Meta(ge=0, le=MAX_SECONDS, description=f"at most {MAX_SECONDS:g}")]
Moment = Annotated[
    str, Meta(max_length=64, description="ISO 8601, such as 2030-01-31T12:00:00Z; UTC if no zone is given")
]


def tools(*, root: str | os.PathLike[str] = ".", **_: Any) -> list[Tool]:
    """The tools ``now``, ``sleep`` and ``wait_until``. They touch nothing; a cancel ends a wait at once."""
    nothing = Effect()
    return [
        tool(effect=nothing, timeout=5)(now),
        tool(effect=nothing, timeout=MAX_SECONDS + 5, poll=True)(sleep),
        tool(effect=nothing, timeout=MAX_SECONDS + 5, poll=True)(wait_until),
    ]


async def now() -> str:
    """The current date and time in UTC, as ISO 8601. To wait for a moment use wait_until instead of asking again."""
    return _text(datetime.now(UTC))


async def sleep(seconds: Seconds) -> ToolOutput:
    """Wait for a number of seconds."""
    if not 0 <= seconds <= MAX_SECONDS:
        raise ToolError(f"seconds must be from 0 to {MAX_SECONDS:g}", hint="call again to wait longer")
    await anyio.sleep(seconds)
    return ToolOutput(f"waited {seconds:g} seconds", productive=False)


async def wait_until(time: Moment) -> ToolOutput:
    """Wait until a moment. If it is more than 5 minutes away, wait 5 minutes and say how long is left."""
    moment = _moment(time)
    left = (moment - datetime.now(UTC)).total_seconds()
    await anyio.sleep(min(max(left, 0), MAX_SECONDS))
    if left > MAX_SECONDS:
        text = f"not yet: {left - MAX_SECONDS:,.0f} seconds are left until {_text(moment)}"
    else:
        text = f"it is {_text(moment)} or later"
    return ToolOutput(text, productive=False)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ToolError(f"{text[:64]!r} is not a time", hint="write it as 2030-01-31T12:00:00Z") from None


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
