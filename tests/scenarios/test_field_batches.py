"""Many calls in one reply: side by side, in order, each with one result; and a conversation that can be sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from stage import ended, play, stage, strict

from support import BARE, scripted
from watchkeeper import Agent, Limits, Message, Run, Tool, Transient, load_tools, tool, writes
from watchkeeper.history import repaired
from watchkeeper.messages import Call, CallEnded, CallStarted
from watchkeeper.testing import call, say
from watchkeeper.wording import Wording

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def search(query: str, seconds: float = 0.0) -> str:
    """Search."""
    await anyio.sleep(seconds)
    if query == "bad":
        raise ValueError("no such index")
    return f"found {query}"


@tool(effect="reads")
async def hang() -> str:
    """Never return."""
    await anyio.sleep_forever()
    return ""


async def started(run: Run, calls: int) -> None:
    """Wait until so many calls have been started."""
    async for event in run.events():
        calls -= isinstance(event, CallStarted)
        if not calls:
            return
    raise AssertionError("the run ended before that")


async def test_parl_01_one_of_many_fails() -> None:
    calls = [("search", {"query": "bad" if n == 13 else str(n), "seconds": n % 5}) for n in range(27)]
    ran = await play(Agent(scripted(call(*calls), say("done")), [search]))
    assert ran.kinds == ["failed" if n == 13 else "finished" for n in range(27)]
    assert ran.seen[12] == "found 12"
    assert "ValueError: no such index" in ran.seen[13]
    assert ran.end == ("completed", "answer")


async def test_parl_02_what_is_fatal_ends_the_run_and_keeps_what_is_in() -> None:
    class Broken(Wording):
        def transient(self, *args: Any) -> Any:
            raise LookupError("a defect of the host")

    @tool(effect=writes("other"))
    async def fatal() -> str:
        await anyio.sleep(1)
        raise Transient("busy")

    joined: list[str] = []

    @tool(effect="nothing")
    async def sibling() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            joined.append("sibling")
        return ""

    good, bad = ("search", {"query": "a"}), ("search", {"query": "bad"})
    steps = call(("fatal", {}), ("sibling", {}))
    ran = await play(Agent(scripted(call(good, bad), steps), [search, fatal, sibling]), wording=Broken())
    assert ran.end == ("failed", "crash")
    assert ran.kinds == ["finished", "failed", "abandoned", "cancelled"]
    assert ran.seen[0] == "found a"
    assert joined == ["sibling"]
    assert ran.outcome.seconds == pytest.approx(1)
    assert "a defect of the host" in (ran.outcome.cause or "")


async def test_parl_04_the_same_tool_twice_in_one_turn() -> None:
    ran = await play(
        Agent(scripted(call(("search", {"query": "X"}), ("search", {"query": "Y"})), say("done")), [search])
    )
    assert ran.seen == ["found X", "found Y"]
    assert ran.executed == 2
    twice = await play(Agent(scripted(call(*[("search", {"query": "X"})] * 2), say("done")), [search]))
    assert twice.seen == ["found X"] * 2
    assert twice.executed == 1  # equal reads of a batch run once and share
    assert twice.results[1].reused_from == twice.results[0].call_id


@pytest.mark.parametrize(("limit", "run"), [(150, 150), (1000, 200)])
async def test_parl_05_too_many_calls_in_one_turn(limit: int, run: int) -> None:
    calls = call(*[("search", {"query": str(n)}) for n in range(200)])
    ran = await play(Agent(scripted(calls, say("done")), [search], limits=Limits(max_calls=limit)))
    assert ran.executed == run
    assert ran.kinds == ["finished"] * run + ["not_run"] * (200 - run)
    assert all(f"the limit of {limit} calls" in text for text in ran.seen[run:])
    assert ran.end == ("completed", "answer")


async def test_ordr_01_results_in_call_order_facts_in_the_order_of_completion() -> None:
    calls = call(("search", {"query": "slow", "seconds": 5}), ("search", {"query": "fast"}))
    model = scripted(calls, say("done"))
    ran = await play(Agent(model, [search], profile=BARE))
    assert [event.result.content for event in ran.of(CallEnded)] == ["found fast", "found slow"]
    sent = [message.content.split("\n") for message in model.requests[1].messages if message.role == "tool"]
    assert [content for _, content in sent] == ran.seen == ["found slow", "found fast"]
    # And so it stays when the conversation is taken up again.
    again = scripted(say("yes"))
    async with stage() as supervisor:
        run = await supervisor.start(Agent(again, [search], profile=BARE), "Really?", history=ran.outcome.history)
        await run.wait()
        await ended(run)
    assert again.requests[0].messages[:-1] == (*model.requests[1].messages, ran.outcome.history[-1])


async def test_ordr_02_a_refused_call_keeps_its_place() -> None:
    calls = call(("search", {"query": "slow", "seconds": 5}), ("unknown", {}), ("search", {"query": "b"}))
    ran = await play(Agent(scripted(calls, say("done")), [search]))
    assert ran.kinds == ["finished", "refused", "finished"]
    assert [event.slot for event in ran.of(CallEnded)] == [2, 3, 1]
    assert ran.seen[0] == "found slow"


async def test_writ_01_edits_of_one_file_in_one_turn(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"line {n}.\n" for n in range(100)))
    (tmp_path / "g").write_text("line 1.\n")
    edits = [("edit_file", {"path": "f", "old": f"line {n}.", "new": f"edited {n}."}) for n in (3, 30, 60, 90)]
    # The last two build on one another: they are only right in the order of the calls.
    edits += [("edit_file", {"path": "f", "old": "edited 3.", "new": "edited 3 twice."})]
    edits += [("edit_file", {"path": "f", "old": "edited 3 twice.", "new": "edited 3 thrice."})]
    other = ("edit_file", {"path": "g", "old": "line 1.", "new": "other"})
    model = scripted(call(*edits, other), say("done"))
    ran = await play(Agent(model, load_tools("files", root=tmp_path)))
    assert ran.kinds == ["finished"] * 7
    lines = (tmp_path / "f").read_text("utf-8").splitlines()
    assert len(lines) == 100
    assert [line for line in lines if "edited" in line] == [
        "edited 3 thrice.",
        "edited 30.",
        "edited 60.",
        "edited 90.",
    ]
    assert (tmp_path / "g").read_text("utf-8") == "other\n"


async def test_writ_04_an_edit_of_what_has_changed_since_it_was_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("version 1\n")

    @tool
    async def meddle() -> str:
        """Someone else's hand."""
        file.write_text("version 2, by another\n")
        return "done"

    read = call(("read_file", {"path": "f"}))
    edit = call(("edit_file", {"path": "f", "old": "version", "new": "edition"}))
    model = scripted(read, call(("meddle", {})), edit, read, edit, say("done"))
    ran = await play(Agent(model, [*load_tools("files", root=tmp_path), meddle]))
    assert ran.kinds == ["finished", "finished", "failed", "finished", "finished"]
    assert "has changed since read; read it again" in ran.seen[2]
    assert file.read_text("utf-8") == "edition 2, by another\n"


async def test_writ_05_readers_together_writers_after_what_they_conflict_with() -> None:
    spans: dict[str, tuple[float, float]] = {}

    def timed(name: str, effect: str | None) -> Tool:
        async def work(n: int) -> str:
            began = anyio.current_time()
            await anyio.sleep(1)
            spans[f"{name}{n}"] = (began, anyio.current_time())
            return f"{name}{n}"

        return Tool(work, name=name, effect=effect)

    tools = [timed("read", "reads"), timed("write", "writes"), timed("remote", None)]
    order = [("read", 1), ("read", 2), ("write", 3), ("read", 4), ("remote", 5)]
    ran = await play(Agent(scripted(call(*[(name, {"n": n}) for name, n in order]), say("done")), tools))
    assert ran.seen == ["read1", "read2", "write3", "read4", "remote5"]
    start = spans["read1"][0]
    assert {name: round(began - start) for name, (began, _) in spans.items()} == {
        "read1": 0,
        "read2": 0,
        "write3": 1,
        "read4": 2,
        "remote5": 3,
    }


@pytest.mark.parametrize(
    ("failure", "settings", "executions"),
    [
        (ConnectionResetError("connection reset"), {}, 1),
        (Transient("connection reset"), {}, 1),
        (Transient("connection reset"), {"idempotent": False, "effect": writes("mail")}, 1),
        (Transient("connection reset"), {"idempotent": True}, 3),
        (Transient("connection reset"), {"effect": "reads"}, 3),
        (ConnectionResetError("connection reset"), {"idempotent": True}, 1),
    ],
)
async def test_dupx_02_a_call_with_an_effect_is_never_made_twice(
    failure: Exception, settings: dict[str, Any], executions: int
) -> None:
    sent: list[str] = []

    async def send_email(to: str) -> str:
        sent.append(to)
        raise failure

    made = Tool(send_email, **settings)
    ran = await play(Agent(scripted(call(("send_email", {"to": "a"})), say("done")), [made]))
    assert len(sent) == len(ran.of(CallStarted)) == executions
    assert ran.kinds == ["failed"]
    assert ran.end == ("completed", "answer")


async def test_orph_01_a_cancelled_turn_and_a_new_message() -> None:
    async with stage() as supervisor:
        first = await supervisor.start(
            Agent(scripted(call(("search", {"query": "a"}), ("hang", {}))), [search, hang]), "task"
        )
        await started(first, 2)
        await anyio.wait_all_tasks_blocked()
        first.cancel("changed my mind")
        outcome = await first.wait()
        model = scripted(say("As you wish."))
        agent = Agent(model, [search, hang], profile=BARE)
        second = await supervisor.start(agent, "Do something else.", history=outcome.history)
        await second.wait()
        ran = await ended(second)
    roles = [message.role for message in model.requests[0].messages]
    assert roles == ["user", "assistant", "tool", "tool", "user"]
    assert ran.seen[0] == "found a"
    assert "was stopped because the run was cancelled from outside; the user did not ask for it" in ran.seen[1]
    assert ran.outcome.answer == "As you wish."


PAIR = (Call("a", "search", '{"query": "1"}', 1), Call("b", "search", '{"query": "2"}', 2))
CONVERSATION = (
    Message("user", "task"),
    Message("assistant", "", calls=PAIR),
    Message("tool", "found 1", call_id="a", tool="search"),
    Message("tool", "found 2", call_id="b", tool="search"),
    Message("assistant", "", calls=(Call("c", "search", '{"query": "3"}', 1),)),
    Message("tool", "found 3", call_id="c", tool="search"),
    Message("assistant", "done"),
)


@pytest.mark.parametrize(
    "history",
    [CONVERSATION[start:stop] for start in range(7) for stop in range(start, 8)]
    + [[m for n, m in enumerate(CONVERSATION) if n != gone] for gone in range(7)]
    + [[*CONVERSATION, *CONVERSATION], [CONVERSATION[2]], [*CONVERSATION[:3], CONVERSATION[2], *CONVERSATION[3:]]],
    ids=lambda history: f"{len(history)} messages",
)
async def test_orph_04_whatever_was_trimmed_what_is_sent_is_whole(history: Sequence[Message]) -> None:
    assert strict(repaired(history)) is None
    model = scripted(call(("search", {"query": "4"})), say("done"))
    async with stage() as supervisor:
        run = await supervisor.start(Agent(model, [search]), "Go on.", history=history)
        await run.wait()
        ran = await ended(run)
    assert ran.end == ("completed", "answer")
    kept = [message for message in model.requests[0].messages if message.content.endswith("\nfound 3")]
    if kept:  # never a result without its call, and what is kept is what it was
        calls = {made.id: made for message in model.requests[0].messages for made in message.calls}
        result = kept[0]
        assert calls[result.call_id or ""].arguments == '{"query": "3"}'


async def test_budg_04_fifty_parallel_calls_are_fifty() -> None:
    @tool(effect="nothing")
    async def work(n: int) -> str:
        await anyio.sleep(n % 3)
        return str(n)

    for _ in range(100):
        ran = await play(Agent(scripted(call(*[("work", {"n": n}) for n in range(50)]), say("done")), [work]))
        assert ran.outcome.spent["calls"] == len(ran.outcome.calls) == ran.executed == 50
