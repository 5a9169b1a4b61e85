"""What a model reads of a plan: three parts each, and bounded whatever comes in."""

from __future__ import annotations

import pytest

from watchkeeper.messages import PlanStep, StepRecord
from watchkeeper.plan.reading import EXAMPLE, Draft, read_plan
from watchkeeper.plan.words import FOUND, PlanWording
from watchkeeper.wording import Told

WORDS = PlanWording()
LONG = "¶" * 100_000
RECORDS = [StepRecord(LONG[:300], "answer", LONG[:4000], LONG[:300]), StepRecord("b", "allowance"), StepRecord("c")] * 4
MESSAGES = {
    "ask_plan": WORDS.ask_plan(3, {f"{n}{LONG}": LONG for n in range(1000)}),
    "ask_plan without tools": WORDS.ask_plan(1, {}),
    "plan_unread": WORDS.plan_unread(LONG, 3, False),
    "plan_unread for the last time": WORDS.plan_unread(LONG, 3, True),
    "no_plan": WORDS.no_plan(),
    "step": WORDS.step(1, 3, PlanStep(LONG[:300], LONG[:300]), 1, RECORDS, 10**6),
    "first step": WORDS.step(1, 3, PlanStep("a"), 2, (), 800),
    "step_ending": WORDS.step_ending(2, f"calls:{LONG}"),
    "ask_change": WORDS.ask_change(LONG, [PlanStep(LONG[:300])] * 12, 3),
    "sum_up": WORDS.sum_up(LONG, RECORDS, 10**6),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_three_parts_none_of_them_empty_all_bounded(name: str) -> None:
    told = MESSAGES[name]
    assert isinstance(told, Told)
    assert all(part.strip() for part in (told.happened, told.known, told.next))
    assert len(told.text) < 16_000
    assert told.text.count("¶") < FOUND + 8_000


def test_findings_are_shown_oldest_first_and_the_newest_in_full() -> None:
    records = [StepRecord(f"goal {n}", "answer", f"{n}" * 700) for n in range(1, 10)]
    known = WORDS.step(10, 10, PlanStep("x"), 2, records, 800).known
    lines = known.splitlines()[1:]
    assert [line[:2] for line in lines] == [f"{n}." for n in range(1, 10)]
    assert lines[-1] == f"9. goal 9: {'9' * 700}"
    assert "more characters" in lines[0]
    assert sum(map(len, lines)) < FOUND + 1000


def test_what_is_missing_is_said_once() -> None:
    said = StepRecord("a", "answer", "a is red\nMISSING: its size", "its size")
    unsaid = StepRecord("a", "allowance", "a is red", "it was not finished")
    assert WORDS.sum_up("task", [said], 800).known.count("its size") == 1
    assert "(missing: it was not finished)" in WORDS.sum_up("task", [unsaid], 800).known
    assert "Not done to their end: a." in WORDS.sum_up("task", [unsaid], 800).happened


def test_the_form_that_is_shown_is_one_that_is_read() -> None:
    mine = EXAMPLE.replace("what to do in this step", "read the file").replace(
        "how you see that it is done", "it is read"
    )
    assert read_plan(mine) == Draft((PlanStep("read the file", "it is read"),), "what is asked, in one sentence")


def test_a_step_without_room_is_told_apart() -> None:
    assert "it may take 1 turn." in WORDS.step(1, 1, PlanStep("a"), 1, (), 9).next
    assert "calls of search" in WORDS.step_ending(1, "calls:search").happened
    assert WORDS.used_up("input_tokens") == "it was not finished: it had used up its input tokens"
