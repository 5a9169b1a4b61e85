"""One case before the judge and the guards, as ``watchkeeper replay`` judges recorded runs; and whether it was right.

Steps without turns and times become what a record gives: each call a round of its own, all times zero. Where a
scenario has turns, times, texts or marks, the same events are put into rounds and given their times.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import msgspec
from scenario import Case, Step

from watchkeeper.cli.recorded import RecordedRun, events_of
from watchkeeper.cli.recorded import Step as RecordedStep
from watchkeeper.cli.review import Review, Settings
from watchkeeper.detect.chant import Chant
from watchkeeper.detect.silence import Silence
from watchkeeper.messages import (
    Call,
    CallEnded,
    CallProposed,
    ContextChanged,
    Event,
    ModelReplied,
    ModelStreamed,
    RunStarted,
    UserMessage,
)
from watchkeeper.thresholds import Thresholds


class Act(msgspec.Struct, frozen=True):
    """A nudge, block or stop, and the index of the step that it followed."""

    step: int
    action: str
    detector: str


class Trial(msgspec.Struct, frozen=True):
    """What was done in a case."""

    case: Case
    acts: tuple[Act, ...]

    @property
    def done(self) -> Act | None:
        """The first block or stop."""
        return next((act for act in self.acts if act.action != "nudge"), None)

    @property
    def nudged(self) -> bool:
        return any(act.action == "nudge" for act in self.acts)

    @property
    def delay(self) -> int | None:
        """Steps from the onset to the first block or stop, both counted."""
        return self.done.step - self.case.onset + 1 if self.done is not None else None

    @property
    def wrong(self) -> str | None:
        """What is wrong, in a few words; None: it is as it should be."""
        done, case = self.done, self.case
        if case.verdict == "benign":
            return f"false {done.action} at step {done.step} ({done.detector})" if done is not None else None
        if done is None:
            return "missed"
        if done.step < case.onset:
            return f"too early: {done.action} at step {done.step} ({done.detector}), onset {case.onset}"
        delay = done.step - case.onset + 1
        if delay > case.within:
            return f"too late: {done.action} at its step {delay} ({done.detector}), bar {case.within}"
        return None


def tried(case: Case, settings: Settings | None = None) -> Trial:
    """Judge the case with the defaults, or as ``settings`` say."""
    settings = settings or Settings()
    review = Review(case.id, settings)
    silence = Silence(settings.profile_of(None).thresholds.silence if settings.profile else Thresholds().silence)
    chant = Chant()
    acts: list[Act] = []
    heard = 0.0
    for index, event in events(case):
        if isinstance(event, float):
            if silence.judge(heard, event) is not None:
                acts.append(Act(index, "stop", "silence"))
            continue
        silence.observe(event)
        heard = event.t
        if isinstance(event, ModelStreamed):  # as where a stream is read: a chant cuts it off
            if chant.feed(event.channel, event.text) is not None:
                acts.append(Act(index, "block", "chant"))
                chant = Chant()
        elif isinstance(event, ModelReplied):
            chant = Chant()
        known = len(review.judgements)
        review.observe(event)
        acts += [Act(index, one.action, one.detector) for one in review.judgements[known:]]
    return Trial(case, tuple(acts))


def events(case: Case) -> Iterator[tuple[int, Event | float]]:
    """The events of a case, each with the index of its step; a number is a second at which nothing happens."""
    plain = all(step.kind == "tool" and step.turn is None and step.seconds is None for step in case.steps)
    recorded = _recorded(case)
    yield 0, next(recorded)
    index = 0
    if plain:
        for event in recorded:
            yield index, event
            index += isinstance(event, CallEnded)
    else:
        yield from _Timed(case, recorded).events()


def _recorded(case: Case) -> Iterator[Event]:
    """The calls as the events of a record."""
    spoken = 0
    steps = []
    for step in case.steps:
        spoken += step.kind == "user"
        if step.kind == "tool":
            user_turn = step.user_turn if step.user_turn is not None else spoken or None
            fields = {"args": step.args, "result": "" if step.result is None else step.result}
            call = RecordedStep(
                tool=step.tool or "", error=step.error, text=step.text, agent=step.agent, user_turn=user_turn, **fields
            )
            steps.append(call)
    return events_of(RecordedRun(case.id, tuple(steps), task=case.why), polls=case.polls)


class _Timed:
    """Weaves the recorded events into rounds, with their times, and with what is no call between them."""

    def __init__(self, case: Case, recorded: Iterator[Event]) -> None:
        self._case = case
        self._recorded = recorded
        self._n = 1
        self._t = 0.0
        self._turn = 0
        self._calls = 0

    def events(self) -> Iterator[tuple[int, Event | float]]:
        numbered = enumerate(self._case.steps)
        for (kind, turn), group in groupby(numbered, lambda one: (one[1].kind, one[1].turn)):
            if kind == "tool" and turn is not None:
                yield from self._round(list(group))
            else:
                for index, step in group:
                    yield from self._round([(index, step)]) if kind == "tool" else self._other(index, step)

    def _round(self, members: list[tuple[int, Step]]) -> Iterator[tuple[int, Event]]:
        """One reply of the model, all its calls proposed, then each one's end."""
        self._turn += 1
        parts = [self._next_call() for _ in members]
        first = members[0][0]
        context = parts[0][-1].context
        for said in [event for part in parts for event in part if isinstance(event, UserMessage)]:
            yield first, self._at(said)
        proposed = [event for part in parts for event in part if isinstance(event, CallProposed)]
        calls = tuple(Call(one.call_id, one.tool, one.arguments, slot) for slot, one in enumerate(proposed, 1))
        text = next((step.text for _, step in members if step.text), "")
        yield first, self._new(ModelReplied, context, text=text, calls=calls, finish="tool_calls")
        for slot, ((index, _), one) in enumerate(zip(members, proposed, strict=True), 1):
            yield index, self._at(one, slot)
        for slot, ((index, step), part) in enumerate(zip(members, parts, strict=True), 1):
            self._t += step.seconds or 0.0
            yield index, self._at(part[-1], slot)

    def _other(self, index: int, step: Step) -> Iterator[tuple[int, Event | float]]:
        self._t += step.seconds or 0.0
        context = step.agent or "main"
        if step.kind == "user":
            yield index, self._new(UserMessage, context, text=step.user)
        elif step.kind == "stream":
            yield index, self._new(ModelStreamed, context, channel=step.stream, text=step.text or "")
        elif step.kind == "text":
            self._turn += 1
            yield index, self._new(ModelReplied, context, text=step.text, stored=bool(step.text))
        elif step.mark == "resume":
            polls = self._case.polls
            fields: dict[str, Any] = {"agent": "recorded", "task": self._case.why, "polls": polls}
            yield index, self._new(RunStarted, context, continued=2 * self._calls, **fields)
        elif step.mark == "compaction":
            yield index, self._new(ContextChanged, context, reason="compaction", dropped=self._calls)
        elif step.kind == "quiet":
            self._t += step.quiet or 0.0
            yield index, self._t

    def _next_call(self) -> list[Event]:
        part = []
        for event in self._recorded:
            part.append(event)
            if isinstance(event, CallEnded):
                break
        self._calls += 1
        return part

    def _at(self, event: Event, slot: int = 0) -> Event:
        self._n += 1
        return msgspec.structs.replace(event, n=self._n, t=self._t, turn=self._turn, slot=slot)

    def _new(self, kind: type[Any], context: str, **fields: Any) -> Any:
        self._n += 1
        return kind(n=self._n, run=self._case.id, at=0.0, t=self._t, context=context, turn=self._turn, **fields)
