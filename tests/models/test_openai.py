"""The model edge against a strict server on loopback, on both back ends: what is sent, what comes back, what fails."""

from __future__ import annotations

import gzip
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
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.errors import ConfigurationError
from watchkeeper.messages import Call, Message, Usage
from watchkeeper.model import (
    CallDelta,
    Chunk,
    Finished,
    Model,
    ModelError,
    Request,
    TextDelta,
    Timeouts,
    UsageReported,
)
from watchkeeper.models.dialect import EventReader, Shape, request_body
from watchkeeper.models.failure import answered, reported, retry_after, unsupported_field
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
    check_request,
    context_overflow,
    no_quota,
    rate_limited,
)

READ = {"name": "read", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}
HI = Message("user", "hi")
SSE = "data: {}\n\n"


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


def text_of(chunks: list[Chunk], channel: str = "content") -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta) and chunk.channel == channel)


def calls_of(chunks: list[Chunk]) -> list[tuple[str | None, str | None, str]]:
    calls: dict[int, tuple[str | None, str | None, str]] = {}
    for chunk in chunks:
        if isinstance(chunk, CallDelta):
            call_id, tool, arguments = calls.get(chunk.index, (None, None, ""))
            tool = (tool or "") + chunk.tool if chunk.tool else tool  # a reader may put names together, too
            calls[chunk.index] = (call_id or chunk.id, tool, arguments + chunk.arguments)
    return [calls[index] for index in sorted(calls)]


def read_events(*events: Any) -> list[Chunk]:
    reader = EventReader("server")
    return [chunk for event in events for chunk in reader.feed(event)] + reader.end()


def choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


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


class TestRequestBody:
    def test_a_whole_conversation_passes_the_strict_check(self) -> None:
        conversation = (
            Message("system", "be brief"),
            HI,
            Message("assistant", "let me see", calls=(Call("a", "read", '{"x": 1}'), Call("b", "read", "{}"))),
            Message("tool", "one", call_id="a", tool="read"),
            Message("tool", "", call_id="b", tool="read"),
            Message("user", "[watchkeeper] go on", mark="watchkeeper"),
        )
        body = request_body("m", Request(conversation, tools=(READ,), max_tokens=9, tool_choice="required"))
        assert check_request(body) is None
        assert [message["role"] for message in body["messages"]] == [
            *["system", "user", "assistant", "tool", "tool", "user"],
        ]
        assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"x": 1}'}
        assert body["messages"][3] == {"role": "tool", "tool_call_id": "a", "content": "one"}
        assert (body["max_tokens"], body["tool_choice"], body["parallel_tool_calls"]) == (9, "required", True)
        assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
        assert body["tools"] == [{"type": "function", "function": READ}]

    def test_content_of_a_calling_turn_is_null_if_there_is_none(self) -> None:
        history = (HI, Message("assistant", "", calls=(Call("a", "read", "{}"),)), Message("tool", "x", call_id="a"))
        assert request_body("m", Request(history))["messages"][1]["content"] is None

    def test_system_messages_come_first_as_one(self) -> None:
        body = request_body("m", asking(HI, Message("system", "one"), Message("system", "two")))
        assert [message["content"] for message in body["messages"]] == ["one\n\ntwo", "hi"]

    @pytest.mark.parametrize(
        "arguments", ["", "null", "[1]", '"x"', '{"a": ', '{"a": NaN}', '{"a": "\\ud800"}', "{" * 10**5, "\ud800"]
    )
    def test_arguments_that_are_no_object_are_not_sent(self, arguments: str) -> None:
        history = (HI, Message("assistant", "", calls=(Call("a", "t", arguments),)), Message("tool", "x", call_id="a"))
        body = request_body("m", Request(history))
        assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"
        assert check_request(body) is None

    def test_lone_surrogates_are_replaced_everywhere(self) -> None:
        tool = {"name": "read", "description": "\ud800", "parameters": {"type": "object", "x": ["\udfff"]}}
        body = request_body(
            "m", asking(Message("user", "a\ud83d\ude00b\ud800"), tools=(tool,)), extra={"user": "\ud800"}
        )
        json.dumps(body, ensure_ascii=False).encode()
        assert body["messages"][0]["content"] == "a\N{GRINNING FACE}b\N{REPLACEMENT CHARACTER}"

    @pytest.mark.parametrize(
        ("choice", "sent"),
        [
            ("auto", None),
            ("required", "required"),
            ("read", {"type": "function", "function": {"name": "read"}}),
        ],
    )
    def test_tool_choice(self, choice: str, sent: Any) -> None:
        assert request_body("m", asking(tools=(READ,), tool_choice=choice)).get("tool_choice") == sent

    def test_without_tools_nothing_about_tools_is_said(self) -> None:
        """PROV-01: servers reject the fields without tools."""
        body = request_body("m", asking(tool_choice="none", parallel=False))
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)

    def test_none_withholds_the_tools_unless_told_not_to(self) -> None:
        request = asking(tools=(READ,), tool_choice="none")
        assert "tools" not in request_body("m", request)
        body = request_body("m", request, withhold_tools=False)
        assert (len(body["tools"]), body["tool_choice"]) == (1, "none")

    def test_extra_fields_are_added_and_win(self) -> None:
        body = request_body("m", asking(max_tokens=5), extra={"temperature": 0, "max_tokens": 3, "stream": False})
        assert (body["temperature"], body["max_tokens"], body["stream"]) == (0, 3, True)

    def test_a_shape_gives_each_field_up_once(self) -> None:
        shape = Shape("max_tokens").refusing("stream_options")
        assert shape is not None
        assert "stream_options" not in request_body("m", asking(), shape)
        assert shape.refusing("stream_options") is None
        other = shape.refusing("max_tokens")
        assert other is not None
        assert request_body("m", asking(max_tokens=7), other)["max_completion_tokens"] == 7
        assert other.refusing("max_completion_tokens") is None
        assert shape.refusing(None) is shape.refusing("messages") is None

    @given(
        st.lists(
            st.builds(
                Message,
                st.sampled_from(["system", "user", "assistant"]),
                st.text(st.characters(), min_size=1),
                st.lists(st.builds(Call, st.text(), st.just("t"), st.text(st.characters())), max_size=2).map(tuple),
            )
        )
    )
    def test_whatever_was_said_can_be_sent(self, conversation: list[Message]) -> None:
        json.dumps(request_body("m", Request(tuple(conversation))), ensure_ascii=False).encode()


class TestEvents:
    def test_text_reasoning_and_the_end(self) -> None:
        chunks = read_events(
            choice({"role": "assistant", "content": None}),
            choice({"reasoning_content": "hm"}),
            choice({"reasoning": ", hm", "content": ""}),
            choice({"content": "yes"}),
            choice({}, "stop"),
            {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}},
        )
        assert chunks == [
            TextDelta("hm", "reasoning"),
            TextDelta(", hm", "reasoning"),
            TextDelta("yes"),
            Finished("stop"),
            UsageReported(Usage(5, 2)),
        ]

    def test_reasoning_under_both_names_is_one(self) -> None:
        chunks = read_events(choice({"reasoning": "a", "reasoning_content": "a"}, "stop"))
        assert text_of(chunks, "reasoning") == "a"

    def test_content_in_parts(self) -> None:
        parts = [{"type": "text", "text": "a"}, {"type": "image"}, 7, {"type": "text", "text": "b"}]
        assert text_of(read_events(choice({"content": parts}, "stop"))) == "ab"

    def test_details_of_usage(self) -> None:
        usage = {
            "prompt_tokens": 10,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 8},
        }
        assert read_events({**choice({}, "stop"), "usage": usage})[-1] == UsageReported(Usage(10, 20, 4, 8))

    def test_usage_that_counts_on_in_every_event_is_told_once(self) -> None:
        events = [{**choice({"content": "x"}), "usage": {"prompt_tokens": 3, "completion_tokens": i}} for i in range(4)]
        chunks = read_events(*events, choice({}, "stop"))
        assert [c for c in chunks if isinstance(c, UsageReported)] == [UsageReported(Usage(3, 3))]

    @pytest.mark.parametrize(
        "usage",
        [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": -1}, {"prompt_tokens": "7"}, 7],
    )
    def test_usage_that_is_none(self, usage: Any) -> None:
        """USAG-02: nothing is better than a zero that is not true."""
        chunks = read_events({**choice({"content": "400 words"}, "stop"), "usage": usage})
        assert not any(isinstance(chunk, UsageReported) for chunk in chunks)

    @pytest.mark.parametrize("reason", ["stop", "tool_calls", "length", "content_filter", "foo"])
    def test_finish_reasons_are_passed_on_by_name(self, reason: str) -> None:
        assert read_events(choice({}, reason))[-1] == Finished(reason)

    def test_a_refusal_is_text_with_a_reason_of_its_own(self) -> None:
        chunks = read_events(choice({"refusal": "I can't"}), choice({}, "stop"))
        assert chunks == [TextDelta("I can't"), Finished("refusal")]

    def test_the_old_function_call(self) -> None:
        chunks = read_events(choice({"function_call": {"name": "t", "arguments": "{}"}}), choice({}, "function_call"))
        assert calls_of(chunks) == [(None, "t", "{}")]
        assert chunks[-1] == Finished("tool_calls")

    @pytest.mark.parametrize(
        ("pieces", "calls"),
        [
            pytest.param(
                [
                    {"index": 0, "id": "a", "function": {"name": "t", "arguments": ""}},
                    {"index": 0, "function": {"arguments": '{"x"'}},
                    {"index": 0, "function": {"arguments": ": 1}"}},
                ],
                [("a", "t", '{"x": 1}')],
                id="as it should be",
            ),
            pytest.param(
                [{"index": 0, "id": i, "function": {"name": "t", "arguments": "{}"}} for i in "ab"],
                [("a", "t", "{}"), ("b", "t", "{}")],
                id="every call has number 0",
            ),
            pytest.param(
                [{"index": 0, "function": {"name": "t", "arguments": "{}"}}] * 2,
                [(None, "t", "{}"), (None, "t", "{}")],
                id="number 0 and no ids",
            ),
            pytest.param(
                [{"id": "", "function": {"name": "t", "arguments": "{}"}}] * 2,
                [(None, "t", "{}"), (None, "t", "{}")],
                id="no numbers and empty ids",
            ),
            pytest.param(
                [{"index": 0, "id": "a", "function": {"name": "t", "arguments": p}} for p in ("{", "}")],
                [("a", "t", "{}")],
                id="id and name in every piece",
            ),
            pytest.param(
                [{"function": {"name": "t", "arguments": "{"}}, {"function": {"arguments": "}"}}],
                [(None, "t", "{}")],
                id="no numbers, in pieces",
            ),
            pytest.param(
                [{"index": 0, "id": "a", "function": {"name": "t", "arguments": {"x": 1}}}],
                [("a", "t", '{"x": 1}')],
                id="arguments as an object",
            ),
            pytest.param(
                [{"index": i, "id": "same", "function": {"name": "t", "arguments": "{}"}} for i in (0, 1)],
                [("same", "t", "{}"), ("same", "t", "{}")],
                id="equal ids",
            ),
            pytest.param(
                [{"index": 0, "id": "a", "function": {"name": "t", "arguments": None}}, {"index": 7, "id": "b"}, "x"],
                [("a", "t", ""), ("b", None, "")],
                id="gaps and nonsense",
            ),
        ],
    )
    def test_calls_whatever_servers_do_to_them(self, pieces: list[Any], calls: list[Any]) -> None:
        chunks = read_events(*(choice({"tool_calls": [piece]}) for piece in pieces), choice({}, "tool_calls"))
        assert calls_of(chunks) == calls

    def test_an_empty_stream_and_a_cut_one(self) -> None:
        with pytest.raises(ModelError, match="empty reply") as caught:
            read_events({"usage": {"prompt_tokens": 3}})
        assert caught.value.kind == "empty_stream"
        with pytest.raises(ModelError, match="without a finish reason") as caught:
            read_events(choice({"content": "so f"}))
        assert caught.value.kind == "connection"

    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "delta", "message", "content", "tool_calls", "function", "id", "index"])
                | st.sampled_from(["name", "arguments", "usage", "prompt_tokens", "finish_reason", "refusal", "text"]),
                inner,
                max_size=6,
            )
        ),
        max_leaves=20,
    )

    @given(st.lists(json_values, max_size=4))
    def test_nothing_that_a_server_sends_raises_another_error(self, events: list[Any]) -> None:
        reader = EventReader("server")
        for event in events:
            reader.feed(event)
            reader.feed({"choices": [{"delta": event, "finish_reason": event}], "usage": event})
            reader.feed({"choices": [{"delta": {"tool_calls": event, "content": event}}]})
            reader.feed({"choices": [{"delta": {"tool_calls": [event, {"function": event, "index": event}]}}]})


class TestClassification:
    @pytest.mark.parametrize(
        ("status", "body", "kind"),
        [
            (400, {"error": {"message": "no"}}, "bad_request"),
            (400, {"error": {"code": "context_length_exceeded"}}, "context_length"),
            (400, {"error": {"code": 400, "type": "exceed_context_size_error"}}, "context_length"),
            (400, {"message": "This model's maximum context length is 4096 tokens."}, "context_length"),
            (401, {}, "auth"),
            (402, {"error": {"message": "Insufficient Balance"}}, "no_quota"),
            (403, "", "auth"),
            (404, {"error": "model 'm' not found"}, "not_found"),
            (408, {}, "timeout"),
            (409, {}, "bad_request"),
            (422, {"detail": [{"loc": ["body"], "msg": "x"}]}, "bad_request"),
            (429, {"error": {"code": "insufficient_quota", "message": "x"}}, "no_quota"),
            (429, {"error": {"code": "x", "type": "insufficient_quota"}}, "no_quota"),
            (429, {"error": {"code": "billing_hard_limit_reached"}}, "no_quota"),
            (429, {"error": {"code": "rate_limit_exceeded"}}, "rate_limited"),
            (429, [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "your quota"}}], "rate_limited"),
            (429, {"error": {"code": "429", "message": "over the limit, check your billing"}}, "rate_limited"),
            (500, "<html>oops</html>", "server"),
            (501, {}, "unsupported"),
            (502, "", "server"),
            (503, {}, "overloaded"),
            (504, {}, "server"),
            (529, {}, "overloaded"),
            (418, None, "bad_request"),
        ],
    )  # fmt: skip
    def test_by_structured_code_then_by_status(self, status: int, body: Any, kind: str) -> None:
        """RTRY-04, RTRY-05: prose never decides whether to retry."""
        error = answered(status, body, {}, who="http://x", now=0)
        assert (error.kind, error.status) == (kind, status)
        assert f"http://x answered {status}" in str(error)

    def test_the_message_names_the_remedy_and_never_the_key(self) -> None:
        body = {"error": {"message": "Incorrect API key provided: sk-secret.\n Sorry. " + "x" * 10_000}}
        error = answered(401, body, {}, who="http://x", now=0, secret="sk-secret")
        assert "OPENAI_API_KEY" in str(error)
        assert "sk-secret" not in str(error)
        assert len(str(error)) < 700

    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            ({"code": 503, "message": "busy"}, "overloaded"),
            ({"code": "rate_limit_exceeded"}, "rate_limited"),
            ({"type": "overloaded_error"}, "overloaded"),
            ({"code": "insufficient_quota"}, "no_quota"),
            ({"type": "exceed_context_size_error", "code": 400}, "context_length"),
            ({"type": "invalid_request_error"}, "bad_request"),
            ({"message": "something happened"}, "server"),
            ("something happened", "server"),
            ({"code": 12345}, "server"),
            (True, "server"),
        ],
    )
    def test_an_error_in_the_middle_of_a_stream(self, error: Any, kind: str) -> None:
        assert reported(error, who="http://x").kind == kind

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_a_server_that_asks_not_to_retry_is_heard(self, status: int) -> None:
        error = answered(status, {}, {"x-should-retry": "false"}, who="http://x", now=0)
        assert (error.retryable, error.status) == (False, status)
        assert answered(status, {}, {"x-should-retry": "true"}, who="http://x", now=0).retryable

    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ({}, None),
            ({"retry-after": "60"}, 60),
            ({"retry-after": "1.5"}, 1.5),
            ({"retry-after": "0"}, 0),
            ({"retry-after": "-1"}, None),
            ({"retry-after": "abc"}, None),
            ({"retry-after": ""}, None),
            ({"retry-after": "nan"}, None),
            ({"retry-after": "9" * 400}, None),
            ({"retry-after": "864000"}, 864000),
            ({"retry-after-ms": "250", "retry-after": "60"}, 0.25),
            ({"retry-after-ms": "-5", "retry-after": "60"}, 60),
            ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40),
            ({"retry-after": "Thu, 01 Jan 1970 00:00:30 GMT"}, None),
            ({"retry-after": "Fri, 01 Jan 2027 00:01:00 GMT", "date": "Fri, 01 Jan 2027 00:00:00 GMT"}, 60),
            ({"retry-after": "Fri, 99 Jan 2027 00:01:00 GMT"}, None),
        ],
    )
    def test_retry_after(self, headers: dict[str, str], seconds: float | None) -> None:
        """RTRY-01: what cannot be used is as good as not there."""
        assert retry_after(headers, now=60.0) == seconds

    @given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False))
    def test_retry_after_never_raises(self, value: str, date: str, now: float) -> None:
        seconds = retry_after({"retry-after": value, "retry-after-ms": date, "date": date}, now)
        assert seconds is None or seconds >= 0

    @pytest.mark.parametrize(
        ("error", "field"),
        [
            ({"code": "unsupported_parameter", "param": "stream_options", "message": "x"}, "stream_options"),
            ({"param": "stream_options.include_usage", "message": "x"}, "stream_options"),
            ({"message": "Unrecognized request argument supplied: parallel_tool_calls"}, "parallel_tool_calls"),
            ({"message": "tool_choice is not supported"}, "tool_choice"),
            (
                {"message": "Unsupported: 'max_tokens'. Use 'max_completion_tokens' instead.", "param": "max_tokens"},
                "max_tokens",
            ),
            ({"message": "'max_tokens' or 'max_completion_tokens' is too large: 5000"}, None),
            ({"message": "max_tokens_extra is unknown"}, None),
            ({"message": "messages are wrong"}, None),
        ],
    )  # fmt: skip
    def test_which_field_a_server_does_not_take(self, error: dict[str, Any], field: str | None) -> None:
        body = {"stream_options": {}, "parallel_tool_calls": True, "tool_choice": "none", "max_tokens": 1}
        assert unsupported_field(body, 400, error, json.dumps(error)) == field
        assert unsupported_field(body, 500, error, json.dumps(error)) is None
        assert unsupported_field({}, 400, error, json.dumps(error)) is None

    def test_a_validation_error_names_the_field_in_its_details(self) -> None:
        answer = {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}
        assert unsupported_field({"stream_options": {}}, 422, answer, json.dumps(answer)) == "stream_options"


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
        assert (error.kind, error.retryable) == ("connection", True)
        assert "ConnectError" in str(error)

    async def test_no_tls_where_tls_was_expected(self) -> None:
        async with ChatServer([]) as server:
            error = await error_of(OpenAIModel("m", base_url=server.base_url.replace("http", "https")))
        assert error.kind == "connection"

    async def test_no_such_host(self) -> None:
        error = await error_of(OpenAIModel("m", base_url="http://nowhere.invalid/v1"))
        assert error.kind == "connection"

    async def test_something_else_answers(self) -> None:
        transport = httpx2.MockTransport(lambda request: httpx2.Response(200, html="<h1>welcome</h1>"))
        async with httpx2.AsyncClient(transport=transport) as client:
            error = await error_of(OpenAIModel("m", base_url="http://x.test", http_client=client))
        assert error.kind == "unsupported"
        assert "check the base URL" in str(error)

    @pytest.mark.parametrize(
        ("turn", "timeouts", "what"),
        [
            (Stall(), Timeouts(first_chunk=0.2), "did not begin to answer within 0.2 s"),
            (Stall(after_chunks=1), Timeouts(first_chunk=0.2), "first_chunk: 0.2 s"),
            (Stall(after_chunks=3), Timeouts(idle=0.2), "idle: 0.2 s"),
            (Slow(Say("word " * 50), 0.05), Timeouts(total=0.3), "total: 0.3 s"),
            (Slow(Raw(*[": ping\n\n"] * 100), 0.05), Timeouts(first_chunk=0.3), "first_chunk: 0.3 s"),
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


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> list[dict[str, Any]]:
    with gzip.open(shared_data / "corpora" / "smollm2_requests.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class TestWhatARealModelSaid:
    """Requests and replies of a small model behind llama.cpp, recorded in a bare loop."""

    def test_the_strict_check_accepts_what_a_real_server_accepted(self, recorded: list[dict[str, Any]]) -> None:
        assert {check_request(row["request"]) for row in recorded} == {None}

    def test_every_reply_can_be_read(self, recorded: list[dict[str, Any]]) -> None:
        for row in recorded:
            if row.get("http") == 200:
                calls = row["response"]["choices"][0]["message"].get("tool_calls") or []
                read = calls_of(read_events(row["response"]))
                assert [arguments for _, _, arguments in read] == [call["function"]["arguments"] for call in calls]

    def test_a_streamed_call_adds_up(self, recorded: list[dict[str, Any]]) -> None:
        (row,) = [row for row in recorded if row["tag"] == "stream-tool-call"]
        chunks = read_events(*row["response_chunks"])
        ((_, tool, arguments),) = calls_of(chunks)
        assert (tool, list(json.loads(arguments))) == ("list_dir", ["path"])
        assert isinstance(chunks[-1], UsageReported)

    def test_the_end_of_its_endless_loops_is_known_for_what_it_is(self, recorded: list[dict[str, Any]]) -> None:
        refused = [row for row in recorded if row.get("http") == 400]
        errors = [answered(400, row["response"], {}, who="server", now=0) for row in refused]
        assert len(errors) == 5
        assert {error.kind for error in errors} == {"context_length"}


def test_one_model_serves_several_event_loops_of_both_kinds() -> None:
    models: list[OpenAIModel] = []

    async def main() -> str:
        async with ChatServer([Say("fine")]) as server:
            models[:] = models or [model_of(server)]
            models[0].base_url = server.base_url
            return text_of(await chunks_of(models[0]))

    assert [anyio.run(main, backend=backend) for backend in ("asyncio", "trio", "asyncio")] == ["fine"] * 3
