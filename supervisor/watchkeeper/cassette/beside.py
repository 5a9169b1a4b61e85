"""What a run asks beside its own model and tools: models that give second opinions, and its long-term store."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.lowlevel

from ..agent import Agent
from ..current import HERE
from ..memory.store import Note, Store
from ..model import Model
from ..opinions.second import Second
from .entries import Remembered
from .playing import PlayedModel
from .recording import RecordedModel

if TYPE_CHECKING:
    from .player import Played
    from .recorder import Taken

S = TypeVar("S", bound=Second)


def recorded_beside(agent: Agent, taken: Taken) -> None:
    """Have what is asked beside the agent's model written down. ``agent`` is a copy that is the run's own."""
    agent.verifier = _with_model(agent.verifier, lambda model: RecordedModel(model, taken))
    agent.judge = _with_model(agent.judge, lambda model: RecordedModel(model, taken))
    if agent.memory is not None:
        agent.memory = RecordedStore(agent.memory, taken)


def played_beside(agent: Agent, played: Played, *, store: bool) -> None:
    """Have it given as it was then. ``store``: also what the long-term store found."""
    agent.verifier = _with_model(agent.verifier, lambda model: PlayedModel(played, beside=model))
    agent.judge = _with_model(agent.judge, lambda model: PlayedModel(played, beside=model))
    if store and agent.memory is not None:
        agent.memory = PlayedStore(played)


def _with_model(second: S | None, made: Callable[[Model], Model]) -> S | None:
    if second is None or second.model is None:
        return second
    copied = copy.copy(second)
    copied.model = made(second.model)
    return copied


class RecordedStore:
    """A store with what it gives written down. Its methods are called in a thread, as those of any plain store; what
    they return is awaited in the loop, where it counts. What a tool of the run asks of it is a part of the tool."""

    def __init__(self, inner: Store, taken: Taken) -> None:
        self._inner = inner
        self._taken = taken

    def add(self, text: str, about: str) -> Coroutine[Any, Any, Any]:
        return self._over(*_tried(self._inner.add, text, about))

    def search(self, query: str, limit: int) -> Coroutine[Any, Any, Any]:
        return self._over(*_tried(self._inner.search, query, limit))

    async def _over(self, found: Any, error: Exception | None) -> Any:
        try:
            if error is not None:
                raise error
            found = await found if inspect.isawaitable(found) else found
            found = None if found is None else [one for one in found if isinstance(one, Note)]
        except Exception as failure:
            await self._write(failure=(type(failure).__name__, self._taken.redaction.within(str(failure), 300)))
            raise
        clean = self._taken.redaction.anything
        await self._write(notes=None if found is None else tuple((clean(one.text), clean(one.about)) for one in found))
        return found

    async def _write(self, **gave: Any) -> None:
        here = HERE.get(None)
        if here is not None and here.run.id == self._taken.id:
            return
        await self._taken.root.settled()
        self._taken.write(Remembered(**self._taken.place(), **gave))


class PlayedStore:
    """What the store of a recorded run gave, each in its turn."""

    def __init__(self, played: Played) -> None:
        self._played = played

    async def add(self, text: str, about: str) -> None:
        await self._next()

    async def search(self, query: str, limit: int) -> list[Note]:
        return [Note(text, about) for text, about in await self._next() or ()]

    async def _next(self) -> tuple[tuple[str, str], ...] | None:
        left = self._played.score.notes
        if not left:
            await anyio.sleep_forever()  # it gave nothing within its time then, either
        place, found = left.popleft()
        # The run waits for it and for nothing else, also before it has begun: it need not wait for its turn.
        self._played.root.order.over(place)
        await anyio.lowlevel.checkpoint()
        if found.failure is not None:
            name, text = found.failure
            raise type(name, (Exception,), {})(text)
        return found.notes


def _tried(method: Callable[..., Any], *arguments: Any) -> tuple[Any, Exception | None]:
    try:
        found = method(*arguments)
        return (found if found is None or inspect.isawaitable(found) else list(found)), None
    except Exception as error:
        return None, error
