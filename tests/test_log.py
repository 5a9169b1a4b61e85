"""The log: numbers without gaps, folds at once; who must see all holds it back, who is slow sees a gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from watchkeeper.log import BACKLOG, KEEP, Gap, Log
from watchkeeper.messages import Event, Nudged, Resumed, UserMessage
from watchkeeper.testing import VirtualSeams

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def new_log(**settings: Any) -> Log:
    seams = VirtualSeams()
    seams.bind()
    return Log("r1", seams, **settings)


def fill(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(Resumed)


def numbers(found: list[Event | Gap]) -> list[int | tuple[int, int]]:
    return [(one.first, one.last) if isinstance(one, Gap) else one.n for one in found]


class Seen:
    """A fold that keeps what it is given."""

    def __init__(self, *kinds: type[Event]) -> None:
        self.events: list[Event] = []
        self.folds: Mapping[type[Event], Callable[[Any], None]] = dict.fromkeys(kinds, self.events.append)


async def test_facts_are_numbered_without_gaps_and_carry_their_place() -> None:
    log = new_log(parent="r0", context="helper")
    log.turn, log.user_turn = 2, 1
    first = log.append(UserMessage, text="hi")
    await anyio.sleep(1.5)
    second = log.append(Resumed, slot=3)
    assert (first.n, second.n, log.n, log.first) == (1, 2, 2, 1)
    assert (first.run, first.parent, first.context, first.turn, first.user_turn) == ("r1", "r0", "helper", 2, 1)
    assert (first.slot, second.slot) == (0, 3)
    assert second.t - first.t == pytest.approx(1.5)
    assert second.at - first.at == pytest.approx(1.5)
    assert log.last_t == second.t


async def test_folds_see_their_facts_in_order_inside_the_append() -> None:
    log, texts, all_kinds = new_log(), Seen(UserMessage), Seen(UserMessage, Nudged, Resumed)
    log.attach(texts)
    log.attach(all_kinds)
    for number in range(6):
        event = log.append(UserMessage, text=str(number)) if number % 2 else log.append(Resumed)
        assert all_kinds.events[-1] is event
    assert [event.n for event in texts.events] == [2, 4, 6]
    assert [event.n for event in all_kinds.events] == [1, 2, 3, 4, 5, 6]


async def test_nothing_comes_after_the_end() -> None:
    log = new_log()
    fill(log, 2)
    reader = log.reader("late")
    log.close()
    with pytest.raises(RuntimeError, match=r"run r1 has ended: Resumed comes too late"):
        log.append(Resumed)
    assert numbers(await reader.take()) == [1, 2]
    assert await reader.take() == []
    assert log.n == 2


async def test_closing_wakes_a_reader_that_waits() -> None:
    log = new_log()
    taken: list[Any] = []

    async def follow() -> None:
        taken.append(await log.reader("one").take())
        taken.append([event async for event in log.events()])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await anyio.sleep(1)
        assert taken == []
        log.close()
    assert taken == [[], []]


async def test_an_append_wakes_every_reader_that_waits() -> None:
    log = new_log()
    woken: list[str] = []

    async def follow(name: str) -> None:
        await log.reader(name).take()
        woken.append(name)

    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(follow, name)
        await anyio.sleep(1)
        log.append(Resumed)
    assert sorted(woken) == ["a", "b", "c"]


async def test_a_reader_starts_where_it_is_told() -> None:
    log = new_log()
    fill(log, 5)
    assert numbers(log.reader("a", after=3).take_nowait()) == [4, 5]
    assert numbers(log.reader("b", after=-7).take_nowait()) == [1, 2, 3, 4, 5]
    ahead = log.reader("c", after=99)
    assert ahead.take_nowait() == []
    fill(log, 1)
    assert numbers(ahead.take_nowait()) == [6]


async def test_a_reader_takes_no_more_than_it_asks_for() -> None:
    log = new_log(keep=4)
    reader = log.reader("a", must=True)
    fill(log, 6)
    assert numbers(await reader.take(2)) == [1, 2]
    assert numbers(reader.take_nowait(3)) == [3, 4, 5]
    assert numbers(reader.take_nowait()) == [6]
    assert reader.take_nowait() == []


async def test_names_of_readers_are_unique_until_closed() -> None:
    log = new_log()
    first = log.reader("a")
    with pytest.raises(ValueError, match="has a reader named 'a' already"):
        log.reader("a")
    first.close()
    second = log.reader("a")
    first.close()  # a second time: the other one of that name is untouched
    with pytest.raises(ValueError, match="already"):
        log.reader("a")
    second.close()


async def test_only_the_last_facts_are_kept() -> None:
    log = new_log(keep=10)
    fill(log, 25)
    assert (log.n, log.first) == (25, 16)


async def test_a_reader_that_must_see_all_holds_the_facts_back() -> None:
    log = new_log(keep=10)
    reader = log.reader("watchdog", must=True)
    fill(log, 50)
    assert log.first == 1
    taken = numbers(reader.take_nowait(30))
    fill(log, 1)
    assert log.first == 31
    taken += numbers(reader.take_nowait())
    assert taken == list(range(1, 52))
    fill(log, 1)
    assert log.first == 43


async def test_the_slowest_of_those_that_must_see_all_counts() -> None:
    log = new_log(keep=5)
    quick, slow = log.reader("quick", must=True), log.reader("slow", must=True)
    fill(log, 20)
    quick.take_nowait()
    slow.take_nowait(4)
    fill(log, 1)
    assert log.first == 5
    slow.close()
    fill(log, 1)
    assert log.first == 18
    assert numbers(quick.take_nowait()) == [21, 22]


async def test_one_that_must_see_what_is_gone_is_refused() -> None:
    log = new_log(keep=5)
    fill(log, 20)
    with pytest.raises(ValueError, match="must see fact 1, and the log begins with 16"):
        log.reader("journal", must=True)
    assert numbers(log.reader("journal", after=15, must=True).take_nowait()) == [16, 17, 18, 19, 20]


async def test_a_slow_viewer_sees_a_gap_and_goes_on() -> None:
    log = new_log(keep=10)
    viewer = log.reader("viewer")
    fill(log, 4)
    assert numbers(viewer.take_nowait()) == [1, 2, 3, 4]
    fill(log, 30)
    found = viewer.take_nowait()
    assert numbers(found) == [(5, 24), *range(25, 35)]
    assert repr(found[0]) == "<Gap 5-24>"
    fill(log, 1)
    assert numbers(viewer.take_nowait()) == [35]


async def test_a_viewer_that_never_reads_costs_nothing() -> None:
    """A subscriber that reads one fact and then stops: the run goes on, in bounds, and it learns what it missed."""
    log = new_log()
    viewer = log.events()
    fill(log, 1)
    first = await anext(viewer)
    assert isinstance(first, Event)
    fill(log, 100_000)
    assert KEEP <= len(log.kept()) <= KEEP + 64
    gap = await anext(viewer)
    assert isinstance(gap, Gap)
    assert (gap.first, gap.last) == (2, log.first - 1)
    assert log.lag() == 0
    await viewer.aclose()  # type: ignore[attr-defined]  # a generator


async def test_a_viewer_comes_back_where_it_left() -> None:
    """Whatever the place of the break: no loss and no duplicate."""
    log = new_log()
    fill(log, 12)
    log.close()
    for after in range(13):
        seen = [event.n async for event in log.events(after) if isinstance(event, Event)]
        assert seen == list(range(after + 1, 13))


async def test_the_barrier_waits_until_the_reader_is_done() -> None:
    log = new_log()
    reader = log.reader("watchdog", must=True)
    fill(log, 3)
    order: list[str] = []

    async def wait(n: int) -> None:
        await log.passed("watchdog", n)
        order.append(f"passed {n}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, 3)
        tasks.start_soon(wait, 1)
        await anyio.sleep(1)
        reader.take_nowait()
        await anyio.sleep(1)
        order.append("taken")
        reader.done(2)
        await anyio.sleep(1)
        order.append("done with 2")
        reader.done()
    assert order == ["taken", "passed 1", "done with 2", "passed 3"]
    with anyio.fail_after(0.1):
        await log.passed("watchdog", 3)


async def test_the_barrier_does_not_wait_for_one_that_is_not_there() -> None:
    log = new_log()
    fill(log, 3)
    with anyio.fail_after(0.1):
        await log.passed("journal", 3)


async def test_a_reader_that_leaves_lets_those_go_on_that_wait_for_it() -> None:
    log = new_log()
    reader = log.reader("watchdog", must=True)
    fill(log, 3)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log.passed, "watchdog", 3)
            tasks.start_soon(log.passed, "watchdog", 2)
            await anyio.sleep(1)
            reader.close()
    assert log.lag() == 0


async def test_a_cancelled_wait_at_the_barrier_leaves_nothing_behind() -> None:
    log = new_log()
    log.reader("watchdog", must=True)
    fill(log, 1)
    for _ in range(10):
        with anyio.move_on_after(1) as scope:
            await log.passed("watchdog", 1)
        assert scope.cancelled_caught
    assert log._barriers == []


async def test_nobody_starts_while_one_that_must_see_all_lags_too_far() -> None:
    log = new_log()
    viewer, watchdog = log.reader("viewer"), log.reader("watchdog", must=True)
    fill(log, KEEP)
    with anyio.fail_after(0.1):
        await log.caught_up()  # exactly the bound is no lag yet
    fill(log, 1)
    assert log.lag() == KEEP + 1
    with anyio.move_on_after(10) as scope:
        await log.caught_up()
    assert scope.cancelled_caught
    going_on: list[int] = []

    async def start() -> None:
        await log.caught_up()
        going_on.append(watchdog.passed)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start)
        await anyio.sleep(1)
        while not going_on:
            watchdog.take_nowait(100)
            watchdog.done()
            await anyio.sleep(1)
    assert going_on == [600]
    assert viewer.passed == 0


async def test_a_cancelled_take_loses_nothing() -> None:
    log = new_log()
    reader = log.reader("watchdog", must=True)
    for number in range(1, 6):
        with anyio.move_on_after(1) as scope:
            await reader.take()
        assert scope.cancelled_caught
        fill(log, 1)
        assert numbers(await reader.take()) == [number]


async def test_a_take_that_is_cancelled_as_the_fact_comes_loses_nothing() -> None:
    """The fact is appended and the wait is cancelled within one step of the loop."""
    log = new_log()
    reader = log.reader("watchdog", must=True)
    for _ in range(20):
        taken: list[Event | Gap] = []

        async def take(into: list[Event | Gap]) -> None:
            into.extend(await reader.take())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, taken)
            await anyio.wait_all_tasks_blocked()
            log.append(Resumed)
            tasks.cancel_scope.cancel()
        rest = reader.take_nowait()
        assert len(taken) + len(rest) == 1
    assert reader.taken == log.n == 20


async def test_a_reader_beside_a_writer_sees_each_fact_once_and_in_order() -> None:
    log = new_log(keep=7)
    seen: list[Any] = []

    async def follow() -> None:
        reader = log.reader("watchdog", must=True)
        while batch := await reader.take(3):
            seen.extend(numbers(batch))
            await checkpoint()
            reader.done()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        for number in range(100):
            log.append(Resumed)
            if number % 4 == 0:
                await checkpoint()
        log.close()
    assert seen == list(range(1, 101))


# -- lazy readers ---------------------------------------------------------------------------------------------------


class Lazy:
    """A reader that is told when to look, and does so then."""

    def __init__(self, log: Log) -> None:
        self.reader = log.reader("watchdog", must=True, alarm=self._alarm)
        self.woken: list[int] = []

    def _alarm(self) -> None:
        if self.reader.take_nowait():
            self.woken.append(self.reader.taken)
            self.reader.done()


async def test_a_lazy_reader_is_told_when_somebody_waits_for_it() -> None:
    log = new_log()
    lazy = Lazy(log)
    fill(log, 5)
    assert lazy.woken == []
    with anyio.fail_after(1):
        await log.passed("watchdog", 5)
    assert lazy.woken == [5]


async def test_a_lazy_reader_is_told_when_it_has_a_backlog() -> None:
    log = new_log()
    lazy = Lazy(log)
    fill(log, BACKLOG - 1)
    assert lazy.woken == []
    assert not lazy.reader.has_backlog
    fill(log, 1)
    assert lazy.woken == [BACKLOG]
    fill(log, BACKLOG - 1)
    assert lazy.woken == [BACKLOG]
    fill(log, 65)  # what is kept is looked at every 64 facts
    assert len(lazy.woken) == 2


async def test_a_lazy_reader_is_told_at_the_end() -> None:
    log = new_log()
    lazy = Lazy(log)
    fill(log, 3)
    log.close()
    assert lazy.woken == [3]


async def test_only_those_that_must_see_all_can_lag() -> None:
    log = new_log()
    log.reader("viewer")
    fill(log, 10)
    assert log.lag() == 0
    watchdog = log.reader("watchdog", after=4, must=True)
    assert log.lag() == 6
    watchdog.take_nowait()
    assert log.lag() == 6  # taken is not dealt with
    watchdog.done()
    assert log.lag() == 0
