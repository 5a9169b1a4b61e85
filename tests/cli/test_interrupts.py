"""Ctrl-C and SIGTERM: one, two and three of them, against tools that obey, tools that do not, and a blocked loop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from serving import TIMEOUT, Program, environment, install_stubborn_tools, run_program, served

from watchkeeper import decode_event
from watchkeeper.messages import CallEnded, CancelRequested, RunEnded
from watchkeeper.testing import BACKENDS
from watchkeeper.testing.server import CallTools, Script, Stall


@contextmanager
def running(script: Script, *more: str, env: dict[str, str] | None = None) -> Iterator[Program]:
    with served(script) as server:
        arguments = ["run", "Do it.", "--model", "m", "--base-url", server.base_url, *more]
        with Program(*arguments, env=env or environment()) as program:
            yield program


def sleeping(seconds: float) -> Script:
    return lambda body, n: CallTools(("sleep", {"seconds": seconds}), ("now", {}))


def ended(program: Program) -> RunEnded:
    assert [event.n for event in program.events] == list(range(1, len(program.events) + 1))
    last = program.events[-1]
    assert isinstance(last, RunEnded)
    return last


def modes(program: Program) -> list[str]:
    return [event.mode for event in program.events if isinstance(event, CancelRequested)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_once_lets_the_turn_end(backend: str, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    more = ["--tools", "clock", "--backend", backend, "--events", str(file)]
    with running(sleeping(1.5), *more) as program:
        program.until("call_started")
        program.signal(signal.SIGINT)
        code, errors = program.end()
    outcome = ended(program).outcome
    assert code == 4
    assert (outcome.status, outcome.reason) == ("cancelled", "interrupted")
    assert modes(program) == ["after_turn"]
    assert [call.kind for call in outcome.calls] == ["finished", "finished"]
    assert "Traceback" not in errors
    assert [decode_event(line) for line in file.read_text("utf-8").splitlines()] == program.events


@pytest.mark.parametrize("backend", BACKENDS)
def test_twice_stops_now(backend: str) -> None:
    with running(sleeping(300), "--tools", "clock", "--backend", backend) as program:
        program.until("call_started")
        program.signal(signal.SIGINT)
        program.until("cancel_requested")
        program.signal(signal.SIGINT)
        code, errors = program.end()
    outcome = ended(program).outcome
    assert code == 4
    assert modes(program) == ["after_turn", "now"]
    assert {call.tool: call.kind for call in outcome.calls} == {"sleep": "cancelled", "now": "finished"}
    assert "cancelled (interrupted)" in errors


@pytest.mark.parametrize("backend", BACKENDS)
def test_thrice_leaves_a_tool_behind_that_will_not_stop(backend: str, tmp_path: Path) -> None:
    env = environment(PYTHONPATH=install_stubborn_tools(tmp_path))
    script = [CallTools(("cling", {}))]
    with running(script, "--tools", "stubborn", "--backend", backend, env=env) as program:
        program.until("call_started")
        for _ in range(3):
            program.signal(signal.SIGINT)
            program.until("cancel_requested")
        code, errors = program.end()
    outcome = ended(program).outcome
    assert code == 4
    assert modes(program) == ["after_turn", "now", "kill"]
    assert [call.kind for call in outcome.calls] == ["abandoned"]
    assert "left behind: cling at" in errors
    assert "stubborn_tools.py" in errors


def test_terminating_stops_now_and_the_process_ends_whatever_clings(tmp_path: Path) -> None:
    """The outcome comes at the grace period; leaving is not held up by the tool."""
    env = environment(PYTHONPATH=install_stubborn_tools(tmp_path))
    with running([CallTools(("cling", {}))], "--tools", "stubborn", env=env) as program:
        program.until("call_started")
        program.signal(signal.SIGTERM)
        code, errors = program.end()
    assert code == 4
    assert modes(program) == ["now"]
    assert ended(program).outcome.reason == "terminated"
    assert "left behind" in errors


@pytest.mark.parametrize("backend", BACKENDS)
def test_thrice_ends_a_process_whose_loop_is_blocked(backend: str, tmp_path: Path) -> None:
    """The loop hears nothing any more; the third Ctrl-C works all the same."""
    env = environment(PYTHONPATH=install_stubborn_tools(tmp_path))
    more = ["--tools", "stubborn", "--backend", backend]
    with running([CallTools(("block", {}))], *more, env=env) as program:
        assert program.process.stderr is not None
        assert program.process.stderr.readline() == "blocking\n"
        for says in ("stop now", "end the process", "ending the process"):
            program.signal(signal.SIGINT)
            assert says in program.process.stderr.readline()
        assert program.process.wait(TIMEOUT) == 4


def test_while_the_model_is_silent() -> None:
    with running([Stall(0)]) as program:
        program.until("model_requested")
        program.signal(signal.SIGTERM)
        code, _ = program.end()
    assert code == 4
    assert not [event for event in program.events if isinstance(event, CallEnded)]


def test_the_exit_code_of_a_signal_is_that_of_the_table() -> None:
    """Not 130 or 143: the run was cancelled, and that has a code of its own."""
    assert "4 cancelled" in " ".join(run_program("--help").stdout.split())
