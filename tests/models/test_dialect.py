"""The dialect: what is sent, and what is made of what comes back, whatever servers do to it. Pure."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import calls_of, choice, read_events, text_of

from watchkeeper.messages import Call, Message, Usage
from watchkeeper.model import Finished, ModelError, Request, TextDelta, UsageReported
from watchkeeper.models.dialect import EventReader, Shape, request_body
from watchkeeper.models.failure import answered
from watchkeeper.price import UNIT, Price
from watchkeeper.testing.strict import check_request

READ = {"name": "read", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}
HI = Message("user", "hi")
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


def asking(*messages: Message, **fields: Any) -> Request:
    return Request(messages or (HI,), **fields)


PROVIDERS = [
    (
        "OpenAI",
        "within",
        {"prompt_tokens": 1000, "total_tokens": 1020, "prompt_tokens_details": {"cached_tokens": 600}},
    ),
    ("no total", "within", {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 600}}),
    ("DeepSeek", "within", {"prompt_tokens": 1000, "prompt_cache_hit_tokens": 600, "prompt_cache_miss_tokens": 400}),
    ("LiteLLM", "within", {"prompt_tokens": 1000, "total_tokens": 1020, "cache_read_input_tokens": 600}),
    ("Anthropic, passed on", "beside", {"prompt_tokens": 400, "total_tokens": 420, "cache_read_input_tokens": 600}),
    ("its total says so", "within", {"prompt_tokens": 400, "total_tokens": 1020, "cache_read_input_tokens": 600}),
    ("beside, in details", "beside", {"prompt_tokens": 400, "prompt_tokens_details": {"cached_tokens": 600}}),
]
"""How servers count one and the same request: 1,000 tokens of which 600 were cached, and 20 of the reply."""


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

    def test_a_schema_for_the_answer_is_sent_where_there_are_no_tools(self) -> None:
        body = request_body("m", asking(answer_schema=SCHEMA))
        form = {"name": "answer", "schema": SCHEMA, "strict": True}
        assert body["response_format"] == {"type": "json_schema", "json_schema": form}
        assert check_request(body) is None
        assert "response_format" not in request_body("m", asking())

    def test_beside_tools_it_is_sent_only_where_both_are_known_to_combine(self) -> None:
        asked = asking(tools=(READ,), answer_schema=SCHEMA)
        assert "response_format" not in request_body("m", asked)
        assert "response_format" in request_body("m", asked, schema_with_tools=True)
        off = asking(tools=(READ,), tool_choice="none", answer_schema=SCHEMA)
        assert "response_format" in request_body("m", off)
        assert "response_format" not in request_body("m", off, withhold_tools=False)

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object"},
            {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
            {"type": "array", "items": {"type": "object", "properties": {"a": {}}, "required": ["a"]}},
        ],
    )
    def test_a_schema_with_open_objects_is_not_called_strict(self, schema: dict[str, Any]) -> None:
        body = request_body("m", asking(answer_schema=schema))
        assert body["response_format"]["json_schema"]["strict"] is False

    def test_a_server_that_does_not_know_it_goes_without(self) -> None:
        shape = Shape().refusing("response_format")
        assert shape is not None
        assert "response_format" not in request_body("m", asking(answer_schema=SCHEMA), shape)
        assert shape.refusing("response_format") is None

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

    @pytest.mark.parametrize(
        ("field", "tokens", "sent"),
        [
            ("thinking_token_budget", 700, 700),
            ("reasoning", 700, {"max_tokens": 700}),
            ("reasoning_effort", 0, "none"),
            ("reasoning_effort", 1, "minimal"),
            ("reasoning_effort", 1_023, "minimal"),
            ("reasoning_effort", 1_024, "low"),
            ("reasoning_effort", 8_192, "medium"),
            ("reasoning_effort", 10**6, "high"),
        ],
    )
    def test_the_limit_of_thinking_as_the_server_knows_it(self, field: str, tokens: int, sent: Any) -> None:
        shape = Shape(reasoning_field=field)
        request = asking(max_tokens=2_000_000, reasoning_tokens=tokens)
        assert request_body("m", request, shape)[field] == sent
        assert field not in request_body("m", asking(max_tokens=9), shape)
        assert field not in request_body("m", request)
        without = shape.refusing(field)
        assert without is not None
        assert field not in request_body("m", request, without)
        assert without.refusing(field) is None

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

    @pytest.mark.parametrize(
        "counted",
        [
            {"prompt_tokens_details": {"cache_write_tokens": 6}},
            {"prompt_tokens_details": {"cache_creation_tokens": 6}},
            {"cache_creation_input_tokens": 6},
        ],
    )
    def test_what_was_put_into_the_cache(self, counted: dict[str, Any]) -> None:
        usage = {"prompt_tokens": 10, "completion_tokens": 20, **counted}
        assert read_events({**choice({}, "stop"), "usage": usage})[-1] == UsageReported(
            Usage(10, 20, cache_write_tokens=6)
        )

    @pytest.mark.parametrize(("server", "cached", "usage"), PROVIDERS)
    def test_cost_02_one_request_costs_the_same_whoever_counts(self, server: str, cached: Any, usage: Any) -> None:
        reader = EventReader(server, cached)
        chunks = [*reader.feed({**choice({}, "stop"), "usage": {**usage, "completion_tokens": 20}}), *reader.end()]
        told = chunks[-1]
        assert isinstance(told, UsageReported)
        assert told.usage == Usage(1_000, 20, cached_tokens=600, cache_write_tokens=told.usage.cache_write_tokens)
        price = Price(input=2.0, output=10.0, cached=0.5)
        assert price.of(told.usage) * UNIT == pytest.approx(400 * 2.0 + 600 * 0.5 + 20 * 10.0)

    def test_what_is_put_into_a_cache_is_counted_beside_too(self) -> None:
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "cache_creation_input_tokens": 300}
        for cached, total in (("beside", 120), ("within", 420)):
            reader = EventReader("server", cached)
            *_, told = [*reader.feed({**choice({}, "stop"), "usage": {**usage, "total_tokens": total}}), *reader.end()]
            assert told == UsageReported(Usage(400, 20, cache_write_tokens=300))

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
