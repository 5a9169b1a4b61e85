"""Observers within the process: they see everything, in order, and hold nothing up."""

from __future__ import annotations

import io
import json
from typing import Any

import anyio
import pytest
from sighted import facts_of_tree, hanging, look, see, with_sub_agent

from support import of, scripted, supervised
from watchkeeper import Agent, Event
from watchkeeper.engine import RunSpec
from watchkeeper.journal import MemoryEngine
from watchkeeper.messages import ChildStarted, Recovered, RunEnded, RunStarted, Suspended
from watchkeeper.observe.lines import Lines, logger_to
from watchkeeper.observe.metrics import Metrics
from watchkeeper.observe.spans import Spans
from watchkeeper.observe.writer import Writer
from watchkeeper.testing import VirtualSeams, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_they_see_every_fact_of_a_run_and_its_sub_agents_in_order() -> None:
    seen: list[Event] = []
    facts = await see(with_sub_agent(), seen.append)
    runs = {event.run for event in facts}
    assert len(runs) == 2
    for run in runs:
        assert [event for event in seen if event.run == run] == [event for event in facts if event.run == run]


async def test_of_a_sub_agent_they_hear_after_its_parent_has_told_of_it() -> None:
    seen: list[Event] = []
    await see(with_sub_agent(), seen.append)
    (told,) = of(seen, ChildStarted)
    (began,) = (event for event in of(seen, RunStarted) if event.run == told.child)
    assert seen.index(told) < seen.index(began)


async def test_one_that_raises_is_reported_and_asked_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Event] = []
    seen: list[Event] = []

    def raises(event: Event) -> None:
        asked.append(event)
        raise RuntimeError("not today")

    facts = await see(with_sub_agent(), raises, seen.append)
    assert of(facts, RunEnded)[0].outcome.status == "completed"
    assert len(asked) == 1
    assert len(seen) == len(facts)
    told = capsys.readouterr().err
    assert "observer_failed" in told
    assert "not today" in told


async def test_they_see_the_end_of_what_leaving_the_supervisor_cancels() -> None:
    seen: list[Event] = []
    async with supervised(observers=[seen.append]) as supervisor:
        run = await supervisor.start(hanging(), "Hang.")
        await anyio.sleep(5)
    assert await facts_of_tree(run) == seen
    assert of(seen, RunEnded)[0].outcome.reason == "supervisor_closed"


async def test_they_see_the_end_of_what_the_host_cancels() -> None:
    seen: list[Event] = []
    runs: list[Any] = []

    async def host() -> None:
        async with supervised(observers=[seen.append]) as supervisor:
            runs.append(await supervisor.start(hanging(), "Hang."))
            await anyio.sleep_forever()

    with anyio.move_on_after(5):
        await host()
    assert of(seen, RunEnded)
    assert await facts_of_tree(runs[0]) == seen


async def test_they_see_a_run_that_was_cancelled_in_the_queue() -> None:
    seen: list[Event] = []
    async with supervised(observers=[seen.append], max_runs=1) as supervisor:
        await supervisor.start(hanging(), "Hang.")
        queued = await supervisor.start(Agent(scripted(say("x")), [look]), "Wait.")
        queued.cancel("not needed")
        await queued.wait()
    assert [event.run for event in of(seen, RunEnded)].count(queued.id) == 1


async def test_of_a_run_that_goes_on_elsewhere_each_sees_its_part() -> None:
    spec = RunSpec(agent="hang", task="Hang.")
    first: list[Event] = []
    second: list[Event] = []
    counted, told = Metrics(), Spans()
    async with MemoryEngine(seams=VirtualSeams()) as engine:
        agents = {"hang": hanging()}
        async with supervised(engine=engine, agents=agents, drain=0, observers=[first.append]) as supervisor:
            await supervisor.submit(spec, run="r1")
            await anyio.sleep(5)
        async with supervised(
            engine=engine, agents={"hang": hanging()}, observers=[second.append, counted.observe, told.observe]
        ) as supervisor:
            await anyio.sleep(5)
            await engine.cancel("r1")
            async for _ in engine.watch("r1"):
                pass
    (suspended,) = of(first, Suspended)
    assert of(second, RunStarted) == []
    assert type(second[0]) is Recovered
    assert second[0].n == suspended.n + 1
    assert [event.n for event in second] == list(range(second[0].n, second[-1].n + 1))
    assert of(second, RunEnded)[0].outcome.status == "cancelled"
    assert counted.registry.get_sample_value("watchkeeper_runs_recovered_total", {"agent": "hang"}) == 1
    assert told.open() == []
    metrics, spans = Metrics(), Spans()
    closed = []
    for event in first:
        metrics.observe(event)
        closed += [span for what, span in spans.observe(event) if what == "closed"]
    labels = {"agent": "hang", "outcome": "cancelled", "reason": "by_request"}
    assert metrics.registry.get_sample_value("watchkeeper_runs_finished_total", labels) is None
    assert (closed[-1].kind, closed[-1].error) == ("run", "suspended")


async def test_without_any_nobody_reads() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(say("Done."))), "x")
        await run.wait()
        assert run.observed is None
    async with supervised(observers=[lambda event: None]) as supervisor:
        run = await supervisor.start(Agent(scripted(say("Done."))), "x")
        await run.wait()
        assert run.observed is not None


async def test_the_log_says_of_a_suspended_run_that_it_is_suspended() -> None:
    stream = io.StringIO()
    writer = Writer(stream)
    engine = MemoryEngine(seams=VirtualSeams())
    tell = Lines(logger_to(writer, "json")).observe
    async with engine:
        async with supervised(engine=engine, agents={"hang": hanging()}, drain=0, observers=[tell]) as supervisor:
            await supervisor.submit(RunSpec(agent="hang", task="Hang."), run="r1")
            await anyio.sleep(5)
        async with supervised(engine=engine, agents={"hang": hanging()}, observers=[tell]):
            await anyio.sleep(5)
            await engine.cancel("r1")
            async for _ in engine.watch("r1"):
                pass
    writer.close()
    told = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert told.count("run_suspended") == 1
    assert told.index("run_suspended") < told.index("recovered")
    assert told[-1] == "run_ended"
    assert told.count("run_ended") == 1
