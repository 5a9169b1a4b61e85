"""A recorded run plays back to the same events, byte for byte, on either event loop; what differs is told."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from support import BARE
from watchkeeper import Agent, Limits, Outcome, Run, Supervisor, ToolError, ToolOutput, Transient, encode_event, tool
from watchkeeper.cassette import Fault, MockedTools, Player, Recorder, forbidden_sockets
from watchkeeper.cassette.recorder import ALL, Taken
from watchkeeper.cassette.tape import read
from watchkeeper.errors import CassetteError, CassetteMiss, ConfigurationError, SocketForbidden
from watchkeeper.messages import Event, LoopBlocked, RunEnded, RunEnding
from watchkeeper.redaction import Redaction
from watchkeeper.retry import RetryPolicy
from watchkeeper.seams import Seams
from watchkeeper.testing import BACKENDS, ScriptedModel, VirtualSeams, backend, call, fail, say

SECRET = "xyzzy-planted-secret-42"
ran: list[str] = []
"""What tools really did."""


@tool(effect="reads")
async def look(place: str, seconds: float = 0.0) -> str:
    """Look somewhere."""
    ran.append(f"look {place}")
    if seconds:
        await anyio.sleep(seconds)
    return f"seen {place}"


@tool(effect="reads")
def count(n: int) -> object:
    """Count in a thread."""
    ran.append(f"count {n}")
    time.sleep(0.002 * (n % 3))
    if n == 2:
        raise ValueError("two is no number\nand more")
    return "x" * 40_000 if n == 1 else {"n": n} if n == 3 else ToolOutput(None, error="none")


@tool(effect="reads")
async def refuse() -> str:
    """Fail for the model to read."""
    raise ToolError("not here", hint="go elsewhere")


@tool(effect="reads")
async def flaky() -> str:
    """Fail twice."""
    ran.append("flaky")
    if ran.count("flaky") % 3:
        raise Transient("later")
    return "now"


@tool(effect="reads", timeout=1.5)  # far behind what the others take, on a busy machine too
async def hang() -> None:
    """Never end."""
    await anyio.sleep_forever()


def busy() -> Agent:
    """Two turns of many calls, a retry of the model, sub-agents side by side, a long answer."""
    one = Agent(ScriptedModel([call(("look", {"place": "a", "seconds": 0.03})), say("one")]), [look], name="one")
    two = Agent(
        ScriptedModel([call(("look", {"place": "b"}), ("look", {"place": "c"})), say("two")]), [look], name="two"
    )
    calls: list[tuple[str, Any]] = [("look", {"place": str(n), "seconds": 0.05 - n / 100}) for n in range(3)]
    calls += [("count", {"n": n}) for n in range(1, 5)]
    calls += [("refuse", {}), ("flaky", {}), ("hang", {}), ("unknown", {}), ("look", "{oops")]
    model = ScriptedModel(
        [
            call(*calls, text="I look."),
            fail("server", retry_after=0.3),
            call(("one", {"task": "x"}), ("two", {"task": "y"})),
            say(" ".join(f"word{n}" for n in range(200)), delay=0.02),
        ],
        pieces=9,
    )
    tools = [look, count, refuse, flaky, hang, one.as_tool(), two.as_tool()]
    return Agent(model, tools, retry=RetryPolicy(first=0.1))


Host = Callable[[Run], Any]


async def perform(seams: Seams, agent: Agent, host: Host | None = None) -> tuple[Outcome, list[bytes]]:
    async with Supervisor(seams=seams, plugged=False, keep=100_000) as supervisor:
        run = await supervisor.start(agent, "Do it.")
        if host is not None:
            await host(run)
        outcome = await run.wait()
        return outcome, [encode_event(event) async for event in run.events() if isinstance(event, Event)]


def perform_on(
    name: str, seams: Seams, agent: Agent, host: Host | None = None, *, virtual: bool = True
) -> tuple[Outcome, list[bytes]]:
    where, options = backend(name) if virtual else (name, {})
    return anyio.run(perform, seams, agent, host, backend=where, backend_options=options)


def record(path: Path, name: str, agent: Agent, host: Host | None = None) -> tuple[Outcome, list[bytes]]:
    """In real time, as it will be done."""
    ran.clear()
    with Recorder(path) as seams:
        return perform_on(name, seams, agent, host, virtual=False)


def scripted(*steps: Any, tools: Any = (look,), **settings: Any) -> Agent:
    return Agent(ScriptedModel(steps), tools, **settings)


SIMPLE = (call(("look", {"place": "a"})), say("Done."))


@pytest.fixture
def simple(tmp_path: Path) -> Path:
    record(tmp_path / "simple", "asyncio", scripted(*SIMPLE))
    return tmp_path / "simple"


@pytest.mark.parametrize("recorded_on", BACKENDS)
def test_a_run_plays_back_to_the_same_events(recorded_on: str, tmp_path: Path) -> None:
    outcome, events = record(tmp_path / "a", recorded_on, busy())
    assert outcome.status == "completed"
    assert {record.kind for record in outcome.calls} >= {"finished", "failed", "timed_out", "refused"}
    ran.clear()
    for played_on in BACKENDS:
        player = Player(tmp_path / "a")
        with forbidden_sockets():
            again = perform_on(played_on, player, busy())
        player.check()
        assert again == (outcome, events)
    assert ran == []


@pytest.mark.parametrize("played_on", BACKENDS)
def test_a_rate_limit_is_waited_out_as_it_was(played_on: str, tmp_path: Path) -> None:
    steps = (fail("rate_limited", retry_after=0.2), *SIMPLE)
    recorded = record(tmp_path / "a", "asyncio", scripted(*steps))
    assert recorded[0].seconds > 0.2
    player = Player(tmp_path / "a")
    assert perform_on(played_on, player, scripted(*steps)) == recorded
    player.check()


@pytest.mark.parametrize("played_on", BACKENDS)
def test_it_does_so_in_real_time_too(played_on: str, tmp_path: Path) -> None:
    outcome, events = record(tmp_path / "a", "asyncio", scripted(*SIMPLE, tools=(look, count)))
    player = Player(tmp_path / "a")
    assert perform_on(played_on, player, scripted(*SIMPLE, tools=(look, count)), virtual=False) == (outcome, events)
    player.check()


@pytest.mark.parametrize("played_on", BACKENDS)
def test_what_was_recorded_in_virtual_time_is_played_without_waiting(played_on: str, tmp_path: Path) -> None:
    steps = (call(("look", {"place": "a", "seconds": 50.0})), say("Done.", delay=80.0))
    with Recorder(tmp_path / "a", seams=VirtualSeams()) as seams:
        recorded = perform_on("asyncio", seams, scripted(*steps))
    assert recorded[0].seconds > 129
    began = time.monotonic()
    assert perform_on(played_on, Player(tmp_path / "a"), scripted(*steps)) == recorded
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("played_on", BACKENDS)
def test_eight_sub_agents_draw_from_one_limit_in_the_recorded_order(played_on: str, tmp_path: Path) -> None:
    def agent() -> Agent:
        subs = [scripted(*SIMPLE, name=f"sub{n}") for n in range(8)]
        model = ScriptedModel([call(*((sub.name, {"task": "x"}) for sub in subs)), say("Done.")])
        return Agent(model, [sub.as_tool() for sub in subs], limits=Limits(max_turns=12, finish_turns=0))

    recorded = record(tmp_path / "a", "trio", agent())
    player = Player(tmp_path / "a")
    assert perform_on(played_on, player, agent()) == recorded
    player.check()


class Blocking:
    """A loop that is blocked behind each third fact of each run."""

    def __init__(self, run: Run) -> None:
        self._log = run.log
        self.folds = dict.fromkeys(ALL, self._fact)

    def _fact(self, event: Event) -> None:
        if event.n % 3 == 2 and not isinstance(event, RunEnding | RunEnded):
            self._log.append(LoopBlocked, seconds=0.5, frame="somewhere.py:1 in work")


@pytest.mark.parametrize("played_on", BACKENDS)
def test_a_blocked_loop_is_told_where_it_was(played_on: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before a run has asked its model for the first time, when nothing else of the order may come."""
    follow = Taken.follow

    def blocked(taken: Taken, run: Run) -> None:
        follow(taken, run)
        run.log.attach(Blocking(run))

    monkeypatch.setattr(Taken, "follow", blocked)
    outcome, events = record(tmp_path / "a", "trio", busy())
    assert sum(b'"type":"loop_blocked"' in event for event in events) > 10
    player = Player(tmp_path / "a")
    assert perform_on(played_on, player, busy()) == (outcome, events)
    player.check()


@pytest.mark.parametrize("played_on", BACKENDS)
def test_what_the_host_did_is_played(played_on: str, tmp_path: Path) -> None:
    async def host(run: Run) -> None:
        while run.ledger.ended < 1:
            await anyio.sleep(0.005)
        while run.log.turn < 2:
            await anyio.sleep(0.005)
        await anyio.sleep(0.02)
        run.steer("Look at b, too.")
        run.pause("a break")
        await anyio.sleep(0.02)
        run.resume("on we go")

    steps = (call(("look", {"place": "a", "seconds": 0.02})), say("Done.", delay=0.2), say("Done again."))
    recorded = record(tmp_path / "a", "asyncio", scripted(*steps), host)
    assert any(b'"source":"steer"' in event for event in recorded[1])
    player = Player(tmp_path / "a")
    assert perform_on(played_on, player, scripted(*steps)) == recorded
    player.check()


@pytest.mark.parametrize("played_on", BACKENDS)
def test_a_cancelled_run_is_played(played_on: str, tmp_path: Path) -> None:
    async def host(run: Run) -> None:
        await anyio.sleep(0.1)
        run.cancel("enough")

    steps = (call(("look", {"place": "a", "seconds": 100.0}), ("look", {"place": "b"})), say("never"))
    recorded = record(tmp_path / "a", "asyncio", scripted(*steps), host)
    assert (recorded[0].status, recorded[0].reason) == ("cancelled", "enough")
    player = Player(tmp_path / "a")
    assert perform_on(played_on, player, scripted(*steps)) == recorded
    player.check()
    # A program that cancels it itself, as it did then, does not do so twice.
    assert perform_on(played_on, Player(tmp_path / "a"), scripted(*steps), host) == recorded


# -- what is not as recorded -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("played_on", BACKENDS)
def test_another_request_is_missed_with_the_difference(played_on: str, tmp_path: Path) -> None:
    simple = tmp_path / "simple"
    record(simple, "asyncio", scripted(*SIMPLE, profile=BARE))
    player = Player(simple)
    outcome, events = perform_on(played_on, player, scripted(*SIMPLE, instructions="Be brief.", profile=BARE))
    assert outcome.status == "failed"
    times = [json.loads(event)["t"] for event in events]
    assert times == sorted(times)
    with pytest.raises(CassetteMiss, match="the model was not asked this") as missed:
        player.check()
    assert '+   "content": "Be brief.' in missed.value.difference


@pytest.mark.parametrize("played_on", BACKENDS)
def test_a_fact_that_differs_ends_the_run_and_is_told(played_on: str, simple: Path) -> None:
    player = Player(simple)
    outcome, _ = perform_on(played_on, player, scripted(*SIMPLE, limits=Limits(max_turns=7)))
    assert outcome.status == "failed"
    with pytest.raises(CassetteMiss, match=r"fact 1 \(run_started\)") as missed:
        player.check()
    assert '+  "turns": 7.0' in missed.value.difference or '"turns"' in missed.value.difference


def test_a_changed_recording_is_told(simple: Path) -> None:
    simple.write_text(simple.read_text("utf-8").replace("seen a", "seen z", 1))
    player = Player(simple)
    perform_on("asyncio", player, scripted(*SIMPLE))
    with pytest.raises(CassetteMiss, match="seen"):
        player.check()


def test_a_run_too_many_is_missed(simple: Path) -> None:
    async def twice() -> None:
        async with Supervisor(seams=Player(simple), plugged=False) as supervisor:
            await (await supervisor.start(scripted(*SIMPLE), "Do it.")).wait()
            with pytest.raises(CassetteMiss, match="one more is started than when it was recorded"):
                await supervisor.start(scripted(*SIMPLE), "Do it.")

    where, options = backend("asyncio")
    anyio.run(twice, backend=where, backend_options=options)


def test_recordings_are_chosen_by_task_or_number(simple: Path) -> None:
    with Recorder(simple, adding="add") as seams:
        perform_on("asyncio", seams, scripted(say("Second.")), virtual=False)
    assert len(read(simple).of("run")) == 2
    second = Player(simple, take=2)
    assert perform_on("trio", second, scripted(say("x")))[0].answer == "Second."
    assert perform_on("trio", Player(simple, task="Do it."), scripted(*SIMPLE))[0].answer == "Done."
    with pytest.raises(CassetteError, match=r"holds no run with the task 'Other'; it holds 'Do it\.'"):
        Player(simple, task="Other")
    with pytest.raises(CassetteError, match="holds 2 recordings of runs, and no number 3"):
        Player(simple, take=3)
    with pytest.raises(ConfigurationError, match="'played' or 'real'"):
        Player(simple, tools="mocked")  # type: ignore[arg-type]


# -- tools, faults, secrets --------------------------------------------------------------------------------------------


def test_tools_may_be_run_for_real(simple: Path) -> None:
    ran.clear()
    player = Player(simple, tools="real")
    assert perform_on("trio", player, scripted(*SIMPLE))[0].answer == "Done."
    assert ran == ["look a"]
    player.check()


@pytest.mark.parametrize("name", BACKENDS)
def test_mocked_tools_give_what_was_recorded_by_occurrence(name: str, tmp_path: Path) -> None:
    @tool(effect="reads")
    async def next_number() -> str:
        """A number."""
        ran.append("n")
        return str(len(ran))

    def agent(tools: Any) -> Agent:
        step = call(("next_number", {}))
        return Agent(ScriptedModel([step, step, call(("look", {"place": "z"})), say("Done.")]), tools)

    recorded, _ = record(tmp_path / "a", name, agent([next_number, look]))
    ran.clear()
    mocked = MockedTools(tmp_path / "a")
    outcome, _ = perform_on(name, VirtualSeams(), agent(mocked.of([next_number, look])))
    results = [message.content for message in outcome.history if message.role == "tool"]
    assert results == [message.content for message in recorded.history if message.role == "tool"]
    assert ran == mocked.missed == []
    outcome, _ = perform_on(
        name, VirtualSeams(), scripted(call(("look", {"place": "q"})), say("x"), tools=mocked.of([look]))
    )
    assert "no call of look with these arguments was recorded" in mocked.missed[0]
    assert '- "place": "z"' in mocked.missed[0]
    assert [one.kind for one in outcome.calls] == ["failed"]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("kind", ["rate_limited", "server_error", "cut", "malformed", "loss", "stall"])
def test_a_run_gets_over_a_fault(name: str, kind: Any, simple: Path) -> None:
    player = Player(simple, faults=[Fault(kind=kind, at=2, retry_after=9)])
    outcome, events = perform_on(name, player, scripted(*SIMPLE))
    assert outcome.answer == "Done."
    assert sum(b'"model_retried"' in event for event in events) == 1
    player.check()


@pytest.mark.parametrize("name", BACKENDS)
def test_no_secret_enters_a_recorded_run(name: str, tmp_path: Path) -> None:
    @tool(effect="reads")
    async def leak(what: str) -> str:
        """Say it."""
        return f"the secret is {SECRET}"

    def agent() -> Agent:
        steps = [call(("leak", {"what": SECRET}), text=f"I say {SECRET}.", reasoning=SECRET), say(f"It is {SECRET}.")]
        return Agent(ScriptedModel(steps, pieces=3), [leak], instructions=f"Never say {SECRET}.")

    async def recorded() -> Outcome:
        with Recorder(tmp_path / "a") as seams:
            async with Supervisor(seams=seams, plugged=False, redaction=Redaction([SECRET])) as supervisor:
                return await (await supervisor.start(agent(), f"Guess {SECRET}.")).wait()

    outcome = anyio.run(recorded, backend=name)
    assert outcome.status == "completed"
    text = (tmp_path / "a").read_text("utf-8")
    assert SECRET not in text
    assert SECRET[:10] not in text
    assert "[redacted]" in text


# -- no socket ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BACKENDS)
def test_no_socket_is_to_be_had(name: str) -> None:
    async def connect() -> BaseException:
        with pytest.raises(OSError) as failed:
            await anyio.connect_tcp("127.0.0.1", 9)
        return failed.value.__cause__ or failed.value

    async def both() -> tuple[BaseException, BaseException]:
        with forbidden_sockets():
            within = await connect()
        return within, await connect()

    within, after = anyio.run(both, backend=name)
    assert isinstance(within, SocketForbidden)
    assert "nothing may reach a network" in str(within)
    assert not isinstance(after, SocketForbidden)  # refused by nobody but the machine


def test_names_are_not_looked_up_and_nobody_listens() -> None:
    with forbidden_sockets():
        with pytest.raises(SocketForbidden):
            socket.getaddrinfo("localhost", 80)
        with pytest.raises(OSError, match="while attempting to bind"):
            socket.create_server(("127.0.0.1", 0))


def test_a_supervisor_that_neither_records_nor_plays_has_its_agent_as_it_is() -> None:
    agent = scripted(say("x"))

    async def main() -> None:
        async with Supervisor(plugged=False) as supervisor:
            run = await supervisor.start(agent, "Do it.")
            assert run.agent is agent
            assert run.seams is supervisor.seams
            await run.wait()

    anyio.run(main)


def changed(path: Path, kind: str, **fields: Any) -> Path:
    """The cassette with other fields in the first line of a type, which stands there twice if none is named."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    place = next(n for n, line in enumerate(lines) if line["type"] == kind)
    if fields:
        lines[place] |= fields
    else:
        lines.insert(place, lines[place])
    other = path.with_name("changed")
    other.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return other


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("began", {}),
        ("piece", {"i": 0}),
        ("tool", {"i": -1}),
        ("drawn", {"what": "wall", "value": ""}),
        ("run", {"about": {"timeouts": {"idle": None}}}),
        ("fact", {"event": {"type": "call_ended", "result": True}}),
    ],
)
def test_a_recording_that_holds_what_none_holds_is_refused_at_once(
    kind: str, fields: dict[str, Any], simple: Path
) -> None:
    """Inputs whose turn never comes were waited for without end; others broke out as they came."""
    path = changed(simple, kind, **fields)
    with pytest.raises(CassetteError, match="changed does not hold what a recording of a run holds"):
        perform_on("asyncio", Player(path), scripted(*SIMPLE))
