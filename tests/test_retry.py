"""The one retry loop: how long it waits, how often it tries, and what ends it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.retry import Again, GivingUp, RetryPolicy, retrying
from watchkeeper.seams import Seams
from watchkeeper.testing import VirtualSeams

ON_BOTH = [pytest.mark.anyio, pytest.mark.virtual_time]
POLICY = RetryPolicy()


class Chance(VirtualSeams):
    """Seams whose chance is always the same."""

    def __init__(self, chance: float = 0.5) -> None:
        super().__init__()
        self.chance = chance
        self.bind()

    def random(self) -> float:
        return self.chance


class Tried:
    """What a loop did: when each try was made and which waits were told."""

    def __init__(self, seams: Seams, *failures: Exception | None) -> None:
        self.seams = seams
        self.failures = list(failures)
        self.began = seams.clock()
        self.times: list[float] = []
        self.numbers: list[int] = []
        self.waits: list[tuple[int, str, float]] = []

    async def attempt(self, number: int) -> str:
        self.times.append(self.seams.clock() - self.began)
        self.numbers.append(number)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        return f"answer {number}"

    def on_retry(self, number: int, error: Exception, wait: float) -> None:
        self.waits.append((number, str(error), wait))

    def run(self, policy: RetryPolicy = POLICY, deadline: float = math.inf) -> Awaitable[str]:
        return retrying(
            self.attempt,
            policy=policy,
            seams=self.seams,
            deadline=self.began + deadline,
            on_retry=self.on_retry,
        )


def again(text: str = "busy", retry_after: float | None = None) -> Again:
    return Again(ValueError(text), retry_after)


# -- waits: pure ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "wait"), [(1, 0.5), (2, 1), (3, 2), (4, 4), (5, 8), (6, 16), (7, 30), (8, 30), (1000, 30)]
)
def test_waits_are_doubled_up_to_the_cap(attempt: int, wait: float) -> None:
    assert POLICY.wait(attempt, None, 0.5) == wait
    assert POLICY.wait(attempt, None, 0.0) == wait * 0.75
    assert POLICY.wait(attempt, None, 1.0) == wait * 1.25


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_jitter_stays_within_a_quarter(attempt: int, chance: float) -> None:
    plain = POLICY.wait(attempt, None, 0.5)
    assert 0.75 * plain <= POLICY.wait(attempt, None, chance) <= 1.25 * plain
    assert plain <= 30


def test_jitter_spreads_those_that_fail_at_once() -> None:
    """RTRY-02: of fifty runs that met one failure no tenth of the spread holds more than a fifth."""
    seams = Seams(seed=1)
    waits = [POLICY.wait(3, None, seams.random()) for _ in range(50)]
    low, high = 1.5, 2.5
    for step in range(10):
        begin = low + step * (high - low) / 10
        assert sum(begin <= wait < begin + (high - low) / 10 for wait in waits) <= 10


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        (60, 60),
        (864_000, 864_000),
        (2.5, 2.5),
        (1, 2),
        (0, 2),
        (-5, 2),
        (None, 2),
        (math.nan, 2),
        (math.inf, math.inf),
    ],
)
def test_the_wish_of_a_server_is_honoured_beyond_the_cap(retry_after: float | None, wait: float) -> None:
    """RTRY-01: at least so long; a useless wish changes nothing."""
    assert POLICY.wait(3, retry_after, 0.5) == wait


# -- the loop -------------------------------------------------------------------------------------------------------


class TestLoop:
    pytestmark = ON_BOTH

    async def test_it_returns_what_the_first_good_try_returns(self) -> None:
        tried = Tried(Chance(), again("one"), again("two"))
        assert await tried.run() == "answer 3"
        assert tried.numbers == [1, 2, 3]
        assert tried.waits == [(1, "one", 0.5), (2, "two", 1.0)]
        assert tried.times == pytest.approx([0, 0.5, 1.5])

    async def test_no_retry_is_told_where_none_is_needed(self) -> None:
        tried = Tried(Chance())
        assert await tried.run() == "answer 1"
        assert (tried.numbers, tried.waits) == ([1], [])

    @pytest.mark.parametrize("retries", [0, 1, 2, 3, 7])
    async def test_the_number_of_tries_is_exact(self, retries: int) -> None:
        """MULT-01, MULT-02"""
        tried = Tried(Chance(), *(again(str(n)) for n in range(100)))
        with pytest.raises(ValueError, match=f"^{retries}$"):
            await tried.run(RetryPolicy(retries=retries))
        assert tried.numbers == list(range(1, retries + 2))
        assert len(tried.waits) == retries

    async def test_by_default_there_are_three_retries(self) -> None:
        tried = Tried(Chance(), *(again() for _ in range(100)))
        with pytest.raises(ValueError, match="busy"):
            await tried.run()
        assert len(tried.numbers) == 4

    async def test_a_final_failure_is_not_tried_again(self) -> None:
        cause = KeyError("cause")
        failure = ValueError("no such model")
        failure.__cause__ = cause
        tried = Tried(Chance(), again(), GivingUp(failure), again())
        with pytest.raises(ValueError, match="no such model") as caught:
            await tried.run()
        assert caught.value is failure
        assert caught.value.__cause__ is cause
        assert tried.numbers == [1, 2]

    async def test_any_other_error_is_passed_on_at_once(self) -> None:
        tried = Tried(Chance(), RuntimeError("a defect"))
        with pytest.raises(RuntimeError, match="a defect"):
            await tried.run()
        assert tried.numbers == [1]

    async def test_it_waits_as_long_as_the_server_wishes(self) -> None:
        tried = Tried(Chance(), again(retry_after=60), again(retry_after=0.1))
        await tried.run()
        assert tried.times == pytest.approx([0, 60, 61])

    async def test_a_wait_that_would_pass_the_deadline_is_not_begun(self) -> None:
        """RTRY-01: past the deadline it fails at once."""
        tried = Tried(Chance(), again(retry_after=60))
        with pytest.raises(ValueError, match="busy"):
            await tried.run(deadline=60)
        assert tried.seams.clock() == tried.began
        assert tried.waits == []
        in_time = Tried(Chance(), again(retry_after=60))
        assert await in_time.run(deadline=60.001) == "answer 2"

    async def test_an_endless_wish_ends_it(self) -> None:
        tried = Tried(Chance(), again(retry_after=math.inf))
        with pytest.raises(ValueError, match="busy"):
            await tried.run()

    async def test_the_deadline_counts_the_tries_too(self) -> None:
        tried = Tried(Chance(), *(again() for _ in range(9)))

        async def slow(number: int) -> str:
            await anyio.sleep(10)
            return await tried.attempt(number)

        with pytest.raises(ValueError, match="busy"):
            await retrying(
                slow,
                policy=RetryPolicy(retries=8),
                seams=tried.seams,
                deadline=tried.began + 25,
                on_retry=tried.on_retry,
            )
        assert tried.times == pytest.approx([10, 20.5, 31.5])

    @pytest.mark.parametrize("after", [0.1, 10, 59])
    async def test_a_cancel_ends_the_wait_at_once(self, after: float) -> None:
        tried = Tried(Chance(), again(retry_after=60))
        with anyio.move_on_after(after) as scope:
            await tried.run()
        assert scope.cancelled_caught
        assert tried.seams.clock() - tried.began == pytest.approx(after)
        assert tried.numbers == [1]

    async def test_a_cancel_ends_a_try_at_once(self) -> None:
        seams = Chance()

        async def hang(number: int) -> None:
            await anyio.sleep_forever()

        told: Callable[..., Any] = lambda *_: pytest.fail("no retry of a cancelled try")  # noqa: E731
        with anyio.move_on_after(5) as scope:
            await retrying(hang, policy=POLICY, seams=seams, deadline=math.inf, on_retry=told)
        assert scope.cancelled_caught
