"""What a supervisor has to tell its operator, by structlog; loaded when there is something to tell."""

from __future__ import annotations

from typing import Any


def report(event: str, **fields: Any) -> None:
    import structlog

    structlog.get_logger("watchkeeper").warning(event, **fields)
