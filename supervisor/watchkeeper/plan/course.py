"""The course of a plan: its steps and how far they have come, as a fold over the log, and what comes next. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ..detect.monologue import alike, words_of
from ..messages import (
    Event,
    ModelReplied,
    PlanChanged,
    Planned,
    PlanStep,
    PushedBack,
    Reminded,
    StepEnded,
    StepRecord,
    StepStarted,
    UserMessage,
)
from .settings import AROUND, LEAST_TURNS, Planning

ASK, CHANGE, SUM, NONE = "plan", "plan_change", "plan_sum", "plan_none"
"""What the messages of a plan are about (``Reminded.about``); ``plan_step`` and ``plan_step_end`` beside them."""

Phase = Literal["new", "planning", "between", "stepping", "changing", "summing", "whole", "free"]
"""``whole``: the one step is the task itself. ``free``: the user has spoken after the steps; no plan any more."""


class AskPlan(msgspec.Struct, frozen=True):
    """Ask the model for a plan of at most so many steps."""

    most: int


class GoWhole(msgspec.Struct, frozen=True):
    """Do the task without a plan."""


class StartStep(msgspec.Struct, frozen=True):
    """Begin the step of that number, for at most so many turns."""

    number: int
    step: PlanStep
    turns: int


class AskChange(msgspec.Struct, frozen=True):
    """Ask the model which steps are still to do, at most so many."""

    most: int
    lacks: str


class SumUp(msgspec.Struct, frozen=True):
    """Ask for the answer."""


Move = AskPlan | GoWhole | StartStep | AskChange | SumUp


class Course:
    """Where the plan of a run stands. Attach it to the log; :meth:`move` says what comes next, and changes nothing."""

    def __init__(self, planning: Planning) -> None:
        self._planning = planning
        self.phase: Phase = "new"
        self.records: list[StepRecord] = []
        """The steps that were begun, in order; the last one may be open."""
        self.left: tuple[PlanStep, ...] = ()
        """Steps that were not begun yet."""
        self.tries = 0
        """Replies in a row that were no plan."""
        self._room = 0
        """Steps by which the plan may still grow."""
        self._wanting = False
        """The last step has left something open, and the plan was not looked at since."""
        self._made_up = False
        """A step ended by its allowance, and no change of the plan has made up for it."""
        self._said: tuple[frozenset[int], ...] = ()
        self._repeats = False
        self._called = False
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            Reminded: self._reminded,
            PushedBack: self._pushed_back,
            Planned: self._planned,
            StepStarted: self._started,
            StepEnded: self._ended,
            PlanChanged: self._changed,
            ModelReplied: self._replied,
            UserMessage: self._user_spoke,
        }

    # -- what comes next ----------------------------------------------------------------------------------------------

    def move(self, turns: float | None) -> Move:
        """What comes next in the phases ``new`` and ``between``. ``turns``: that the run has left; None: no limit."""
        left = 10**6 if turns is None else int(turns)
        if self.phase == "new":
            most = min(self._planning.steps, (left - AROUND) // LEAST_TURNS)
            return AskPlan(most) if most >= 1 else GoWhole()
        if self._wanting and (most := self.may_follow(left - 1)) >= 1:
            return AskChange(most, self.records[-1].lacks)
        if self.left and left >= 2 and not self._repeats:
            share = (left - 1) // len(self.left)
            return StartStep(len(self.records) + 1, self.left[0], max(min(share, self._planning.step_turns), 1))
        return SumUp()

    def may_follow(self, turns: int) -> int:
        """Steps that a changed plan may still have, if so many turns are left for them and the summing up; 0: it is
        not to be changed any more."""
        if self._room < 1:
            return 0
        unbegun = self._planning.steps - len(self.records)
        return min(len(self.left) + self._room, unbegun, (turns - 1) // LEAST_TURNS)

    def turns(self, left: int | None, steps: int) -> int:
        """The most turns that so many steps and the summing up may take, where the run has so many left."""
        most = steps * self._planning.step_turns + 1
        return most if left is None else min(most, left)

    @property
    def incomplete(self) -> bool:
        """A limit has kept a step from its end, or from its beginning: what comes of the run is not the whole work."""
        return self._made_up or (bool(self.left) and not self._repeats)

    def outcome(self) -> tuple[StepRecord, ...]:
        return (*self.records, *(StepRecord(step.goal) for step in self.left))

    # -- the fold -----------------------------------------------------------------------------------------------------

    def _reminded(self, event: Reminded) -> None:
        if event.about == ASK:
            self.phase = "planning"
        elif event.about == CHANGE:
            self.phase = "changing"
        elif event.about == SUM:
            self.phase = "summing"

    def _pushed_back(self, event: PushedBack) -> None:
        if event.by == "plan":
            self.tries += 1

    def _planned(self, event: Planned) -> None:
        self.left = event.steps
        self._room = 0 if event.whole else int(len(event.steps) * self._planning.growth)
        self.phase = "whole" if event.whole else "between"

    def _started(self, event: StepStarted) -> None:
        self.records.append(StepRecord(event.goal))
        self.left = self.left[1:]
        self._called = False
        if self.phase != "whole":
            self.phase = "stepping"

    def _replied(self, event: ModelReplied) -> None:
        if self.phase in ("stepping", "whole") and self.records:
            record = self.records[-1]
            self.records[-1] = msgspec.structs.replace(record, turns=record.turns + 1)
            self._called = self._called or bool(event.calls)

    def _ended(self, event: StepEnded) -> None:
        self.records[-1] = msgspec.structs.replace(
            self.records[-1], ended=event.ended, finding=event.finding, lacks=event.lacks
        )
        self._wanting = event.ended == "allowance" or bool(event.lacks)
        self._made_up = self._made_up or event.ended != "answer"
        self.phase = "between"
        said = words_of(event.finding)
        # The same words again without a call between: the steps that are left would bring no others.
        self._repeats = not self._called and any(alike(said, other) for other in self._said)
        self._said = () if self._called else (*self._said[-1:], said)

    def _changed(self, event: PlanChanged) -> None:
        if event.added > 0:
            self._made_up = False
        self.left = event.steps
        self._room -= max(event.added, 1)
        self._wanting = False
        self.phase = "between"

    def _user_spoke(self, event: UserMessage) -> None:
        self._said, self._repeats = (), False
        if event.source == "steer" and self.phase == "summing":
            self.phase = "free"
