"""Runs recorded elsewhere, one JSON object a run, turned into events of ours. Pure.

Such a run has steps, and a step is a call with its result: no times, no turns, no declarations. What it lacks is not
made up: each call is a round of its own, all times are zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import msgspec

from ..fingerprint import call_key, loop_key, result_key
from ..messages import (
    Call,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    Event,
    ModelReplied,
    Result,
    RunStarted,
    UserMessage,
)
from ..tools import Tool

SHOWN_ARGUMENTS = 2000
ERROR_CODE = 120
"""Characters of an error's first line that are its code."""
EVERYTHING = ("",)
REPLY_CALLS = 16
"""Calls in a row with one text that are taken for the calls of one reply, which were recorded apart."""

_canonical = msgspec.json.Encoder(order="deterministic").encode


class Step(msgspec.Struct, frozen=True):
    """One step as recorded. ``result`` may be cut: ``result_len`` and ``result_sha256`` are always of the whole."""

    kind: str = "call"
    tool: str = ""
    args: Any = None
    call_id: str | None = None
    result: Any = msgspec.UNSET
    result_sha256: str | None = None
    result_len: int | None = None
    error: bool | str | None = None
    text: str | None = None
    agent: str | None = None
    user_turn: int | None = None
    args_partial: bool = False
    """The record leaves out a part of the arguments: equal ones need not have been equal."""


class RecordedRun(msgspec.Struct, frozen=True):
    """One run as it was recorded."""

    id: str
    steps: tuple[Step, ...]
    outcome: str = "unknown"
    task: Any = None
    model: str | None = None
    source: str | None = None
    label: Any = None

    @property
    def calls(self) -> list[Step]:
        return [step for step in self.steps if step.kind == "call"]

    def flaw(self) -> str | None:
        """Why this is no recorded run as we know it, if so: a call that lacks its tool or result would be made up."""
        for position, step in enumerate(self.steps):
            if step.kind == "call" and (not step.tool or step.result is msgspec.UNSET):
                lacks = "result" if step.tool else "tool"
                return f"run {self.id[:80]} is not in the format of recorded runs: its step {position} has no {lacks}"
        return None


def events_of(
    run: RecordedRun,
    *,
    polls: Collection[str] = (),
    stable: Collection[str] = (),
    tools: Mapping[str, Tool] | None = None,
) -> Iterator[Event]:
    """The run as events, in order. ``polls``, ``stable`` and ``tools`` say of tools what a record cannot.

    A user turn that changes becomes a message of the user in the context it changes in. What the model said before a
    call becomes its reply, with that call alone. An error becomes a failed call whose code is the first line of its
    text. With ``stable`` tools every call is also admitted with an effect, as the duplicate guard needs it: stable
    tools read everything, all others write everything.
    """
    number = 0
    user_turns: dict[str, int] = {}
    seen: set[str] = set()
    said = _Said()

    def event(kind: type[Any], step: Step | None = None, **fields: Any) -> Any:
        nonlocal number
        number += 1
        context = step.agent if step is not None and step.agent else "main"
        user_turn = step.user_turn if step is not None and step.user_turn is not None else 0
        return kind(n=number, run=run.id, at=0.0, t=0.0, context=context, user_turn=user_turn, **fields)

    yield event(
        RunStarted, agent=run.model or "recorded", task=str(run.task or ""), model=run.model or "", polls=tuple(polls)
    )
    for position, step in enumerate(run.calls):
        context = step.agent or "main"
        if step.user_turn is not None and user_turns.get(context) != step.user_turn:
            user_turns[context] = step.user_turn
            yield event(UserMessage, step, text="")
        call_id = step.call_id if step.call_id and step.call_id not in seen else f"step {position}"
        seen.add(call_id)
        tool = tools.get(step.tool) if tools else None
        arguments = _canonical(step.args if step.args is not None else {})
        key = call_key(step.tool, arguments + (b"#%d" % position if step.args_partial else b""))
        if tool is not None and isinstance(step.args, dict):
            key = loop_key(tool, step.args, key)
        shown = arguments[:SHOWN_ARGUMENTS].decode("utf-8", "replace")
        if step.text and said.anew(context, step, key):
            yield event(ModelReplied, step, text=step.text, calls=(Call(call_id, step.tool, shown, 1),))
        whole = arguments.decode("utf-8", "replace") if tool is not None and tool.loop_key is not None else shown
        yield event(CallProposed, step, call_id=call_id, tool=step.tool, arguments=whole)
        if stable:
            effect: dict[Literal["reads", "writes"], Any] = {"reads" if step.tool in stable else "writes": EVERYTHING}
            yield event(CallAdmitted, step, call_id=call_id, tool=step.tool, key=key, **effect)
            yield event(CallStarted, step, call_id=call_id, tool=step.tool)
        result = _result(step, call_id)
        yield event(
            CallEnded, step, result=result, key=key, arguments=shown, result_key=_result_key(step, result, tool)
        )


class _Said:
    """Tells a text that the model said again from one that was recorded with each call of a single reply.

    In the recorded runs at hand equal texts in a row always came with differing calls: a reply with several of them.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, int | None, str, int]] = {}

    def anew(self, context: str, step: Step, key: str) -> bool:
        text, user_turn, before, count = self._last.get(context, ("", None, "", 0))
        apart = step.text != text or step.user_turn != user_turn or key == before or count >= REPLY_CALLS
        self._last[context] = (step.text or "", step.user_turn, key, 1 if apart else count + 1)
        return apart


def _result(step: Step, call_id: str) -> Result:
    content = step.result if isinstance(step.result, str) else _canonical(step.result).decode()
    if step.error:
        code = step.error if isinstance(step.error, str) else content
        first = next((line.strip() for line in code.splitlines() if line.strip()), "error")
        return Result(call_id, step.tool, "failed", content, error=first[:ERROR_CODE])
    return Result(call_id, step.tool, "finished", content, productive=bool(content))


def _result_key(step: Step, result: Result, tool: Tool | None) -> str:
    """The digest of the whole where the record holds only its beginning, so that long results compare whole."""
    whole = step.result_sha256
    if whole is not None and isinstance(step.result, str) and (step.result_len or 0) > len(step.result):
        return whole
    if tool is not None and tool.result_key is not None:
        return result_key(result.content, tool)
    return ""
