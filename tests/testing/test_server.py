"""The scripted chat server, spoken to in plain HTTP: framing, strictness, faults, and what it notices of its client."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.messages import Call, Message
from watchkeeper.testing.server import (
    CallTools,
    ChatServer,
    Drop,
    Fault,
    Raw,
    Say,
    Slow,
    Stall,
    call_as_text,
    check_request,
    context_overflow,
    half_call,
    no_quota,
    rate_limited,
)
from watchkeeper.testing.strict import check_conversation

TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
USER = {"role": "user", "content": "hi"}


FIELDS = "model messages role content tool_calls id type function name arguments tools tool_choice tool_call_id stream"
bodies = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["assistant", "tool", "user", "a"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS.split(" ")), inner, max_size=6),
)


def body(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages) or [USER], **fields}


def calling(*ids: str, tool: str = "read", arguments: str = "{}") -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": tool, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "x"}


async def post(server: ChatServer, payload: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=10) as client:
        return await client.post(f"{server.base_url}/chat/completions", json=payload)


def events(response: httpx2.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


class TestCheckRequest:
    @pytest.mark.parametrize(
        "good",
        [
            body(),
            body({"role": "system", "content": "be brief"}, USER),
            body(USER, calling("a", "b"), result("b"), result("a"), tools=[TOOL], tool_choice="auto"),
            body(USER, calling("a"), result("a"), {"role": "assistant", "content": "done"}, USER),
            body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "read"}}),
            body(tools=[TOOL], parallel_tool_calls=False, stream=True, stream_options={"include_usage": True}),
            body({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
        ],
    )
    def test_accepts_what_a_server_accepts(self, good: dict[str, Any]) -> None:
        assert check_request(good) is None

    @pytest.mark.parametrize(
        ("bad", "why"),
        [
            ([], "JSON object"),
            ({"messages": [USER]}, "model"),
            ({"model": "m"}, "messages"),
            ({"model": "m", "messages": []}, "at least one"),
            (body({"role": "robot", "content": "x"}), "role"),
            (body({"role": "user"}), "content is missing"),
            (body({"role": "user", "content": 7}), "content"),
            (body({**USER, "tool_calls": []}), "only assistant"),
            (body(USER, result("a")), "must follow the call"),
            (body(USER, calling("a"), result("b")), "must follow the call"),
            (body(USER, calling("a"), result("a"), result("a")), "must follow the call"),
            (body(USER, calling("a"), USER), "directly after"),
            (body(USER, calling("a", "b"), result("a"), USER, result("b")), "directly after"),
            (body(USER, calling("a")), "no result"),
            (body(USER, calling("a", "a"), result("a")), "comes twice"),
            (body(USER, calling("a"), result("a"), calling("a"), result("a")), "comes twice"),
            (body(USER, {"role": "assistant", "content": ""}, USER), "either content or tool_calls"),
            (body(USER, {"role": "assistant", "content": None}, USER), "either content or tool_calls"),
            (body(USER, {"role": "assistant", "content": "x", "tool_calls": []}, USER), "at least one call"),
            (body(USER, calling("a", arguments="[1]"), result("a")), "arguments"),
            (body(USER, calling("a", arguments='{"a": '), result("a")), "arguments"),
            (body(USER, calling("a", arguments='{"a": NaN}'), result("a")), "arguments"),
            (body(USER, calling("a", arguments='{"a": "\\ud800"}'), result("a")), "arguments"),
            (body(USER, calling("a", arguments="[" * 100_000), result("a")), "arguments"),
            (body(USER, calling(""), result("")), "id must be"),
            (body(USER, calling("a", tool="no such name"), result("a")), "name"),
            (body({"role": "user", "content": "\ud800"}), "surrogate"),
            (body(USER, {"role": "assistant", "content": "hello"}), "ends on an assistant"),
            (body(tool_choice="auto"), "only allowed when 'tools'"),
            (body(parallel_tool_calls=True), "only allowed when 'tools'"),
            (body(tools=[]), "1 to 128"),
            (body(tools=[TOOL, TOOL]), "same name"),
            (body(tools=[{"type": "function"}]), "tools[0]"),
            (body(tools=[{**TOOL, "function": {"name": f"t{i}"}} for i in range(129)]), "1 to 128"),
            (body(tools=[TOOL], tool_choice="sometimes"), "tool_choice"),
            (body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "write"}}), "not among"),
            (body(stream_options={"include_usage": True}), "stream_options"),
        ],
    )
    def test_rejects_what_a_strict_server_rejects(self, bad: Any, why: str) -> None:
        assert why in (check_request(bad) or "accepted")

    def test_a_conversation_of_ours_can_be_checked_too(self) -> None:
        calling = Message("assistant", "", calls=(Call("a", "read", "{}"),))
        whole = (Message("user", "hi"), calling, Message("tool", "x", call_id="a"), Message("assistant", "done"))
        assert check_conversation(whole) is None
        assert "have no result" in (check_conversation(whole[:2]) or "")

    @given(bodies)
    def test_never_raises(self, value: Any) -> None:
        check_request(value)
        check_request({"model": "m", "messages": value, "tools": value, "tool_choice": value})
        check_request({"model": "m", "messages": [USER, value, {"role": "assistant", "tool_calls": value}]})


@pytest.mark.anyio
class TestReplies:
    async def test_a_whole_reply(self) -> None:
        async with ChatServer([CallTools(("read", {"path": "a"}), text="let me see")]) as server:
            whole = (await post(server, body(tools=[TOOL]))).json()
        (choice,) = whole["choices"]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["content"] == "let me see"
        (call,) = choice["message"]["tool_calls"]
        assert call == {
            "id": "call_1_1",
            "type": "function",
            "function": {"name": "read", "arguments": '{"path": "a"}'},
        }
        assert whole["usage"]["total_tokens"] == whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"]

    async def test_a_streamed_reply_comes_in_pieces_and_adds_up(self) -> None:
        arguments = json.dumps({"path": "p" * 100})
        turn = CallTools(("read", arguments), ("read", {}), text="one two three", reasoning="hm, hm, hm")
        async with ChatServer([turn]) as server:
            response = await post(server, body(tools=[TOOL], stream=True, stream_options={"include_usage": True}))
        chunks = events(response)
        deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
        assert "".join(delta.get("content") or "" for delta in deltas) == "one two three"
        assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "hm, hm, hm"
        calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
        assert [call["id"] for call in calls if "id" in call] == ["call_1_1", "call_1_2"]
        first = [call["function"]["arguments"] for call in calls if call["index"] == 0]
        assert "".join(first) == arguments
        assert len(first) > 3
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"]["completion_tokens"] > 0

    async def test_usage_comes_only_if_asked_for_and_can_be_withheld(self) -> None:
        async with ChatServer([Say("a"), Say("b", usage={})]) as server:
            first = await post(server, body(stream=True))
            second = await post(server, body(stream=True, stream_options={"include_usage": True}))
        assert all("usage" not in chunk for chunk in events(first))
        assert events(second)[-1]["usage"] is None

    async def test_each_model_has_a_script_of_its_own(self) -> None:
        async with ChatServer({"a": [Say("from a")], "b": lambda body, n: Say(f"b {n}")}) as server:
            said = [(await post(server, {**body(), "model": name})).json() for name in "abb"]
            missing = await post(server, {**body(), "model": "c"})
            async with httpx2.AsyncClient(trust_env=False) as client:
                models = (await client.get(f"{server.base_url}/models")).json()
        assert [whole["choices"][0]["message"]["content"] for whole in said] == ["from a", "b 1", "b 2"]
        assert missing.status_code == 404
        assert [model["id"] for model in models["data"]] == ["a", "b"]

    async def test_ids_are_unique_over_the_conversation(self) -> None:
        async with ChatServer([CallTools(("read", {}))] * 2) as server:
            replies = [(await post(server, body(tools=[TOOL]))).json() for _ in range(2)]
        assert len({reply["choices"][0]["message"]["tool_calls"][0]["id"] for reply in replies}) == 2

    async def test_a_script_that_is_over_says_so(self) -> None:
        async with ChatServer([]) as server:
            response = await post(server, body())
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "script_ended"

    async def test_the_traps(self) -> None:
        async with ChatServer([call_as_text("read", {"path": "a"}), half_call("write", '{"path": "a", "te')]) as server:
            text = (await post(server, body(tools=[TOOL], tool_choice="none"))).json()["choices"][0]
            half = (await post(server, body(tools=[TOOL]))).json()["choices"][0]
        assert json.loads(text["message"]["content"]) == {"name": "read", "arguments": {"path": "a"}}
        assert half["finish_reason"] == "length"
        assert half["message"]["tool_calls"][0]["function"]["arguments"] == '{"path": "a", "te'

    async def test_raw_pieces_go_out_as_they_are(self) -> None:
        async with ChatServer([Raw(": ping\n\n", "data: {oops\n\n"), Raw()]) as server:
            assert (await post(server, body(stream=True))).text == ": ping\n\ndata: {oops\n\n"
            assert (await post(server, body(stream=True))).text == ""

    async def test_a_failing_script_is_not_swallowed(self) -> None:
        def script(body: Any, n: int) -> Say:
            raise LookupError("scripted wrongly")

        with pytest.raises(ExceptionGroup) as caught:
            async with ChatServer(script) as server:
                await post(server, body())
        assert caught.group_contains(LookupError, match="scripted wrongly")

    async def test_an_error_of_the_test_comes_out_as_it_is(self) -> None:
        with pytest.raises(LookupError, match="mine"):
            async with ChatServer([]):
                raise LookupError("mine")


@pytest.mark.anyio
class TestStrictness:
    async def test_a_bad_request_takes_no_turn(self) -> None:
        async with ChatServer([Say("fine")]) as server:
            bad = await post(server, body(USER, result("nobody")))
            good = await post(server, body())
        assert bad.status_code == 400
        assert "must follow the call" in bad.json()["error"]["message"]
        assert good.status_code == 200
        assert [(r.status, r.rejected is not None) for r in server.requests] == [(400, True), (200, False)]

    async def test_fields_it_does_not_know(self) -> None:
        async with ChatServer([Say("fine")], rejects=["stream_options"]) as server:
            bad = await post(server, body(stream=True, stream_options={}))
            good = await post(server, body(stream=True))
        assert (bad.status_code, bad.json()["error"]["param"]) == (400, "stream_options")
        assert good.status_code == 200

    async def test_a_prompt_that_outgrows_the_window(self) -> None:
        async with ChatServer(lambda body, n: Say("more"), context_window=100) as server:
            assert (await post(server, body())).status_code == 200
            response = await post(server, body({"role": "user", "content": "x" * 1000}))
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "exceed_context_size_error"

    async def test_what_is_not_json_or_not_there(self) -> None:
        async with ChatServer([]) as server, httpx2.AsyncClient(trust_env=False) as client:
            assert (await client.post(f"{server.base_url}/chat/completions", content=b"{oops")).status_code == 400
            assert (await client.get(f"{server.base_url}/chat/completions")).status_code == 405
            assert (await client.get(f"{server.base_url}/elsewhere")).status_code == 404

    async def test_a_head_without_end_is_cut_short(self) -> None:
        async with ChatServer([]) as server:
            port = int(server.base_url.rsplit(":", 1)[1].split("/")[0])
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                with anyio.fail_after(10):
                    await stream.send(b"POST / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000)
                    assert b" 400 " in await stream.receive()


@pytest.mark.anyio
class TestFaults:
    @pytest.mark.parametrize(
        ("fault", "status", "code"),
        [
            (Fault(), 429, None),
            (Fault(503), 503, None),
            (no_quota(), 429, "insufficient_quota"),
            (context_overflow(9000, 4096), 400, 400),
        ],
    )
    async def test_an_error_status(self, fault: Fault, status: int, code: Any) -> None:
        async with ChatServer([fault]) as server:
            response = await post(server, body(stream=True))
        assert response.status_code == status
        assert response.json()["error"]["code"] == code
        assert server.requests[0].status == status

    async def test_headers_and_bodies_as_given(self) -> None:
        async with ChatServer([rate_limited(7), Fault(502, {"Date": "today"}, "<h1>bad gateway</h1>")]) as server:
            limited, gateway = [await post(server, body()) for _ in range(2)]
        assert limited.headers["retry-after"] == "7"
        assert (gateway.text, gateway.headers.get_list("date")) == ("<h1>bad gateway</h1>", ["today"])

    @pytest.mark.parametrize(
        ("drop", "chunks"),
        [
            (Drop(), 0),
            (Drop(after_chunks=3), 3),
            (Drop(after_chunks=3, reset=False), 3),
            (Drop(after_text="so far"), 2),
        ],
    )
    async def test_a_connection_that_breaks(self, drop: Drop, chunks: int) -> None:
        async with ChatServer([drop]) as server:
            with pytest.raises(httpx2.TransportError):
                await post(server, body(stream=True))
            received = await server.arrived(1)
            await received.done.wait()
        assert received.chunks == chunks
        assert not received.complete
        assert not received.closed_by_peer

    @pytest.mark.parametrize("stream", [True, False])
    async def test_a_break_before_the_status_line_is_one_for_whole_replies_too(self, stream: bool) -> None:
        async with ChatServer([Drop()]) as server:
            with pytest.raises(httpx2.TransportError):
                await post(server, body(stream=stream))


@pytest.mark.anyio
class TestWhatItSeesOfItsClient:
    @pytest.mark.parametrize("turn", [Stall(), Stall(after_chunks=2), Slow(Say("never said"), 1000)])
    @pytest.mark.parametrize("stream", [True, False])
    async def test_a_client_that_leaves(self, turn: Any, stream: bool) -> None:
        async with ChatServer([turn]) as server:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(post, server, body(stream=stream))
                received = await server.arrived(1)
                left = anyio.current_time()
                tasks.cancel_scope.cancel()
            with anyio.fail_after(5):
                await received.done.wait()
        assert received.closed_by_peer
        assert received.closed_at is not None
        assert received.at <= left <= received.closed_at

    async def test_a_client_that_stays_is_not_said_to_leave(self) -> None:
        async with ChatServer([Say("hello")] * 3) as server:
            async with httpx2.AsyncClient(trust_env=False) as client:
                for stream in (True, False, True):
                    await client.post(f"{server.base_url}/chat/completions", json=body(stream=stream))
            assert [(r.complete, r.closed_by_peer, r.connection) for r in server.requests] == [(True, False, 1)] * 3
            assert server.connections == 1

    async def test_leaving_the_server_ends_stalled_replies(self) -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(5):
                async with ChatServer([Stall()]) as server:
                    tasks.start_soon(_broken, server)
                    await server.arrived(1)


async def _broken(server: ChatServer) -> None:
    with pytest.raises(httpx2.TransportError):
        await post(server, body(stream=True))
