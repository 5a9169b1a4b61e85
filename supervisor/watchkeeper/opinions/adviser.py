"""Asks a second model for an opinion: one question, one typed reply, in bounded time, from a budget of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from ..allowance import Allowance
from ..answers.form import Fitted, Form
from ..budget import Hold, Short
from ..messages import Held, Message, Opinion, OpinionAsked, Overrun, Settled, Usage, mended
from ..model import Finished, Model, ModelError, Request, TextDelta, UsageReported
from ..prices import Prices
from ..provider import Provider
from ..retry import Again, GivingUp, RetryPolicy, retrying
from .second import Second

if TYPE_CHECKING:
    from ..run import Run

MAX_REPLY = 65_536
"""Characters of a reply at which its stream is left: an opinion is short."""
ROUNDS = 2
"""Requests for one opinion: a reply of another form is sent back once."""
LONGEST_TEXT = 300
LONGEST_LIST = 10
"""Characters and items that a server which makes a grammar of the schema lets the model write."""
RETRIES = RetryPolicy(retries=2)
TOKENS_PER_CHARACTER = 0.5
TOKENS_PER_OTHER = 2.0
"""Estimates of a request, for what is ASCII and what is not; both on the safe side."""
PER_REQUEST = 64
"""Tokens that a chat template adds, at most."""
SLACK = 1e-9


Repair = Callable[[Sequence[str]], str]
"""What the model reads of what is wrong with its reply."""


class Advice(msgspec.Struct, frozen=True):
    """An opinion, or why there is none. ``overrun``: the request took more than the run's budget could bear."""

    value: Any = None
    failed: str = ""
    overrun: bool = False


class Adviser:
    """One second model beside one run."""

    def __init__(
        self, run: Run, second: Second, model: Model, *, by: Opinion, form: Form, prices: Prices, provider: Provider
    ) -> None:
        self._run = run
        self._log = run.log
        self._second = second
        self._model = model
        self._by: Opinion = by
        self._form = form
        self.form_text = form.text()
        self._grammar = _brief(form.grammar)
        self._prices = prices
        self._provider = provider
        self._budget = run.budget.child(tokens=second.tokens, money=second.money)
        self._allowance = Allowance(self._budget, second.reply_tokens)
        self._open_hold: Hold | None = None

    async def ask(self, instructions: str, data: object, repair: Repair) -> Advice:
        """Ask about ``data``, which the model reads as JSON: nothing in it can be taken for a word of ours. Never
        raises; a cancel ends it at once and charges what is open."""
        self._log.append(OpinionAsked, by=self._by, model=self._model.name)
        seconds = self._second.seconds
        advice = Advice(failed=f"it gave none within {seconds:g} s")
        with anyio.move_on_after(seconds):
            try:
                advice = await self._ask(instructions, data, repair)
            except ModelError as error:
                advice = Advice(failed=self._log.redaction.within(f"its model failed ({error.kind}: {error})", 500))
        return advice

    def charge_open(self) -> None:
        """At the end of the run: a request that would not let go is charged at its hold."""
        if self._open_hold is not None:
            self._charge(self._open_hold, None)

    async def _ask(self, instructions: str, data: object, repair: Repair) -> Advice:
        self._allowance.price = await self._prices.of(self._model)
        redaction = self._log.redaction
        told = msgspec.json.encode(mended(redaction.anything(msgspec.to_builtins(data)))).decode()
        messages: tuple[Message, ...] = (Message("system", instructions), Message("user", told))
        for _ in range(ROUNDS):
            said = await self._say(messages)
            if isinstance(said, Advice):
                return said
            said = redaction.text(said)
            read = self._form.read(said, redaction.anything)
            if isinstance(read, Fitted):
                return Advice(read.value)
            problems = [f"{one.path}: {one.text}" if one.path else one.text for one in read.problems]
            messages += (Message("assistant", said[:2000] or "(nothing)"), Message("user", repair(problems)))
        return Advice(failed="its reply did not have the form that was asked for")

    async def _say(self, messages: tuple[Message, ...]) -> str | Advice:
        clock, provider = self._run.seams.clock, self._provider

        async def attempt(number: int) -> str | Advice:
            await self._wait_for_provider()
            ticket = provider.ticket
            await self._ready(messages, ticket)
            hold = self._hold(messages)
            if isinstance(hold, Advice):
                provider.released(clock(), ticket=ticket)
                return hold
            try:
                await self._log.durable()
                text, usage = await self._stream(messages, int(hold.amounts["output_tokens"]))
            except ModelError as error:
                provider.failed(clock(), error.kind, error.retry_after, ticket=ticket)
                self._charge(hold, None, sent=error.sent)
                raise (Again(error, error.retry_after) if error.retryable else GivingUp(error)) from error
            except BaseException:
                provider.released(clock(), ticket=ticket)
                self._charge(hold, None)
                raise
            provider.succeeded(clock())
            if self._charge(hold, usage) or await self._overrun():
                return Advice(failed="it cost more than the run could bear", overrun=True)
            return text

        return await retrying(
            attempt,
            policy=RETRIES,
            seams=self._run.seams,
            deadline=clock() + self._second.seconds,
            on_retry=lambda number, error, wait: None,
        )

    async def _wait_for_provider(self) -> None:
        clock = self._run.seams.clock
        wait = self._provider.admit(clock())
        while wait > 0:
            await anyio.sleep(wait)
            wait = self._provider.admit(clock())

    async def _stream(self, messages: tuple[Message, ...], max_tokens: int) -> tuple[str, Usage | None]:
        request = Request(messages, max_tokens=max_tokens, answer_schema=self._grammar)
        parts: list[str] = []
        usage, finished, size = None, False, 0
        try:
            async with self._model.stream(request) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, TextDelta):
                        size += len(chunk.text)
                        if chunk.channel == "content":
                            parts.append(chunk.text)
                    elif isinstance(chunk, UsageReported):
                        usage = chunk.usage
                    elif isinstance(chunk, Finished):
                        finished = True
                    if size > MAX_REPLY:
                        raise ModelError("bad_request", f"its reply is longer than {MAX_REPLY} characters")
        except ModelError:
            raise
        except Exception as error:  # a model that raises what it should not: its failure, never retried blindly
            raise ModelError("unknown", f"{type(error).__name__}: {error}") from error
        if not finished and not parts:
            raise ModelError("empty_stream", "the stream ended before anything came")
        return "".join(parts), usage

    async def _ready(self, messages: tuple[Message, ...], ticket: int) -> None:
        """Have a shared budget grant what the request may take. On a cancel the provider gets its ticket back."""
        try:
            await self._run.ready(self._allowance.wants(_tokens(messages)))
        except BaseException:
            self._provider.released(self._run.seams.clock(), ticket=ticket)
            raise

    async def _overrun(self) -> bool:
        """Whether a shared budget cannot bear what was spent."""
        over = await self._run.ready({})
        for dimension, excess in over.items():
            self._log.append(Overrun, dimension=dimension, over=excess)
            break
        return bool(over)

    def _hold(self, messages: tuple[Message, ...]) -> Hold | Advice:
        if self._allowance.unpriced and not self._run.may_be_unpriced():
            return Advice(failed="money is limited and the price of its model is not known")
        hold = self._allowance.hold(_tokens(messages))
        if isinstance(hold, Short):
            return Advice(failed=f"there is not enough left for it ({hold.dimension})")
        self._open_hold = hold
        self._log.append(Held, amounts=hold.amounts, held=hold.id)
        return hold

    def _charge(self, hold: Hold, usage: Usage | None, *, sent: bool = True) -> bool:
        """Settle a hold, once. True if the run's own budget is overrun by it; its own may be, and is then used up."""
        if not hold.open:
            return False
        self._open_hold = None
        used, amounts, over, unknown = self._allowance.settle(hold, usage, sent=sent)
        self._log.append(Settled, amounts=amounts, held=hold.id, estimated=used.estimated, unknown=unknown)
        for dimension, excess in over.items():
            left = self._run.budget.left(dimension)
            if left is not None and left < -SLACK:
                self._log.append(Overrun, dimension=dimension, over=excess)
                return True
        return False


def _brief(schema: Any) -> Any:
    """The schema as the server gets it: small models write without end where nothing bounds them. What is longer, of a
    server that holds no reply to a schema, is taken all the same."""
    if isinstance(schema, list):
        return [_brief(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    bounds = {"string": {"maxLength": LONGEST_TEXT}, "array": {"maxItems": LONGEST_LIST}}
    return {name: _brief(one) for name, one in schema.items()} | bounds.get(str(schema.get("type")), {})


def _tokens(messages: tuple[Message, ...]) -> int:
    plain = other = 0
    for message in messages:
        ascii_ = len(message.content.encode("ascii", "ignore"))
        plain += ascii_
        other += len(message.content) - ascii_
    return int(plain * TOKENS_PER_CHARACTER + other * TOKENS_PER_OTHER) + PER_REQUEST
