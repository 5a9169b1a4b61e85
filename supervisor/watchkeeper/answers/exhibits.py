"""What a verifier is shown: the task, the answer, and the newest evidence, in bounds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ..messages import Message
from ..outputs import MAX_DETAIL

MAX_ANSWER = MAX_DETAIL
"""Characters of task and answer each."""
LEAST = 400
"""Characters of one result that are shown at least, if anything of it is."""


def exhibits(
    goal: str, answer: str, messages: Iterable[Message], evidence: Collection[str], limit: int
) -> dict[str, Any]:
    """Plain data: ``task``, ``answer`` and ``evidence``, oldest first; the oldest of it goes when it is too much."""
    known = frozenset(evidence)
    results = [one for one in messages if one.role == "tool" and one.call_id in known]
    share = max(limit // len(results), LEAST) if results else 0
    shown: list[dict[str, str]] = []
    left = limit
    for message in reversed(results):
        room = min(share, left)
        if room < min(LEAST, len(message.content)):
            break
        text = _cut(message.content, room)
        left -= min(len(message.content), room)
        shown.append({"call": message.call_id or "", "tool": message.tool or "", "result": text})
    found: dict[str, Any] = {"task": _cut(goal, MAX_ANSWER), "answer": _cut(answer, MAX_ANSWER)}
    return {**found, "evidence": shown[::-1], "older_evidence_not_shown": len(results) - len(shown)}


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit} more characters)"
