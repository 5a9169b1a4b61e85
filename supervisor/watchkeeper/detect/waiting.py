"""Waiting: asking again is how one waits for something that goes on. Told from what a call says and is told."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from .round import Pair

SHORT = 240
LINES = 3
"""Characters and lines of a result up to which it may be an answer to "is it done?"."""
REPORT = 4000
"""Characters of a result up to which a call that waited is taken at its word that it has to wait on."""
SHOWN = 400
"""Characters of arguments in which a wait is looked for."""

_GOING_ON = re.compile(
    r"\b(?:running|pending|in[ _-]progress|queued|processing|waiting|building|deploying|starting|provisioning"
    r"|(?:not|\w+n't) (?:yet )?(?:ready|finished|done|complete)|initiali[sz]ing|in the queue|please wait|scheduled"
    r"|preparing|syncing|uploading|downloading|installing|compiling|in transit|unfinished|incomplete|warming up)\b"
)
_OVER = re.compile(
    r"error|fail|denied|not found|invalid|unable|cannot|refused|no such|panic|missing|exception|traceback|stopped"
    r"|exit code|crash|killed|rejected|(?:queued|running|pending|scheduled)[\"']?: ?(?:false|0|null|none)"
)
_ACTS = re.compile(
    r"(?:^|[_.\-/])(?:send|create|submit|enqueue|start|restart|post|put|add|update|set|delete|remove|charge|book|buy|order"
    r"|publish|deploy|cancel|write|insert|push|trigger|launch|invite|pay)(?:$|[_.\-/])"
)
"""Tools that do something: their "queued" is an acknowledgement, not an answer to a question."""
_WAITING = re.compile(
    r"(?:^|\"|'|-lc |-c )\s*(?:sleep|start-sleep|wait)\b[ (\"':a-z-]*(?:0*[1-9]|\.\d)|(?:^|[;&|\"] ?)wait(?:$|[;&|\"])"
)
"""A command that begins with a wait: one in the middle of others is a part of what they do."""
_EMPTY = re.compile(r'"(?:command|cmd|input|keystrokes)":"\s*"')
_WAITER = re.compile(r"(?:^|[_.\-/])(?:sleep|wait)(?:$|[_.\-/])")


@lru_cache(maxsize=256)
def _acts(tool: str) -> bool:
    return _ACTS.search(tool[:80].lower()) is not None


@lru_cache(maxsize=256)
def _waits(tool: str) -> bool:
    return _WAITER.search(tool[:80].lower()) is not None


def is_going_on(pair: Pair) -> bool:
    """Whether a short result says that something is not finished yet."""
    if len(pair.content) > SHORT or pair.content.count("\n") > LINES or pair.signature is not None or not pair.ran:
        return False
    text = pair.content.lower()
    return _GOING_ON.search(text) is not None and _OVER.search(text) is None and not _acts(pair.tool)


def goes_on(pair: Pair) -> bool:
    """Whether a call that waited says in its result that it has to wait on, though it counts as failed: many programs
    end with a status of their own as long as something is pending."""
    if len(pair.content) > REPORT or not is_wait(pair):
        return False
    text = pair.content.lower()
    return _GOING_ON.search(text) is not None and _OVER.search(text) is None


def is_wait(pair: Pair) -> bool:
    """Whether a call waits: by the name of its tool, or by a command in its arguments."""
    shown = pair.arguments[:SHOWN].lower()
    if _EMPTY.search(shown) is not None:  # an empty command goes on with what is running
        return True
    if _waits(pair.tool):
        return re.search(r"[1-9]", shown) is not None or not re.search(r"\d", shown)
    return ("sleep" in shown or "wait" in shown) and _WAITING.search(shown) is not None


def is_poll(pair: Pair, polls: Collection[str]) -> bool:
    """Whether a call is judged by the patience of polls: declared, answered that something goes on, or a wait."""
    return pair.tool in polls or is_going_on(pair) or is_wait(pair)
