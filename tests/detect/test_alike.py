"""Paraphrases, acknowledgements, and results that say that there was nothing."""

from __future__ import annotations

import pytest

from watchkeeper.detect.alike import TELLING, alike, is_acknowledgement, is_fruitless, is_telling, words_of

HITS = "Three articles were found: the first is about cats, the second about dogs, the third about both of them."


def are_alike(one: str, other: str, content: str = HITS) -> bool:
    return alike([f"query: {one}"], [f"query: {other}"], content)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("weather in Paris today", "what is the weather in Paris"),
        ("reset a forgotten password", "how do I reset my password"),
        ("failing test in the parser", "parser tests that fail"),
        ("find the cats", "search for cats"),
    ],
)
def test_most_words_in_common(one: str, other: str) -> None:
    assert are_alike(one, other)
    assert are_alike(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("weather in Paris", "population of Lyon"),
        ("set item17 to done", "set item18 to done"),
        ("read src/parser.py", "read src/lexer.py"),
        ("look at the first half", "translate another chapter"),
        ("open orders of bob@example.org", "open orders of ann@example.org"),
    ],
)
def test_names_and_numbers_name_things(one: str, other: str) -> None:
    assert not are_alike(one, other)
    assert not are_alike(other, one)


def test_an_id_makes_no_difference_where_nearly_all_else_is_equal_and_the_result_tells() -> None:
    one, other = (f"all open orders of customer {number} that are late this month" for number in ("c17", "c18"))
    assert are_alike(one, other)
    assert not are_alike(one, other, "ok")


def test_but_half_of_it_is_too_little() -> None:
    one, other = "open orders customer c17 late month invoice", "open orders customer c18 late gifts abroad wrapped"
    assert not are_alike(one, other)


def test_calls_with_equal_words_are_alike() -> None:
    assert alike(["query: the cats"], ["query: cats"], "ok")
    assert not alike(["query: cats"], ["query: cats", "mode: deep"], "ok")


def test_words_without_their_endings() -> None:
    assert words_of(["q: Searching files", "q: searched file"]) == {"search", "fil"} | words_of(["q: file"])
    assert words_of(["path: src/a.py"]) == {"src/a.py"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "ok",
        "OK.",
        "Done.",
        "File saved",
        "true",
        "created item 17",
        '{"id": 17}',
        "17",
        "Message sent to bob",
        "2 rows updated",
    ],
)
def test_acknowledgements(content: str) -> None:
    assert is_acknowledgement(content)


@pytest.mark.parametrize(
    "content",
    [
        "not found",
        "error: no such item",
        "0 rows",
        "nothing was changed",
        "the build is broken",
        "status: unhealthy",
        HITS,
        "File saved. " * 40,
    ],
)
def test_what_tells_more_is_none(content: str) -> None:
    assert not is_acknowledgement(content)


def test_a_long_result_tells_by_itself_unless_it_says_that_nothing_was_there() -> None:
    assert is_telling("x" * TELLING)
    assert not is_telling("x" * (TELLING - 1))
    assert not is_telling("There is no such page. " * 10)
    assert not is_telling("404 Not Found. " * 20)


@pytest.mark.parametrize(
    "content", ["No results", "could not do it", "nothing", "0 hits", "access denied", "[] is empty"]
)
def test_fruitless(content: str) -> None:
    assert is_fruitless(content)


@pytest.mark.parametrize("content", ["3 hits", "ok", "notable", "10 rows", "nobody"])
def test_not_fruitless(content: str) -> None:
    assert not is_fruitless(content)
