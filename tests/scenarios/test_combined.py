"""What each guard does alone, done together: plan, answers, context, approvals, handing over, cassettes, sub-agents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from support import BARE, facts, of, perform, scripted, supervised
from watchkeeper import (
    Agent,
    Budget,
    Bundle,
    Event,
    Judge,
    Limits,
    Outcome,
    Planning,
    Profile,
    Run,
    SQLiteStore,
    Supervisor,
    Verifier,
    encode_event,
    tool,
)
from watchkeeper.cassette import Player, Recorder, forbidden_sockets
from watchkeeper.guards.rule import Rule
from watchkeeper.messages import (
    CallEnded,
    ContextCompacted,
    ModelRequested,
    PushedBack,
    StepEnded,
)
from watchkeeper.model import Request
from watchkeeper.redaction import Redaction
from watchkeeper.seams import Seams
from watchkeeper.testing import BACKENDS, ScriptedModel, Step, VirtualSeams, backend, call, check_conversation, say
from windows import Strict

ALLOW = '{"decision": "allow"}'
YES = '{"accepted": true}'
SECRET = "sk-proj-" + "a1B2c3D4" * 6


class Fruit(msgspec.Struct):
    name: str
    kilos: int


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at a thing."""
    await anyio.sleep(1)
    return f"saw {what}"


@tool(effect="reads")
async def page(number: int) -> str:
    """Read a page."""
    return f"page {number} begins. " + f"text of {number}. " * 160


@tool(irreversible=True, effect="writes")
async def send(text: str) -> str:
    """Send a letter."""
    return f"sent {text}"


def told(request: Request) -> str:
    """What a planned run is told to do now."""
    ours = [one.content for one in request.messages if one.mark == "watchkeeper"]
    return next(one for one in reversed(ours) if re.search(r"make a plan|steps of the plan are over|[Ss]tep \d+", one))


def at(request: Request) -> str:
    """What a planned run is at."""
    word = told(request)
    for words, what in (
        ("make a plan", "plan"),
        ("steps of the plan are over", "sum"),
        ("This is the last turn", "last"),
    ):
        if words in word:
            return what
    found = re.search(r"Step (\d+) of", word)
    return found[1] if found else "other"


def plan(*goals: str) -> Step:
    return say(json.dumps({"question": "?", "steps": [{"goal": goal} for goal in goals]}))


def planned(goals: list[str], work: Callable[[str, int], Any], *answers: str) -> Callable[[Request, int], Step]:
    """Plans; in each step makes the calls that ``work(step, n)`` gives until it gives a text; sums up with the answers,
    one after the other."""
    left, made = [*answers], dict[str, int]()

    def script(request: Request, n: int) -> Step:
        what = at(request)
        if what == "plan":
            return plan(*goals)
        step = what if what.isdigit() else ""
        if not step:
            return say(left.pop(0)) if what != "last" else say("out of turns")
        made[step] = made.get(step, 0) + 1
        given = work(step, made[step])
        return say(given) if isinstance(given, str) else call(*given)

    return script


def looks(step: str, n: int) -> Any:
    return [("look", {"what": f"thing {step}"})] if n == 1 else f"Step {step} found thing {step} [call:nope]."


# -- plan and answers --------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_the_summing_up_passes_form_validators_and_verifier_and_steps_do_not() -> None:
    seen: list[Fruit] = []

    def heavy(fruit: Fruit) -> str | None:
        seen.append(fruit)
        return None if fruit.kilos > 1 else "it weighs more than that"

    verifier = ScriptedModel([say('{"accepted": false, "why": "It is no apple."}'), say(YES)])
    answers = ["It is an apple.", '{"name": "apple", "kilos": 1}', '{"name": "apple", "kilos": 2}']
    model = ScriptedModel(planned(["find a", "find b"], looks, *answers, '{"name": "pear", "kilos": 2}'))
    agent = Agent(
        model,
        [look],
        plan=True,
        answer_type=Fruit,
        validators=[heavy],
        verifier=Verifier(verifier),
        limits=Limits(reasks=3),
        profile=BARE,
    )
    outcome, events = await perform(agent, "Which fruit?")
    assert (outcome.status, outcome.value) == ("completed", Fruit("pear", 2))
    assert [event.by for event in of(events, PushedBack)] == ["form", "validators", "verifier"]
    assert seen == [Fruit("apple", 1), Fruit("apple", 2), Fruit("pear", 2)]
    # What a step says is neither JSON nor does its citation hold, and nobody objects.
    assert [record.finding for record in outcome.plan] == [f"Step {n} found thing {n} [call:nope]." for n in (1, 2)]
    assert verifier.asked == 2
    assert check_conversation(outcome.history) is None


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_the_summing_up_may_cite_calls_of_the_steps() -> None:
    answer = "It is one [call:call_2_1] and another [call:call_9_9]."
    agent = Agent(
        ScriptedModel(planned(["find a"], looks, answer, answer, answer)), [look], plan=True, cite=True, profile=BARE
    )
    outcome, _ = await perform(agent)
    assert outcome.status == "completed"
    assert [(one.call_id, one.why) for one in outcome.unverified] == [("call_9_9", "no_such_call")]


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_a_plan_whose_answer_never_has_the_form_ends_in_bounds() -> None:
    agent = Agent(ScriptedModel(planned(["find a"], looks, *["no"] * 9)), [look], plan=True, answer_type=Fruit)
    outcome, events = await perform(agent)
    assert (outcome.status, outcome.reason) == ("stopped", "answer_invalid")
    assert len(of(events, PushedBack)) == 2
    assert [record.ended for record in outcome.plan] == ["answer"]


# -- plan and goal -----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_the_status_line_and_drift_know_the_step_of_the_plan() -> None:
    def work(step: str, n: int) -> Any:
        return (
            [("look", {"what": f"{'walrus' if step == '1' else 'giraffe'} {n}"})] if n < 5 else f"step {step} is done"
        )

    def goals(second: str) -> ScriptedModel:
        return ScriptedModel(planned(["weigh the walrus", second], work, "Done."))

    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(goals("measure the giraffe"), [look], plan=True), "Study nature thoroughly.")
        await run.wait()
        events = await facts(run)
        assert run.step == ""
    steps = [
        found[1] if (found := re.search(r"Step: ([^.]*)\.", one.told)) else "" for one in of(events, ModelRequested)
    ]
    assert steps == ["", *["weigh the walrus"] * 5, *["measure the giraffe"] * 5, ""]
    assert drifts(events) == 0
    # The same work under a step that has no word of it is drift.
    _, events = await perform(Agent(goals("measure the zebra"), [look], plan=True), "Study nature thoroughly.")
    assert drifts(events) == 1


def drifts(events: list[Event]) -> int:
    return sum(getattr(event, "by", "") == "drift" for event in events)


# -- plan and context --------------------------------------------------------------------------------------------------

PAGES = 8


def reads(step: str, n: int) -> Any:
    return [("page", {"number": int(step) * 100 + n})] if n <= PAGES else f"Step {step} found the number {step}4711."


def reading(**more: Any) -> tuple[Strict, Agent]:
    model = Strict(planned(["part one", "part two", "part three"], reads, "All of it.", "All of it."), 6000)
    limits = Limits(max_turns=60, reply_tokens=300)
    return model, Agent(model, [page], plan=Planning(step_turns=12), **{"limits": limits} | more)


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_a_plan_that_outgrows_the_window_keeps_its_findings() -> None:
    model, agent = reading()
    outcome, events = await perform(agent, "Read the book.")
    assert (outcome.status, outcome.answer) == ("completed", "All of it.")
    assert len(of(events, ContextCompacted)) >= 2
    assert model.refused == 0
    assert max(model.prompts) <= 6000
    assert [record.ended for record in outcome.plan] == ["answer"] * 3
    last = told(model.requests[-1])
    assert all(f"found the number {n}4711" in last for n in (1, 2, 3))
    assert check_conversation(outcome.history) is None


# -- handing over ------------------------------------------------------------------------------------------------------


async def go_on(token: str, agent: Agent) -> tuple[Outcome, list[Event]]:
    """Continue in another supervisor."""
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(agent, continue_from=token)
        outcome = await run.wait()
        return outcome, await facts(run)


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_handed_over_in_the_middle_of_a_plan_it_is_continued_to_its_answer() -> None:
    profile = msgspec.structs.replace(BARE, on_stop="hand_over")
    made: Callable[[], Agent] = lambda: Agent(  # noqa: E731
        ScriptedModel(planned(["find a", "find b"], looks, "The whole answer.")), [look], plan=True, profile=profile
    )
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(made(), "What are a and b?")
        async for event in run.events():
            if isinstance(event, StepEnded):
                run.hand_over("a colleague wants it")
        outcome = await run.wait()
        bundle = Bundle.of(run)
    assert (outcome.status, outcome.reason) == ("handed_over", "a colleague wants it")
    assert outcome.plan[0].finding.startswith("Step 1 found thing 1")
    assert outcome.plan[1].ended in (None, "run")
    assert "Step 1 found thing 1" in bundle.markdown()
    outcome, _ = await go_on(bundle.token, made())
    assert (outcome.status, outcome.answer) == ("completed", "The whole answer.")
    assert [record.ended for record in outcome.plan] == ["answer", "answer"]
    assert check_conversation(outcome.history) is None


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_handed_over_while_a_person_is_waited_for_it_is_continued_to_its_answer() -> None:
    profile = msgspec.structs.replace(BARE, on_stop="hand_over")
    made: Callable[..., Agent] = lambda *steps: Agent(scripted(*steps), [send, look], profile=profile)  # noqa: E731
    async with supervised(keep=10_000) as supervisor:
        letter = call(("send", {"text": "yes"}), ("look", {"what": "post"}))
        run = await supervisor.start(made(letter), "Send it.", attended=True)
        while not run.approvals:
            await anyio.sleep(0.1)
        old = run.approvals[0]
        run.hand_over("off for today")
        outcome = await run.wait()
        bundle = Bundle.of(run)
    assert (outcome.status, outcome.seconds < 5) == ("handed_over", True)
    assert {record.tool: record.kind for record in outcome.calls} == {"send": "not_run", "look": "finished"}
    assert outcome.not_executed == (old.call_id,)
    async with supervised(keep=10_000) as supervisor:
        agent = made(call(("send", {"text": "yes"})), say("Sent."))
        run = await supervisor.start(agent, continue_from=bundle.token, attended=True)
        while not run.approvals:
            await anyio.sleep(0.1)
        (new,) = run.approvals
        assert new.arguments_hash == old.arguments_hash
        run.approve(new.id, new.arguments_hash)
        outcome = await run.wait()
    assert (outcome.status, outcome.answer) == ("completed", "Sent.")
    assert check_conversation(outcome.history) is None


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_handed_over_after_a_compaction_it_is_continued_within_the_window() -> None:
    runs: list[Run] = []

    def script(request: Request, n: int) -> Step:
        if any(isinstance(event, ContextCompacted) for event in runs[0].log.kept()):
            runs[0].hand_over("enough for today")  # in the turn after it; once it has ended this changes nothing
        return call(("page", {"number": n})) if n <= 12 else say("Read.")

    limits = Limits(max_turns=40, reply_tokens=300)
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(Strict(script, 4000), [page], limits=limits), "Read the book.")
        runs.append(run)
        outcome = await run.wait()
        token = Bundle.of(run).token
    assert outcome.status == "handed_over"
    model = Strict(script, 4000)
    outcome, events = await go_on(token, Agent(model, [page], limits=limits))
    assert (outcome.status, outcome.answer) == ("completed", "Read.")
    assert (model.refused, max(model.prompts) <= 4000) == (0, True)
    assert of(events, ContextCompacted) != []
    assert check_conversation(outcome.history) is None


# -- a cassette of all of it -------------------------------------------------------------------------------------------


def everything(store: Any = None) -> tuple[list[ScriptedModel], Agent]:
    """Plan, approvals, compaction with a summary, verifier, judge and memory, in one run."""

    def work(step: str, n: int) -> Any:
        if n <= PAGES:
            return [("page", {"number": int(step) * 100 + n})]
        if step == "2" and n == PAGES + 1:
            return [("send", {"text": "I have read it."}), ("look", {"what": "the mailbox"})]
        return f"Step {step} found the number {step}4711."

    goals = ["part one", "part two", "part three"]
    model = Strict(planned(goals, work, "All of it.", "All of it, and a letter."), 6000, summary="- pages were read")
    judge = ScriptedModel(lambda request, n: say(ALLOW, delay=0.02))
    verifier = ScriptedModel([say('{"accepted": false, "why": "And the letter?"}'), say(YES, delay=0.02)])
    agent = Agent(
        model,
        [page, send, look],
        plan=Planning(step_turns=12),
        limits=Limits(max_turns=60, reply_tokens=300),
        judge=Judge(judge),
        verifier=Verifier(verifier),
        memory=store if store is not None else SQLiteStore(),
        profile=msgspec.structs.replace(Profile(), judged=("send",)),
    )
    return [model, judge, verifier], agent


async def everything_done(seams: Seams, agent: Agent, person: bool) -> tuple[Outcome, list[bytes]]:
    async with Supervisor(seams=seams, plugged=False, keep=100_000) as supervisor, anyio.create_task_group() as tasks:
        run = await supervisor.start(agent, "Read the book about the harbour.", attended=True)
        if person:
            tasks.start_soon(says_yes, run)
        outcome = await run.wait()
        tasks.cancel_scope.cancel()
        return outcome, [encode_event(event) async for event in run.events() if isinstance(event, Event)]


async def says_yes(run: Run) -> None:
    while not run.approvals:
        await anyio.sleep(0.01)
    (approval,) = run.approvals
    await anyio.sleep(30)
    run.approve(approval.id, approval.arguments_hash, by="Ada")


def on(name: str, seams: Seams, agent: Agent, person: bool) -> tuple[Outcome, list[bytes]]:
    where, options = backend(name)
    return anyio.run(everything_done, seams, agent, person, backend=where, backend_options=options)


@pytest.mark.parametrize("recorded_on", BACKENDS)
def test_a_run_of_everything_plays_back_to_the_same_events_on_either_back_end(recorded_on: str, tmp_path: Path) -> None:
    store = SQLiteStore()
    store.add("The harbour freezes in January.", "harbour")
    models, agent = everything(store)
    with Recorder(tmp_path / "a", seams=VirtualSeams()) as seams:
        recorded = on(recorded_on, seams, agent, True)
    outcome, lines = recorded
    assert (outcome.status, outcome.answer) == ("completed", "All of it, and a letter.")
    kinds = [msgspec.json.decode(line)["type"] for line in lines]
    for kind in ("planned", "context_compacted", "approval_requested", "approval_resolved", "notes_shown"):
        assert kind in kinds, kind
    assert kinds.count("opinion_given") == 3
    assert any(b'"summary":"- pages were read"' in line for line in lines)
    assert all(model.asked for model in models)
    for played_on in BACKENDS:
        models, agent = everything()  # its store is empty: what was found then comes from the cassette
        player = Player(tmp_path / "a")
        with forbidden_sockets():
            again = on(played_on, player, agent, False)
        player.check()
        assert again == recorded
        assert [model.asked for model in models] == [0, 0, 0]


@pytest.mark.parametrize("played_on", BACKENDS)
@pytest.mark.parametrize("how", ["no", "approver", "broken approver", "nobody", "silence", "for the run", "hand over"])
def test_whatever_was_said_to_an_approval_is_said_again(how: str, played_on: str, tmp_path: Path) -> None:
    profile = Profile(rules=(Rule("ask", "look"),), limits=Limits(approval=40.0))

    def agent() -> Agent:
        steps = call(("look", {"what": "a"}), ("page", {"number": 1})), call(("look", {"what": "b"})), say("Done.")
        return Agent(scripted(*steps), [look, page], profile=profile)

    async def approver(approval: Any) -> Any:
        await anyio.sleep(3)
        if how == "broken approver":
            raise ValueError("no idea")
        return None if how == "nobody" else approval.allow()

    async def person(run: Run) -> None:
        while True:
            while not run.approvals:
                await anyio.sleep(0.01)
            one = run.approvals[0]
            await anyio.sleep(5)
            if how == "no":
                run.deny(one.id, "not that")
            elif how == "for the run":
                run.approve(one.id, one.arguments_hash, "run", pattern={"what": "*"}, by="Ada")
            elif how == "hand over":
                run.hand_over("I go home")
                return
            else:
                return

    async def perform(seams: Seams, live: bool) -> tuple[Outcome, list[bytes]]:
        asks = approver if live and how in ("approver", "broken approver", "nobody") else None
        async with Supervisor(seams=seams, plugged=False, keep=10_000, approver=asks) as supervisor:
            async with anyio.create_task_group() as tasks:
                attended = how in ("no", "silence", "for the run", "hand over")
                run = await supervisor.start(agent(), "Do it.", attended=attended)
                if live and attended:
                    tasks.start_soon(person, run)
                outcome = await run.wait()
                tasks.cancel_scope.cancel()
            return outcome, [encode_event(event) async for event in run.events() if isinstance(event, Event)]

    where, options = backend("asyncio")
    with Recorder(tmp_path / "a", seams=VirtualSeams()) as seams:
        recorded = anyio.run(perform, seams, True, backend=where, backend_options=options)
    said = {json.loads(line).get("how") for line in recorded[1] if b'"approval_resolved"' in line}
    assert (
        said
        == {
            "no": {"denied"},
            "approver": {"once"},
            "broken approver": {"denied"},
            "nobody": {"denied"},
            "silence": {"timed_out"},
            "for the run": {"run"},
            "hand over": {"cancelled"},
        }[how]
    )
    where, options = backend(played_on)
    player = Player(tmp_path / "a")
    again = anyio.run(perform, player, False, backend=where, backend_options=options)
    player.check()
    assert again == recorded


# -- sub-agents under all of it ----------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_eight_sub_agents_with_approvals_secrets_and_judges_against_one_limit() -> None:
    """Each asks a person about its letter; of all letters three can be paid for, and the others are told so."""

    @tool(effect="writes", cost={"stamps": 1})
    async def post(text: str) -> str:
        """Post a letter."""
        return f"posted {text} with {SECRET}"

    judged: list[str] = []

    def rule(question: Any) -> None:
        judged.append(question.task)

    asks = msgspec.structs.replace(BARE, rules=(Rule("ask", "post"),), judged=("post",))
    models = [scripted(call(("post", {"text": f"letter {n}"})), say(f"done {n} {SECRET}")) for n in range(8)]
    clerks = [
        Agent(model, [post], name=f"clerk{n}", profile=asks, judge=Judge(rule=rule)) for n, model in enumerate(models)
    ]
    parent = scripted(call(*((clerk.name, {"task": f"Post {clerk.name}."}) for clerk in clerks)), say("All is posted."))
    agent = Agent(parent, [clerk.as_tool() for clerk in clerks], profile=BARE)
    async with supervised(keep=10_000, redaction=Redaction([SECRET])) as supervisor:
        run = await supervisor.start(agent, "Post the letters.", attended=True, budget=Budget(stamps=3))
        answered = 0
        while run.outcome is None:
            for approval in run.approvals:
                run.approve(approval.id, approval.arguments_hash)
                answered += 1
            await anyio.sleep(0.1)
        outcome = run.outcome
        events = {child.agent.name: await facts(child) for child in run.children}
        kinds = [of(one, CallEnded)[0].result for one in events.values()]
        assert run.budget.held == supervisor.budget.held == {}
    assert outcome.status == "completed"
    assert len(judged) == 8
    assert answered == 3
    assert outcome.spent["stamps"] == 3
    assert sorted(result.kind for result in kinds) == ["finished"] * 3 + ["not_run"] * 5
    assert all("stamps" in result.content for result in kinds if result.kind == "not_run")
    shown = repr(events) + repr(await facts(run)) + repr([one.requests for one in [parent, *models]]) + repr(outcome)
    assert SECRET not in shown


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_a_sub_agent_that_thinks_in_circles_is_a_result_for_a_step_of_its_parents_plan() -> None:
    circling = ScriptedModel(
        lambda request, n: call(("look", {"what": str(n)}), text="I should look at the harbour once more, maybe there.")
    )
    clerk = Agent(circling, [look], name="clerk")

    def work(step: str, n: int) -> Any:
        return [("clerk", {"task": "Look at the harbour."})] if n == 1 else "The clerk got stuck.\nMISSING: the harbour"

    model = ScriptedModel(planned(["ask the clerk"], work, "The clerk could not do it."))
    agent = Agent(model, [clerk.as_tool()], plan=Planning(growth=0), profile=BARE)
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(agent, "Ask the clerk about the harbour.")
        outcome = await run.wait()
        (child,) = run.children
        assert child.outcome is not None
        assert (child.outcome.status, child.outcome.reason) == ("stopped", "stagnation")
        result = of(await facts(run), CallEnded)[0].result
    assert (result.kind, result.productive) != ("finished", True)
    assert "harbour" not in (child.outcome.answer or "")
    assert (outcome.status, outcome.answer) == ("completed", "The clerk could not do it.")
    assert outcome.plan[0].lacks == "the harbour"
    assert outcome.spent["turns"] > circling.asked


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_a_judge_puts_a_sub_agent_in_the_place_of_a_call_in_a_step() -> None:
    clerk = Agent(scripted(say("The clerk has looked: it is blue.")), name="clerk", profile=BARE)

    def rule(question: Any) -> Any:
        from watchkeeper import Ruling

        return Ruling("replace", "the clerk does that", tool="clerk", arguments={"task": "Look."})

    model = ScriptedModel(
        planned(["look at it"], lambda step, n: [("look", {"what": "it"})] if n == 1 else "blue", "Blue.")
    )
    profile = msgspec.structs.replace(BARE, judged=("look",))
    agent = Agent(model, [look, clerk.as_tool()], plan=True, judge=Judge(rule=rule), profile=profile)
    outcome, events = await perform(agent, "Which colour?")
    assert outcome.status == "completed"
    assert [(one.tool, one.instead, one.kind) for one in outcome.calls] == [("look", "clerk", "finished")]
    (record,) = outcome.plan
    assert record.finding == "blue"
    (ended,) = of(events, StepEnded)
    assert ended.spent["turns"] == 3  # two of the step's own and the sub-agent's: it draws from the step
