"""The facts of a run as chunks of a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import msgspec

from ..engine import Engine
from ..log import Gap
from ..messages import Event, Unknown, encode_event
from .streams import Form


async def facts(
    engine: Engine, run: str, after: int, upto: int | None, form: Form
) -> AsyncGenerator[bytes, None]:
    """Each fact from behind ``after`` with its number as id, up to number ``upto`` or to the end of the run; what is no
    longer there as one ``gap``; then ``end`` with the number of the last one. Raises what ``Engine.watch`` raises."""
    last = after
    if upto is None or last < upto:
        watched = cast(Any, engine.watch(run, after))
        async with aclosing(watched):
            async for fact in watched:
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
