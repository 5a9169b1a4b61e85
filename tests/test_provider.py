"""The provider's rate limiter and breaker: pure, so no event loop; time is a number."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.errors import ConfigurationError
from watchkeeper.provider import ANSWERED, TROUBLE, Provider

KINDS = sorted(TROUBLE | ANSWERED | {"unknown"})


def opened(**settings: float) -> Provider:
    provider = Provider("p", **settings)  # type: ignore[arg-type]
    for _ in range(provider.failures):
        provider.failed(0.0, "server")
    return provider


@pytest.mark.parametrize("kind", sorted(TROUBLE))
def test_trouble_in_a_row_opens_the_breaker(kind: str) -> None:
    provider = Provider("p", failures=3, open_seconds=10)
    for _ in range(2):
        assert provider.admit(0.0) == 0
        provider.failed(0.0, kind)
        assert provider.state == "closed"
    provider.failed(0.0, kind)
    assert provider.state == "open"
    assert provider.admit(4.0) == pytest.approx(6.0)


@pytest.mark.parametrize("kind", sorted(ANSWERED | {"unknown"}))
def test_an_answer_of_the_provider_never_opens_it(kind: str) -> None:
    provider = Provider("p", failures=2)
    for _ in range(50):
        provider.failed(0.0, kind)
    assert provider.state == "closed"


def test_a_success_starts_the_count_anew() -> None:
    provider = Provider("p", failures=2)
    for _ in range(10):
        provider.failed(0.0, "connection")
        provider.succeeded(0.0)
    assert provider.state == "closed"


def test_half_open_lets_exactly_one_probe_through() -> None:
    provider = opened(open_seconds=30)
    assert provider.admit(29.0) == pytest.approx(1.0)
    assert provider.admit(30.0) == 0
    assert provider.state == "half_open"
    assert [provider.admit(30.0) > 0 for _ in range(5)] == [True] * 5
    provider.succeeded(31.0)
    assert provider.state == "closed"
    assert provider.admit(31.0) == 0


def test_a_failed_probe_opens_it_for_twice_as_long_up_to_the_most() -> None:
    provider = opened(open_seconds=30, max_open=100)
    now, waits = 0.0, []
    for _ in range(4):
        now += provider.admit(now)
        assert provider.admit(now) == 0
        provider.failed(now, "timeout")
        waits.append(provider.admit(now))
    assert waits == [60, 100, 100, 100]
    now += provider.admit(now)
    assert provider.admit(now) == 0
    provider.succeeded(now)
    for _ in range(5):
        provider.failed(now, "server")
    assert provider.admit(now) == 30


def test_a_probe_that_is_answered_closes_it_and_a_cancelled_one_frees_its_place() -> None:
    provider = opened()
    assert provider.admit(30.0) == 0
    provider.released(30.1)
    assert provider.state == "half_open"
    assert provider.admit(30.2) == 0
    provider.failed(30.3, "bad_request")
    assert provider.state == "closed"


def test_a_probe_that_nobody_reports_about_is_forgotten() -> None:
    provider = opened(open_seconds=30, max_open=60)
    assert provider.admit(30.0) == 0
    now = 30.0
    while (wait := provider.admit(now)) > 0:
        now += wait
    assert now == pytest.approx(90.0)


def test_failures_that_were_on_their_way_do_not_keep_it_open() -> None:
    provider = opened(open_seconds=30)
    for i in range(45):
        provider.failed(i / 10, "server")
    assert provider.admit(30.0) == 0


def test_retry_after_holds_everybody_back() -> None:
    provider = Provider("p")
    provider.failed(0.0, "rate_limited", 60.0)
    assert provider.admit(1.0) == pytest.approx(59.0)
    provider.failed(2.0, "rate_limited", 5.0)  # a shorter one does not shorten it
    assert provider.admit(3.0) == pytest.approx(57.0)
    provider.succeeded(4.0)  # nor does one that got through
    assert provider.admit(4.0) == pytest.approx(56.0)
    assert provider.admit(60.0) == 0


@pytest.mark.parametrize("retry_after", [None, 0.0])
def test_a_429_that_names_no_wait_holds_nobody(retry_after: float | None) -> None:
    provider = Provider("p")
    provider.failed(0.0, "rate_limited", retry_after)
    assert provider.admit(0.0) == 0


def test_an_odd_retry_after_does_not_silence_the_provider_for_days() -> None:
    provider = Provider("p", max_open=300)
    provider.failed(0.0, "rate_limited", 864_000.0)
    assert provider.admit(0.0) == 300


def test_fifty_runs_that_met_one_429_do_not_come_back_at_once() -> None:
    """RTRY-02: no 100 ms bucket has more than a fifth of them."""
    provider = Provider("p")
    assert [provider.admit(0.0) for _ in range(50)] == [0.0] * 50
    waiting = []
    for _ in range(50):
        provider.failed(0.0, "rate_limited", 2.0)
        waiting.append(provider.admit(0.0))
    buckets: Counter[int] = Counter()
    while waiting:
        now = min(waiting)
        waiting.remove(now)
        wait = provider.admit(now)
        if wait:
            waiting.append(now + wait)
        else:
            buckets[int(now * 10)] += 1
    assert min(buckets) >= 20
    assert max(buckets) <= 50
    assert max(buckets.values()) <= 10


def test_the_gap_grows_with_every_wave_and_goes_with_success() -> None:
    provider = Provider("p")
    now, gaps = 0.0, []
    for _ in range(3):
        provider.failed(now, "rate_limited")
        assert provider.admit(now + 10) == 0
        gaps.append(provider.admit(now + 10))
        now += 20
    assert gaps == pytest.approx([0.05, 0.1, 0.2])
    for _ in range(50):
        provider.succeeded(now)  # many at once are one: else the first few would let all that wait go together
    assert [provider.admit(now), provider.admit(now)] == pytest.approx([0, 0.1])
    for _ in range(10):
        now += 1
        provider.succeeded(now)
    assert [provider.admit(now), provider.admit(now)] == [0, 0]


@pytest.mark.parametrize(
    "settings",
    [
        {"failures": 0},
        {"open_seconds": 0},
        {"open_seconds": 400},
        {"open_seconds": math.nan},
        {"max_open": math.inf},
        {"requests_per_minute": 0},
        {"requests_per_minute": math.nan},
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="provider: "):
        Provider("p", **settings)  # type: ignore[arg-type]


@given(st.floats(0.1, 200), st.lists(st.floats(0, 30), max_size=200))
def test_no_minute_sees_more_starts_than_allowed(per_minute: float, pauses: list[float]) -> None:
    provider = Provider("p", requests_per_minute=per_minute)
    now, starts = 0.0, []
    for pause in pauses:
        now += pause
        if provider.admit(now) == 0:
            starts.append(now)
    count = max(1, math.floor(per_minute))
    span = 60 * count / per_minute
    for first, over in zip(starts, starts[count:], strict=False):
        assert over - first >= span - 1e-6


step = st.tuples(
    st.sampled_from(["admit", "succeeded", "failed", "released"]),
    st.sampled_from(KINDS),
    st.none() | st.floats(0, 1e7),
    st.floats(0, 120),
)


@given(st.lists(step, max_size=100), st.none() | st.floats(0.5, 600))
def test_whatever_happens_waits_are_bounded_and_one_probe_is_out_at_most(
    steps: list[tuple[str, str, float | None, float]], rate: float | None
) -> None:
    provider = Provider("p", failures=2, requests_per_minute=rate)
    now, probe_since = 0.0, -math.inf
    for act, kind, retry_after, pause in steps:
        if act == "admit":
            before = provider.state
            wait = provider.admit(now)
            assert 0 <= wait < math.inf
            if wait == 0 and before != "closed":
                assert now - probe_since >= provider.max_open
                probe_since = now
        else:
            if act == "failed":
                provider.failed(now, kind, retry_after)
            else:
                getattr(provider, act)(now)
            probe_since = -math.inf
        now += pause
    started = now
    while (wait := provider.admit(now)) > 0:
        now += max(wait, 1e-6)
    assert now - started <= 300 + 120 + 5  # the longest hold, a window, a gap
