"""The model edge against a strict server on loopback, on both back ends: what is sent, what comes back, what fails."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from reading import calls_of, choice, text_of

from watchkeeper.errors import ConfigurationError
from watchkeeper.messages import Call, Message
from watchkeeper.model import (
    Chunk,
    Finished,
    Model,
    ModelError,
    Request,
    TextDelta,
    Timeouts,
    UsageReported,
)
from watchkeeper.models.openai import OpenAIModel
from watchkeeper.testing.server import (
    CallTools,
    ChatServer,
    Drop,
    Fault,
    Raw,
    Say,
    Slow,
    Stall,
    context_overflow,
    no_quota,
    rate_limited,
)

READ = {"name": "read", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}
HI = Message("user", "hi")


def asking(*messages: Message, **fields: Any) -> Request:
    return Request(messages or (HI,), **fields)


def model_of(server: ChatServer, **settings: Any) -> OpenAIModel:
    return OpenAIModel("m", base_url=server.base_url, **settings)


async def chunks_of(model: OpenAIModel, request: Request | None = None) -> list[Chunk]:
    async with model.stream(request or asking()) as chunks:
        return [chunk async for chunk in chunks]


async def error_of(model: OpenAIModel, request: Request | None = None) -> ModelError:
    with anyio.fail_after(20), pytest.raises(ModelError) as caught:
        await chunks_of(model, request)
    return caught.value


class TestSettings:
    @pytest.fixture(autouse=True)
    def no_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
            monkeypatch.delenv(name, raising=False)

    def test_arguments_win_over_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_MODEL", "of-env")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://env.test:8080/v1")
        model = OpenAIModel()
        assert (model.name, model.provider) == ("of-env", "http://env.test:8080")
        model = OpenAIModel("mine", base_url="https://mine.test/v1")
        assert (model.name, model.provider) == ("mine", "https://mine.test:443")

    @pytest.mark.parametrize(
        ("url", "field"),
        [
            ("https://api.openai.com/v1", "reasoning_effort"),
            ("https://openrouter.ai/api/v1", "reasoning"),
            ("http://127.0.0.1:8080/v1", None),
        ],
    )
    def test_who_is_told_of_a_limit_of_thinking(self, url: str, field: str | None) -> None:
        assert OpenAIModel("m", base_url=url, api_key="sk-x")._shape.reasoning_field == field
        own = OpenAIModel("m", base_url=url, api_key="sk-x", reasoning_field="thinking_budget")
        assert own._shape.reasoning_field == "thinking_budget"

    def test_it_is_a_model(self) -> None:
        model = OpenAIModel("m", base_url="http://x.test/v1", context_window=4096, timeouts=Timeouts(1, 2, 3))
        assert isinstance(model, Model)
        assert (model.context_window, model.timeouts.idle, model.withhold_tools) == (4096, 2, True)

    def test_the_real_one_needs_a_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY"):
            OpenAIModel("m")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
        assert OpenAIModel("m").provider == "https://api.openai.com:443"

    def test_no_name(self) -> None:
        with pytest.raises(ConfigurationError, match="set OPENAI_MODEL"):
            OpenAIModel(base_url="http://x.test/v1")

    @pytest.mark.parametrize("url", ["localhost:8080/v1", "ftp://x/v1", "http://", "http://x:port/v1", "nonsense"])
    def test_a_base_url_that_is_none(self, url: str) -> None:
        with pytest.raises(ConfigurationError, match="base_url must look like"):
            OpenAIModel("m", base_url=url)

    def test_the_key_is_not_shown(self) -> None:
        assert "sk-secret" not in repr(OpenAIModel("m", api_key="sk-secret"))

    def test_openai_is_not_imported_before_the_first_request(self) -> None:
        code = (
            "import sys; from watchkeeper.models.openai import OpenAIModel; OpenAIModel('m', base_url='http://x/v1');"
            "sys.exit(bool({'openai', 'httpx2', 'pydantic'} & set(sys.modules)))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.anyio
class TestStream:
    async def test_text_with_usage(self) -> None:
        async with ChatServer([Say("hello there", reasoning="they greet")]) as server:
            chunks = await chunks_of(model_of(server, extra={"temperature": 0}), asking(max_tokens=50))
        assert (text_of(chunks), text_of(chunks, "reasoning")) == ("hello there", "they greet")
        assert isinstance(chunks[-2], Finished)
        assert isinstance(chunks[-1], UsageReported)
        (received,) = server.requests
        assert received.body["max_tokens"] == 50
        assert received.body["temperature"] == 0
        assert received.headers["authorization"] == "Bearer none"
        assert received.headers["x-stainless-retry-count"] == "0"

    async def test_calls_and_the_turn_after_them(self) -> None:
        first = CallTools(("read", {"path": "a"}), ("read", {"path": "b"}), text="let me see")
        async with ChatServer([first, Say("done")]) as server:
            model = model_of(server, api_key="sk-mine")
            chunks = await chunks_of(model, asking(tools=(READ,), parallel=False))
            calls = tuple(Call(i or "", tool or "", arguments) for i, tool, arguments in calls_of(chunks))
            results = tuple(Message("tool", "x", call_id=call.id) for call in calls)
            history = (HI, Message("assistant", text_of(chunks), calls), *results)
            assert text_of(await chunks_of(model, Request(history, tools=(READ,)))) == "done"
        assert [json.loads(call.arguments) for call in calls] == [{"path": "a"}, {"path": "b"}]
        assert server.requests[0].body["parallel_tool_calls"] is False
        assert [received.rejected for received in server.requests] == [None, None]
        assert server.requests[0].headers["authorization"] == "Bearer sk-mine"

    async def test_leaving_early_closes_the_connection(self) -> None:
        async with ChatServer([Stall(after_chunks=2), Say("next")]) as server:
            model = model_of(server)
            async with model.stream(asking()) as chunks:
                assert isinstance(await anext(chunks), TextDelta)
            with anyio.fail_after(5):
                await server.requests[0].done.wait()
            assert server.requests[0].closed_by_peer
            assert text_of(await chunks_of(model)) == "next"

    async def test_an_error_of_the_caller_is_the_callers(self) -> None:
        async with ChatServer([Stall(after_chunks=2)]) as server:
            with pytest.raises(ConnectionError, match="mine"):
                async with model_of(server).stream(asking()):
                    raise ConnectionError("mine")
            with anyio.fail_after(5):
                await server.requests[0].done.wait()

    @pytest.mark.parametrize("turn", [Stall(), Stall(after_chunks=3), Slow(Say("never said"), 1000)])
    async def test_cancel_closes_the_connection_at_once(self, turn: Any) -> None:
        async with ChatServer([Say("warm"), turn]) as server:
            model = model_of(server)
            await chunks_of(model)  # openai is imported now
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(chunks_of, model)
                received = await server.arrived(2)
                if turn == Stall(after_chunks=3):
                    while received.chunks < 3:
                        await anyio.lowlevel.checkpoint()
                began = anyio.current_time()
                tasks.cancel_scope.cancel()
            with anyio.fail_after(5):
                await received.done.wait()
            assert received.closed_by_peer
            assert received.closed_at is not None
            assert received.closed_at - began < 0.5

    async def test_many_streams_side_by_side_and_cancelled_at_random_leave_nothing(self) -> None:
        async with ChatServer(lambda body, n: Slow(Say("word " * 20), 0.001) if n % 3 else Stall(n % 4)) as server:
            model = model_of(server)
            await chunks_of(model)
            async with anyio.create_task_group() as tasks:
                for i in range(40):
                    tasks.start_soon(_until, model, 0.02 + i % 7 / 100)
            with anyio.fail_after(10):
                for received in server.requests:
                    await received.done.wait()
        assert server.requests

    async def test_no_connection_is_kept_open(self) -> None:
        """Nobody closes a model, so it must leave nothing behind: warnings are errors here."""
        async with ChatServer([Say("a"), Say("b")]) as server:
            model = model_of(server)
            await chunks_of(model)
            await chunks_of(model)
            assert server.connections == 2

    async def test_a_client_of_ones_own_is_used_and_left_open(self) -> None:
        async with ChatServer([Say("a"), Say("b")]) as server, httpx2.AsyncClient(trust_env=False) as client:
            model = model_of(server, http_client=client)
            await chunks_of(model)
            await chunks_of(model)
            assert server.connections == 1
            assert not client.is_closed

    async def test_a_proxy_of_the_environment_does_not_stand_between_it_and_loopback(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        async with ChatServer([Say("direct")]) as server:
            assert text_of(await chunks_of(model_of(server))) == "direct"

    async def test_a_real_servers_comments_and_surrogates(self) -> None:
        event = json.dumps(choice({"content": "a\ud800"}, "stop"))
        async with ChatServer([Raw(": ping\n\n", f"data: {event}\n\n")]) as server:
            chunks = await chunks_of(model_of(server), asking(Message("user", "b\ud800")))
        assert text_of(chunks) == "a\ud800"
        assert server.requests[0].body["messages"][0]["content"] == "b\N{REPLACEMENT CHARACTER}"

    async def test_a_server_that_trips_over_its_own_half_call_has_reached_the_length_limit(self) -> None:
        """llama.cpp: asked again it would say the same, so it is no failure to retry."""
        half = json.dumps(
            choice({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look", "arguments": "{"}}]})
        )
        error = json.dumps({"error": {"code": 500, "message": "Invalid diff: now finding less tool calls!"}})
        async with ChatServer([Raw(f"data: {half}\n\n", f"data: {error}\n\n")]) as server:
            chunks = await chunks_of(model_of(server))
        assert chunks[-1] == Finished("length")
        assert calls_of(chunks) == [("a", "look", "{")]


async def _until(model: OpenAIModel, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await chunks_of(model)


@pytest.mark.anyio
class TestFailures:
    @pytest.mark.parametrize(
        ("turn", "kind", "status"),
        [
            (rate_limited(7), "rate_limited", 429),
            (no_quota(), "no_quota", 429),
            (Fault(500), "server", 500),
            (Fault(503), "overloaded", 503),
            (Fault(529), "overloaded", 529),
            (Fault(408), "timeout", 408),
            (Fault(401), "auth", 401),
            (Fault(404), "not_found", 404),
            (Fault(409), "bad_request", 409),
            (Fault(502, body="<h1>bad gateway</h1>"), "server", 502),
            (context_overflow(9000, 4096), "context_length", 400),
            (Drop(), "connection", None),
            (Drop(after_chunks=4), "connection", None),
            (Drop(after_text="so far", reset=False), "connection", None),
            (Say("cut", finish=None), "connection", None),
            (Raw(), "empty_stream", None),
            (Raw(": ping\n\n"), "empty_stream", None),
            (Raw("data: [DONE]\n\n"), "empty_stream", None),
            (Raw("data: {oops\n\n"), "server", None),
            (Raw('data: {"error": {"message": "stopped", "code": 503}}\n\n'), "overloaded", 503),
            (Raw('data: {"error": "stopped"}\n\n'), "server", None),
            (Raw("\x00\x00\x00"), "empty_stream", None),
        ],
    )
    async def test_each_has_its_kind_and_one_request(self, turn: Any, kind: str, status: int | None) -> None:
        """MULT-01, MULT-02: no layer adds a request of its own."""
        async with ChatServer([turn]) as server:
            error = await error_of(model_of(server))
        assert (error.kind, error.status) == (kind, status)
        assert server.base_url.removesuffix("/v1") in str(error)
        assert len(server.requests) == 1

    async def test_retry_after_comes_along(self) -> None:
        dated = {"date": "Fri, 01 Jan 2027 00:00:00 GMT", "Retry-After": "Fri, 01 Jan 2027 00:00:09 GMT"}
        async with ChatServer([rate_limited(7), Fault(503, dated), rate_limited("abc")]) as server:
            model = model_of(server)
            assert [(await error_of(model)).retry_after for _ in range(3)] == [7, 9, None]

    async def test_nobody_listens(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound, not listening: refused
            error = await error_of(OpenAIModel("m", base_url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1"))
        assert (error.kind, error.retryable, error.sent) == ("connection", True, False)
        assert "ConnectError" in str(error)

    async def test_no_tls_where_tls_was_expected(self) -> None:
        async with ChatServer([]) as server:
            error = await error_of(OpenAIModel("m", base_url=server.base_url.replace("http", "https")))
        assert error.kind == "connection"

    async def test_no_such_host(self) -> None:
        error = await error_of(OpenAIModel("m", base_url="http://nowhere.invalid/v1"))
        assert error.kind == "connection"

    @pytest.mark.parametrize(
        ("failure", "sent"),
        [(httpx2.ConnectTimeout, False), (httpx2.PoolTimeout, False), (httpx2.ReadTimeout, True)],
    )
    async def test_the_network_is_too_slow(self, failure: type[httpx2.TimeoutException], sent: bool) -> None:
        """Without a connection nothing can have been spent."""

        def late(request: httpx2.Request) -> httpx2.Response:
            raise failure("too slow", request=request)

        async with httpx2.AsyncClient(transport=httpx2.MockTransport(late)) as client:
            error = await error_of(OpenAIModel("m", base_url="http://x.test", http_client=client))
        assert (error.kind, error.retryable, error.sent) == ("timeout", True, sent)
        assert "did not answer in time" in str(error)

    async def test_no_client_can_be_made(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """It is an error of the model like any other, nothing was sent, and the next request tries again."""
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
        model = OpenAIModel("m", base_url="https://nowhere.invalid/v1")
        error = await error_of(model)
        assert (error.kind, error.sent) == ("connection", False)
        assert "FileNotFoundError" in str(error)
        monkeypatch.delenv("SSL_CERT_FILE")
        assert "ConnectError" in str(await error_of(model))

    async def test_something_else_answers(self) -> None:
        transport = httpx2.MockTransport(lambda request: httpx2.Response(200, html="<h1>welcome</h1>"))
        async with httpx2.AsyncClient(transport=transport) as client:
            error = await error_of(OpenAIModel("m", base_url="http://x.test", http_client=client))
        assert error.kind == "unsupported"
        assert "check the base URL" in str(error)

    @pytest.mark.parametrize(
        ("turn", "timeouts", "what"),
        [
            (Stall(), Timeouts(first_chunk=0.3), "did not begin to answer within 0.3 s"),
            (Stall(after_chunks=1), Timeouts(first_chunk=1), "first_chunk: 1 s"),
            (Stall(after_chunks=3), Timeouts(idle=0.2), "idle: 0.2 s"),
            (Slow(Say("word " * 50), 0.1), Timeouts(total=1), "total: 1 s"),
            (Slow(Raw(*[": ping\n\n"] * 100), 0.1), Timeouts(first_chunk=1), "first_chunk: 1 s"),
        ],
    )
    async def test_timeouts(self, turn: Any, timeouts: Timeouts, what: str) -> None:
        """STRM-01, STRM-02: comments that keep the connection alive do not count."""
        async with ChatServer([Say("warm"), turn]) as server:
            await chunks_of(model_of(server))
            error = await error_of(model_of(server, timeouts=timeouts))
            assert error.kind == "timeout"
            assert what in str(error)
            with anyio.fail_after(5):
                await server.requests[1].done.wait()
            assert server.requests[1].closed_by_peer


@asynccontextmanager
async def picky(*fields: str) -> AsyncIterator[ChatServer]:
    async with ChatServer(lambda body, n: Say("fine"), rejects=fields) as server:
        yield server


@pytest.mark.anyio
class TestServersThatDoNotTakeAField:
    @pytest.mark.parametrize("field", ["stream_options", "parallel_tool_calls", "tool_choice", "max_tokens"])
    async def test_it_is_dropped_once_and_for_all(self, field: str) -> None:
        """USAG-02, PROV-01: one fall-back within the attempt, remembered."""
        request = asking(tools=(READ,), tool_choice="required", max_tokens=5)
        async with picky(field) as server:
            model = model_of(server)
            assert text_of(await chunks_of(model, request)) == "fine"
            assert text_of(await chunks_of(model, request)) == "fine"
        assert [received.status for received in server.requests] == [400, 200, 200]
        assert [field in received.body for received in server.requests] == [True, False, False]
        if field == "max_tokens":
            assert server.requests[-1].body["max_completion_tokens"] == 5

    @pytest.mark.parametrize("field", ["thinking_token_budget", "reasoning_effort"])
    async def test_the_limit_of_thinking_is_told_and_dropped_where_it_is_refused(self, field: str) -> None:
        request = asking(max_tokens=5000, reasoning_tokens=2000)
        async with picky() as server:
            await chunks_of(model_of(server, reasoning_field=field), request)
            await chunks_of(model_of(server), request)
        assert [received.body.get(field) for received in server.requests] in ([2000, None], ["low", None])
        async with picky(field) as server:
            model = model_of(server, reasoning_field=field)
            for _ in range(2):
                assert text_of(await chunks_of(model, request)) == "fine"
        assert [field in received.body for received in server.requests] == [True, False, False]
        assert [received.body["max_tokens"] for received in server.requests] == [5000] * 3

    async def test_one_that_holds_no_reply_to_a_schema(self) -> None:
        request = asking(answer_schema={"type": "object"})
        async with picky("response_format") as server:
            model = model_of(server)
            assert text_of(await chunks_of(model, request)) == "fine"
            assert text_of(await chunks_of(model, request)) == "fine"
        assert [received.status for received in server.requests] == [400, 200, 200]
        assert ["response_format" in received.body for received in server.requests] == [True, False, False]

    async def test_one_that_takes_neither_name_of_the_token_bound(self) -> None:
        async with picky("max_tokens", "max_completion_tokens") as server:
            error = await error_of(model_of(server), asking(max_tokens=5))
        assert error.kind == "bad_request"
        assert len(server.requests) == 2

    async def test_one_that_takes_none_of_them(self) -> None:
        request = asking(tools=(READ,), tool_choice="required", max_tokens=5)
        async with picky("stream_options", "parallel_tool_calls", "tool_choice", "max_completion_tokens") as server:
            model = model_of(server, max_tokens_field="max_completion_tokens")
            assert text_of(await chunks_of(model, request)) == "fine"
            assert text_of(await chunks_of(model, request)) == "fine"
        assert [received.status for received in server.requests] == [400, 400, 400, 400, 200, 200]

    async def test_what_did_not_help_is_not_remembered(self) -> None:
        echo = Fault(400, body={"error": {"message": 'bad request: {"stream_options": {"include_usage": true}}'}})
        async with ChatServer([echo, echo, Say("fine")]) as server:
            model = model_of(server)
            assert (await error_of(model)).kind == "bad_request"
            await chunks_of(model)
        assert ["stream_options" in received.body for received in server.requests] == [True, False, True]


def test_one_model_serves_several_event_loops_of_both_kinds() -> None:
    models: list[OpenAIModel] = []

    async def main() -> str:
        async with ChatServer([Say("fine")]) as server:
            models[:] = models or [model_of(server)]
            models[0].base_url = server.base_url
            return text_of(await chunks_of(models[0]))

    assert [anyio.run(main, backend=backend) for backend in ("asyncio", "trio", "asyncio")] == ["fine"] * 3
