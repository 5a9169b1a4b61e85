"""Hostile bytes by seed in the place of a streamed reply, through the adapter and its HTTP client; no network."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from watchkeeper import ModelError, OpenAIModel
from watchkeeper.messages import Message
from watchkeeper.model import CallDelta, Finished, Request, TextDelta, UsageReported

from .twisted import made

GOOD = (
    'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"hel"}}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n'
    'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\ndata: [DONE]\n\n'
)
CALLS = (
    'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"look",'
    '"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}\n\n: ping\n\ndata: [DONE]\n\n'
)
CORPUS = (GOOD, CALLS, 'event: error\ndata: {"error":{"message":"no","code":503}}\n\n')
HEADERS = (
    {"content-type": "text/event-stream"},
    {"content-type": "text/event-stream; charset=utf-16"},
    {"content-type": "application/json"},
)
STATUS = (200, 200, 200, 200, 429, 500, 400)


class _Reply(httpx2.AsyncByteStream):
    """The bytes in pieces of any size, broken off where the seed says so."""

    def __init__(self, data: bytes, chance: random.Random) -> None:
        self._data = data
        self._chance = chance

    async def __aiter__(self) -> AsyncIterator[bytes]:
        at = 0
        while at < len(self._data):
            size = self._chance.choice((1, 7, 100, 10_000))
            yield self._data[at : at + size]
            at += size
            if self._chance.random() < 0.01:
                raise httpx2.ReadError("the connection broke")


async def reply_of(seed: int, client: httpx2.AsyncClient) -> str:
    """Ask once; whatever comes back is chunks that fit, or a :class:`ModelError`."""
    model = OpenAIModel("m", base_url="http://model.test", api_key="none", http_client=client)
    request = Request(messages=(Message("user", str(seed)),))
    try:
        async with model.stream(request) as chunks:
            found = [chunk async for chunk in chunks]
    except ModelError as error:
        return f"refused ({error.kind})"
    assert all(isinstance(chunk, TextDelta | CallDelta | Finished | UsageReported) for chunk in found)
    return "taken"


async def hail(seeds: range) -> Counter[str]:
    """A reply for each seed; how they were taken. Raises ``AssertionError`` that names the seed."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        chance = random.Random(number)
        text = made(CORPUS, number).encode("utf-8", "surrogatepass")
        if chance.random() < 0.2:
            at = chance.randint(0, len(text))
            text = text[:at] + bytes(chance.randrange(256) for _ in range(9)) + text[at:]
        status: Any = chance.choice(STATUS)
        return httpx2.Response(status, headers=chance.choice(HEADERS), stream=_Reply(text, chance))

    went: Counter[str] = Counter()
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        for number in seeds:
            try:
                went[await reply_of(number, client)] += 1
            except Exception as error:
                raise AssertionError(
                    f"seed {number} of streams: sh scripts/reliability streams --seeds {number}"
                ) from error
    return went
