"""What stands in a cassette, line by line: frozen, tagged data. Times are in ticks of 2⁻²⁰ s: sums are exact."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..approvals import Scope

FORMAT = 1
"""Version of the format; a file of another one is not read."""
TICKS = 1 << 20
"""Ticks of a second. A clock that counts whole ticks gives equal differences wherever it begins."""

Action = Literal["steer", "pause", "resume", "cancel", "hand_over", "approve", "deny"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """One line."""


class Take(Entry, frozen=True, kw_only=True, tag="cassette"):
    """The first line, and that of each later recording which was added to the file."""

    version: int = FORMAT
    holds: Literal["http", "run"]
    by: str = ""


# -- traffic -----------------------------------------------------------------------------------------------------------


class HttpRequest(Entry, frozen=True, kw_only=True, tag="request"):
    """``body`` is decoded JSON where the body is JSON, else ``text`` or ``base64`` hold it."""

    n: int
    """Number of the exchange, in the order in which they were asked."""
    method: str
    url: str
    headers: dict[str, str] = {}
    body: Any = None
    text: str | None = None
    base64: str | None = None


class HttpResponse(Entry, frozen=True, kw_only=True, tag="response"):
    n: int
    at: int
    """Ticks since the request."""
    status: int
    headers: dict[str, str] = {}


class HttpChunk(Entry, frozen=True, kw_only=True, tag="chunk"):
    """One piece of the body as it came in, byte for byte."""

    n: int
    at: int
    text: str | None = None
    base64: str | None = None


class HttpEnd(Entry, frozen=True, kw_only=True, tag="end"):
    """``error``: the class of what broke the exchange off; ``left``: who asked did not wait for the end."""

    n: int
    at: int
    error: str = ""
    message: str = ""
    left: bool = False


# -- a run -------------------------------------------------------------------------------------------------------------


class RunLine(Entry, frozen=True, kw_only=True, tag="run"):
    """A run began; ``model`` is what is known of its model beside its name."""

    run: str
    parent: str | None = None
    task: str
    agent: str
    model: str
    about: dict[str, Any] = {}


class Asked(Entry, frozen=True, kw_only=True, tag="asked"):
    """A request to the model. ``kept``: so many messages at the beginning are those of the run's request before."""

    run: str
    ask: int
    kept: int = 0
    request: dict[str, Any]


class Input(Entry, frozen=True, kw_only=True):
    """Something that came in from outside. ``i`` orders the inputs of all runs of a take; it came behind fact number
    ``after`` of its run, when all runs together had ``all`` facts, at ``at`` ticks."""

    i: int
    run: str
    after: int
    all: int
    at: int


class Began(Input, frozen=True, kw_only=True, tag="began"):
    """The run began. Runs that are recorded begin one after the other, each when the one before has asked its model."""


class ChunkCame(Input, frozen=True, kw_only=True, tag="piece"):
    """A piece of the reply to request ``ask``: one of the four kinds of chunks."""

    ask: int
    text: str | None = None
    channel: str = "content"
    call: tuple[int, str | None, str | None, str] | None = None
    finish: str | None = None
    usage: dict[str, Any] | None = None


class ReplyEnded(Input, frozen=True, kw_only=True, tag="reply"):
    """``how``: ``whole``; ``left`` (nobody waited for more of it), or an ``error`` with what is known of it."""

    ask: int
    how: Literal["whole", "left", "error"] = "whole"
    error: dict[str, Any] = {}


class ToolEnded(Input, frozen=True, kw_only=True, tag="tool"):
    """What an attempt at a call gave. ``hung``: it was cancelled or timed out; ``real``: it started a sub-agent, so
    that it is run for real whenever the run is played. Of a long output there are ``head``, ``tail`` and ``length``."""

    tool: str
    arguments: str
    call: str
    attempt: int = 1
    text: str = ""
    head: str = ""
    tail: str = ""
    length: int = 0
    productive: bool = True
    error: str | None = None
    failure: dict[str, Any] | None = None
    hung: bool = False
    at_once: bool = False
    """It gave it without waiting for anything."""
    real: bool = False


class HostDid(Input, frozen=True, kw_only=True, tag="host"):
    """What the host, or a person, did to the run; for a yes or a no to an approval the fields behind ``seconds``."""

    do: Action
    text: str = ""
    mode: str = ""
    seconds: float | None = None
    approval: str = ""
    hash: str = ""
    scope: Scope = "once"
    pattern: dict[str, str | tuple[str, ...]] | None = None
    by: str = ""


class Remembered(Input, frozen=True, kw_only=True, tag="notes"):
    """What the long-term store gave: text and subject of each note, or None for a note that was added; or the class
    and the text of what it raised. What a tool asks of it is in what the tool gave."""

    notes: tuple[tuple[str, str], ...] | None = None
    failure: tuple[str, str] | None = None


class Drawn(Entry, frozen=True, kw_only=True, tag="drawn"):
    """An id, a number of chance or a look at the wall clock; ``run`` is empty for the supervisor's own."""

    run: str = ""
    what: Literal["id", "chance", "wall"]
    prefix: str = ""
    value: str | float


class Happened(Entry, frozen=True, kw_only=True, tag="fact"):
    """A fact of the run, and what the clock said since the one before it, in ticks, by who looked."""

    run: str
    reads: dict[str, list[int]]
    event: msgspec.Raw


Traffic = HttpRequest | HttpResponse | HttpChunk | HttpEnd
Line = (
    Take
    | Traffic
    | RunLine
    | Asked
    | Began
    | ChunkCame
    | ReplyEnded
    | ToolEnded
    | HostDid
    | Remembered
    | Drawn
    | Happened
)
