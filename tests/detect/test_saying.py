"""What results say: that something was done, that nothing was there, that something is wrong."""

from __future__ import annotations

import pytest

from watchkeeper.detect.saying import (
    TELLING,
    is_acknowledgement,
    is_complaint,
    is_fine,
    is_fruitless,
    is_nothing,
    is_telling,
)

HITS = "Three articles were found: the first is about cats, the second about dogs, the third about both of them."


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


@pytest.mark.parametrize(
    "content",
    ["12 failed, 3 passed", "error: it is broken", "This page has been moved.", "Permission denied", "not found"],
)
def test_complaints(content: str) -> None:
    assert is_complaint(content)
    assert not is_fine(content)


@pytest.mark.parametrize("content", ["15 passed in 0.3 s", "0 errors", "no issues found", "Already up to date."])
def test_that_all_is_well(content: str) -> None:
    assert is_fine(content)
    assert not is_complaint(content)


@pytest.mark.parametrize("content", ["accuracy 0.62 (31/50)", "3 open tickets", "ok", ""])
def test_neither(content: str) -> None:
    assert not is_fine(content)
    assert not is_complaint(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("No matches found", True),
        ("no relevant open tickets were found", False),
        ("There are no such records.", True),
        ("nothing", True),
        ("0 results", True),
        ("10 results", False),
        ("[]", True),
        ("null", True),
        ('{"results": [], "total": 0}', True),
        ('{"results":[1],"total":1}', False),
        ("", False),
        ("3 matches", False),
        ("x" * 300 + " not found", False),
    ],
)
def test_what_says_that_there_is_nothing(content: str, expected: bool) -> None:
    assert is_nothing(content) is expected
