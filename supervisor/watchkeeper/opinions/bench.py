"""The judge at work: asked about the calls of a turn before they are sent on; what it says is written down as facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from ..answers.form import Form
from ..decisions import End
from ..failures import HOSTILE
from ..guards.judged import Judged
from ..messages import Call, OpinionAsked, OpinionGiven
from ..model import Model
from ..naming import resolve
from ..prices import Prices
from ..provider import Provider
from ..redaction import MARK
from ..threads import Threads
from .adviser import Advice, Adviser
from .functions import answer_of
from .second import Asked, Judge, Question, Ruling

if TYPE_CHECKING:
    from ..run import Run

SHOWN = 4000
"""Characters of what was said, and of the arguments of one call, that a judge sees."""
WHY = 500
MOST_TOOLS = 64
"""Tools that a judge is told of."""
ARGUMENTS = 4000
"""Characters of the arguments of a call that a judge puts in the place of another."""
MOST_CALLS = 64
"""Calls in one question; those beyond it are not judged, and what is not judged does not run."""


class Bench:
    """Asks the judge of one run. ``guard`` carries out what it says."""

    def __init__(self, run: Run, judge: Judge, *, adviser: Adviser | None, threads: Threads) -> None:
        self._run = run
        self._judge = judge
        self.guard = Judged(run.supervisor.wording, every_turn=judge.every_turn, named=run.agent.profile.judged)
        self.adviser = adviser
        self._threads = threads
        self._observes = "judge" in run.agent.profile.observe
        self._tools = tuple(f"{name}({', '.join(tool.fields)})" for name, tool in run.agent.tools.items())[:MOST_TOOLS]

    async def rule(self, said: str, calls: Sequence[Call]) -> End | None:
        """Have the calls of a turn judged. The end of the run if the judge stops it."""
        judged: list[tuple[Call, Asked]] = []
        redaction = self._run.log.redaction
        assert self._run.executor is not None
        tools = self._run.executor.tools
        for call in calls:
            tool = resolve(call.tool, tools)
            if tool is None or not self.guard.covers(tool) or len(judged) >= MOST_CALLS:
                continue
            shown = redaction.within(call.arguments, SHOWN)
            if len(call.arguments) > SHOWN:
                shown += f" … ({len(call.arguments) - SHOWN} more characters)"
            judged.append((call, Asked(len(judged) + 1, tool.name, shown, tool.irreversible)))
        if not judged:
            return None
        clock = self._run.seams.clock
        began = clock()
        question = Question(
            self._run.task[:SHOWN], said[:SHOWN], self._run.log.turn, tuple(asked for _, asked in judged), self._tools
        )
        advice = await self._ask(question)
        return self._write(judged, advice, clock() - began)

    async def _ask(self, question: Question) -> Advice:
        judge = self._judge
        wording = self._run.supervisor.wording
        if self.adviser is not None:
            instructions = f"{judge.instructions}\n\n{wording.opinion_form(self.adviser.form_text)}"
            return await self.adviser.ask(instructions, question, wording.opinion_misfit)
        assert judge.rule is not None
        self._run.log.append(OpinionAsked, by="judge")
        try:
            ruling = await answer_of(judge.rule, question, seconds=judge.seconds, threads=self._threads)
        except TimeoutError:
            return Advice(failed=f"it gave none within {judge.seconds:g} s")
        except HOSTILE as error:
            return Advice(failed=f"it failed ({type(error).__name__})")
        if ruling is None:
            return Advice(Ruling("allow"))
        try:
            if isinstance(ruling, Ruling):  # as a model's word is: of its type throughout
                plain = self._run.log.redaction.anything(msgspec.to_builtins(ruling))
                return Advice(msgspec.convert(plain, Ruling))
        except (TypeError, ValueError, RecursionError):
            pass
        return Advice(failed=f"what it said is no ruling ({type(ruling).__name__})")

    def _replacing(self, ruling: Ruling) -> str:
        """The arguments of the call that it puts in the place of others, as a fact may hold them: a judge does not see
        secrets, and a call with what was cut out of them must not run. Empty: the call is refused."""
        try:
            arguments = msgspec.json.encode(ruling.arguments).decode()
        except (TypeError, ValueError, RecursionError):
            return ""
        known = ruling.tool in self._run.agent.tools and len(arguments) <= ARGUMENTS
        return arguments if known and MARK not in self._run.log.redaction.text(arguments) else ""

    def _write(self, judged: Sequence[tuple[Call, Asked]], advice: Advice, seconds: float) -> End | None:
        log, ruling = self._run.log, advice.value
        failed = "" if isinstance(ruling, Ruling) else advice.failed or "it said nothing"
        told = self._replacing(ruling) if not failed and ruling.decision == "replace" and ruling.tool else ""
        for call, asked in judged:
            why = instead = tool = arguments = ""
            if failed:
                decision = "refuse" if asked.irreversible else self._judge.on_failure
                why = f"the judge gave no opinion: {failed}"[:WHY]
            elif ruling.calls and asked.number not in ruling.calls:
                decision = "allow"
            else:
                decision, why, instead = ruling.decision, ruling.why[:WHY], ruling.instead[:WHY]
                if told:
                    tool, arguments = ruling.tool, told
            log.append(
                OpinionGiven,
                slot=call.slot,
                by="judge",
                decision=decision,
                why=why,
                call_id=call.id,
                instead=instead,
                tool=tool,
                arguments=arguments,
                failed=failed[:WHY],
                seconds=seconds,
            )
        if advice.overrun:
            return End("stopped", "overrun")
        if not failed and ruling.decision == "stop" and not self._observes:
            self._run.detail = log.redaction.within(f"The judge said: {ruling.why or 'nothing more'}", WHY)
            return End("stopped", "judge")
        return None


def bench_of(run: Run, *, prices: Prices, provider_of: Callable[[Model], Provider], threads: Threads) -> Bench:
    """The bench of a run whose agent has a judge."""
    judge = run.agent.judge
    assert judge is not None
    adviser = None
    if judge.model is not None:
        adviser = Adviser(
            run, judge, judge.model, by="judge", form=Form(Ruling), prices=prices, provider=provider_of(judge.model)
        )
    return Bench(run, judge, adviser=adviser, threads=threads)
