"""The agent: prepares a view of the conversation, asks the model, decides on the reply, sends calls as one batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectSendStream

from ..agent import Agent
from ..allowance import Allowance, Uses
from ..asking import ask
from ..budget import EXACT, Budget, Hold
from ..context.cuts import size
from ..context.density import Density
from ..context.room import Room
from ..decisions import UNSTORED, Act, Answer, End, Push, Situation, Tries, decide
from ..detect.chant import FINISH, Chant
from ..finishing import frees
from ..goal.conduct import Conduct, end_in
from ..goal.status import Left, Standing
from ..guards.evidence import NOTHING_MISSING, Evidence
from ..guards.request import Halt, Heard, Preview
from ..history import History
from ..ladder import strongest
from ..log import Log
from ..messages import (
    ContextCompacted,
    Event,
    Message,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Overrun,
    PushedBack,
    Reminded,
    StepRecord,
    TurnStarted,
    Usage,
    UserMessage,
    WouldRefuse,
)
from ..model import ModelError, Reply, Request
from ..prices import Prices
from ..provider import Provider
from ..recovery.turns import Turns
from ..retry import Again, GivingUp, retrying
from .executor import Batch
from .requests import Made, Requests, Size

if TYPE_CHECKING:
    from ..compacting import Compactor
    from ..examiner import Examiner
    from ..opinions.bench import Bench
    from ..plan.pilot import Pilot
    from ..run import Run
    from ..wording import Wording

CITED = "[call:"
"""With which a citation of a call begins: what an answer without any costs is one look for it."""
MAX_WORD = 2000
"""Characters of a word that a guard has in a request."""
LABEL = 64
"""Characters of the line above a result by which it is cited."""


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
        examiner: Callable[[], Examiner] | None = None,
        examined: bool = False,
        bench: Bench | None = None,
        heard: Callable[[Preview], Heard] | None = None,
    ) -> None:
        """``heard``: what guards say of a request that is about to be made."""
        self._run = run
        self._log = run.log
        self._agent = agent
        self._history = history
        self._evidence = evidence
        self._budget = budget
        self._prices = prices
        self._allowance = Allowance(budget, agent.limits.reply_tokens)
        self._wording = wording
        redaction = run.log.redaction
        self._conduct = Conduct(run, agent, wording)
        told = (self._conduct.instructions(agent), *self._about_answers())
        self._instructions = redaction.text("\n\n".join(filter(None, told)))
        self._last_word = ""
        self._specs = tuple(redaction.anything(tool.spec()) for tool in agent.tools.values())
        self._spec_characters = len(repr(self._specs)) + len(self._instructions)
        self._schema = agent.form.grammar if agent.form is not None and not agent.form.plain else None
        self._tries = Tries()
        self._reasked = 0
        """Answers that were sent back before a recovery."""
        self._taken: Turns | None = None
        """Where an attempt that died has left off, until that turn is done."""
        self._acted = False
        self._asked_with = 0
        self._density = Density()
        self._room = Room(agent.profile.context, getattr(agent.model, "context_window", None))
        self._compactor: Compactor | None = None
        self._reminded: set[str] = set()
        self._finishing: str | None = None
        self._finish_left = agent.limits.finish_turns
        self._called = False
        self._replied: ModelReplied
        """The last reply, as it is in the log."""
        self._pilot: Pilot | None = None
        if agent.plan is not None:
            from ..plan.pilot import Pilot

            self._pilot = Pilot(run, agent.plan, self._allowance)
        self._requests = Requests(run, provider, self._allowance, self._pilot)
        self._heard = heard
        self._make_examiner = examiner
        self._examined = examined
        self._examiner: Examiner | None = None
        self._bench = bench
        self.turns = 0
        self.rejected: list[str] = []
        self.last_text = ""

    @property
    def usage(self) -> Usage:
        """Of all its requests."""
        return self._requests.usage

    async def run(self, batches: MemoryObjectSendStream[Batch]) -> Answer | End:
        """Work until there is an answer or an end. Nothing is lost on cancellation: all that counts is in the log."""
        self._allowance.price = await self._prices.of(self._agent.model)
        if self._pilot is not None:
            self._pilot.priced()
        if self._taken is not None:
            ended = await self._finish_turn(self._taken, batches)
            self._taken = None
            if ended is not None:
                return ended
        elif self._run.memory is not None:
            await self._run.memory.show(self._run.task)
        while True:
            await self._run.supervisor.pace.keep()
            await self._ask_judge()
            await self._run.gate()
            if self._run.memory is not None and self._run.steers:
                await self._run.memory.show(self._run.steers[-1].text)
                await self._run.gate()
            at = self._room.at
            if at != math.inf and self._used() >= at and self._run.stopping_after_turn is None:
                if (ended := await self._make_room()) is not None:
                    return ended
                await self._run.gate()
            # The one barrier: all facts so far are judged before the next turn begins.
            await self._log.passed("watchdog", self._log.n)
            supply = self._run.root.supply
            if supply is not None and supply.asks({"turns": 1}):
                await supply.ready({"turns": 1}, look=True)
                await self._log.passed("watchdog", self._log.n)
            tools_off = self._prepare()
            if isinstance(tools_off, End):
                return tools_off
            ended = await self._turn(tools_off, batches)
            if ended is not None:
                return ended

    async def _turn(self, tools_off: bool, batches: MemoryObjectSendStream[Batch]) -> Answer | End | None:
        """Ask, and deal with the reply. None: the run goes on."""
        try:
            reply = await self._ask_fitting(tools_off)
        except ModelError as error:
            return self._model_failed(error)
        if reply is None or isinstance(reply, End):
            return reply
        return await self._deal_with(reply, tools_off, batches)

    async def _deal_with(
        self, reply: Reply, tools_off: bool, batches: MemoryObjectSendStream[Batch]
    ) -> Answer | End | None:
        decision = self._decide(reply, tools_off)
        if decision is None:
            return None
        if type(decision) is Act and not (tools_off or self._conduct.acts(self._replied)):
            return None  # the model is to decide first: its calls have their results
        if type(decision) is Answer and (self._examined or CITED in decision.text) and not self._run.steers:
            decision = await self._examine(decision)
        elif type(decision) is Act and self._bench is not None and not decision.tools_off:
            decision = await self._bench.rule(reply.text, decision.calls) or decision
        match decision:
            case Act():
                shown = reply.shown if decision.calls is reply.calls else None
                await self._act(
                    Batch(decision.calls, decision.tools_off, shown, again=self._taken is not None), batches
                )
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
            case Answer():
                if self._pilot is not None:
                    self._pilot.done(decision.text)
                return decision
            case _:
                return decision
        return None

    async def _act(self, batch: Batch, batches: MemoryObjectSendStream[Batch]) -> None:
        self._called = True
        batches.send_nowait(batch)  # there is room for the one that is under way
        await batch.done.wait()

    # -- after a recovery ----------------------------------------------------------------------------------------------

    def remember(self, event: Event, acted: bool, wall: float) -> None:
        """A fact of an attempt that died, before the log's folds see it. ``acted``: the calls of this reply came to the
        executor; ``wall``: the seconds without pauses until then."""
        if self._pilot is not None:
            self._pilot.remember(event, wall)
        if isinstance(event, ModelRequested):
            self._asked_with = self._characters()
        elif isinstance(event, ModelReplied):
            self._density.learn(event.usage, self._asked_with)
            planning = self._pilot is not None and self._pilot.asks
            if acted and not planning:
                self._conduct.remember(event)
        elif isinstance(event, UserMessage) and event.source == "steer":
            self._conduct.user_spoke(event.text)
        elif isinstance(event, ContextCompacted):
            self._room.remember(event)
            self._made_compactor().remember(event)

    def take_up(self, turns: Turns, acted: bool) -> None:
        """Go on where an attempt that died has left off. ``acted``: its last reply's calls came to the executor."""
        self._taken, self._acted = turns, acted
        self.turns, self.rejected, self.last_text = turns.turns, turns.rejected, turns.last_text
        self._requests.usage = turns.usage
        self._finishing, self._finish_left, self._reminded = turns.finishing, turns.finish_left, turns.reminded
        self._called, self._tries, self._reasked = turns.called, turns.tries, turns.reasked
        if turns.reply is not None:
            self._replied = turns.reply

    def raised(self, amounts: Mapping[str, float]) -> None:
        """Somebody has granted more: a run that was finishing for want of it goes on."""
        if frees(self._finishing, amounts):
            self._finishing, self._finish_left = None, self._agent.limits.finish_turns
            self._reminded.discard("finish")

    async def _finish_turn(self, turns: Turns, batches: MemoryObjectSendStream[Batch]) -> Answer | End | None:
        """Do what is left of the turn that was broken off."""
        replied, tools_off = turns.reply, turns.tools_off
        if (over := self._beyond_limit()) is not None:
            if replied is not None:
                self._run.refuse_calls(replied.calls, "the budget is used up")
            return over
        if turns.asking:
            await self._run.gate()
            if (asked := self._asked_to_end()) is not None:
                return asked
            said = self._heard(self._preview(tools_off, self.turns)) if self._heard is not None else None
            if said is not None and said.halt is not None:
                return self._halted(said.halt)
            self._end_in(said, tools_off, self._allowance.uses(self._run.times()))
            return await self._turn(tools_off, batches)
        if replied is None:
            return None
        if self._acted:
            await self._act(Batch(replied.calls, tools_off, replied.calls, again=True), batches)
            return None
        calls, finish, thought = replied.calls, replied.finish, replied.reasoning
        reply = Reply(replied.text, calls, shown=calls, finish=finish, reasoning=thought, usage=replied.usage)
        return await self._deal_with(reply, tools_off, batches)

    def _beyond_limit(self) -> End | None:
        """What the attempt that died has spent last may have been too much."""
        for name in self._run.limits():
            left = self._budget.left(name)
            if left is not None and left < -EXACT * max(self._budget.limit(name) or 0.0, 1.0):
                self._log.append(Overrun, dimension=name, over=-left)
                return End("stopped", "overrun")
        return None

    # -- prepare: no await -------------------------------------------------------------------------------------------

    def _prepare(self) -> bool | End:
        """Decide how the next turn is done: whether tools are off; or that there is none."""
        if self._run.ending is not None:
            return End("stopped", "ended")  # what ended it counts, not this
        self._take_steers()
        if (asked := self._asked_to_end()) is not None:
            return asked
        pilot = self._pilot
        budget = self._budget if pilot is None else pilot.bound
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
        uses = self._allowance.uses(times)
        if left is not None and left < 1:
            fired["finish"] = "turns"
        elif near := self._nearly_used(uses):
            fired["finish"] = near
        elif self._room.full:
            fired["finish"] = "context"
        if self._finishing is None and fired:
            reason = fired[strongest(fired) or "finish"]
            self._finishing = reason
            if pilot is not None:
                pilot.cut(reason)
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
            if pilot is not None:
                tools_off = pilot.turn(left, self._estimate)
            self._remind(uses)
            if self._run.drawn.take({"turns": 1}) is not None and self._run.lacks({"turns": 1}):
                return self._limit("turns")  # a sub-agent has taken what was granted for this one
        said: Heard | None = None
        if self._heard is not None:
            said = self._heard(self._preview(tools_off, self.turns + 1))
            if said.halt is not None:
                return self._halted(said.halt)
        self.turns += 1
        self._log.turn += 1
        self._end_in(said, tools_off, uses)
        self._log.append_clean(
            TurnStarted, tools_on=not tools_off, left=int(left) - 1 if left is not None and left >= 1 else 0
        )
        return tools_off

    def _end_in(self, said: Heard | None, tools_off: bool, uses: Uses) -> None:
        """Say what stands at the end of the next request."""
        if self._conduct.says_anything or said is not None:
            words = [] if said is None else [self._log.redaction.within(word, MAX_WORD) for word in said.words]
            standing = self._standing(tools_off, uses)
            self._last_word = self._conduct.last_word(standing, self._history.user_last, words)

    def _preview(self, tools_off: bool, turn: int) -> Preview:
        """What guards of requests see of the one of this turn."""
        offered = () if tools_off or self._withheld else tuple(self._agent.tools)
        return Preview(turn, self._run.task, self._history.view(), offered)

    def _halted(self, halt: Halt) -> End:
        clean = self._log.redaction.within
        self._run.detail = clean(halt.detail, 500)
        return End("stopped", clean(halt.reason, 100) or "halted")

    def _asked_to_end(self) -> End | None:
        """Somebody has asked for the end after this turn: no request to the model is made from then on."""
        reason = self._run.stopping_after_turn
        return End(self._run.ends_as, reason) if reason is not None else None

    def _limit(self, reason: str) -> End:
        if reason == "context":
            self._run.detail = self._wording.context_full(self._used(), self._room.window)
        return End("stopped", reason)

    def _take_steers(self) -> None:
        while self._run.steers:
            self._log.user_turn += 1
            text, command = self._run.steers.pop(0)
            said = self._log.append(UserMessage, text=text, source="steer", command=command)
            self._conduct.user_spoke(said.text)

    def _over_limit(self) -> str | None:
        """A limit that is reached in full; in that dimension no tool is of use any more."""
        left = self._budget.left("calls")
        if left is not None and left < 1 and (not self._run.hands_over or self._run.calls_over_limit):
            return "calls"
        return None

    def _nearly_used(self, uses: Uses) -> str | None:
        """A dimension of which no more is left than a last answer should have."""
        at = self._agent.profile.finish_at
        if at >= 1:
            return None
        return self._allowance.nearly_used(at, uses, self._estimate() if self.turns else 0)

    def _remind(self, uses: Uses) -> None:
        at = self._agent.profile.remind_at
        for name, share, left in uses.all():
            if share >= at and name not in self._reminded and not self._allowance.is_small(name):
                self._reminded.add(name)
                told = self._wording.limit_near(name, share, left, self.turns, self._run.ledger.by_tool)
                self._log.append(Reminded, text=told.text, about=name)

    def _standing(self, tools_off: bool, uses: Uses) -> Standing:
        more, missing = self._budget.left("turns"), self._evidence.missing()
        return Standing(
            turn=self.turns,
            more=None if more is None else max(int(more), 0),
            tools_off=tools_off,
            finishing=self._finish_left + 1 if self._finishing is not None else None,
            left=[
                Left(use.dimension, use.left, use.share)
                for use in uses.all()
                if use.dimension != "turns" and (self._specs or not use.dimension.startswith("calls"))
            ],
            required=missing.required,
            any_of=missing.any_of,
            stale=missing.stale,
            step=self._run.step,
        )

    async def _ask_judge(self) -> None:
        """Ask the guide's judge whether the agent has lost its goal, where there is one and it is due. It has so many
        seconds; one that is too late or fails has said nothing."""
        question = self._conduct.question()
        if question is None:
            return
        guide, error, drifts = self._agent.guide, None, None
        assert guide.judge is not None
        try:
            with anyio.fail_after(guide.judge_seconds):
                drifts = await guide.judge(question)
        except TimeoutError:
            error = f"it said nothing within {guide.judge_seconds:g} s"
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        self._conduct.judged(drifts, error)

    # -- room: a view that fits ---------------------------------------------------------------------------------------

    def _used(self) -> int:
        """Tokens of the next request, as the server has counted those before it; until it has, the least it can be."""
        return int(self._characters() * self._density.counted)

    async def _make_room(self) -> End | None:
        """The view has grown near to what the model takes."""
        if self._room.need(self._used(), self._log.turn) != "compact":
            return None
        compacted = await self._compact("window")
        return compacted if isinstance(compacted, End) else None

    async def _ask_fitting(self, tools_off: bool) -> Reply | End | None:
        """Ask; if the request is too long for the model, once more with a smaller view."""
        try:
            if self._room.window is not None and not self._room.fits(self._used()):
                told = self._wording.context_full(self._used(), self._room.window)
                raise ModelError("context_length", told)
            return await self._ask(tools_off)
        except ModelError as error:
            if error.kind != "context_length":
                raise
            window = error.window or self._room.window
            if window is not None:
                self._density.exceeded(window, self._characters())
            if (asked := self._asked_to_end()) is not None:
                return asked
            if self._room.refused(self._used(), self._log.turn, error.window) != "compact":
                raise
            compacted = await self._compact("refused")
            if not compacted:
                raise
            if isinstance(compacted, End):
                return compacted
        await self._run.gate()
        return self._asked_to_end() or await self._ask(tools_off)

    async def _compact(self, reason: Literal["window", "refused"]) -> bool | End:
        density, counted = self._density.value, self._density.counted
        compacted = await self._made_compactor().compact(reason, density, counted, self._spec_characters)
        if compacted is True and self._run.memory is not None:
            await self._run.memory.show(f"{self._run.task} {self.last_text}")
        return compacted

    def _made_compactor(self) -> Compactor:
        if self._compactor is None:
            from ..compacting import Compactor

            self._compactor = Compactor(self._run, self._room, self._ask_aside)
            self._offer_recall()
        return self._compactor

    def _offer_recall(self) -> None:
        """From the first compaction on there is something to recall."""
        if not self._run.recalls or self._agent.memory is not None or self._run.executor is None:
            return
        from ..memory.tools import recall

        self._run.executor.offer(recall)
        self._specs = (*self._specs, recall.spec())
        self._spec_characters += len(repr(recall.spec()))

    async def _ask_aside(self, request: Request, reply_tokens: int, seconds: float) -> Reply | End | None:
        """One attempt at a request beside the conversation, with a hold of its own. None if it cannot be paid, fails or
        takes too long; the end of the run if its reply cost more than there was."""
        log = self._log

        def sized() -> Size:
            characters = sum(map(size, request.messages))
            return Size(self._density.estimate(characters, len(request.messages)), reply_tokens)

        async def send(read: int, hold: Hold) -> Reply:
            cut = msgspec.structs.replace(request, max_tokens=int(hold.amounts["output_tokens"]))
            unheard = Log(log.run, log.seams, keep=16, redaction=log.redaction)
            await log.durable()
            return await ask(
                self._agent.model,
                cut,
                unheard,
                set(),
                lambda delta: None,
                on_first_chunk=self._requests.heard,
                attempt=1,
                estimate=int(hold.amounts["tokens"]),
                chant=Chant(),
            )

        with anyio.move_on_after(seconds):
            try:
                made = await self._requests.make(sized, self._run.seams.clock() + seconds, send)
            except (GivingUp, ModelError):
                return None
            if isinstance(made, Made):
                return await self._requests.overrun(made) or made.reply
        return None

    # -- ask ---------------------------------------------------------------------------------------------------------

    def _request(self, tools_off: bool, max_tokens: int | None) -> Request:
        choice = self._agent.tool_choice
        specs = () if self._withheld else self._specs
        if tools_off:
            choice = "none"
        elif choice != "none" and self._called:
            choice = "auto"  # a forced call is forced once: else it would be forced for ever
        messages = self._history.viewed()  # a list of our own: of a long one each copy costs
        if self._agent.cite:
            from ..answers.citations import labelled

            messages = labelled(messages, self._run.ledger)
        end_in(messages, self._last_word)
        if self._instructions:
            messages.insert(0, Message("system", self._instructions))
        return Request(
            messages=tuple(messages),
            tools=specs,
            tool_choice=choice if specs else "auto",
            max_tokens=max_tokens,
            reasoning_tokens=_least(self._agent.limits.reasoning_tokens, max_tokens),
            parallel=self._agent.parallel,
            answer_schema=self._schema,
        )

    @property
    def _withheld(self) -> bool:
        """Tools are no matter of this request: it asks for a plan."""
        return self._pilot is not None and self._pilot.asks and self._finishing is None

    def _characters(self) -> int:
        """Of the next request."""
        if self._pilot is not None and self._withheld:
            return self._history.characters + len(self._instructions)
        return self._history.characters + self._spec_characters

    def _estimate(self) -> int:
        characters = self._characters() + len(self._last_word)
        if self._agent.cite:
            characters += LABEL * len(self._run.ledger.entries)
        return self._density.estimate(characters, self._history.shown + 1)

    def _sized(self) -> Size:
        estimate = self._estimate()
        return Size(estimate, self._room.reply(estimate))

    async def _ask(self, tools_off: bool) -> Reply | End | None:
        """Ask with retries. Each attempt has a hold of its own; a failed one that was sent is charged at it. None: the
        step of a plan has not enough left for it."""
        deadline, seams = self._run.deadline(), self._run.seams

        async def attempt(number: int) -> Reply | End | None:
            try:
                made = await self._requests.make(self._sized, deadline, partial(self._send, tools_off, number))
            except ModelError as error:
                raise (Again(error, error.retry_after) if error.retryable else GivingUp(error)) from error
            return await self._take_in(made) if isinstance(made, Made) else made

        return await retrying(attempt, policy=self._agent.retry, seams=seams, deadline=deadline, on_retry=self._retried)

    async def _send(self, tools_off: bool, number: int, estimate: int, hold: Hold) -> Reply:
        agent, log, clean = self._agent, self._log, self._log.redaction.text
        max_tokens = int(hold.amounts["output_tokens"])
        request = self._request(tools_off, max_tokens)
        log.append_clean(
            ModelRequested,
            model=clean(agent.model.name),
            attempt=number,
            messages=len(request.messages),
            input_estimate=estimate,
            max_tokens=max_tokens,
            tool_choice=clean(request.tool_choice),
            told=clean(self._last_word),
        )
        await log.durable()
        return await ask(
            agent.model,
            request,
            log,
            self._history.ids,
            self._run.delta,
            on_first_chunk=self._requests.heard,
            attempt=number,
            estimate=int(hold.amounts["tokens"]),
            chant=Chant() if agent.profile.thresholds.chant_cut else None,
            cut_chant=self._run.guard_mode != "observe",
        )

    async def _take_in(self, made: Made) -> Reply | End:
        reply = made.reply
        self._density.learn(reply.usage, self._characters())
        self._replied = self._log.append_clean(
            ModelReplied,
            text=reply.text,
            calls=reply.shown,
            finish=reply.finish,
            reasoning=reply.reasoning,
            usage=reply.usage,
            seconds=made.seconds,
            stored=bool(reply.text.strip() or reply.calls) and reply.finish not in UNSTORED,
        )
        overrun = await self._requests.overrun(made)
        if overrun is None:
            return reply
        self.last_text = reply.text or self.last_text
        self._settle_unrun(reply)
        return overrun

    def close(self, reason: str) -> None:
        """At the end: a request that would not let go is charged at its hold, and the step of a plan ends."""
        self._requests.close()
        if self._pilot is not None:
            self._pilot.cut(reason)
        for asking in (self._examiner, self._bench):
            if asking is not None and asking.adviser is not None:
                asking.adviser.charge_open()

    def plan(self) -> tuple[StepRecord, ...]:
        """The steps of its plan and what came of them, for the outcome."""
        return () if self._pilot is None else self._pilot.course.outcome()

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

    def _decide(self, reply: Reply, tools_off: bool) -> Act | Push | Answer | End | None:
        """None: the plan has taken the reply in."""
        pilot = self._pilot if self._finishing is None else None
        if pilot is not None and pilot.asks:
            return pilot.read(reply)
        step = pilot is not None and pilot.in_step
        situation = Situation(
            tools_off=tools_off,
            finishing=self._finishing is not None or self._conduct.forced,
            missing=NOTHING_MISSING if step else self._evidence.missing(),
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
        return decision if pilot is None else self._planned(pilot, decision, reply, step)

    def _planned(
        self, pilot: Pilot, decision: Act | Push | Answer | End, reply: Reply, step: bool
    ) -> Act | Push | Answer | End | None:
        """The answer of a step is not that of the run; the run's is forced where a limit has cut a step short."""
        if step and reply.text.strip():
            pilot.said(reply.text)
        if not isinstance(decision, Answer):
            return decision
        if step:
            pilot.answered(decision.text)
            return None
        return Answer(decision.text, forced=decision.forced or pilot.course.incomplete)

    def _about_answers(self) -> Iterator[str]:
        """What the model is told beforehand of what becomes of its answer."""
        form = self._agent.form
        if form is not None and not form.plain:
            yield self._wording.answer_form(form.text())
        if self._agent.cite:
            yield self._wording.cite_form()

    async def _examine(self, answer: Answer) -> Answer | Push | End:
        """Have an answer looked at that has the evidence it needs."""
        if self._examiner is None:
            assert self._make_examiner is not None
            self._examiner = self._make_examiner()
            self._examiner.take_up(self._reasked)
        left = self._budget.left("turns")
        last = not self._finish_left and (self._finishing is not None or (left is not None and left < 1))
        decision = await self._examiner.examine(answer, last=last)
        if not isinstance(decision, Answer):
            self.rejected.append(answer.text)
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
            "answers_rejected": len(self.rejected),
            "evidence_missing": bool(self._evidence.missing()),
            **({} if self._pilot is None else {"plan": self._pilot.snapshot()}),
        }


def _least(*bounds: int | None) -> int | None:
    """The least of some bounds, if the first of them is one at all."""
    return None if bounds[0] is None else min(bound for bound in bounds if bound is not None)
