"""Runs against a server on loopback: who retries, what usage is read, what is closed."""

from __future__ import annotations

from typing import Any

import anyio
import openai
import pytest
from stage import Ran, ended

from watchkeeper import Agent, Limits, OpenAIModel, Supervisor, tool
from watchkeeper.messages import ModelRequested, ModelRetried, Settled
from watchkeeper.model import Timeouts
from watchkeeper.retry import RetryPolicy
from watchkeeper.testing import CallTools, ChatServer, Drop, Fault, Say, Stall

pytestmark = pytest.mark.anyio

assert openai  # imported here: it takes longer than the timeouts of these tests

QUICK = RetryPolicy(first=0.01)


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


async def against(server: ChatServer, *, timeouts: Timeouts | None = None, **settings: Any) -> Ran:
    model = OpenAIModel("m", base_url=server.base_url, timeouts=timeouts or Timeouts())
    async with Supervisor(plugged=False, monitor=False) as supervisor:
        run = await supervisor.start(Agent(model, [look], **settings), "task")
        with anyio.fail_after(15):
            await run.wait()
        ran = await ended(run)
    assert [received.rejected for received in server.requests] == [None] * len(server.requests)
    return ran


@pytest.mark.parametrize(
    "turn",
    [Stall(), Drop(), Drop(after_chunks=2), Fault(503), Fault(500)],
    ids=["timeout", "drop", "cut", "503", "500"],
)
async def test_mult_01_one_layer_retries(turn: Any) -> None:
    async with ChatServer(lambda body, n: turn) as server:
        # Only the stall is to run into it: a busy machine may take its time for a connection.
        timeouts = Timeouts(first_chunk=1.0 if isinstance(turn, Stall) else 30.0)
        ran = await against(server, timeouts=timeouts, retry=QUICK)
    assert ran.end == ("failed", "model_unavailable")
    assert len(server.requests) == 4
    assert len(ran.of(ModelRequested)) == 4
    assert [fact.attempt for fact in ran.of(ModelRetried)] == [1, 2, 3]
    assert {received.headers["x-stainless-retry-count"] for received in server.requests} == {"0"}


@pytest.mark.parametrize("turn", [Stall(), Drop(), Fault(503), Fault(429)], ids=["timeout", "drop", "503", "429"])
async def test_mult_02_no_retries_means_one_request(turn: Any) -> None:
    async with ChatServer(lambda body, n: turn) as server:
        timeouts = Timeouts(first_chunk=1.0 if isinstance(turn, Stall) else 30.0)
        ran = await against(server, timeouts=timeouts, retry=RetryPolicy(retries=0))
    assert ran.end == ("failed", "model_unavailable")
    assert len(server.requests) == 1


async def test_strm_01_the_connection_of_a_stalled_stream_is_closed() -> None:
    async with ChatServer([Stall(after_chunks=3), Say("done")]) as server:
        ran = await against(server, timeouts=Timeouts(idle=0.2), retry=QUICK)
        await server.requests[0].done.wait()
    assert ran.outcome.answer == "done"
    assert server.requests[0].closed_by_peer


async def test_usag_01_usage_is_asked_for_read_and_bounds_the_run() -> None:
    usage = {"prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220}
    async with ChatServer(lambda body, n: CallTools(("look", {"what": str(n)}), usage=usage)) as server:
        ran = await against(server, limits=Limits(tokens=1000, reply_tokens=50, max_turns=100))
    assert all(received.body["stream_options"] == {"include_usage": True} for received in server.requests)
    assert [fact.amounts["tokens"] for fact in ran.of(Settled)] == [220] * len(server.requests)
    assert not ran.outcome.usage.estimated
    assert ran.end == ("stopped", "tokens")
    assert ran.outcome.spent["tokens"] <= 1000
    assert len(server.requests) >= 2


async def test_usag_02_a_server_that_reports_none_is_charged_all_the_same() -> None:
    async with ChatServer([Say("done", usage={})]) as server:
        ran = await against(server)
    (settled,) = ran.of(Settled)
    assert settled.estimated
    assert settled.amounts["tokens"] > 0
    assert ran.outcome.usage.estimated
