"""A model of one's own that does not do as it should: the run fails and says why, and it is not asked again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support import perform
from watchkeeper import Agent, asking
from watchkeeper.model import CallDelta, Chunk, Request, TextDelta
from watchkeeper.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Own(ScriptedModel):
    def __init__(self, chunks: Callable[[], Any]) -> None:
        super().__init__(())
        self._made = chunks

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        self.asked += 1
        yield self._made()


async def yields_text() -> AsyncIterator[Any]:
    yield TextDelta("I begin, ")
    yield "and go on without a chunk"


async def raises() -> AsyncIterator[Any]:
    yield TextDelta("I begin")
    raise ValueError("what nobody foresaw")


async def says_too_much() -> AsyncIterator[Any]:
    for n in range(100):
        yield TextDelta(f"{n} is another number. ")


async def calls_too_often() -> AsyncIterator[Any]:
    for n in range(100):
        yield CallDelta(n, f"c{n}", "look", "{}")


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        (yields_text, "the model yielded str, which is not a chunk"),
        (raises, "ValueError: what nobody foresaw"),
        (says_too_much, "the reply is longer than 1000 characters"),
        (calls_too_often, "the reply holds more than 20 calls"),
    ],
)
async def test_what_it_did_is_said(chunks: Callable[[], Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MAX_REPLY", 1000)
    monkeypatch.setattr(asking, "MAX_CALLS", 20)
    model = Own(chunks)
    outcome, _ = await perform(Agent(model))
    assert outcome.status == "failed"
    assert said in outcome.message
    assert model.asked == 1
