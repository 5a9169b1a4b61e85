"""Which kind of failure an answer is, whether to come again, and when. Pure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.models.failure import answered, reported, retry_after, unsupported_field


class TestFailure:
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
            ({"retry-after": "\x1f7\x1f"}, 7),
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

    @pytest.mark.parametrize(
        "message",
        [
            "response_format is not supported",
            "Invalid schema for response_format 'answer': 'additionalProperties' is required",
            "JSON schema conversion failed: unsupported pattern",
            "Failed to initialize samplers: failed to parse grammar",
        ],
    )
    def test_a_schema_that_a_server_cannot_use_is_left_out(self, message: str) -> None:
        error = {"message": message}
        assert unsupported_field({"response_format": {}}, 400, error, json.dumps(error)) == "response_format"
        assert unsupported_field({"max_tokens": 1}, 400, error, json.dumps(error)) is None

    def test_a_validation_error_names_the_field_in_its_details(self) -> None:
        answer = {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}
        assert unsupported_field({"stream_options": {}}, 422, answer, json.dumps(answer)) == "stream_options"


@pytest.mark.parametrize(
    ("body", "window"),
    [
        ({"error": {"type": "exceed_context_size_error", "n_ctx": 4096, "n_prompt_tokens": 9000}}, 4096),
        ({"message": "This model's maximum context length is 8192 tokens. However, you requested 9,000."}, 8192),
        ({"message": "maximum context length of 128,000 tokens"}, 128_000),
        ({"error": {"code": "context_length_exceeded", "message": "too long by 4000 tokens"}}, None),
        ({"error": {"type": "exceed_context_size_error", "n_ctx": 3}}, None),
        ({"error": {"type": "exceed_context_size_error", "n_ctx": 10**12}}, None),
        ({"error": {"type": "exceed_context_size_error", "n_ctx": True}}, None),
        ({"error": {"type": "exceed_context_size_error", "n_ctx": "4096"}}, None),
    ],
)
def test_the_window_is_taken_from_where_a_server_says_it(body: object, window: int | None) -> None:
    error = answered(400, body, {}, who="it", now=0.0)
    assert (error.kind, error.window) == ("context_length", window)
    if isinstance(body, dict) and "error" in body:
        assert reported(body["error"], who="it").window == window


def test_other_errors_say_nothing_of_a_window() -> None:
    assert answered(400, {"error": {"message": "no", "n_ctx": 4096}}, {}, who="it", now=0.0).window is None
