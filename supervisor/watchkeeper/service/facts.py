"""The facts of a run as chunks of a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from ..engine import Engine
from ..log import Gap
from ..messages import Event, Unknown, encode_event
from .streams import Form


@asynccontextmanager
async def watched(engine: Engine, run: str, after: int = 0) -> AsyncIterator[AsyncIterator[Event | Gap]]:
    """``Engine.watch``, closed in the task that reads it, where it is a generator."""
    found = engine.watch(run, after)
    try:
        yield found
    finally:
        if isinstance(found, AsyncGenerator):
            await found.aclose()


async def facts(engine: Engine, run: str, after: int, upto: int | None, form: Form) -> AsyncGenerator[bytes, None]:
    """Each fact from behind ``after`` with its number as id, up to number ``upto`` or to the end of the run; what is no
    longer there as one ``gap``; then ``end`` with the number of the last one. Raises what ``Engine.watch`` raises."""
    last = after
    if upto is None or last < upto:
        async with watched(engine, run, after) as found:
            async for fact in found:
                if isinstance(fact, Gap):
                    last = fact.last
                    yield form.event("gap", b'{"first":%d,"last":%d}' % (fact.first, fact.last), last)
                else:
                    last = fact.n
                    yield form.event(name_of(fact), encode_event(fact), last)
                if upto is not None and last >= upto:
                    break
    yield form.event("end", msgspec.json.encode({"n": last}), None)


def name_of(fact: Event) -> str:
    """Its type. One that this version does not know has a name that a stranger gave, which is no name of an event."""
    return "unknown" if isinstance(fact, Unknown) else str(type(fact).__struct_config__.tag)
