from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from watchkeeper import Effect, ToolError, ToolOutput
from watchkeeper_tools import clock

pytestmark = pytest.mark.anyio


def test_the_tools() -> None:
    made = {each.name: each for each in clock.tools(root="anywhere")}
    assert list(made) == ["now", "sleep", "wait_until"]
    assert not made["now"].poll
    assert all(each.effect == Effect() for each in made.values())
    assert made["sleep"].schema["properties"]["seconds"]["maximum"] == clock.MAX_SECONDS


async def test_now_is_utc() -> None:
    text = await clock.now()
    assert text.endswith("Z")
    assert abs(datetime.fromisoformat(text) - datetime.now(UTC)) < timedelta(seconds=10)


async def test_sleep() -> None:
    assert await clock.sleep(0.01) == ToolOutput("waited 0.01 seconds", productive=False)


@pytest.mark.parametrize("seconds", [-1, 301, math.nan, math.inf])
async def test_sleep_is_bounded(seconds: float) -> None:
    with pytest.raises(ToolError, match="0 to 300"):
        await clock.sleep(seconds)


async def test_a_cancel_ends_a_sleep() -> None:
    with anyio.move_on_after(0.01) as scope:
        await clock.sleep(300)
    assert scope.cancelled_caught


@pytest.mark.parametrize("time", ["2020-01-31T12:00:00Z", "2020-01-31 13:00:00+01:00", "2020-01-31T12:00"])
async def test_wait_until_a_moment_that_has_passed(time: str) -> None:
    assert (await clock.wait_until(time)).content == "it is 2020-01-31T12:00:00Z or later"


async def test_wait_until_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    moment = datetime.now(UTC) + timedelta(hours=1)
    answer = await clock.wait_until(moment.isoformat())
    assert waited == [clock.MAX_SECONDS]
    assert answer.content.startswith("not yet: 3,")


@pytest.mark.parametrize("time", ["", "tomorrow", "2020-13-01", "\ud800", "0001-01-01T00:00:00+23:00"])
async def test_what_is_no_time(time: str) -> None:
    with pytest.raises(ToolError, match="is not a time"):
        await clock.wait_until(time)
