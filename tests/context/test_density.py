"""How many tokens a character is: a guess, then what the server counts."""

from __future__ import annotations

import pytest

from watchkeeper.context.density import BOUNDS, GUESS, LEAST, MARGIN, PER_MESSAGE, PER_REQUEST, TELLING, Density
from watchkeeper.messages import Usage


def test_until_somebody_has_counted_it_is_a_guess_for_what_it_may_cost_and_the_least_for_what_must_fit() -> None:
    density = Density()
    assert density.value == GUESS
    assert density.counted == LEAST
    assert density.estimate(1000, 3) == int(1000 * GUESS * MARGIN) + 3 * PER_MESSAGE + PER_REQUEST


def test_the_last_count_counts() -> None:
    density = Density()
    for tokens, expected in ((300, 0.3), (250, 0.25)):
        density.learn(Usage(tokens, 1), 1000)
        assert density.value == density.counted == expected


@pytest.mark.parametrize(
    ("usage", "characters"),
    [(None, 1000), (Usage(0, 5), 1000), (Usage(300, 5, estimated=True), 1000), (Usage(300, 5), TELLING)],
    ids=["nothing said", "nothing read", "estimated", "hardly any text"],
)
def test_what_tells_nothing_changes_nothing(usage: Usage | None, characters: int) -> None:
    density = Density()
    density.learn(usage, characters)
    assert (density.value, density.counted) == (GUESS, LEAST)


@pytest.mark.parametrize(("tokens", "value"), [(1, BOUNDS[0]), (50_000, BOUNDS[1])])
def test_no_count_is_believed_that_cannot_be(tokens: int, value: float) -> None:
    density = Density()
    density.learn(Usage(tokens, 1), 1000)
    assert density.value == value


def test_a_request_that_was_too_long_had_at_least_as_many_tokens_as_the_window() -> None:
    density = Density()
    density.exceeded(1000, 1000)
    assert density.value == density.counted == MARGIN
    density.exceeded(100, 1000)  # that says less than is known
    assert density.value == MARGIN
    density.exceeded(10_000, 0)
    assert density.value == BOUNDS[1]
