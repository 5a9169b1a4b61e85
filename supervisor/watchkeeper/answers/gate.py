"""The answer gate: what speaks against an answer, and whether it goes back, is accepted or ends the run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from ..decisions import Answer, End, Push
from ..guards.answer import AnswerGuard, Doubt, Draft, Reject
from ..messages import Unverified
from ..wording import Wording
from .form import Fitted, Form

MAX_MARKED = 100
"""Claims of an answer that are marked."""


class Objection(msgspec.Struct, frozen=True):
    """What speaks against an answer, and who says so. One with ``claims`` is a doubt: in the end it only marks them."""

    by: str
    message: str
    claims: tuple[Unverified, ...] = ()
    brief: str = ""
    """The message for a person, where it is long."""

    @property
    def final(self) -> bool:
        return not self.claims


class Gate:
    """The rules of one run's answers. It counts what it sends back: at most ``reasks`` in all, whoever objects.

    ``observe``: names of those that only note what they would have done, by ``note`` (the fields of a ``WouldRefuse``).
    """

    def __init__(
        self,
        guards: Sequence[AnswerGuard],
        wording: Wording,
        *,
        form: Form | None,
        reasks: int,
        observe: Collection[str] = (),
        note: Callable[..., object] = lambda **fields: None,
    ) -> None:
        self._guards = guards
        self._wording = wording
        self._form = form
        self._reasks = reasks
        self._observe = frozenset(observe)
        self._note = note
        self.reasked = 0

    def read(self, text: str, clean: Callable[[Any], Any]) -> tuple[Any, Objection | None]:
        """The value of an answer's text, or what is wrong with its form."""
        if self._form is None:
            return None, None
        read = self._form.read(text, clean)
        if isinstance(read, Fitted):
            return read.value, None
        lines = [f"{one.path}: {one.text}" if one.path else one.text for one in read.problems]
        told = self._wording.answer_misfit(lines, self._form.text())
        return None, self.noted(Objection("form", told.text, brief="; ".join(lines)))

    def objections(self, draft: Draft) -> list[Objection]:
        """What the rules say against it. Never raises."""
        return [one for one in map(self.noted, self._told(draft)) if one is not None]

    def noted(self, objection: Objection) -> Objection | None:
        """The objection, unless it comes from one who only observes: then it is noted and nothing else."""
        if objection.by not in self._observe:
            return objection
        self._note(by=objection.by, would="push", error="answer_invalid", text=objection.message)
        return None

    def may_send_back(self, last: bool) -> bool:
        return self.reasked < self._reasks and not last

    def settle(self, answer: Answer, value: Any, objections: Sequence[Objection], last: bool) -> Answer | Push | End:
        """``last``: there will be no other turn."""
        marked = tuple(claim for one in objections for claim in one.claims)[:MAX_MARKED]
        told = [one for one in objections if one.message]
        if told and self.may_send_back(last):
            self.reasked += 1
            left = self._reasks - self.reasked
            message = _alone(told) or self._wording.answer_refused([one.message for one in told], left).text
            return Push(message, told[0].by, keep=True, rejected=answer.text)
        if any(one.final for one in told):
            return End("stopped", "answer_invalid")
        return msgspec.structs.replace(answer, value=value, unverified=marked)

    def _told(self, draft: Draft) -> Iterable[Objection]:
        for guard in self._guards:
            try:
                decision = guard.answer(draft)
            except Exception as error:
                yield Objection(guard.name, self._wording.check_broken(guard.name, type(error).__name__))
                continue
            if isinstance(decision, Reject) and isinstance(decision.message, str) and decision.message:
                yield Objection(guard.name, decision.message)
            elif isinstance(decision, Doubt) and decision.claims:
                yield Objection(guard.name, decision.message, tuple(decision.claims)[:MAX_MARKED])
            elif decision is not None:
                yield Objection(guard.name, self._wording.check_broken(guard.name, "it answered with nonsense"))


def _alone(told: Sequence[Objection]) -> str | None:
    """The message about the form, which stands alone and has its three parts already."""
    return told[0].message if told[0].by == "form" else None
