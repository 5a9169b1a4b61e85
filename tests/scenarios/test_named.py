"""Models that never give up against the commonest dead ends: what is executed, how it ends, what is left to read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stage import Ran, play, stubborn, varying

from watchkeeper import Agent, Limits, Tool, ToolError, ToolOutput, Transient, decode_event, load_tools, tool
from watchkeeper.messages import CallEnded, CallProposed, CallStarted, Message, ModelRequested, RunEnded
from watchkeeper.models.dialect import messages, request_body
from watchkeeper.testing import check_request, write_trajectory

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CLIMB = [("nudge", 3), ("block", 5), ("stop", 8)]
"""Told at the third, blocked at the fifth, stopped at the eighth: five executions of eight proposals."""


class Status:
    """A service whose every answer is the same."""

    def __init__(self, answer: Callable[[], Any], **declared: Any) -> None:
        self.asked = 0

        async def lookup(key: str, page: int = 1) -> Any:
            """Look a key up."""
            self.asked += 1
            return answer()

        self.tool = Tool(lookup, **declared)


def raising(error: Exception) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


def check(ran: Ran, folder: Path) -> None:
    """What a server and a reader of the file find: a conversation that can be sent, and all facts as they were."""
    for request in ran.model.requests:
        assert check_request(request_body("m", request)) is None
    going_on = [*ran.outcome.history, Message("user", "Go on.")]
    assert check_request({"model": "m", "messages": messages(going_on)}) is None
    file = folder / "trajectory.jsonl"
    assert write_trajectory(file, ran.events) == len(ran.events)
    read = [decode_event(line) for line in file.read_bytes().splitlines()]
    assert read == list(ran.events)
    assert isinstance(read[-1], RunEnded)
    assert read[-1].outcome == ran.outcome
    assert len([fact for fact in read if isinstance(fact, CallStarted) and fact.attempt == 1]) == ran.executed
    assert len([fact for fact in read if isinstance(fact, ModelRequested)]) == len(ran.model.requests)


@pytest.mark.parametrize("path", ["notes.txt", "missing/notes.txt"])
async def test_a_file_that_never_exists_is_read_for_ever(path: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "note.txt").write_text("almost")
    ran = await play(Agent(stubborn(("read_file", {"path": path})), load_tools("files", root=root)))
    assert ran.steps() == CLIMB
    assert (ran.executed, len(ran.kinds)) == (5, 8)
    assert ran.end == ("stopped", "loop")
    assert ran.kinds == ["finished"] * 5 + ["refused"] * 3  # "not found" is a result, not a failure
    assert {result.error for result in ran.results[:5]} == {"not_found"}
    assert ran.outcome.evidence == ()
    check(ran, tmp_path)


async def test_other_files_that_never_exist_end_at_the_limit_of_turns(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    model = varying(lambda n: [("read_file", {"path": f"notes-{n}.txt"})])
    ran = await play(Agent(model, load_tools("files", root=root)))
    assert ran.executed == 20
    assert ran.end == ("stopped", "turns")
    assert ran.kinds == ["finished"] * 20 + ["refused"] * 3
    check(ran, tmp_path)


@pytest.mark.parametrize("declared", [{"effect": "reads"}, {}, {"effect": "reads", "stable": True}], ids=str)
async def test_not_found_with_no_way_out(declared: dict[str, Any], tmp_path: Path) -> None:
    service = Status(lambda: {"status": "not_found"}, **declared)
    ran = await play(Agent(stubborn(("lookup", {"key": "x"})), [service.tool]))
    assert ran.steps() == CLIMB
    # One whose answer may be remembered is asked once; the answers from memory are equal pairs as well.
    assert service.asked == ran.executed == (1 if declared.get("stable") else 5)
    assert len(ran.kinds) == 8
    assert ran.end == ("stopped", "loop")
    assert "went round in circles" in ran.outcome.message
    check(ran, tmp_path)


@pytest.mark.parametrize(
    ("answer", "attempts"),
    [
        (raising(RuntimeError("HTTP 500 Internal Server Error")), 1),
        (raising(ToolError("the server answered 500", hint="Do without it.")), 1),
        (raising(Transient("500 Internal Server Error")), 3),
        (raising(Transient("429 Too Many Requests", retry_after=2)), 3),
        (raising(Transient("429 Too Many Requests", retry_after=3600)), 1),
        (lambda: ToolOutput("HTTP 500 Internal Server Error", productive=False, error="http_500"), 1),
        (lambda: ToolOutput("HTTP 429 Too Many Requests", productive=False, error="http_429"), 1),
    ],
    ids=["500 raised", "500 told", "500 passing", "429", "429 for an hour", "500 as a result", "429 as a result"],
)
@pytest.mark.parametrize("same", [True, False], ids=["equal calls", "other arguments"])
async def test_equal_500s_and_429s(answer: Callable[[], Any], attempts: int, same: bool, tmp_path: Path) -> None:
    service = Status(answer, effect="reads", timeout=600)
    model = varying(lambda n: [("lookup", {"key": "x", "page": 1 if same else n})])
    ran = await play(Agent(model, [service.tool], limits=Limits(max_turns=12)))
    failing = ran.kinds[0] == "failed"
    if same or failing:
        assert ran.steps() == CLIMB
        assert (ran.executed, len(ran.kinds)) == (5, 8)
        assert ran.end == ("stopped", "loop" if same else "tool_failing")
    else:  # results that are no failures, of calls that are not equal: but who is told the same ten times is held back
        assert ran.executed == 10
        assert ran.end == ("stopped", "turns")
    assert service.asked == ran.executed * attempts
    assert [fact.attempt for fact in ran.of(CallStarted)][:attempts] == list(range(1, attempts + 1))
    check(ran, tmp_path)


async def test_a_passing_failure_that_passes_is_no_loop(tmp_path: Path) -> None:
    answers = iter([Transient("503"), Transient("503"), None, Transient("503"), None])

    def answer() -> str:
        failure = next(answers)
        if failure is not None:
            raise failure
        return "found"

    service = Status(answer, effect="reads")
    model = varying(lambda n: [("lookup", {"key": str(n)})])
    ran = await play(Agent(model, [service.tool], limits=Limits(max_turns=2)))
    assert ran.kinds[:2] == ["finished", "finished"]
    assert ran.steps() == []
    assert service.asked == 5


@tool(effect="reads")
async def book(seats: int, day: str, note: str = "") -> str:
    """Book seats."""
    return f"booked {seats + 1 - 1} seats for {day}"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"day": "monday"}, "seats: missing"),
        ({}, "day: missing"),
        ({"seats": "five", "day": "monday"}, "seats: expected"),
        ({"seats": 5, "day": 1}, "day: expected"),
        ({"seats": 5, "date": "monday"}, "date: unknown parameter"),
        ('{"seats": 5, "day": "mon', "not complete"),
    ],
    ids=["missing", "all missing", "words", "wrong type", "unknown", "cut off"],
)
async def test_a_missing_field_for_ever(arguments: Any, told: str, tmp_path: Path) -> None:
    ran = await play(Agent(stubborn(("book", arguments)), [book]))
    # Three tries to mend them, then a word, then the end; equal calls are told so at the third as well.
    assert ran.steps("arguments") == [("nudge", 4), ("stop", 5)]
    assert (ran.executed, len(ran.kinds)) == (0, 5)
    assert ran.end == ("stopped", "bad_arguments")
    assert all(told in text.lower() for text in ran.seen)
    assert len(ran.of(CallProposed)) == 5
    check(ran, tmp_path)


async def test_bad_arguments_that_are_mended_in_time_count_for_nothing(tmp_path: Path) -> None:
    tries: list[dict[str, Any]] = [
        {},
        {"day": "monday"},
        {"seats": "x", "day": "monday"},
        {"seats": 5, "day": "monday"},
    ]
    model = varying(lambda n: [("book", tries[(n - 1) % 4] | {"note": str(n)})])
    ran = await play(Agent(model, [book], limits=Limits(max_turns=16)))
    assert ran.steps() == []
    assert ran.executed == 4
    assert ran.end == ("stopped", "turns")
    check(ran, tmp_path)


async def test_a_number_in_quotes(tmp_path: Path) -> None:
    ran = await play(Agent(stubborn(("book", {"seats": "5", "day": "monday"})), [book]))
    assert ran.kinds == ["finished"] * 5 + ["refused"] * 3
    assert ran.seen[0] == "booked 5 seats for monday"
    assert ran.of(CallEnded)[0].arguments == '{"seats":5,"day":"monday","note":""}'
    assert ran.steps() == CLIMB
    assert ran.end == ("stopped", "loop")
    check(ran, tmp_path)


async def test_a_number_in_quotes_and_one_without_are_one_call(tmp_path: Path) -> None:
    model = varying(lambda n: [("book", {"seats": "5" if n % 2 else 5, "day": "monday"})])
    ran = await play(Agent(model, [book]))
    assert ran.steps() == CLIMB
    assert ran.executed == 5
    check(ran, tmp_path)
