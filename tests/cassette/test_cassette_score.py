"""What a recorded run gives back, and what a person is told of what it does not hold."""

from __future__ import annotations

from collections import deque

import pytest

from watchkeeper.cassette.entries import RunLine, ToolEnded
from watchkeeper.cassette.score import Reply, RunScore
from watchkeeper.errors import CassetteMiss


def ended(n: int, tool: str, arguments: str) -> tuple[int, ToolEnded]:
    return n, ToolEnded(
        i=n, all=n, after=n, at=n, run="r", tool=tool, arguments=arguments, call=f"c{n}", text=f"seen {n}"
    )


@pytest.fixture
def score() -> RunScore:
    score = RunScore(RunLine(run="r", task="t", agent="a", model="m"))
    score.replies = [Reply({"messages": ["one"]}), Reply({"messages": ["two"]})]
    for n, (tool, arguments) in enumerate([("look", '{"at": "a"}'), ("look", '{"at": "a"}'), ("read", "no JSON")]):
        score.tools.setdefault((tool, arguments), deque()).append(ended(n, tool, arguments))
    return score


def test_equal_calls_get_their_results_in_order_and_no_more(score: RunScore) -> None:
    assert [score.tool("look", '{"at": "a"}')[0] for _ in range(2)] == [0, 1]
    with pytest.raises(CassetteMiss, match=r"the call look .* was recorded less often than it is made now") as missed:
        score.tool("look", '{"at": "a"}')
    assert missed.value.difference == ""


@pytest.mark.parametrize(
    ("tool", "arguments", "difference"),
    [
        ("look", '{"at": "b"}', '- "at": "a"\n+ "at": "b"'),
        ("read", "other", '-"no JSON"\n+"other"'),
        ("write", "{}", ""),
    ],
)
def test_another_call_is_told_with_the_nearest_of_its_tool(
    score: RunScore, tool: str, arguments: str, difference: str
) -> None:
    with pytest.raises(CassetteMiss, match=f"no call of {tool} with these arguments was recorded") as missed:
        score.tool(tool, arguments)
    assert difference in missed.value.difference
    assert bool(missed.value.difference) is bool(difference)


def test_a_request_is_told_from_the_next_and_from_none(score: RunScore) -> None:
    first, second = score.replies
    assert score.peek({"messages": ["two"]}) is second
    with pytest.raises(CassetteMiss, match="its next request differs so") as missed:
        score.reply({"messages": ["three"]})
    assert '+  "three"' in missed.value.difference
    assert [score.reply({"messages": [one]}) for one in ("two", "one")] == [second, first]
    with pytest.raises(CassetteMiss, match="it was asked no more than it has been by now") as missed:
        score.reply({"messages": ["one"]})
    assert missed.value.difference == ""
