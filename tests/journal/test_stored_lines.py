"""Facts as lines, with large values apart: they come back as they were, whatever they hold."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from watchkeeper.journal.lines import LARGE, packed, unpacked
from watchkeeper.messages import CallEnded, Event, Message, Outcome, Result, RunEnded, UserMessage

AT: dict[str, Any] = {"run": "r", "at": 1.0, "t": 2.0}
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def there_and_back(events: list[Event]) -> dict[bytes, bytes]:
    lines, apart = packed(events)
    assert unpacked(lines, apart.__getitem__) == events
    return apart


@settings(max_examples=40)
@given(st.lists(st.tuples(text, st.sampled_from([0, 1, LARGE // 20])), min_size=1, max_size=3))
@example([('"\\\n\x01\x02', LARGE)])
@example([("\x01" + "a" * 64, LARGE)])
@example([("\\", LARGE), ("\\", LARGE)])
def test_facts_come_back_as_they_were(pieces: list[tuple[str, int]]) -> None:
    events: list[Event] = [
        UserMessage(n=n, text=piece + piece * times, **AT) for n, (piece, times) in enumerate(pieces, 1)
    ]
    for body in there_and_back(events).values():
        assert len(body) > LARGE


def test_a_value_that_recurs_is_kept_once() -> None:
    large = "x" * LARGE
    result = CallEnded(n=1, result=Result("c", "t", "finished", large), **AT)
    outcome = Outcome(
        run="r", status="completed", reason="answer", message="", answer=large, history=(Message("user", large),) * 3
    )
    assert len(there_and_back([result, RunEnded(n=2, outcome=outcome, **AT)])) == 1


def test_what_is_not_large_stays_in_its_line() -> None:
    assert not there_and_back([UserMessage(n=1, text="x" * (LARGE - 10), **AT)])
    many = tuple(Message("user", "x" * 1000) for _ in range(100))
    outcome = Outcome(run="r", status="completed", reason="answer", message="", history=many)
    assert not there_and_back([RunEnded(n=1, outcome=outcome, **AT)])
