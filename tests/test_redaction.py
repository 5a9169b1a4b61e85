"""Secrets are cut out by value and by pattern, however they are written, and whatever pieces a text comes in."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import ConfigurationError
from watchkeeper.messages import Call, CallRecord, Message, ModelReplied, Result
from watchkeeper.redaction import HELD, KEPT, MARK, NOTHING_SECRET, PATTERNS, Redaction, Stream

SECRET = 'tr0ub4dor & "3"/ü+x'
BY_VALUE = Redaction([SECRET, "correct-horse"], patterns=())
BY_PATTERN = Redaction()
RANDOM = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6jK9mN2pQ5sT8vW1yZ4"

KEYS = {
    "openai": f"sk-proj-{RANDOM}",
    "anthropic": f"sk-ant-api03-{RANDOM}",
    "github": f"ghp_{RANDOM[:36]}",
    "github, fine": f"github_pat_{RANDOM}",
    "gitlab": f"glpat-{RANDOM[:20]}",
    "slack": f"xoxb-{RANDOM[:24]}",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "google": f"AIza{RANDOM[:35]}",
    "hugging face": f"hf_{RANDOM[:34]}",
    "stripe": f"sk_live_{RANDOM[:24]}",
    "jwt": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{RANDOM[:43]}",
}


# -- by value ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        quote(SECRET),
        quote(SECRET, safe=""),
        SECRET.replace(" ", "  ", 0),
    ],
)
def test_a_value_is_found_however_it_is_written(written: str) -> None:
    found = BY_VALUE.text(f"before {written} after, and {written}")
    if written == quote(SECRET):  # a slash may stand as it is
        found = BY_VALUE.text(f"before {quote(SECRET, safe='')} after, and {quote(SECRET, safe='')}")
    assert found == f"before {MARK} after, and {MARK}"


@pytest.mark.parametrize("before", ["", "a", "ab", "user:"])
@pytest.mark.parametrize("after", ["", "z", "zz"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_and_in_base64_wherever_it_begins(before: str, after: str, encode: Callable[[bytes], bytes]) -> None:
    written = encode(f"{before}{SECRET}{after}".encode()).decode()
    found = BY_VALUE.text(written)
    assert MARK in found
    assert len(found.replace(MARK, "")) < 6 + len(before) * 2 + len(after) * 2


def test_the_longer_one_of_two_first() -> None:
    assert Redaction(["secret-one", "secret-one-and-two"], patterns=()).text("x secret-one-and-two") == f"x {MARK}"


@pytest.mark.parametrize("value", ["", "abc", "  abcde  "])
def test_what_cannot_be_told_from_ordinary_text_is_an_error(value: str) -> None:
    with pytest.raises(ConfigurationError, match="less than 6 characters"):
        Redaction([value])


def test_one_text_is_not_several() -> None:
    with pytest.raises(ConfigurationError, match="make it a list"):
        Redaction("correct-horse")


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("OPENAI_API_KEY", "abcdef123456", True),
        ("DB_PASSWORD", "hunter2hunter2", True),
        ("GH_TOKEN", "only-letters-but-long", True),
        ("token", "abcdef123456", True),
        ("DB_PASSWORD", "postgres", False),
        ("API_KEY", "12345678", False),
        ("API_KEY", "", False),
        ("KEYBOARD", "abcdef123456", False),
        ("MONKEY", "abcdef123456", False),
        ("PATH", "/usr/bin:/bin:/home/x/123", False),
    ],
)
def test_variables_that_hold_secrets_by_their_names(name: str, value: str, secret: bool) -> None:
    text = f"it is {value}."
    assert (Redaction(environment={name: value}, patterns=()).text(text) != text) is secret


# -- by pattern -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("around", ["{}", "key={}\n", '{{"token": "{}"}}', "`{}`, then", "({})"])
def test_keys_of_known_kinds(key: str, around: str) -> None:
    assert BY_PATTERN.text(around.format(key)) == around.format(MARK)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Authorization: Bearer abc.def-123.ghi_456", f"Authorization: Bearer {MARK}"),
        ("authorization: basic dXNlcjpwYXNzd29yZA==", f"authorization: basic {MARK}"),
        ("postgres://admin:s3cret!@db.example/app", f"postgres://admin:{MARK}@db.example/app"),
        ("GET https://x.example/v1?key=AbCdEf0123456789XYZ&q=1", f"GET https://x.example/v1?key={MARK}&q=1"),
        ("https://x.example/?q=1&api_key=abcdefgh12", f"https://x.example/?q=1&api_key={MARK}"),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{RANDOM}\n{RANDOM}\n-----END RSA PRIVATE KEY----- x", f"{MARK} x"),
        (f"-----BEGIN PRIVATE KEY-----\n{RANDOM}", MARK),
    ],
)
def test_what_stands_for_a_secret_in_headers_and_addresses(text: str, redacted: str) -> None:
    assert BY_PATTERN.text(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "the task-management of disk-usage-monitoring-and-reporting-tools",
        "import sk-learn-contrib-something-long-without-digits",
        "https://x.example/page?token=next&sort=key&q=secret",
        "https://x.example/?key=name&id=1234567890123456",
        "bearer of good news and of many other things as well",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "git commit 4f2a9c0d1e8b7a6f5c4d3e2b1a0f9e8d7c6b5a49",
        "through the night: ghost_writers and high_performance",
        "http://localhost:8080/path@v1, see http://[::1]:80/a:b@c",
        "eyJ is how it begins",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert BY_PATTERN.text(text) is text


def test_it_is_idempotent_and_its_own_mark_is_no_secret() -> None:
    for key in KEYS.values():
        once = BY_PATTERN.text(f"?token={key} Bearer {key} x://u:{key}@h")
        assert BY_PATTERN.text(once) == once
        assert key not in once


def test_long_texts_take_time_in_proportion() -> None:
    for begins in {pattern.begins for pattern in PATTERNS} | {"eyJ.", "?key=", "&secret=", "://a:", "sk-", "Bearer a"}:
        text = begins * (200_000 // len(begins))
        began = time.thread_time()
        BY_PATTERN.text(text)
        assert time.thread_time() - began < 2


# -- whole messages ---------------------------------------------------------------------------------------------------


def test_every_text_of_a_message_is_looked_through() -> None:
    key = KEYS["github"]
    event = ModelReplied(
        n=1,
        run="r",
        at=0.0,
        t=0.0,
        text=f"a {key}",
        calls=(Call("c", f"t {key}", f'{{"x": "{key}"}}', 1),),
        finish="stop",
    )
    found = BY_PATTERN.anything(event)
    assert key not in repr(found)
    assert repr(found).count(MARK) == 3
    assert key in repr(event)
    nested = {"a": [key, {"b": (key, 1, None)}], key: 2.5}
    assert BY_PATTERN.anything(nested) == {"a": [MARK, {"b": (MARK, 1, None)}], MARK: 2.5}


def test_what_holds_none_is_given_back_as_it_is() -> None:
    for value in (
        Result("c", "t", "finished", "nothing to see here, move along"),
        Message("user", "a text that is long enough to be looked at"),
        [CallRecord("c", "a tool with a long name", 1, 1, "finished")],
        {"a": ("b" * 30, 1.5, None, True)},
    ):
        assert BY_PATTERN.anything(value) is value


def test_one_look_for_several_texts() -> None:
    """What is clear holds no secret in any part; what holds one in any part is not."""
    both = Redaction([SECRET])
    for secret in (SECRET, *KEYS.values()):
        assert not both.clear(f"a\n{secret}\nb")
    assert both.clear("a\nb")
    assert NOTHING_SECRET.clear(SECRET)


def test_one_that_knows_nothing_cuts_out_nothing() -> None:
    assert NOTHING_SECRET.inert
    assert not BY_VALUE.inert
    assert not BY_PATTERN.inert
    assert NOTHING_SECRET.text(KEYS["aws"]) == KEYS["aws"]
    assert NOTHING_SECRET.and_of([SECRET]) is NOTHING_SECRET


def test_more_values() -> None:
    more = BY_VALUE.and_of(["a-new-secret", "none", SECRET])
    assert more.text(f"{SECRET} a-new-secret none") == f"{MARK} {MARK} none"
    assert BY_VALUE.and_of(["none", SECRET]) is BY_VALUE


def test_what_is_cut_is_redacted_before() -> None:
    text = f"{'x' * 94} {KEYS['openai']} and more"
    assert BY_PATTERN.within(text, 100) == f"{'x' * 94} {MARK[:5]}"
    assert BY_VALUE.within("x" * 90 + SECRET, 100) == "x" * 90 + MARK


# -- streams ----------------------------------------------------------------------------------------------------------

ALL = Redaction([SECRET, "correct-horse"])
PARTS = st.one_of(
    st.sampled_from([SECRET, "correct-horse", "correct-", "Bearer ", "sk-", " ", "\n", *KEYS.values()]),
    st.text(alphabet='ab cs-k"\n', max_size=12),
)


@given(st.lists(PARTS, max_size=8), st.data())
def test_a_stream_gives_what_the_whole_gives_in_whatever_pieces(parts: list[str], data: st.DataObject) -> None:
    """No secret is seen, not even in part, and nothing else is lost."""
    text = " ".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    stream = Stream(ALL)
    pieces = [stream.feed(text[a:b]) for a, b in pairwise([0, *cuts, len(text)])]
    assert "".join([*pieces, stream.rest()]) == ALL.ended(text)
    assert stream.touched or ALL.text(text) == text


def test_one_character_at_a_time() -> None:
    text = f"I use {SECRET} and {KEYS['openai']} with Authorization: Bearer {RANDOM} today."
    stream = Stream(ALL)
    assert "".join([*map(stream.feed, text), stream.rest()]) == ALL.text(text)
    assert RANDOM not in ALL.text(text)


def test_ordinary_words_are_not_held_back() -> None:
    stream = Stream(ALL)
    assert [stream.feed(word) for word in ("The ", "quick ", "brown ", "fox ")] == ["The ", "quick ", "brown ", "fox "]


def test_what_is_held_back_is_bounded() -> None:
    stream = Stream(BY_PATTERN)
    given_out = sum(len(stream.feed("sk-" + "ab/" * 100)) for _ in range(200))
    assert 200 * 303 - given_out <= HELD
    assert KEPT < HELD


@pytest.mark.parametrize("n", range(6, len("correct-horse")))
def test_a_text_that_ends_in_the_middle_of_a_value(n: int) -> None:
    """Half of it is no ordinary word any more; where a text was cut off, less will do."""
    text = "it is " + "correct-horse"[:n]
    assert ALL.ended(text, cut=True) == f"it is {MARK}"
    assert ALL.ended(text) == f"it is {MARK}"
    assert ALL.ended("it is c", cut=True) == "it is c"
    half = Redaction(["a-value-of-some-length"], patterns=())
    assert half.ended("a-value") == "a-value"
    assert half.ended("a-value", cut=True) == MARK
    for cut in (False, True):
        stream = Stream(ALL)
        assert "".join([*map(stream.feed, text), stream.rest(cut)]) == f"it is {MARK}"
        assert stream.touched


def test_more_than_is_held_back_is_not_taken_for_clean() -> None:
    stream = Stream(BY_PATTERN)
    for _ in range(30):
        stream.feed("-----BEGIN PRIVATE KEY-----\n" + "x" * 300)
    assert stream.touched


def test_each_pattern_begins_with_what_it_says() -> None:
    """Else it would never be looked for."""
    examples = [*KEYS.values(), "Bearer abc.def-123.ghi_456", "authorization: basic dXNlcjpwYXNz", "x://u:pass@h"]
    examples += ["bearer abc.def-123.ghi_456", "Basic dXNlcjpwYXNzd29yZA==", "basic dXNlcjpwYXNzd29yZA=="]
    examples += [f"rk_live_{RANDOM[:24]}", "-----BEGIN PRIVATE KEY-----"]
    examples += [f"{mark}{rest}" for mark in "?&" for rest in ("api_key=abcdefgh12", "key=AbCdEf0123456789XYZ")]
    for pattern in PATTERNS:
        matches = [found[0] for text in examples if (found := pattern.regex.search(text))]
        assert matches, pattern.begins
        assert all(text.startswith(pattern.begins) for text in matches)
        assert all(pattern.sign in text for text in matches)


@pytest.mark.parametrize(
    "written",
    [
        "".join(f"\\u{ord(character):04X}" for character in "correct-horse"),
        "corr\\u0065ct\\u002dhorse",
        r"\u0022 \\ correct-h\u006frse",
    ],
)
def test_in_escapes_that_json_does_not_need(written: str) -> None:
    text = f'{{"a": "{written}", "b": 1}}'
    clean = BY_VALUE.text(text)
    assert MARK in json.loads(clean)["a"]
    assert "horse" not in json.loads(clean)["a"]
    assert Redaction().text(r"postgres:\/\/me:pass0123@db") == f"postgres://me:{MARK}@db"


def test_escapes_without_a_secret_stay_as_they_are() -> None:
    for text in (r'{"a": "\u0041\u00e4 \/ \\u0041", "b": "ordinary"}', r"C:\users\u0063orrect \ud800 and so on"):
        assert BY_VALUE.text(text) is text
        stream = Stream(BY_VALUE)
        assert stream.feed(text) + stream.rest() == text
    assert BY_VALUE.text(r"\ud800 correct-h\u006frse") == rf"\ud800 {MARK}"  # half a character stays an escape


def test_the_working_directory_is_no_secret() -> None:
    """Shells export it as PWD: every path below it would be cut out of what a model reads."""
    environment = {"PWD": "/home/someone/project1", "OLDPWD": "/home/someone/project2", "DB_PWD": "hunter2hunter2"}
    found = Redaction(environment=environment).text("/home/someone/project1/a /home/someone/project2/b hunter2hunter2")
    assert found == f"/home/someone/project1/a /home/someone/project2/b {MARK}"
