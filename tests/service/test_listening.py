"""The service on real sockets: modes, stale and living ones, clients on both back ends, a quick end."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.standing import Stored
from watchkeeper.engine import Query, RunSpec, Steer, UnknownRun
from watchkeeper.errors import ConfigurationError
from watchkeeper.journal import SqliteEngine
from watchkeeper.messages import RunEnded
from watchkeeper.service.app import Service
from watchkeeper.service.client import HttpEngine, Refused, Unreachable
from watchkeeper.service.listening import Bind, listen, listener


class Served:
    """A service in a thread of its own, on asyncio, over an engine in SQLite; runs are submitted and never executed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "s" / "api.sock"
        self.store = Stored()
        self.url = ""
        self.ended = 0.0
        self._up = threading.Event()
        self._stop: Any = None
        self._thread = threading.Thread(target=lambda: anyio.run(self._serve), daemon=True)

    async def _serve(self) -> None:
        async with SqliteEngine(self.folder) as engine, Service(engine, tokens=self.store) as service:
            with anyio.CancelScope() as scope:
                loop_token = anyio.lowlevel.current_token()
                self._stop = lambda: anyio.from_thread.run_sync(scope.cancel, token=loop_token)
                binds = [Bind(path=str(self.socket)), Bind(host="127.0.0.1", port=0)]
                await listen(service, binds, started=self._started)
            began = anyio.current_time()
        self.ended = anyio.current_time() - began

    def _started(self, binds: Any) -> None:
        self.url = f"http://{binds[1]}"
        self._up.set()

    def start(self) -> Served:
        self._thread.start()
        assert self._up.wait(30)
        return self

    def stop(self) -> None:
        if self._thread.is_alive():
            self._stop()
        self._thread.join(10)
        assert not self._thread.is_alive(), "the service has not ended"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(tmp_path).start()
    yield found
    found.stop()


@pytest.mark.anyio
async def test_clients_on_both_back_ends_over_socket_and_tcp(served: Served) -> None:
    assert stat.S_IMODE(served.socket.stat().st_mode) == 0o700
    assert stat.S_IMODE(served.socket.parent.stat().st_mode) == 0o700
    token = served.store.secrets["run"]
    with anyio.fail_after(30):
        async with HttpEngine(f"unix:{served.socket}") as local, HttpEngine(served.url, token=token) as far:
            made = await local.submit(RunSpec(agent="a", task="t", by="me"), run="one")
            assert made.spec.by == "me"
            assert await far.get("one") == made
            assert (await far.submit(RunSpec(agent="a", task="t", by="me"), run="two")).spec.by == "run"
            got = []

            async def watch() -> None:
                got.extend([fact async for fact in far.watch("one")])

            async with anyio.create_task_group() as group:
                group.start_soon(watch)
                await far.cancel("one", "enough")
            assert isinstance(got[-1], RunEnded)
            assert [run.run for run in (await local.list(Query(states=("queued",)))).runs] == ["two"]
            labels = {"a b&c": "ä=1 +%"}
            await local.submit(RunSpec(agent="a", task="t", labels=labels), run="three")
            assert [run.run for run in (await local.list(Query(labels=labels))).runs] == ["three"]
            for client in (local, far):
                with pytest.raises(UnknownRun, match="nothing"):
                    await client.get("nothing")
        async with HttpEngine(served.url, token=served.store.secrets["read"]) as reader:
            with pytest.raises(Refused, match="scope run") as refused:
                await reader.cancel("two")
            assert (refused.value.status, refused.value.problem) == (403, "scope")
        async with HttpEngine(served.url) as nobody:
            with pytest.raises(Refused, match="token is needed"):
                await nobody.get("one")


@pytest.mark.anyio
async def test_open_streams_do_not_hold_up_the_end(served: Served) -> None:
    with anyio.fail_after(30):
        async with HttpEngine(f"unix:{served.socket}") as client:
            await client.submit(RunSpec(agent="a", task="t"), run="one")
            command = await client.send("one", Steer(text="x"))
            cut = []

            async def watch() -> None:
                with pytest.raises(Unreachable, match="closing"):
                    async for _ in client._stream("one", 0):
                        pass
                cut.append("stream")

            async def wait() -> None:
                with pytest.raises(Unreachable):
                    await client.answered("one", command)
                cut.append("wait")

            async with anyio.create_task_group() as group:
                group.start_soon(watch)
                group.start_soon(wait)
                while (await client._ask("GET", "/v1/stats", dict))["streams"] < 1:
                    await anyio.lowlevel.checkpoint()
                await anyio.to_thread.run_sync(served.stop)
            assert sorted(cut) == ["stream", "wait"]
        assert served.ended < 3.0
        assert not served.socket.exists()
        async with HttpEngine(f"unix:{served.socket}") as late:
            with pytest.raises(Unreachable, match="watchkeeper serve"):
                await late.get("one")


def test_a_stale_socket_is_replaced_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "d" / "api.sock"
    with contextlib.ExitStack() as stack:
        stale = stack.enter_context(socket.socket(socket.AF_UNIX))
        path.parent.mkdir(mode=0o700)
        stale.bind(str(path))
        stack.enter_context(listener(Bind(path=str(path))))
        with pytest.raises(ConfigurationError, match=r"listens at .* already"), listener(Bind(path=str(path))):
            pass
    assert not path.exists()


def test_what_is_no_socket_stays(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    path = tmp_path / "notes"
    path.write_text("dear")
    with pytest.raises(ConfigurationError, match="is no socket"), listener(Bind(path=str(path))):
        pass
    assert path.read_text("utf-8") == "dear"


def test_a_folder_that_others_may_write_is_no_door(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigurationError, match="chmod go-w"), listener(Bind(path=str(folder / "api.sock"))):
        pass
    folder.chmod(0o1777)  # as a folder for temporary files, where each may remove his own
    with listener(Bind(path=str(folder / "api.sock"))):
        assert stat.S_IMODE((folder / "api.sock").stat().st_mode) == 0o700


def test_an_address_that_is_taken_is_named() -> None:
    with listener(Bind(host="127.0.0.1", port=0)) as first:
        port = first.getsockname()[1]
        bind = Bind(host="127.0.0.1", port=port)
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port} cannot be listened at"), listener(bind):
            pass


def test_a_host_that_is_none_is_named() -> None:
    with (
        pytest.raises(ConfigurationError, match=r"nohost\.invalid:80 cannot be listened at"),
        listener(Bind(host="nohost.invalid", port=80)),
    ):
        pass


def test_what_is_sent_over_tcp_goes_at_once() -> None:
    with listener(Bind(host="127.0.0.1", port=0)) as made:
        assert made.proto == socket.IPPROTO_TCP, "asyncio looks at it before it switches Nagle's algorithm off"


def test_the_client_loads_nothing_of_a_server() -> None:
    code = "import sys, watchkeeper.service.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert {"litestar", "uvicorn", "httpx2", "prometheus_client"}.isdisjoint(done.stdout.split())
