"""Traffic is recorded byte for byte at the transport of httpx2 and played offline, on both event loops."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from real import LOOP, PLAIN, REQUESTS, ask_plainly, loop

from watchkeeper import Message, ModelError, OpenAIModel
from watchkeeper.cassette import Fault, Playing, Recording, Tape, forbidden_sockets, playing_client, recording_client
from watchkeeper.cassette.entries import Drawn, HttpChunk, HttpEnd
from watchkeeper.cassette.exchange import bytes_of, exchanges
from watchkeeper.cassette.tape import read
from watchkeeper.errors import CassetteError, CassetteMiss
from watchkeeper.model import Chunk, Finished, Request, TextDelta
from watchkeeper.redaction import Redaction
from watchkeeper.testing import CallTools, ChatServer, Drop, Raw, Say

pytestmark = pytest.mark.anyio
SECRET = "xyzzy-planted-secret-42"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
URL = "http://host/v1/chat/completions"


def model_of(base_url: str, client: httpx2.AsyncClient, **settings: Any) -> OpenAIModel:
    return OpenAIModel("m", base_url=base_url, http_client=client, **settings)


async def ask(model: OpenAIModel, text: str = "hi") -> list[Chunk]:
    async with model.stream(Request((Message("user", text),))) as chunks:
        return [chunk async for chunk in chunks]


async def raw(client: httpx2.AsyncClient, body: Any = BODY, url: str = URL) -> list[bytes]:
    async with client.stream("POST", url, json=body) as response:
        return [piece async for piece in response.aiter_raw()]


class Server:
    """A transport in place of the network: these pieces, with these headers, and maybe an error at the end."""

    def __init__(self, *pieces: bytes, error: Exception | None = None, status: int = 200, **headers: str) -> None:
        self.pieces, self.error, self.status = pieces, error, status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.asked: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        server = self

        class Body(httpx2.AsyncByteStream):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                for piece in server.pieces:
                    await anyio.lowlevel.checkpoint()
                    yield piece
                if server.error is not None:
                    raise server.error

        return httpx2.Response(self.status, headers=self.headers, stream=Body())

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        pass

    async def aclose(self) -> None:
        pass


def client_of(server: Server, path: Path, **settings: Any) -> httpx2.AsyncClient:
    transport: Any = Recording(server, Tape(path, "http"), **settings)  # type: ignore[arg-type]
    return httpx2.AsyncClient(transport=transport)


async def test_pieces_come_again_byte_for_byte(tmp_path: Path) -> None:
    pieces = [b"data: {\xc3", b"\xa4}\n", b"", b"\xff\x00", b"x" * 70_000]
    async with client_of(Server(*pieces, content_type="text/event-stream"), tmp_path / "a") as client:
        first = await raw(client)
    assert first == [piece for piece in pieces if piece]
    with forbidden_sockets():
        async with playing_client(tmp_path / "a") as client:
            assert await raw(client) == first
    (played,) = exchanges(read(tmp_path / "a").takes[0].lines)
    assert [piece for _, piece in played.chunks] == pieces


async def test_a_stream_goes_through_while_it_comes(tmp_path: Path) -> None:
    gate = anyio.Event()

    class Slow(Server):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            class Body(httpx2.AsyncByteStream):
                async def __aiter__(self) -> AsyncIterator[bytes]:
                    yield b"first"
                    await gate.wait()
                    yield b"second"

            return httpx2.Response(200, stream=Body())

    async with client_of(Slow(), tmp_path / "a") as client, client.stream("POST", URL, json=BODY) as response:
        pieces = response.aiter_raw()
        with anyio.fail_after(5):
            assert await anext(pieces) == b"first"
            gate.set()  # a recorder that waits for the end would never come here
            assert [piece async for piece in pieces] == [b"second"]


async def test_a_model_is_recorded_and_played(tmp_path: Path) -> None:
    script = [CallTools(("read", {"path": "ä"}), reasoning="hm"), Say("two"), Say("three")]
    async with ChatServer(script) as server, recording_client(tmp_path / "a") as client:
        model = model_of(server.base_url, client)
        first = [await ask(model), await ask(model, "other"), await ask(model)]
    with forbidden_sockets():
        async with playing_client(tmp_path / "a") as client:
            model = model_of("http://127.0.0.1:9/v1", client)
            # Equal requests in the order in which they were asked; others between them do not count.
            again = [await ask(model), await ask(model)]
            assert again == [first[0], first[2]]
            assert await ask(model, "other") == first[1]


async def test_a_miss_is_loud_and_is_not_retried(tmp_path: Path) -> None:
    async with client_of(Server(b"{}", content_type="application/json"), tmp_path / "a") as client:
        await raw(client)
    async with playing_client(tmp_path / "a") as client:
        with pytest.raises(CassetteMiss, match="no recording of POST /v1/chat/completions with this body") as missed:
            await raw(client, {**BODY, "model": "other"})
        assert '- "model": "m"' in missed.value.difference
        assert '+ "model": "other"' in missed.value.difference
        with pytest.raises(ModelError) as failed:
            await ask(model_of("http://h/v1", client))
        assert failed.value.kind == "unknown"
        assert not failed.value.retryable
        await raw(client)
        with pytest.raises(CassetteMiss, match=r"for the 2\. time: it was recorded 1 times"):
            await raw(client)


async def test_errors_are_recorded_and_played(tmp_path: Path) -> None:
    server = Server(b"half", error=httpx2.ReadError("cut"))
    async with client_of(server, tmp_path / "a") as client:
        with pytest.raises(httpx2.ReadError, match="cut"):
            await raw(client)
    async with playing_client(tmp_path / "a") as client:
        with pytest.raises(httpx2.ReadError, match="cut"):
            await raw(client)


async def test_a_connection_that_fails_is_recorded_and_played(tmp_path: Path) -> None:
    class Down(Server):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            raise httpx2.ConnectError("nobody there")

    async with client_of(Down(), tmp_path / "a") as client:
        with pytest.raises(httpx2.ConnectError):
            await raw(client)
    async with playing_client(tmp_path / "a") as client:
        with pytest.raises(httpx2.ConnectError, match="nobody there"):
            await raw(client)


async def test_a_reply_that_nobody_read_to_its_end_says_so(tmp_path: Path) -> None:
    async with client_of(Server(b"one", b"two", b"three"), tmp_path / "a") as client:
        async with client.stream("POST", URL, json=BODY) as response:
            pieces = response.aiter_raw()
            await anext(pieces)
            await pieces.aclose()
        async with client.stream("POST", URL, json=BODY):
            pass
    ends = [line for line in read(tmp_path / "a").takes[0].lines if isinstance(line, HttpEnd)]
    assert [end.left for end in ends] == [True, True]
    async with playing_client(tmp_path / "a") as client:
        with pytest.raises(CassetteMiss, match="did not read on"):
            await raw(client)


async def test_a_cancel_in_the_middle_keeps_what_came(tmp_path: Path) -> None:
    class Stalls(Server):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            class Body(httpx2.AsyncByteStream):
                async def __aiter__(self) -> AsyncIterator[bytes]:
                    yield b"one"
                    await anyio.sleep_forever()

            return httpx2.Response(200, stream=Body())

    async with client_of(Stalls(), tmp_path / "a") as client:
        with anyio.move_on_after(0.05):
            await raw(client)
    lines = read(tmp_path / "a").takes[0].lines
    assert [bytes_of(line) for line in lines if isinstance(line, HttpChunk)] == [b"one"]


@pytest.mark.virtual_time
@pytest.mark.parametrize("waits", [False, True])
async def test_recorded_times_are_kept_and_waited_for_if_asked(tmp_path: Path, waits: bool) -> None:
    class Slow(Server):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            class Body(httpx2.AsyncByteStream):
                async def __aiter__(self) -> AsyncIterator[bytes]:
                    for number in range(3):
                        await anyio.sleep(10)
                        yield b"%d" % number

            await anyio.sleep(5)
            return httpx2.Response(200, stream=Body())

    async with client_of(Slow(), tmp_path / "a") as client:
        await raw(client)
    began = anyio.current_time()
    async with playing_client(tmp_path / "a", waits=waits) as client:
        assert await raw(client) == [b"0", b"1", b"2"]
    assert anyio.current_time() - began == pytest.approx(35 if waits else 0, abs=0.01)


async def test_a_server_that_compresses_all_the_same_is_looked_through(tmp_path: Path) -> None:
    body = gzip.compress(f"it is {SECRET}".encode())
    server = Server(body[:9], body[9:], content_encoding="gzip", content_type="text/plain")
    async with client_of(server, tmp_path / "a", redaction=Redaction([SECRET])) as client:
        assert (await client.post(URL, json=BODY)).text == f"it is {SECRET}"
    assert server.asked[0].headers.get_list("accept-encoding") == ["identity"]
    async with playing_client(tmp_path / "a") as client:
        assert (await client.post(URL, json=BODY)).text == "it is [redacted]"


async def test_a_body_that_cannot_be_looked_through_is_left_out(tmp_path: Path) -> None:
    async with client_of(Server(b"secret bytes", content_encoding="br"), tmp_path / "a") as client:
        assert await raw(client) == [b"secret bytes"]
    text = (tmp_path / "a").read_text("utf-8")
    assert "secret bytes" not in text
    assert "cannot be looked through" in text


async def test_a_planted_secret_is_nowhere_in_the_file(tmp_path: Path) -> None:
    words = f"your key is {SECRET}, keep it"
    pieces = [
        f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': words[i : i + 4]}}]})}\n\n"
        for i in range(0, len(words), 4)
    ]
    async with ChatServer([Raw(*pieces, "data: [DONE]\n\n")]) as server:
        base = server.base_url.replace("://", f"://me:{SECRET}@") + f"?token={SECRET}"
        async with recording_client(tmp_path / "a", redaction=Redaction()) as client:
            client.headers["x-mine"] = SECRET
            body = {**BODY, "stream": True, "messages": [{"role": "user", "content": f"mine is {SECRET}"}]}
            url = base.replace("/v1?", "/v1/chat/completions?")
            async with client.stream("POST", url, json=body, headers={"x-api-key": SECRET}) as response:
                assert SECRET[:4] in "".join([piece async for piece in response.aiter_text()])
    text = (tmp_path / "a").read_text("utf-8")
    told = [json.loads(line) for line in text.splitlines()]
    joined = "".join(line.get("text", "") for line in told if line["type"] == "chunk")
    words_kept = "".join(
        json.loads(line[5:])["choices"][0]["delta"]["content"]
        for line in joined.splitlines()
        if line.startswith("data: {")
    )
    assert SECRET not in text
    assert words_kept == "your key is [redacted], keep it"


# -- faults ------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def plain(tmp_path: Path) -> Path:
    async with ChatServer([Say("hello there, whoever you are"), Say("again")]) as server:  # noqa: SIM117
        async with recording_client(tmp_path / "plain") as client:
            await ask(model_of(server.base_url, client))
    return tmp_path / "plain"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(kind="rate_limited", retry_after=7, at=1), "rate_limited"),
        (Fault(kind="server_error", at=1), "server"),
        (Fault(kind="cut", at=1), "connection"),
        (Fault(kind="malformed", at=1), "server"),
        (Fault(kind="loss", at=1), "connection"),
    ],
)
async def test_a_fault_hits_its_request_and_leaves_the_recording(plain: Path, fault: Fault, kind: str) -> None:
    async with playing_client(plain, faults=[fault]) as client:
        model = model_of("http://h/v1", client)
        with pytest.raises(ModelError) as failed:
            await ask(model)
        assert failed.value.kind == kind
        assert failed.value.retryable
        if fault.kind == "rate_limited":
            assert failed.value.retry_after == 7
        reply = await ask(model)
    assert "".join(one.text for one in reply if isinstance(one, TextDelta)) == "hello there, whoever you are"


@pytest.mark.virtual_time
async def test_a_stall_and_a_slow_body_take_their_time(tmp_path: Path) -> None:
    async with client_of(Server(b"one", b"two", b"three"), tmp_path / "a") as client:
        await raw(client)
    stall, slow = Fault(kind="stall", at=1, pieces=2), Fault(kind="slow", at=2, delay=3)
    async with playing_client(tmp_path / "a", faults=[stall, slow]) as client:
        with anyio.move_on_after(1000) as scope:
            await raw(client)
        assert scope.cancelled_caught
        began = anyio.current_time()
        pieces = await raw(client)
    assert anyio.current_time() - began == pytest.approx(3 * len(pieces))


async def test_random_loss_is_the_same_for_the_same_seed(plain: Path) -> None:
    async def lost(seed: int) -> list[bool]:
        found = []
        async with playing_client(plain, faults=[Fault(kind="loss", chance=0.5, seed=seed)]) as client:
            for _ in range(40):
                try:
                    await raw(client, {"never": "recorded"})
                except httpx2.ConnectError:
                    found.append(True)
                except CassetteMiss:
                    found.append(False)
        return found

    assert await lost(1) == await lost(1) != await lost(2)
    assert 8 < sum(await lost(1)) < 32


# -- a real small model ------------------------------------------------------------------------------------------------


async def test_a_real_small_model_is_played() -> None:
    with forbidden_sockets():
        async with playing_client(PLAIN) as client:
            replies = await ask_plainly(client)
    texts = ["".join(one.text for one in reply if isinstance(one, TextDelta)) for reply in replies]
    assert len(replies) == len(REQUESTS)
    assert texts[0] == texts[2] != ""
    assert all(any(isinstance(one, Finished) for one in reply) for reply in replies)


async def test_a_loop_of_a_real_small_model_that_is_not_ours_is_played() -> None:
    with forbidden_sockets():
        async with playing_client(LOOP) as client:
            messages = await loop(client)
            transport = client._transport
            assert isinstance(transport, Playing)
            assert transport.unplayed == 0
    assert sum(message["role"] == "assistant" for message in messages) == 4


async def test_a_request_the_real_model_never_got_is_missed() -> None:
    async with playing_client(PLAIN) as client:
        with pytest.raises(CassetteMiss, match="nearest differs"):
            await raw(client, {"model": "smollm2-135m-instruct", "messages": []}, "http://h/v1/chat/completions")


async def test_what_is_left_of_a_run_may_be_another_amount(tmp_path: Path) -> None:
    def body(left: str) -> Any:
        said = f"hi\n\n[watchkeeper] Turn 1 of 20. Left: {left}."
        return {"model": "m", "stream": True, "messages": [{"role": "user", "content": said}]}

    async with ChatServer([Say("hello")]) as server, recording_client(tmp_path / "a") as client:
        recorded = await raw(client, body("28 min"), f"{server.base_url}/chat/completions")
    async with playing_client(tmp_path / "a") as client:
        with pytest.raises(CassetteMiss):
            await raw(client, body("28 min of grace"), URL)
        assert b"".join(await raw(client, body("30 min"), URL)) == b"".join(recorded)
        with pytest.raises(CassetteMiss):
            await raw(client, body("30 min"), URL)


async def test_a_run_is_no_traffic(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "a", "run")
    tape.write(Drawn(what="id", prefix="r", value="r1"))
    tape.close()
    with pytest.raises(CassetteError, match="holds no traffic with a server"):
        playing_client(tmp_path / "a")


async def test_what_breaks_off_while_it_is_recorded_is_the_model_s_failure(tmp_path: Path) -> None:
    async with ChatServer([Drop(2)]) as server, recording_client(tmp_path / "a") as client:
        with pytest.raises(ModelError) as first:
            await ask(model_of(server.base_url, client))
    async with playing_client(tmp_path / "a") as client:
        with pytest.raises(ModelError) as again:
            await ask(model_of("http://h/v1", client))
    assert first.value.kind == again.value.kind == "connection"
