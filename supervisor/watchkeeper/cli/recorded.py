"""Runs recorded elsewhere, one JSON object a run, turned into events of ours. Pure.

Such a run has steps, and a step is a call with its result: no times, no turns, no declarations. What it lacks is not
made up: each call is a round of its own, all times are zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Literal

import msgspec

from ..fingerprint import call_key
from ..messages import (
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    Event,
    Result,
    RunStarted,
    UserMessage,
)

SHOWN_ARGUMENTS = 2000
ERROR_CODE = 120
"""Characters of an error's first line that are its code."""
EVERYTHING = ("",)

_canonical = msgspec.json.Encoder(order="deterministic").encode


class Step(msgspec.Struct, frozen=True):
    """One step as recorded. ``result`` may be cut: ``result_len`` and ``result_sha256`` are always of the whole."""

    kind: str = "call"
    tool: str = ""
    args: Any = None
    call_id: str | None = None
    result: Any = ""
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
    label: Any = None

    @property
    def calls(self) -> list[Step]:
        return [step for step in self.steps if step.kind == "call"]


def events_of(run: RecordedRun, *, polls: Collection[str] = (), stable: Collection[str] = ()) -> Iterator[Event]:
    """The run as events, in order. ``polls`` and ``stable`` say of tools what a record cannot.

    A user turn that changes becomes a message of the user in the context it changes in. An error becomes a failed
    call whose code is the first line of its text. With ``stable`` tools every call is also admitted with an effect, as
    the duplicate guard needs it: stable tools read everything, all others write everything.
    """
    number = 0
    user_turns: dict[str, int] = {}
    seen: set[str] = set()

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
        arguments = _canonical(step.args if step.args is not None else {})
        shown = arguments[:SHOWN_ARGUMENTS].decode("utf-8", "replace")
        key = call_key(step.tool, arguments + (b"#%d" % position if step.args_partial else b""))
        yield event(CallProposed, step, call_id=call_id, tool=step.tool, arguments=shown)
        if stable:
            effect: dict[Literal["reads", "writes"], Any] = {"reads" if step.tool in stable else "writes": EVERYTHING}
            yield event(CallAdmitted, step, call_id=call_id, tool=step.tool, key=key, **effect)
            yield event(CallStarted, step, call_id=call_id, tool=step.tool)
        yield event(
            CallEnded,
            step,
            result=_result(step, call_id),
            key=key,
            arguments=shown,
            result_key=_result_key(step),
        )


def _result(step: Step, call_id: str) -> Result:
    content = step.result if isinstance(step.result, str) else _canonical(step.result).decode()
    if step.error:
        code = step.error if isinstance(step.error, str) else content
        first = next((line.strip() for line in code.splitlines() if line.strip()), "error")
        return Result(call_id, step.tool, "failed", content, error=first[:ERROR_CODE])
    return Result(call_id, step.tool, "finished", content, productive=bool(content))


def _result_key(step: Step) -> str:
    """The digest of the whole where the record holds only its beginning, so that long results compare whole."""
    if step.result_sha256 is None or step.result_len is None or not isinstance(step.result, str):
        return ""
    return step.result_sha256 if step.result_len > len(step.result) else ""
