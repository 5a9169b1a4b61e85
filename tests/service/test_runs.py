"""Runs over HTTP: submitted, looked at, steered, stopped; and what is told of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from service.standing import HASH, Standing, standing
from watchkeeper.engine import Answered, Cancel, EngineError, RunSpec, Unavailable, Unusable
from watchkeeper.messages import (
    ApprovalResolved,
    CallEnded,
    CancelConfirmed,
    CancelRequested,
    Outcome,
    Result,
    RunEnded,
    RunEnding,
)
from watchkeeper.service.control import Check, Report, WorkerStatus
from watchkeeper.service.rulebook import AgentRules

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def obedient(stands: Standing, *, taken: bool = True) -> AsyncIterator[list[Any]]:
    """A worker that takes what is sent to the run, and ends it on a cancel as a run would."""
    got: list[Any] = []

    async def work() -> None:
        async for command in stands.lease.commands():
            got.append(command)
            if isinstance(command, Cancel):
                await end(stands, command)
            await stands.lease.settle(command, Answered(id=command.id, taken=taken, why="" if taken else "no such"))

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        yield got
        group.cancel_scope.cancel()


async def end(stands: Standing, command: Cancel) -> None:
    make = stands.facts.make
    outcome = Outcome(run="one", status="cancelled", reason=command.reason, message="Cancelled.")
    await stands.lease.append(
        [
            make(CancelRequested, mode=command.mode, reason=command.reason),
            make(CallEnded, turn=2, result=Result("c2.1", "post", "cancelled", "")),
            make(RunEnding, status="cancelled", reason=command.reason),
            make(CancelConfirmed, seconds=0.25),
            make(RunEnded, outcome=outcome),
        ]
    )


async def test_a_run_is_submitted_once_for_each_key() -> None:
    async with standing() as stands:
        body = {"agent": "clerk", "task": "Write", "labels": {"a": "b"}, "by": "somebody else"}
        first = await stands.ask("POST", "/v1/runs", body, token="run", headers=[("idempotency-key", "k 1/ü")])
        assert first.status == 201
        assert first.header("location") == f"/v1/runs/{first.json['run']}"
        assert first.json["spec"]["by"] == "run", "who submits is known by the token"
        again = await stands.ask("POST", "/v1/runs", body, token="run", headers=[("idempotency-key", "k 1/ü")])
        assert again.json == first.json
        other = await stands.ask(
            "POST", "/v1/runs", {**body, "task": "Read"}, token="run", headers=[("idempotency-key", "k 1/ü")]
        )
        assert other.status == 422
        assert other.json["type"] == "urn:watchkeeper:other-spec"
        named = await stands.ask("POST", "/v1/runs", body, token="run", headers=[("idempotency-key", "my-run")])
        assert named.json["run"] == "my-run"
        without = await stands.ask("POST", "/v1/runs", body, token="run")
        assert without.json["run"] not in (first.json["run"], "my-run")


async def test_limits_that_no_run_can_have_are_refused() -> None:
    async with standing() as stands:
        for limits in ({"max_turns": 0}, {"max_turn": 5}, {"tokens": "many"}):
            reply = await stands.ask("POST", "/v1/runs", {"agent": "a", "task": "t", "limits": limits}, token="run")
            assert (reply.status, reply.json["type"]) == (422, "urn:watchkeeper:limits")


async def test_a_shared_budget_must_be_there() -> None:
    async with standing() as stands:
        body = {"agent": "clerk", "task": "Write", "budget": "team"}
        for headers in ([], [("idempotency-key", "k1")]):
            reply = await stands.ask("POST", "/v1/runs", body, token="run", headers=headers)
            assert (reply.status, reply.json["type"]) == (422, "urn:watchkeeper:unknown-budget")
            assert "[budgets.NAME]" in reply.json["detail"]
        assert (await stands.ask("GET", "/v1/budgets", token="read")).json == {"budgets": []}
        await stands.engine.limits.define("team", {"calls": 3.0})
        reply = await stands.ask("POST", "/v1/runs", body, token="run")
        assert (reply.status, reply.json["spec"]["budget"]) == (201, "team")
        (shown,) = (await stands.ask("GET", "/v1/budgets", token="read")).json["budgets"]
        assert shown == {"name": "team", "holds": {"calls": 3.0}, "left": {"calls": 3.0}}


async def test_no_run_is_taken_while_the_service_drains() -> None:
    class Draining:
        admitting = False

    async with standing(control=Draining()) as stands:
        reply = await stands.ask("POST", "/v1/runs", {"agent": "a", "task": "t"}, token="run")
        assert (reply.status, reply.header("retry-after")) == (503, "5")
        assert reply.json["type"] == "urn:watchkeeper:draining"


async def test_lists_are_filtered_and_paged() -> None:
    async with standing() as stands:
        await stands.engine.submit(RunSpec(agent="scout", task="t", labels={"a:b": "c:d"}), run="three")

        async def ids(query: str) -> list[str]:
            reply = await stands.ask("GET", f"/v1/runs?{query}", token="read")
            assert reply.status == 200, reply.body
            return [run["run"] for run in reply.json["runs"]]

        assert await ids("") == ["three", "two", "one"]
        assert await ids("state=running") == ["one"]
        assert await ids("state=running&state=queued&agent=clerk") == ["two", "one"]
        assert await ids("label=team:a") == ["one"]
        assert await ids("label=a%253Ab:c:d") == ["three"]
        assert await ids("limit=1") == ["three"]
        assert await ids("limit=1&before=three") == ["two"]
        assert await ids("worker=main") == ["one"]


async def test_a_result_waits_for_the_end() -> None:
    async with standing() as stands:
        early = await stands.ask("GET", "/v1/runs/one/result", token="read")
        assert (early.status, early.json["type"]) == (404, "urn:watchkeeper:not-ended")
        replies = []

        async def ask() -> None:
            replies.append(await stands.ask("GET", "/v1/runs/one/result?wait=9", token="read"))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.lowlevel.checkpoint()
            await stands.lease.append(stands.facts.end("done"))
        assert replies[0].status == 200
        assert replies[0].json["answer"] == "done"


async def test_a_cancel_is_proved() -> None:
    async with standing() as stands, obedient(stands) as got:
        reply = await stands.ask(
            "POST", "/v1/runs/one/cancel?wait=9", {"mode": "kill", "reason": "enough"}, token="run"
        )
        assert reply.status == 200, reply.body
        proof = reply.json
        assert proof["run"]["state"] == "ended"
        assert proof["run"]["outcome"]["reason"] == "enough"
        assert [(one["call"], one["tool"]) for one in proof["in_flight"]] == [("c2.1", "post")]
        assert [(one["call"], one["kind"], one["seconds"]) for one in proof["ended"]] == [("c2.1", "cancelled", 1.0)]
        assert proof["seconds"] == 0.25, "as the run has measured it"
        assert (got[0].mode, got[0].by) == ("kill", "run")
        again = await stands.ask("POST", "/v1/runs/one/cancel?wait=9", {"reason": "late"}, token="run")
        assert again.json == proof, "a run that has ended is left as it is, and its proof stays"


async def test_a_cancel_that_takes_longer_says_so() -> None:
    async with standing() as stands:
        reply = await stands.ask("POST", "/v1/runs/one/cancel?wait=0.01", {}, token="run")
        assert reply.status == 200
        assert reply.json["seconds"] is None
        assert reply.json["run"]["state"] != "ended"
        without = await stands.ask("POST", "/v1/runs/one/cancel", token="run")
        assert without.status == 202
        assert without.json["run"] == "one"


async def test_many_are_cancelled_by_a_filter_and_it_is_said_how_each_ended() -> None:
    async with standing() as stands, obedient(stands):
        for n in range(5):
            await stands.engine.submit(RunSpec(agent="scout", task="t", labels={"n": str(n % 2)}), run=f"s{n}")
        body: dict[str, Any] = {"filter": {"agent": "scout", "labels": {"n": "0"}}, "dry_run": True}
        before = stands.seen()
        dry = await stands.ask("POST", "/v1/runs/cancel", body, token="run")
        assert dry.json["dry_run"] is True
        assert [(one["run"], one["agent"], one["task"], one["state"]) for one in dry.json["runs"]] == [
            ("s4", "scout", "t", "queued"),
            ("s2", "scout", "t", "queued"),
            ("s0", "scout", "t", "queued"),
        ]
        assert stands.seen() == before
        done = await stands.ask("POST", "/v1/runs/cancel", {**body, "dry_run": False, "reason": "fire"}, token="run")
        assert [(one["run"], one["state"], one["outcome"], one["reason"]) for one in done.json["runs"]] == [
            (run, "ended", "cancelled", "fire") for run in ("s4", "s2", "s0")
        ]
        assert [(await stands.engine.get(f"s{n}")).state for n in range(5)] == [
            "ended", "queued", "ended", "queued", "ended",
        ]  # fmt: skip
        at_work = {"filter": {"states": ["running"]}, "mode": "kill", "wait": 9}
        waited = await stands.ask("POST", "/v1/runs/cancel", at_work, token="run")
        assert [(one["run"], one["outcome"]) for one in waited.json["runs"]] == [("one", "cancelled")]
        over = await stands.ask("POST", "/v1/runs/cancel", {"filter": {"states": ["ended"]}}, token="run")
        assert over.json["runs"] == []


async def test_a_filter_that_names_runs_cancels_no_other_and_none_that_does_not_fit_the_rest() -> None:
    async with standing() as stands, obedient(stands):
        for run in ("a", "b", "c"):
            await stands.engine.submit(RunSpec(agent="clerk" if run == "c" else "scout", task="t"), run=run)
        named = {"agent": "scout", "runs": ["b", "c", "one", "nobody"]}
        done = await stands.ask("POST", "/v1/runs/cancel", {"filter": named}, token="run")
        assert [one["run"] for one in done.json["runs"]] == ["b"]
        none = await stands.ask("POST", "/v1/runs/cancel", {"filter": {"agent": "scout", "runs": []}}, token="run")
        assert none.json["runs"] == []
        assert (await stands.engine.get("a")).state == "queued"


async def test_all_are_stopped_and_it_is_said_how_each_ended() -> None:
    async with standing() as stands, obedient(stands):
        before = stands.seen()
        dry = await stands.ask("POST", "/v1/stop-all", {"dry_run": True}, token="run")
        assert [(one["run"], one["state"], one["task"]) for one in dry.json["runs"]] == [
            ("two", "queued", "Wait"),
            ("one", "running", "File the letters"),
        ]
        assert stands.seen() == before
        done = await stands.ask("POST", "/v1/stop-all", {"reason": "fire", "wait": 9}, token="run")
        assert [(one["run"], one["outcome"], one["reason"]) for one in done.json["runs"]] == [
            ("two", "cancelled", "fire"),
            ("one", "cancelled", "fire"),
        ]


@pytest.mark.parametrize(
    ("action", "body", "sent"),
    [
        ("pause", {"reason": "lunch", "seconds": 5}, {"reason": "lunch", "seconds": 5}),
        ("pause", None, {"reason": "paused", "seconds": None}),
        ("resume", {"reason": "go"}, {"reason": "go"}),
        ("steer", {"text": "left"}, {"text": "left"}),
        ("budget", {"amounts": {"turns": 5}}, {"amounts": {"turns": 5}}),
        ("hand-over", {"mode": "now"}, {"mode": "now", "reason": "asked"}),
    ],
)
async def test_a_command_comes_to_the_run(action: str, body: Any, sent: dict[str, Any]) -> None:
    async with standing() as stands, obedient(stands) as got:
        key = [("idempotency-key", "c1")]
        reply = await stands.ask("POST", f"/v1/runs/one/{action}?wait=9", body, token="run", headers=key)
        assert (reply.status, reply.json) == (200, {"id": "c1", "taken": True})
        again = await stands.ask("POST", f"/v1/runs/one/{action}", body, token="run", headers=key)
        assert (again.status, again.json) == (202, {"command": "c1"})
        told = await stands.ask("GET", "/v1/runs/one/commands/c1", token="read")
        assert told.json == {"id": "c1", "taken": True}
        assert len(got) == 1, "a command of one id is one"
        assert {name: getattr(got[0], name) for name in sent} == sent
        assert (got[0].by, got[0].id) == ("run", "c1")


async def test_a_command_that_nobody_has_answered() -> None:
    async with standing() as stands:
        sent = await stands.ask("POST", "/v1/runs/one/pause?wait=0.01", {}, token="run")
        assert sent.status == 202
        open_ = await stands.ask("GET", f"/v1/runs/one/commands/{sent.json['command']}", token="read")
        assert (open_.status, open_.json["type"]) == (404, "urn:watchkeeper:not-answered")
        unknown = await stands.ask("GET", "/v1/runs/one/commands/never", token="read")
        assert (unknown.status, unknown.json["type"]) == (404, "urn:watchkeeper:unknown-command")


async def test_the_inbox_and_its_answers() -> None:
    async with standing() as stands, obedient(stands) as got:
        found = (await stands.ask("GET", "/v1/approvals", token="read")).json["approvals"]
        (one,) = found
        assert (one["approval"], one["run"], one["agent"], one["tool"], one["call"]) == (
            "a1", "one", "clerk", "burn", "c2.2",
        )  # fmt: skip
        assert one["arguments"] == '{"what":"letters"}'
        assert one["exact"] is False, "the hash is of other bytes: a secret was cut out"
        assert one["expires"] - one["asked"] == 600.0
        body = {"run": "one", "decision": "approve", "arguments_hash": HASH, "scope": "run", "pattern": {"what": "l*"}}
        reply = await stands.ask("POST", "/v1/approvals/a1", body, token="approve")
        assert (reply.status, reply.json["taken"]) == (200, True)
        assert (got[0].approval, got[0].scope, got[0].pattern, got[0].by) == ("a1", "run", {"what": "l*"}, "approve")
        await stands.lease.append(
            [stands.facts.make(ApprovalResolved, approval="a1", call_id="c2.2", tool="burn", how="run")]
        )
        assert (await stands.ask("GET", "/v1/approvals", token="read")).json["approvals"] == []


async def test_what_is_decided_already_is_a_conflict() -> None:
    async with standing() as stands, obedient(stands, taken=False):
        body = {"run": "one", "decision": "deny", "reason": "no"}
        reply = await stands.ask("POST", "/v1/approvals/a1", body, token="approve")
        assert (reply.status, reply.json["detail"]) == (409, "no such")


async def test_a_tree_and_a_timeline() -> None:
    async with standing() as stands:
        child = type(stands.facts)("one.1", "one")
        await stands.lease.append(child.start("helper"))
        tree = (await stands.ask("GET", "/v1/runs/one/tree", token="read")).json
        assert tree["run"]["run"] == "one"
        assert [one["run"]["run"] for one in tree["children"]] == ["one.1"]
        lanes = (await stands.ask("GET", "/v1/runs/one/timeline", token="read")).json["lanes"]
        tools = next(lane for lane in lanes if lane["lane"] == "tools")["bars"]
        assert [(bar["call"], bar["row"], bar["kind"]) for bar in tools] == [
            ("c1.1", 0, "finished"), ("c1.2", 1, "finished"), ("c2.1", 0, "running"), ("c2.2", 1, "waiting"),
        ]  # fmt: skip


class Controlled:
    admitting = True

    def workers(self) -> tuple[WorkerStatus, ...]:
        return (
            WorkerStatus(name="w1", pid=7, state="blocked", runs=2, since=1.0, restarts=1, stack="in secret_function"),
        )

    def rules(self) -> tuple[AgentRules, ...]:
        return (AgentRules(agent="clerk", source="profile", profile="default", settings={"mode": "enforce"}),)

    async def stack(self, worker: str) -> str:
        return {"w1": "here"}[worker]

    async def live(self) -> Report:
        return Report.of(Check("loop", True))

    async def ready(self) -> Report:
        return Report.of(Check("disk", False, "full"))


async def test_what_the_service_says_of_itself() -> None:
    async with standing(control=Controlled()) as stands:
        live = await stands.ask("GET", "/livez", token="read")
        assert (live.status, live.json) == (200, {"ok": True, "checks": []}), "without a credential not why"
        ready = await stands.ask("GET", "/readyz", token="read")
        assert (ready.status, ready.json) == (503, {"ok": False, "checks": []})
        (shown,) = (await stands.ask("GET", "/v1/workers", token="read")).json["workers"]
        assert (shown["name"], shown["state"], shown["stack"]) == ("w1", "blocked", "")
        (whole,) = (await stands.ask("GET", "/v1/workers")).json["workers"]
        assert whole["stack"] == "in secret_function"
        assert (await stands.ask("GET", "/v1/workers/w1/stack")).body == b"here"
        assert (await stands.ask("GET", "/v1/workers/w2/stack")).status == 404
        stats = (await stands.ask("GET", "/v1/stats", token="read")).json
        assert stats["runs"]["states"] == {"running": 1, "queued": 1}
        assert stats["runs"]["approvals"] == 1
        told = (await stands.ask("GET", "/v1/policies", token="read")).json
        assert told["policies"]["default"]["limits"]["max_turns"] == 20
        (rules,) = told["agents"]
        assert (rules["agent"], rules["profile"], rules["settings"]) == ("clerk", "default", {"mode": "enforce"})
        assert (await stands.ask("GET", "/version", token="read")).json["format"] == 1


async def test_what_nobody_expected_is_told_without_a_word_of_it(caplog: pytest.LogCaptureFixture) -> None:
    async with standing() as stands:

        async def broken(run: str) -> None:
            raise ValueError("the secret place")

        stands.engine.get = broken  # type: ignore[assignment, method-assign]
        reply = await stands.ask("GET", "/v1/runs/one", token="read")
        assert reply.status == 500
        assert b"secret place" not in reply.body
        assert "the secret place" in caplog.text


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Unavailable("the disk is full; make room"), (503, "1", "engine")),
        (Unusable("main.db is damaged; move it away"), (500, None, "engine")),
        (EngineError("there is another one"), (409, None, "conflict")),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/runs"), ("POST", "/v1/runs/one/pause"), ("GET", "/v1/runs/one/commands/c1")]
)
async def test_what_the_engine_cannot_do_is_told_by_its_kind(
    method: str, path: str, error: EngineError, told: tuple[int, str | None, str]
) -> None:
    async with standing() as stands:

        async def failing(*_: Any, **__: Any) -> Any:
            raise error

        for name in ("submit", "send", "answered"):
            setattr(stands.engine, name, failing)
        if path.endswith("/c1") and told[0] == 409:
            told = (404, None, "unknown-command")  # that is what the engine means there
        body = {"agent": "scout", "task": "t"} if path == "/v1/runs" else {}
        reply = await stands.ask(method, path, body if method == "POST" else None)
        assert (reply.status, reply.header("retry-after")) == told[:2]
        assert reply.json["type"] == f"urn:watchkeeper:{told[2]}"
        assert reply.json["detail"] == str(error)


async def test_another_command_of_the_same_id_is_a_conflict() -> None:
    async with standing() as stands:
        key = [("idempotency-key", "c1")]
        assert (await stands.ask("POST", "/v1/runs/one/steer", {"text": "a"}, token="run", headers=key)).status == 202
        other = await stands.ask("POST", "/v1/runs/one/steer", {"text": "b"}, token="run", headers=key)
        assert (other.status, other.json["type"]) == (409, "urn:watchkeeper:conflict")
