"""What makes two requests the same, and how a miss is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.cassette.match import MAX_LINES, asking, difference, nearest, shown, without_amounts

URL = "https://host/v1/chat?b=2&a=1"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi", "id": "x1"}], "metadata": {"id": 7, "who": "me"}}


def key(body: Any = BODY, url: str = URL, method: str = "POST", volatile: tuple[str, ...] = ()) -> str:
    return asking(method, url, body, volatile).key


def asked(content: str) -> Any:
    return {"messages": [{"role": "user", "content": "1 apple"}, {"role": "tool", "content": content}]}


def test_what_is_left_of_a_run_does_not_count_where_amounts_do_not() -> None:
    one = asked("5 pears\n\n[watchkeeper] Turn 2 of 20. Left: 1,000 calls, 2M tokens, 1 h 30 min. Missing: a look.")
    other = asked("5 pears\n\n[watchkeeper] Turn 2 of 20. Left: 999 calls, 1.9M tokens, 20 min. Missing: a look.")
    assert one != other
    assert without_amounts(one) == without_amounts(other)


@pytest.mark.parametrize(
    "other",
    [
        asked("6 pears\n\n[watchkeeper] Turn 2 of 20. Left: 30 min."),
        asked("5 pears\n\n[watchkeeper] Turn 2 of 20. Left: 30 min. Missing: a look."),
        asked("5 pears"),
        "5 pears",
    ],
)
def test_all_else_of_a_request_counts(other: Any) -> None:
    one = asked("5 pears\n\n[watchkeeper] Turn 2 of 20. Left: 30 min.")
    assert without_amounts(one) != without_amounts(other)


def test_order_of_keys_parameters_and_the_host_do_not_count() -> None:
    turned = dict(reversed(BODY.items()))
    assert key() == key(turned) == key(url="http://127.0.0.1:8080/v1/chat?a=1&b=2") == key(method="post")


@pytest.mark.parametrize(
    "other",
    [
        {"url": "https://host/v2/chat?b=2&a=1"},
        {"url": "https://host/v1/chat?b=3&a=1"},
        {"method": "PUT"},
        {"body": {**BODY, "model": "n"}},
        {"body": {**BODY, "messages": []}},
    ],
)
def test_all_else_counts(other: dict[str, Any]) -> None:
    assert key(**other) != key()


@pytest.mark.parametrize(
    ("volatile", "other"),
    [
        (("metadata.id",), {**BODY, "metadata": {"id": 8, "who": "me"}}),
        (("metadata",), {**BODY, "metadata": {"id": 8}}),
        (("messages.*.id",), {**BODY, "messages": [{"role": "user", "content": "hi", "id": "x2"}]}),
        (("messages.0.id",), {**BODY, "messages": [{"role": "user", "content": "hi", "id": "x2"}]}),
    ],
)
def test_what_is_volatile_does_not_count(volatile: tuple[str, ...], other: Any) -> None:
    assert key(other) != key()
    assert key(other, volatile=volatile) == key(volatile=volatile)


def test_volatile_parameters_of_the_url() -> None:
    assert key(url=f"{URL}&at=1", volatile=("?at",)) == key(url=f"{URL}&at=2", volatile=("?at",)) == key()


values = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(values, st.lists(st.sampled_from(["a", "*", "0", "b"]), min_size=1, max_size=3))
def test_taking_out_never_fails_and_changes_nothing_outside(value: Any, path: list[str]) -> None:
    before = repr(value)
    once = asking("GET", "/x", value, (".".join(path),))
    assert repr(value) == before
    if "0" not in path:  # the item behind a removed one moves up
        assert asking("GET", "/x", once.body, (".".join(path),)) == once


def test_the_difference_is_short_and_shows_what_differs() -> None:
    wanted = asking("POST", URL, {**BODY, "model": "n"}).lines()
    told = difference(asking("POST", URL, BODY).lines(), wanted)
    assert '- "model": "m"' in told
    assert '+ "model": "n"' in told
    assert "content" not in told


def test_what_differs_far_inside_a_long_text_is_seen() -> None:
    told = difference(shown({"a": "x" * 5000 + "left"}), shown({"a": "x" * 5000 + "right"}))
    assert "left" in told
    assert "right" in told
    assert len(told) < 1000


def test_a_large_difference_is_bounded() -> None:
    told = difference(shown(list(range(500))), shown(list(range(1000, 1500))))
    assert len(told.splitlines()) == MAX_LINES + 1


def test_the_nearest_is_the_one_most_like_it() -> None:
    recorded = [shown({"a": "entirely another thing"}), shown({"a": "hello there"})]
    assert nearest(shown({"a": "hello then"}), recorded) is recorded[1]
    assert nearest(["x"], []) is None
