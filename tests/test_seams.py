"""Clock, ids and chance as one object, bound to the loop that runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from watchkeeper.seams import Seams
from watchkeeper.testing import VirtualSeams


def test_equal_seeds_give_equal_ids_and_chances() -> None:
    def drawn(seed: int) -> list[Any]:
        seams = Seams(seed=seed)
        seams.wall = lambda: 1_800_000_000.0
        return [seams.random(), seams.new_id("r"), seams.random(), seams.new_id()]

    assert drawn(1) == drawn(1) != drawn(2)
    assert Seams().random() != Seams().random()


def test_ids_are_sortable_short_and_distinct() -> None:
    seams = Seams(seed=1)
    ids = []
    for second in range(200):
        seams.wall = lambda second=second: 1_800_000_000.0 + second / 100  # type: ignore[misc]
        ids.append(seams.new_id("r"))
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {len(one) for one in ids} == {21}
    assert all(one.startswith("r") for one in ids)
    assert set("".join(one[1:] for one in ids)) <= set("0123456789abcdefghjkmnpqrstvwxyz")


def test_ids_of_one_millisecond_are_distinct() -> None:
    seams = Seams(seed=1)
    seams.wall = lambda: 1_800_000_000.0
    assert len({seams.new_id() for _ in range(10_000)}) == 10_000


def test_chances_are_between_nought_and_one() -> None:
    seams = Seams(seed=1)
    drawn = [seams.random() for _ in range(1000)]
    assert all(0 <= one < 1 for one in drawn)
    assert 0.4 < sum(drawn) / 1000 < 0.6


def test_unbound_seams_say_so() -> None:
    with pytest.raises(RuntimeError, match="not bound to an event loop: open the Supervisor first"):
        Seams().post(lambda: None)
    with pytest.raises(RuntimeError):
        Seams().bind()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_loop_that_is_gone_cannot_be_reached(backend: str) -> None:
    seams = Seams()

    async def main() -> None:
        seams.bind()

    anyio.run(main, backend=backend)
    assert seams.post(lambda: None) is False


@pytest.mark.anyio
class TestBound:
    async def test_the_clock_is_that_of_the_loop(self) -> None:
        seams = Seams()
        seams.bind()
        began = seams.clock()
        assert abs(seams.clock() - anyio.current_time()) < 0.1
        await anyio.sleep(0.01)
        assert 0.009 < seams.clock() - began < 5
        assert abs(seams.wall() - time.time()) < 5

    @pytest.mark.virtual_time
    async def test_in_virtual_time_both_clocks_jump(self) -> None:
        seams = VirtualSeams()
        seams.bind()
        clock, wall = seams.clock(), seams.wall()
        await anyio.sleep(3600)
        assert seams.clock() - clock == pytest.approx(3600)
        assert seams.wall() - wall == pytest.approx(3600)

    async def test_a_function_is_handed_over_from_another_thread(self) -> None:
        seams = Seams()
        seams.bind()
        came = anyio.Event()
        threads: list[int] = []

        def land() -> None:
            threads.append(threading.get_ident())
            came.set()

        posted: list[bool] = []
        post: Callable[[], None] = lambda: posted.append(seams.post(land))  # noqa: E731
        thread = threading.Thread(target=post)
        thread.start()
        with anyio.fail_after(10):
            await came.wait()
        thread.join(10)
        assert posted == [True]
        assert threads == [threading.get_ident()] == [seams.thread]

    async def test_work_outside_of_the_loop_may_be_announced(self) -> None:
        with Seams().outside_work():
            pass
