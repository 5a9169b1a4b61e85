"""The scenarios of four other loop detectors, as data: their inputs, our answers.

``peers_expected.jsonl`` says for each row what we do with it: ``stuck`` (blocked or stopped) and ``at`` which call
(or ``by`` which at the latest), when it is told (``nudge``) and when the run ends (``stop``), with a ``reason`` where
we differ from the peer; or that it is for ``later``, and for what. Where replies or compactions are judged, these are
what ``counts``; elsewhere a text is what is said before the next call. Rows of ``chant`` are about one stream: they are
in ``test_chant_peers.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from watchkeeper.detect.judge import Judge
from watchkeeper.fingerprint import call_key, result_key
from watchkeeper.messages import CallEnded, CallProposed, ContextChanged, ModelReplied, Result, UserMessage

EXPECTED = [
    json.loads(line) for line in Path(__file__).with_name("peers_expected.jsonl").read_text("utf-8").splitlines()
]
NOW = [expected for expected in EXPECTED if "later" not in expected and "chant" not in expected]
JUDGED_BY = {"replies": "monologue", "compactions": "compaction"}

_encode = msgspec.json.Encoder(order="deterministic").encode


@pytest.fixture(scope="session")
def peers(shared_data: Path) -> dict[tuple[str, str], Any]:
    lines = (shared_data / "scenarios" / "peers.jsonl").read_text("utf-8").splitlines()
    return {(row["peer"], row["test"]): row for row in map(json.loads, lines)}


def name(row: dict[str, Any]) -> str:
    return f"{row['peer']}: {row['test']}"


def spelled(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each event on its own, repetitions written out."""
    for event in events:
        for _ in range(event.get("x", 1)):
            if event["t"] == "sequence":
                yield from spelled(event["events"])
            else:
                yield event


def arguments(event: dict[str, Any]) -> str:
    return _encode(event["args"]).decode()


def result(event: dict[str, Any]) -> str:
    given = event.get("result", "")
    return given if isinstance(given, str) else _encode(given).decode()


def first_steps(events: Iterable[dict[str, Any]], judge: Judge) -> dict[str, int]:
    """After how many calls each step was taken first. Each call is a round of its own; there are no times."""
    first: dict[str, int] = {}
    calls = n = 0
    for event in events:
        n += 2
        envelope: dict[str, Any] = {"n": n, "run": "r", "at": 0.0, "t": 0.0}
        if event["t"] == "user":
            judge.observe(UserMessage(text=event.get("text", ""), **envelope))
        if event["t"] != "call":
            continue
        calls += 1
        call_id, tool, given = f"c{calls}", event["tool"], arguments(event)
        failed = event.get("error", False)
        ended = Result(
            call_id, tool, "failed" if failed else "finished", result(event), error="error" if failed else None
        )
        judge.observe(CallProposed(call_id=call_id, tool=tool, arguments=given, **envelope))
        key = call_key(tool, given.encode())
        judged = judge.observe(CallEnded(result=ended, key=key, arguments=given, **(envelope | {"n": n + 1})))
        for _, verdict in judged.found if judged is not None else ():
            if verdict is not None:
                first.setdefault(verdict.action, calls)
    return first


def first_marks(events: Iterable[dict[str, Any]], judge: Judge, counts: str) -> dict[str, int]:
    """After how many replies or compactions their detector took each step first. The run has made a call before."""
    first: dict[str, int] = {}
    marks = 0
    for n, event in enumerate([{"t": "call", "tool": "begin", "args": {}}, *events], 1):
        envelope: dict[str, Any] = {"n": 2 * n, "run": "r", "at": 0.0, "t": 0.0}
        told: list[Any] = []
        if event["t"] == "user":
            told = [UserMessage(text=event.get("text", ""), **envelope)]
        elif event["t"] == "text":
            text = event.get("text", "")
            told = [ModelReplied(text=text, stored=bool(text), **envelope)]
            marks += counts == "replies"
        elif event["t"] == "compaction":
            told = [ContextChanged(reason="compaction", **envelope)]
            marks += counts == "compactions"
        elif event["t"] == "call":
            ended = Result(f"c{n}", event["tool"], "finished", result(event))
            told = [
                CallProposed(call_id=f"c{n}", tool=event["tool"], arguments=arguments(event), **envelope),
                CallEnded(result=ended, arguments=arguments(event), **(envelope | {"n": 2 * n + 1})),
            ]
        for one in told:
            judged = judge.observe(one)
            for finding, verdict in judged.found if judged is not None else ():
                if verdict is not None and finding.detector == JUDGED_BY[counts]:
                    first.setdefault(verdict.action, marks)
    return first


@pytest.mark.parametrize("expected", NOW, ids=name)
def test_each_row_of_the_table(expected: dict[str, Any], peers: dict[tuple[str, str], Any]) -> None:
    row = peers[expected["peer"], expected["test"]]
    events = list(spelled(row["events"]))
    if "same_results" in expected:
        assert len({result_key(result(event)) for event in events}) == (1 if expected["same_results"] else len(events))
        return
    if "same_calls" in expected:
        keys = {call_key(event["tool"], arguments(event).encode()) for event in events}
        assert (len(keys) == 1) == expected["same_calls"]
        return
    # Where calls belong to several runs, the last one's is asked about: each run has a judge of its own.
    asked = [event for event in events if event.get("run") == events[-1].get("run")]
    judge = Judge(mode=expected.get("mode", "enforce"))
    first = first_marks(asked, judge, expected["counts"]) if "counts" in expected else first_steps(asked, judge)
    done = min((first[action] for action in ("block", "stop") if action in first), default=None)
    assert (done is not None) == expected["stuck"]
    if "by" in expected:  # what is new in each result has to be learned: any call up to this one will do
        assert done is not None
        assert done <= expected["by"]
        return
    assert done == expected.get("at")
    assert first.get("nudge") == expected.get("nudge")
    assert first.get("stop") == expected.get("stop")


def test_no_row_is_forgotten(peers: dict[tuple[str, str], Any]) -> None:
    assert [(row["peer"], row["test"]) for row in EXPECTED] == list(peers)


def test_where_we_differ_the_table_says_why(peers: dict[tuple[str, str], Any]) -> None:
    for expected in EXPECTED:
        theirs = peers[expected["peer"], expected["test"]]["expected"]
        if "later" in expected:
            differs = True
            assert expected["later"] in (3, 4)
        else:
            differs = theirs.get("stuck", expected.get("stuck")) != expected.get("stuck") or (
                expected.get("stuck", False) and theirs.get("at", expected.get("at")) != expected.get("at")
            )
        if differs:
            assert expected.get("reason"), name(expected)


def test_what_is_for_later_is_text_a_second_opinion_or_compaction(peers: dict[tuple[str, str], Any]) -> None:
    later = [expected for expected in EXPECTED if "later" in expected]
    for expected in later:
        events = list(spelled(peers[expected["peer"], expected["test"]]["events"]))
        kinds = {event["t"] for event in events}
        assert kinds & {"text", "turn", "compaction"}, name(expected)
    assert len(later) < len(EXPECTED) / 2
