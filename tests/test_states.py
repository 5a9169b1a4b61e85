"""The states of a run: one table, each transition legal or a defect of ours."""

from __future__ import annotations

from typing import get_args

import pytest

from watchkeeper.states import TRANSITIONS, State, can_move, move

STATES: tuple[State, ...] = get_args(State)
LEGAL = {
    ("queued", "running"),
    ("queued", "cancelling"),
    ("queued", "ending"),
    ("running", "pausing"),
    ("running", "cancelling"),
    ("running", "ending"),
    ("pausing", "paused"),
    ("pausing", "running"),
    ("pausing", "cancelling"),
    ("pausing", "ending"),
    ("paused", "running"),
    ("paused", "cancelling"),
    ("paused", "ending"),
    ("cancelling", "ending"),
    ("ending", "ended"),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("to", STATES)
def test_the_whole_table(state: State, to: State) -> None:
    assert can_move(state, to) is ((state, to) in LEGAL)
    if (state, to) in LEGAL:
        assert move(state, to) == to
    else:
        with pytest.raises(ValueError, match=f"a run cannot go from {state} to {to}"):
            move(state, to)


def test_every_state_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(STATES)


def test_every_run_can_end_and_an_ended_one_stays_so() -> None:
    reachable: dict[State, set[State]] = {state: {state} for state in STATES}
    for _ in STATES:
        for state in STATES:
            for to in TRANSITIONS[state]:
                reachable[state] |= reachable[to]
    assert all("ended" in after for after in reachable.values())
    assert reachable["ended"] == {"ended"}
    assert reachable["cancelling"] == {"cancelling", "ending", "ended"}
