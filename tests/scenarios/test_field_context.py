"""Scenarios from the field: what caches cost, windows that are full, compaction, and runs that are played back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from support import of, perform
from watchkeeper import Agent, Event, Limits, Price, Supervisor, encode_event, tool
from watchkeeper.cassette import Player, Recorder, forbidden_sockets
from watchkeeper.errors import CassetteError
from watchkeeper.messages import ContextCompacted, Usage
from watchkeeper.model import Request
from watchkeeper.testing import BACKENDS, ScriptedModel, Step, backend, call, say
from windows import Strict

LIMITS = Limits(max_turns=40, reply_tokens=300)


@tool(effect="reads")
async def read(page: int, length: int = 2000) -> str:
    """Read a page."""
    return f"page {page}. " + f"text of {page}. " * (length // 12)


# -- costs ------------------------------------------------------------------------------------------------------------


def test_cost_01_each_class_of_tokens_is_paid_once_and_the_classes_add_up() -> None:
    usage = Usage(12_400_000, 100_000, cached_tokens=11_500_000, reasoning_tokens=40_000)
    price = Price(input=3.0, output=15.0, cached=0.3, reasoning=20.0)
    classes = (900_000 * 3.0, 11_500_000 * 0.3, 60_000 * 15.0, 40_000 * 20.0)
    assert price.of(usage) == pytest.approx(sum(classes) / 1_000_000)
    assert price.of(usage) < Price(input=3.0, output=15.0).of(usage) / 4  # not paid a second time in full


# -- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.virtual_time
@pytest.mark.parametrize("place", [1, 2, 5])
async def test_outp_02_a_result_larger_than_the_window_at_each_place(place: int) -> None:
    """The server refuses what does not fit, and fails the test by it: nothing that is sent is too long."""

    def script(request: Request, n: int) -> Step:
        return call(("read", {"page": n, "length": 60_000 if n == place else 600})) if n <= 6 else say("done")

    model = Strict(script, 4000)
    outcome, _ = await perform(Agent(model, [read], limits=LIMITS))
    assert (outcome.status, outcome.answer) == ("completed", "done")
    assert model.asked >= 7


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_ctxt_01_what_no_window_holds_is_not_sent() -> None:
    model = Strict(lambda request, n: say("done"), 1000)
    outcome, _ = await perform(Agent(model, limits=LIMITS), "word " * 5000)
    assert (outcome.status, outcome.reason, model.asked) == ("stopped", "context", 0)
    assert "1,000 tokens" in outcome.message


# -- compaction -------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_comp_01_a_summary_as_long_as_what_it_sums_up_leads_to_no_loop() -> None:
    def script(request: Request, n: int) -> Step:
        return call(("read", {"page": n, "length": 400}), text=f"step {n}")

    model = Strict(script, 4000, summary=lambda request: request.messages[-1].content)
    outcome, events = await perform(Agent(model, [read], limits=LIMITS), "x" * 12_000)
    assert (outcome.status, outcome.reason) == ("stopped", "context")
    assert len(of(events, ContextCompacted)) <= 2
    assert not any(event.summary for event in of(events, ContextCompacted))


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_comp_02_summaries_that_are_fed_back_do_not_grow() -> None:
    def script(request: Request, n: int) -> Step:
        return call(("read", {"page": n, "length": 1500})) if n <= 60 else say("done")

    def summary(request: Request) -> str:
        return "\n".join(f"- [watchkeeper] fact {n} of what went before" for n in range(60))

    outcome, events = await perform(
        Agent(Strict(script, 4000, summary=summary), [read], limits=Limits(max_turns=80, reply_tokens=300))
    )
    told = [event.summary for event in of(events, ContextCompacted) if event.summary]
    assert outcome.status == "completed"
    assert len(told) >= 5
    assert max(map(len, told)) <= max(len(told[0]), 2000)
    assert not any("[watchkeeper]" in text for text in told)


# -- played back ------------------------------------------------------------------------------------------------------


SWAPPED = {'{"place":"a"}': '{"place":"b"}', '{"place":"b"}': '{"place":"a"}'}


class Remembering:
    """A tool that keeps what it has seen, as a warm cache does."""

    def __init__(self) -> None:
        self.kept: dict[str, int] = {}

    def tools(self) -> list[Any]:
        @tool(effect="reads")
        async def look(place: str) -> str:
            """Look."""
            self.kept[place] = self.kept.get(place, 0) + 1
            return f"{place}, looked at {self.kept[place]} times"

        return [look]


async def ran(seams: Any, tools: list[Any]) -> list[bytes]:
    model = ScriptedModel([call(("look", {"place": "a"}), ("look", {"place": "b"})), say("Done.")])
    async with Supervisor(seams=seams, plugged=False) as supervisor:
        run = await supervisor.start(Agent(model, tools), "Look.")
        await run.wait()
        return [encode_event(event) async for event in run.events() if isinstance(event, Event)]


def recorded(path: Path) -> list[bytes]:
    warm = Remembering()
    warm.kept["a"] = 7
    with Recorder(path) as seams:
        return anyio.run(ran, seams, warm.tools(), backend="asyncio")


@pytest.mark.parametrize("name", BACKENDS)
def test_rply_01_what_a_warm_cache_gave_is_played_to_a_cold_one(name: str, tmp_path: Path) -> None:
    before = recorded(tmp_path / "a")
    assert b"looked at 8 times" in b"".join(before)
    where, options = backend(name)
    cold = Remembering()
    player = Player(tmp_path / "a")
    with forbidden_sockets():
        assert anyio.run(ran, player, cold.tools(), backend=where, backend_options=options) == before
    player.check()
    assert cold.kept == {}


@pytest.mark.parametrize("name", BACKENDS)
def test_rply_02_swapped_calls_of_one_tool_are_an_error(name: str, tmp_path: Path) -> None:
    recorded(tmp_path / "a")
    lines = [json.loads(line) for line in (tmp_path / "a").read_bytes().splitlines()]
    changed = 0
    for line in lines:
        if line["type"] == "piece" and line.get("call"):
            line["call"][3] = SWAPPED[line["call"][3]]
            changed += 1
    assert changed == 2
    # Byte for byte as it was but for the two: it is facts that are compared.
    written = (json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in lines)
    (tmp_path / "b").write_text("\n".join(written) + "\n")
    where, options = backend(name)
    player = Player(tmp_path / "b")
    anyio.run(ran, player, Remembering().tools(), backend=where, backend_options=options)
    with pytest.raises(CassetteError, match="place"):
        player.check()
