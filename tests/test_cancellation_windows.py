"""Cancel in every window of a run, in every mode: it ends in time, says how, and starts nothing more.

What only single windows have is in ``test_cancel.py``; every run here is held to the invariants as well.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel
import msgspec
import pytest

from support import BARE, facts, of, scripted, supervised
from watchkeeper import Agent, Judge, Limits, Rule, Run, Supervisor, Verifier, tool
from watchkeeper.messages import (
    ApprovalRequested,
    CallEnded,
    CallStarted,
    ChildStarted,
    LoopBlocked,
    ModelFirstChunk,
    ModelRequested,
    ModelRetried,
    OpinionAsked,
    Paused,
    UserMessage,
)
from watchkeeper.testing import ScriptedModel, call, check_conversation, fail, say
from watchkeeper_tools import process, shell

GRACE = 5.0
CLEANUP = 2.0

pytestmark = pytest.mark.anyio


@tool(effect="reads")
async def quick(n: int = 0) -> str:
    """Return at once."""
    return f"{n} is known"


@tool(effect="reads")
async def hang(n: int = 0) -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    return ""


@tool(effect="writes")
async def write(n: int = 0) -> str:
    """Write, in an hour."""
    await anyio.sleep(3600)
    return "written"


@tool(effect="reads")
async def tidy(n: int = 0) -> str:
    """Wait for ever, and tidy up behind a shield."""
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(CLEANUP)
    return ""


@tool(effect="reads", timeout=None)
async def deaf(n: int = 0) -> str:
    """Catch its cancellation, and go on for far longer than the grace period."""
    ends = anyio.current_time() + 60
    while anyio.current_time() < ends:
        try:
            await anyio.sleep(1)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
    return ""


STARTED = threading.Event()
LET_GO = threading.Event()


@tool(effect="reads", timeout=None)
def in_a_thread() -> str:
    """Wait in a thread."""
    STARTED.set()
    while not LET_GO.is_set():
        time.sleep(0.005)
    return ""


@tool(effect="reads", judged=True)
async def judged(n: int = 0) -> str:
    """Is judged before it runs."""
    return "done"


def stalled(text: str) -> ScriptedModel:
    return ScriptedModel(lambda request, n: say(text, stall=True))


ASKING = msgspec.structs.replace(BARE, rules=(Rule("ask", "*"),))


class Window(NamedTuple):
    """A moment of a run: what runs, the fact behind which the moment is, and the kinds that its calls end as."""

    agent: Callable[[], Agent]
    behind: type
    kinds: tuple[str, ...] = ()
    seconds: float = 0.0
    """That it takes to end from there, with mode ``now``."""
    rounds: int = 30
    """Rounds of the loop from that fact to the moment."""


def of_tools(*calls: tuple[str, Any], tools: Any, **settings: Any) -> Callable[[], Agent]:
    return lambda: Agent(scripted(call(*calls)), tools, profile=BARE, **settings)


WINDOWS = {
    "before the first request": Window(lambda: Agent(stalled(""), [quick], profile=BARE), UserMessage, rounds=0),
    "a model before its first byte": Window(
        lambda: Agent(scripted(say("", delay=60)), [quick], profile=BARE), ModelRequested
    ),
    "mid-stream": Window(lambda: Agent(stalled("Half an answ"), [quick], profile=BARE), ModelFirstChunk),
    "mid-stream, in a call": Window(
        lambda: Agent(ScriptedModel(lambda request, n: call(("quick", '{"n": 1'), stall=True)), [quick], profile=BARE),
        ModelFirstChunk,
    ),
    "back-off sleep": Window(
        lambda: Agent(scripted(fail("rate_limited", retry_after=30)), [quick], profile=BARE), ModelRetried
    ),
    "a call at work": Window(of_tools(("hang", {}), tools=[hang]), CallStarted, ("cancelled",)),
    "mid-batch": Window(
        of_tools(("quick", {}), ("hang", {}), ("write", {}), ("hang", {"n": 2}), tools=[quick, hang, write]),
        CallStarted,
        ("finished", "cancelled", "not_run", "not_run"),
    ),
    "approval wait": Window(
        lambda: Agent(scripted(call(("quick", {}))), [quick], profile=ASKING), ApprovalRequested, ("not_run",)
    ),
    "shielded clean-up": Window(of_tools(("tidy", {}), tools=[tidy]), CallStarted, ("cancelled",), CLEANUP),
    "a tool that swallows cancellation": Window(
        of_tools(("deaf", {}), tools=[deaf]), CallStarted, ("abandoned",), GRACE
    ),
    "a judge is asked": Window(
        of_tools(("judged", {}), tools=[judged], judge=Judge(stalled("Well"))), OpinionAsked, ("not_run",)
    ),
    "a verifier is asked": Window(
        lambda: Agent(scripted(say("So it is.")), [quick], profile=BARE, verifier=Verifier(stalled("Well"))),
        OpinionAsked,
    ),
    "a plan is asked for": Window(lambda: Agent(stalled("1. read"), [quick], profile=BARE, plan=True), ModelFirstChunk),
    "a sub-agent is at work": Window(
        lambda: Agent(
            scripted(call(("work", {"task": "it"}))),
            [Agent(scripted(call(("hang", {}))), [hang], name="work", profile=BARE).as_tool()],
            profile=BARE,
        ),
        ChildStarted,
        ("cancelled",),
    ),
}


async def reached(run: Run, window: Window) -> int:
    """Wait for the moment; the number of the last fact then."""
    async for event in run.events():
        if type(event) is window.behind:
            for _ in range(window.rounds):
                await anyio.lowlevel.checkpoint()
            return run.log.n
    raise AssertionError(f"the run ended before {window.behind.__name__}: {run.outcome}")


@pytest.mark.virtual_time
@pytest.mark.parametrize("mode", ["now", "kill"])
@pytest.mark.parametrize("name", WINDOWS)
async def test_it_ends_in_time_whatever_it_is_doing(name: str, mode: Any) -> None:
    window = WINDOWS[name]
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(window.agent(), "Do it.", attended=True)
        n = await reached(run, window)
        began = anyio.current_time()
        assert run.cancel("enough", mode)
        outcome = await run.wait()
        took = anyio.current_time() - began
        events = await facts(run)
    assert (outcome.status, outcome.reason) == ("cancelled", "enough")
    assert took <= (window.seconds if mode == "now" else 0.0) + 0.001
    assert outcome.cancel_seconds == pytest.approx(took)
    late = [type(event) for event in events if event.n > n and isinstance(event, ModelRequested | CallStarted)]
    assert late == []
    kinds = tuple(record.kind for record in outcome.calls)
    assert len(kinds) == len(window.kinds)
    if mode == "now":
        assert kinds == window.kinds
    assert check_conversation(outcome.history) is None


@pytest.mark.virtual_time
@pytest.mark.parametrize("name", WINDOWS)
async def test_after_the_turn_it_asks_no_more(name: str) -> None:
    window = WINDOWS[name]
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(window.agent(), "Do it.", attended=True)
        n = await reached(run, window)
        began = anyio.current_time()
        run.cancel("enough", "after_turn", deadline=10)
        outcome = await run.wait()
        took = anyio.current_time() - began
        events = await facts(run)
    assert (outcome.status, outcome.reason) == ("cancelled", "enough")
    assert took <= 10 + GRACE + 0.001
    assert [event for event in of(events, ModelRequested) if event.n > n] == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("mode", ["after_turn", "now", "kill"])
async def test_while_it_is_paused(mode: Any) -> None:
    async with supervised() as supervisor:
        agent = Agent(scripted(call(("quick", {})), say("done")), [quick], profile=BARE)
        run = await supervisor.start(agent, "Do it.")
        run.pause("look")
        async for event in run.events():
            if isinstance(event, Paused):
                break
        await anyio.sleep(60)
        began = anyio.current_time()
        run.cancel("enough", mode)
        outcome = await run.wait()
    assert outcome.status == "cancelled"
    assert anyio.current_time() - began <= 0.001


@pytest.mark.virtual_time
async def test_what_came_of_a_stream_is_kept() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(stalled("Half an answ"), [quick], profile=BARE), "Do it.")
        await reached(run, WINDOWS["mid-stream"])
        run.cancel()
        outcome = await run.wait()
    assert outcome.answer is None
    assert outcome.spent["tokens"] > 0
    assert [message.content for message in outcome.history] == ["Do it."]


@pytest.fixture
def let_go() -> Iterator[None]:
    STARTED.clear()
    LET_GO.clear()
    yield
    LET_GO.set()


@pytest.mark.parametrize("mode", ["now", "kill"])
async def test_a_thread_is_left_behind_at_once_and_named(mode: Any, let_go: None) -> None:
    async with Supervisor(plugged=False) as supervisor:
        agent = Agent(scripted(call(("in_a_thread", {}))), [in_a_thread], profile=BARE)
        run = await supervisor.start(agent, "Do it.")
        with anyio.fail_after(30):
            while not STARTED.is_set():
                await anyio.sleep(0.005)
        began = time.monotonic()
        run.cancel("enough", mode)
        outcome = await run.wait()
        took = time.monotonic() - began
        LET_GO.set()
    (record,) = outcome.calls
    assert record.kind == "abandoned"
    assert "in_a_thread" in (record.frame or "")
    assert took < GRACE


async def test_a_cancel_from_a_thread_ends_a_run_whose_loop_was_blocked() -> None:
    """While the loop is blocked nothing can be done; the block is named, and the cancel holds as soon as it is over."""

    @tool(effect="reads")
    async def block() -> str:
        time.sleep(0.5)
        await anyio.sleep_forever()
        return ""

    async with Supervisor(plugged=False) as supervisor:
        run = await supervisor.start(Agent(scripted(call(("block", {}))), [block], profile=BARE), "Do it.")
        pressed = threading.Timer(0.2, lambda: run.threadsafe.cancel("enough"))
        pressed.start()
        outcome = await run.wait()
        pressed.join()
        events = await facts(run)
    assert outcome.status == "cancelled"
    assert [record.kind for record in outcome.calls] == ["cancelled"]
    assert all("block" in event.frame for event in of(events, LoopBlocked))


# -- process trees: the shapes that `kill` alone leaves behind ---------------------------------------------------------

SHAPES = {
    "child": "echo up; exec @sleep",
    "grandchild": "sh -c 'echo up; @sleep; true'; true",
    "background": "sh -c 'echo up; exec @sleep' & exec @sleep",
    "nohup": "nohup sh -c 'echo up >&2; exec @sleep' > /dev/null & exec @sleep",
    "setsid": "setsid sh -c 'echo up; exec @sleep' & exec @sleep",
    "double fork": "(setsid sh -c '(echo up; exec @sleep) &' &); exec @sleep",
}


def left(token: str) -> list[str]:
    """What is left of the processes that sleep for so many seconds."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == b"sleep" and token.encode() in words:
                found.append(entry.name)
    return found


@pytest.mark.parametrize("mode", ["now", "kill"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_no_process_of_a_cancelled_run_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, mode: Any
) -> None:
    monkeypatch.setattr(process, "GRACE", 0.1)
    token = f"700.{time.monotonic_ns()}"
    ready = tmp_path / "ready"
    script = SHAPES[shape].replace("echo up", f"echo up > {ready}").replace("@sleep", f"sleep {token}")
    arguments = json.dumps({"argv": ["sh", "-c", script]})
    agent = Agent(scripted(call(("run_command", arguments))), shell.tools(root=tmp_path), profile=BARE)
    async with Supervisor(plugged=False) as supervisor:
        run = await supervisor.start(agent, "Do it.")
        with anyio.fail_after(30):
            while not ready.exists() or not left(token):
                await anyio.sleep(0.01)
        run.cancel("enough", mode)
        outcome = await run.wait()
    assert outcome.status == "cancelled"
    assert left(token) == []
    assert next(record.kind for record in outcome.calls) in (
        ("cancelled",) if mode == "now" else ("cancelled", "abandoned")
    )
    assert [event.result.kind for event in of(run.log.kept(), CallEnded)] == [outcome.calls[0].kind]


def test_the_limits_of_the_windows_are_those_of_a_run() -> None:
    assert Limits().grace == GRACE
    assert CLEANUP < GRACE
