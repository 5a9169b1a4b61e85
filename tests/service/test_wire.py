"""What goes over the line: whole, in pieces, and broken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.service.wire import (
    LONGEST,
    ORDERS,
    SIGNS,
    AnySign,
    Beat,
    Blocked,
    Bye,
    Drain,
    Hello,
    Lines,
    Stop,
    line,
)

MESSAGES = st.one_of(
    st.builds(Beat, st.integers(0, 1 << 40), st.none() | st.floats(0, 1e6), st.lists(st.text()).map(tuple)),
    st.builds(Blocked, st.floats(0, 1e6), st.text(max_size=30), st.text(max_size=30)),
    st.builds(Bye, st.text()),
    st.builds(Hello, st.text()),
)


@given(st.lists(MESSAGES, max_size=4), st.lists(st.integers(1, 40), max_size=8))
def test_pieces_of_any_size_are_put_together(said: list[AnySign], cuts: list[int]) -> None:
    whole = b"".join(map(line, said))
    lines, found = Lines(SIGNS), []
    for cut in cuts:
        piece, whole = whole[:cut], whole[cut:]
        found += lines.feed(piece)
    assert found + lines.feed(whole) == said
    assert lines.bad == 0


@given(st.lists(st.binary(max_size=50), max_size=5), MESSAGES)
def test_nonsense_is_dropped_and_what_comes_after_it_is_heard(nonsense: list[bytes], said: AnySign) -> None:
    lines = Lines(SIGNS)
    for piece in nonsense:
        lines.feed(piece)
    lines.feed(b"\n")
    assert lines.feed(line(said)) == [said]


def test_what_is_too_long_is_dropped_and_takes_no_memory() -> None:
    lines = Lines(SIGNS)
    for _ in range(8):
        assert lines.feed(b'"' * (LONGEST // 2)) == []
    assert lines.feed(b"\n" + line(Hello("trio"))) == [Hello("trio")]
    assert lines.bad == 1


def test_orders_are_told_apart_from_signs() -> None:
    assert Lines(ORDERS).feed(line(Drain(3.0)) + line(Stop()) + line(Hello("trio"))) == [Drain(3.0), Stop()]
