"""The port to a language model: one streaming method, its chunks and its errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from .errors import WatchkeeperError
from .messages import Call, Channel, Message, Usage


class Request(msgspec.Struct, frozen=True):
    """What the model is asked. ``tools`` are ``Tool.spec()`` dicts; an empty tuple means that tools are withheld."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str = "auto"
    """``auto``, ``none``, ``required``, or the name of a tool."""
    max_tokens: int | None = None
    reasoning_tokens: int | None = None
    """Of ``max_tokens``, how many may be thought; None: no limit of their own. Models do what their servers know."""
    parallel: bool = True
    answer_schema: dict[str, Any] | None = None
    """The JSON schema that the answer must fit. A model sends it where its server can hold replies to one, and where
    that does not keep it from calling tools; the instructions say the same."""


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of text. The channel ``arguments`` is not used here: those come as :class:`CallDelta`."""

    text: str
    channel: Channel = "content"


class CallDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of a tool call: pieces of one ``index`` belong together; ``arguments`` are concatenated."""

    index: int
    id: str | None = None
    tool: str | None = None
    arguments: str = ""


class Finished(msgspec.Struct, frozen=True, gc=False):
    """The server's reason for ending the reply: ``stop``, ``tool_calls``, ``length``, ``content_filter`` or its own."""

    reason: str


class UsageReported(msgspec.Struct, frozen=True, gc=False):
    usage: Usage


Chunk = TextDelta | CallDelta | Finished | UsageReported


class Reply(msgspec.Struct, frozen=True):
    """A whole reply, put together from chunks. Without secrets, save in ``calls``: tools get what the model wrote."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    shown: tuple[Call, ...] = ()
    """The calls as all others see them; the same ones if they hold no secret."""
    finish: str = "stop"
    reasoning: str = ""
    usage: Usage | None = None


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds to the first chunk, between chunks, and for a whole reply. Local models may need longer ones."""

    first_chunk: float = 90.0
    idle: float = 60.0
    total: float = 600.0


@runtime_checkable
class Model(Protocol):
    """A language model.

    ``stream`` opens one request and yields its chunks; leaving the context closes the connection at once, also on
    cancellation. It makes exactly one attempt and raises :class:`ModelError` for what went wrong: retries are the
    caller's. Optional attributes: ``timeouts`` (:class:`Timeouts`), ``provider`` (a key by which runs share one rate
    limiter and one circuit breaker), ``base_url`` (where it is, for its price), ``context_window`` (tokens),
    ``secrets`` (texts that a run keeps out of all that it writes, such as its key).
    """

    @property
    def name(self) -> str: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]: ...


ErrorKind = Literal[
    "rate_limited",
    "no_quota",
    "overloaded",
    "server",
    "connection",
    "timeout",
    "empty_stream",
    "bad_request",
    "auth",
    "not_found",
    "context_length",
    "unsupported",
    "unknown",
]

RETRYABLE: frozenset[str] = frozenset({"rate_limited", "overloaded", "server", "connection", "timeout", "empty_stream"})


class ModelError(WatchkeeperError):
    """Raised by a model for an attempt that failed; ``kind`` says whether another one makes sense. ``window``: tokens
    that the model takes, where the error says so. ``sent``: false if it is certain that nothing of the request has
    reached the provider, as without a connection; such an attempt is charged nothing."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
        window: int | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.retry_after = retry_after
        self.status = status
        self.window = window
        self.sent = sent

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE
