"""What went wrong with an attempt: status, structured code and headers become a :class:`ModelError`. Pure."""

from __future__ import annotations

import email.utils
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from ..model import ErrorKind, ModelError

MAX_DETAIL = 500
"""Characters of a server's own words that an error repeats."""

_NO_QUOTA = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error"}
)
_CONTEXT = frozenset({"context_length_exceeded", "exceed_context_size_error"})
# Servers without a code for it: vLLM, older llama.cpp. Neither kind is retried, so words may decide here.
_WINDOW_WORDS = re.compile(r"maximum context length (?:is|of) ([\d,]{3,12}) tokens")
LEAST_WINDOW, MOST_WINDOW = 128, 10**9
"""Tokens outside of which what a server says of its window is not believed."""
_CONTEXT_WORDS = ("maximum context length", "exceeds the available context size")

_BY_CODE: dict[str, ErrorKind] = {
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
    "too_many_requests": "rate_limited",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "engine_overloaded": "overloaded",
    "timeout": "timeout",
    "timeout_error": "timeout",
    "invalid_api_key": "auth",
    "authentication_error": "auth",
    "permission_error": "auth",
    "model_not_found": "not_found",
    "not_found_error": "not_found",
    "invalid_request_error": "bad_request",
    "not_supported_error": "unsupported",
}
_BY_STATUS: dict[int, ErrorKind] = {
    401: "auth",
    402: "no_quota",
    403: "auth",
    404: "not_found",
    408: "timeout",
    429: "rate_limited",
    501: "unsupported",
    503: "overloaded",
    529: "overloaded",
}
_REMEDY: dict[str, str] = {
    "auth": "check the API key (api_key= or OPENAI_API_KEY)",
    "no_quota": "the account has no quota left; waiting does not mend that",
    "not_found": "check the model's name and the base URL (it usually ends in /v1)",
    "context_length": "the conversation is longer than the model's context",
}


def answered(
    status: int, body: object, headers: Mapping[str, str], *, who: str, now: float, secret: str = ""
) -> ModelError:
    """The error behind an answer with an error status.

    ``body`` is the decoded JSON, or text. ``headers`` are looked up in lower case. ``now`` is UTC in seconds since the
    epoch. ``secret`` is kept out of the message. A structured code decides before the status does, prose never alone.
    An answer with ``x-should-retry: false`` is of kind ``unknown`` if its own kind would be retried.
    """
    codes, words = _read(body)
    kind = _kind(status, codes, words)
    error = _error(kind, f"{who} answered {status}", words, secret=secret)
    error.status = status
    error.window = _window(body, words) if kind == "context_length" else None
    error.retry_after = retry_after(headers, now)
    if error.retryable and (headers.get("x-should-retry") or "").strip().lower() == "false":
        return ModelError("unknown", f"{error}; it asks not to retry", retry_after=error.retry_after, status=status)
    return error


def reported(error: object, *, who: str, secret: str = "") -> ModelError:
    """The error that a server reported in the middle of a stream: ``error`` is the value of that field."""
    codes, words = _read({"error": error})
    status = next((int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)), None)
    mapped = _error(_kind(status, codes, words), f"{who} broke off its reply", words, secret=secret)
    mapped.status = status
    mapped.window = _window({"error": error}, words) if mapped.kind == "context_length" else None
    return mapped


def unsupported_field(
    body: Mapping[str, Any], status: int, answer: object, text: str, *, reasoning: str | None = None
) -> str | None:
    """The optional field of the request ``body`` that a 400 or 422 says this server does not take, if any.

    ``answer`` is the decoded error, ``text`` the whole of it as it came, ``reasoning`` the name under which the limit
    of thinking was sent. The bound on tokens must be called unsupported in so many words: being called too large is
    another thing.
    """
    if status not in (400, 422):
        return None
    codes, words = _read(answer)
    param = _first(answer, "param")
    text = f"{words} {text}"[:8192]
    thinking: tuple[str, ...] = () if reasoning is None else (reasoning,)
    for name in (*thinking, *_CAN_DO_WITHOUT, "max_completion_tokens", "max_tokens"):
        named = str(param).split(".")[0] == name or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
        if name not in body or not named:
            continue
        if name.startswith("max_") and not (codes & _UNKNOWN_FIELD or _UNKNOWN_WORDS.search(text)):
            continue
        return name
    return "response_format" if "response_format" in body and _SCHEMA_WORDS.search(text) else None


_SCHEMA_WORDS = re.compile(r"json schema|failed to parse grammar", re.I)
"""How llama.cpp says that it can make no grammar of a schema."""
_CAN_DO_WITHOUT = ("stream_options", "parallel_tool_calls", "tool_choice", "response_format")
_UNKNOWN_FIELD = frozenset({"unsupported_parameter", "unknown_parameter", "unrecognized_request_argument"})
_UNKNOWN_WORDS = re.compile(
    r"unsupported|not supported|does not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed", re.I
)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the server asks to wait: ``retry-after-ms``, or ``retry-after`` in seconds or as a date.

    A date counts from the answer's own Date if it has one, otherwise from ``now`` (UTC). None if there is nothing, or
    nothing of use (negative, in the past, not finite, no number and no date).
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return seconds
    until, sent = _date(value), _date(headers.get("date"))
    if until is None:
        return None
    wait = until - (now if sent is None else sent)
    return wait if wait >= 0 else None


def _number(value: str | None) -> float | None:
    digits = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*", value or "")
    if digits is None:
        return None
    number = float(digits[1])
    return number if math.isfinite(number) else None


def _date(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _kind(status: int | None, codes: frozenset[str], words: str) -> ErrorKind:
    if codes & _NO_QUOTA:
        return "no_quota"
    if codes & _CONTEXT or (status == 400 and any(phrase in words for phrase in _CONTEXT_WORDS)):
        return "context_length"
    if status is None:
        return next((_BY_CODE[code] for code in sorted(codes) if code in _BY_CODE), "server")
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return "server" if status >= 500 else "bad_request"


def _window(body: object, words: str) -> int | None:
    """The model's window in tokens, where the error says so: llama.cpp in a field, OpenAI and vLLM in words."""
    told = _first(body, "n_ctx")
    if type(told) is not int:
        found = _WINDOW_WORDS.search(words)
        told = int(found[1].replace(",", "")) if found is not None else 0
    return told if LEAST_WINDOW <= told <= MOST_WINDOW else None


def _error(kind: ErrorKind, what: str, words: str, *, secret: str) -> ModelError:
    message = f"{what}: {words}" if words else what
    if kind in _REMEDY:
        message = f"{message} ({_REMEDY[kind]})"
    return ModelError(kind, message.replace(secret, "***") if secret else message)


def _read(body: object) -> tuple[frozenset[str], str]:
    """The structured codes in an error body, in lower case, and its words."""
    codes = {str(value).lower() for name in ("code", "type") if (value := _first(body, name)) is not None}
    words = body if isinstance(body, str) else _first(body, "message") or _first(body, "detail") or _plain(body)
    if not isinstance(words, str):
        words = json.dumps(words, default=str)
    return frozenset(codes), " ".join(words.split())[:MAX_DETAIL]


def _first(body: object, name: str) -> Any:
    """A field of the error, wherever this server puts it: ``{error: {…}}``, ``[{error: {…}}]`` or at the top."""
    for _ in range(3):
        if isinstance(body, list) and body:
            body = body[0]
        elif isinstance(body, dict) and isinstance(body.get("error"), dict):
            body = body["error"]
    return body.get(name) if isinstance(body, dict) else None


def _plain(body: object) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, str) else ""


def cut_within_a_call(error: ModelError) -> bool:
    """llama.cpp's way of saying that a reply reached its length limit in the middle of a tool call: it trips over its
    own half call. Asked again it would say the same."""
    return "finding less tool calls" in str(error)
