"""Goal and thought in whole runs: what the model reads, when it is forced to decide, and how the run ends."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from support import BARE, facts, of, perform, scripted, supervised
from watchkeeper import Agent, ConfigurationError, Event, Guide, Limits, Profile, tool
from watchkeeper.goal.guide import Course
from watchkeeper.goal.status import Standing
from watchkeeper.messages import (
    CallEnded,
    CallStarted,
    DetectorFailed,
    FindingMade,
    ModelRequested,
    Nudged,
    Paused,
    Stopped,
    TurnStarted,
)
from watchkeeper.models.dialect import request_body
from watchkeeper.profiles import PROFILES
from watchkeeper.testing import ScriptedModel, call, check_conversation, check_request, say
from watchkeeper.wording import Wording

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TASK = "What is the weather in Paris?"
THOUGHT = "I should check the weather in Paris once more before I answer the question."
OTHER = "Perhaps Paris is the wrong place and the weather station has another name."


@tool(effect="reads")
async def look(what: str) -> str:
    """Look."""
    return f"saw {what}"


def with_(**changes: Any) -> Profile:
    return msgspec.structs.replace(PROFILES["default"], **changes)


def thinking(*thoughts: str, then: str = "That is all I know.") -> ScriptedModel:
    """A model that thinks these thoughts before calls that all differ, then answers."""
    steps = [call(("look", {"what": str(n)}), text=thought) for n, thought in enumerate(thoughts)]
    return scripted(*steps, say(then))


def last(model: Any, n: int = -1) -> str:
    content: str = model.requests[n].messages[-1].content
    return content


def nudges(events: list[Event]) -> list[tuple[str, int]]:
    return [(event.by, event.turn) for event in of(events, Nudged)]


# -- rules and status line --------------------------------------------------------------------------------------------


async def test_rules_come_first_and_the_status_line_comes_last() -> None:
    model = scripted(*[call(("look", {"what": str(n)})) for n in range(3)], say("done"))
    outcome, events = await perform(Agent(model, [look], instructions="Be brief.", required=["look"]), TASK)
    heads = {request.messages[0].content for request in model.requests}
    assert len(heads) == 1  # the same in each request, so that the cache of the prompt stays warm
    assert heads.pop().startswith("Be brief.\n\nRules of this run:\n- Serve the goal")
    assert last(model, 0) == (
        f"{TASK}\n\n[watchkeeper] Turn 1 of 20. Left: 1,000 calls, 2M tokens, 30 min. Missing: a result of look."
    )
    assert last(model, 1).endswith("saw 0\n\n[watchkeeper] Turn 2 of 20. Left: 1,000 calls, 2M tokens, 30 min.")
    assert [event.told.split(".")[0] for event in of(events, ModelRequested)] == [
        f"[watchkeeper] Turn {n} of 20" for n in (1, 2, 3, 4)
    ]
    # What is sent again is what was sent before, up to the last message: nothing of it is kept.
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        size = len(before.messages) - 1
        assert after.messages[:size] == before.messages[:size]
        assert "Turn" not in "".join(message.content for message in after.messages[1:-1])
    assert not any("Turn" in message.content for message in outcome.history)
    for request in model.requests:
        assert check_request(request_body("m", request)) is None
        assert [message.role for message in request.messages].count("user") == 1


async def test_both_can_be_switched_off_and_replaced() -> None:
    model = scripted(say("done"))
    await perform(Agent(model, [look], profile=BARE), TASK)
    assert [message.content for message in model.requests[0].messages] == [TASK]

    model = scripted(say("done"))
    await perform(Agent(model, [look], guide=Guide(rules="Never lie."), profile=with_(status_line=False)), TASK)
    assert [message.content for message in model.requests[0].messages] == ["Never lie.", TASK]

    class Terse(Wording):
        def rules(self, form: str, tools: bool) -> str:
            return f"Form: {form}"

        def status(self, standing: Standing) -> str:
            return f"{standing.turn}/{standing.more}"

    model = scripted(say("done"))
    await perform(Agent(model, [look], guide=Guide(form="a haiku")), TASK, wording=Terse())
    assert [message.content for message in model.requests[0].messages] == [
        "Form: a haiku",
        f"{TASK}\n\n[watchkeeper] 1/19",
    ]


async def test_the_line_is_part_of_the_hold() -> None:
    estimates = []
    for profile in (BARE, msgspec.structs.replace(BARE, status_line=True)):
        _, events = await perform(Agent(scripted(say("done")), [look], profile=profile), TASK)
        estimates.append(of(events, ModelRequested)[0].input_estimate)
    assert estimates[0] + 25 < estimates[1] < estimates[0] + 60


async def test_it_says_how_the_finish_window_stands() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(n)})))
    agent = Agent(model, [look], limits=Limits(max_turns=2, finish_turns=2))
    outcome, _ = await perform(agent, TASK)
    assert outcome.reason == "turns"
    lines = [last(model, n).splitlines()[-1] for n in range(4)]
    assert lines[1].startswith("[watchkeeper] Turn 2 of 2. ")
    assert lines[2] == "[watchkeeper] Turn 3; tools are off; 2 replies left for the answer."
    assert lines[3] == "[watchkeeper] Turn 4; tools are off; 1 reply left for the answer."


async def test_no_secret_is_in_it() -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 6
    model = scripted(call(("look", {"what": "a"})), say("done"))
    agent = Agent(model, [look], guide=Guide(rules=f"The key is {secret}."), profile=with_(restate_goal=1))
    _, events = await perform(agent, f"Use {secret}")
    assert secret not in repr(model.requests) + repr(events)


# -- the goal ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("every", "turns"), [(5, [5, 10]), (1, list(range(2, 13))), (None, [])])
async def test_the_goal_is_said_again_near_the_end(every: int | None, turns: list[int]) -> None:
    model = scripted(*[call(("look", {"what": f"Paris {n}"})) for n in range(11)], say("done"))
    await perform(Agent(model, [look], profile=with_(restate_goal=every)), TASK)
    told = [n for n in range(1, 13) if f"The goal, once more: {TASK}" in last(model, n - 1)]
    assert told == turns
    assert all(last(model, n - 1).splitlines()[-1].startswith(f"Turn {n} of 20") for n in turns)


async def test_what_the_user_has_said_since_is_part_of_it() -> None:
    steps = [call(("look", {"what": f"Paris {n}"}), delay=1.0) for n in range(5)]
    model = scripted(*steps, say("done"))
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(model, [look]), TASK)
        await anyio.sleep(1.5)
        run.steer("And in Rome?")
        await run.wait()
    assert f"The goal, once more: {TASK}\nThe user has said since: And in Rome?" in last(model, 4)


def wandering(turns: int) -> ScriptedModel:
    thoughts = ("Cats are lovely.", "Birds can sing.", "Fish swim fast.", "Horses run far.", "Snails are slow.")
    steps = [call(("look", {"what": f"animals {n}"}), text=thoughts[n % 5]) for n in range(turns)]
    return scripted(*steps, say("done"))


async def test_who_has_no_word_of_the_goal_for_three_turns_is_told_it_once() -> None:
    model = wandering(6)
    outcome, events = await perform(Agent(model, [look]), TASK)
    assert outcome.answer == "done"
    assert nudges(events) == [("drift", 3)]
    told = of(events, Nudged)[0].text
    assert told.count("\n") == 2
    assert f"The goal, once more: {TASK}" in told
    assert told in last(model, 3)
    (cause,) = [event for event in events if event.n == of(events, Nudged)[0].cause]
    assert cause.turn == 3


async def test_who_comes_back_and_drifts_again_is_told_again() -> None:
    steps = [call(("look", {"what": f"animals {n}"})) for n in range(6)]
    back = call(("look", {"what": "weather"}))
    _, events = await perform(Agent(scripted(*steps[:3], back, *steps[3:], say("done")), [look]), TASK)
    assert [(by, turn) for by, turn in nudges(events) if by == "drift"] == [("drift", 3), ("drift", 7)]


async def test_drift_can_be_switched_off_and_its_words_replaced() -> None:
    for agent in (
        Agent(wandering(6), [look], profile=with_(drift=None)),
        Agent(wandering(6), [look], guide=Guide(words=lambda text: ["same", "words"])),
        Agent(wandering(6), [look], profile=with_(mode="observe")),
    ):
        _, events = await perform(agent, TASK)
        assert nudges(events) == []
    assert [event.finding.detector for event in of(events, FindingMade)][:1] == ["drift"]  # observed, and noted


async def test_a_step_of_a_plan_is_a_goal_as_well() -> None:
    model = wandering(6)
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(model, [look]), TASK)
        run.step = "Look at the animals"
        await run.wait()
        events = await facts(run)
    assert nudges(events) == []
    assert "Step: Look at the animals." in last(model, 0)


def fails(text: str) -> list[str]:
    raise KeyError(text[:3])


async def test_words_that_fail_are_replaced_by_ours_and_the_run_goes_on() -> None:
    outcome, events = await perform(Agent(wandering(6), [look], guide=Guide(words=fails)), TASK)
    assert outcome.answer == "done"
    assert [event.detector for event in of(events, DetectorFailed)] == ["guide.words"]
    assert nudges(events) == [("drift", 4)]


# -- a judge of the course --------------------------------------------------------------------------------------------


async def test_a_judge_may_say_that_it_drifts() -> None:
    asked: list[Course] = []

    async def judge(course: Course) -> bool:
        asked.append(course)
        return len(asked) == 2

    model = scripted(*[call(("look", {"what": f"weather in Paris {n}"})) for n in range(8)], say("done"))
    _, events = await perform(Agent(model, [look], guide=Guide(judge=judge)), TASK)
    assert [course.goal for course in asked] == [TASK] * 2  # after the third turn and after the sixth
    assert [len(course.said) for course in asked] == [3, 3]
    assert '"weather in Paris 5"' in asked[1].said[-1]
    assert nudges(events) == [("drift", 6)]
    assert of(events, FindingMade)[0].finding.pattern == "a judge says so"


@pytest.mark.parametrize("how", ["late", "raises", "nonsense"])
async def test_a_judge_that_fails_has_said_nothing(how: str) -> None:
    async def judge(course: Course) -> bool:
        if how == "late":
            await anyio.sleep_forever()
        if how == "raises":
            raise ValueError("no judge today")
        return "yes"  # type: ignore[return-value]  # nonsense

    guide = Guide(judge=judge, judge_seconds=2.0)
    model = scripted(*[call(("look", {"what": f"weather {n}"})) for n in range(7)], say("done"))
    outcome, events = await perform(Agent(model, [look], guide=guide), TASK)
    assert (outcome.answer, nudges(events)) == ("done", [])
    errors = [event.error for event in of(events, DetectorFailed)]
    expected = {"late": ["it said nothing within 2 s"], "raises": ["ValueError: no judge today"], "nonsense": []}
    assert errors == expected[how]


async def test_a_run_can_be_cancelled_while_its_judge_thinks() -> None:
    entered = anyio.Event()

    async def judge(course: Course) -> bool:
        entered.set()
        await anyio.sleep_forever()
        return True

    model = scripted(*[call(("look", {"what": f"weather {n}"})) for n in range(4)], say("done"))
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(model, [look], guide=Guide(judge=judge)), TASK)
        await entered.wait()
        run.cancel()
        outcome = await run.wait()
    assert (outcome.status, outcome.seconds < 1) == ("cancelled", True)


# -- thoughts ---------------------------------------------------------------------------------------------------------


async def test_a_second_thought_is_told_the_third_is_not_acted_on_and_an_answer_ends_the_run() -> None:
    model = thinking(THOUGHT, THOUGHT, THOUGHT)
    outcome, events = await perform(Agent(model, [look]), TASK)
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "That is all I know.", True)
    assert nudges(events) == [("stagnation", 2), ("stagnation", 3)]
    assert [event.result.kind for event in of(events, CallEnded)] == ["finished", "finished", "not_run"]
    result = of(events, CallEnded)[-1].result
    assert (result.by, "Decide on what is known and say why" in result.content) == ("stagnation", True)
    assert len(outcome.not_executed) == 1
    assert "Decide now, on what is known, and say why" in last(model)
    assert [event.tools_on for event in of(events, TurnStarted)] == [True] * 4
    for request in model.requests:
        assert check_request(request_body("m", request)) is None
    assert check_conversation(outcome.history) is None


async def test_who_decides_on_another_step_goes_on() -> None:
    model = thinking(THOUGHT, THOUGHT, THOUGHT, OTHER)
    outcome, events = await perform(Agent(model, [look]), TASK)
    assert (outcome.status, outcome.forced) == ("completed", False)
    assert [event.result.kind for event in of(events, CallEnded)] == ["finished", "finished", "not_run", "finished"]


async def test_who_thinks_the_same_even_then_is_stopped() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), text=THOUGHT))
    outcome, events = await perform(Agent(model, [look]), TASK)
    assert (outcome.status, outcome.reason, model.asked) == ("stopped", "stagnation", 4)
    assert "kept thinking the same" in outcome.message
    assert "near-equal thoughts, 4 times" in outcome.message
    assert outcome.verdict is not None
    assert (outcome.verdict.finding.detector, outcome.verdict.finding.count) == ("stagnation", 4)
    assert [event.result.kind for event in of(events, CallEnded)] == ["finished"] * 2 + ["not_run"] * 2
    assert len(of(events, Stopped)) == 1
    assert check_conversation(outcome.history) is None


async def test_calls_without_a_word_are_no_decision() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), text=THOUGHT if n <= 3 else ""))
    outcome, _ = await perform(Agent(model, [look]), TASK)
    assert (outcome.reason, model.asked) == ("stagnation", 4)


async def test_a_debate_that_goes_back_and_forth_is_seen() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), text=(THOUGHT, OTHER)[n % 2]))
    outcome, events = await perform(Agent(model, [look]), TASK)
    assert (outcome.reason, model.asked) == ("stagnation", 5)
    assert nudges(events) == [("stagnation", 3), ("stagnation", 4)]


async def test_reasoning_counts_as_thought() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), reasoning=THOUGHT))
    outcome, _ = await perform(Agent(model, [look]), TASK)
    assert (outcome.reason, model.asked) == ("stagnation", 4)


async def test_without_the_guard_the_run_thinks_in_circles_until_its_turns_are_used_up() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), text=OTHER if n % 2 else THOUGHT))
    profile = with_(thought_alert=None, thought_force=None)
    outcome, _ = await perform(Agent(model, [look], profile=profile), TASK)
    assert (outcome.reason, model.asked) == ("turns", 23)


@pytest.mark.parametrize(
    ("mode", "told", "end"),
    [("observe", [], "turns"), ("nudge", [("stagnation", 2)], "turns"), ("enforce", None, "stagnation")],
)
async def test_it_keeps_to_the_mode_of_the_run(mode: Any, told: list[tuple[str, int]] | None, end: str) -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), text=THOUGHT))
    outcome, events = await perform(Agent(model, [look], profile=with_(mode=mode), limits=Limits(max_turns=6)), TASK)
    assert outcome.reason == end
    found = [event.finding.count for event in of(events, FindingMade) if event.finding.detector == "stagnation"]
    assert found[:3] == ([2] if mode == "nudge" else [2, 3, 4])
    if told is not None:
        assert [one for one in nudges(events) if one[0] == "stagnation"] == told
        assert {event.result.kind for event in of(events, CallEnded)} <= {"finished", "refused"}


async def test_where_a_person_attends_the_run_is_held_for_them() -> None:
    model = ScriptedModel(
        lambda request, n: call(("look", {"what": str(n)}), text=THOUGHT) if n < 5 else say("Rainy, I think.")
    )
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(model, [look]), TASK, attended=True)
        while run.state != "paused":
            await anyio.sleep(1)
        assert model.asked == 4
        run.resume()
        outcome = await run.wait()
        events = await facts(run)
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "Rainy, I think.", True)
    assert [event.reason for event in of(events, Paused)] == ["stagnation"]
    assert len(of(events, CallStarted)) == 2


async def test_a_user_who_speaks_begins_anew() -> None:
    async with supervised() as supervisor:
        model = ScriptedModel(
            lambda request, n: call(("look", {"what": str(n)}), text=THOUGHT, delay=1.0) if n < 5 else say("done")
        )
        run = await supervisor.start(Agent(model, [look]), TASK)
        await anyio.sleep(1.5)
        run.steer("Think again.")
        outcome = await run.wait()
        events = await facts(run)
    assert outcome.answer == "done"
    assert {event.result.kind for event in of(events, CallEnded)} == {"finished"}


async def test_alike_can_be_replaced_and_may_fail() -> None:
    model = thinking(THOUGHT, THOUGHT, THOUGHT, THOUGHT, THOUGHT)
    outcome, _ = await perform(Agent(model, [look], guide=Guide(alike=lambda one, other: False)), TASK)
    assert outcome.forced is False

    def broken(one: str, other: str) -> bool:
        raise ValueError("no idea")

    outcome, events = await perform(
        Agent(thinking(THOUGHT, THOUGHT, THOUGHT, THOUGHT), [look], guide=Guide(alike=broken))
    )
    assert [event.detector for event in of(events, DetectorFailed)] == ["guide.alike"]
    assert outcome.forced is True  # by shingles from then on


async def test_in_the_finish_window_the_window_counts() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), text=THOUGHT))
    outcome, _ = await perform(Agent(model, [look], limits=Limits(max_turns=1, finish_turns=3)), TASK)
    assert (outcome.reason, model.asked) == ("turns", 4)


# -- cost and configuration -------------------------------------------------------------------------------------------


async def test_switched_off_nothing_of_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import watchkeeper.goal.conduct as conduct

    def never(*args: Any, **more: Any) -> Any:
        raise AssertionError("it is switched off")

    for name in ("Stagnation", "Direction"):
        monkeypatch.setattr(conduct, name, never)
    monkeypatch.setattr(Wording, "status", never)
    monkeypatch.setattr(Wording, "rules", never)
    outcome, events = await perform(Agent(wandering(4), [look], profile=BARE), TASK)
    assert outcome.answer == "done"
    assert {event.told for event in of(events, ModelRequested)} == {""}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"restate_goal": 0}, "restate_goal must be at least 1, or None for never; not 0"),
        ({"drift": 0}, "drift must be at least 1"),
        ({"thought_alert": 1}, "thought_alert must be at least 2"),
        ({"thought_force": 1, "thought_alert": None}, "thought_force must be at least 2"),
        ({"thought_alert": 5, "thought_force": 3}, r"thought_force \(3\) must not come before thought_alert \(5\)"),
    ],
)
def test_settings_that_cannot_work_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Agent(scripted(), profile=with_(**changes))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"words": None}, "the guide's words must be a function, not None"),
        ({"alike": 0.5}, "the guide's alike must be a function, not 0.5"),
        ({"judge": "gpt"}, "the guide's judge must be a function, not 'gpt'"),
        ({"judge_seconds": 0}, "judge_seconds must be more than 0, not 0"),
    ],
)
def test_a_guide_that_cannot_work_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Guide(**given)
