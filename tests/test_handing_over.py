"""A run that is handed over to a person, by its profile where it would be stopped or on request; and continued."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from support import facts, of, perform, scripted, supervised
from watchkeeper import (
    Agent,
    Budget,
    Bundle,
    ConfigurationError,
    Limits,
    Outcome,
    Profile,
    Run,
    Supervisor,
    tool,
)
from watchkeeper.cli.review import Review, Settings
from watchkeeper.continuing import decoded
from watchkeeper.messages import (
    CallEnded,
    CallStarted,
    CancelRequested,
    FindingMade,
    RunEnding,
    RunStarted,
    Stopped,
    UserMessage,
)
from watchkeeper.profiles import PROFILES
from watchkeeper.testing import ScriptedModel, call, check_conversation, say
from watchkeeper.testing.script import Step
from watchkeeper.thresholds import Steps, Thresholds

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HANDS_OVER = Profile(on_stop="hand_over")


@tool(effect="reads")
async def look(what: str = "") -> str:
    """Look at something."""
    await anyio.sleep(1)
    return f"saw {what}"


@tool(effect="reads", timeout=None)
async def stare() -> str:
    """Look for a long time."""
    await anyio.sleep(100)
    return "saw it all"


def new_things(request: Any, n: int) -> Step:
    return call(("look", {"what": str(n)}))


def same_thing(request: Any, n: int) -> Step:
    return call(("look", {"what": "a"}))


def hands_over(profile: str = "default", **limits: Any) -> Profile:
    changes: dict[str, Any] = {"on_stop": "hand_over"}
    if limits:
        changes["limits"] = Limits(**limits)
    return msgspec.structs.replace(PROFILES[profile], **changes)


# -- where it would be stopped -------------------------------------------------------------------------------------


LIMITED: dict[str, dict[str, Any]] = {
    "turns": {"max_turns": 3, "finish_turns": 1},
    "calls": {"max_calls": 3},
    "tokens": {"tokens": 3000, "reply_tokens": 200},
    "time": {"seconds": 4.5},
    "loop": {},
}


@pytest.mark.parametrize("reason", LIMITED)
async def test_what_would_be_stopped_is_handed_over_for_the_same_reason(reason: str) -> None:
    script = same_thing if reason == "loop" else new_things
    model = ScriptedModel(lambda request, n: msgspec.structs.replace(script(request, n), usage=None))
    profile = hands_over(**LIMITED[reason]) if LIMITED[reason] else HANDS_OVER
    outcome, events = await perform(Agent(model, [look], profile=profile))
    assert (outcome.status, outcome.reason) == ("handed_over", reason)
    assert "It is handed over to a person." in outcome.message
    (ending,) = of(events, RunEnding)
    assert (ending.status, ending.reason) == ("handed_over", reason)
    assert check_conversation(outcome.history) is None
    assert bool(of(events, Stopped)) == (reason == "loop")
    assert (outcome.verdict is not None) == (reason == "loop")


@pytest.mark.parametrize("reason", LIMITED)
async def test_without_it_a_limit_stays_a_stop(reason: str) -> None:
    script = same_thing if reason == "loop" else new_things
    model = ScriptedModel(lambda request, n: msgspec.structs.replace(script(request, n), usage=None))
    outcome, _ = await perform(Agent(model, [look], limits=Limits(**LIMITED[reason])))
    assert (outcome.status, outcome.reason) == ("stopped", reason)
    assert "handed over" not in outcome.message


async def test_a_pause_that_nobody_ends_is_handed_over() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(ScriptedModel(new_things), [look], profile=HANDS_OVER), "x")
        run.pause(seconds=10)
        outcome = await run.wait()
    assert (outcome.status, outcome.reason) == ("handed_over", "pause_expired")


async def test_an_answer_a_failure_and_a_cancel_stay_what_they_are() -> None:
    outcome, _ = await perform(Agent(scripted(say("Done.")), profile=HANDS_OVER))
    assert outcome.status == "completed"
    outcome, _ = await perform(Agent(scripted(), profile=HANDS_OVER))
    assert outcome.status == "failed"
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(ScriptedModel(new_things), [look], profile=HANDS_OVER), "x")
        await anyio.sleep(2.5)
        run.cancel("enough")
        assert (await run.wait()).status == "cancelled"


async def test_the_stop_of_a_sub_agent_is_a_result_for_its_parent() -> None:
    child = Agent(ScriptedModel(same_thing), [look], name="child", profile=HANDS_OVER)
    parent = Agent(scripted(call(("child", {"task": "Look."})), say("It went round.")), [child.as_tool()])
    outcome, events = await perform(parent)
    assert outcome.status == "completed"
    assert "(stopped: loop)" in of(events, CallEnded)[0].result.content


@pytest.mark.parametrize(("given", "expected"), [("stop", "stop"), ("hand_over", "hand_over")])
def test_the_earlier_name_of_the_setting_is_read(given: Any, expected: str) -> None:
    profile = Profile(on_limit=given)
    assert (profile.on_stop, profile.on_limit) == (expected, None)
    assert msgspec.structs.replace(profile, on_stop="stop").on_stop == "stop"
    assert msgspec.structs.replace(PROFILES["safe-runner"], on_limit="stop").on_stop == "stop"
    assert [name for name, one in PROFILES.items() if one.on_stop == "hand_over"] == ["safe-runner"]


# -- on request ----------------------------------------------------------------------------------------------------


async def test_on_request_the_turn_is_finished_first() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(ScriptedModel(new_things), [look]), "x")
        await anyio.sleep(2.5)
        assert run.hand_over("the customer called")
        outcome = await run.wait()
        events = await facts(run)
        assert not run.hand_over("again")
    assert (outcome.status, outcome.reason) == ("handed_over", "the customer called")
    assert [record.kind for record in outcome.calls] == ["finished"] * 3
    (asked,) = of(events, CancelRequested)
    assert (asked.mode, asked.status) == ("after_turn", "handed_over")
    assert outcome.message.startswith("The run was handed over to a person (the customer called).")


async def test_at_once_calls_are_cut_off() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("stare", {}))), [stare]), "x")
        await anyio.sleep(2)
        run.hand_over("now please", "now")
        assert run.state == "cancelling"
        outcome = await run.wait()
    assert (outcome.status, outcome.reason) == ("handed_over", "now please")
    assert [record.kind for record in outcome.calls] == ["cancelled"]
    assert outcome.cancel_seconds is not None
    assert check_conversation(outcome.history) is None


@pytest.mark.parametrize("first", ["hand_over", "cancel"])
async def test_the_first_of_both_counts_and_the_other_raises_the_mode(first: str) -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("stare", {}))), [stare]), "x")
        await anyio.sleep(2)
        getattr(run, first)("first", "after_turn")
        await anyio.sleep(2)
        other = run.cancel if first == "hand_over" else run.hand_over
        other("second", "now")
        outcome = await run.wait()
    assert outcome.status == ("handed_over" if first == "hand_over" else "cancelled")
    assert outcome.reason == "first"
    assert outcome.seconds < 10


async def test_the_turn_has_a_deadline() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("stare", {}))), [stare]), "x")
        await anyio.sleep(1)
        run.hand_over("soon", deadline=5)
        outcome = await run.wait()
    assert (outcome.status, outcome.reason) == ("handed_over", "soon")
    assert outcome.seconds < 12


@pytest.mark.parametrize("state", ["queued", "paused"])
async def test_a_run_that_waits_is_handed_over_at_once(state: str) -> None:
    async with supervised(max_runs=1) as supervisor:
        first = await supervisor.start(Agent(scripted(call(("stare", {})), say("x")), [stare]), "x")
        run = first if state == "paused" else await supervisor.start(Agent(scripted()), "y")
        if state == "paused":
            first.pause()
            await anyio.sleep(150)
            assert first.state == "paused"
        run.hand_over("asked")
        outcome = await run.wait()
        assert (outcome.status, outcome.reason) == ("handed_over", "asked")
        assert Bundle.of(run).report.goal == ("x" if state == "paused" else "y")
        first.cancel()


async def test_sub_agents_of_what_is_handed_over_are_cancelled() -> None:
    child = Agent(scripted(call(("stare", {})), say("x")), [stare], name="child")
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("child", {"task": "t"}))), [child.as_tool()]), "x")
        await anyio.sleep(2)
        run.hand_over("asked", "now")
        outcome = await run.wait()
        assert outcome.status == "handed_over"
        assert run.children[0].outcome is not None
        assert run.children[0].outcome.status == "cancelled"


@pytest.mark.parametrize("wrong", [{"reason": 1}, {"mode": "later"}])
async def test_what_is_no_request_is_refused(wrong: dict[str, Any]) -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(say("x"))), "x")
        with pytest.raises(ValueError, match="hand_over takes a reason"):
            run.hand_over(**wrong)
        with pytest.raises(ValueError, match="hand_over takes a reason"):
            run.threadsafe.hand_over(**wrong)
        await run.wait()


# -- the bundle ------------------------------------------------------------------------------------------------------


async def test_there_is_no_bundle_before_the_end() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(say("x"))), "x")
        with pytest.raises(ConfigurationError, match="has not ended"):
            Bundle.of(run)
        await run.wait()


async def test_it_is_to_be_had_of_any_run_that_has_ended() -> None:
    for model in (scripted(say("Done.")), scripted()):
        async with supervised() as supervisor:
            run = await supervisor.start(Agent(model, name="clerk"), "The task.")
            outcome = await run.wait()
            bundle = Bundle.of(run)
        assert bundle.report.outcome.status == outcome.status
        assert (bundle.report.goal, bundle.report.agent, bundle.report.model) == ("The task.", "clerk", "scripted")
        assert list(bundle.events) == await facts(run)


# -- and on it goes --------------------------------------------------------------------------------------------------


async def handed_over(supervisor: Supervisor, agent: Agent, task: str = "Look at it all.") -> tuple[Run, Outcome]:
    run = await supervisor.start(agent, task)
    outcome = await run.wait()
    assert outcome.status == "handed_over"
    return run, outcome


async def test_a_run_that_was_handed_over_at_a_limit_is_continued_to_its_answer() -> None:
    agent = Agent(
        scripted(*(call(("look", {"what": one})) for one in "abcd"), say("I saw a, b, c and d.")),
        [look],
        required=["look"],
        profile=hands_over(max_turns=3, finish_turns=0),
    )
    async with supervised() as supervisor:
        first, outcome = await handed_over(supervisor, agent)
        assert outcome.reason == "turns"
        second = await supervisor.start(agent, continue_from=Bundle.of(first).token)
        outcome = await second.wait()
        assert (outcome.status, outcome.answer) == ("completed", "I saw a, b, c and d.")
        started = [event for run in (first, second) for event in of(await facts(run), CallStarted)]
        assert len(started) == 4  # each of them once
        begun = of(await facts(second), RunStarted)[0]
        assert (begun.continues, begun.task) == (first.id, "Look at it all.")
        assert begun.earlier["calls"] == 3
        assert begun.continued == len(first.outcome.history) if first.outcome else False
        (spoken,) = of(await facts(second), UserMessage)
        assert spoken.text.startswith("This work had ended (handed_over: turns); a person lets it go on.")
        report = Bundle.of(second).report
        assert (report.goal, report.runs) == ("Look at it all.", (first.id,))
        assert outcome.turns == 2
        assert outcome.spent["turns"] == 2
        assert outcome.evidence == (*(first.outcome.evidence if first.outcome else ()), *outcome.evidence[-1:])


async def test_evidence_of_before_counts_for_the_answer() -> None:
    """The gate would send it back, had the run begun with the conversation alone."""
    agent = Agent(
        scripted(call(("look", {"what": "a"})), say("I saw a."), say("I saw a."), say("I saw a."), say("I saw a.")),
        [look],
        required=["look"],
        profile=hands_over(max_turns=1, finish_turns=0),
    )
    async with supervised() as supervisor:
        first, outcome = await handed_over(supervisor, agent)
        second = await supervisor.start(agent, continue_from=Bundle.of(first).token)
        assert (await second.wait()).answer == "I saw a."
        third = await supervisor.start(agent, "Go on.", history=outcome.history)
        assert (await third.wait()).answer is None


@pytest.mark.parametrize("fresh", [True, False])
async def test_evidence_that_was_out_of_date_still_is(fresh: bool) -> None:
    @tool(effect="writes")
    async def change() -> str:
        """Change it."""
        return "changed"

    steps = [call(("look", {})), call(("change", {})), say("It is fine."), say("It is fine."), say("It is fine.")]
    limits = {"max_turns": 2 if not fresh else 1, "finish_turns": 0}
    agent = Agent(
        scripted(*steps[:1], *(() if fresh else steps[1:2]), *steps[2:]),
        [look, change],
        required=["look"],
        fresh=["look"],
        profile=hands_over(**limits),
    )
    async with supervised() as supervisor:
        first, _ = await handed_over(supervisor, agent)
        second = await supervisor.start(agent, continue_from=Bundle.of(first).token)
        outcome = await second.wait()
    assert (outcome.answer == "It is fine.") is fresh


async def test_a_word_to_it_is_what_the_user_says() -> None:
    agent = Agent(scripted(call(("look", {})), say("Done.")), [look], profile=hands_over(max_turns=1, finish_turns=0))
    async with supervised() as supervisor:
        first, _ = await handed_over(supervisor, agent, "The goal.")
        second = await supervisor.start(agent, "Leave b out.", continue_from=Bundle.of(first).token)
        outcome = await second.wait()
        assert second.task == "The goal."
    said = [message.content for message in outcome.history if message.role == "user"]
    assert said == ["The goal.", "Leave b out."]
    assert check_conversation(outcome.history) is None


async def test_limits_hold_for_the_work_as_a_whole() -> None:
    limits = Limits(max_turns=4, finish_turns=0, max_calls=50, tokens=1_000_000, seconds=100.0)
    agent = Agent(ScriptedModel(new_things), [look], profile=HANDS_OVER, limits=limits)
    async with supervised() as supervisor:
        run, outcome = await handed_over(supervisor, agent)
        assert outcome.spent["calls"] == 4
        for used in (8, 12):
            run = await supervisor.start(agent, continue_from=Bundle.of(run).token)
            outcome = await run.wait()
            assert (outcome.status, outcome.reason, outcome.turns) == ("handed_over", "turns", 4)
            assert outcome.spent["calls"] == 4
            assert run.limits()["calls"] == 50 - used + 4
            assert run.limits()["seconds"] == pytest.approx(100 - used + 4, abs=0.1)
        again = await supervisor.start(agent.within(Limits(max_turns=18)), continue_from=Bundle.of(run).token)
        assert again.limits()["turns"] == 14  # nothing was left of 4, and they are raised by 14
        again.cancel()


async def test_budgets_above_are_not_loosened() -> None:
    agent = Agent(ScriptedModel(new_things), [look], profile=hands_over(max_turns=3, finish_turns=0))
    async with supervised(budget=Budget(calls=5)) as supervisor:
        run, _ = await handed_over(supervisor, agent)
        run = await supervisor.start(agent, continue_from=Bundle.of(run).token)
        outcome = await run.wait()
        assert outcome.reason == "calls"
        assert supervisor.budget.spent["calls"] == 5


async def test_the_volume_of_the_work_goes_on_counting() -> None:
    thresholds = Thresholds(volume_calls=5, volume=Steps(100, None, 200))
    profile = msgspec.structs.replace(hands_over(max_turns=4, finish_turns=0), thresholds=thresholds)
    agent = Agent(ScriptedModel(new_things), [look], profile=profile)
    async with supervised() as supervisor:
        run, _ = await handed_over(supervisor, agent)
        assert of(await facts(run), FindingMade) == []
        run = await supervisor.start(agent, continue_from=Bundle.of(run).token)
        await run.wait()
        made = of(await facts(run), FindingMade)
        assert made[0].finding.detector == "volume"
        assert made[0].finding.pattern.startswith("6 calls")
        review = Review(run.id, Settings(profile=profile))
        for event in await facts(run):
            review.observe(event)
        assert [one.detector for one in review.judgements] == ["volume"] * len(made)
        assert review.differences() == []


async def test_waiting_in_the_queue_uses_up_no_time() -> None:
    agent = Agent(scripted(say("x")), limits=Limits(seconds=50.0))
    async with supervised(max_runs=1) as supervisor:
        first = await supervisor.start(Agent(scripted(call(("stare", {})), say("x")), [stare]), "x")
        run = await supervisor.start(agent, "y")
        await anyio.sleep(40)
        run.hand_over()
        await run.wait()
        assert decoded(Bundle.of(run).token).left["seconds"] == 50
        await first.wait()


async def test_the_token_is_for_this_agent_unless_it_is_said_otherwise() -> None:
    agent = Agent(ScriptedModel(new_things), [look], name="one", profile=hands_over(max_turns=1, finish_turns=0))
    other = Agent(scripted(say("Done by another.")), name="two")
    async with supervised() as supervisor:
        run, _ = await handed_over(supervisor, agent)
        token = Bundle.of(run).token
        with pytest.raises(ConfigurationError, match="for the agent 'one', and this one is 'two'"):
            await supervisor.start(other, continue_from=token)
        assert not supervisor.runs
        run = await supervisor.start(other, continue_from=token, another_agent=True)
        assert (await run.wait()).answer == "Done by another."


async def test_a_key_signs_what_only_it_can_check() -> None:
    agent = Agent(
        scripted(call(("look", {})), say("x"), say("y")), [look], profile=hands_over(max_turns=1, finish_turns=0)
    )
    async with supervised(token_key="a key of the test") as supervisor:
        run, _ = await handed_over(supervisor, agent)
        token = Bundle.of(run).token
        assert token.startswith("wk1s.")
        again = await supervisor.start(agent, continue_from=token)
        assert (await again.wait()).answer == "x"
    for settings in ({}, {"token_key": "another key, as long"}):
        async with supervised(**settings) as supervisor:
            with pytest.raises(ConfigurationError, match="signed"):
                await supervisor.start(agent, continue_from=token)


@pytest.mark.parametrize("token", ["", "x", "wk1d.0.0", 5, b"wk1d"])
async def test_what_is_no_token_starts_nothing(token: Any) -> None:
    async with supervised() as supervisor:
        with pytest.raises(ConfigurationError, match="cannot be continued from this token"):
            await supervisor.start(Agent(scripted()), continue_from=token)
        with pytest.raises(ConfigurationError, match="the task must be a str"):
            await supervisor.start(Agent(scripted()))
        assert not supervisor.runs


async def test_history_and_token_exclude_each_other() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(say("x"))), "x")
        outcome = await run.wait()
        with pytest.raises(ConfigurationError, match="exclude each other"):
            await supervisor.start(Agent(scripted()), history=outcome.history, continue_from=Bundle.of(run).token)


async def test_a_secret_of_the_run_is_not_in_its_bundle() -> None:
    secret = "sk-abcdefghijklmnop1234567890"

    @tool(effect="reads")
    async def read() -> str:
        """Read the settings."""
        return f"the key is {secret}"

    steps = (call(("read", {})), call(("look", {"what": secret}), text=f"I use {secret}."), say(f"It is {secret}."))
    agent = Agent(scripted(*steps), [read, look], profile=hands_over(max_turns=2, finish_turns=0))
    async with supervised() as supervisor:
        run, _ = await handed_over(supervisor, agent, f"Use {secret}.")
        bundle = Bundle.of(run)
        shown = [bundle.markdown(), bundle.html(), b"".join(bundle.lines()).decode(), repr(decoded(bundle.token))]
        assert all(secret not in text for text in shown)
        assert all("[redacted]" in text for text in shown)
        again = await supervisor.start(agent, f"With {secret}.", continue_from=bundle.token)
        assert secret not in repr((await again.wait()).history)
