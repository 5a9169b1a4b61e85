"""Streams: facts with their numbers, resumed where the line was cut; readers that are slow; the board of all runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

import anyio
import httpx2
import msgspec
import pytest

from service.inprocess import InProcess
from service.standing import HOST, Standing, standing
from watchkeeper.engine import RunSpec
from watchkeeper.log import Gap
from watchkeeper.messages import ModelStreamed, Unknown, decode_event
from watchkeeper.service.client import HttpEngine
from watchkeeper.service.facts import facts
from watchkeeper.service.streams import BACKLOG, FORMS, NDJSON, SSE, Backlog

pytestmark = pytest.mark.anyio


class Told(NamedTuple):
    kind: str
    data: Any
    id: str | None


async def told(response: httpx2.Response) -> AsyncIterator[Told]:
    """Events as a browser reads them; a comment is of the kind ``:``."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            yield Told(":", line[1:].strip(), None)
        elif line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            if "event" in fields:
                yield Told(fields["event"], msgspec.json.decode(fields["data"]), fields.get("id"))
            fields = {}


@asynccontextmanager
async def browsing(stands: Standing, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    async with anyio.create_task_group() as group:
        transport = InProcess(stands.tcp, group, **settings)
        headers = {"Authorization": f"Bearer {stands.store.secrets['read']}"}
        async with httpx2.AsyncClient(base_url=f"http://{HOST}", transport=transport, headers=headers) as client:
            yield client
        group.cancel_scope.cancel()


async def all_of(client: httpx2.AsyncClient, path: str, **headers: str) -> list[Told]:
    async with client.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        return [one async for one in told(response)]


def words(stands: Standing, count: int, text: str = "x") -> list[ModelStreamed]:
    return [stands.facts.make(ModelStreamed, channel="content", text=text) for _ in range(count)]


async def test_facts_come_with_their_numbers_then_live_ones_then_the_end() -> None:
    async with standing() as stands, browsing(stands) as client:
        there = stands.facts.made.copy()
        async with client.stream("GET", "/v1/runs/one/events") as response, aclosing(told(response)) as events:
            for fact in there:
                one = await anext(events)
                assert one.id == str(fact.n)
                assert decode_event(msgspec.json.encode(one.data)) == fact
                assert one.kind == one.data["type"]
            assert stands.service.desk.streams.open == 1
            live = stands.facts.end()
            await stands.lease.append(live)
            rest = [one async for one in events]
        assert [(one.kind, one.id) for one in rest] == [
            ("run_ending", str(live[0].n)),
            ("run_ended", str(live[1].n)),
            ("end", None),
        ]
        assert rest[-1].data == {"n": live[1].n}
        await anyio.wait_all_tasks_blocked()
        assert stands.service.desk.streams.open == 0


async def test_a_stream_goes_on_where_it_was_cut() -> None:
    async with standing() as stands, browsing(stands) as client:
        n = len(stands.facts.made)
        path = "/v1/runs/one/events?follow=false"
        assert [one.id for one in await all_of(client, path)] == [*map(str, range(1, n + 1)), None]
        later = await all_of(client, path, **{"Last-Event-ID": "4"})
        assert [one.id for one in later] == [*map(str, range(5, n + 1)), None]
        assert [one.id for one in await all_of(client, f"{path}&after=4")] == [one.id for one in later]
        header_wins = await all_of(client, f"{path}&after=0", **{"Last-Event-ID": str(n)})
        assert [one.kind for one in header_wins] == ["end"]
        await stands.lease.append(stands.facts.end())
        over = await client.get("/v1/runs/one/events", headers={"Last-Event-ID": str(len(stands.facts.made))})
        assert (over.status_code, over.content) == (204, b""), "a browser asks no more"


async def test_lines_of_json_are_the_same() -> None:
    async with standing() as stands, browsing(stands) as client:
        await stands.lease.append(stands.facts.end())
        reply = await client.get("/v1/runs/one/events", headers={"Accept": NDJSON})
        lines = reply.text.splitlines()
        assert [decode_event(line) for line in lines[:-1]] == stands.facts.made
        assert msgspec.json.decode(lines[-1]) == {"end": {"n": len(stands.facts.made)}}


async def test_what_retention_took_is_one_gap_whose_id_resumes_behind_it() -> None:
    async with standing() as stands:
        await stands.lease.append(stands.facts.end())
        await stands.lease.release()
        n = len(stands.facts.made)
        await stands.engine.prune(older_than=-1e9)  # its facts are of a time that is still to come
        found = [one async for one in facts(stands.engine, "one", 2, None, FORMS[SSE])]
        assert found == [
            b'id: %d\nevent: gap\ndata: {"first":3,"last":%d}\n\n' % (n, n),
            b'event: end\ndata: {"n":%d}\n\n' % n,
        ]


async def test_a_strangers_type_makes_no_event_of_its_own() -> None:
    strange = Unknown(n=1, run="one", at=0.0, t=0.0, raw={"type": "end\n\nevent: run_ended", "n": 1, "run": "one"})

    class Strange:
        async def watch(self, run: str, after: int) -> AsyncIterator[Any]:
            yield strange

    found = [one async for one in facts(Strange(), "one", 0, 1, FORMS[SSE])]  # type: ignore[arg-type]
    assert found[0].startswith(b"id: 1\nevent: unknown\ndata: {")
    assert found[0].count(b"\n") == 4


@pytest.mark.virtual_time
async def test_an_idle_stream_pings() -> None:
    async with standing() as stands, browsing(stands) as client:
        after = len(stands.facts.made)
        path = f"/v1/runs/one/events?after={after}"
        async with client.stream("GET", path) as response, aclosing(told(response)) as events:
            began = anyio.current_time()
            assert [await anext(events) for _ in range(3)] == [Told(":", "ping", None)] * 3
            assert anyio.current_time() - began == pytest.approx(45.0, abs=0.1)


@pytest.mark.virtual_time
async def test_a_reader_that_takes_nothing_is_cut_slows_nobody_and_comes_back() -> None:
    async with standing() as stands, browsing(stands, window=2) as client:
        async with client.stream("GET", "/v1/runs/one/events") as response:
            events = told(response)
            first = await anext(events)
            began = anyio.current_time()
            for _ in range(600):  # ten minutes of a busy run
                await stands.lease.append(words(stands, 1, "y" * 20_000))
                await anyio.sleep(1)
            assert anyio.current_time() - began < 601, "the run was not slowed"
            assert stands.service.desk.streams.cut == 1
            seen = [first] + [one async for one in events]
        n = int(next(one.id for one in reversed(seen) if one.id))
        assert n < len(stands.facts.made)
        assert [one.id for one in seen if one.id] == [*map(str, range(1, n + 1))]
        rest = await all_of(client, "/v1/runs/one/events?follow=false", **{"Last-Event-ID": str(n)})
        assert [one.id for one in rest if one.id] == [*map(str, range(n + 1, len(stands.facts.made) + 1))]


async def test_a_backlog_is_bounded_in_bytes() -> None:
    backlog = Backlog()
    put = 0

    async def fill() -> None:
        nonlocal put
        while True:
            await backlog.put(b"x" * 10_000)
            put += 1

    async with anyio.create_task_group() as group:
        group.start_soon(fill)
        await anyio.wait_all_tasks_blocked()
        assert put == BACKLOG // 10_000
        assert len(await backlog.take()) == put * 10_000
        await anyio.wait_all_tasks_blocked()
        assert put == 2 * (BACKLOG // 10_000)
        group.cancel_scope.cancel()
    larger = Backlog(most=5)
    with anyio.fail_after(1):
        await larger.put(b"larger than it")
    larger.close()
    assert [await larger.take(), await larger.take()] == [b"larger than it", b""]


async def test_leaving_a_stream_ends_it() -> None:
    async with standing() as stands, browsing(stands) as client:
        async with client.stream("GET", "/v1/runs/one/events") as response:
            await anext(told(response))
            assert stands.service.desk.streams.open == 1
        await anyio.wait_all_tasks_blocked()
        assert stands.service.desk.streams.open == 0


async def test_a_service_that_closes_ends_its_streams_with_a_word() -> None:
    async with standing() as stands, browsing(stands) as client:
        async with client.stream("GET", "/v1/runs/one/events") as response, aclosing(told(response)) as events:
            for _ in stands.facts.made:
                await anext(events)
            stands.service.close()
            assert [one async for one in events] == [Told("closing", {}, None)]
        late = await all_of(client, "/v1/runs/one/events")
        assert late[-1].kind == "closing", "no stream begins any more"


@pytest.mark.virtual_time
async def test_the_client_comes_back_to_a_stream_that_was_cut() -> None:
    async with standing() as stands, anyio.create_task_group() as group:
        transport = InProcess(stands.local, group)
        async with HttpEngine("http://localhost", transport=transport) as client:
            got: list[int] = []

            async def watch() -> None:
                async for fact in client.watch("one"):
                    assert not isinstance(fact, Gap)
                    got.append(fact.n)

            async with anyio.create_task_group() as watching:
                watching.start_soon(watch)
                await anyio.sleep(1)
                streams = stands.service.desk.streams
                for _ in range(3):
                    for scope in streams._scopes:
                        scope.cancel()  # as a service that goes and comes again
                    await stands.lease.append(words(stands, 10))
                    await anyio.sleep(5)
                await stands.lease.append(stands.facts.end())
        assert got == [*range(1, len(stands.facts.made) + 1)]
        group.cancel_scope.cancel()


@pytest.mark.virtual_time
async def test_the_board_tells_how_all_runs_stand_and_what_changes() -> None:
    async with standing() as stands, browsing(stands) as client:
        async with client.stream("GET", "/v1/events") as response, aclosing(told(response)) as events:
            first = [await anext(events) for _ in range(3)]
            assert {one.data["run"] for one in first if one.kind == "run"} == {"one", "two"}
            stats = first[-1]
            assert (stats.kind, stats.data["states"]) == ("stats", {"queued": 1, "running": 1})
            began = anyio.current_time()
            for _ in range(50):  # within half a second: told once
                await stands.lease.append(words(stands, 1))
            await stands.engine.cancel("two")
            changed = [await anext(events) for _ in range(3)]
            assert anyio.current_time() - began <= 1.0
            assert {one.data["run"]: one.data["n"] for one in changed if one.kind == "run"}["one"] == len(
                stands.facts.made
            )
            states = {one.data["run"]: one.data.get("state") for one in changed if one.kind == "run"}
            assert states == {"one": "running", "two": "ended"}
            assert changed[-1].data["states"] == {"ended": 1, "running": 1}
            await stands.engine.submit(RunSpec(agent="a", task="t"), run="three")
            assert (await anext(events)).data["run"] == "three"
        await anyio.wait_all_tasks_blocked()
        looks = 0
        listed = stands.engine.list

        async def counted(query: Any) -> Any:
            nonlocal looks
            looks += 1
            return await listed(query)

        stands.engine.list = counted  # type: ignore[method-assign]
        await anyio.sleep(60)
        assert looks == 0, "without a viewer nobody looks"


@pytest.mark.virtual_time
async def test_a_viewer_that_sleeps_holds_each_run_once() -> None:
    async with standing() as stands:
        board = stands.service.desk.board
        with board.viewer() as viewer:
            for _ in range(20):
                await stands.lease.append(words(stands, 5))
                await anyio.sleep(1)
            statuses, stats = await viewer.take()
            assert sorted(status.run for status in statuses) == ["one", "two"]
            assert next(status.n for status in statuses if status.run == "one") == len(stands.facts.made)
            assert stats is not None


async def test_too_many_streams_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchkeeper.service.streams.STREAMS", 1)
    async with standing() as stands, browsing(stands) as client:
        async with client.stream("GET", "/v1/events") as first:
            assert first.status_code == 200
            second = await client.get("/v1/runs/one/events")
            assert (second.status_code, second.headers["retry-after"]) == (503, "5")
            assert (await client.get("/v1/runs")).status_code == 200
        await anyio.wait_all_tasks_blocked()
        assert (await client.get("/v1/runs/one/events?follow=false")).status_code == 200
