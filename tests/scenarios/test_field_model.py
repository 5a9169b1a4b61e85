"""What the model's side does: stalls, cuts, refusals, usage that is not reported, choices that are ignored."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from stage import ended, play, stage, varying

from support import scripted
from watchkeeper import Agent, Limits, ModelError, tool, writes
from watchkeeper.messages import (
    CallAdmitted,
    CallProposed,
    ModelFailed,
    ModelPartialDropped,
    ModelRequested,
    ModelRetried,
    PushedBack,
    Settled,
    Usage,
)
from watchkeeper.model import Chunk, Finished, Request, TextDelta, Timeouts
from watchkeeper.models.dialect import request_body
from watchkeeper.testing import ScriptedModel, Step, call, fail, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


class Disk:
    """A writing tool that notes what it wrote."""

    def __init__(self) -> None:
        self.wrote: list[tuple[str, str]] = []

        @tool(effect=writes("disk"))
        async def write(path: str, content: str) -> str:
            """Write."""
            self.wrote.append((path, content))
            return "written"

        self.tools = [write]


class Counted(ScriptedModel):
    """Counts its open connections."""

    open = opened = 0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        self.open += 1
        self.opened += 1
        try:
            async with super().stream(request) as chunks:
                yield chunks
        finally:
            self.open -= 1


class Gaps:
    """Chunks with so many seconds before each."""

    name = "gaps"

    def __init__(self, gap: float, timeouts: Timeouts) -> None:
        self.gap = gap
        self.timeouts = timeouts

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        chunks = self._chunks()
        yield chunks
        await chunks.aclose()  # type: ignore[attr-defined]  # a generator

    async def _chunks(self) -> AsyncIterator[Chunk]:
        for word in ("slow ", "but ", "sure"):
            await anyio.sleep(self.gap)
            yield TextDelta(word)
        yield Finished("stop")


async def test_strm_01_a_stream_that_stalls_is_left_at_the_idle_limit_and_asked_again() -> None:
    model = Counted([say("abc", stall=True), say("done")], timeouts=Timeouts(idle=1), pieces=1)
    ran = await play(Agent(model))
    assert ran.outcome.answer == "done"
    assert (model.opened, model.open) == (2, 0)
    (retried,) = ran.of(ModelRetried)
    assert retried.error == "timeout"
    assert "next chunk did not come within 1 s" in retried.detail
    assert 1.3 < ran.outcome.seconds < 1.7  # the idle limit and one back-off
    assert [fact.characters for fact in ran.of(ModelPartialDropped)] == [3]


async def test_strm_01_for_ever_ends_within_the_retries() -> None:
    model = Counted(lambda request, n: say("abc", stall=True), timeouts=Timeouts(idle=1))
    ran = await play(Agent(model))
    assert ran.end == ("failed", "model_unavailable")
    assert (model.opened, model.open) == (4, 0)


async def test_strm_02_gaps_below_the_models_own_limit_kill_nothing() -> None:
    patient = await play(Agent(Gaps(60, Timeouts(first_chunk=61, idle=61))))
    assert patient.outcome.answer == "slow but sure"
    assert patient.of(ModelRetried) == []
    first = await play(Agent(Gaps(60, Timeouts(first_chunk=59, idle=61))))
    later = await play(Agent(Gaps(60, Timeouts(first_chunk=61, idle=59))))
    assert first.end == later.end == ("failed", "model_unavailable")
    assert "first chunk did not come within 59 s" in first.of(ModelFailed)[0].detail
    assert "next chunk did not come within 59 s" in later.of(ModelFailed)[0].detail


@pytest.mark.parametrize("cut", ['{"path": "a", "con', '{"path": "a", "content": "x"}'])
async def test_strm_04_orph_05_a_call_of_a_stream_that_was_cut_is_no_call(cut: str) -> None:
    """Also if what had come until then happens to be whole."""
    disk = Disk()
    whole = ("write", '{"path": "b", "content": "y"}')
    steps = [
        Step(calls=(("write", cut),), error=ModelError("connection", "reset")),
        Step(calls=(whole,)),
        say("done"),
    ]
    model = scripted(*steps)
    ran = await play(Agent(model, disk.tools))
    assert disk.wrote == [("b", "y")]
    assert len(ran.of(CallProposed)) == 1
    assert [fact.calls for fact in ran.of(ModelPartialDropped)] == [1]
    assert model.requests[1].messages == model.requests[0].messages  # nothing of it was kept
    assert model.requests[-1].messages[-1].role == "tool"


async def test_orph_05_a_stream_that_is_cut_for_good_leaves_no_call_behind() -> None:
    disk = Disk()
    cut = Step(calls=(("write", '{"path": '),), error=ModelError("connection", "reset"))
    ran = await play(Agent(scripted(*[cut] * 4), disk.tools))
    assert ran.end == ("failed", "model_unavailable")
    assert [message.role for message in ran.outcome.history] == ["user"]
    assert ran.outcome.calls == ()


@pytest.mark.parametrize(
    ("retry_after", "seconds", "attempts", "end"),
    [
        (60.0, (180, 182), 4, ("failed", "model_unavailable")),
        (None, (2.5, 4.5), 4, ("failed", "model_unavailable")),
        (0.0, (2.5, 4.5), 4, ("failed", "model_unavailable")),
        (-5.0, (2.5, 4.5), 4, ("failed", "model_unavailable")),
        (864_000.0, (0, 0), 1, ("failed", "model_unavailable")),
        (150.0, (150, 152), 2, ("failed", "model_unavailable")),
    ],
)
async def test_rtry_01_the_wait_is_what_the_server_asks_for(
    retry_after: float | None, seconds: tuple[float, float], attempts: int, end: tuple[str, str]
) -> None:
    """Within five minutes; a wait that would pass them is not begun."""
    steps = [fail("rate_limited", "slow down", retry_after=retry_after)] * 4
    ran = await play(Agent(scripted(*steps), limits=Limits(seconds=300)))
    assert ran.end == end
    assert len(ran.of(ModelRequested)) == attempts
    assert seconds[0] <= ran.outcome.seconds <= seconds[1]
    if retry_after == 60.0:
        assert all(fact.wait >= 60 for fact in ran.of(ModelRetried))


@pytest.mark.parametrize("retry_after", [None, 2.0])
async def test_rtry_02_fifty_runs_that_meet_one_429_do_not_come_back_at_once(retry_after: float | None) -> None:
    """All of them are on their way when the first answer comes back."""

    def script(request: Request, n: int) -> Step:
        error = ModelError("rate_limited", "slow down", retry_after=retry_after)
        return Step(error=error, delay=0.1) if n <= 50 else say("done", delay=0.5)

    model = ScriptedModel(script)
    again: list[float] = []
    async with stage() as supervisor:
        runs = [await supervisor.start(Agent(model), "task") for _ in range(50)]
        for run in runs:
            assert (await run.wait()).status == "completed"
            ran = await ended(run)
            again += [fact.t for fact in ran.of(ModelRequested) if fact.attempt > 1]
    assert len(again) == 50
    if retry_after is not None:
        assert min(again) >= retry_after
    buckets = Counter(int(t * 10) for t in again)
    assert max(buckets.values()) <= 10  # at most a fifth of them in any 100 ms
    assert max(again) < 6


async def test_rtry_05_a_context_that_is_too_long_is_not_sent_again() -> None:
    model = scripted(fail("context_length", "request (9000 tokens) exceeds the available context size (4096 tokens)"))
    ran = await play(Agent(model))
    assert ran.end == ("stopped", "context")
    assert model.asked == 1
    assert "9000" in ran.outcome.message
    assert "4096" in ran.outcome.message


@pytest.mark.parametrize("finish", ["content_filter", "refusal", "safety", "foo"])
async def test_rtry_07_fini_04_a_reply_that_is_withheld_is_the_end(finish: str) -> None:
    model = scripted(say("", finish=finish))
    ran = await play(Agent(model))
    assert ran.end == ("stopped", "finish_foo" if finish == "foo" else "filtered")
    assert model.asked == 1
    assert ran.of(ModelRetried) == []
    if finish == "foo":
        assert "foo" in ran.outcome.message


@pytest.mark.parametrize(
    ("usage", "estimated"), [(Usage(300, 20), False), (None, True), (Usage(0, 0), True)], ids=["told", "none", "zero"]
)
async def test_usag_01_usag_02_every_reply_is_charged(usage: Usage | None, estimated: bool) -> None:
    """At what the server says, else at the hold; never at nothing; and the budget ends the run."""
    words = "word " * 400
    told = ScriptedModel(lambda request, n: Step(text=words, calls=(("look", f'{{"what": "{n}"}}'),), usage=usage))
    ran = await play(Agent(told, [look], limits=Limits(tokens=20_000, reply_tokens=1000, max_turns=100)))
    settled = ran.of(Settled)
    assert {fact.estimated for fact in settled} == {estimated}
    assert all(fact.amounts["tokens"] >= 320 for fact in settled)
    assert ran.outcome.usage.estimated == estimated
    assert 0 < ran.outcome.spent["tokens"] <= 20_000
    assert ran.outcome.spent["tokens"] == sum(fact.amounts["tokens"] for fact in settled)
    assert ran.end == ("stopped", "tokens")


async def test_fini_01_a_call_of_a_reply_that_was_cut_by_length_is_not_run() -> None:
    disk = Disk()
    cut = call(("write", {"path": "a", "content": "x"}), finish="length")
    ran = await play(Agent(scripted(cut, call(("write", {"path": "a", "content": "y"})), say("done")), disk.tools))
    assert disk.wrote == [("a", "y")]
    assert ran.end == ("completed", "answer")
    (pushed,) = ran.of(PushedBack)
    assert (pushed.by, "smaller parts" in pushed.text) == ("length", True)
    again = await play(Agent(scripted(cut, cut), disk.tools))
    assert again.end == ("stopped", "length")
    assert disk.wrote == [("a", "y")]


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
async def test_fini_02_incomplete_arguments_win_over_the_label(finish: str) -> None:
    disk = Disk()
    half = Step(calls=(("write", '{"path": "a", "content": "x'),), finish=finish)
    whole = Step(calls=(("write", '{"path": "a", "content": "x"}'),), finish=finish)
    ran = await play(Agent(scripted(half, whole, say("done")), disk.tools))
    assert ran.kinds == ["refused", "finished"]
    assert "smaller parts" in ran.seen[0]
    assert disk.wrote == [("a", "x")]
    assert len(ran.of(CallAdmitted)) == 1


@pytest.mark.parametrize("empty", ["", "  \n"])
async def test_empt_01_empt_02_an_empty_reply_is_asked_again_twice(empty: str) -> None:
    model = scripted(say(empty), call(("look", {"what": "a"})), say(empty), say(empty), say("done"))
    ran = await play(Agent(model, [look]))
    assert ran.outcome.answer == "done"
    assert all(
        message.content.strip() for request in model.requests for message in request.messages if not message.calls
    )
    for_ever = ScriptedModel(lambda request, n: say(empty))
    never = await play(Agent(for_ever, [look]))
    assert never.end == ("stopped", "empty")
    assert for_ever.asked == 3
    assert [message.role for message in never.outcome.history] == ["user"] * 3


async def test_tcho_01_no_tools_and_a_call_all_the_same() -> None:
    ran = await play(Agent(scripted(call(("look", {"what": "a"})), say("done"))))
    assert (ran.executed, ran.kinds) == (0, ["refused"])
    assert ran.end == ("completed", "answer")
    off = await play(Agent(scripted(*[call(("look", {"what": "a"}))] * 4), [look], limits=Limits(max_turns=1)))
    assert (off.executed, off.kinds) == (1, ["finished"] + ["refused"] * 3)
    assert all("Tools are off" in text for text in off.seen[1:])


async def test_tcho_01_tools_are_withheld_from_servers_that_ignore_none() -> None:
    model = varying(lambda n: [("look", {"what": str(n)})])
    await play(Agent(model, [look], limits=Limits(max_turns=2)))
    bodies = [request_body("m", request) for request in model.requests]
    assert ["tools" in body for body in bodies] == [True, True, False, False, False]


async def test_tcho_02_required_is_asked_for_until_it_is_met_and_then_no_more() -> None:
    model = scripted(say("I know."), call(("look", {"what": "a"})), say("I looked."))
    ran = await play(Agent(model, [look], tool_choice="required", required=["look"]))
    assert [request.tool_choice for request in model.requests] == ["required", "required", "auto"]
    assert ran.outcome.answer == "I looked."
    assert ran.outcome.rejected == ("I know.",)
    never = await play(
        Agent(ScriptedModel(lambda r, n: say("I know.")), [look], tool_choice="required", required=["look"])
    )
    assert never.end == ("stopped", "no_evidence")
    assert len(never.outcome.rejected) == 3
