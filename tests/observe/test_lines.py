"""Log lines: one for each fact worth one, whole, bounded, and safe to show."""

from __future__ import annotations

import io
import json
from random import Random
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from sighted import hanging, recorded, see

from support import of
from watchkeeper import Event, messages
from watchkeeper.messages import ApprovalRequested, CallEnded, RunEnded, RunStarted
from watchkeeper.observe.lines import TABLE, TEXT, Lines, logger_to
from watchkeeper.observe.metrics import Metrics
from watchkeeper.observe.otlp import otlp
from watchkeeper.observe.perfetto import perfetto
from watchkeeper.observe.writer import Writer

NOT_TOLD = {
    *("RunEnding", "ModelFirstChunk", "ModelStreamed", "ModelPartialDropped", "CallProposed", "CallAdmitted"),
    *("OpinionAsked", "Held", "Settled", "EvidenceFound", "ContextChanged", "NotesShown", "Planned", "StepStarted"),
    *("StepEnded", "PlanChanged", "Unknown"),
}
"""Facts that are no line: pieces of others, or many in each turn."""


def written(*facts: Event, format: Any = "json", level: Any = "debug") -> list[str]:
    stream = io.StringIO()
    writer = Writer(stream)
    lines = Lines(logger_to(writer, format, level))
    for event in facts:
        lines.observe(event)
    assert writer.close()
    return stream.getvalue().splitlines()


def objects(*facts: Event, **settings: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written(*facts, **settings)]


def test_of_each_kind_of_fact_it_is_decided_whether_it_is_a_line() -> None:
    kinds = {kind.__name__ for kind in messages.AnyEvent.__args__}
    assert {kind.__name__ for kind in TABLE} | NOT_TOLD == kinds
    assert not {kind.__name__ for kind in TABLE} & NOT_TOLD


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_a_live_run_is_told_as_it_goes() -> None:
    stream = io.StringIO()
    writer = Writer(stream)
    facts = await see(hanging(), Lines(logger_to(writer, "json")).observe, cancel_after=5.0)
    writer.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [
        "run_started",
        "call_ended",
        "cancel_requested",
        "call_ended",
        "cancel_confirmed",
        "run_ended",
    ]
    assert {line["run"] for line in lines} == {facts[0].run}
    assert [line.get("call") for line in lines if line["event"] == "call_ended"] == ["call_1_2", "call_1_1"]
    assert all(line["turn"] == 1 for line in lines[1:])


def test_every_line_has_time_level_event_and_run_first() -> None:
    for facts in recorded().values():
        for line in objects(*facts):
            assert list(line)[:4] == ["timestamp", "level", "event", "run"]
            assert line["timestamp"].startswith("2027-01-15T08:0")
            assert line["timestamp"].endswith("Z")


def test_levels_tell_what_needs_a_look() -> None:
    warnings = [line["event"] for line in objects(*recorded()["loop"], level="warning")]
    assert set(warnings) == {"nudged", "blocked", "stopped", "call_ended", "run_ended"}
    assert [line["event"] for line in objects(*recorded()["broken"], level="error")] == ["model_failed", "run_ended"]
    assert not objects(*recorded()["top"][:3], level="warning")


def test_lines_hold_no_content() -> None:
    (asked,) = of(recorded()["retry"], ApprovalRequested)
    text = "\n".join(written(*recorded()["top"], msgspec.structs.replace(asked, arguments='{"key":"very-private"}')))
    assert "is there" not in text
    assert "very-private" not in text
    assert '"at"' not in text
    assert "Look at it all." in text  # the task's beginning


def test_texts_are_bounded_and_steer_no_terminal() -> None:
    (started,) = (event for event in recorded()["broken"] if type(event) is RunStarted)
    evil = "\x1b[31mred\x1b]0;title\x07\n\u202eback " + "x" * 10_000
    hostile = msgspec.structs.replace(started, task=evil, agent=evil)
    for format in ("json", "text"):
        (line,) = written(hostile, format=format)
        assert len(line) < 4 * TEXT
        assert not set(line) & {"\x1b", "\x07", "\u202e"}


def test_a_long_list_is_cut() -> None:
    (ended,) = of(recorded()["broken"], RunEnded)
    spent = {f"dimension{number}": 1.0 for number in range(10_000)}
    (line,) = objects(msgspec.structs.replace(ended, outcome=msgspec.structs.replace(ended.outcome, spent=spent)))
    assert len(line["spent"]) == 20


def test_text_is_key_and_value() -> None:
    lines = written(*recorded()["hang"], format="text", level="info")
    assert "run_started" in lines[0]
    assert "agent='hang'" in lines[0]
    assert any("kind='cancelled'" in line for line in lines)


def test_the_time_of_a_line_is_that_of_the_fact() -> None:
    ended = of(recorded()["top"], CallEnded)[0]
    (line,) = objects(ended)
    assert line["timestamp"] == "2027-01-15T08:00:01.000Z"


TEXTS = ("", "x", "\x1b[31mred\n\u202e", "ü" * 5_000, '{"a": 1}')


def made(kind: Any, chance: Random) -> Any:
    """A fact of a kind, or what stands in one, with anything in each field."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind(**{field.name: made(field.type, chance) for field in msgspec.structs.fields(kind)})
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return chance.choice(parts)
    if origin in (Union, UnionType):
        return made(chance.choice(parts), chance)
    if origin in (tuple, list):
        return tuple(made(parts[0], chance) for _ in range(chance.randrange(3)))
    if origin is dict:
        return {chance.choice(TEXTS): made(parts[1], chance) for _ in range(chance.randrange(3))}
    numbers = {
        int: chance.randrange(1 << 40),
        float: chance.random() * 4e9,
        bool: chance.random() < 0.5,
        NoneType: None,
    }
    return numbers[kind] if kind in numbers else chance.choice(TEXTS)


@pytest.mark.parametrize("seed", range(3))
def test_facts_of_every_kind_with_anything_in_them_are_told_counted_and_traced(seed: int) -> None:
    chance = Random(seed)
    kinds = [kind for kind in messages.AnyEvent.__args__ if kind is not messages.Unknown]
    facts = [made(kind, chance) for kind in chance.choices(kinds, k=250)]
    told = objects(*facts)
    assert len(told) == sum(type(event) in TABLE for event in facts)
    assert len(written(*facts, format="text")) == len(told)
    metrics = Metrics()
    for event in facts:
        metrics.observe(event)
    assert json.loads(perfetto(facts, content=True))["traceEvents"]
    assert json.loads(otlp(facts, content=True))["resourceSpans"]
