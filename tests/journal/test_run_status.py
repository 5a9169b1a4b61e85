"""How a run stands, folded from its facts."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import pytest

from watchkeeper import Agent, Event, Limits, Run, Supervisor, current_call, tool
from watchkeeper.engine import RunSpec, RunStatus
from watchkeeper.journal.status import TOOLS, Standing, spec_of
from watchkeeper.messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallEnded,
    CallStarted,
    CancelRequested,
    ChildEnded,
    Finding,
    FindingMade,
    Message,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    Outcome,
    Paused,
    Result,
    Resumed,
    RunEnded,
    RunEnding,
    RunStarted,
    Settled,
    TurnStarted,
    UserMessage,
)
from watchkeeper.testing import ScriptedModel, VirtualSeams, call, say

E = TypeVar("E", bound=Event)
SPEC = RunSpec(agent="a", task="t")


class Stands:
    def __init__(self) -> None:
        self.standing = Standing(run="r", root="r")

    def see(self, kind: type[E], **fields: Any) -> RunStatus:
        n = self.standing.n + 1
        self.standing.see(kind(n=n, run="r", at=100.0 + n, t=float(n), **fields))
        return self.status()

    def status(self) -> RunStatus:
        # Each time by way of what is stored.
        self.standing = msgspec.json.decode(msgspec.json.encode(self.standing), type=Standing)
        return self.standing.status(SPEC)


def result(call_id: str, *, kind: Any = "finished", productive: bool = False) -> Result:
    return Result(call_id, "t", kind, "", productive=productive)


def test_states_follow_the_facts() -> None:
    run = Stands()
    assert run.status().state == "queued"
    assert run.see(RunStarted, agent="a", task="t").state == "running"
    assert run.see(Paused, reason="x").state == "paused"
    assert run.see(Resumed).state == "running"
    assert run.see(Paused, reason="x").state == "paused"
    assert run.see(CancelRequested, mode="now", reason="x").state == "cancelling"
    assert run.see(Resumed).state == "cancelling"
    assert run.see(RunEnding, status="cancelled", reason="x").state == "ending"
    outcome = Outcome(
        run="r", status="cancelled", reason="x", message="", history=(Message("user", "t"),), spent={"tokens": 7.0}
    )
    ended = run.see(RunEnded, outcome=outcome)
    assert (ended.state, ended.ended, ended.started) == ("ended", 108.0, 101.0)
    assert ended.outcome == msgspec.structs.replace(outcome, history=())
    assert ended.spent == {"tokens": 7.0}


def test_a_run_that_was_cancelled_in_the_queue_never_starts() -> None:
    run = Stands()
    assert run.see(CancelRequested, mode="now", reason="x").state == "cancelling"
    assert run.see(RunStarted, agent="a", task="t").state == "cancelling"


def test_what_it_does_is_what_is_open() -> None:
    run = Stands()
    assert run.see(ModelRequested, model="m").doing == "model"
    assert run.see(ModelFailed, error="x", detail="").doing == ""
    run.see(ModelRequested, model="m")
    assert run.see(ModelReplied, text="").doing == ""
    run.see(CallStarted, call_id="1", tool="read")
    run.see(CallStarted, call_id="2", tool="read")
    assert run.see(CallStarted, call_id="3", tool="write").doing == "read, write"
    assert run.see(CallEnded, result=result("1")).doing == "read, write"
    assert run.see(CallEnded, result=result("2")).doing == "write"
    for number in range(TOOLS + 2):
        run.see(CallStarted, call_id=f"x{number}", tool=f"t{number}")
    assert run.status().doing.endswith("t6, 3 more")
    run.standing.interrupted()
    assert run.status().doing == ""
    assert run.status().calls == 2


def test_progress_is_what_was_found_changed_or_said() -> None:
    run = Stands()
    run.see(CallStarted, call_id="1", tool="t")
    assert run.see(CallEnded, result=result("1")).progress is None
    assert run.see(ModelReplied, text="").progress is None
    assert run.see(ModelReplied, text="cut off", stored=False).progress is None
    assert run.see(ModelReplied, text="I looked").progress == 105.0
    run.see(CallStarted, call_id="2", tool="t")
    assert run.see(CallEnded, result=result("2", productive=True)).progress == 107.0
    run.see(CallStarted, call_id="3", tool="t", idempotency_key="k")
    assert run.see(CallEnded, result=result("3", kind="failed")).progress == 107.0
    run.see(CallStarted, call_id="4", tool="t", idempotency_key="k")
    assert run.see(CallEnded, result=result("4")).progress == 111.0


def test_approvals_findings_and_spend_are_counted() -> None:
    run = Stands()
    ask: dict[str, Any] = {"call_id": "1", "tool": "t", "arguments": "{}", "arguments_hash": "0", "seconds": 1.0}
    run.see(ApprovalRequested, approval="a", **ask)
    run.see(ApprovalRequested, approval="a", **ask)
    assert run.see(ApprovalRequested, approval="b", **ask).approvals == 2
    run.standing.interrupted()
    assert run.see(ApprovalResolved, approval="a", call_id="1", tool="t", how="once").approvals == 1
    assert run.see(ApprovalResolved, approval="z", call_id="1", tool="t", how="once").approvals == 1
    assert run.see(FindingMade, finding=Finding("d", "p", 3)).findings == 1
    run.see(Settled, amounts={"tokens": 5.0}, held="h")
    run.see(Settled, amounts={"tokens": 5.0, "money": 0.5}, held="h")
    child = {"child": "c", "status": "completed", "reason": "answer", "spent": {"tokens": 1.0}}
    assert run.see(ChildEnded, **child).spent == {"tokens": 11.0, "money": 0.5}
    assert run.see(RunEnding, status="stopped", reason="x").approvals == 0


def test_a_sub_agent_is_what_its_first_fact_says() -> None:
    root = RunSpec(agent="a", task="t", labels={"k": "v"}, code="c", by="me", limits={"max_turns": 1})
    at: dict[str, Any] = {"n": 1, "run": "c", "at": 1.0, "t": 0.0}
    made = spec_of(RunStarted(agent="scout", task="look", **at), root)
    assert made == RunSpec(agent="scout", task="look", labels={"k": "v"}, code="c", by="me")
    assert spec_of(UserMessage(text="", **at), root).agent == ""


@pytest.mark.anyio
async def test_it_agrees_with_a_real_run() -> None:
    @tool(effect="writes")
    async def save(text: str) -> str:
        """Save a text."""
        return f"saved {text}"

    agent = Agent(ScriptedModel([call(("save", {"text": "a"}), ("save", {"text": "b"})), say("done")]), [save])
    async with Supervisor(plugged=False, monitor=False) as supervisor:
        run = await supervisor.start(agent, "Save two texts")
        standing = Standing(run=run.id, root=run.id)
        async for event in run.events():
            assert isinstance(event, Event)
            standing.see(event)
            if not isinstance(event, RunEnded):
                assert standing.doing() in ("", "model", "save")
        outcome = await run.wait()
    status = standing.status(SPEC)
    assert (status.state, status.turn, status.calls, status.n) == ("ended", outcome.turns, 2, run.log.n)
    assert status.spent == outcome.spent
    assert status.outcome is not None
    assert status.outcome.answer == "done"


def test_a_call_that_is_tried_again_is_one_call() -> None:
    run = Stands()
    run.see(RunStarted, agent="a", task="t", limits={"calls:read": 3.0})
    run.see(TurnStarted)
    run.see(CallStarted, call_id="1", tool="read")
    run.see(CallStarted, call_id="1", tool="read", attempt=2)
    spent = run.see(CallStarted, call_id="2", tool="write").spent
    assert spent == {"turns": 1, "calls": 2, "calls:read": 1}


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_while_it_lives_it_has_spent_what_its_budget_says() -> None:
    compared: list[tuple[float, float]] = []

    def compare(run: Run) -> None:
        standing = Standing(run=run.id, root=run.id)
        for event in run.log.kept():
            standing.see(event)
        spent = {name: amount for name, amount in run.budget.spent.items() if amount}
        assert {name: standing.spent.get(name, 0) for name in ("turns", "calls", *spent)} == {
            "turns": 0,
            "calls": 0,
            **spent,
        }
        compared.append((spent.get("turns", 0), spent.get("calls", 0)))

    @tool(effect="writes")
    async def save(text: str) -> str:
        """Save a text."""
        compare(current_call().run)
        return f"saved {text}"

    steps = [call(("save", {"text": "a"})), call(("save", {"text": "b"})), say("done")]
    limits = Limits(max_turns=2, finish_turns=1, calls_per_tool={"save": 5})
    agent = Agent(ScriptedModel(steps), [save], limits=limits)
    async with Supervisor(plugged=False, monitor=False, seams=VirtualSeams()) as supervisor:
        run = await supervisor.start(agent, "Save two texts")
        outcome = await run.wait()
        compare(run)
    assert (outcome.turns, outcome.forced) == (3, True)
    assert compared == [(1, 1), (2, 2), (2, 2)]
