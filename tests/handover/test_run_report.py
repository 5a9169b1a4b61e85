"""The report as data: what it says of a run, and what it does not take from a log that is cut."""

from __future__ import annotations

from typing import Any

import pytest

from reporting import Log, kinds
from watchkeeper import Outcome, Result
from watchkeeper.handover.report import LISTED, report_of
from watchkeeper.handover.story import ARGUMENTS, CALLS, FIRST, LAST, NOTES, RESULT, SAID
from watchkeeper.handover.words import Words
from watchkeeper.messages import CallRecord, Finding, Nudged, RunEnding, UserMessage, Verdict


def result(
    kind: Any = "finished", name: str = "c1", tool: str = "look", content: str = "saw it", **more: Any
) -> Result:
    return Result(name, tool, kind, content, **more)


def test_it_tells_the_goal_the_turns_and_the_calls() -> None:
    log = Log().begin("Find it.")
    log.round(
        ("look", '{"n": 1}', result(name="a", productive=True)),
        ("save", "{}", result("failed", "b", "save", "no room", error="disk_full")),
        text="I look first.",
    )
    report = report_of(log.outcome(), log.events)
    assert (report.goal, report.agent, report.model, report.run) == ("Find it.", "clerk", "m", "r1")
    assert report.began == 1_000.0
    (step,) = report.steps
    assert (step.turn, step.said) == (1, "I look first.")
    assert [(one.tool, one.kind, one.arguments, one.why) for one in step.calls] == [
        ("look", "finished", '{"n": 1}', ""),
        ("save", "failed", "{}", "disk_full"),
    ]
    (found,) = report.evidence
    assert (found.call, found.arguments, found.result) == ("a", '{"n": 1}', "saw it")
    assert [(use.tool, use.calls, use.finished, use.found, use.failed) for use in report.uses] == [
        ("look", 1, 1, 1, 0),
        ("save", 1, 0, 0, 1),
    ]


def test_numbers_come_from_the_outcome_not_from_what_is_left_of_the_log() -> None:
    log = Log().begin()
    log.looks(60)
    outcome = log.outcome(spent={"turns": 60.0, "tokens": 1234.0}, unknown={"money": 60})
    whole, late = report_of(outcome, log.events), report_of(outcome, log.events[-40:])
    assert (whole.first, late.first) == (1, log.events[-40].n)
    assert (whole.uses, whole.spend[1:], whole.calls) == (late.uses, late.spend[1:], late.calls)
    assert late.uses[0].calls == 60
    assert late.more_evidence == whole.more_evidence == 60 - LISTED
    # What is not in the log any more is known by name.
    assert [one.call for one in late.evidence] == [one.call for one in whole.evidence]
    assert [bool(one.result) for one in late.evidence] == [False] * 22 + [True] * 8
    assert Words().begins_late(whole) == ""
    assert f"begins with fact {late.first:,}" in Words().begins_late(late)
    assert (late.goal, late.agent) == ("", "")
    named = report_of(outcome, log.events[-40:], goal="g", agent="a", model="m", limits={"turns": 60.0})
    assert (named.goal, named.agent, named.model, named.spend[0].limit) == ("g", "a", "m", 60.0)


def test_of_a_long_run_the_beginning_and_the_end_are_told() -> None:
    log = Log().begin()
    log.looks(FIRST + LAST + 7)
    report = report_of(log.outcome(), log.events)
    assert [step.turn for step in report.steps] == [*range(1, FIRST + 1), *range(FIRST + 8, FIRST + LAST + 8)]
    assert report.left_out == 7


def test_of_a_wide_turn_some_calls_are_told() -> None:
    log = Log().begin()
    log.round(*(("look", "{}", result(name=f"c{n}", productive=True)) for n in range(CALLS + 5)))
    report = report_of(log.outcome(), log.events)
    assert (len(report.steps[0].calls), report.steps[0].more) == (CALLS, 5)
    assert len(report.evidence) == CALLS + 5  # the others are still known where they matter
    assert all(one.result for one in report.evidence)


def test_every_text_is_cut() -> None:
    log = Log().begin("g" * 10_000)
    log.round(("look", "a" * 10_000, result(content="r" * 10_000)), text="t" * 10_000)
    outcome = log.outcome(
        answer="x" * 100_000, partial="y" * 100_000, rejected=("z" * 100_000,) * 50, cause="c" * 10_000
    )
    report = report_of(outcome, log.events)
    (step,) = report.steps
    (call,) = step.calls
    for text, limit in (
        (report.goal, 4_000),
        (step.said, SAID),
        (call.arguments, ARGUMENTS),
        (call.result, RESULT),
        (report.outcome.answer or "", 20_000),
        (report.outcome.rejected[0], 4_000),
    ):
        assert limit < len(text) < limit + 40
        assert text.endswith("more characters)")
    assert len(report.outcome.rejected) == 5
    assert report.outcome.history == report.outcome.calls == ()


def test_what_was_said_in_a_turn_stands_with_it() -> None:
    log = Log().begin("The task.")
    log.looks(1)
    log.add(Nudged, text="It came 3 times.\nThe result is known.\nDo something else.", by="equal")
    log.add(UserMessage, text="Look elsewhere.", source="steer")
    log.looks(1)
    for _ in range(NOTES + 3):
        log.add(Nudged, text="Again.", by="equal")
    first, second = report_of(log.outcome(), log.events).steps
    assert first.notes == (("watchkeeper", "It came 3 times."), ("user", "Look elsewhere."))
    assert len(second.notes) == NOTES


def test_what_a_continued_run_was_told_first_comes_first() -> None:
    log = Log()
    log.begin("The goal.", continues="r0")
    log.events.pop()
    log.add(UserMessage, text="Go on, and leave b out.")
    log.looks(1)
    steps = report_of(log.outcome(), log.events).steps
    assert [(step.turn, step.notes) for step in steps] == [(0, (("user", "Go on, and leave b out."),)), (1, ())]
    assert Words().turn(0) == "Before the first turn"


def record(kind: Any, *, wrote: bool) -> CallRecord:
    return CallRecord(id=f"{kind}{wrote}", tool="save", turn=1, slot=1, kind=kind, wrote=wrote, frame="at save.py:3")


def test_what_nobody_knows_the_end_of_is_told_apart() -> None:
    ends: list[Any] = ["finished", "failed", "refused", "denied", "timed_out", "cancelled", "abandoned", "not_run"]
    calls = tuple(record(kind, wrote=wrote) for kind in ends for wrote in (True, False))
    report = report_of(Log().outcome(calls=calls), [])
    assert kinds(report.unsettled) == ["timed_out", "cancelled", "abandoned", "abandoned"]
    assert [one.wrote for one in report.unsettled] == [True, True, True, False]
    assert kinds(report.not_executed) == ["refused", "refused", "denied", "denied", "not_run", "not_run"]
    steps = [told for told, _ in Words().next_steps(report)]
    assert steps[0].startswith("Find out what became of 4 calls that were cut off")
    assert steps[1].startswith("Decide on 2 calls that the policy denied")


def test_a_run_that_never_began_has_a_report_too() -> None:
    report = report_of(Outcome(run="r1", status="handed_over", reason="asked", message="m"), [])
    assert (report.steps, report.uses, report.evidence, report.first, report.left_out) == ((), (), (), 0, 0)
    assert report.picture.bars == ()


def test_events_of_other_runs_do_not_count() -> None:
    log = Log().begin()
    log.looks(2)
    report = report_of(Outcome(run="another", status="stopped", reason="turns", message="m"), log.events)
    assert report.steps == ()


def test_spend_says_what_is_limited_what_was_used_and_what_nobody_knows() -> None:
    outcome = Log().outcome(spent={"turns": 3.0, "pages": 2.5}, unknown={"money": 2}, seconds=61.0)
    lines = report_of(outcome, [], limits={"turns": 20, "calls": None, "calls:look": 5, "seconds": 60.0}).spend
    words = Words()
    told = [
        (words.dimension(line.name), words.amount(line.name, line.spent, line.unknown), line.limit) for line in lines
    ]
    assert told == [
        ("turns", "3", 20),
        ("money", "unknown (2 requests)", None),
        ("time", "1 min 1 s", 60.0),
        ("calls of look", "0", 5),
        ("pages", "2.5", None),
    ]
    assert words.amount("money", 0.1234, 2) == "0.1234, and what 2 requests cost, which is unknown"


def test_what_is_no_number_is_no_limit() -> None:
    endless = float("inf")
    lines = report_of(Log().outcome(spent={"pages": endless}), [], limits={"turns": endless, "tokens": 5}).spend
    assert [(line.name, line.spent, line.limit) for line in lines] == [("tokens", 0, 5), ("seconds", 5.0, None)]


@pytest.mark.parametrize(("at", "said"), [(0.0, ""), (1.8e9, "2027-01-15 08:00 UTC"), (1e300, ""), (float("nan"), "")])
def test_when_it_began_is_said_if_that_can_be(at: float, said: str) -> None:
    assert Words().moment(at) == said


FINDING = Finding(detector="equal", pattern="equal call, equal result", count=8, tool="look", onset_call=1)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"reason": "turns"}, "worth more turns: who continues it grants that limit anew"),
        ({"reason": "working_time"}, "(Limits(working_seconds=…))"),
        ({"reason": "loop", "verdict": Verdict("stop", FINDING, "")}, "See what the watchdog saw (equal call"),
        ({"reason": "unpriced"}, "what the model costs"),
        ({"reason": "no_evidence"}, "can find anything"),
        ({"status": "failed", "reason": "model_unavailable"}, "the model's server"),
        ({"status": "failed", "reason": "crash"}, "See what failed"),
        ({"status": "completed", "reason": "answer", "answer": "x"}, "Check the answer"),
        ({"reason": "asked", "partial": "half of it"}, "as a draft"),
        ({"reason": "asked"}, "watchkeeper run --continue continue.token"),
    ],
)
def test_what_to_do_next_fits_how_it_ended(more: dict[str, Any], said: str) -> None:
    report = report_of(Log().outcome(**more), [])
    steps = [f"{told} {command}" for told, command in Words().next_steps(report)]
    assert any(said in step for step in steps), steps
    assert any("--continue" in step for step in steps) == (report.outcome.status != "completed")


def test_an_end_record_changes_nothing() -> None:
    log = Log().begin()
    log.looks(1)
    before = report_of(log.outcome(), log.events).steps
    log.add(RunEnding, status="stopped", reason="turns")
    assert report_of(log.outcome(), log.events).steps == before
