"""A run that was handed over, continued against a strict server; asked for from a thread. In real time."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest

from support import BARE, facts, of
from watchkeeper import Agent, Bundle, Limits, OpenAIModel, Supervisor, tool
from watchkeeper.messages import CallStarted
from watchkeeper.testing import ChatServer, ScriptedModel, call
from watchkeeper.testing.turns import CallTools, Say

pytestmark = pytest.mark.anyio

written: list[str] = []


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool(effect="writes")
async def note(text: str) -> str:
    """Write something down."""
    written.append(text)
    return "written"


@pytest.mark.parametrize("reason", ["turns", "loop", "asked"])
async def test_a_strict_server_takes_what_is_continued_and_nothing_is_repeated(reason: str) -> None:
    written.clear()
    turns: list[Any] = [
        CallTools(("look", {"what": "a"}), ("look", {"what": "b"}), text="First these."),
        CallTools(("note", {"text": "a and b"})),
        *(
            CallTools(("look", {"what": "c" if reason == "loop" else str(n)}))
            for n in range(2 if reason != "loop" else 8)
        ),
        CallTools(("look", {"what": "d"})),
        Say("That is all."),
    ]
    limits = Limits(max_turns=4 if reason == "turns" else 40, finish_turns=0)
    profile = msgspec.structs.replace(BARE, on_stop="hand_over", limits=limits)
    async with ChatServer(turns) as server, Supervisor() as supervisor:
        model = OpenAIModel("m", base_url=server.base_url, api_key="none")
        agent = Agent(model, [look, note], required=["look"], profile=profile)
        first = await supervisor.start(agent, "Look and write it down.")
        if reason == "asked":
            async for event in first.events():
                if isinstance(event, CallStarted) and event.turn == 3:
                    first.hand_over()
        outcome = await first.wait()
        assert (outcome.status, outcome.reason) == ("handed_over", reason)
        token = Bundle.of(first).token
    async with Supervisor() as supervisor, ChatServer([turns[-2], turns[-1]]) as server:
        # Another supervisor, another server, an agent that was made anew: as in another process.
        model = OpenAIModel("m", base_url=server.base_url, api_key="none")
        agent = Agent(model, [look, note], required=["look"], profile=profile)
        second = await supervisor.start(agent, continue_from=token)
        outcome = await second.wait()
        assert (outcome.status, outcome.answer) == ("completed", "That is all.")
        assert [received.rejected for received in server.requests] == [None, None]
        asked = server.requests[0].body["messages"]
        assert asked[0] == {"role": "user", "content": "Look and write it down."}
        assert asked[-1]["role"] == "user"
        assert "lets it go on" in asked[-1]["content"]
        assert [event.tool for event in of(await facts(second), CallStarted)] == ["look"]
    assert written == ["a and b"]


async def test_a_thread_may_ask_for_it() -> None:
    model = ScriptedModel(lambda request, n: msgspec.structs.replace(call(("look", {"what": str(n)})), delay=0.01))
    async with Supervisor() as supervisor:
        run = await supervisor.start(Agent(model, [look], limits=Limits(max_turns=10**6)), "x")
        await anyio.to_thread.run_sync(run.threadsafe.hand_over, "a thread asked")
        outcome = await run.wait()
        assert (outcome.status, outcome.reason) == ("handed_over", "a thread asked")
        await anyio.to_thread.run_sync(run.threadsafe.hand_over, "too late")
        assert run.outcome is outcome
