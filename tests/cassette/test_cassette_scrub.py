"""No secret enters a cassette, whichever way it comes; what holds none keeps every byte and every boundary."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.cassette.entries import HttpChunk, HttpRequest
from watchkeeper.cassette.exchange import Exchange, bytes_of
from watchkeeper.cassette.scrub import headers_of, pieces_of, told_in, url_of
from watchkeeper.redaction import MARK, Redaction

SECRET = "xyzzy-planted-secret-42"
KEY = "sk-" + "a1b2c3d4" * 5
KNOWN = Redaction([SECRET])


def cut(text: str, size: int) -> list[bytes]:
    data = text.encode()
    return [data[i : i + size] for i in range(0, len(data), size)]


def event(**delta: Any) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n"


@pytest.mark.parametrize("size", [1, 3, 7, 50, 1000])
@pytest.mark.parametrize("secret", [SECRET, KEY])
def test_a_secret_across_pieces_is_cut_out(size: int, secret: str) -> None:
    pieces = cut(f"before {secret} after", size)
    found = b"".join(pieces_of(pieces, "text/plain", KNOWN)).decode()
    assert found == f"before {MARK} after"


@pytest.mark.parametrize("secret", [SECRET, KEY])
@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_a_secret_across_events_is_cut_out(secret: str, field: str) -> None:
    text = f"it is {secret} you see"
    body = "".join(event(**{field: piece.decode()}) for piece in cut(text, 5)) + "data: [DONE]\n\n"
    pieces = cut(body, 64)
    found = pieces_of(pieces, "text/event-stream", KNOWN)
    assert len(found) == len(pieces)
    whole = b"".join(found).decode()
    told = "".join(
        json.loads(line[5:])["choices"][0]["delta"][field] for line in whole.splitlines() if line.startswith("data: {")
    )
    assert told == f"it is {MARK} you see"
    assert whole.endswith("data: [DONE]\n\n")


def test_the_arguments_of_two_calls_are_two_texts() -> None:
    def call(index: int, piece: str) -> str:
        return event(tool_calls=[{"index": index, "function": {"arguments": piece}}])

    half = len(SECRET) // 2
    body = call(0, SECRET[:half]) + call(1, "other") + call(0, SECRET[half:]) + call(1, " text")
    whole = b"".join(pieces_of([body.encode()], "text/event-stream", KNOWN)).decode()
    assert SECRET[half:] not in whole
    assert MARK in whole
    assert "other" in whole
    assert " text" in whole


@given(st.lists(st.binary(max_size=40), max_size=12), st.sampled_from(["text/event-stream", "application/json", ""]))
def test_without_a_secret_every_piece_stays_as_it_is(pieces: list[bytes], kind: str) -> None:
    assert pieces_of(pieces, kind, KNOWN) == pieces


@given(st.text(max_size=60), st.integers(1, 9), st.text(max_size=60))
def test_no_cut_lets_a_secret_through(before: str, size: int, after: str) -> None:
    found = pieces_of(cut(before + SECRET + after, size), "text/plain", KNOWN)
    assert SECRET.encode() not in b"".join(found)


def test_headers_are_allowed_not_forbidden() -> None:
    given_ = [("Authorization", f"Bearer {SECRET}"), ("X-New", SECRET), ("Content-Type", "application/json")]
    assert headers_of(given_, frozenset({"content-type"}), KNOWN) == {"content-type": "application/json"}
    assert SECRET in told_in(given_)


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (f"https://me:{SECRET}@host/v1?a=1", "https://host/v1?a=1"),
        ("https://host/v1?api_key=short1&b=2", f"https://host/v1?api_key={MARK.replace('[', '[')}&b=2"),
        (f"https://host/{SECRET}/x", f"https://host/{MARK}/x"),
        ("https://host/v1?X-Amz-Signature=abc#frag", f"https://host/v1?X-Amz-Signature={MARK}"),
    ],
)
def test_urls_lose_what_is_secret(url: str, kept: str) -> None:
    assert url_of(url, KNOWN) == kept


def test_a_whole_exchange_holds_no_secret() -> None:
    told = "bearer-value-99"
    exchange = Exchange(
        1,
        "POST",
        f"https://user:{SECRET}@host/v1/chat?key={SECRET}",
        [("authorization", f"Bearer {told}"), ("content-type", "application/json"), ("x-mine", SECRET)],
        json.dumps({"messages": [{"content": f"my {SECRET}"}], SECRET: 1}).encode(),
        redaction=KNOWN,
        now=0.0,
    )
    exchange.answered(422, [("content-type", "application/json"), ("set-cookie", SECRET)], 0.5)
    for piece in cut(json.dumps({"error": f"the key {told} is wrong; you sent {SECRET}"}), 6):
        exchange.came(piece, 1.0)
    lines = exchange.lines(2.0, error=ValueError(f"broken by {SECRET}"))
    text = "\n".join(map(repr, lines))
    assert SECRET not in text
    assert told not in text
    request = lines[0]
    assert isinstance(request, HttpRequest)
    assert request.headers == {"content-type": "application/json"}
    body = b"".join(bytes_of(line) for line in lines if isinstance(line, HttpChunk))
    assert json.loads(body) == {"error": f"the key {MARK} is wrong; you sent {MARK}"}
