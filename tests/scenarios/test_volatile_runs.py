"""Whole runs whose calls and results never look the same twice, and are: nudged, blocked, stopped as any other loop."""

from __future__ import annotations

import itertools
import uuid

import pytest
from stage import play, varying

from support import scripted
from watchkeeper import Agent, Limits, tool
from watchkeeper.testing import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LIMITS = Limits(max_turns=40)


async def test_a_clock_in_the_result() -> None:
    seconds = itertools.count()

    @tool(effect="reads")
    async def build(target: str) -> str:
        return f"2026-03-02T09:14:{next(seconds):02}Z ERROR linker: undefined symbol foo"

    ran = await play(Agent(varying(lambda n: [("build", {"target": "app"})]), [build], limits=LIMITS))
    assert ran.end == ("stopped", "loop")
    assert ran.steps() == [("nudge", 3), ("block", 5), ("stop", 8)]
    assert ran.executed == 5


async def test_a_nonce_in_the_arguments_and_an_id_in_the_result() -> None:
    @tool(effect="reads")
    async def fetch(page: str, request_id: str) -> str:
        return (
            f'{{"request_id": "{uuid.UUID(int=hash(request_id) % 2**128)}", "items": [], "error": "index is locked"}}'
        )

    model = varying(lambda n: [("fetch", {"page": "orders", "request_id": f"req-{n * 7919:x}ab{n}"})])
    ran = await play(Agent(model, [fetch], limits=LIMITS))
    assert ran.end == ("stopped", "loop")
    assert ran.steps() == [("nudge", 3), ("block", 5), ("stop", 8)]
    assert ran.executed == 5  # a block holds for all calls that differ in volatile parts only


async def test_other_pages_are_other_calls() -> None:
    @tool(effect="reads")
    async def fetch(page: int, request_id: str) -> str:
        return f'{{"request_id": "{request_id}", "items": ["entry {page}"]}}'

    model = varying(lambda n: [("fetch", {"page": n, "request_id": f"req-{n * 7919:x}ab{n}"})])
    ran = await play(Agent(model, [fetch], limits=Limits(max_turns=15)))
    assert ran.steps() == []
    assert ran.executed == 15


async def test_a_number_that_moves_is_progress() -> None:
    done = itertools.count(1)

    @tool(effect="reads")
    async def count_rows(table: str) -> str:
        return f"{next(done) * 137} rows copied"

    model = scripted(*[call(("count_rows", {"table": "t"}))] * 15, say("All rows are copied."))
    ran = await play(Agent(model, [count_rows], limits=LIMITS))
    assert ran.steps() == []
    assert ran.executed == 15
