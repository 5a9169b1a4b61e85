"""The agent: prepares a view of the conversation, asks the model, decides on the reply, sends calls as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from ..agent import Agent
from ..allowance import Allowance
from ..asking import ask
from ..budget import Budget, Hold, Short
from ..decisions import Act, Answer, End, Push, Situation, Tries, decide
from ..detect.chant import FINISH, Chant
from ..detect.monologue import Thoughts
from ..guards.evidence import Evidence
from ..history import History
from ..ladder import strongest
from ..messages import (
    Held,
    Message,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Overrun,
    PushedBack,
    Reminded,
    Settled,
    TurnStarted,
    Usage,
    UserMessage,
    WouldRefuse,
)
from ..model import ModelError, Reply, Request
from ..prices import Prices
from ..provider import Provider
from ..retry import Again, GivingUp, retrying
from ..stopwatch import Timed
from .executor import Batch

if TYPE_CHECKING:
    from ..run import Run
    from ..wording import Wording

PER_MESSAGE = 8
"""Tokens that a chat template adds to a message, at most."""
TOKENS_PER_CHARACTER = 0.4
"""Estimate of the first request; later ones use what the server counted."""
MARGIN = 1.15


class AgentActor:
    """The actor. It keeps to its turns, its budget and its evidence, and ends with an :class:`End` or an answer."""

    def __init__(
        self,
        run: Run,
        agent: Agent,
        history: History,
        evidence: Evidence,
        *,
        budget: Budget,
        provider: Provider,
        prices: Prices,
        wording: Wording,
    ) -> None:
        self._run = run
        self._log = run.log
        self._agent = agent
        self._history = history
        self._evidence = evidence
        self._budget = budget
        self._provider = provider
        self._prices = prices
        self._allowance = Allowance(budget, agent.limits.reply_tokens)
        self._wording = wording
        redaction = run.log.redaction
        self._instructions = redaction.text(agent.instructions)
        self._specs = tuple(redaction.anything(tool.spec()) for tool in agent.tools.values())
        self._spec_characters = len(repr(self._specs)) + len(agent.instructions)
        self._tries = Tries()
        self._thoughts = Thoughts(agent.profile.thresholds, frozenset())
        self._density = TOKENS_PER_CHARACTER
        self._reminded: set[str] = set()
        self._finishing: str | None = None
        self._finish_left = agent.limits.finish_turns
        self._called = False
        self._open_hold: Hold | None = None
        self.usage = Usage()
        self.turns = 0
        self.rejected: list[str] = []
        self.last_text = ""

    async def run(self, batches: anyio.abc.ObjectSendStream[Batch]) -> Answer | End:
        """Work until there is an answer or an end. Nothing is lost on cancellation: all that counts is in the log."""
        self._allowance.price = await self._prices.of(self._agent.model)
        while True:
            await self._run.gate()
            # The one barrier: all facts so far are judged before the next turn begins.
            await self._log.passed("watchdog", self._log.n)
            tools_off = self._prepare()
            if isinstance(tools_off, End):
                return tools_off
            try:
                reply = await self._ask(tools_off)
            except ModelError as error:
                return self._model_failed(error)
            if isinstance(reply, End):
                return reply
            decision = self._decide(reply, tools_off)
            match decision:
                case Act():
                    self._called = True
                    shown = reply.shown if decision.calls is reply.calls else None
                    batch = Batch(decision.calls, decision.tools_off, shown)
                    await batches.send(batch)
                    await batch.done.wait()
                case Push():
                    self._log.append(
                        PushedBack,
                        text=decision.message,
                        by=decision.by,
                        answer=decision.rejected or "",
                        stored=decision.keep,
                    )
                case Answer() if self._run.steers:
                    pass  # the user has said something meanwhile: the conversation goes on
                case _:
                    return decision

    # -- prepare: no await -------------------------------------------------------------------------------------------

    def _prepare(self) -> bool | End:
        """Decide how the next turn is done: whether tools are off; or that there is none."""
        if self._run.ending is not None:
            return End("stopped", "ended")  # what ended it counts, not this
        self._take_steers()
        if self._run.stopping_after_turn:
            return End(self._run.ends_as, self._run.stopping_after_turn)
        agent, budget = self._agent, self._budget
        fired: dict[str, str] = {}
        times = self._run.times()
        up = next((one.reason for one in times if one.left <= 0), None)
        if up is not None:
            return End("stopped", up)
        left = budget.left("turns")
        if left is not None and left < 1 and not self.turns:
            return self._limit("turns")  # the finish window is for work that has begun
        over = self._over_limit()
        if over:
            fired["budget"] = over
        if left is not None and left < 1:
            fired["finish"] = "turns"
        elif near := self._nearly_used(times):
            fired["finish"] = near
        elif agent.profile.thought_force is not None and self._thoughts.count >= agent.profile.thought_force:
            fired["finish"] = "thoughts"
        if self._finishing is None and fired:
            reason = fired[strongest(fired) or "finish"]
            self._finishing = reason
            if not self._finish_left or (reason == "calls" and self._run.hands_over):
                return self._limit(reason)
        elif self._finishing is not None and not self._finish_left:
            return self._limit(self._finishing)
        # Answers without evidence are worse than late ones: while it is missing, tools stay on until the limit itself.
        tools_off = self._finishing is not None and (over is not None or not self._evidence.missing())
        if self._finishing is not None:
            if "finish" not in self._reminded:
                self._reminded.add("finish")
                told = self._wording.answer_now(self._finishing, tools_off, self.turns, self._run.ledger.by_tool)
                self._log.append(Reminded, text=told.text, about=f"finish_{self._finishing}")
            self._finish_left -= 1
        else:
            self._remind(times)
            budget.take({"turns": 1})
        self.turns += 1
        self._log.turn += 1
        self._log.append(
            TurnStarted, tools_on=not tools_off, left=int(left) - 1 if left is not None and left >= 1 else 0
        )
        return tools_off

    def _limit(self, reason: str) -> End:
        return End("stopped", reason)

    def _take_steers(self) -> None:
        while self._run.steers:
            self._log.user_turn += 1
            self._log.append(UserMessage, text=self._run.steers.popleft(), source="steer")
            self._thoughts.begin()

    def _over_limit(self) -> str | None:
        """A limit that is reached in full; in that dimension no tool is of use any more."""
        left = self._budget.left("calls")
        if left is not None and left < 1 and (not self._run.hands_over or self._run.calls_over_limit):
            return "calls"
        return None

    def _nearly_used(self, times: Sequence[Timed]) -> str | None:
        """A dimension of which no more is left than a last answer should have."""
        at = self._agent.profile.finish_at
        if at >= 1:
            return None
        return self._allowance.nearly_used(at, times, self._estimate() if self.turns else 0)

    def _remind(self, times: Sequence[Timed]) -> None:
        at, alert = self._agent.profile.remind_at, self._agent.profile.thought_alert
        if alert is not None and self._thoughts.count < alert:
            self._reminded.discard("thoughts")
        elif alert is not None and "thoughts" not in self._reminded:
            self._reminded.add("thoughts")
            self._log.append(Reminded, text=self._wording.thoughts(self._thoughts.count).text, about="thoughts")
        for name, share, left in self._allowance.uses(times):
            if share >= at and name not in self._reminded:
                self._reminded.add(name)
                told = self._wording.limit_near(name, share, left, self.turns, self._run.ledger.by_tool)
                self._log.append(Reminded, text=told.text, about=name)

    # -- ask ---------------------------------------------------------------------------------------------------------

    def _request(self, tools_off: bool, max_tokens: int | None) -> Request:
        system = (Message("system", self._instructions),) if self._instructions else ()
        choice = self._agent.tool_choice
        if tools_off:
            choice = "none"
        elif choice != "none" and self._called:
            choice = "auto"  # a forced call is forced once: else it would be forced for ever
        return Request(
            messages=system + self._history.view(),
            tools=self._specs,
            tool_choice=choice if self._specs else "auto",
            max_tokens=max_tokens,
            parallel=self._agent.parallel,
        )

    def _estimate(self) -> int:
        characters = self._history.characters + self._spec_characters
        messages = len(self._history) + 1
        return int(characters * self._density * MARGIN) + PER_MESSAGE * messages + 16

    async def _ask(self, tools_off: bool) -> Reply | End:
        """Ask with retries. Each attempt has a hold of its own; a failed one is charged at it."""
        agent, log = self._agent, self._log
        deadline = self._run.deadline()

        async def attempt(number: int) -> Reply | End:
            try:
                ticket = await self._wait_for_provider(deadline)
            finally:
                self._run.waits(False)
            estimate = self._estimate()
            hold = self._hold(estimate)
            if isinstance(hold, End):
                self._provider.released(self._run.seams.clock(), ticket=ticket)
                return hold
            began = self._run.seams.clock()
            try:
                max_tokens = int(hold.amounts["output_tokens"])
                request = self._request(tools_off, max_tokens)
                log.append(
                    ModelRequested,
                    model=agent.model.name,
                    attempt=number,
                    messages=len(request.messages),
                    input_estimate=estimate,
                    max_tokens=max_tokens,
                    tool_choice=request.tool_choice,
                )
                reply = await ask(
                    agent.model,
                    request,
                    log,
                    self._history.ids,
                    self._run.delta,
                    on_first_chunk=self._probe_answered,
                    attempt=number,
                    estimate=int(hold.amounts["tokens"]),
                    chant=Chant() if agent.profile.thresholds.chant_cut else None,
                    cut_chant=self._run.guard_mode != "observe",
                )
            except ModelError as error:
                now = self._run.seams.clock()
                self._provider.failed(now, error.kind, error.retry_after, ticket=ticket)
                self._charge(hold, None)
                if error.retryable:
                    raise Again(error, error.retry_after) from error
                raise GivingUp(error) from error
            except BaseException:
                self._provider.released(self._run.seams.clock(), ticket=ticket)
                self._charge(hold, None)
                raise
            self._provider.succeeded(self._run.seams.clock())
            over = self._charge(hold, reply.usage)
            self._learn(reply.usage)
            replied = log.append_clean(
                ModelReplied,
                text=reply.text,
                calls=reply.shown,
                finish=reply.finish,
                reasoning=reply.reasoning,
                usage=reply.usage,
                seconds=self._run.seams.clock() - began,
                stored=bool(reply.text.strip() or reply.calls) and reply.finish not in ("length", FINISH),
            )
            self._thoughts.replied(replied)
            if over:
                dimension, excess = next(iter(over.items()))
                log.append(Overrun, dimension=dimension, over=excess)
                self.last_text = reply.text or self.last_text
                self._settle_unrun(reply)
                return End("stopped", "overrun")
            return reply

        return await retrying(
            attempt,
            policy=agent.retry,
            seams=self._run.seams,
            deadline=deadline,
            on_retry=self._retried,
        )

    async def _wait_for_provider(self, deadline: float) -> int:
        """Wait for the rate limiter and the breaker that all runs of a provider share; the ticket of the attempt."""
        clock = self._run.seams.clock
        while (wait := self._provider.admit(clock())) > 0:
            if clock() + wait >= deadline:
                raise GivingUp(ModelError("overloaded", f"the provider is not to be asked for another {wait:.0f} s"))
            self._run.waits(True)
            await anyio.sleep(wait)
        return self._provider.ticket

    def _probe_answered(self) -> None:
        """The provider speaks again: a probe that was let through need not come to its end for others to follow."""
        if self._provider.state != "closed":
            self._provider.succeeded(self._run.seams.clock())

    def _hold(self, estimate: int) -> Hold | End:
        if self._allowance.unpriced and not self._run.may_be_unpriced():
            return End("stopped", "unpriced")
        hold = self._allowance.hold(estimate)
        if isinstance(hold, Short):
            return End("stopped", hold.dimension)
        self._log.append(Held, amounts=hold.amounts, held=hold.id)
        self._open_hold = hold
        return hold

    def charge_open(self) -> None:
        """At the end: a request that would not let go is charged at its hold."""
        if self._open_hold is not None:
            self._charge(self._open_hold, None)

    def _charge(self, hold: Hold, usage: Usage | None) -> dict[str, float]:
        """Settle a hold, once: a late reply costs no more. Returns what it took beyond a limit."""
        if not hold.open:
            return {}
        self._open_hold = None
        used, amounts, over, unknown = self._allowance.settle(hold, usage)
        self._log.append(Settled, amounts=amounts, held=hold.id, estimated=used.estimated, unknown=unknown)
        seen = self.usage
        self.usage = Usage(
            seen.input_tokens + used.input_tokens,
            seen.output_tokens + used.output_tokens,
            seen.cached_tokens + used.cached_tokens,
            seen.reasoning_tokens + used.reasoning_tokens,
            seen.estimated or used.estimated,
        )
        return over

    def _learn(self, usage: Usage | None) -> None:
        """Tokens per character of this model, from what the server counted; never below what was seen last."""
        characters = self._history.characters + self._spec_characters
        if usage is not None and usage.input_tokens and not usage.estimated and characters > 200:
            self._density = min(max(usage.input_tokens / characters, 0.05), 4.0)

    def _retried(self, number: int, error: Exception, wait: float) -> None:
        self._run.waits(True)
        kind = error.kind if isinstance(error, ModelError) else "unknown"
        self._log.append(
            ModelRetried, attempt=number, error=kind, wait=wait, detail=self._log.redaction.within(str(error), 500)
        )

    def _model_failed(self, error: ModelError) -> End:
        self._log.append(ModelFailed, error=error.kind, detail=self._log.redaction.within(str(error), 2000))
        self._run.detail = self._log.redaction.within(f"{error.kind}: {error}", 500)
        if error.kind == "context_length":
            return End("stopped", "context")
        return End("failed", "model_unavailable" if error.retryable else "model_refused")

    # -- decide ------------------------------------------------------------------------------------------------------

    def _decide(self, reply: Reply, tools_off: bool) -> Act | Push | Answer | End:
        situation = Situation(
            tools_off=tools_off,
            finishing=self._finishing is not None,
            missing=self._evidence.missing(),
            tools=self._agent.tools.keys(),
            pushbacks=self._agent.limits.pushbacks,
            empty_replies=self._agent.limits.empty_replies,
        )
        if reply.text.strip() and (reply.finish != FINISH or not self.last_text):
            self.last_text = reply.text
        decision = decide(reply, situation, self._tries, self._wording)
        if "evidence" in self._agent.profile.observe:
            decision = self._observed(decision, reply, situation)
        if isinstance(decision, Push) and decision.rejected is not None:
            self.rejected.append(decision.rejected)
        elif isinstance(decision, End) and decision.reason == "no_evidence":
            self.rejected.append(reply.text)
        return decision

    def _observed(
        self, decision: Act | Push | Answer | End, reply: Reply, situation: Situation
    ) -> Act | Push | Answer | End:
        """Where the evidence gate only observes, an answer that it would not accept is one."""
        if isinstance(decision, Push) and decision.by == "evidence":
            text = decision.message
        elif isinstance(decision, End) and decision.reason == "no_evidence":
            text = ""
        else:
            return decision
        self._log.append(WouldRefuse, by="evidence", would="push", error="no_evidence", text=text)
        return Answer(reply.text, forced=situation.finishing)

    def _settle_unrun(self, reply: Reply) -> None:
        """The calls of a reply that is paid for but cannot be acted on."""
        self._run.refuse_calls(reply.calls, "the budget is used up")

    def snapshot(self) -> dict[str, Any]:
        return {
            "turns": self.turns,
            "finishing": self._finishing,
            "finish_turns_left": self._finish_left,
            "pushed_back": self._tries.pushed,
            "evidence_missing": bool(self._evidence.missing()),
        }
