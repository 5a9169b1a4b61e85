"""What the tests of the detectors share: facts of turns, in few words, and what the judge makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from watchkeeper.detect.detector import Factory
from watchkeeper.detect.judge import Judge, Judged
from watchkeeper.ladder import GuardMode, steps_of
from watchkeeper.messages import (
    Call,
    CallEnded,
    CallProposed,
    Event,
    Finding,
    ModelReplied,
    Result,
    RunStarted,
    UserMessage,
    Verdict,
)
from watchkeeper.thresholds import Steps, Thresholds

E = TypeVar("E", bound=Event)


class Did:
    """One call and what came of it."""

    def __init__(self, tool: str = "look", arguments: str = "a", content: str = "same", **more: Any) -> None:
        self.tool = tool
        self.arguments = arguments
        self.detail = more.pop("detail", "")
        self.result_key = more.pop("result_key", "")
        self.result = {"kind": "finished", "content": content, **more}


def failed(tool: str = "look", arguments: str = "a", error: str = "ValueError", text: str = "it broke") -> Did:
    return Did(tool, arguments, f"{tool} failed: {text}", kind="failed", error=error, detail=f"Traceback\n{text}")


def refused(by: str, tool: str = "look", arguments: str = "a", text: str = "no", **more: Any) -> Did:
    return Did(tool, arguments, text, by=by, **{"kind": "refused", "error": by, **more})


def bad(tool: str = "look", arguments: str = "{}", text: str = "they do not fit") -> Did:
    return refused("arguments", tool, arguments, text, error="bad_arguments")


def only_of(detectors: Iterable[str], thresholds: Thresholds | None = None) -> Thresholds:
    """Thresholds with which these detectors act and no others (the breaker has no steps: it always does)."""
    made = thresholds or Thresholds()
    named = set(detectors)
    return msgspec.structs.replace(made, **{name: Steps() for name in steps_of(made) if name not in named})


def steps_by(detector: str) -> dict[int, list[tuple[str, str]]]:
    """What a detector makes the ladder say by default, by count: ``{3: [("nudge", "equal")], …}``."""
    steps = steps_of(Thresholds())[detector]
    named = {steps.nudge: "nudge", steps.block: "block", steps.stop: "stop"}
    return {count: [(action, detector)] for count, action in named.items() if count is not None}


class Watched:
    """A judge and a clock. Each method answers with what the judge said to it: (action, detector), in order.

    ``only``: the detectors (names between spaces) that a test is about. The others take no steps, and nothing of what
    they find is told: they have tests of their own. ``fails``: a detector does, which else is a defect.
    """

    def __init__(
        self,
        thresholds: Thresholds | None = None,
        *,
        mode: GuardMode = "enforce",
        extra: Iterable[Factory] = (),
        polls: tuple[str, ...] = (),
        only: str = "",
        fails: bool = False,
    ) -> None:
        self.fails = fails
        self.only = frozenset(only.split())
        self.judge = Judge(only_of(self.only, thresholds) if only else thresholds, mode=mode, extra=extra)
        self.n = 0
        self.t = 0.0
        self.calls = 0
        self.context = "main"
        self.verdicts: list[Verdict] = []
        self.findings: list[Finding] = []
        self.failed: list[tuple[str, str]] = []
        self.ids: list[str] = []
        if polls:
            self.tell(RunStarted, agent="a", task="t", polls=polls)

    def tell(self, kind: type[E], **fields: Any) -> list[tuple[str, str]]:
        self.n += 1
        event = kind(n=self.n, run="r", at=0.0, t=self.t, context=fields.pop("context", self.context), **fields)
        return self._heard(self.judge.observe(event))

    def user(self, text: str = "And now?") -> None:
        assert self.tell(UserMessage, text=text) == []

    def turn(self, *calls: Did, order: Iterable[int] | None = None) -> list[tuple[str, str]]:
        """One turn with its calls; ``order`` is that of their ends."""
        ids = [f"c{self.calls + slot}" for slot in range(1, len(calls) + 1)]
        self.calls += len(calls)
        self.ids = ids
        made = tuple(
            Call(call_id, did.tool, did.arguments, slot)
            for slot, (call_id, did) in enumerate(zip(ids, calls, strict=True), 1)
        )
        assert self.tell(ModelReplied, text="", calls=made) == []
        for call in made:
            assert (
                self.tell(CallProposed, slot=call.slot, call_id=call.id, tool=call.tool, arguments=call.arguments) == []
            )
        said = []
        for index in order if order is not None else range(len(calls)):
            said += self.end(ids[index], calls[index], index + 1)
        return said

    def end(self, call_id: str, did: Did, slot: int = 0) -> list[tuple[str, str]]:
        return self.tell(
            CallEnded,
            slot=slot,
            result=Result(call_id, did.tool, **did.result),
            key=f"{did.tool} {did.arguments}",
            arguments=did.arguments,
            detail=did.detail,
            result_key=did.result_key,
        )

    def turns(self, times: int, *calls: Did) -> dict[int, list[tuple[str, str]]]:
        """The same turn again and again; what was said, by number of the turn from 1."""
        said = {number: self.turn(*calls) for number in range(1, times + 1)}
        return {number: what for number, what in said.items() if what}

    def _heard(self, judged: Judged | None) -> list[tuple[str, str]]:
        if judged is None:
            return []
        assert self.fails or not judged.failed
        self.failed += judged.failed
        found = [one for one in judged.found if not self.only or one[0].detector in self.only]
        self.findings += [finding for finding, _ in found]
        verdicts = [verdict for _, verdict in found if verdict is not None]
        self.verdicts += verdicts
        return [(verdict.action, verdict.finding.detector) for verdict in verdicts]
