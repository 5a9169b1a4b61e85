"""The pilot of a planned run: asks the course what comes next, writes it down and tells the model. Never waits.

The agent asks it at three places: before a turn (:meth:`Pilot.turn`), about a reply (:meth:`Pilot.read` and
:meth:`Pilot.answered`), and where the run comes to its end (:meth:`Pilot.cut`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..allowance import Allowance
from ..budget import Budget
from ..decisions import BROKEN, THOUGHT, UNSTORED, WITHHELD, End, Push
from ..detect.chant import FINISH
from ..finishing import FINISHING
from ..messages import Event, ModelReplied, PlanChanged, Planned, PlanStep, Reminded, StepEnd, StepEnded, StepStarted
from ..model import Reply
from .course import ASK, CHANGE, NONE, SUM, AskChange, AskPlan, Course, GoWhole, Move, StartStep
from .reading import GOAL, Draft, Unread, read_plan, within

if TYPE_CHECKING:
    from ..run import Run
    from ..wording import Told
    from .settings import Planning

STEP_END = "plan_step_end"
KEPT = 4000
"""Characters of a finding that a fact keeps."""
_MISSING = re.compile(r"^[ \t>*#_`-]{0,12}MISSING[*_`]{0,3}[ \t]?[:：][*_`]{0,3}(.*)$", re.MULTILINE)
_NOTHING = frozenset({"", "none", "nothing", "n/a", "no", "nil", "null", "-"})


class Pilot:
    """One run's pilot. ``own``: the run's own view of its budget, which requests outside of steps draw from."""

    def __init__(self, run: Run, planning: Planning, own: Allowance) -> None:
        self._run = run
        self._log = run.log
        self._planning = planning
        self._words = run.supervisor.wording.plan
        self._own = own
        self.allowance = own
        """What the next request draws from."""
        self.course = Course(planning)
        run.log.attach(self.course)
        self._main = run.log.context
        self._asked = 0
        self._most = 0
        """Steps that the plan which is asked for may have."""
        self._began = 0.0
        self._closing: str | None = None
        """What the step has used up, so that this is its last turn."""
        self._text = ""

    def priced(self) -> None:
        """The price of the model is known."""
        self.allowance.price = self._own.price

    def remember(self, event: Event, wall: float) -> None:
        """A fact of an attempt that died, before the course sees it; ``wall``: the run's time until then."""
        run, course = self._run, self.course
        if event.context.startswith(f"{self._main} plan "):
            self._asked = int(event.context.rpartition(" ")[2])
        if isinstance(event, Reminded):
            self._remember_told(event.about)
        elif isinstance(event, StepStarted):
            run.step = event.goal
            limits = {name: amount for name, amount in event.allowance.items() if name != "seconds"}
            if limits:
                self._draw_from(Budget(run.budget, **limits))
            self._began, self._closing, self._text = wall, None, ""
        elif isinstance(event, StepEnded):
            self._closing, self._text = None, ""
            self._draw_from(run.budget)
        elif isinstance(event, ModelReplied) and course.phase == "stepping" and event.text.strip():
            self._text = event.text

    def _remember_told(self, about: str) -> None:
        run, course = self._run, self.course
        if about in (ASK, CHANGE):
            move = course.move(run.budget.left("turns"))
            self._most = move.most if isinstance(move, AskPlan | AskChange) else self._planning.steps
        elif about == SUM:
            run.step = ""
            self._draw_from(Budget(run.budget, turns=self._planning.step_turns))
        elif about == STEP_END:
            self._closing = "turns"
        elif about.startswith(FINISHING):
            self._draw_from(run.budget)

    # -- before a turn ------------------------------------------------------------------------------------------------

    def turn(self, left: float | None, estimate: Callable[[], int]) -> bool:
        """Begin what the next turn is for, and tell the model. ``left``: turns of the run; ``estimate``: tokens of the
        next request. Returns whether tools are off in this turn."""
        course = self.course
        if course.phase == "stepping" and (why := self._closing or self._used_up()):
            self._end("allowance", self._text, self._words.used_up(why))
        while course.phase in ("new", "between"):
            self._make(course.move(left), left)
        if course.phase == "stepping":
            return self._is_last_turn(estimate())
        if course.phase == "summing":
            return not self._run.evidence.missing()
        if self.asks:
            # What is said of the plan itself is no word of the work, and not to be compared with others: it is bounded
            # by its tries.
            self._asked += 1
            self._log.context = f"{self._main} plan {self._asked}"
        return self.asks

    @property
    def asks(self) -> bool:
        """The next reply is to be a plan, or a change of it."""
        return self.course.phase in ("planning", "changing")

    @property
    def in_step(self) -> bool:
        """An answer now is that of a step and not of the run."""
        return self.course.phase == "stepping"

    @property
    def bound(self) -> Budget:
        """The budget whose turns bring the run to its end: its own, or in the summing up what that may take of it."""
        return self._run.drawn if self.course.phase == "summing" else self._run.budget

    def _make(self, move: Move, left: float | None) -> None:
        course, words, run = self.course, self._words, self._run
        if isinstance(move, AskPlan):
            self._most = move.most
            tools = {tool.name: tool.description for tool in run.agent.tools.values()}
            self._tell(ASK, words.ask_plan(move.most, tools))
        elif isinstance(move, GoWhole):
            self._go_whole()
        elif isinstance(move, AskChange):
            self._most = move.most
            self._tell(CHANGE, words.ask_change(move.lacks, course.left, move.most))
        elif isinstance(move, StartStep):
            self._start(move)
        else:
            run.step = ""
            self._draw_from(Budget(run.budget, turns=self._planning.step_turns))
            self._tell(SUM, words.sum_up(run.task, course.outcome(), self._planning.finding))

    def _start(self, move: StartStep) -> None:
        course, run, planning = self.course, self._run, self._planning
        limits = {"turns": float(move.turns), **planning.step_limits}
        time = {} if planning.step_seconds is None else {"seconds": planning.step_seconds}
        before, of = tuple(course.records), len(course.records) + len(course.left)
        self._log.append(
            StepStarted,
            number=move.number,
            of=of,
            goal=move.step.goal,
            done_when=move.step.done_when,
            allowance={**limits, **time},
        )
        run.step = move.step.goal
        self._draw_from(Budget(run.budget, **limits))
        self._began, self._closing, self._text = run.wall_seconds(), None, ""
        self._tell("plan_step", self._words.step(move.number, of, move.step, move.turns, before, planning.finding))

    def _used_up(self) -> str | None:
        """What the step has used up in full."""
        own = self._run.drawn
        return "turns" if own.spent.get("turns", 0) >= own.limits["turns"] else None

    def _is_last_turn(self, estimate: int) -> bool:
        """Whether the step comes to its end with this turn; then tools are off, and the model is told."""
        own = self._run.drawn
        turns, spent = own.limits["turns"], own.spent.get("turns", 0)
        seconds = self._planning.step_seconds
        why: str | None = None
        if turns > 1 and turns - spent <= 1:
            why = "turns"
        elif seconds is not None and self._run.wall_seconds() - self._began >= seconds:
            why = "time"
        elif "calls" in own.limits and own.limits["calls"] - own.spent.get("calls", 0) < 1:
            why = "calls"
        elif self._planning.step_limits:
            # A small limit is no reason to go without tools from the start.
            uses = self.allowance.uses(())
            why = self.allowance.nearly_used(self._run.agent.profile.finish_at, uses, estimate if spent else 0)
        if why is None:
            return False
        self._closing = why
        self._tell(STEP_END, self._words.step_ending(len(self.course.records), why))
        return True

    # -- about a reply ------------------------------------------------------------------------------------------------

    def read(self, reply: Reply) -> Push | End | None:
        """Take a reply in that is to be a plan; None: that is done, and the next turn can begin."""
        if reply.finish in WITHHELD:
            return End("stopped", "filtered")
        if reply.calls:
            self._run.refuse_calls(reply.calls, self._words.plan_first())
        found = self._draft(reply)
        if self.course.phase == "changing":
            self._change(found)
            return None
        if isinstance(found, Draft) and not found.steps:
            found = Unread("it has no steps")
        if isinstance(found, Draft) and len(found.steps) > self._most and self.course.tries < self._planning.reasks:
            found = Unread(f"it has {len(found.steps)} steps; put together what belongs together")
        if isinstance(found, Draft):
            self._plan(found)
            return None
        if self.course.tries < self._planning.reasks:
            stored = bool(reply.text.strip() or reply.calls) and reply.finish not in UNSTORED
            last = self.course.tries == self._planning.reasks - 1
            return Push(self._words.plan_unread(found.problem, self._most, last).text, "plan", keep=stored)
        self._go_whole()
        self._tell(NONE, self._words.no_plan())
        return None

    def _draft(self, reply: Reply) -> Draft | Unread:
        if reply.finish in ("length", THOUGHT):
            return Unread("it was cut off at its length limit; make it shorter")
        if reply.finish == FINISH:
            return Unread("it went round and round in the same words and was cut off")
        if reply.finish in BROKEN:
            return Unread("it broke off")
        if reply.calls and not reply.text.strip():
            return Unread("it was a call of a tool")
        return read_plan(reply.text)

    def _plan(self, draft: Draft) -> None:
        steps = within(draft.steps, self._most)
        turns = self.course.turns(self._turns_left(), len(steps))
        self._log.append(Planned, steps=steps, question=draft.question, turns=turns)
        self._log.context = self._main

    def _change(self, found: Draft | Unread) -> None:
        """What is unreadable changes nothing."""
        course = self.course
        steps = within(found.steps, self._most) if isinstance(found, Draft) else course.left
        reason = course.records[-1].lacks
        self._log.append(PlanChanged, steps=steps, added=len(steps) - len(course.left), reason=reason)
        self._log.context = self._main

    def _go_whole(self) -> None:
        task = PlanStep(" ".join(self._run.task[:GOAL].split()))
        self._log.append(Planned, steps=(task,), turns=self._turns_left() or 0, whole=True)
        self._log.context = self._main
        self._log.append(StepStarted, number=1, of=1, goal=task.goal)

    def _turns_left(self) -> int | None:
        left = self._run.budget.left("turns")
        return None if left is None else int(left)

    def said(self, text: str) -> None:
        """What the model has said in a step, beside its calls: all that there is of it if it says no more."""
        self._text = text

    def answered(self, text: str) -> None:
        """The answer of a step."""
        missing = [line.strip() for line in _MISSING.findall(text)]
        lacks = "; ".join(line for line in missing if line.casefold().strip(" .*_`") not in _NOTHING)
        self._end("answer", text, lacks)

    def done(self, text: str) -> None:
        """The answer of the run."""
        if self.course.phase == "whole":
            self._end("answer", text, "")

    # -- the end of a step, or of the run ----------------------------------------------------------------------------

    def short(self, dimension: str) -> bool:
        """A request did not fit into what is left of the step, though into what the run has left: the step is over."""
        if self.allowance is self._own or not self.in_step:
            return False
        self._closing = dimension
        return True

    def cut(self, reason: str) -> None:
        """The run comes to its end: an open step ends with it, and what follows draws from the run's own budget."""
        if self.course.phase in ("stepping", "whole"):
            self._end("run", self._text, reason)
        self._log.context = self._main
        self._draw_from(self._run.budget)

    def _end(self, ended: StepEnd, finding: str, lacks: str) -> None:
        spent = dict(self._run.drawn.spent) if self.course.phase == "stepping" else {}
        self._log.append(
            StepEnded,
            number=len(self.course.records),
            ended=ended,
            finding=finding[:KEPT],
            lacks=lacks[:GOAL],
            spent=spent,
        )
        self._closing, self._text = None, ""
        self._draw_from(self._run.budget)

    def _draw_from(self, budget: Budget) -> None:
        run = self._run
        if budget is run.drawn:
            return
        run.drawn = budget
        if budget is run.budget:
            self.allowance = self._own
        else:
            self.allowance = Allowance(budget, run.agent.limits.reply_tokens)
            self.allowance.price = self._own.price
        if run.executor is not None:
            run.executor.draw_from(budget)

    def _tell(self, about: str, told: Told) -> None:
        self._log.append(Reminded, text=told.text, about=about)

    def snapshot(self) -> dict[str, Any]:
        course = self.course
        return {
            "phase": course.phase,
            "step": len(course.records),
            "goal": course.records[-1].goal if course.records else "",
            "left": [step.goal for step in course.left],
        }
