"""What a model reads of a plan. Replace it with ``Wording.plan`` in a subclass of the wording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..messages import PlanStep, StepRecord
from ..wording import Told, bounded, named
from .reading import EXAMPLE, GOAL

LISTED = 24
"""Tools that are named with what they are for."""
FOUND = 6000
"""Characters of findings that are shown at once; the oldest are shortened first."""


class PlanWording:
    """The default wording, in English: short and plain, for small models too."""

    def ask_plan(self, most: int, tools: Mapping[str, str]) -> Told:
        """``most``: steps. ``tools``: what each is for, by name."""
        shown = list(tools.items())[:LISTED]
        lines = "".join(f"\n- {named(name)}: {bounded(_first_line(what), 120)}" for name, what in shown)
        more = f"\n- and {len(tools) - LISTED} more" if len(tools) > LISTED else ""
        return Told(
            "Before the work begins, make a plan. Do not do the task yet, and call no tools.",
            f"The plan may have at most {_steps(most)}; fewer are better. "
            + (f"These tools can be used in the steps:{lines}{more}" if tools else "There are no tools."),
            f"Think about what the task asks for, then reply with the plan as JSON in this form:\n{EXAMPLE}",
        )

    def plan_unread(self, problem: str, most: int, last: bool) -> Told:
        """``last``: it is asked for the last time, in the form that the smallest models can write."""
        form = f"as JSON in this form:\n{EXAMPLE}"
        return Told(
            f"Your plan could not be used: {bounded(problem, 300)}.",
            f"Nothing was done yet. A plan has 1 to {most} steps, each with a goal.",
            f"Reply with the plan alone, {'as a numbered list, one short step a line.' if last else form}",
        )

    def plan_first(self) -> str:
        """Why a call was not run."""
        return "the plan is asked for first; tools can be used in its steps"

    def no_plan(self) -> Told:
        return Told(
            "There will be no plan: none of your replies could be used as one.",
            "The task stands as it was given, and tools can be used now.",
            "Do the task now, one small thing after the other, then answer in plain text.",
        )

    def step(
        self, number: int, of: int, step: PlanStep, turns: int, before: Sequence[StepRecord], finding: int
    ) -> Told:
        """``turns``: that it may take. ``before``: the steps that have ended. ``finding``: characters of each."""
        done = f"\nIt is done when: {step.done_when}" if step.done_when else ""
        last = before[-1] if before else None
        lack = f"\nThe step before it left this open: {bounded(last.lacks, GOAL)}" if last and last.lacks else ""
        known = (
            f"What the steps so far have found:\n{_findings(before, finding)}" if before else "Nothing is known yet."
        )
        return Told(
            f"Step {number} of {of}: {step.goal}{done}{lack}",
            known,
            f"Do this step only; it may take {_count(turns, 'turn')}. Then reply in plain text with what you found. If "
            "something could not be done, add a line that begins with MISSING: and says what.",
        )

    def step_ending(self, number: int, why: str) -> Told:
        """The last turn of a step, without tools. ``why``: the dimension that is used up, ``turns`` as a rule."""
        return Told(
            f"This is the last turn of step {number}: it has used up its {_dimension(why)}, and tools are off.",
            "What its calls have found stands above; there is no more for this step.",
            "Reply in plain text with what this step has found. If something is missing, add a line that begins with "
            "MISSING: and says what.",
        )

    def used_up(self, why: str) -> str:
        """What a step lacks that has said nothing."""
        return f"it was not finished: it had used up its {_dimension(why)}"

    def ask_change(self, lacks: str, left: Sequence[PlanStep], most: int) -> Told:
        """``lacks``: of the last step. ``left``: steps that are still to do. ``most``: that may be."""
        lines = "".join(f"\n- {step.goal}" for step in left) or " none"
        return Told(
            f"The last step did not reach its goal: {bounded(lacks, GOAL)}",
            f"These steps are still to do:{lines}",
            f"Reply with all steps that should be done from here on, at most {most}, as JSON in the form of the first "
            "plan; add or change what is needed for what is missing. Call no tools.",
        )

    def sum_up(self, task: str, steps: Sequence[StepRecord], finding: int) -> Told:
        opened = [step.goal for step in steps if step.ended != "answer"]
        unfinished = f" Not done to their end: {bounded('; '.join(opened), 600)}." if opened else ""
        return Told(
            f"The steps of the plan are over.{unfinished}",
            f"What they have found:\n{_findings(steps, finding)}",
            f"Now answer the task itself, in plain text and from what was found: {bounded(task, 600)}\n"
            "Say what is not done or not certain.",
        )


def _findings(steps: Sequence[StepRecord], most: int) -> str:
    """What each step has found, in the model's own words; all of them within a bound."""
    lines: list[str] = []
    room = FOUND
    for number, step in reversed([*enumerate(steps, 1)]):
        if step.ended is None:
            continue
        text = bounded(step.finding, max(min(most, room), 40)) if step.finding else "(nothing was said)"
        line = f"{number}. {bounded(step.goal, 100)}: {text}"
        if step.lacks and step.lacks not in step.finding:
            line += f" (missing: {bounded(step.lacks, 200)})"
        lines.append(line)
        room -= len(line)
    return "\n".join(reversed(lines)) or "(nothing)"


def _dimension(name: str) -> str:
    kind, _, tool = name.partition(":")
    if kind == "calls" and tool:
        return f"calls of {named(tool)}"
    return named(name.replace("_", " "))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _steps(number: int) -> str:
    return _count(number, "step")
