"""The chanting scenarios of another loop detector: its streams, our answers.

The rows of ``peers_expected.jsonl`` marked ``chant``. Each text event is one delta; a call ends the reply, and the next
text belongs to a new one.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.detect.chant import Chant, Chanting

EXPECTED = [
    expected
    for line in Path(__file__).with_name("peers_expected.jsonl").read_text("utf-8").splitlines()
    if "chant" in (expected := json.loads(line))
]
IN_A_BLOCK = ("near threshold, then a code fence opens", "already inside a fence", "several fences")
"""Rows that end within an open code block."""
HONEST = [row for row in EXPECTED if not row["stuck"] and row["test"] not in IN_A_BLOCK]


@pytest.fixture(scope="session")
def peers(shared_data: Path) -> dict[str, Any]:
    lines = (shared_data / "scenarios" / "peers.jsonl").read_text("utf-8").splitlines()
    return {row["test"]: row for row in map(json.loads, lines) if row["peer"] == "gemini-cli"}


def deltas(events: Iterable[dict[str, Any]], noise: random.Random) -> Iterator[str | None]:
    """Each delta on its own; None where a reply ends."""
    for event in events:
        if event["t"] == "sequence":
            same = "".join(noise.choices(string.ascii_letters + string.digits, k=500))
            for _ in range(event["x"]):
                yield from (same if one["text"].startswith("<500") else one["text"] for one in event["events"])
        elif event["t"] == "text":
            for _ in range(event.get("x", 1)):
                fresh = "".join(noise.choices(string.ascii_letters + string.digits, k=10))
                yield fresh if event.get("generated") == "random" else event["text"]
        else:
            yield None


def heard(events: Iterable[dict[str, Any]], pieces: int = 0) -> tuple[Chanting | None, int]:
    """What is found, and after how many characters of the reply; in deltas as given or of so many characters."""
    chant, characters = Chant(), 0
    for delta in deltas(events, random.Random(7)):
        if delta is None:
            chant, characters = Chant(), 0
            continue
        for at in range(0, len(delta), pieces or len(delta) or 1):
            piece = delta[at : at + (pieces or len(delta))]
            characters += len(piece)
            found = chant.feed("content", piece)
            if found is not None:
                return found, characters
    return None, characters


@pytest.mark.parametrize("pieces", [0, 1, 4])
@pytest.mark.parametrize("expected", EXPECTED, ids=lambda row: row["test"])
def test_each_stream_of_the_table(expected: dict[str, Any], pieces: int, peers: dict[str, Any]) -> None:
    found, characters = heard(peers[expected["test"]]["events"], pieces)
    assert (found is not None) == expected["stuck"]
    assert found is None or characters <= 800


def test_the_table_has_chants_and_honest_streams() -> None:
    stuck = [expected["stuck"] for expected in EXPECTED]
    assert stuck.count(True) >= 7
    assert stuck.count(False) >= 25


@pytest.mark.parametrize("expected", HONEST, ids=lambda row: row["test"])
def test_an_honest_stream_that_goes_on_with_one_sentence(expected: dict[str, Any], peers: dict[str, Any]) -> None:
    """By mutation: whatever came before, a chant after it is heard, unless a code block is open."""
    events = [*peers[expected["test"]]["events"], {"t": "text", "text": "\n\nI am done now, so I stop. ", "x": 40}]
    assert heard(events)[0] is not None


@pytest.mark.parametrize("test", IN_A_BLOCK)
def test_a_code_block_has_room_for_more(test: str, peers: dict[str, Any]) -> None:
    """By mutation: in an open code block the same goes on for far longer, but not for ever."""
    more = {"t": "text", "text": "I am done now, so I stop. "}
    assert heard([*peers[test]["events"], {**more, "x": 80}])[0] is None
    assert heard([*peers[test]["events"], {**more, "x": 200}])[0] is not None
