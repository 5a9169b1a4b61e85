"""What a request costs, around the asking itself: it waits for its provider, is held for before and charged after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import anyio

from ..allowance import Allowance
from ..budget import Hold, Short
from ..decisions import End
from ..messages import Held, Overrun, Settled, Usage
from ..model import ModelError, Reply
from ..provider import Provider
from ..retry import GivingUp

if TYPE_CHECKING:
    from ..plan.pilot import Pilot
    from ..run import Run


class Size(NamedTuple):
    """Of a request: its tokens, rather too many, and the longest reply that there is room for, if that is known."""

    read: int
    most: int | None


class Made(NamedTuple):
    """A request that was answered, and what it took beyond a limit."""

    reply: Reply
    over: dict[str, float]
    seconds: float


class Requests:
    """The requests of one run to its model, one at a time. Each has a hold of its own, which is settled once: a failed
    one that was sent is charged at it, and a late reply costs no more."""

    def __init__(self, run: Run, provider: Provider, own: Allowance, pilot: Pilot | None) -> None:
        """``own``: the run's own view of its budget. With a ``pilot`` requests draw from what the step leaves them."""
        self._run = run
        self._log = run.log
        self._clock = run.seams.clock
        self._provider = provider
        self._own = own
        self._pilot = pilot
        self._open: Hold | None = None
        self.usage = Usage()
        """All that was used so far."""

    async def make(
        self, size: Callable[[], Size], deadline: float, send: Callable[[int, Hold], Awaitable[Reply]]
    ) -> Made | End | None:
        """One attempt at a request. It is sized when its turn has come, for the conversation may have grown until then,
        and sent with the tokens that it is taken to have and its hold.

        None: the step of a plan has not enough left for it; an :class:`End`: the run has not. Raises the
        :class:`ModelError` of the sending, and :class:`.GivingUp` if the provider is not to be asked before
        ``deadline``. On cancel it is charged at its hold.
        """
        try:
            ticket = await self._admitted(deadline)
        finally:
            self._run.waits(False)
        clock, provider = self._clock, self._provider
        read, most = size()
        await self._ready(read, most, ticket)
        hold = self._hold(read, most)
        if hold is None or isinstance(hold, End):
            provider.released(clock(), ticket=ticket)
            return hold
        began = clock()
        try:
            reply = await send(read, hold)
        except ModelError as error:
            provider.failed(clock(), error.kind, error.retry_after, ticket=ticket)
            self._charge(hold, None, sent=error.sent)
            raise
        except BaseException:
            provider.released(clock(), ticket=ticket)
            self._charge(hold, None)
            raise
        provider.succeeded(clock())
        return Made(reply, self._charge(hold, reply.usage), clock() - began)

    async def overrun(self, made: Made) -> End | None:
        """The end of the run, if a request took more than there was, also of a budget that others draw from."""
        over = made.over or await self._run.ready({})
        if not over:
            return None
        dimension, excess = next(iter(over.items()))
        self._log.append(Overrun, dimension=dimension, over=excess)
        return End("stopped", "overrun")

    def heard(self) -> None:
        """The provider speaks again: a probe that was let through need not come to its end for others to follow."""
        if self._provider.state != "closed":
            self._provider.succeeded(self._clock())

    def close(self) -> None:
        """At the end: a request that would not let go is charged at its hold."""
        if self._open is not None:
            self._charge(self._open, None)

    @property
    def _drawing(self) -> Allowance:
        """What requests draw from: the run's budget, or that of the step of a plan."""
        return self._own if self._pilot is None else self._pilot.allowance

    async def _admitted(self, deadline: float) -> int:
        """Wait for the rate limiter and the breaker that all runs of a provider share; the ticket of the attempt."""
        clock = self._clock
        while (wait := self._provider.admit(clock())) > 0:
            if clock() + wait >= deadline:
                raise GivingUp(ModelError("overloaded", f"the provider is not to be asked for another {wait:.0f} s"))
            self._run.waits(True)
            await anyio.sleep(wait)
        return self._provider.ticket

    async def _ready(self, read: int, most: int | None, ticket: int) -> None:
        """Have a shared budget grant what the request may take. On a cancel the provider gets its ticket back."""
        if self._run.root.supply is None:
            return
        try:
            await self._run.ready(self._drawing.wants(read, most))
        except BaseException:
            self._provider.released(self._clock(), ticket=ticket)
            raise

    def _hold(self, read: int, most: int | None) -> Hold | End | None:
        if self._drawing.unpriced and not self._run.may_be_unpriced():
            return End("stopped", "unpriced")
        hold = self._drawing.hold(read, most)
        if isinstance(hold, Short):
            if self._pilot is not None and self._own.affords(read) and self._pilot.short(hold.dimension):
                return None
            return End("stopped", hold.dimension)
        self._log.append_clean(Held, amounts=hold.amounts, held=hold.id)
        self._open = hold
        return hold

    def _charge(self, hold: Hold, usage: Usage | None, *, sent: bool = True) -> dict[str, float]:
        """Settle a hold. Returns what it took beyond a limit."""
        if not hold.open:
            return {}
        self._open = None
        used, amounts, over, unknown = self._drawing.settle(hold, usage, sent=sent)
        self._log.append_clean(Settled, amounts=amounts, held=hold.id, estimated=used.estimated, unknown=unknown)
        seen = self.usage
        self.usage = Usage(
            seen.input_tokens + used.input_tokens,
            seen.output_tokens + used.output_tokens,
            seen.cached_tokens + used.cached_tokens,
            seen.reasoning_tokens + used.reasoning_tokens,
            seen.estimated or used.estimated,
            seen.cache_write_tokens + used.cache_write_tokens,
        )
        return over
