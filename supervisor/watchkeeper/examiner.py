"""Examines an answer: first its form and the rules, then whoever has to be asked and waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .answers.exhibits import exhibits
from .answers.form import Form
from .answers.gate import Gate, Objection
from .answers.validators import Validator, Words
from .decisions import Answer, End, Push
from .failures import HOSTILE
from .guards.answer import AnswerGuard, Draft
from .guards.citing import Citing
from .messages import OpinionGiven, Unverified, WouldRefuse
from .model import Model
from .opinions.adviser import Adviser
from .opinions.functions import answer_of
from .opinions.second import Verification, Verifier
from .prices import Prices
from .provider import Provider
from .threads import Threads

if TYPE_CHECKING:
    from .run import Run

VALIDATOR_SECONDS = 10.0
"""Seconds that a validator gets; one that takes longer lets the answer not pass."""
SHOWN = 500
"""Characters of one message of a validator or a verifier that the model reads."""

Person = Callable[[str, str], Awaitable[bool | None]]
"""Asks a person whether an answer may count that nobody could verify; gets its text, and why it is asked. None: nobody
is there."""


class Examiner:
    """Whether one run's answers are accepted. ``person``: who decides where ``on_failure`` of the verifier says ask;
    without one, nobody does, and such an answer is not accepted."""

    def __init__(
        self,
        run: Run,
        gate: Gate,
        *,
        validators: Sequence[Validator],
        verifier: Verifier | None,
        adviser: Adviser | None,
        threads: Threads,
        person: Person | None = None,
    ) -> None:
        self._run = run
        self._gate = gate
        self._validators = validators
        self._verifier = verifier
        self.adviser = adviser
        self._threads = threads
        self._person = person
        self._wording = run.supervisor.wording

    def take_up(self, reasked: int) -> None:
        """So many answers have been sent back before."""
        self._gate.reasked = reasked

    async def examine(self, answer: Answer, *, last: bool) -> Answer | Push | End:
        """``last``: there will be no other turn, so nothing can go back. What the verifier costs is charged; a cancel
        ends the examination at once."""
        run, gate = self._run, self._gate
        value, misfit = gate.read(answer.text, run.log.redaction.anything)
        if misfit is not None:
            return self._settled(answer, None, [misfit], last)
        form = run.agent.form
        draft = Draft(
            answer.text,
            value,
            run.task,
            run.ledger.entries,
            tuple(run.evidence.calls),
            answer.forced,
            typed=form is not None and value is not None,
        )
        objections = gate.objections(draft)
        objections += await self._invalid(draft)
        sent_back = any(one.message for one in objections) and gate.may_send_back(last)
        if self._verifier is not None and not sent_back and not any(one.final for one in objections):
            said = await self._verified(draft, self._verifier)
            if isinstance(said, End):
                return said
            objections += said
        return self._settled(answer, value, objections, last)

    def _settled(self, answer: Answer, value: Any, objections: list[Objection], last: bool) -> Answer | Push | End:
        decision = self._gate.settle(answer, value, objections, last)
        if isinstance(decision, End):
            told = "; ".join(" ".join((one.brief or one.message).split()) for one in objections if one.message)
            self._run.detail = self._run.log.redaction.within(f"What was wrong: {told}", 500)
        return decision

    # -- validators --------------------------------------------------------------------------------------------------

    async def _invalid(self, draft: Draft) -> list[Objection]:
        found = []
        for validator in self._validators:
            said = await self._ask(validator, draft)
            if said is not None and (objection := self._gate.noted(Objection("validators", said))) is not None:
                found.append(objection)
        return found

    async def _ask(self, validator: Validator, draft: Draft) -> str | None:
        """What it says against the answer; that it failed counts as much."""
        if isinstance(validator, Words):
            return validator(draft.text)
        name = str(getattr(validator, "__name__", type(validator).__name__))
        argument = draft.value if draft.typed and not getattr(validator, "of_text", False) else draft.text
        try:
            said = await answer_of(validator, argument, seconds=VALIDATOR_SECONDS, threads=self._threads)
        except TimeoutError:
            return self._wording.check_broken(name, f"it took longer than {VALIDATOR_SECONDS:g} s")
        except HOSTILE as error:
            return self._wording.check_broken(name, type(error).__name__)
        if said is None:
            return None
        if not isinstance(said, str) or not said:
            return self._wording.check_broken(name, f"it answered with a {type(said).__name__}")
        return self._run.log.redaction.within(said, SHOWN)

    # -- verifier ----------------------------------------------------------------------------------------------------

    async def _verified(self, draft: Draft, verifier: Verifier) -> list[Objection] | End:
        assert self.adviser is not None
        log, clock = self._run.log, self._run.seams.clock
        began = clock()
        data = exhibits(draft.goal, draft.text, self._run.history.messages(), draft.evidence, verifier.evidence)
        advice = await self.adviser.ask(
            f"{verifier.instructions}\n\n{self._wording.opinion_form(self.adviser.form_text)}",
            data,
            self._wording.opinion_misfit,
        )
        seconds = clock() - began
        if advice.failed:
            return await self._unverified(draft, verifier, advice.failed, advice.overrun, seconds)
        said: Verification = advice.value
        log.append(
            OpinionGiven,
            by="verifier",
            decision="allow" if said.accepted else "refuse",
            why=said.why[:SHOWN],
            seconds=seconds,
        )
        if not said.accepted:
            told = self._wording.verifier_refused(said.why[:SHOWN], [one[:SHOWN] for one in said.unsupported[:10]])
            objection = self._gate.noted(Objection("verifier", told))
            return [objection] if objection is not None else []
        claims = tuple(Unverified(one[:300], "unsupported") for one in said.unsupported[:20])
        return [Objection("verifier", "", claims)] if claims else []

    async def _unverified(
        self, draft: Draft, verifier: Verifier, why: str, overrun: bool, seconds: float
    ) -> list[Objection] | End:
        """There is no opinion: what was to be done in that case. It is not the model's fault, so nothing goes back."""
        decision = verifier.on_failure
        accepted, asked = decision == "allow", ""
        self._run.log.append(OpinionGiven, by="verifier", decision=decision, failed=why, seconds=seconds)
        if overrun:
            return End("stopped", "overrun")
        if decision == "ask" and self._person is not None:
            said = await self._person(draft.text, self._wording.why_unverified(why))
            accepted = said is True
            asked = "" if said is None else " Whoever was asked did not accept it."
        marked = Objection("verifier", "", (Unverified(draft.text[:300], "unchecked"),))
        if accepted or self._gate.noted(Objection("verifier", why)) is None:
            return [marked]
        self._run.detail = self._run.log.redaction.within(f"The verifier gave no opinion: {why}.{asked}", 500)
        return End("stopped", "answer_invalid")


def examiner_of(
    run: Run,
    guards: Sequence[AnswerGuard],
    *,
    prices: Prices,
    provider_of: Callable[[Model], Provider],
    threads: Threads,
    person: Person | None = None,
) -> Examiner:
    """The examiner of a run as its agent says; ``guards``: those of third parties."""
    agent, wording = run.agent, run.supervisor.wording
    gate = Gate(
        [Citing(wording, wanted=agent.cite), *guards],
        wording,
        form=agent.form,
        reasks=agent.limits.reasks,
        observe=agent.profile.observe,
        note=partial(run.log.append, WouldRefuse),
    )
    verifier, adviser = agent.verifier, None
    if verifier is not None and verifier.model is not None:
        model = verifier.model
        adviser = Adviser(
            run, verifier, model, by="verifier", form=Form(Verification), prices=prices, provider=provider_of(model)
        )
    return Examiner(
        run, gate, validators=agent.validators, verifier=verifier, adviser=adviser, threads=threads, person=person
    )
