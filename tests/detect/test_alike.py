"""Calls that ask the same in other words."""

from __future__ import annotations

import pytest

from watchkeeper.detect.alike import alike, asked, bare, words_of


def are_alike(one: str, other: str, telling: bool = False) -> bool:
    return alike([f"query: {one}"], [f"query: {other}"], telling)


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


def test_an_id_that_means_nothing_makes_no_difference_beside_a_sentence() -> None:
    one, other = (
        f"look for the memory leak in the worker and report as agent-{name}" for name in ("1f09a7c3", "77e0b2d4")
    )
    assert are_alike(one, other)
    assert not are_alike("report as agent-1f09a7c3", "report as agent-77e0b2d4")


def test_one_that_means_something_does() -> None:
    one, other = (f"all open orders of customer {number} that are late this month" for number in ("c17", "c18"))
    assert not are_alike(one, other)


def test_a_command_with_another_word_in_it_is_another_one() -> None:
    def are(one: str, other: str) -> bool:
        return alike([f"command: {one}"], [f"command: {other}"], True)

    assert not are("curl -d pass=hunter http://web/login", "curl -d pass=letmein http://web/login")
    assert not are("./guess 10", "./guess 20")
    assert are("grep -n word src/a.py | head -50", "grep -n word src/a.py 2>&1 | tail -n 9")
    one, other = (
        f"cat > /tmp/try_{name}.py <<EOF import engine run migrate commit EOF python /tmp/try_{name}.py"
        for name in ("1f09a7c3", "77e0b2d4")
    )
    assert are(one, other)


def test_one_word_is_a_thing_to_try_whatever_it_brings() -> None:
    assert not alike(["user: admin", "password: hunter"], ["user: admin", "password: letmein"], True)
    assert not alike(["category: books"], ["category: toys"], True)


def test_but_half_of_it_is_too_little() -> None:
    one, other = "open orders customer c17 late month invoice", "open orders customer c18 late gifts abroad wrapped"
    assert not are_alike(one, other)


def test_calls_with_equal_words_are_alike() -> None:
    assert alike(["query: the cats"], ["query: cats"], False)
    assert not alike(["query: cats"], ["query: cats", "mode: deep"], False)


def test_where_the_result_tells_numbers_may_differ() -> None:
    assert are_alike("lines 1 to 50 of it", "lines 20 to 70 of it", telling=True)
    assert not are_alike("chapter c17", "chapter c18", telling=True)


def test_what_is_asked_is_the_same_in_another_case_and_for_more_of_it() -> None:
    assert asked(["q: SIM card", "limit: 5"]) == asked(["q: sim-card", "limit: 50"])
    assert asked(["call: look( name = 'x' ) ;"]) == asked(['call: look(name="x")'])
    assert asked(["q: v1-a"]) != asked(["q: v1 a"])
    assert asked(["limit: 5"]) == asked(["limit: 6"])
    assert asked(["path: /tmp/a"]) != asked(["path: /tmp/b"])  # if nothing else is asked
    assert asked(["path: /tmp/a", "q: x"]) == asked(["path: /tmp/b", "q: x"])


def test_remarks_and_ids_that_mean_nothing_are_not_asked() -> None:
    one = ["command: ls", "description: look what is there", "session: a8f1c09b7e"]
    other = ["command: ls", "description: list the files here", "session: 77ab0c12ff"]
    assert bare(one) == bare(other)
    assert bare(one) != bare(["command: ls src", *one[1:]])
    assert bare(one[1:2]) != bare(other[1:2])  # if nothing else is asked


def test_words_without_their_endings() -> None:
    assert words_of(["q: Searching files", "q: searched file"]) == {"search", "fil"} | words_of(["q: file"])
    assert words_of(["path: src/a.py"]) == {"src/a.py"}
