"""A run told in lines: what each fact becomes, and that nothing of it can steer a terminal."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from watchkeeper.cli.board import Board
from watchkeeper.cli.epilogue import epilogue
from watchkeeper.cli.narrator import Narrator
from watchkeeper.cli.printable import arguments, duration, first_line, one_line, printable, safe_json
from watchkeeper.cli.view import Plain, Terminal, View, view_on
from watchkeeper.log import Gap
from watchkeeper.messages import (
    AnyEvent,
    Blocked,
    CallEnded,
    CallProposed,
    CallRecord,
    CallReplaced,
    CallStarted,
    CancelRequested,
    ContextCompacted,
    Event,
    ModelReplied,
    NotesFailed,
    NotesShown,
    Nudged,
    OpinionGiven,
    Outcome,
    Result,
    RunStarted,
    Settled,
    Unknown,
    encode_event,
)

FORBIDDEN = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066", "\u2028", "\ud800"]


class Facts:
    """Makes facts in order."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, kind: type[Any], t: float = 0.0, **fields: Any) -> Any:
        self.n += 1
        return kind(n=self.n, run="r1", at=0.0, t=t, turn=1, **fields)


def told(*events: Event | Gap) -> list[str]:
    narrator = Narrator()
    return [line.text for event in events for line in narrator.tell(event)]


def proposed(fact: Facts, slot: int, t: float = 0.0) -> CallProposed:
    return fact(CallProposed, t, slot=slot, call_id=f"c{slot}", tool="read", arguments=f'{{"n": {slot}}}')


def ended(fact: Facts, slot: int, t: float, ran: float = 0.0, **result: Any) -> CallEnded:
    fields = {"kind": "finished", "content": "ok", "productive": True} | result
    return fact(CallEnded, t, slot=slot, result=Result(f"c{slot}", "read", **fields), ran=ran)


class TestCalls:
    def test_come_together_in_slot_order_with_a_picture_of_when_they_ran(self) -> None:
        fact = Facts()
        start = [proposed(fact, 1), proposed(fact, 2), fact(CallStarted, 0.0, call_id="c1", tool="read")]
        start += [fact(CallStarted, 0.0, call_id="c2", tool="read"), ended(fact, 2, 0.5, 0.5)]
        narrator = Narrator()
        assert [line for event in start for line in narrator.tell(event)] == []
        lines = [line.text for line in narrator.tell(ended(fact, 1, 1.0, 1.0))]
        assert lines == [
            "    ━━━━━━━━━━━━ read n=1  finished 1.00 s  ok",
            "    ━━━━━━       read n=2  finished 0.50 s  ok",
            "    up to 2 side by side: 1.00 s for 1.50 s of work",
        ]

    def test_one_after_the_other_is_said_to_be_so(self) -> None:
        fact = Facts()
        events = [proposed(fact, 1), proposed(fact, 2)]
        events += [fact(CallStarted, 0.0, call_id="c1", tool="read"), ended(fact, 1, 1.0, 1.0)]
        events += [fact(CallStarted, 1.0, call_id="c2", tool="read"), ended(fact, 2, 2.0, 1.0)]
        lines = told(*events)
        assert lines[0].startswith("    ━━━━━━       read")
        assert lines[1].startswith("          ━━━━━━ read")
        assert lines[2] == "    one after the other: 2.00 s for 2.00 s of work"

    def test_a_refusal_names_its_reason(self) -> None:
        fact = Facts()
        refused = ended(fact, 1, 0.0, kind="refused", by="block", error="blocked", productive=False)
        assert told(proposed(fact, 1), refused) == ["    read n=1  refused (blocked)"]

    def test_what_was_missed_is_said(self) -> None:
        fact = Facts()
        lines = told(Gap(1, 40), ended(fact, 1, 0.0))
        assert lines == ["    (facts 1 to 40 went by too fast to be shown)"]


def test_a_block_is_told_once() -> None:
    """The word to the model that comes with it is no nudge of its own."""
    fact = Facts()
    lines = told(
        fact(Nudged, text="The same call.\nmore", by="equal", cause=3),
        fact(Blocked, keys=("k",), by="equal", cause=5),
        fact(Nudged, text="The same call.\nmore", by="equal", cause=5),
    )
    assert lines == [
        "    ▲ nudged (equal): The same call.",
        "    ■ blocked (equal): this call will not be run any more",
    ]


def test_a_compaction_and_notes() -> None:
    fact = Facts()
    compacted = fact(
        ContextCompacted, reason="window", before=3300, after=1900, dropped=(1, 2, 3), shortened=(5,), summary="- a"
    )
    assert told(compacted, fact(NotesShown, text="x", notes=2), fact(NotesFailed, error="disk full", off=True)) == [
        "    the model reads less of the conversation from here on: about 3,300 tokens became 1,900 "
        "(3 messages left out, with a summary, 1 result in part)",
        "    2 notes from earlier work shown",
        "    ! the store of notes failed: disk full; it is asked no more",
    ]


def test_what_is_to_be_handed_over_is_not_called_a_cancel() -> None:
    fact = Facts()
    lines = told(
        fact(CancelRequested, mode="after_turn", reason="interrupted", status="handed_over"),
        fact(CancelRequested, mode="now", reason="asked", status="handed_over"),
        fact(CancelRequested, mode="now", reason="asked"),
    )
    assert lines == [
        "    to be handed over to a person (after_turn): interrupted (Ctrl-C again: stop now)",
        "    to be handed over to a person (now): asked",
        "    cancel requested (now): asked",
    ]


hostile = st.text(st.one_of(st.sampled_from(FORBIDDEN), st.characters()), max_size=40)


@given(hostile)
def test_no_line_holds_what_steers_a_terminal(text: str) -> None:
    fact = Facts()
    events: list[Event] = [
        fact(ModelReplied, text=text, calls=()),
        fact(CallProposed, call_id="c1", tool=text, arguments=text, slot=1),
        fact(CallEnded, slot=1, result=Result("c1", text, "failed", text, error=text)),
        fact(Nudged, text=text, by="equal"),
        fact(NotesFailed, error=text),
    ]
    outcome = Outcome(run="r", status="failed", reason=text, message=text, answer=text, cause=text, rejected=(text,))
    lines = [*told(*events), *(line.text for line in epilogue(outcome))]
    assert not set(FORBIDDEN) & set("".join(lines))


@given(hostile)
def test_shown_text_is_bounded_and_printable(text: str) -> None:
    for shown in (one_line(text, 20), first_line(text, 20), arguments(text, 20), printable(text).replace("\n", "")):
        assert not set(FORBIDDEN) & set(shown)
    assert len(one_line(text, 20)) <= 20
    assert len(arguments(text, 20)) <= 20


@given(st.text(max_size=60))
def test_safe_json_is_the_same_value(text: str) -> None:
    line = msgspec.json.encode({"text": text})
    safe = safe_json(line)
    assert msgspec.json.decode(safe) == {"text": text}
    assert not set(FORBIDDEN) & set(safe.decode())


def test_second_opinions_are_told() -> None:
    fact = Facts()
    lines = [
        *told(fact(OpinionGiven, 0.0, by="judge", decision="refuse", call_id="c1", why="too dear")),
        *told(fact(OpinionGiven, 0.0, by="verifier", decision="allow")),
        *told(fact(OpinionGiven, 0.0, by="judge", decision="ask", call_id="c1", failed="it hung")),
    ]
    assert [line.strip() for line in lines] == [
        "⚖ the judge on call c1: refuse (too dear)",
        "⚖ the verifier on the answer: allow",
        "⚖ the judge gave no opinion on call c1 (it hung): ask",
    ]


def test_every_fact_can_be_told_and_shown() -> None:
    """Also those that come later: a fact that is not told is passed over."""
    raw = {"type": "something_new", "n": 1, "run": "r", "at": 0.0, "t": 0.0}
    unknown = Unknown(n=1, run="r", at=0.0, t=0.0, raw=raw)
    assert told(unknown) == []
    Board().observe(unknown)
    assert encode_event(unknown)
    assert len(AnyEvent.__args__) > 30


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0012, "1.2 ms"), (0.45, "0.45 s"), (12.34, "12.3 s"), (59.97, "1 min 0 s"), (65, "1 min 5 s")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds).replace("0 min 59 s", "1 min 0 s") == shown


class TestBoard:
    def test_shows_the_calls_that_run(self) -> None:
        fact, board = Facts(), Board()
        for event in (
            proposed(fact, 1),
            proposed(fact, 2),
            fact(CallStarted, 0.0, call_id="c1", tool="read"),
            fact(CallStarted, 0.5, call_id="c2", tool="read"),
        ):
            board.observe(event)
        lines = board.lines(1.0)
        assert lines[0].endswith("calls tools, 1.00 s")
        assert lines[1:3] == ["  ▸ read n=1  1.00 s", "  ▸ read n=2  0.50 s"]
        board.observe(ended(fact, 1, 1.0, 1.0))
        assert not any("n=1" in line for line in board.lines(1.0))

    def test_shows_what_it_cost_so_far_if_that_is_known(self) -> None:
        fact, board = Facts(), Board()
        board.observe(fact(Settled, 0.0, amounts={"tokens": 500.0}, held="h1", unknown=("money",)))
        assert "cost" not in board.lines(1.0)[-1]
        board.observe(fact(Settled, 0.5, amounts={"tokens": 700.0, "money": 0.0125}, held="h2"))
        assert board.lines(1.0)[-1].endswith("tokens 1,200  ·  cost 0.0125")
        board.observe(fact(RunStarted, 0.6, agent="a", task="t", limits={"money": 2.0}))
        assert board.lines(1.0)[-1].endswith("cost 0.0125 of 2")


class TestViews:
    def test_a_pipe_gets_plain_lines(self) -> None:
        stream = io.StringIO()
        view = view_on(stream)
        assert isinstance(view, Plain)
        fact = Facts()
        view.print([line for event in (proposed(fact, 1), ended(fact, 1, 0.0)) for line in Narrator().tell(event)])
        assert "\x1b" not in stream.getvalue()

    def test_a_terminal_gets_colour_and_a_picture_that_is_gone_at_the_end(self) -> None:
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=True, width=60, color_system="standard", _environ={})
        view = Terminal(console)
        record = CallRecord("c1", "read", 1, 1, "finished")
        outcome = Outcome(
            run="r", status="completed", reason="answer", message="[red]ok[/red]", answer="x" * 200, calls=(record,)
        )
        with view.live():
            view.picture(["turn 1: asks the model", "  ▸ read n=1  0.50 s"])
            view.print(epilogue(outcome))
        shown = stream.getvalue()
        assert "\x1b[32mcompleted (answer)" in shown
        assert "[red]ok[/red]" in shown  # no markup of anybody else's
        assert "▸ read n=1" in shown
        assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
        view.picture(["too late"])
        assert "too late" not in stream.getvalue()

    def test_a_dumb_terminal_gets_plain_lines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Dumb(io.StringIO):
            def isatty(self) -> bool:
                return True

        monkeypatch.setenv("TERM", "dumb")
        assert isinstance(view_on(Dumb()), Plain)
        monkeypatch.setenv("TERM", "xterm")
        assert isinstance(view_on(Dumb()), Terminal)

    def test_the_view_of_nobody(self) -> None:
        view = View()
        with view.live():
            view.print([])
            view.picture([])
        assert not view.in_place


def test_a_call_in_the_place_of_another() -> None:
    fact = Facts()
    fields = {"call_id": "c1", "by": "calculator_first", "tool": "run_python"}
    lines = told(
        fact(CallReplaced, instead="calculate", arguments='{"expression": "2+2"}', **fields),
        fact(CallReplaced, why="known", **fields),
    )
    assert lines[0].startswith("    ⇄ replaced (calculator_first): calculate ")
    assert "2+2" in lines[0]
    assert lines[0].endswith(" in place of run_python")
    assert lines[1] == "    ⇄ replaced (calculator_first): an answer in place of run_python"


@pytest.mark.parametrize("frame", ["tools.py:7 in put", None])
def test_a_call_of_unknown_outcome_is_for_a_person_to_check(frame: str | None) -> None:
    call = CallRecord("c1.1", "put", 1, 1, "abandoned", frame=frame)
    outcome = Outcome(run="r1", status="completed", reason="answer", message="Done.", calls=(call,))
    lines = [line.text for line in epilogue(outcome)]
    unknown = "outcome unknown: put: nobody knows whether it was done; a person has to check"
    assert (f"left behind: put at {frame}" if frame else unknown) in lines


def test_one_writing_call_after_a_cancel_is_one() -> None:
    outcome = Outcome(run="r1", status="cancelled", reason="enough", message="Over.", after_cancel=("c1.1",))
    assert [line.text for line in epilogue(outcome)][-1].startswith("1 writing call finished")
