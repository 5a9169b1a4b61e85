"""Hand-over cycles between agents, and sub-tasks that are spawned again and again; agents that really work go on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.handover import TASKS, HandOver, Work, task_key
from watchkeeper.detect.round import Pair, Ring, Round
from watchkeeper.detect.waiting import is_poll
from watchkeeper.ladder import Ladder, steps_of
from watchkeeper.messages import Action, CallEnded, ChildEnded, ChildStarted, Event, Finding, Result, UserMessage
from watchkeeper.thresholds import Thresholds

E = TypeVar("E", bound=Event)


class Team:
    """Agents of one run and their calls. Each method answers with what the ladder makes of it."""

    def __init__(self, polls: Iterable[str] = ()) -> None:
        self.polls = frozenset(polls)
        self.detector = HandOver(Thresholds(), self.polls)
        self.ladder = Ladder(steps_of(Thresholds()))
        self.rings: dict[str, Ring] = {}
        self.n = 0
        self.findings: list[Finding] = []
        self.refuse = False
        """Whether calls are refused by a block of ours; the judge compares them by their last result."""

    def tell(self, kind: type[E], **fields: Any) -> None:
        self.n += 1
        assert not list(self.detector.folds[kind](kind(n=self.n, run="r", at=0.0, t=0.0, **fields)))

    def round(self, agent: str, *calls: tuple[str, str], tool: str = "look", ids: Iterable[str] = ()) -> list[Action]:
        """One turn of an agent: its calls and their results."""
        pairs = []
        for (key, result), call_id in zip(calls, list(ids) or [f"c{self.n + i}" for i in range(9)], strict=False):
            self.n += 1
            pair = Pair(self.n, 0.0, call_id, tool, f"{tool} {key}", result, "finished")
            pair.content, pair.arguments, pair.refused = result, key, self.refuse
            pair.poll = is_poll(pair, self.polls)  # as the judge does
            pairs.append(pair)
        whole, ring = Round(pairs), self.rings.setdefault(agent, Ring(30))
        ring.add(whole)
        found = list(self.detector.round(whole, ring, agent))
        self.findings += found
        return [action for finding in found if (action := self.ladder.judge(finding, ""))]

    def laps(self, laps: int, *agents: str, stint: int = 1) -> dict[int, list[Action]]:
        """Each agent does the same calls in its stint and hands over to the next; what was said in each lap."""
        said: dict[int, list[Action]] = {}
        for lap in range(1, laps + 1):
            for place, agent in enumerate(agents):
                for step in range(stint):
                    said.setdefault(lap, []).extend(self.round(agent, (f"{agent} {place} {step}", "ok")))
        return {lap: actions for lap, actions in said.items() if actions}


LADDER = {3: ["nudge"], 4: ["block"], 5: ["stop"]}


# -- cycles of agents -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agents", ["AB", "ABC", "ABAC", "ABCDE", "ABCDEFGH"])
@pytest.mark.parametrize("stint", [1, 2, 3])
def test_agents_that_hand_over_in_a_circle(agents: str, stint: int) -> None:
    """Told within three laps, stopped within five: at the end of the lap, whatever its length."""
    team = Team()
    assert team.laps(5, *agents, stint=stint) == LADDER
    assert [finding.count for finding in team.findings] == [2, 3, 4, 5]  # each lap is found once
    assert {finding.onset for finding in team.findings} == {1}


def test_the_finding_names_agents_and_calls() -> None:
    team = Team()
    team.laps(3, "planner", "coder", stint=2)
    (found,) = [finding for finding in team.findings if finding.count == 3]
    assert found.pattern == "hand-over cycle of 2: planner → coder"
    assert found.keys == ("look coder 1 1", "look planner 0 1")
    assert len(found.calls) == 2


def test_a_finding_about_agents_with_long_names_is_bounded() -> None:
    team = Team()
    team.laps(2, "a" * 200, "b" * 200)
    assert [len(finding.pattern) for finding in team.findings] == [300]


def test_of_equally_many_laps_those_of_the_shortest_cycle_are_named() -> None:
    team = Team()
    for _ in range(3):
        for agent in "ABCBCBC":
            team.round(agent, (agent, "ok"))
    assert team.findings[-1].pattern == "hand-over cycle of 2: B → C"


def test_an_agent_that_takes_no_part_in_the_cycle_completes_no_lap_of_it() -> None:
    """Though it does nothing new either."""
    team = Team()
    for agent in "CABABA":
        team.round(agent, (agent, "ok"))
    assert [finding.count for finding in team.findings] == [2]
    assert team.round("C", ("C", "ok")) == []
    assert len(team.findings) == 1


def test_one_new_thing_among_known_ones_is_news() -> None:
    team = Team()
    for number in range(20):
        for agent in "AB":
            assert team.round(agent, ("the plan", "as ever"), (f"{agent} {number}", "ok")) == []


def test_stints_of_uneven_length() -> None:
    """Some laps an agent does less of the same: the lap counts when the next agent is at work."""
    team = Team()
    said = []
    for lap in range(1, 7):
        said += [(lap, "A", action) for action in team.round("A", ("a", "x"))]
        for step in range(2 + lap % 2):
            said += [(lap, "B", action) for action in team.round("B", (f"b{step}", "y"))]
    # That of lap four, which is shorter than the one before, is whole when A is at work again.
    assert said == [(3, "B", "nudge"), (5, "A", "block"), (5, "B", "stop")]


def test_a_lap_after_honest_work_is_the_first() -> None:
    team = Team()
    for number in range(20):
        assert team.round("A", (f"a{number}", "x")) == []
        assert team.round("B", (f"b{number}", "y")) == []
    assert team.laps(5, "A", "B") == LADDER


def test_one_new_result_in_the_lap_begins_it_anew() -> None:
    team = Team()
    for number in range(10):
        assert team.laps(1, "A", "B") == {}
        assert team.round("A", ("test", f"{number} failed")) == []
        assert team.round("B", ("B 1 0", "ok")) == []


def test_equal_calls_with_new_results_are_news() -> None:
    team = Team()
    for number in range(30):
        assert team.round("A", ("status", f"{number} %")) == []
        assert team.round("B", ("wait", "ok")) == []


def test_planner_coder_and_reviewer_take_turns_with_new_work() -> None:
    team = Team()
    for number in range(20):
        assert team.round("planner", ("plan", "the plan")) == []  # it looks at the same plan each time
        assert team.round("planner", (f"to coder {number}", "handed over")) == []
        assert team.round("coder", ("read", f"version {number}")) == []
        assert team.round("reviewer", ("review", "fine" if number % 2 else "not fine")) == []


def test_workers_that_all_begin_alike_are_no_cycle() -> None:
    """One worker a part: each looks at the same things first, each for the first time."""
    team = Team()
    for number in range(30):
        for key in ("list", "readme"):
            assert team.round(f"worker {number}", (key, "as ever")) == []
        assert team.round("boss", ("next part", "go on")) == []


def test_one_agent_alone_is_for_the_other_detectors() -> None:
    team = Team()
    for _ in range(50):
        assert team.round("A", ("a", "x")) == []


def test_agents_that_poll_or_wait_are_no_cycle() -> None:
    team = Team(polls=["inbox"])
    for _ in range(30):
        assert team.round("A", ("", "empty"), tool="inbox") == []
        assert team.round("B", ("x", "same")) == []
        assert team.round("C", ("10", "ok"), tool="sleep") == []


def test_a_message_of_the_user_begins_anew() -> None:
    team = Team()
    for _ in range(10):
        assert team.laps(2, "A", "B") == {}
        team.tell(UserMessage, text="And now?")
        team.rings.clear()  # as the judge does


def test_a_message_of_the_user_begins_anew_for_agents_that_it_was_not_for_too() -> None:
    """What they have seen stays known."""
    team = Team()
    for _ in range(10):
        assert team.laps(2, "A", "B") == {}
        team.tell(UserMessage, text="And now?")


def test_the_same_turn_taking_after_a_break_climbs_anew() -> None:
    team = Team()
    assert team.laps(3, "A", "B") == {3: ["nudge"]}
    assert team.round("A", ("something", "new")) == []
    said = team.laps(6, "A", "B")
    assert [action for actions in said.values() for action in actions] == ["nudge", "block", "stop"]


@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 3)), max_size=60))
def test_whatever_comes_it_counts_only_what_was_seen_before(steps: list[tuple[str, int]]) -> None:
    """At its onset lies a whole lap, and since the first lap no agent has seen anything new."""
    team = Team()
    seen: list[tuple[str, int, bool]] = []
    for agent, number in steps:
        new = not any(one[:2] == (agent, number) for one in seen)
        seen.append((agent, number, new))
        before = len(team.findings)
        team.round(agent, (f"{number}", "x"))
        for finding in team.findings[before:]:
            since = seen[finding.onset - 1 :]
            switches = [one for one, other in itertools.pairwise(since) if one[0] != other[0]]
            assert finding.count >= 2
            assert len(switches) + 1 >= finding.count * 2
            fresh = [place for place, one in enumerate(since) if one[2]]
            lap = [place for place in range(1, len(since)) if since[place][0] != since[place - 1][0]]
            assert all(place < lap[1] for place in fresh)


# -- sub-tasks ------------------------------------------------------------------------------------------------------


class Boss(Team):
    """An agent with sub-agents as tools."""

    def __init__(self) -> None:
        super().__init__()
        self.children = 0

    def spawn(
        self, *tasks: tuple[str, str], status: str = "completed", agent: str = "coder", answer: str = ""
    ) -> list[Action]:
        """One turn with a sub-agent for each task: what it is to do, and what it did. Its answers are new each time, or
        ``answer``."""
        ids = []
        for task, work in tasks:
            self.children += 1
            ids.append(f"s{self.children}")
            child = f"r{self.children}"
            self.tell(ChildStarted, child=child, agent=agent, call_id=ids[-1], task=task, key=task_key(agent, task))
            self.tell(ChildEnded, child=child, status=status, reason="answer", work=work)
        answers = [(task, answer or f"in other words, number {self.children}") for task, _ in tasks]
        return self.round("main", *answers, tool=agent, ids=ids)


def test_a_sub_task_that_is_spawned_again_with_the_same_work() -> None:
    boss = Boss()
    said = {number: boss.spawn(("mend it", "w1")) for number in range(1, 6)}
    assert {number: what for number, what in said.items() if what} == LADDER
    found = boss.findings[-1]
    assert [finding.count for finding in boss.findings] == [2, 3, 4, 5]
    assert (found.tool, found.keys, found.onset) == ("coder", ("coder mend it",), 3)
    assert found.calls == ("s1", "s2", "s3", "s4", "s5")


def test_it_names_the_first_spawn_and_the_last_ones_and_shows_the_answer_in_bounds() -> None:
    boss = Boss()
    for _ in range(12):
        boss.spawn(("mend it", "w1"), answer="In other words: " + "it is done " * 50)
    assert boss.findings[-1].calls == ("s1", *(f"s{number}" for number in range(6, 13)))
    assert boss.findings[-1].known == ("In other words: " + "it is done " * 50)[:400]


def test_what_is_known_by_nothing_is_not_judged() -> None:
    """A sub-agent in a log that says no key of its task."""
    boss = Boss()
    for number in range(10):
        boss.tell(ChildStarted, child=f"r{number}", agent="coder", call_id=f"s{number}", task="mend it")
        boss.tell(ChildEnded, child=f"r{number}", status="completed", reason="answer", work="w1")
        assert boss.round("main", ("mend it", f"answer {number}"), tool="coder", ids=[f"s{number}"]) == []
    assert boss.findings == []


def test_as_many_sub_tasks_in_turn_as_a_run_may_start_are_followed() -> None:
    for tasks, told in ((TASKS, TASKS), (TASKS + 1, 0)):
        boss = Boss()
        said = [boss.spawn((f"task {task}", "w")) for _ in range(4) for task in range(tasks)]
        assert said.count(["nudge"]) == told


def test_a_new_call_and_a_new_sub_task_are_news_together_too() -> None:
    boss = Boss()
    for number in range(10):
        assert boss.spawn(("mend it", "w1")) == []
        assert boss.round("main", (f"edit {number}", "ok")) == []
        assert boss.spawn((f"part {number}", "w2"), agent="writer") == []


def test_a_spawn_that_is_refused_counts_on() -> None:
    boss = Boss()
    said = [boss.spawn(("mend it", "w1")) for _ in range(4)]
    assert said[3] == ["block"]
    boss.refuse = True
    assert boss.round("main", ("mend it", "in other words, number 4"), tool="coder") == ["stop"]


def test_one_that_only_talks_counts_too() -> None:
    """It sees the same task and nothing else each time."""
    boss = Boss()
    assert [boss.spawn(("what next?", "")) for _ in range(5)] == [[], [], ["nudge"], ["block"], ["stop"]]


def test_coder_and_reviewer_with_the_same_tasks_for_ever() -> None:
    boss = Boss()
    said = {}
    for lap in range(1, 6):
        said[lap] = boss.spawn(("mend it", "w1")) + boss.spawn(("is it right?", "w2"), agent="reviewer")
    assert {lap: what for lap, what in said.items() if "nudge" in what} == {3: ["nudge"]} | {
        lap: what for lap, what in said.items() if lap == 4 and "nudge" in what
    }
    assert "stop" in said[5]


def test_new_tasks_each_time_are_work() -> None:
    boss = Boss()
    for number in range(10):
        assert boss.spawn((f"part {number}", "w1")) == []
        assert boss.spawn((f"check part {number}", ""), agent="reviewer") == []


def test_the_same_task_with_other_work_is_progress() -> None:
    """The next item of a queue; a tester after each change."""
    boss = Boss()
    for number in range(10):
        assert boss.spawn(("take the next item", f"w{number}")) == []
        assert boss.spawn(("run the tests", "same"), agent="tester") == []


def test_the_same_task_after_something_new_is_honest() -> None:
    """Edit, let it be tested, edit, let it be tested."""
    boss = Boss()
    for number in range(10):
        assert boss.round("main", (f"edit {number}", "ok")) == []
        assert boss.spawn(("run the tests", "same"), agent="tester") == []


def test_looking_at_the_same_thing_in_between_is_nothing_new() -> None:
    boss = Boss()
    said: list[Action] = []
    for _ in range(6):
        said += boss.round("main", ("look", "as ever"))
        said += boss.spawn(("mend it", "w1"))
    assert said == ["nudge", "block", "stop"]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_restart_after_a_crash_is_what_a_supervisor_is_for(status: str) -> None:
    boss = Boss()
    for _ in range(8):
        assert boss.spawn(("mend it", "w1"), status=status) == []
    assert boss.spawn(("mend it", "w1")) == []


def test_one_that_is_stopped_in_a_loop_again_and_again() -> None:
    boss = Boss()
    assert [boss.spawn(("mend it", "w1"), status="stopped") for _ in range(5)][2:] == [["nudge"], ["block"], ["stop"]]


def test_a_parallel_fan_out_of_one_task_is_one_spawn() -> None:
    """Best of five, in one turn."""
    boss = Boss()
    assert boss.spawn(*[("try it", "")] * 5) == []
    assert boss.spawn(*[("try it", "")] * 5) == []
    assert boss.spawn(*[("try it", "")] * 5) == ["nudge"]


def test_what_a_host_starts_outside_of_calls_is_not_judged() -> None:
    team = Team()
    for number in range(20):
        team.tell(ChildStarted, child=f"r{number}", agent="a", task="t", key="k")
        team.tell(ChildEnded, child=f"r{number}", status="completed", reason="answer")
        assert team.round("main", (f"{number}", "x")) == []


def test_a_user_message_forgets_the_sub_tasks() -> None:
    boss = Boss()
    for _ in range(10):
        assert boss.spawn(("mend it", "w1")) == []
        assert boss.spawn(("mend it", "w1")) == []
        boss.tell(UserMessage, text="Again, please.")


def test_the_memory_is_bounded() -> None:
    boss = Boss()
    for number in range(1000):
        boss.spawn((f"task {number}", "w"))
        boss.round(f"agent {number}", ("a", "x"))
    assert len(boss.detector._tasks) <= 16
    assert len(boss.detector._stints) <= 9
    assert not boss.detector._running
    assert not boss.detector._ended


def test_what_makes_two_tasks_equal() -> None:
    key = task_key("coder", "Mend it.")
    assert len(key) == 32
    assert key == task_key("coder", "  mend\nit. ")
    assert (
        len({key, task_key("tester", "Mend it."), task_key("coder", "Mend it!"), task_key("coder", "Mend it.", ["x"])})
        == 4
    )


# -- the digest of a sub-agent's work -------------------------------------------------------------------------------


def work(*events: Event) -> str:
    fold = Work()
    for event in events:
        fold.folds[type(event)](event)
    return fold.digest


def ended(key: str, content: str, call_id: str = "c", **fields: Any) -> CallEnded:
    return CallEnded(
        n=1, run="r", at=0.0, t=0.0, result=Result(call_id, "look", "finished", content), key=key, **fields
    )


def test_equal_work_has_equal_digests_in_any_order() -> None:
    one, two = ended("a", "x"), ended("b", "y")
    assert work(one, two) == work(two, one) != work()
    assert len({work(one), work(two), work(one, one), work(one, two), work(ended("a", "y")), work()}) == 6
    assert work() == ""


def test_what_a_sub_agent_of_its_own_answered_is_left_out() -> None:
    def nested(answer: str, done: str, key: str = "a") -> str:
        envelope: dict[str, Any] = {"n": 1, "run": "r", "at": 0.0, "t": 0.0}
        return work(
            ChildStarted(child="r3", agent="a", call_id="c", **envelope),
            ChildEnded(child="r3", status="completed", reason="answer", work=done, **envelope),
            ended(key, answer),
        )

    assert nested("one way", "w1") == nested("another way", "w1") != nested("one way", "w2")
    assert nested("one way", "w1") != nested("one way", "w1", "b")  # what it was asked is not


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), min_size=1))
def test_a_digest_has_eight_bytes_whatever_was_done(done: list[tuple[str, str]]) -> None:
    assert len(work(*(ended(key, content) for key, content in done))) == 16
