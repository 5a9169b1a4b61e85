"""When a model is offered the tools of its memory."""

from __future__ import annotations

from collections.abc import Collection

RECALL = "recall"
REMEMBER = "remember"
MOST_TOOLS = 128
"""As many as the strictest servers take in one request."""


def may_recall(tools: Collection[str]) -> bool:
    """Whether an agent with these tools can be offered ``recall`` as well, once its view leaves something out."""
    return 0 < len(tools) < MOST_TOOLS and RECALL not in tools
