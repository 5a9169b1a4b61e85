"""What a supervisor has to tell its operator, by structlog; loaded when there is something to tell."""

from __future__ import annotations

import sys
from typing import Any


def report(event: str, **fields: Any) -> None:
    import structlog

    if structlog.is_configured():
        logger = structlog.get_logger("watchkeeper")
    else:
        # Nobody has said where log lines go: not where data goes.
        logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
    logger.warning(event, **fields)
