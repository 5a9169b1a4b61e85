"""``watchkeeper cancel``: which runs, what is sent, and the proof of what ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from cli_stage import Stage

from watchkeeper.cli import main
from watchkeeper.cli.listed import FOREGROUND, SERVICE, Source
from watchkeeper.engine import Cancel, Engine, Page, Query, RunStatus
from watchkeeper.messages import (
    CallEnded,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    Event,
    Gap,
    Mode,
    ModelPartialDropped,
    ModelReplied,
    ModelRequested,
    Result,
)
from watchkeeper.service.client import HttpEngine, Refused
from watchkeeper.service.proof import Proof
from watchkeeper.testing import BACKENDS
from watchkeeper.testing.conformance.ground import Facts


@pytest.fixture(params=BACKENDS)
def stage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch, request.param)


async def three(stage: Stage) -> None:
    await stage.run("r1", team="blue")
    await stage.run("r2", agent="writer")
    await stage.run("r3")
    await stage.end("r3")


def cancelled(stage: Stage) -> list[tuple[str, str, str]]:
    return sorted((one.run, one.mode, one.reason) for one in stage.commands if isinstance(one, Cancel))


@pytest.mark.parametrize(
    ("options", "mode"), [([], "now"), (["--now"], "now"), (["--after-turn"], "after_turn"), (["--kill"], "kill")]
)
def test_the_proof_says_what_was_at_work_and_what_ended_when(
    stage: Stage, capsys: pytest.CaptureFixture[str], options: list[str], mode: str
) -> None:
    stage.set(three)
    assert main(["cancel", "r1", "--wait", "--reason", "not needed", *options]) == 0
    assert cancelled(stage) == [("r1", mode, "not needed")]
    shown = capsys.readouterr().out
    assert "r1: cancelled (not needed) in" in shown
    assert "its last task joined after 2.00 s" in shown
    assert "1 call in flight" in shown
    assert "file c2.1: cancelled after 1.00 s" in shown


def test_the_proof_as_json(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(three)
    assert main(["cancel", "r1", "--wait", "--json"]) == 0
    proof = json.loads(capsys.readouterr().out)
    assert (proof["run"]["run"], proof["run"]["outcome"]["status"]) == ("r1", "cancelled")
    assert [one["call"] for one in proof["in_flight"]] == ["c2.1"]
    assert proof["ended"] == [{"run": "r1", "call": "c2.1", "tool": "file", "kind": "cancelled", "seconds": 1.0}]
    assert proof["seconds"] == 2.0
    assert 0 <= proof["waited"] < 30


def test_without_wait_it_is_sent_and_no_more(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(three)
    assert main(["cancel", "r1"]) == 0
    assert "asked to end (now)" in capsys.readouterr().out


def test_what_does_not_end_in_time_is_named_and_the_request_stands(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.stubborn = True
    stage.set(three)
    assert main(["cancel", "r1", "--wait", "--timeout", "0.2"]) == 124
    shown = capsys.readouterr()
    assert "r1: has not ended yet (cancelling)" in shown.out
    assert "file c2.1: has not ended" in shown.out
    assert "the request stands" in shown.err


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (["--all"], ["r1", "r2"]),
        (["--label", "team=blue"], ["r1"]),
        (["--agent", "writer"], ["r2"]),
        (["--state", "running", "--agent", "clerk"], ["r1"]),
    ],
)
def test_many_at_once(stage: Stage, options: list[str], runs: list[str]) -> None:
    stage.set(three)
    assert main(["cancel", *options, "--yes", "--wait"]) == 0
    assert [run for run, *_ in cancelled(stage)] == runs


def test_a_dry_run_lists_and_cancels_nothing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(three)
    assert main(["cancel", "--all", "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == ["RUN", "r2", "r1"]
    assert "2 runs would be cancelled" in shown.err
    assert stage.commands == []
    assert main(["cancel", "--all", "--dry-run", "--json"]) == 0
    assert [json.loads(line)["run"] for line in capsys.readouterr().out.splitlines()] == ["r2", "r1"]


def test_many_without_a_terminal_need_yes(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(three)
    assert main(["cancel", "--all"]) == 2
    assert "--yes, or --dry-run" in capsys.readouterr().err
    assert stage.commands == []


def test_one_that_has_ended_is_no_failure(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(three)
    assert main(["cancel", "r3", "--wait"]) == 0
    assert "has ended already (completed)" in capsys.readouterr().err
    assert stage.commands == []


def test_one_that_died_is_said_to_have_died(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def died(stage: Stage) -> None:
        await stage.run("r1")
        stage.sources = [Source(FOREGROUND, stage.engine, alive=False)]

    stage.set(died)
    assert main(["cancel", "r1", "--wait"]) == 0
    assert "died with its process" in capsys.readouterr().err
    assert stage.commands == []


def test_a_queued_run_ends_without_having_begun(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def queued(stage: Stage) -> None:
        await stage.queue("r1")

    stage.set(queued)
    assert main(["cancel", "r1", "--wait", "--json"]) == 0
    proof = json.loads(capsys.readouterr().out)
    assert (proof["run"]["outcome"]["status"], proof["in_flight"]) == ("cancelled", [])


async def a_family(stage: Stage) -> None:
    await stage.run("r1")
    await stage.child("r1", "r1child")


@pytest.mark.parametrize(("options", "run"), [([], "r1child"), (["--tree"], "r1")])
def test_a_sub_agent_alone_or_its_whole_tree(stage: Stage, options: list[str], run: str) -> None:
    stage.set(a_family)
    assert main(["cancel", "r1child", "--wait", *options]) == 0
    assert [one for one, *_ in cancelled(stage)] == [run]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "say which"),
        (["r1", "--all"], "not both"),
        (["r1", "--now", "--kill"], "exclude each other"),
        (["r1", "--timeout", "0"], "more than 0"),
        (["nothing"], "no run nothing"),
    ],
)
def test_wrong_usage(stage: Stage, options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(three)
    assert main(["cancel", *options]) == 2
    assert said in capsys.readouterr().err
    assert stage.commands == []


def test_the_proof_of_a_tree_has_the_calls_of_its_sub_agents(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def family(stage: Stage) -> None:
        await a_family(stage)
        facts = stage.facts["r1child"]
        await stage.more("r1child", facts.make(CallStarted, turn=2, slot=1, call_id="c2.1", tool="read"))

    stage.set(family)
    assert main(["cancel", "r1", "--wait"]) == 0
    shown = capsys.readouterr().out
    assert "2 calls in flight" in shown
    assert "read c2.1: cancelled after 1.00 s  (sub-agent r1child)" in shown


class Far(HttpEngine):
    """The engine of the stage, as that of a service is: it takes many cancels in one request, and counts requests."""

    def __init__(self, engine: Engine, refuses: str = "") -> None:
        super().__init__("unix:/nowhere")
        self._engine = engine
        self._refuses = refuses
        self.asked: list[str] = []

    async def __aenter__(self) -> Far:
        return self

    async def get(self, run: str) -> RunStatus:
        self.asked.append(f"get {run}")
        return await self._engine.get(run)

    async def list(self, query: Query) -> Page:
        return await self._engine.list(query)

    def watch(self, run: str, after: int = 0) -> AsyncIterator[Event | Gap]:
        return self._engine.watch(run, after)

    async def cancel(self, run: str, reason: str = "", mode: Mode = "now", *, by: str = "", id: str = "") -> None:
        self.asked.append(f"cancel {run}")
        await self._engine.cancel(run, reason, mode, by=by, id=id)

    async def cancel_many(
        self, runs: Sequence[str], reason: str = "", mode: Mode = "now", *, by: str = "", wait: float = 0.0
    ) -> frozenset[str]:
        self.asked.append(f"cancel {' '.join(sorted(runs))}, wait {wait:g}")
        if self._refuses:
            raise Refused(self._refuses, 403, "scope")
        for run in runs:
            await self._engine.cancel(run, reason, mode, by=by)
        return frozenset()


def far(stage: Stage, refuses: str = "") -> list[Far]:
    """Three runs at a service, and one of a terminal."""
    engines: list[Far] = []

    async def prepare(stage: Stage) -> None:
        for run in ("r1", "r2", "r3"):
            await stage.run(run)
        engines.append(Far(stage.engine, refuses))
        stage.sources[0] = Source(SERVICE, engines[0])

    stage.set(prepare)
    return engines


def test_many_runs_of_a_service_are_cancelled_by_one_request(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    engines = far(stage)
    assert main(["cancel", "--all", "--yes", "--reason", "enough"]) == 0
    assert engines[0].asked == ["cancel r1 r2 r3, wait 0"]
    assert cancelled(stage) == [(run, "now", "enough") for run in ("r1", "r2", "r3")]
    assert capsys.readouterr().out.count("asked to end (now)") == 3


def test_their_proofs_are_those_of_runs_cancelled_one_by_one(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    engines = far(stage)
    assert main(["cancel", "--all", "--yes", "--wait", "--timeout", "9"]) == 0
    assert engines[0].asked[0] == "cancel r1 r2 r3, wait 9"
    shown = capsys.readouterr().out
    assert shown.count("its last task joined after 2.00 s") == 3
    assert shown.count("file c2.1: cancelled after 1.00 s") == 3


def test_one_run_of_a_service_is_cancelled_by_itself(stage: Stage) -> None:
    engines = far(stage)
    assert main(["cancel", "r2"]) == 0
    assert "cancel r2" in engines[0].asked


def test_a_request_for_many_that_is_refused_is_told_of_each(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    far(stage, refuses="that needs the scope run")
    assert main(["cancel", "--all", "--yes"]) == 1
    assert cancelled(stage) == []
    assert capsys.readouterr().err.count("that needs the scope run") == 3


# -- the fold ----------------------------------------------------------------------------------------------------------


def folded(events: Iterator[Event]) -> Proof:
    proof = Proof()
    for event in events:
        proof.observe(event)
    return proof


def test_a_request_to_the_model_is_at_work_too() -> None:
    def events() -> Iterator[Event]:
        facts = Facts("r1")
        yield facts.make(ModelRequested, model="m")
        yield facts.make(CancelRequested, mode="now", reason="enough")
        yield facts.make(ModelPartialDropped, attempt=1, characters=5, calls=0, estimate=3)

    proof = folded(events())
    assert [(one.call, one.tool) for one in proof.in_flight] == [("", "model")]
    assert [(one.tool, one.kind, one.seconds) for one in proof.ended] == [("model", "cancelled", 1.0)]


def test_what_ended_before_or_began_after_the_request_was_not_in_flight() -> None:
    def events() -> Iterator[Event]:
        facts = Facts("r1")
        yield facts.make(ModelRequested, model="m")
        yield facts.make(ModelReplied, text="")
        yield facts.make(CallStarted, call_id="a", tool="read")
        yield facts.make(CallEnded, result=Result("a", "read", "finished", "x"))
        yield facts.make(CancelRequested, mode="after_turn", reason="enough")
        yield facts.make(CallStarted, call_id="b", tool="read")
        yield facts.make(CancelRequested, mode="kill", reason="enough")
        yield facts.make(CallEnded, result=Result("b", "read", "abandoned", ""))
        yield facts.make(CancelConfirmed, seconds=3.0)

    proof = folded(events())
    assert proof.in_flight == []
    assert [(one.call, one.kind) for one in proof.ended] == [("b", "abandoned")]
    assert proof.seconds == 3.0


def test_an_empty_reason_is_none(stage: Stage) -> None:
    stage.set(three)
    assert main(["cancel", "r1", "--reason", ""]) == 0
    assert cancelled(stage) == [("r1", "now", "cancelled")]
