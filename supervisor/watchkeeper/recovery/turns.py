"""How far the agent has come, as a fold over its own facts. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..decisions import BROKEN, THOUGHT, WITHHELD, Tries
from ..detect.chant import FINISH
from ..finishing import FINISHING, frees
from ..messages import (
    CallProposed,
    Event,
    LimitsRaised,
    ModelReplied,
    OpinionAsked,
    OpinionGiven,
    PlanChanged,
    Planned,
    PushedBack,
    Recovered,
    Reminded,
    Settled,
    StepEnded,
    TurnStarted,
    Usage,
)

OF_THE_AGENT = frozenset({"length", "chant", "empty", "unparsed", "evidence", "plan"})
"""Who sends a reply back before anybody examines it as an answer."""


class Turns:
    """Feed it the facts in order. ``finish_turns``: what the limits say."""

    def __init__(self, finish_turns: int) -> None:
        self._finish_turns = finish_turns
        self.turns = 0
        self.finishing: str | None = None
        self.finish_left = finish_turns
        self.reminded: set[str] = set()
        self.called = False
        self.tries = Tries()
        self.reasked = 0
        """Answers that were sent back by whoever examines them."""
        self.rejected: list[str] = []
        self.last_text = ""
        self.usage = Usage()
        self.tools_off = False
        self.asking = False
        """A turn has begun and has no reply yet."""
        self.reply: ModelReplied | None = None
        """The reply of this turn, as long as nothing has come of it that ends the turn."""
        self._opinion = self._whole = False
        self._folds: dict[type[Event], Callable[[Any], None]] = {
            TurnStarted: self._turn_started,
            Reminded: self._reminded,
            ModelReplied: self._replied,
            PushedBack: self._pushed_back,
            CallProposed: self._proposed,
            Settled: self._settled,
            OpinionAsked: self._opinion_asked,
            OpinionGiven: self._opinion_given,
            Recovered: self._opinion_given,
            LimitsRaised: self._raised,
            Planned: self._planned,
            **dict.fromkeys((PlanChanged, StepEnded), self._plan_went_on),
        }

    def observe(self, event: Event) -> None:
        fold = self._folds.get(type(event))
        if fold is not None:
            fold(event)

    def _turn_started(self, event: TurnStarted) -> None:
        self.turns += 1
        if self.finishing is not None:
            self.finish_left -= 1
        self.tools_off, self.asking, self.reply = not event.tools_on, True, None

    def _reminded(self, event: Reminded) -> None:
        if event.about.startswith(FINISHING):
            self.finishing = event.about.removeprefix(FINISHING)
            self.reminded.add("finish")
        else:
            self.reminded.add(event.about)

    def _raised(self, event: LimitsRaised) -> None:
        if frees(self.finishing, event.amounts):
            self.finishing, self.finish_left = None, self._finish_turns
            self.reminded.discard("finish")

    def _replied(self, event: ModelReplied) -> None:
        self.asking, self.reply = False, event
        if event.text.strip() and (event.finish != FINISH or not self.last_text):
            self.last_text = event.text
        if event.usage is not None:
            self.usage = _sum(
                self.usage,
                Usage(
                    cached_tokens=event.usage.cached_tokens,
                    reasoning_tokens=event.usage.reasoning_tokens,
                    cache_write_tokens=event.usage.cache_write_tokens,
                ),
            )
        finish, tries = event.finish, self.tries
        if finish in WITHHELD or finish in ("length", THOUGHT, FINISH):
            return
        tries.chanted = 0
        if finish in BROKEN:
            return
        tries.cut = 0
        if event.calls or event.text.strip():
            tries.empty = 0

    def _pushed_back(self, event: PushedBack) -> None:
        self.reply, tries = None, self.tries
        if event.answer:
            self.rejected.append(event.answer)
        if event.by == "length":
            tries.cut += 1
        elif event.by == "chant":
            tries.chanted += 1
        elif event.by == "empty":
            tries.empty += 1
        elif event.by == "unparsed":
            tries.unparsed += 1
        elif event.by == "evidence":
            tries.pushed += 1
        elif event.by not in OF_THE_AGENT:
            self.reasked += 1

    def _proposed(self, event: CallProposed) -> None:
        self.called = True

    def _planned(self, event: Planned) -> None:
        self.reply, self._whole = None, event.whole

    def _plan_went_on(self, event: Event) -> None:
        if not self._whole:  # else the answer of the one step is that of the run
            self.reply = None

    def _settled(self, event: Settled) -> None:
        if "input_tokens" in event.amounts and not self._opinion and not event.slot:
            read, written = event.amounts["input_tokens"], event.amounts.get("output_tokens", 0)
            self.usage = _sum(self.usage, Usage(int(read), int(written), estimated=event.estimated))

    def _opinion_asked(self, event: OpinionAsked) -> None:
        self._opinion = True

    def _opinion_given(self, event: Event) -> None:
        self._opinion = False


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
        one.reasoning_tokens + other.reasoning_tokens,
        one.estimated or other.estimated,
        one.cache_write_tokens + other.cache_write_tokens,
    )
