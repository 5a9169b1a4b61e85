"""A planted secret is in nothing that a run sends, writes, streams or gives back; tools alone get it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from support import facts, of, scripted, supervised
from watchkeeper import (
    Agent,
    Bundle,
    Call,
    Effect,
    Judge,
    Message,
    Ruling,
    ToolError,
    ToolOutput,
    Verifier,
    encode_event,
    tool,
)
from watchkeeper.messages import CallEnded, CallStarted, ModelReplied, ModelStreamed, OpinionGiven
from watchkeeper.model import CallDelta, Finished, ModelError, Request, TextDelta
from watchkeeper.redaction import MARK, Redaction
from watchkeeper.testing import call, fail, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECRET = "canary-7f3a91c2d8"
REDACTION = Redaction([SECRET])
WORDS = " ".join(f"word{n * 7919 % 10007}" for n in range(120))


class Recording:
    """A scripted model that keeps every request."""

    def __init__(self, *steps: Any) -> None:
        self._model = scripted(*steps)
        self.name = "recording"
        self.requests: list[Request] = []

    def stream(self, request: Request) -> Any:
        self.requests.append(request)
        return self._model.stream(request)


async def everything(agent: Agent, task: str, **settings: Any) -> tuple[str, Any, list[Any]]:
    """All that can be seen of a run, as one text; the outcome; the facts."""
    deltas: list[str] = []
    names: list[str] = []
    snapshots: list[str] = []
    async with supervised(keep=100_000, redaction=REDACTION) as supervisor:
        run = await supervisor.start(agent, task, **settings)

        async def follow() -> None:
            async for delta in run.deltas():
                deltas.append(delta.text if isinstance(delta, TextDelta) else delta.arguments)
                names.append(repr(delta))
                snapshots.append(json.dumps(run.snapshot(), default=str))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            outcome = await run.wait()
        events = await facts(run)
        snapshots.append(json.dumps(run.snapshot(), default=str))
    seen = [*(encode_event(event).decode() for event in events), "".join(deltas), *snapshots, repr(outcome), repr(run)]
    seen += names
    return "\n".join(seen), outcome, events


async def test_secr_01_in_arguments_results_failures_task_instructions_and_history() -> None:
    used: list[str] = []

    @tool
    async def connect(password: str, retries: int = 0) -> str:
        """Connect; the canary is canary-7f3a91c2d8."""
        used.append(password)
        return f"connected with {password}, {'x' * 30_000} {password} {'y' * 30_000}"

    @tool
    async def fail(n: int) -> str:
        failure = RuntimeError(f"GET https://x.example/?key={SECRET}0123456789")
        failure.add_note(f"with {SECRET}")
        raise ExceptionGroup("several", [failure, ToolError(f"\x1b[31m{SECRET}")])

    model = Recording(
        call(("connect", {"password": SECRET}), ("connect", {"password": SECRET, "retries": "no"}), ("fail", {"n": 1})),
        call(
            (SECRET, "{}"),
            ("fail", '{"n": 2}'),
            ("connect", {"password": "p" * 1995 + SECRET}),
            text=f"I try {SECRET}.",
        ),
        say(f"The password is {SECRET}."),
    )
    agent = Agent(model, [connect, fail], name="a", instructions=f"Use {SECRET}.")
    history = (
        Message("user", f"earlier {SECRET}"),
        Message("assistant", "", calls=(Call("c1", "connect", f'{{"password": "{SECRET}"}}', 1),)),
        Message("tool", SECRET, call_id="c1", tool="connect"),
    )
    seen, outcome, events = await everything(agent, f"Log in with {SECRET}", history=history)
    assert outcome.status == "completed"
    assert used[0] == SECRET  # what the model wrote is what the tool gets
    assert outcome.answer == f"The password is {MARK}."
    assert SECRET not in seen
    assert SECRET not in repr(model.requests)
    assert SECRET[:9] not in seen + repr(model.requests)  # nor a part of it, where a text was cut
    first = next(event.result for event in of(events, CallEnded) if event.result.kind == "finished")
    assert first.content.startswith(f"connected with {MARK}")
    assert len(of(events, CallStarted)) == 4


async def test_secr_02_in_what_a_model_raises_and_what_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    class Broken:
        name = "broken"

        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[Any]:
            raise ModelError("bad_request", f"no such model; you sent Authorization: Bearer {SECRET}")
            yield

    seen, outcome, _ = await everything(Agent(Broken(), []), "x")
    assert outcome.status == "failed"
    assert MARK in outcome.message
    assert SECRET not in seen

    class Crashing(Broken):
        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[Any]:
            raise BaseException(f"crash {SECRET}")
            yield

    seen, outcome, _ = await everything(Agent(Crashing(), []), "x")
    assert (outcome.status, outcome.reason) == ("failed", "crash")
    assert outcome.cause is not None
    assert MARK in outcome.cause
    captured = capfd.readouterr()
    assert SECRET not in seen + captured.out + captured.err
    assert MARK in captured.err  # it was reported, without it


class Trickling:
    """Streams a text and a call in small pieces."""

    name = "trickling"

    def __init__(self, size: int) -> None:
        self._size = size
        self._turn = 0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        self._turn += 1
        yield self._chunks(self._turn)

    async def _chunks(self, turn: int) -> AsyncIterator[Any]:
        def pieces(text: str) -> list[str]:
            return [text[n : n + self._size] for n in range(0, len(text), self._size)]

        for channel in ("reasoning", "content"):
            for piece in pieces(f"{channel} {WORDS} {SECRET} and sk-ant-api03-{'aB3d' * 10} end"):
                yield TextDelta(piece, channel)  # type: ignore[arg-type]
        if turn == 1:
            yield CallDelta(0, "c1", "take")
            for piece in pieces(json.dumps({"what": SECRET})):
                yield CallDelta(0, arguments=piece)
        yield Finished("tool_calls" if turn == 1 else "stop")


@pytest.mark.parametrize("size", [1, 3, 7, 50, 397])
async def test_in_streams_in_whatever_pieces(size: int) -> None:
    used: list[str] = []

    @tool
    async def take(what: str) -> str:
        used.append(what)
        return what

    seen, outcome, events = await everything(Agent(Trickling(size), [take]), "x")
    assert used == [SECRET]
    assert SECRET not in seen
    assert "aB3d" not in seen
    text = f"content {WORDS} {MARK} and {MARK} end"
    assert outcome.answer == text
    streamed = "".join(event.text for event in events if type(event).__name__ == "ModelStreamed")
    assert streamed.count(MARK) == 2 * 4 + 1
    assert [event.text for event in of(events, ModelReplied)] == [text] * 2


async def test_calls_that_differ_in_secrets_alone_are_not_one() -> None:
    """Neither shares a result nor stands in for the other."""
    asked: list[str] = []

    @tool(effect="reads", stable=True)
    async def look(token: str) -> str:
        asked.append(token)
        return token[-1]

    first, second = f"ghp_{'a' * 35}1", f"ghp_{'a' * 35}2"
    model = scripted(
        call(("look", {"token": first}), ("look", {"token": second})), call(("look", {"token": first})), say("Done.")
    )
    _, outcome, events = await everything(Agent(model, [look]), "x")
    assert sorted(asked) == [first, second]
    assert outcome.status == "completed"
    assert [event.result.reused_from is not None for event in of(events, CallEnded)] == [False, False, True]


async def test_a_model_that_names_its_secrets() -> None:
    model: Any = Recording(say("my key is key-of-the-model"))
    model.secrets = ("key-of-the-model",)
    _, outcome, _ = await everything(Agent(model, []), "x")
    assert outcome.answer == f"my key is {MARK}"


class Cut:
    """Streams a text and arguments that end in the middle of a secret."""

    name = "cut"

    def __init__(self, part: str, finish: str | None, size: int) -> None:
        self._part, self._finish, self._size = part, finish, size

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        yield self._chunks()

    async def _chunks(self) -> AsyncIterator[Any]:
        for text, make in (
            (f"It is {self._part}", TextDelta),
            (f"So {self._part}", lambda piece: TextDelta(piece, "reasoning")),
            (f'{{"what": "{self._part}', lambda piece: CallDelta(0, arguments=piece)),
        ):
            for n in range(0, len(text), self._size):
                yield make(text[n : n + self._size])
        if self._finish is not None:
            yield Finished(self._finish)


@pytest.mark.parametrize("finish", ["stop", "length", None])
@pytest.mark.parametrize("size", [1, 5, 400])
async def test_a_stream_that_ends_in_the_middle_of_a_secret(finish: str | None, size: int) -> None:
    part = SECRET[:-4]
    seen, _, events = await everything(Agent(Cut(part, finish, size), []), "x")
    assert part not in seen
    assert SECRET[:9] not in seen
    streamed = "".join(event.text for event in of(events, ModelStreamed) if event.channel == "content")
    assert streamed.startswith(f"It is {MARK}")  # what was held back is told at the end


@pytest.mark.parametrize("size", [1, 5, 400])
async def test_a_stream_that_breaks_in_the_middle_of_a_secret(size: int) -> None:
    class Breaking(Cut):
        async def _chunks(self) -> AsyncIterator[Any]:
            async for chunk in super()._chunks():
                yield chunk
            raise ModelError("bad_request", f"cut off at {SECRET}")

    seen, outcome, _ = await everything(Agent(Breaking(SECRET[:-4], None, size), []), "x")
    assert outcome.status == "failed"
    assert SECRET[:9] not in seen


async def test_in_names_and_ids_of_calls_and_where_they_are_cut() -> None:
    """A name that is too long, arguments that do not fit, an id, a finish reason: cut after they were redacted."""

    class Odd(Trickling):
        async def _chunks(self, turn: int) -> AsyncIterator[Any]:
            if turn > 1:
                yield TextDelta("Done.")
                yield Finished("stop")
                return
            yield CallDelta(0, f"id-{SECRET}", "take", json.dumps({"what": 1, SECRET: "x" * 790 + SECRET}))
            yield CallDelta(1, "c1", SECRET[:5])
            yield CallDelta(1, tool=SECRET[5:], arguments="{}")
            yield CallDelta(2, "c2", "n" * 75 + SECRET, "{}")
            yield CallDelta(3, "c3", "n" * 195 + SECRET, '{"a": "' + "y" * 1990 + SECRET + '"}')
            yield CallDelta(4, "c4", "take", '{"what": "' + SECRET)
            yield Finished("tool_calls")

    @tool
    async def take(what: str) -> str:
        return what

    seen, outcome, events = await everything(Agent(Odd(1), [take]), "x")
    assert outcome.status == "completed"
    assert SECRET[:9] not in seen
    ends = sorted(of(events, CallEnded), key=lambda event: event.slot)
    assert [event.result.error for event in ends] == ["bad_arguments", *["unknown_tool"] * 3, "bad_arguments"]
    assert MARK in ends[0].result.content
    assert f"no tool named '{MARK}'" in ends[1].result.content


async def test_in_names_of_errors_resources_and_reasons() -> None:
    @tool(effect=lambda n: Effect(reads=(f"shared:{SECRET}",)))
    async def fail(n: int) -> str:
        raise type(f"E{SECRET}", (Exception,), {})("x")

    @tool
    async def declare() -> ToolOutput:
        return ToolOutput("x", error=f"code {SECRET}")

    model = scripted(call(("fail", {"n": 1}), ("declare", {})), say("Done."))
    agent = Agent(model, [fail, declare])
    seen, outcome, _ = await everything(agent, "x")
    assert outcome.status == "completed"
    assert SECRET not in seen

    class Waiting(Recording):
        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[Any]:
            run.cancel(f"because of {SECRET}")
            await anyio.sleep_forever()
            yield

    async with supervised(redaction=REDACTION) as supervisor:
        run = await supervisor.start(Agent(Waiting(), []), "x")
        outcome = await run.wait()
        assert outcome.reason == f"because of {MARK}"
        assert SECRET not in repr(outcome) + repr(await facts(run))


ESCAPED = "".join(f"\\u{ord(character):04x}" for character in SECRET)


async def test_written_in_escapes_of_json_that_a_report_decodes() -> None:
    """Arguments, a plan and an answer: whoever shows them decodes them first."""

    @tool
    async def take(what: str) -> str:
        return "ok"

    for pieces in (0, 1, 7):
        steps = '{"steps": [{"goal": "' + "g" * 292 + ESCAPED + '"}, {"goal": "use ' + ESCAPED + '"}]}'
        model = scripted(
            say(steps),
            call(("take", '{"what": "' + ESCAPED + '"}')),
            *[say(f'{{"x": "{ESCAPED}"}}')] * 3,
            pieces=pieces,
        )
        seen, outcome, events = await everything(Agent(model, [take], plan=True), "x")
        assert outcome.status == "completed"
        assert MARK in of(events, CallEnded)[0].arguments
        async with supervised(keep=10_000, redaction=REDACTION) as supervisor:
            script = call(("take", '{"what": "' + ESCAPED + '"}'))
            run = await supervisor.start(Agent(scripted(script, say("Done."), pieces=pieces), [take]), "x")
            await run.wait()
            bundle = Bundle.of(run)
        seen += bundle.markdown() + bundle.html() + repr(bundle.report)
        assert SECRET[:8] not in seen


SECONDS_SAY = {
    "verifier": '{"accepted": false, "why": "%s", "unsupported": ["x"]}',
    "judge": '{"decision": "refuse", "why": "%s", "instead": "%s"}',
}


@pytest.mark.parametrize("place", [492, 484])
@pytest.mark.parametrize("secret", [SECRET, ESCAPED])
@pytest.mark.parametrize("by", SECONDS_SAY)
async def test_in_what_second_models_say_where_it_is_cut(by: str, secret: str, place: int) -> None:
    @tool
    async def take(what: str) -> str:
        return "ok"

    told = "w" * place + secret
    model = scripted(*[say(SECONDS_SAY[by].replace("%s", told))] * 3, name="second")
    second: dict[str, Any] = (
        {"verifier": Verifier(model)} if by == "verifier" else {"judge": Judge(model, every_turn=True)}
    )
    seen, _, events = await everything(
        Agent(scripted(call(("take", {"what": "a"})), *[say("Done.")] * 3), [take], **second), "x"
    )
    assert of(events, OpinionGiven)
    assert SECRET[:8] not in seen + repr(model.requests)


async def test_in_what_second_models_say_in_no_form_and_how_they_fail() -> None:
    for step in (say(f"I say {SECRET}"), fail("bad_request", "e" * 466 + SECRET)):
        model = scripted(*[step] * 2, name="second")
        seen, _, _ = await everything(Agent(scripted(say("Done.")), verifier=Verifier(model)), "x")
        assert SECRET[:8] not in seen + repr(model.requests)


async def test_in_what_code_of_the_host_says_where_it_is_cut() -> None:
    """A validator, a judge that is a rule, an approver and a person who denies."""
    told = "w" * 490 + SECRET

    @tool(irreversible=True)
    async def pay(to: str) -> str:
        return "ok"

    def valid(text: str) -> str | None:
        return told

    seen, _, _ = await everything(Agent(scripted(*[say("a")] * 3), validators=[valid]), "x")
    judge = Judge(rule=lambda question: Ruling("refuse", told, instead=told), every_turn=True)
    pays = call(("pay", {"to": SECRET}))
    seen += (await everything(Agent(scripted(pays, say("a")), [pay], judge=judge), "x"))[0]
    async with supervised(
        keep=10_000, redaction=REDACTION, approver=lambda approval: approval.deny(told)
    ) as supervisor:
        run = await supervisor.start(Agent(scripted(pays, say("a")), [pay]), "x")
        seen += repr(await run.wait()) + repr(await facts(run))
    assert "denied" in seen
    assert SECRET[:8] not in seen
