"""Models behind an OpenAI-compatible endpoint: chat completions, always streamed, one attempt a call."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import anyio.to_thread

from ..errors import CassetteError, ConfigurationError
from ..model import Chunk, Finished, ModelError, Request, Timeouts
from . import dialect, failure

if TYPE_CHECKING:
    import httpx2
    import openai

DEFAULT_BASE_URL = "https://api.openai.com/v1"
CONNECT_TIMEOUT = 30.0
"""Seconds for DNS, TCP and TLS together to give a connection; the first-chunk timeout covers them too."""
CLOSE_TIMEOUT = 2.0
"""Seconds that closing a response may hold up a cancel. It is one close(2); nothing is waited for."""
DEFAULT_TIMEOUTS = Timeouts()
_REASONING_FIELDS = {"api.openai.com": "reasoning_effort", "openrouter.ai": "reasoning"}


class OpenAIModel:
    """A :class:`Model` over ``openai.AsyncOpenAI``, for OpenAI and every server that speaks like it.

    - ``name``, ``base_url``, ``api_key``: or ``OPENAI_MODEL``, ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``. Only
      api.openai.com needs a key.
    - ``timeouts``: seconds to the first chunk, between two events and for the whole reply. Comments that keep a
      connection alive do not count as events.
    - ``max_tokens_field``: ``max_completion_tokens`` for api.openai.com, ``max_tokens`` elsewhere, unless given.
    - ``reasoning_field``: what the server calls its limit of thinking, for ``Limits.reasoning_tokens``:
      ``reasoning_effort`` for api.openai.com and ``reasoning`` for openrouter.ai unless given; others are not told
      unless it is (vLLM: ``thinking_token_budget``, llama.cpp: ``thinking_budget_tokens``, Qwen: ``thinking_budget``).
    - ``extra``: further fields of the body, such as ``{"temperature": 0, "seed": 1}``.
    - ``http_client``: an ``httpx2.AsyncClient`` of your own, used as it is and never closed. Without one, each event
      loop gets a client that keeps no connection open between requests, so there is nothing to close at the end.
    - ``context_window``: in tokens, if known.
    - ``schema_with_tools``: send the schema of an answer (``response_format``) beside tools, too; only api.openai.com
      is known to keep the two apart. Without tools in the request it is sent in any case.
    - ``cached_tokens``: whether the server counts what it had cached ``within`` the tokens of the prompt, as OpenAI
      does, or ``beside`` them, as Anthropic does and some gateways pass it on. It decides what a request costs; a
      server whose ``total_tokens`` says that it is beside is believed.
    - ``withhold_tools``: leave the tools out of a request whose ``tool_choice`` is ``none``; many servers ignore that.

    An optional field that the server refuses (``stream_options``, ``parallel_tool_calls``, ``tool_choice``,
    ``response_format``, the limit of thinking, the name of the token bound) is left out and the request is sent once
    more within the same attempt; this is remembered.

    Raises :class:`ConfigurationError` if the model's name, a usable base URL or a key that is needed is missing. Safe
    to share by any number of runs and event loops. ``openai`` is imported at the first request, in a thread.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        max_tokens_field: str | None = None,
        reasoning_field: str | None = None,
        extra: Mapping[str, Any] | None = None,
        http_client: httpx2.AsyncClient | None = None,
        context_window: int | None = None,
        withhold_tools: bool = True,
        schema_with_tools: bool | None = None,
        cached_tokens: dialect.Cached = "within",
    ) -> None:
        self.name = name or os.environ.get("OPENAI_MODEL") or ""
        if not self.name:
            raise ConfigurationError("no model: give its name, OpenAIModel('…'), or set OPENAI_MODEL")
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        self.provider, self._host = _provider(self.base_url)
        self._api_key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        self.secrets: tuple[str, ...] = (self._api_key,)
        """What a run of this model keeps out of everything that it writes."""
        if not self._api_key and self._host == "api.openai.com":
            raise ConfigurationError(
                "no API key for api.openai.com: give api_key=… or set OPENAI_API_KEY; "
                "for a server of your own set base_url=… or OPENAI_BASE_URL"
            )
        self.timeouts = timeouts
        self.context_window = context_window
        if cached_tokens not in ("within", "beside"):
            raise ConfigurationError(f"cached_tokens={cached_tokens!r}: it is 'within' or 'beside'")
        self.cached_tokens = cached_tokens
        self.withhold_tools = withhold_tools
        self.extra = dict(extra or {})
        own = self._host == "api.openai.com"
        self.schema_with_tools = own if schema_with_tools is None else schema_with_tools
        self._shape = dialect.Shape(
            max_tokens_field or ("max_completion_tokens" if own else "max_tokens"),
            reasoning_field=reasoning_field or _REASONING_FIELDS.get(self._host),
        )
        self._http_client = http_client
        self._clients: weakref.WeakKeyDictionary[Any, _Once] = weakref.WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<OpenAIModel {self.name} at {self.provider}>"

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Send one request and give its chunks as they come; leaving, also by cancel, closes the connection at once.

        Entering and iterating raise :class:`ModelError` for whatever goes wrong outside this process. The iterator
        ends after the reply's end; a reply that is cut off or empty is an error.
        """
        client = await self._client()
        started = anyio.current_time()
        response = await self._open(client, request, started)
        try:
            yield _Chunks(self, response, started)
        finally:
            # What a connection says while it is dropped is of no interest any more.
            with anyio.move_on_after(CLOSE_TIMEOUT, shield=True), contextlib.suppress(Exception):
                await response.close()

    async def _open(self, client: openai.AsyncOpenAI, request: Request, started: float) -> openai.AsyncStream[object]:
        first = min(self.timeouts.first_chunk, self.timeouts.total)
        with anyio.CancelScope(deadline=started + first) as scope:
            try:
                return await self._ask(client, request)
            except Exception as error:
                raise self._mapped(error) from error
        assert scope.cancelled_caught
        raise ModelError("timeout", f"{self.provider} did not begin to answer within {first:g} s")

    async def _ask(self, client: openai.AsyncOpenAI, request: Request) -> openai.AsyncStream[object]:
        """One request, and one more for each optional field that the server turns out not to take."""
        shape = self._shape
        while True:
            body = dialect.request_body(
                self.name,
                request,
                shape,
                withhold_tools=self.withhold_tools,
                schema_with_tools=self.schema_with_tools,
                extra=self.extra,
            )
            try:
                response = await self._post(client, body)
            except Exception as error:
                adapted = shape.refusing(_refused_field(error, body, shape.reasoning_field))
                if adapted is None:
                    raise
                shape = adapted
            else:
                self._shape = shape  # only what helped is remembered
                return response

    async def _post(self, client: openai.AsyncOpenAI, body: dict[str, Any]) -> openai.AsyncStream[object]:
        # Plain dicts: a typed chunk costs the SDK 160 µs, and its types know nothing of what other servers send.
        import openai

        return await client.post(
            "/chat/completions", body=body, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object]
        )

    async def _client(self) -> openai.AsyncOpenAI:
        loop = anyio.lowlevel.current_token().native_token
        try:
            return await self._clients.setdefault(loop, _Once(self._connect)).get()
        except Exception as error:  # such as a certificate file that the environment names and that is not there
            failed = self._mapped(error)
            failed.sent = False
            raise failed from error

    def _connect(self) -> openai.AsyncOpenAI:
        import httpx2
        import openai

        http_client = self._http_client or openai.DefaultAsyncHttpx2Client(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=not _is_loopback(self._host),  # a proxy of the environment has no business with this machine
        )
        return openai.AsyncOpenAI(
            api_key=self._api_key or "none",
            base_url=self.base_url,
            max_retries=0,  # retries have one owner, and it is not the SDK
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),  # the SDK's is per read; ours are in _Chunks
            http_client=http_client,
        )

    def _mapped(self, error: Exception) -> ModelError:
        """The :class:`ModelError` for anything that the SDK, the HTTP client or the network raises."""
        import httpx2
        import openai

        if isinstance(error, ModelError):
            return error
        if (missed := _missed(error)) is not None:
            return ModelError("unknown", str(missed))
        if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException | TimeoutError):
            told = f"{self.provider} did not answer in time: {_leaf(error)}"
            return ModelError("timeout", told, sent=not _was_without_connection(error))
        if isinstance(error, openai.APIStatusError):
            return failure.answered(
                error.status_code,
                error.body,
                error.response.headers,
                who=self.provider,
                now=time.time(),
                secret=self._api_key,
            )
        if isinstance(error, openai.APIConnectionError | httpx2.HTTPError | OSError | anyio.BrokenResourceError):
            told = f"the connection to {self.provider} failed: {_leaf(error)}"
            return ModelError("connection", told, sent=not _was_without_connection(error))
        if isinstance(error, openai.APIError):
            return failure.reported(error.body or error.message, who=self.provider, secret=self._api_key)
        if isinstance(error, ValueError):  # also UnicodeDecodeError and JSONDecodeError
            return ModelError("server", f"{self.provider} sent what is not JSON: {_leaf(error)}")
        return ModelError("unknown", f"asking {self.provider} failed: {_leaf(error)}")


class _Once:
    """The client of one event loop, made at its first request, in a thread: importing openai takes a second and a TLS
    context 50 ms, which the loop must not stand still for. A cancel does not wait for the thread."""

    def __init__(self, make: Callable[[], openai.AsyncOpenAI]) -> None:
        self._make = make
        self._made: openai.AsyncOpenAI | None = None
        self._lock = anyio.Lock()

    async def get(self) -> openai.AsyncOpenAI:
        if self._made is None:
            async with self._lock:
                if self._made is None:
                    limiter = anyio.CapacityLimiter(1)
                    return await anyio.to_thread.run_sync(self._keep, abandon_on_cancel=True, limiter=limiter)
        return self._made

    def _keep(self) -> openai.AsyncOpenAI:
        self._made = made = self._make()  # also if nobody waits for it any more: the next one need not begin anew
        return made


class _Chunks:
    """The chunks of one open response, each awaited under its deadline."""

    def __init__(self, model: OpenAIModel, response: openai.AsyncStream[object], started: float) -> None:
        self._model = model
        self._response = response
        self._reader = dialect.EventReader(model.provider, model.cached_tokens)
        self._ready: deque[Chunk] = deque()
        self._first_by: float | None = started + model.timeouts.first_chunk
        self._end_by = started + model.timeouts.total
        self._ended = False

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self

    async def __anext__(self) -> Chunk:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            await self._receive()
        return self._ready.popleft()

    async def _receive(self) -> None:
        timeouts = self._model.timeouts
        next_by = self._first_by if self._first_by is not None else anyio.current_time() + timeouts.idle
        with anyio.CancelScope(deadline=min(next_by, self._end_by)) as scope:
            event = await self._event()
        if scope.cancelled_caught:
            what = "total" if next_by > self._end_by else "idle" if self._first_by is None else "first_chunk"
            seconds = getattr(timeouts, what)
            raise ModelError("timeout", f"{self._model.provider} was silent too long ({what}: {seconds:g} s)")
        self._ended = event is _END or event is _CUT
        if event is _CUT:
            self._ready.append(Finished("length"))
        else:
            self._ready.extend(self._end() if self._ended else self._reader.feed(event))
        if self._ready:
            self._first_by = None

    async def _event(self) -> object:
        try:
            return await anext(self._response, _END)
        except Exception as error:
            mapped = self._model._mapped(error)
            if self._first_by is None and failure.cut_within_a_call(mapped):
                return _CUT
            raise mapped from error

    def _end(self) -> list[Chunk]:
        kind = self._response.response.headers.get("content-type", "an unnamed type")
        try:
            return self._reader.end()
        except ModelError as error:
            if error.kind != "empty_stream" or "event-stream" in kind:
                raise
        raise ModelError(
            "unsupported",
            f"{self._model.provider} answered with {kind} where a stream of events was asked for: "
            "check the base URL (it usually ends in /v1)",
        )


_END = object()
_CUT = object()


def _provider(base_url: str) -> tuple[str, str]:
    """The key by which runs share a limiter, ``scheme://host:port``, and the host."""
    try:
        url = urlsplit(base_url)
        port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    except ValueError:
        url, port = urlsplit(""), None
    if url.hostname is None or port is None:
        raise ConfigurationError(f"base_url must look like https://host/v1, not {base_url!r}")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return f"{url.scheme}://{host}:{port}", url.hostname


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _refused_field(error: Exception, body: Mapping[str, Any], reasoning: str | None) -> str | None:
    import openai

    if not isinstance(error, openai.APIStatusError):
        return None
    return failure.unsupported_field(body, error.status_code, error.body, error.response.text, reasoning=reasoning)


def _missed(error: BaseException | None) -> CassetteError | None:
    """What a cassette said that this error comes from, if one did: it would say the same again."""
    while error is not None:
        if isinstance(error, CassetteError):
            return error
        error = error.__cause__
    return None


def _was_without_connection(error: BaseException) -> bool:
    """There was none over which a request could have been sent."""
    import httpx2

    while not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        if error.__cause__ is None:
            return False
        error = error.__cause__
    return True


def _leaf(error: BaseException) -> str:
    """The innermost cause in one line: the SDK's own text is only ever "Connection error."."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())[: failure.MAX_DETAIL]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
