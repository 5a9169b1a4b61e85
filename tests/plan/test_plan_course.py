"""The course of a plan: for whatever a model does, its steps and turns stay within what was allowed. Pure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Planning
from watchkeeper.messages import (
    Event,
    ModelReplied,
    PlanChanged,
    Planned,
    PlanStep,
    Reminded,
    StepEnded,
    StepStarted,
    UserMessage,
)
from watchkeeper.plan.course import CHANGE, SUM, AskChange, AskPlan, Course, GoWhole, StartStep, SumUp
from watchkeeper.plan.reading import within


class Told:
    """A course and the facts that it is told, numbered."""

    def __init__(self, planning: Planning) -> None:
        self.course = Course(planning)
        self.n = 0

    def __call__(self, kind: type[Event], **fields: Any) -> None:
        self.n += 1
        event = kind(n=self.n, run="r", at=0.0, t=0.0, **fields)
        for of, apply in self.course.folds.items():
            if of is kind:
                apply(event)


def steps(*goals: str) -> tuple[PlanStep, ...]:
    return tuple(map(PlanStep, goals))


PLANS = st.builds(
    Planning,
    steps=st.integers(1, 15),
    growth=st.floats(0, 2),
    step_turns=st.integers(1, 10),
)


@given(PLANS, st.integers(0, 80), st.data())
def test_steps_and_turns_stay_within_what_was_allowed(planning: Planning, turns: int, data: Any) -> None:
    told = Told(planning)
    course, left = told.course, turns
    first = course.move(left)
    if turns < 4:
        assert first == GoWhole()
        return
    assert isinstance(first, AskPlan)
    assert 1 <= first.most <= planning.steps
    left -= data.draw(st.integers(1, min(3, left)))
    wanted = data.draw(st.integers(1, first.most))
    told(Planned, steps=steps(*map(str, range(wanted))))
    cap, changes, began = course.turns(left, wanted), 0, left
    while not isinstance(move := course.move(left), SumUp):
        if isinstance(move, AskChange):
            changes += 1
            told(Reminded, text="", about=CHANGE)
            left -= 1
            more = steps(*(f"{changes} {n}" for n in range(data.draw(st.integers(0, 30)))))
            kept = within(more, move.most)
            told(PlanChanged, steps=kept, added=len(kept) - len(course.left))
            continue
        assert isinstance(move, StartStep)
        assert 1 <= move.turns <= planning.step_turns
        assert move.turns < left, "nothing is left for the summing up"
        told(StepStarted, number=move.number, of=0, goal=move.step.goal)
        used = data.draw(st.integers(0, move.turns))
        left -= used
        ended = data.draw(st.sampled_from(["answer", "allowance"]))
        lacks = data.draw(st.sampled_from(["", "something"]))
        told(StepEnded, number=move.number, ended=ended, lacks=lacks, finding=f"{move.number} is {'x' * move.number}")
    told(Reminded, text="", about=SUM)
    assert left >= 1 or began < 1
    assert len(course.records) <= min(planning.steps, wanted + int(wanted * planning.growth))
    assert changes <= int(wanted * planning.growth)
    if not changes:
        assert began - left + 1 <= cap <= began
    assert course.phase == "summing"


def test_a_move_changes_nothing() -> None:
    told = Told(Planning())
    told(Planned, steps=steps("a", "b"))
    assert told.course.move(9) == told.course.move(9) == StartStep(1, PlanStep("a"), 4)
    assert told.course.move(None) == StartStep(1, PlanStep("a"), 8)
    assert told.course.move(1) == SumUp()


@pytest.mark.parametrize(
    ("found", "goes_on"),
    [
        (["Paris", "Paris"], False),
        (["Paris is it", "Lyon it was", "Paris is it"], False),
        (["Paris is it", "Lyon it was", "Nice will be"], True),
    ],
)
def test_steps_that_bring_the_same_words_end_the_plan(found: list[str], goes_on: bool) -> None:
    for called in (False, True):
        told = Told(Planning())
        told(Planned, steps=steps("a", "b", "c", "d"))
        for number, text in enumerate(found, 1):
            told(StepStarted, number=number, of=4, goal="x")
            if called:
                told(ModelReplied, text="", calls=(_call(),))
            told(StepEnded, number=number, ended="answer", finding=text)
        assert isinstance(told.course.move(20), StartStep) is (goes_on or called)
        assert told.course.incomplete is (goes_on or called)  # steps are left


def _call() -> Any:
    from watchkeeper.messages import Call

    return Call("c1", "look", "{}")


def test_who_speaks_begins_anew() -> None:
    told = Told(Planning())
    told(Planned, steps=steps("a", "b", "c"))
    for number in (1, 2):
        told(StepStarted, number=number, of=3, goal="x")
        told(StepEnded, number=number, ended="answer", finding="Paris")
    assert told.course.move(20) == SumUp()
    told(UserMessage, text="Lyon?", source="steer")
    assert isinstance(told.course.move(20), StartStep)
