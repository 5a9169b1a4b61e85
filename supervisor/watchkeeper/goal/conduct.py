"""How an agent goes about its task: what it reads at the end of each request, and what follows when it thinks in
circles or loses its goal. Decides without waiting; what it decides is carried out by the run's handle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..history import MARK
from ..ladder import Ladder
from ..messages import Action, DetectorFailed, Event, Finding, FindingMade, Message, ModelReplied, StepEnded, Verdict
from ..thresholds import Steps
from .direction import LOOKED_AT, Direction
from .guide import Course
from .shingles import words_of
from .stagnation import Stagnation
from .status import Standing

if TYPE_CHECKING:
    from ..agent import Agent
    from ..run import Run
    from ..wording import Wording

STAGNATION = "stagnation"
DRIFT = "drift"


class Conduct:
    """One run's. What the profile leaves out costs nothing.

    Near-equal thoughts and drift climb a ladder like what the watchdog finds, in the mode of the run: ``nudge`` says a
    word, ``block`` (of thoughts: the calls of that reply are not run, and the model has to decide), then ``stop``, or a
    pause where a person attends the run.
    """

    def __init__(self, run: Run, agent: Agent, wording: Wording) -> None:
        profile = agent.profile
        self._run = run
        self._wording = wording
        self._guide = agent.guide
        self._shows_status = profile.status_line
        self._every = profile.restate_goal
        self._drift = profile.drift
        alert, force = profile.thought_alert, profile.thought_force
        self._thoughts = Stagnation(agent.guide.alike) if (alert, force) != (None, None) else None
        self._direction: Direction | None = None
        self._asks = agent.guide.judge is not None
        """Whether there is a judge, and none that has failed."""
        self._later = ""
        """The user's last word after the task."""
        said = run.history.messages() if profile.drift is not None else ()
        self._earlier = [one.content for one in said if one.role == "user" and one.mark is None]
        steps = {
            STAGNATION: Steps(alert, force, force + 1 if force is not None else None),
            DRIFT: Steps(profile.drift),
        }
        self._ladder = Ladder(steps, run.guard_mode, attended=run.attended)
        self.forced = False
        """The model is to decide in this turn: it has thought the same too often."""
        self._remembers = False
        if agent.plan is not None:
            run.log.attach(self)

    @property
    def folds(self) -> dict[type[Event], Callable[[Any], None]]:
        return {StepEnded: self._step_ended}

    # -- what the model reads ----------------------------------------------------------------------------------------

    def instructions(self, agent: Agent) -> str:
        """The system prompt: the agent's own instructions, then the rules."""
        if not agent.profile.goal_rules:
            return agent.instructions
        rules = self._guide.rules
        if rules is None:
            rules = self._wording.rules(self._guide.form, bool(agent.tools))
        return "\n\n".join(part for part in (agent.instructions, rules) if part)

    def last_word(self, standing: Standing, after_user: bool, more: Sequence[str] = ()) -> str:
        """What stands at the end of this turn's request and is not kept: the status line, behind ``more`` and the goal
        where it is due. ``after_user``: the user has spoken last, so that the goal need not be said again."""
        parts = list(more)
        if self._every is not None and standing.turn % self._every == 0 and not after_user:
            parts.append(self._wording.goal(self._run.task, self._later))
        if self._shows_status:
            parts.append(self._wording.status(standing))
        text = "\n".join(part for part in parts if part)
        return f"{MARK} {text}" if text else ""

    @property
    def says_anything(self) -> bool:
        return self._shows_status or self._every is not None

    def remember(self, reply: ModelReplied) -> None:
        """A reply with calls of an attempt that died: what followed from it is in the log."""
        self._remembers = True
        self.acts(reply)
        self._remembers = False

    # -- what becomes of what it does --------------------------------------------------------------------------------

    def user_spoke(self, text: str) -> None:
        self._later = text
        self._think_anew()
        if self._direction is not None:
            try:
                self._direction.user_spoke(text)
            except Exception as error:
                self._failed("words", error)

    def _step_ended(self, event: StepEnded) -> None:
        self._think_anew()

    def _think_anew(self) -> None:
        self.forced = False
        if self._thoughts is not None:
            self._thoughts.begin()

    def acts(self, reply: ModelReplied) -> bool:
        """Judge a reply with calls that would be run now; False: they are not to be run, and have their results."""
        runs = self._thoughts is None or self._think(self._thoughts, reply)
        if self._drift is not None and runs:
            self._steer(reply, self._drift)
        return runs

    def _think(self, thoughts: Stagnation, reply: ModelReplied) -> bool:
        forced, self.forced = self.forced, False
        try:
            again = thoughts.think(reply.text, reply.reasoning, reply.n)
        except Exception as error:
            thoughts.by_shingles()
            self._failed("alike", error)
            return True
        if not again and forced and not (reply.text.strip() or reply.reasoning.strip()):
            thoughts.say_nothing()
            again = True
        if not again:
            return True
        count = thoughts.count
        finding = Finding(
            detector=STAGNATION,
            pattern="near-equal thoughts",
            count=count,
            subject=STAGNATION,
            calls=tuple(call.id for call in reply.calls[:8]),
            onset=thoughts.onset,
        )
        action = self._judge(finding)
        if action is None:
            return True
        if action == "nudge":
            self._rule(action, finding, self._wording.stagnation(action, count).text, reply.n)
            return True
        self.forced = action != "stop"
        if not self._remembers:
            self._run.refuse_calls(
                reply.calls, by=STAGNATION, told=lambda tool: self._wording.not_run_stagnant(tool, count)
            )
        self._rule(action, finding, self._wording.stagnation(action, count).text, reply.n)
        return False

    # -- drift -------------------------------------------------------------------------------------------------------

    def _steer(self, reply: ModelReplied, at: int) -> None:
        try:
            if self._direction is None:
                said = (*self._earlier, self._run.task, self._later)
                self._direction = Direction(self._guide.words, said)
            direction = self._direction
            thought = f"{reply.reasoning[: LOOKED_AT // 4]}\n{reply.text}" if reply.reasoning else reply.text
            direction.acted(thought, reply.calls, self._run.step, reply.n)
        except Exception as error:
            self._failed("words", error)
            return
        if direction.count >= at:
            self._drifted("no word of the goal", direction.count, direction.onset, reply.n)

    def question(self) -> Course | None:
        """What to ask the judge now, if there is one and it is due."""
        direction, at = self._direction, self._drift
        if not self._asks or direction is None or at is None or direction.turns < at:
            return None
        direction.turns = 0
        return Course(self._run.task[:LOOKED_AT], self._run.step, direction.said[-at:])

    def judged(self, drifts: object, error: str | None = None) -> None:
        """Take the judge's word. ``error``: why it has said nothing; it is not asked again then."""
        if error is not None:
            self._asks = False
            self._note_failure("judge", error)
        elif drifts is True and self._direction is not None and self._drift is not None:
            self._drifted("a judge says so", self._drift, self._run.log.n, self._run.log.n)

    def _drifted(self, pattern: str, count: int, onset: int, cause: int) -> None:
        finding = Finding(detector=DRIFT, pattern=pattern, count=count, subject=DRIFT, onset=onset)
        action = self._judge(finding)
        if action is not None:
            told = self._wording.drifted(self._run.task, self._later, self._run.step, count)
            self._rule(action, finding, told.text, cause)

    # -- both --------------------------------------------------------------------------------------------------------

    def _judge(self, finding: Finding) -> Action | None:
        action = self._ladder.judge(finding)
        if (action is not None or self._run.guard_mode == "observe") and not self._remembers:
            self._run.log.append(FindingMade, finding=finding)
        return action

    def _rule(self, action: Action, finding: Finding, message: str, cause: int) -> None:
        if not self._remembers:
            self._run.rule(Verdict(action, finding, message, finding.detector), cause)

    def _failed(self, what: str, error: Exception) -> None:
        """A host's function has raised: its place is taken by ours, and the run goes on."""
        if what == "words":
            self._direction = Direction(words_of, (*self._earlier, self._run.task, self._later))
        self._note_failure(what, f"{type(error).__name__}: {error}")

    def _note_failure(self, what: str, error: str) -> None:
        log = self._run.log
        if not self._remembers:
            log.append(DetectorFailed, detector=f"guide.{what}", error=log.redaction.within(error, 500))


def end_in(messages: list[Message], text: str) -> None:
    """Put a text at the very end of a conversation: in its last message, for there are templates of chats that take no
    second message of a user in a row, and none right behind the result of a tool."""
    if not text:
        return
    if not messages or messages[-1].role == "assistant":
        messages.append(Message("user", text, mark="watchkeeper"))
        return
    last = messages[-1]
    messages[-1] = msgspec.structs.replace(last, content=f"{last.content}\n\n{text}")
