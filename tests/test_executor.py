"""The executor: parallel where nothing conflicts, in order where something does, one result a call whatever happens."""

from __future__ import annotations

import contextvars
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import of, perform, scripted
from watchkeeper import Agent, Effect, Limits, ToolError, ToolOutput, Transient, current_call, tool
from watchkeeper.messages import CallEnded, CallStarted
from watchkeeper.testing import backend, call, say
from watchkeeper.wording import Wording

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def kinds(outcome: Any) -> list[str]:
    return [record.kind for record in outcome.calls]


# -- scheduling --------------------------------------------------------------------------------------------------------

NAMES = ("a", "a/x", "a/y", "b", "")
Operation = tuple[str, str, float]
operations = st.lists(
    st.tuples(st.sampled_from(("read", "write")), st.sampled_from(NAMES), st.sampled_from((0.0, 0.1, 0.5))), max_size=12
)


def below(name: str) -> tuple[str, ...]:
    return tuple(other for other in NAMES if other == name or other.startswith(f"{name}/") or not name)


async def apply(store: dict[str, str], number: int, kind: str, name: str, delay: float) -> str:
    await anyio.sleep(delay)
    if kind == "read":
        seen = {other: store.get(other, "") for other in below(name)}
        await anyio.sleep(delay)
        return repr(seen)
    before = {other: store.get(other, "") for other in below(name)}
    await anyio.sleep(delay)
    for other in below(name):
        store[other] = f"{before[other]}.{number}"
    return repr(before)


@pytest.mark.parametrize("library", ["asyncio", "trio"])
@settings(max_examples=120, deadline=None)
@given(batch=operations, parallel=st.integers(1, 5))
def test_a_parallel_batch_gives_the_results_of_the_sequential_one(
    library: str, batch: list[Operation], parallel: int
) -> None:
    def effect(number: int, kind: str, name: str, delay: float) -> Effect:
        return Effect(reads=(name,)) if kind == "read" else Effect(writes=(name,))

    async def run(limit: int) -> tuple[list[str], dict[str, str]]:
        store: dict[str, str] = {}

        @tool(effect=effect)
        async def step(number: int, kind: str, name: str, delay: float) -> str:
            return await apply(store, number, kind, name, delay)

        calls = [("step", {"number": n, "kind": k, "name": r, "delay": d}) for n, (k, r, d) in enumerate(batch)]
        script = [call(*calls), say("done")] if calls else [say("done")]
        outcome, events = await perform(Agent(scripted(*script), [step], limits=Limits(parallel=limit)))
        assert kinds(outcome) == ["finished"] * len(batch)
        by_slot = sorted(of(events, CallEnded), key=lambda event: event.slot)
        return [event.result.content for event in by_slot], store

    async def sequential() -> tuple[list[str], dict[str, str]]:
        store: dict[str, str] = {}
        return [await apply(store, n, *operation) for n, operation in enumerate(batch)], store

    async def both() -> None:
        assert await run(parallel) == await sequential()

    name, options = backend(library)
    anyio.run(both, backend=name, backend_options=options)


async def test_readers_run_side_by_side_and_a_writer_waits_only_for_what_it_conflicts_with() -> None:
    spans: dict[str, tuple[float, float]] = {}

    def effect(name: str, on: str, seconds: float, write: bool = False) -> Effect:
        return Effect(writes=(on,)) if write else Effect(reads=(on,))

    @tool(effect=effect)
    async def work(name: str, on: str, seconds: float, write: bool = False) -> str:
        began = anyio.current_time()
        await anyio.sleep(seconds)
        spans[name] = (round(began, 3), round(anyio.current_time(), 3))
        return name

    rows = [
        ("r1", "a", 5, False),
        ("r2", "a", 5, False),
        ("wb", "b", 1, True),
        ("wa", "a/x", 1, True),
        ("r3", "b", 1, False),
    ]
    calls = [("work", {"name": n, "on": r, "seconds": s, "write": w}) for n, r, s, w in rows]
    await perform(Agent(scripted(call(*calls), say("done")), [work]))
    assert spans == {"r1": (0, 5), "r2": (0, 5), "wb": (0, 1), "r3": (1, 2), "wa": (5, 6)}


async def test_never_more_than_the_cap_at_once() -> None:
    now = most = 0

    @tool(effect="reads")
    async def work(n: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await anyio.sleep(1)
        now -= 1
        return n

    calls = [("work", {"n": n}) for n in range(50)]
    outcome, events = await perform(Agent(scripted(call(*calls), say("done")), [work], limits=Limits(parallel=7)))
    assert most == 7
    assert kinds(outcome) == ["finished"] * 50
    assert events[-1].t == pytest.approx(8)


async def test_waiting_calls_do_not_fill_the_places_of_those_that_could_run() -> None:
    """A writer that waits holds no worker: with one worker the reader behind it still runs first."""
    order: list[str] = []

    def effect(name: str, on: str, write: bool) -> Effect:
        return Effect(writes=(on,)) if write else Effect(reads=(on,))

    @tool(effect=effect)
    async def work(name: str, on: str, write: bool) -> str:
        await anyio.sleep(1)
        order.append(name)
        return name

    calls = [
        ("work", {"name": n, "on": r, "write": w})
        for n, r, w in (("1", "a", False), ("2", "a", True), ("3", "b", False))
    ]
    await perform(Agent(scripted(call(*calls), say("done")), [work], limits=Limits(parallel=2)))
    assert sorted(order[:2]) == ["1", "3"]
    assert order[2] == "2"


async def test_results_go_back_in_slot_order() -> None:
    @tool(effect="reads")
    async def work(n: int) -> str:
        await anyio.sleep(10 - n)
        return f"result {n}"

    model = scripted(call(*[("work", {"n": n}) for n in range(5)], ("nope", {}), ("work", {"n": 9})), say("done"))
    _, events = await perform(Agent(model, [work]))
    tool_messages = [message for message in model.requests[1].messages if message.role == "tool"]
    unmarked = (message.content.removeprefix(f"{Wording().tool_output('work')}\n") for message in tool_messages)
    assert [content.split("\n")[0] for content in unmarked] == [
        *[f"result {n}" for n in range(5)],
        "There is no tool named 'nope', so nothing was run.",
        "result 9",
    ]
    assert [event.slot for event in of(events, CallEnded)] == [6, 7, 5, 4, 3, 2, 1]


async def test_each_call_has_a_context_of_its_own() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    @tool(effect="reads")
    async def mark(n: int) -> str:
        seen = variable.get()
        variable.set(n)
        await anyio.sleep(1)
        return f"{seen} {variable.get()} {current_call().call_id}"

    @tool(effect="reads")
    def mark_in_thread(n: int) -> str:
        seen = variable.get()
        variable.set(n)
        return f"{seen} {current_call().tool}"

    variable.set(7)
    calls = [*[("mark", {"n": n}) for n in (1, 2, 3)], ("mark_in_thread", {"n": 4}), ("mark", {"n": 5})]
    _, events = await perform(Agent(scripted(call(*calls), say("done")), [mark, mark_in_thread]))
    by_slot = [event.result.content for event in sorted(of(events, CallEnded), key=lambda event: event.slot)]
    assert by_slot == ["7 1 call_1_1", "7 2 call_1_2", "7 3 call_1_3", "7 mark_in_thread", "7 5 call_1_5"]


# -- results -----------------------------------------------------------------------------------------------------------


async def test_one_failure_touches_no_sibling() -> None:
    @tool(effect="reads")
    async def work(n: int) -> int:
        await anyio.sleep(n % 3)
        if n == 13:
            raise ValueError("unlucky\nsecond line with a secret path")
        return n

    model = scripted(call(*[("work", {"n": n}) for n in range(27)]), say("done"))
    outcome, events = await perform(Agent(model, [work]))
    assert outcome.status == "completed"
    assert kinds(outcome) == ["failed" if n == 13 else "finished" for n in range(27)]
    failed = next(event for event in of(events, CallEnded) if event.result.kind == "failed")
    assert "unlucky" in failed.result.content
    assert "secret path" not in failed.result.content
    assert "Traceback" not in failed.result.content
    assert "Traceback" in failed.detail
    assert "secret path" in failed.detail


@pytest.mark.parametrize(
    ("raised", "kind", "error"),
    [
        (TimeoutError("late"), "timed_out", "timeout"),
        (ExceptionGroup("group", [ExceptionGroup("inner", [TimeoutError("late")])]), "timed_out", "timeout"),
        (ExceptionGroup("group", [KeyError("leaf")]), "failed", "KeyError"),
        (ToolError("no such row", hint="List the rows first."), "failed", "tool_error"),
        (SystemExit(3), "failed", "SystemExit"),
        (GeneratorExit(), "failed", "GeneratorExit"),
        (RecursionError("deep"), "failed", "RecursionError"),
        (Transient("busy", retry_after=2.0), "failed", "transient"),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
async def test_whatever_a_tool_raises_is_its_result(raised: BaseException, kind: str, error: str, plain: bool) -> None:
    if plain:

        @tool
        def bad() -> None:
            raise raised
    else:

        @tool
        async def bad() -> None:
            raise raised

    outcome, events = await perform(Agent(scripted(call(("bad", {})), say("done")), [bad]))
    (ended,) = of(events, CallEnded)
    assert outcome.status == "completed"
    assert (ended.result.kind, ended.result.error) == (kind, error)
    if isinstance(raised, ToolError):
        assert "List the rows first." in ended.result.content
    if isinstance(raised, Transient):
        assert "2 seconds" in ended.result.content


async def test_a_transient_failure_of_a_reader_is_retried_and_one_of_a_writer_is_not() -> None:
    tries = {"read": 0, "write": 0, "idempotent": 0}

    @tool(effect="reads")
    async def read() -> str:
        tries["read"] += 1
        if tries["read"] < 3:
            raise Transient("busy", retry_after=5)
        return "read"

    @tool(effect="writes")
    async def write() -> str:
        tries["write"] += 1
        raise Transient("busy", retry_after=5)

    @tool(effect="writes", idempotent=True)
    async def idempotent() -> str:
        tries["idempotent"] += 1
        if tries["idempotent"] < 2:
            raise Transient("busy")
        return "written"

    outcome, events = await perform(
        Agent(scripted(call(("read", {}), ("write", {}), ("idempotent", {})), say("done")), [read, write, idempotent])
    )
    assert tries == {"read": 3, "write": 1, "idempotent": 2}
    assert kinds(outcome) == ["finished", "failed", "finished"]
    assert [event.attempt for event in of(events, CallStarted)] == [1, 2, 3, 1, 1, 2]
    assert events[-1].t >= 10


async def test_a_call_has_a_deadline_and_the_run_goes_on() -> None:
    @tool(effect="reads")
    async def hang() -> None:
        await anyio.sleep_forever()

    @tool(effect="reads")
    async def quick(n: int) -> int:
        return n

    steps = [call(("hang", {}), *[("quick", {"n": n}) for n in range(40)]), say("done")]
    outcome, events = await perform(Agent(scripted(*steps), [hang, quick], limits=Limits(parallel=1)))
    assert kinds(outcome) == ["timed_out"] + ["finished"] * 40
    ended = next(event for event in of(events, CallEnded) if event.result.kind == "timed_out")
    assert ended.ran == pytest.approx(60)
    assert "60 seconds" in ended.result.content
    assert outcome.status == "completed"


async def test_a_tool_that_outlives_its_deadline_but_answers_keeps_its_answer() -> None:
    @tool(effect="reads", timeout=1)
    async def stubborn() -> str:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(3)
        return "late but whole"

    @tool(effect="reads")
    async def after() -> str:
        await anyio.sleep(1)
        return "fine"

    steps = [call(("stubborn", {}), ("after", {})), say("done")]
    outcome, _ = await perform(Agent(scripted(*steps), [stubborn, after], limits=Limits(parallel=1)))
    assert kinds(outcome) == ["finished", "finished"]


async def test_output_is_bounded_and_says_so() -> None:
    @tool(effect="reads", max_output=1000)
    async def chatty() -> str:
        return "x" * 50_000 + "END"

    _, events = await perform(Agent(scripted(call(("chatty", {})), say("done")), [chatty]))
    (ended,) = of(events, CallEnded)
    assert ended.result.cut == 50_003 - 1000
    assert len(ended.result.content) < 1100
    assert ended.result.content.endswith("END")
    assert "49003 characters were cut" in ended.result.content


@pytest.mark.parametrize(
    ("value", "content", "productive"),
    [
        ("text", "text", True),
        ("", "", False),
        (None, "", False),
        ([], "[]", False),
        ({"a": 1}, '{"a":1}', True),
        (0, "0", True),
        (False, "false", True),
        (b"\xff\xfe", "��", True),
        ("half \ud800", "half �", True),
        (ToolOutput("not there", productive=False, error="not_found"), "not there", False),
        (ToolOutput([], productive=True), "[]", True),
        (ToolOutput("exit 1", error="exit_1"), "exit 1", False),
        (object, "<class 'object'>", True),
    ],
)
async def test_what_a_tool_returns(value: Any, content: str, productive: bool) -> None:
    @tool(effect="reads")
    async def give() -> Any:
        return value

    outcome, events = await perform(Agent(scripted(call(("give", {})), say("done")), [give]))
    (ended,) = of(events, CallEnded)
    assert (ended.result.content, ended.result.productive) == (content, productive)
    assert ended.result.kind == "finished"
    assert outcome.evidence == ((ended.result.call_id,) if productive else ())


# -- duplicates --------------------------------------------------------------------------------------------------------


async def test_equal_reads_of_a_batch_run_once_and_share() -> None:
    runs = 0

    @tool(effect="reads")
    async def read(n: int) -> str:
        nonlocal runs
        runs += 1
        await anyio.sleep(1)
        return f"read {n}"

    @tool(effect="writes")
    async def write() -> str:
        return "written"

    steps = [
        call(("read", {"n": 1}), ("read", {"n": 1}), ("read", {"n": "1"}), ("write", {}), ("read", {"n": 1})),
        say("done"),
    ]
    outcome, events = await perform(Agent(scripted(*steps), [read, write]))
    assert runs == 2  # the write stands between the third and the last
    ended = sorted(of(events, CallEnded), key=lambda event: event.slot)
    assert [event.result.reused_from for event in ended] == [None, "call_1_1", "call_1_1", None, None]
    assert len(outcome.evidence) == 5


async def test_a_stable_read_is_remembered_until_something_changes() -> None:
    runs = 0

    @tool(effect="reads", stable=True)
    async def read() -> str:
        nonlocal runs
        runs += 1
        return "the content"

    @tool(effect="writes")
    async def write() -> str:
        return "written"

    steps = [call(("read", {})), call(("read", {})), call(("write", {})), call(("read", {})), say("done")]
    outcome, events = await perform(Agent(scripted(*steps), [read, write]))
    assert runs == 2
    second = of(events, CallEnded)[1].result
    assert (second.kind, second.reused_from, second.productive) == ("finished", "call_1_1", True)
    assert "the content" in second.content
    assert "not run again" in second.content
    assert outcome.status == "completed"


async def test_a_read_that_is_not_stable_runs_again() -> None:
    runs = 0

    @tool(effect="reads")
    async def read() -> str:
        nonlocal runs
        runs += 1
        return "the content"

    await perform(Agent(scripted(call(("read", {})), call(("read", {})), say("done")), [read]))
    assert runs == 2


# -- limits ------------------------------------------------------------------------------------------------------------


async def test_a_batch_over_the_limit_is_trimmed() -> None:
    @tool(effect="reads")
    async def work(n: int) -> int:
        await anyio.sleep(1)
        return n

    model = scripted(call(*[("work", {"n": n}) for n in range(8)]), say("what there is"))
    outcome, _ = await perform(Agent(model, [work], limits=Limits(max_calls=3)))
    assert kinds(outcome) == ["finished"] * 3 + ["not_run"] * 5
    assert outcome.spent["calls"] == 3
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "what there is", True)
    assert model.requests[1].tool_choice == "none"
