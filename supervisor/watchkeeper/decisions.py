"""What the agent makes of a reply, and what it may do in a turn: pure decisions, no model, no clock."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

import msgspec

from .detect.chant import FINISH
from .guards.evidence import Missing
from .messages import Call, Status, Unverified
from .model import Reply
from .wording import Told, Wording

WITHHELD = frozenset({"content_filter", "refusal", "safety", "blocked"})
"""Finish reasons with which a provider says that it withheld the reply: terminal, never asked again."""

KNOWN_FINISH = frozenset({"stop", "tool_calls", "length", "function_call", "end_turn", "eos", ""})

BROKEN = frozenset({"error", "abort", "aborted", "cancelled", "canceled"})
"""Finish reasons with which a server says that the reply is not what the model meant to say: no answer either."""


THOUGHT = "reasoning_length"
"""The finish reason of a reply that was cut because its thinking passed its own limit."""

UNSTORED = frozenset({"length", FINISH, THOUGHT})
"""Finish reasons of replies that are no part of the conversation: cut off in the middle."""


class Act(msgspec.Struct, frozen=True):
    """Run these calls; with ``tools_off`` answer each with that instead."""

    calls: tuple[Call, ...]
    tools_off: bool = False


class Push(msgspec.Struct, frozen=True):
    """Back to the model with a message; the reply is not taken as the answer."""

    message: str
    by: str
    keep: bool
    """The reply stays in the conversation."""
    rejected: str | None = None


class Answer(msgspec.Struct, frozen=True):
    text: str
    forced: bool = False
    value: Any = None
    """Of the agent's answer type."""
    unverified: tuple[Unverified, ...] = ()


class End(msgspec.Struct, frozen=True):
    status: Status
    reason: str


Decision = Act | Push | Answer | End


class Tries(msgspec.Struct):
    """How often each kind of bad reply has come: bounded, so that nothing is asked for ever."""

    empty: int = 0
    cut: int = 0
    chanted: int = 0
    unparsed: int = 0
    pushed: int = 0


class Situation(msgspec.Struct, frozen=True):
    """What the decision on a reply depends on beside the reply itself."""

    tools_off: bool
    finishing: bool
    missing: Missing
    tools: Collection[str]
    pushbacks: int
    empty_replies: int


def decide(reply: Reply, situation: Situation, tries: Tries, wording: Wording) -> Decision:
    """Decide on a reply. Counts in ``tries`` what it sends back."""
    if reply.finish in WITHHELD:
        return End("stopped", "filtered")
    if reply.finish == "length":
        return _cut(tries, wording.cut_reply())
    if reply.finish == THOUGHT:
        return _cut(tries, wording.cut_thinking())
    if reply.finish == FINISH:
        # Not kept: a model that reads its chant goes on with it. The ladder counts them and ends them.
        tries.chanted += 1
        return Push(wording.chanted(tries.chanted).text, "chant", keep=False)
    tries.chanted = 0
    if reply.finish in BROKEN:
        return End("stopped", f"finish_{reply.finish}")
    tries.cut = 0
    if reply.calls:
        tries.empty = 0
        return Act(reply.calls, situation.tools_off)
    if not reply.text.strip():
        if reply.finish not in KNOWN_FINISH:
            return End("stopped", f"finish_{reply.finish[:40]}")
        tries.empty += 1
        if tries.empty > situation.empty_replies:
            return End("stopped", "empty")
        return Push(wording.empty_reply().text, "empty", keep=False)
    tries.empty = 0
    looks_like = unparsed_call(reply.text, situation.tools)
    if looks_like is not None:
        tries.unparsed += 1
        if tries.unparsed > situation.pushbacks:
            return End("stopped", "unparsed_call")
        told = wording.tools_off(looks_like) if situation.tools_off else wording.unparsed_call(looks_like)
        return Push(told.text, "unparsed", keep=True)
    missing = situation.missing
    if missing:
        tries.pushed += 1
        if tries.pushed > situation.pushbacks or situation.tools_off:  # without tools there is none to be had
            return End("stopped", "no_evidence")
        told = wording.no_evidence(missing.required, missing.any_of, missing.stale)
        return Push(told.text, "evidence", keep=True, rejected=reply.text)
    return Answer(reply.text, forced=situation.finishing)


def _cut(tries: Tries, told: Told) -> Decision:
    tries.cut += 1
    if tries.cut > 1:
        return End("stopped", "length")
    return Push(told.text, "length", keep=False)


def unparsed_call(text: str, tools: Collection[str]) -> str | None:
    """The tool that a text seems to call as JSON, markup or code instead of as a tool call; None for ordinary text."""
    shown = text[:20_000]
    for match in _NAMED.finditer(shown):
        if (name := match[1] or match[2]) in tools:
            return name
    whole = _CALL.fullmatch(shown.strip().strip("`").strip())
    if whole is not None and whole[1] in tools:
        return whole[1]
    places = [match.end() for match in _OPENING.finditer(shown)]
    if shown.lstrip().startswith(("{", "[")):
        places.insert(0, 0)
    return next((name for place in places[:8] if (name := _json_call(shown[place:], tools)) is not None), None)


_NAMED = re.compile(r"<function=([\w.-]{1,64})>|<invoke name=\"([\w.-]{1,64})\"")
_CALL = re.compile(r"(?:tool_code\s+|print\()?([A-Za-z_][\w-]{0,63})\((?:[^()]|\([^()]*\))*\)\)?;?")
_OPENING = re.compile(
    r"<tool_call>|<function_call>|\[TOOL_CALLS\]|<\|python_tag\|>|```(?:json|tool_call|tool_code)?\s*\n?"
)


def _json_call(text: str, tools: Collection[str]) -> str | None:
    try:
        value, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None
    function = value.get("function")
    inner = function if isinstance(function, dict) else value
    name = inner.get("name") or inner.get("tool")
    if isinstance(name, str) and name in tools and {"arguments", "parameters", "args", "input"} & inner.keys():
        return name
    return None
