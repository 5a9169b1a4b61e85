"""Runs whose calls need approval: who is asked, what counts as a yes, and that nothing runs without one."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from support import facts, of, scripted, supervised
from watchkeeper import (
    Agent,
    Approval,
    ApprovalError,
    ConfigurationError,
    Limits,
    Profile,
    Redaction,
    Run,
    Supervisor,
    reads,
    tool,
    writes,
)
from watchkeeper.guards.guard import Ask
from watchkeeper.guards.rule import Rule
from watchkeeper.messages import ApprovalRequested, ApprovalResolved, CallEnded, CallStarted, Event
from watchkeeper.testing import call, say
from watchkeeper.wording import Wording

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ASKS = Profile(rules=(Rule("ask", "write_file", why="the house rules"),))
SECRET = "sk-abcdefghij0123456789abcdefghij"


@tool(effect=lambda path, text="": writes(path))
async def write_file(path: str, text: str = "") -> str:
    """Write."""
    return f"wrote {path}"


@tool(effect=reads("pages"))
async def look(n: int = 0) -> str:
    """Look."""
    return f"page {n}"


@tool(irreversible=True, effect="writes")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def agent(*turns: Any, tools: Any = (write_file, look, pay), profile: Profile = ASKS, **more: Any) -> Agent:
    steps = (turn if not isinstance(turn, list) else call(*turn) for turn in turns)
    return Agent(scripted(*steps, say("Done.")), tools, profile=profile, **more)


@asynccontextmanager
async def attended(*turns: Any, supervisor: Supervisor | None = None, **more: Any) -> AsyncIterator[Run]:
    """A run that a person attends."""
    start = {"attended": True} | more.pop("start", {})
    if supervisor is not None:
        yield await supervisor.start(agent(*turns, **more), "task", **start)
        return
    settings = more.pop("settings", {})
    async with supervised(keep=10_000, **settings) as opened:
        yield await opened.start(agent(*turns, **more), "task", **start)


async def waiting(run: Run, count: int = 1) -> tuple[Approval, ...]:
    """The approvals of a run, once so many wait."""
    while len(run.approvals) < count:
        assert run.outcome is None, f"it ended without asking: {run.outcome}"
        await anyio.sleep(0.1)
    assert len(run.approvals) == count
    return run.approvals


async def results(run: Run) -> list[tuple[str, str | None]]:
    """Kind and error of each call, in order, of a run that ends by itself."""
    await run.wait()
    ends = sorted(of(await facts(run), CallEnded), key=lambda event: (event.turn, event.slot))
    return [(end.result.kind, end.result.error) for end in ends]


def seen(run: Run) -> list[str]:
    assert run.outcome is not None
    return [message.content for message in run.outcome.history if message.role == "tool"]


WRITE = [("write_file", {"path": "a", "text": "x"})]


# -- a yes and a no ---------------------------------------------------------------------------------------------------


async def test_a_call_waits_for_a_yes_and_runs_once() -> None:
    async with attended(WRITE) as run:
        (approval,) = await waiting(run)
        await anyio.sleep(100)
        assert of(list(run.log.kept()), CallStarted) == []
        assert (approval.tool, approval.arguments, approval.why) == (
            "write_file",
            '{"path":"a","text":"x"}',
            "the house rules",
        )
        assert approval.arguments_hash == hashlib.sha256(approval.arguments.encode()).hexdigest()
        run.approve(approval.id, approval.arguments_hash, by="ann")
        assert run.approvals == ()
        assert await results(run) == [("finished", None)]
        events = await facts(run)
    (asked,), (said,) = of(events, ApprovalRequested), of(events, ApprovalResolved)
    assert (asked.approval, asked.call_id, asked.tool, asked.arguments, asked.arguments_hash) == (
        approval.id,
        approval.call_id,
        "write_file",
        approval.arguments,
        approval.arguments_hash,
    )
    assert (asked.seconds, asked.why, asked.by) == (600, "the house rules", ("policy",))
    assert (said.approval, said.call_id, said.how, said.by) == (approval.id, approval.call_id, "once", "ann")
    (started,) = of(events, CallStarted)
    assert asked.n < said.n < started.n


async def test_a_no_is_a_result_with_the_reason() -> None:
    async with attended(WRITE) as run:
        (approval,) = await waiting(run)
        run.deny(approval.id, "use the staging host")
        assert await results(run) == [("denied", "not_approved")]
        assert "The reason: use the staging host" in seen(run)[0]
        events = await facts(run)
        assert run.outcome is not None
        assert run.outcome.status == "completed"
    assert of(events, CallStarted) == []
    (said,) = of(events, ApprovalResolved)
    assert (said.how, said.by, said.reason) == ("denied", "person", "use the staging host")
    (end,) = of(events, CallEnded)
    assert end.result.by == "person"


@pytest.mark.parametrize("seconds", [600.0, 30.0])
async def test_silence_is_a_no(seconds: float) -> None:
    profile = Profile(rules=ASKS.rules, limits=Limits(approval=seconds))
    async with attended(WRITE, profile=profile) as run:
        assert await results(run) == [("denied", "approval_timed_out")]
        assert f"wait of {seconds:g} seconds is over; silence is a no" in seen(run)[0]
        events = await facts(run)
    (asked,), (said,) = of(events, ApprovalRequested), of(events, ApprovalResolved)
    assert said.how == "timed_out"
    assert said.t - asked.t == pytest.approx(seconds, abs=0.01)
    assert of(events, CallStarted) == []


async def test_an_answer_that_comes_too_late_is_none() -> None:
    async with attended(WRITE) as run:
        (approval,) = await waiting(run)
        await anyio.sleep(601)
        with pytest.raises(ApprovalError, match="settled already \\(timed_out\\)") as caught:
            run.approve(approval.id, approval.arguments_hash)
        assert caught.value.code == "resolved"
        assert await results(run) == [("denied", "approval_timed_out")]


# -- what does not match ----------------------------------------------------------------------------------------------


async def test_a_yes_to_other_arguments_is_none() -> None:
    async with attended(WRITE) as run:
        (approval,) = await waiting(run)
        other = hashlib.sha256(b'{"path":"b","text":"x"}').hexdigest()
        for wrong in (other, "", approval.arguments_hash[:-1], approval.arguments_hash.upper()):
            with pytest.raises(ApprovalError, match="for other arguments") as caught:
                run.approve(approval.id, wrong)
            assert caught.value.code == "hash"
        assert run.approvals == (approval,)
        await anyio.sleep(50)
        assert of(list(run.log.kept()), CallStarted) == []
        run.cancel()
        assert await results(run) == [("not_run", None)]


async def test_an_answer_counts_once() -> None:
    async with attended(WRITE, WRITE) as run:
        (first,) = await waiting(run)
        run.approve(first.id, first.arguments_hash)
        (second,) = await waiting(run)
        assert second.arguments_hash == first.arguments_hash
        with pytest.raises(ApprovalError, match="settled already \\(once\\)"):
            run.approve(first.id, first.arguments_hash)
        with pytest.raises(ApprovalError, match="settled already"):
            run.deny(first.id)
        assert run.approvals == (second,)
        run.deny(second.id)
        assert await results(run) == [("finished", None), ("denied", "not_approved")]


async def test_an_approval_of_another_run_is_unknown() -> None:
    async with supervised(keep=10_000) as supervisor:
        one, other = [await supervisor.start(agent(WRITE), "task", attended=True) for _ in range(2)]
        (approval,), (its,) = await waiting(one), await waiting(other)
        for answer in (other.approve, other.deny):
            with pytest.raises(ApprovalError, match=f"no call of run {other.id} waits") as caught:
                answer(approval.id, approval.arguments_hash)
            assert caught.value.code == "unknown"
        assert other.approvals == (its,)
        one.deny(approval.id)
        other.deny(its.id)
        await one.wait()
        await other.wait()


@pytest.mark.parametrize(
    ("scope", "pattern", "message"),
    [
        ("for ever", None, "a scope is one of once, run, always"),
        ("once", {"path": "*"}, "a pattern is for the scopes"),
        ("run", {"pth": "*"}, "'pth', which write_file does not take; it takes path, text"),
        ("run", {"path": "b*"}, "does not fit the very call"),
        ("run", {"path": 5}, "a pattern is a text"),
        ("run", "path", "a pattern names arguments"),
    ],
)
async def test_what_cannot_be_granted_is_refused_and_the_call_still_waits(
    scope: Any, pattern: Any, message: str
) -> None:
    async with attended(WRITE) as run:
        (approval,) = await waiting(run)
        with pytest.raises(ApprovalError, match=message):
            run.approve(approval.id, approval.arguments_hash, scope, pattern=pattern)
        assert run.approvals == (approval,)
        run.deny(approval.id)
        assert await results(run) == [("denied", "not_approved")]


async def test_appr_04_what_runs_are_the_bytes_that_were_shown() -> None:
    """A guard of a third party keeps hold of the values; what is run are the bytes that were shown."""
    held: list[dict[str, Any]] = []
    ran: list[Any] = []

    @tool
    async def send(to: str, lines: list[str]) -> str:
        ran.append((to, list(lines)))
        return "sent"

    class Keeps:
        name = "keeps"

        def __init__(self) -> None:
            self.folds: dict[type[Event], Callable[[Any], None]] = {}

        def call(self, proposal: Any) -> None:
            held.append(proposal.values)

    profile = Profile(rules=(Rule("ask", "send"),))
    turn = [("send", {"to": "bob", "lines": ["hi"]})]
    async with attended(turn, tools=[send], profile=profile, settings={"guards": [Keeps]}) as run:
        (approval,) = await waiting(run)
        held[0]["to"] = "eve"
        held[0]["lines"].append("and all the money")
        run.approve(approval.id, approval.arguments_hash)
        assert await results(run) == [("finished", None)]
    assert ran == [("bob", ["hi"])]


async def test_arguments_that_no_longer_are_the_approved_ones_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with attended(WRITE) as run:
        (approval,) = await waiting(run)
        monkeypatch.setattr("watchkeeper.admission.Slot.fresh_values", lambda slot: {"path": "b", "text": "x"})
        run.approve(approval.id, approval.arguments_hash)
        assert await results(run) == [("refused", "arguments_changed")]
        assert of(await facts(run), CallStarted) == []


# -- siblings, order, places ------------------------------------------------------------------------------------------


async def test_siblings_go_on_and_what_conflicts_keeps_its_order() -> None:
    ran: list[str] = []

    @tool(effect=lambda path: writes(path))
    async def touch(path: str) -> str:
        ran.append(path)
        return path

    profile = Profile(rules=(Rule("ask", "touch", when=({"path": "a"},)),))
    turn = [("touch", {"path": path}) for path in ("a", "b", "a/b", "c")]
    async with attended(turn, tools=[touch], profile=profile) as run:
        (approval,) = await waiting(run)
        await anyio.sleep(1)
        assert ran == ["b", "c"]
        run.approve(approval.id, approval.arguments_hash)
        assert await results(run) == [("finished", None)] * 4
    assert ran == ["b", "c", "a", "a/b"]


async def test_what_waits_takes_no_place_from_what_could_run() -> None:
    """Sixteen wait, and there are two workers: the one that needs no yes runs at once."""
    profile = Profile(rules=ASKS.rules, limits=Limits(parallel=2))
    turn = [*(("write_file", {"path": f"p{n}"}) for n in range(16)), ("look", {})]
    async with attended(turn, profile=profile) as run:
        approvals = await waiting(run, 16)
        await anyio.sleep(0.5)
        assert [event.tool for event in of(list(run.log.kept()), CallStarted)] == ["look"]
        for n, approval in enumerate(approvals):
            run.deny(approval.id) if n % 2 else run.approve(approval.id, approval.arguments_hash)
        kinds = [kind for kind, _ in await results(run)]
    assert kinds == ["finished", "denied"] * 8 + ["finished"]


async def test_it_waits_for_what_is_before_it_as_well() -> None:
    ran: list[str] = []

    @tool(effect=lambda path, seconds=0.0: writes(path))
    async def touch(path: str, seconds: float = 0.0) -> str:
        await anyio.sleep(seconds)
        ran.append(path)
        return path

    profile = Profile(rules=(Rule("ask", "touch", when=({"path": "a/b"},)),))
    turn = [("touch", {"path": "a", "seconds": 20.0}), ("touch", {"path": "a/b"})]
    async with attended(turn, tools=[touch], profile=profile) as run:
        (approval,) = await waiting(run)
        run.approve(approval.id, approval.arguments_hash)
        await anyio.sleep(5)
        assert ran == []
        assert await results(run) == [("finished", None)] * 2
    assert ran == ["a", "a/b"]


async def test_a_call_that_is_not_permitted_counts_in_no_budget() -> None:
    """Its place is kept while it waits, so that no fan-out goes beyond the limit, and given back after a no."""

    @tool(effect="reads", cost={"searches": 1})
    async def search(n: int) -> str:
        return f"{n}"

    profile = Profile(rules=(Rule("ask", "search", when=({"n": "1"},)),), limits=Limits(max_calls=2))
    turns = [[("search", {"n": n}) for n in (1, 2, 3)], [("search", {"n": 4})]]
    async with attended(*turns, tools=[search], profile=profile) as run:
        (approval,) = await waiting(run)
        assert (run.budget.spent["calls"], run.budget.held["calls"]) == (1, 1)
        run.deny(approval.id)
        assert await results(run) == [
            ("denied", "not_approved"),
            ("finished", None),
            ("not_run", "too_many_calls"),
            ("finished", None),
        ]
        assert (run.budget.spent["calls"], run.budget.spent["searches"]) == (2, 2)
        assert not {"calls", "searches"} & run.budget.held.keys()


# -- cancel and time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["after_turn", "now", "kill"])
async def test_appr_05_a_cancel_ends_the_wait_at_once(mode: Any) -> None:
    async with attended([*WRITE, ("look", {})]) as run:
        (approval,) = await waiting(run)
        began = run.seams.clock()
        run.cancel("enough", mode)
        assert run.approvals == ()
        with pytest.raises(ApprovalError, match="settled already \\(cancelled\\)"):
            run.approve(approval.id, approval.arguments_hash)
        assert await results(run) == [("not_run", None), ("finished", None)]
        assert run.seams.clock() - began < 0.1
        events = await facts(run)
        assert run.outcome is not None
        assert (run.outcome.status, run.outcome.reason) == ("cancelled", "enough")
    (said,) = of(events, ApprovalResolved)
    assert (said.how, said.reason) == ("cancelled", "enough")
    assert [event.tool for event in of(events, CallStarted)] == ["look"]


async def test_what_asks_after_a_cancel_after_the_turn_waits_for_nobody() -> None:
    """The reply was under way when the run was told to end after it."""
    async with attended(call(*WRITE, delay=5.0)) as run:
        await anyio.sleep(1)
        run.cancel("enough", "after_turn")
        assert await results(run) == [("not_run", None)]
        assert run.seams.clock() - run.began < 10


async def test_the_wall_limit_holds_and_working_time_stands_still() -> None:
    profile = Profile(rules=ASKS.rules, limits=Limits(seconds=100, working_seconds=10))
    async with attended(call(*WRITE, delay=2.0), profile=profile) as run:
        outcome = await run.wait()
    assert (outcome.status, outcome.reason) == ("stopped", "time")
    assert outcome.seconds == pytest.approx(100, abs=0.1)
    assert outcome.working_seconds == pytest.approx(2, abs=0.1)


async def test_working_time_goes_on_while_a_sibling_works() -> None:
    @tool(effect="nothing")
    async def slow() -> str:
        await anyio.sleep(30)
        return "slow"

    async with attended([*WRITE, ("slow", {})], tools=[write_file, slow]) as run:
        (approval,) = await waiting(run)
        await anyio.sleep(100)
        assert run.working_seconds() == pytest.approx(30, abs=0.5)
        run.approve(approval.id, approval.arguments_hash)
        outcome = await run.wait()
    assert outcome.working_seconds == pytest.approx(30, abs=0.5)
    assert outcome.seconds == pytest.approx(100, abs=0.5)


async def test_a_parent_stands_still_while_its_sub_agent_waits() -> None:
    child = agent(WRITE)
    boss = Agent(scripted(call(("worker", {"task": "x"})), say("Done.")), [child.as_tool(name="worker")])
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(boss, "task", attended=True)
        (approval,) = await waiting(run)
        assert approval.run == run.children[0].id
        await anyio.sleep(60)
        run.approve(approval.id, approval.arguments_hash)
        outcome = await run.wait()
    assert outcome.status == "completed"
    assert outcome.working_seconds < 1


# -- who is asked -----------------------------------------------------------------------------------------------------


async def test_unattended_it_is_denied_at_once() -> None:
    async with attended(WRITE, start={"attended": False}) as run:
        assert await results(run) == [("denied", "no_approval")]
        events = await facts(run)
        assert run.seams.clock() - run.began < 0.1
    assert of(events, ApprovalRequested) == []


Asking = Callable[[Approval], Any]


def plain(answer: Asking) -> Asking:
    return answer


def waited(answer: Asking) -> Asking:
    async def approver(approval: Approval) -> Any:
        await anyio.sleep(3)
        return answer(approval)

    return approver


def returned(answer: Asking) -> Asking:
    """A plain function that returns something to be awaited."""

    def approver(approval: Approval) -> Awaitable[Any]:
        awaited: Awaitable[Any] = waited(answer)(approval)
        return awaited

    return approver


@pytest.mark.parametrize("kind", [plain, waited, returned])
@pytest.mark.parametrize("attending", [True, False])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda approval: True, ("finished", None)),
        (lambda approval: approval.allow(), ("finished", None)),
        (lambda approval: False, ("denied", "not_approved")),
        (lambda approval: approval.deny("no"), ("denied", "not_approved")),
        (lambda approval: "yes", ("denied", "not_approved")),
        (lambda approval: 1, ("denied", "not_approved")),
        (lambda approval: [][0], ("denied", "not_approved")),
    ],
)
async def test_an_approver_decides(
    answer: Asking, expected: tuple[str, str | None], attending: bool, kind: Callable[[Asking], Asking]
) -> None:
    start = {"attended": attending}
    async with attended(WRITE, settings={"approver": kind(answer)}, start=start) as run:
        assert await results(run) == [expected]
        events = await facts(run)
    (said,) = of(events, ApprovalResolved)
    assert said.by == "approver"
    assert len(of(events, CallStarted)) == (expected[0] == "finished")


@pytest.mark.parametrize("kind", [plain, waited])
async def test_where_an_approver_has_nothing_to_say_a_person_is_asked_or_nobody(
    kind: Callable[[Asking], Asking],
) -> None:
    settings = {"approver": kind(lambda approval: None)}
    async with attended(WRITE, settings=settings, start={"attended": False}) as run:
        assert await results(run) == [("denied", "no_approval")]
    async with attended(WRITE, settings=settings) as run:
        (approval,) = await waiting(run)
        await anyio.sleep(100)
        run.approve(approval.id, approval.arguments_hash)
        assert await results(run) == [("finished", None)]


async def test_an_approver_has_until_the_deadline() -> None:
    ended: list[str] = []

    async def slow(approval: Approval) -> bool:
        try:
            await anyio.sleep(3600)
        finally:
            ended.append("cancelled")
        return True

    async with attended(WRITE, settings={"approver": slow}) as run:
        assert await results(run) == [("denied", "approval_timed_out")]
    assert ended == ["cancelled"]


async def test_a_person_may_answer_before_the_approver_does() -> None:
    async def slow(approval: Approval) -> bool:
        await anyio.sleep(500)
        return False

    async with attended(WRITE, settings={"approver": slow}) as run:
        (approval,) = await waiting(run)
        run.approve(approval.id, approval.arguments_hash)
        assert await results(run) == [("finished", None)]
        assert run.seams.clock() - run.began < 10


async def test_the_yes_of_an_approver_to_another_call_is_none() -> None:
    kept: list[Any] = []

    async def replays(approval: Approval) -> Any:
        kept.append(approval.allow())
        return kept[0]

    async with attended(WRITE, WRITE, settings={"approver": replays}) as run:
        assert await results(run) == [("finished", None), ("denied", "not_approved")]
        assert "yes to another call" in seen(run)[1]


async def test_an_approver_that_will_not_stop_does_not_hold_up_the_end() -> None:
    go_on = threading.Event()

    async with attended(WRITE, settings={"approver": lambda approval: go_on.wait(30)}) as run:
        async for event in run.events():
            if isinstance(event, ApprovalRequested):
                break
        run.cancel("enough")
        assert await results(run) == [("not_run", None)]
        go_on.set()


@pytest.mark.parametrize("says", [True, False])
async def test_a_hosts_wording_that_fails_ends_this_run_with_a_result_for_the_call(says: bool) -> None:
    class Broken(Wording):
        def not_approved(self, tool: str, reason: str) -> Any:
            raise KeyError("a defect")

    settings = {"wording": Broken(), "approver": lambda approval: says}
    async with attended(WRITE, settings=settings) as run:
        kinds = [kind for kind, _ in await results(run)]
        assert run.outcome is not None
        assert (kinds, run.outcome.status) == ((["finished"], "completed") if says else (["abandoned"], "failed"))


async def test_an_approver_must_be_a_function() -> None:
    with pytest.raises(ConfigurationError, match="approver must be a function of an approval, not 'ask'"):
        Supervisor(approver="ask")  # type: ignore[arg-type]


# -- for the run, and always ------------------------------------------------------------------------------------------


async def test_for_the_run_covers_equal_arguments_and_no_others() -> None:
    other = [("write_file", {"path": "a", "text": "y"})]
    async with supervised(keep=10_000) as supervisor:
        async with attended(WRITE, other, WRITE, supervisor=supervisor) as run:
            (approval,) = await waiting(run)
            run.approve(approval.id, approval.arguments_hash, "run")
            (second,) = await waiting(run)
            assert second.arguments == '{"path":"a","text":"y"}'
            run.deny(second.id)
            assert await results(run) == [("finished", None), ("denied", "not_approved"), ("finished", None)]
            events = await facts(run)
        assert [(said.how, said.by, said.approval) for said in of(events, ApprovalResolved)] == [
            ("run", "person", approval.id),
            ("denied", "person", second.id),
            ("run", "earlier", approval.id),
        ]
        async with attended(WRITE, supervisor=supervisor) as later:
            (again,) = await waiting(later)
            later.deny(again.id)
            await later.wait()


async def test_always_for_a_pattern_covers_later_runs_of_the_agent() -> None:
    def turns(*paths: str) -> list[Any]:
        return [[("write_file", {"path": path})] for path in paths]

    async with supervised(keep=10_000) as supervisor:
        async with attended(*turns("notes/a", "notes/b"), supervisor=supervisor) as run:
            (approval,) = await waiting(run)
            run.approve(approval.id, approval.arguments_hash, "always", pattern={"path": "notes/*"})
            assert await results(run) == [("finished", None)] * 2
            (said, _) = of(await facts(run), ApprovalResolved)
            assert (said.how, said.pattern) == ("always", {"path": "notes/*"})
        paths = ("notes/c", "src/a", "notes/../src/a", "notes/d\n")
        # Also of a run that nobody attends: what it covers runs, the rest is denied.
        async with attended(*turns(*paths), supervisor=supervisor, start={"attended": False}) as run:
            kinds = [kind for kind, _ in await results(run)]
            assert kinds == ["finished", "denied", "denied", "denied"]
        async with attended(*turns("notes/c"), supervisor=supervisor, name="another", start={"attended": False}) as run:
            assert await results(run) == [("denied", "no_approval")]
        supervisor.approved.forget("agent")
        async with attended(*turns("notes/c"), supervisor=supervisor, start={"attended": False}) as run:
            assert await results(run) == [("denied", "no_approval")]


async def test_a_yes_for_the_run_answers_what_waits_already() -> None:
    turn = [("write_file", {"path": path}) for path in ("n/a", "n/b", "m/a", "n/c")]
    async with attended(turn) as run:
        first, *_ = await waiting(run, 4)
        run.approve(first.id, first.arguments_hash, "run", pattern={"path": "n/*"})
        (left,) = run.approvals
        assert '"m/a"' in left.arguments
        run.deny(left.id)
        assert [kind for kind, _ in await results(run)] == ["finished", "finished", "denied", "finished"]


async def test_a_yes_covers_nothing_that_is_asked_for_another_reason() -> None:
    rules = (
        Rule("ask", "write_file", unless=({"path": "s*"},), why="writes"),
        Rule("ask", "write_file", when=({"path": "s*"},), why="a secret place"),
    )
    turns = [[("write_file", {"path": path})] for path in ("a", "b", "s1")]
    async with attended(*turns, profile=Profile(rules=rules)) as run:
        (approval,) = await waiting(run)
        run.approve(approval.id, approval.arguments_hash, "run", pattern={})
        (second,) = await waiting(run)
        assert (second.why, second.arguments) == ("a secret place", '{"path":"s1","text":""}')
        run.deny(second.id)
        assert [kind for kind, _ in await results(run)] == ["finished", "finished", "denied"]


async def test_what_cannot_be_undone_is_asked_about_each_time() -> None:
    """Also where a rule allows it, and also after a yes."""
    profile = Profile(rules=(Rule("allow", "pay", approved=True),))
    async with attended([("pay", {"amount": 1})], [("pay", {"amount": 2})], profile=profile) as run:
        (approval,) = await waiting(run)
        assert (approval.once, approval.why) == (True, "it cannot be undone")
        for scope in ("run", "always"):
            with pytest.raises(ApprovalError, match="can be permitted once only"):
                run.approve(approval.id, approval.arguments_hash, scope, pattern={})
        run.approve(approval.id, approval.arguments_hash)
        (second,) = await waiting(run)
        run.approve(second.id, second.arguments_hash)
        assert await results(run) == [("finished", None)] * 2


async def test_guards_of_third_parties_may_ask_too_and_all_that_ask_are_named() -> None:
    class Judge:
        name = "judge"

        def __init__(self) -> None:
            self.folds: dict[type[Event], Callable[[Any], None]] = {}

        def call(self, proposal: Any) -> Ask:
            return Ask("it looks odd")

    async with attended(WRITE, WRITE, settings={"guards": [Judge]}) as run:
        (approval,) = await waiting(run)
        assert (approval.by, approval.why) == (("policy", "judge"), "the house rules; it looks odd")
        run.approve(approval.id, approval.arguments_hash, "run")
        assert await results(run) == [("finished", None)] * 2


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
async def test_the_wait_has_an_end(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="limits: approval must be"):
        agent(WRITE, limits=Limits(approval=seconds))


async def test_a_guard_behind_may_still_refuse() -> None:
    profile = Profile(rules=ASKS.rules, refuse_equal=1)
    async with attended(WRITE, profile=profile) as run:
        assert await results(run) == [("refused", "equal_call")]
        assert of(await facts(run), ApprovalRequested) == []


# -- secrets, threads, handles ----------------------------------------------------------------------------------------


async def test_who_decides_sees_what_runs_and_no_fact_does() -> None:
    sent: list[str] = []

    @tool
    async def send(body: str) -> str:
        sent.append(body)
        return "sent"

    profile = Profile(rules=(Rule("ask", "send"),))
    settings = {"redaction": Redaction([SECRET])}
    turn = [("send", {"body": f"key {SECRET}"})]
    async with attended(turn, tools=[send], profile=profile, settings=settings) as run:
        (approval,) = await waiting(run)
        assert SECRET in approval.arguments
        assert SECRET not in repr(approval)
        assert SECRET not in repr(run.snapshot())
        run.approve(approval.id, approval.arguments_hash, "run")
        outcome = await run.wait()
        assert SECRET not in repr(await facts(run))
        assert SECRET not in repr(outcome)
    assert sent == [f"key {SECRET}"]


async def test_the_snapshot_says_what_waits() -> None:
    async with attended(WRITE) as run:
        (approval,) = await waiting(run)
        assert run.snapshot()["approvals"] == [
            {"approval": approval.id, "call": approval.call_id, "tool": "write_file", "why": "the house rules"}
        ]
        run.deny(approval.id)
        await run.wait()
        assert run.snapshot()["approvals"] == []


async def test_from_another_thread() -> None:
    async with attended(WRITE, [("write_file", {"path": "b"})]) as run:
        await waiting(run)
        said: list[Any] = []

        def answer() -> None:
            for n in range(2):
                while not (found := run.threadsafe.approvals()):
                    pass
                try:
                    run.threadsafe.approve(found[0].id, "wrong")
                except ApprovalError as error:
                    said.append(error.code)
                if n:
                    run.threadsafe.deny(found[0].id, "not this one")
                else:
                    run.threadsafe.approve(found[0].id, found[0].arguments_hash, by="ann")

        with run.seams.outside_work():
            await anyio.to_thread.run_sync(answer)
        assert await results(run) == [("finished", None), ("denied", "not_approved")]
    assert said == ["hash", "hash"]
