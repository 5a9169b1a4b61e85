"""What lies between the edges of a long result."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.inside import BOUND, EDGE, NOTHING, WIDER, inside_of, is_inside_same, is_mostly_same

TEXT = "".join(f"line {number} of the long report on the northern harbour and its warehouses\n" for number in range(60))


def with_inside(said: str) -> str:
    return f"{TEXT[:1200]}{said}{TEXT[1200:]}"


@given(st.text(max_size=3 * EDGE), st.sampled_from((EDGE, WIDER)))
def test_equal_texts_are_the_same(text: str, edge: int) -> None:
    assert is_inside_same(inside_of(text, edge), text)


def test_what_makes_one_edge_longer_does_not_matter() -> None:
    before = inside_of(f"took 9 ms\n{TEXT}", EDGE)
    assert is_inside_same(before, f"took 1000 ms\n{TEXT}")
    assert is_inside_same(inside_of(f"{TEXT}\n9 ms", EDGE), f"{TEXT}\n1000 ms")


def test_between_the_narrow_edges_every_character_counts() -> None:
    before = inside_of(with_inside("progress 45 %\n"), EDGE)
    assert not is_inside_same(before, with_inside("progress 46 %\n"))


def test_between_the_wider_ones_numbers_may_differ() -> None:
    before = inside_of(with_inside("worker [51499] 7f95ab is ready\n"), WIDER)
    assert is_inside_same(before, with_inside("worker [7] 0c4411d is ready\n"))
    assert not is_inside_same(before, with_inside("worker [51499] 7f95ab is lost\n"))


def test_most_long_words_say_what_a_text_is_about() -> None:
    one, other = (inside_of(with_inside(f"{word}\n"), EDGE) for word in ("45", "46"))
    assert is_mostly_same(one, other)
    assert not is_mostly_same(one, inside_of("quite another story about mountains " * 40, EDGE))


def test_it_is_bounded() -> None:
    huge = "x" * 10_000_000
    assert is_inside_same(inside_of(huge, WIDER), huge)
    inside = inside_of(TEXT + huge + TEXT, WIDER)
    middle = len(TEXT) + BOUND
    assert is_inside_same(inside, TEXT + huge[:middle] + "y" + huge[middle + 1 :] + TEXT)


def test_nothing_is_no_result() -> None:
    assert NOTHING.length < 0
    assert inside_of("", EDGE).length == 0
