"""What a supervisor has to tell its operator, by structlog; loaded when there is something to tell."""

from __future__ import annotations

import sys
from typing import Any, Literal


def report(event: str, *, level: Literal["info", "warning"] = "warning", **fields: Any) -> None:
    """``level`` is "info" for what goes as it should."""
    import structlog

    if structlog.is_configured():
        logger = structlog.get_logger("watchkeeper")
    else:
        # Nobody has said where log lines go: not where data goes.
        logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
    getattr(logger, level)(event, **fields)
