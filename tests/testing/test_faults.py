"""Faults by seed: each kind comes, none without its chance, the same ones with the same seed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest

from watchkeeper import ModelError, Transient, tool
from watchkeeper.memory.store import Note
from watchkeeper.messages import Message
from watchkeeper.model import Finished, Request, TextDelta
from watchkeeper.testing import ScriptedModel, SeededFaults, call, say
from watchkeeper.testing.faults import CLOCK, REFUSALS, STORE, STREAM, TOOL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REQUEST = Request(messages=(Message("user", "Do it."),))


@tool(effect="reads")
async def look(at: str) -> str:
    """Look."""
    return f"{at} is there"


@tool(effect="reads")
def look_in_a_thread(at: str) -> str:
    """Look, in a thread."""
    return f"{at} is there"


class Notes:
    """A store in memory, whose methods are async or plain."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    async def add(self, text: str, about: str) -> None:
        self.notes.append(Note(text, about))

    def search(self, query: str, limit: int) -> list[Note]:
        return self.notes[:limit]


async def asked(faults: SeededFaults, times: int) -> Counter[str]:
    """Ask a model so often; how each reply ended."""
    model = faults.model(ScriptedModel(lambda request, n: call(("look", {"at": "a"}), text="So")))
    ended: Counter[str] = Counter()
    for _ in range(times):
        try:
            with anyio.fail_after(600):
                async with model.stream(REQUEST) as chunks:
                    found = [chunk async for chunk in chunks]
            ended["whole" if any(isinstance(chunk, Finished) for chunk in found) else "broken off"] += 1
        except ModelError as error:
            ended[error.kind] += 1
        except TimeoutError:
            ended["stalled"] += 1
    return ended


async def called(faults: SeededFaults, times: int) -> Counter[str]:
    """Call a tool so often; what came of each."""
    faulty = faults.tool(look)
    came: Counter[str] = Counter()
    for _ in range(times):
        try:
            with anyio.fail_after(600):
                value: Any = await faulty.function(at="a")
            came["as it is" if value == "a is there" else "another"] += 1
        except (OSError, Transient, TimeoutError) as error:
            came[type(error).__name__] += 1
    return came


async def test_each_kind_of_fault_comes_to_pass() -> None:
    faults = SeededFaults(1, chance=0.8)
    ended = await asked(faults, 300)
    assert {"whole", "broken off", "stalled", *REFUSALS} <= set(ended)
    came = await called(faults, 200)
    assert {"as it is", "another", "OSError", "Transient", "TimeoutError"} <= set(came)
    counted = {name.partition(":")[0] for name in faults.counts}
    assert counted == {"model", "stream", "tool"}
    assert {name.partition(":")[2] for name in faults.counts} == {*REFUSALS, *STREAM, *TOOL}


async def test_without_a_chance_there_is_none() -> None:
    faults = SeededFaults(1, chance=0.0)
    assert await asked(faults, 50) == Counter(whole=50)
    assert await called(faults, 50) == Counter({"as it is": 50})
    assert faults.counts == Counter()


async def test_equal_seeds_lay_equal_faults() -> None:
    counts = []
    for seed in (5, 5, 6):
        faults = SeededFaults(seed, chance=0.3)
        await asked(faults, 40)
        await called(faults, 40)
        counts.append(faults.counts)
    assert counts[0] == counts[1] != counts[2]


async def test_a_store_that_fails_or_stalls() -> None:
    faults, notes = SeededFaults(1, chance=0.5), Notes()
    store = faults.store(notes)
    failed: Counter[str] = Counter()
    for _ in range(60):
        try:
            with anyio.fail_after(10):
                await store.add("a fact", "it")  # type: ignore[misc]
                assert await store.search("fact", 1) == [Note("a fact", "it")]  # type: ignore[misc]
        except (OSError, TimeoutError) as error:
            failed["stalls" if isinstance(error, TimeoutError) else "raises"] += 1
    assert set(failed) == set(STORE)
    assert 0 < len(notes.notes) < 60


async def test_the_wall_clock_goes_back_and_ahead_and_the_other_one_goes_on() -> None:
    faults = SeededFaults(1, chance=0.5)
    seams = faults.seams()
    seams.bind()
    steady, shown = [], []
    for _ in range(60):
        steady.append(seams.clock())
        shown.append(seams.wall())
        await anyio.sleep(1)
    assert steady == sorted(steady)
    assert shown != sorted(shown)
    assert {name.partition(":")[2] for name in faults.counts} == set(CLOCK)


async def test_a_plain_function_is_left_as_it_is() -> None:
    assert SeededFaults(1).tool(look_in_a_thread) is look_in_a_thread


async def test_a_faulty_model_is_the_model_in_all_else() -> None:
    model = ScriptedModel([say("done")], name="this one")
    faulty: Any = SeededFaults(1, chance=0.0).model(model)
    assert faulty.name == "this one"
    assert faulty.timeouts is model.timeouts
    async with faulty.stream(REQUEST) as chunks:
        assert TextDelta("done") in [chunk async for chunk in chunks]
    assert faulty.asked == 1
