"""A fact as a cassette holds it: the same whether an engine keeps the run or not."""

from __future__ import annotations

import msgspec

from ..messages import Event, RunStarted, UserMessage, encode_event


def encoded(event: Event) -> bytes:
    """Without what is only said for the engine that keeps a run: the version of its code, and the command with which
    something was said to it."""
    if isinstance(event, RunStarted) and event.code:
        event = msgspec.structs.replace(event, code="")
    elif isinstance(event, UserMessage) and event.command:
        event = msgspec.structs.replace(event, command="")
    return encode_event(event)
