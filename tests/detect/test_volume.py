"""Runaway volume: calls, tokens, money, rate and depth of one run and its sub-agents, and a learned step line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest
from recorded import runs

from watchkeeper.detect.round import Pair, Ring, Round
from watchkeeper.detect.volume import UNLIMITED, Volume
from watchkeeper.ladder import Ladder, steps_of
from watchkeeper.messages import (
    Action,
    ChildEnded,
    ChildStarted,
    Event,
    Finding,
    RunStarted,
    Settled,
)
from watchkeeper.thresholds import Thresholds

E = TypeVar("E", bound=Event)


class Facts:
    """Facts for the detector, and what the ladder says to its findings."""

    def __init__(self, **thresholds: Any) -> None:
        settings = Thresholds(**thresholds)
        self.volume = Volume(settings)
        self.ladder = Ladder(steps_of(settings))
        self.n = 0
        self.t = 0.0
        self.findings: list[Finding] = []

    def tell(self, kind: type[E], **fields: Any) -> list[Action]:
        self.n += 1
        event = kind(n=self.n, run="r", at=0.0, t=self.t, **fields)
        fold = self.volume.folds.get(kind)
        return self._heard(fold(event) if fold is not None else ())

    def call(self, context: str = "main", calls: int = 1) -> list[Action]:
        """A round of so many calls, which are all alike."""
        self.n += 1
        pair = Pair(self.n, self.t, f"c{self.n}", "look", "k", "r", "finished")
        return self._heard(self.volume.round(Round([pair], calls), Ring(30), context))

    def _heard(self, found: Iterable[Finding]) -> list[Action]:
        made = list(found)
        self.findings += made
        return [action for finding in made if (action := self.ladder.judge(finding, ""))]

    def calls(self, times: int, **more: Any) -> dict[int, list[Action]]:
        said = {number: self.call(**more) for number in range(1, times + 1)}
        return {number: what for number, what in said.items() if what}

    def settle(self, **amounts: float) -> list[Action]:
        return self.tell(Settled, amounts=amounts, held="h1")

    def child(self, **used: Any) -> list[Action]:
        return self.tell(ChildEnded, child="r2", status="completed", reason="answer", **used)


def test_calls_beyond_the_line_are_told_and_far_beyond_it_stopped() -> None:
    facts = Facts(volume_calls=100)
    assert facts.calls(200) == {101: ["nudge"], 150: ["stop"]}
    first = facts.findings[0]
    assert (first.count, first.onset, first.subject) == (101, 101, "calls")
    assert first.calls == ("c101",)
    assert first.pattern == "101 calls, the line is 100"


def test_whoever_reaches_the_line_has_not_passed_it() -> None:
    facts = Facts(volume_calls=100)
    assert facts.calls(100) == {}
    assert facts.findings == []


def test_it_speaks_once_for_each_percent() -> None:
    facts = Facts(volume_calls=1000)
    facts.calls(1100)
    assert [finding.count for finding in facts.findings] == list(range(100, 111))
    assert len({finding.onset for finding in facts.findings}) == 1


def test_agents_of_one_run_count_together() -> None:
    facts = Facts(volume_calls=20)
    assert facts.calls(12, context="a") == {}
    assert facts.calls(12, context="b") == {9: ["nudge"]}


def test_every_call_of_a_fan_out_counts() -> None:
    facts = Facts(volume_calls=20)
    assert facts.call(calls=20) == []
    assert facts.call(calls=1) == ["nudge"]
    assert facts.call(calls=9) == ["stop"]


def test_sub_agents_count_for_their_parent() -> None:
    facts = Facts(volume_calls=100, volume_tokens=10_000)
    facts.calls(50)
    assert facts.child(calls=40, spent={"tokens": 9000}) == []
    assert facts.child(calls=20, spent={"tokens": 900}) == ["nudge"]
    assert facts.settle(tokens=101) == ["nudge"]
    assert [finding.subject for finding in facts.findings] == ["calls", "tokens"]


def test_a_child_of_an_older_file_reports_tokens_only() -> None:
    facts = Facts(volume_tokens=1000)
    assert facts.child(calls=1, tokens=1001) == ["nudge"]


def test_tokens_and_money() -> None:
    facts = Facts(volume_tokens=1000, volume_spend=2.0)
    assert facts.settle(tokens=900, money=1.5) == []
    assert facts.settle(tokens=200, money=0.1) == ["nudge"]
    assert facts.settle(tokens=1, money=1.0) == ["nudge"]
    assert [finding.subject for finding in facts.findings] == ["tokens", "spend"]


def test_depth() -> None:
    facts = Facts(volume_depth=2)
    assert facts.tell(ChildStarted, child="r2", agent="a") == []
    assert facts.child(depth=2) == []
    assert facts.child(depth=3) == ["nudge"]
    assert Facts(volume_depth=0).tell(ChildStarted, child="r2", agent="a") == ["nudge"]
    assert Facts(volume_depth=1).tell(ChildStarted, child="r2", agent="a") == []


def test_what_an_earlier_run_has_used_up_counts() -> None:
    """It goes on with its work."""
    earlier = {"calls": 90, "tokens": 900, "money": 1.5}
    facts = Facts(volume_calls=100, volume_tokens=1000, volume_spend=2.0)
    assert facts.tell(RunStarted, agent="a", task="t", earlier=earlier) == []
    assert facts.calls(11) == {11: ["nudge"]}
    assert facts.settle(tokens=100, money=0.5) == []
    assert facts.settle(tokens=1) == ["nudge"]
    assert facts.settle(money=0.01) == ["nudge"]


def test_what_is_not_said_is_none_of_it() -> None:
    for earlier in ({"turns": 3}, {}):
        facts = Facts(volume_calls=3, volume_tokens=3, volume_spend=3.0)
        facts.tell(RunStarted, agent="a", task="t", earlier=earlier)
        assert facts.calls(3) == {}
        for _ in range(5):
            assert facts.settle(requests=1) == []
        assert facts.settle(tokens=3, money=3.0) == []


# -- rate -------------------------------------------------------------------------------------------------------------


def at_pace(facts: Facts, seconds: float, apart: float) -> list[Action]:
    said, end = [], facts.t + seconds
    while facts.t < end:
        facts.t += apart
        said += facts.call()
    return said


def test_a_rate_that_lasts_a_minute() -> None:
    facts = Facts(volume_rate=60)
    assert at_pace(facts, 300, 1.1) == []
    assert "nudge" in at_pace(facts, 60, 0.5)


def test_the_first_minute_is_no_rate() -> None:
    facts = Facts(volume_rate=60)
    assert at_pace(facts, 59, 0.1) == []


def test_not_even_where_no_call_is_to_be_made() -> None:
    assert Facts(volume_rate=0).calls(9) == {}


def test_with_its_end_there_is_a_rate() -> None:
    facts = Facts(volume_rate=60)
    facts.t = 60.0
    assert facts.calls(61) == {61: ["nudge"]}


def test_what_is_a_minute_old_is_no_part_of_it() -> None:
    for apart, said in ((50, {21: ["nudge"]}), (60, {})):
        facts = Facts(volume_rate=60)
        facts.t = 100.0
        assert facts.calls(40) == {}
        facts.t += apart
        assert facts.calls(40) == said


def test_records_without_times_have_no_rate() -> None:
    assert Facts(volume_rate=60, volume_calls=10_000).calls(9000) == {}


def test_after_a_rest_it_begins_anew() -> None:
    facts = Facts(volume_rate=60)
    facts.t = 100.0
    assert facts.calls(70) == {61: ["nudge"]}
    facts.t = 200.0
    assert facts.calls(30) == {}
    facts.t = 300.0
    assert facts.calls(61) == {61: ["nudge"]}


# -- the step line, and the defaults ----------------------------------------------------------------------------------


def test_the_learned_step_line() -> None:
    facts = Facts(step_line=20)
    assert facts.calls(40) == {21: ["nudge"], 30: ["stop"]}
    assert facts.findings[0].pattern == "21 calls of a good run, the line is 20"


def test_two_lines_are_two_subjects() -> None:
    facts = Facts(step_line=10, volume_calls=12)
    assert facts.calls(14) == {11: ["nudge"], 13: ["nudge"]}


def test_each_step_of_a_jump() -> None:
    """A sub-agent that reports a thousand calls: told first, stopped with what comes next."""
    facts = Facts(volume_calls=100)
    assert facts.child(calls=1000) == ["nudge"]
    assert facts.calls(1) == {1: ["stop"]}


def test_by_default_no_run_that_is_known_to_be_good_comes_near() -> None:
    assert Facts().calls(11_000) == {2001: ["nudge"], 3000: ["stop"]}


def test_and_no_recorded_run_either(shared_data: Any) -> None:
    assert max(len(run["steps"]) for run in runs(shared_data)) < UNLIMITED / 10


def test_a_run_with_a_limit_of_its_own_needs_no_line() -> None:
    """Whoever says that it may make 10,000 calls has thought about it."""
    facts = Facts()
    facts.tell(RunStarted, agent="a", task="t", limits={"calls": 10_000, "turns": 20})
    assert facts.calls(9000) == {}
    facts = Facts()
    facts.tell(RunStarted, agent="a", task="t", limits={"calls": None, "turns": 20})
    assert facts.calls(2001) == {2001: ["nudge"]}


def test_a_line_that_is_given_holds_whatever_the_limit() -> None:
    facts = Facts(volume_calls=10)
    facts.tell(RunStarted, agent="a", task="t", limits={"calls": 10_000})
    assert facts.calls(11) == {11: ["nudge"]}


@pytest.mark.parametrize("name", ["volume_tokens", "volume_spend", "volume_rate", "volume_depth", "step_line"])
def test_the_other_lines_are_off(name: str) -> None:
    assert getattr(Thresholds(), name) is None


def test_lines_of_nothing() -> None:
    facts = Facts(volume_calls=0, volume_tokens=0)
    assert facts.call() == ["nudge"]
    assert facts.findings[0].count == 101
    assert facts.settle(tokens=0) == []
    assert facts.settle(tokens=5) == ["nudge"]
