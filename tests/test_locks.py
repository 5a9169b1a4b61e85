"""Who touches what: in order, across runs and their sub-agents, without a deadlock, and never behind what is lost."""

from __future__ import annotations

import anyio
import pytest

from watchkeeper.locks import Grip, Locks
from watchkeeper.tools import NOTHING, READS, WRITES, Effect, reads, writes

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def grip(
    effect: Effect = WRITES, *, tree: str = "r1", batch: object = None, above: tuple[Grip, ...] = (), name: str = "tool"
) -> Grip:
    """A call of a batch of its own, unless one is named."""
    return Grip(tree, batch or object(), frozenset(above), effect, name)


def held(locks: Locks, *grips: Grip) -> list[Grip]:
    """Take them one after the other; which of them could be had at once."""
    return [one for one in grips if locks.try_take(one)]


def taken(locks: Locks, one: Grip) -> Grip:
    assert locks.try_take(one)
    return one


class Waiters:
    """Tasks that wait for grips; ``order`` is the order in which they got them."""

    def __init__(self, locks: Locks, tasks: anyio.abc.TaskGroup) -> None:
        self.locks = locks
        self.tasks = tasks
        self.order: list[str] = []
        self.scopes: dict[str, anyio.CancelScope] = {}

    async def add(self, *grips: Grip) -> None:
        """Let each begin to wait, in this order."""
        for one in grips:
            self.tasks.start_soon(self._wait, one)
            await anyio.wait_all_tasks_blocked()

    async def _wait(self, one: Grip) -> None:
        with anyio.CancelScope() as scope:
            self.scopes[one.name] = scope
            await self.locks.take(one)
            self.order.append(one.name)

    async def settled(self) -> list[str]:
        await anyio.wait_all_tasks_blocked()
        return self.order


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (READS, READS, True),
        (reads("a"), writes("b"), True),
        (writes("a"), writes("b"), True),
        (NOTHING, WRITES, True),
        (reads("a"), writes("a/b"), False),
        (writes("a"), writes("a"), False),
        (READS, WRITES, False),
    ],
)
async def test_within_a_run_tree_names_mean_the_same(one: Effect, other: Effect, together: bool) -> None:
    locks = Locks()
    first, second = grip(one), grip(other)
    assert held(locks, first, second) == ([first, second] if together else [first])
    locks.release(first)
    assert held(locks, second) == [second]


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (writes("a"), writes("a"), True),
        (WRITES, WRITES, True),
        (WRITES, writes("shared:/a"), True),
        (writes("shared:/a"), reads("shared:/b"), True),
        (writes("shared:/a"), reads("shared:/a/b"), False),
        (reads("shared:/a"), reads("shared:/a"), True),
        (Effect(("x",), ("shared:/a",)), Effect(("shared:/a",), ("x",)), False),
    ],
)
async def test_across_run_trees_only_shared_names_do(one: Effect, other: Effect, together: bool) -> None:
    locks = Locks()
    first, second = grip(one, tree="r1"), grip(other, tree="r2")
    assert held(locks, first, second) == ([first, second] if together else [first])


async def test_calls_of_one_batch_keep_out_of_each_others_way_by_their_plan() -> None:
    locks, batch = Locks(), object()
    first, second = grip(batch=batch), grip(batch=batch)
    assert held(locks, first, second) == [first, second]
    assert held(locks, grip()) == []


async def test_grips_are_granted_in_the_order_of_asking() -> None:
    locks = Locks()
    first = grip()
    assert held(locks, first)
    async with anyio.create_task_group() as tasks:
        waiters = Waiters(locks, tasks)
        grips = [grip(name=name) for name in "abc"]
        await waiters.add(*grips)
        assert waiters.order == []
        for number, one in enumerate([first, *grips[:2]], 1):
            locks.release(one)
            assert await waiters.settled() == list("abc")[:number]


async def test_nobody_overtakes_a_writer_that_waits() -> None:
    """Readers that come later wait behind it: else it would starve."""
    locks = Locks()
    reading = grip(READS)
    assert held(locks, reading)
    async with anyio.create_task_group() as tasks:
        waiters = Waiters(locks, tasks)
        writing, late = grip(WRITES, name="writer"), grip(READS, name="reader")
        await waiters.add(writing)
        assert held(locks, grip(READS)) == []
        await waiters.add(late)
        assert waiters.order == []
        locks.release(reading)
        assert await waiters.settled() == ["writer"]
        locks.release(writing)
        assert await waiters.settled() == ["writer", "reader"]


async def test_who_conflicts_with_nobody_goes_on() -> None:
    locks = Locks()
    first = taken(locks, grip(writes("a")))
    async with anyio.create_task_group() as tasks:
        waiters = Waiters(locks, tasks)
        await waiters.add(grip(writes("a"), name="waits"), grip(writes("b"), name="goes"))
        assert waiters.order == ["goes"]
        assert held(locks, grip(writes("c")))
        locks.release(first)
        assert await waiters.settled() == ["goes", "waits"]


async def test_several_are_granted_at_once_where_they_can_be() -> None:
    locks = Locks()
    first = taken(locks, grip(WRITES))
    async with anyio.create_task_group() as tasks:
        waiters = Waiters(locks, tasks)
        await waiters.add(*(grip(READS, name=name) for name in "abc"))
        locks.release(first)
        assert sorted(await waiters.settled()) == ["a", "b", "c"]


async def test_taking_what_is_free_does_not_wait() -> None:
    locks = Locks()
    with anyio.fail_after(0.1):
        await locks.take(grip())


async def test_releasing_what_is_not_held_changes_nothing() -> None:
    locks = Locks()
    one = grip()
    locks.release(one)
    assert held(locks, one)
    locks.release(one)
    locks.release(one)
    assert held(locks, grip())


# -- cancel ---------------------------------------------------------------------------------------------------------


async def test_a_cancelled_wait_holds_nothing_and_lets_others_go_on() -> None:
    locks = Locks()
    first = taken(locks, grip(READS))
    async with anyio.create_task_group() as tasks:
        waiters = Waiters(locks, tasks)
        await waiters.add(grip(WRITES, name="writer"), grip(READS, name="reader"))
        assert waiters.order == []
        waiters.scopes["writer"].cancel()
        assert await waiters.settled() == ["reader"]
    locks.release(first)
    assert held(locks, grip(reads("x")))
    assert locks._waiting == []


async def test_a_wait_that_is_cancelled_as_it_is_granted_holds_nothing() -> None:
    locks = Locks()
    for _ in range(20):
        first = taken(locks, grip())
        async with anyio.create_task_group() as tasks:
            waiters = Waiters(locks, tasks)
            await waiters.add(second := grip(name="second"))
            locks.release(first)
            waiters.scopes["second"].cancel()
            if await waiters.settled():
                locks.release(second)
        assert locks._held == {}
        assert locks._waiting == []


async def test_a_cancel_of_all_leaves_nothing_behind() -> None:
    locks = Locks()
    first = taken(locks, grip(writes("shared:/a")))
    async with anyio.create_task_group() as tasks:
        await Waiters(locks, tasks).add(*(grip(writes("shared:/a"), tree=f"r{n}") for n in range(20)))
        tasks.cancel_scope.cancel()
    locks.release(first)
    assert (locks._held, locks._waiting, locks._shared) == ({}, [], set())


# -- calls within calls ---------------------------------------------------------------------------------------------


async def test_a_call_never_waits_for_the_one_it_was_made_within() -> None:
    """The caller holds everything and waits for its sub-agent."""
    locks = Locks()
    caller = grip(WRITES)
    inner = grip(WRITES, above=(caller,))
    innermost = grip(WRITES, above=(caller, inner))
    assert held(locks, caller, inner, innermost) == [caller, inner, innermost]


async def test_but_it_waits_for_others() -> None:
    locks = Locks()
    caller, other = grip(writes("a")), grip(writes("b"))
    inner = grip(writes("b"), above=(caller,))
    assert held(locks, caller, other, inner) == [caller, other]
    locks.release(other)
    assert held(locks, inner) == [inner]


@pytest.mark.parametrize("waits", [False, True])
async def test_nor_does_it_wait_behind_those_who_wait_for_its_caller(waits: bool) -> None:
    """Another run waits for the caller; the caller waits for its sub-agent; that must not wait for the other run."""
    locks = Locks()
    caller = grip(writes("shared:/a"), name="caller")
    assert held(locks, caller)
    async with anyio.create_task_group() as tasks:
        waiters = Waiters(locks, tasks)
        # The second one waits only behind the first, not for the caller itself.
        await waiters.add(
            grip(writes("shared:/a", "shared:/b"), tree="r2", name="first"),
            grip(writes("shared:/b"), tree="r3", name="second"),
        )
        inner = grip(writes("shared:/a", "shared:/b"), above=(caller,), name="inner")
        if waits:
            with anyio.fail_after(1):
                await locks.take(inner)
        else:
            assert locks.try_take(inner)
        locks.release(inner)
        assert await waiters.settled() == []
        locks.release(caller)
        assert await waiters.settled() == ["first"]
        tasks.cancel_scope.cancel()


async def test_but_it_waits_behind_others() -> None:
    """Fairness holds where it does no harm."""
    locks = Locks()
    caller, reading = grip(writes("a")), grip(reads("b"))
    assert held(locks, caller, reading)
    async with anyio.create_task_group() as tasks:
        waiters = Waiters(locks, tasks)
        await waiters.add(writing := grip(writes("b"), name="writer"))
        inner = grip(reads("b"), above=(caller,), name="inner")
        assert not locks.try_take(inner)
        await waiters.add(inner)
        locks.release(reading)
        assert await waiters.settled() == ["writer"]
        locks.release(writing)
        assert await waiters.settled() == ["writer", "inner"]


# -- abandoned ------------------------------------------------------------------------------------------------------


async def test_what_conflicts_with_an_abandoned_call_learns_of_it() -> None:
    locks = Locks()
    lost = grip(writes("a"), name="lost")
    assert held(locks, lost)
    assert locks.in_the_way(grip(writes("a"))) is None
    locks.abandon(lost)
    assert locks.any_abandoned
    assert locks.in_the_way(grip(reads("a/b"))) is lost
    assert locks.in_the_way(grip(reads("b"))) is None
    assert locks.in_the_way(grip(writes("a"), tree="r2")) is None
    locks.release(lost)
    assert locks.in_the_way(grip(writes("a"))) is None
    assert not locks.any_abandoned


async def test_shared_names_of_an_abandoned_call_are_in_the_way_everywhere() -> None:
    locks = Locks()
    lost = grip(writes("shared:/a"), tree="r1")
    locks.abandon(lost)
    assert locks.in_the_way(grip(reads("shared:/a/b"), tree="r2")) is lost
    assert locks.in_the_way(grip(reads("shared:/b"), tree="r2")) is None
    assert locks.in_the_way(grip(READS, tree="r2")) is None
    assert locks.in_the_way(grip(READS, tree="r1")) is lost
    locks.release(lost)
    assert locks.in_the_way(grip(reads("shared:/a"), tree="r2")) is None


async def test_nobody_waits_for_an_abandoned_call() -> None:
    """It may be at work for ever: who waits is let go on, and refused when it looks."""
    locks = Locks()
    lost = taken(locks, grip(writes("a")))
    async with anyio.create_task_group() as tasks:
        waiters = Waiters(locks, tasks)
        await waiters.add(grip(writes("a"), name="next"))
        locks.abandon(lost)
        assert await waiters.settled() == ["next"]
    assert locks.in_the_way(grip(writes("a"))) is lost


async def test_a_call_that_is_abandoned_twice_is_released_once() -> None:
    locks = Locks()
    lost = grip(writes("shared:/a"))
    locks.abandon(lost)
    locks.abandon(lost)
    locks.release(lost)
    assert not locks.any_abandoned
    assert locks._abandoned_shared == set()


async def test_a_call_that_runs_already_is_held_without_asking() -> None:
    locks = Locks()
    first, second = grip(writes("a")), grip(writes("a"))
    locks.add(first)
    locks.add(second)
    assert held(locks, grip(reads("a"))) == []
    locks.release(first)
    locks.release(second)
    assert held(locks, grip(reads("a")))


async def test_many_runs_side_by_side_wait_for_nothing() -> None:
    """A thousand runs with a private name each, and one shared name that all of them read."""
    locks = Locks()
    grips = [grip(Effect(("shared:/a",), ("own",)), tree=f"r{n}") for n in range(1000)]
    assert held(locks, *grips) == grips
    assert held(locks, grip(writes("shared:/a"), tree="r0")) == []
