"""Texts that a parser takes, bent, cut, spliced and spiked by seed."""

from __future__ import annotations

import json
import random
from typing import Any

SPIKES = (
    "\ud800",
    "\x00",
    "\x1b[2J",
    "\u202e",
    "\ufeff",
    "\r\n",
    "\\ud800",
    '\\"',
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 5000,
    "[" * 2000,
    '{"a":' * 600,
    "}" * 50,
    '"',
    "'",
    "```json\n",
    "</tool_call>",
    "data: [DONE]\n\n",
    "../../etc/passwd",
    "$(reboot)",
    "; rm -rf /",
    "%00",
    "é" * 70,
    " " * 3000,
    "a" * 20_000,
    "\n" * 500,
    "null",
    "true",
    ":",
    ",",
    '"type":',
    "__proto__",
)
VALUES = (None, True, -1, 0, 2**70, 1.5, 1e308, "", "x", "\x00", "a" * 3000, [], {}, [[]], {"a": {"b": []}}, ["a", 1])


def made(corpus: tuple[str, ...], seed: int) -> str:
    """An input: one of the texts, bent, cut, spliced and spiked. One in fifty is as it was."""
    chance = random.Random(seed)
    text = chance.choice(corpus)
    if chance.random() < 0.02:
        return text
    if chance.random() < 0.4:
        text = _bent(text, chance)
        if chance.random() < 0.6:
            return text
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at, to = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        deed = chance.randrange(7)
        if deed == 0:
            text = text[:at]
        elif deed == 1:
            text = text[:at] + text[to:]
        elif deed == 2:
            text = text[:at] + chance.choice(SPIKES) + text[at:]
        elif deed == 3:
            text = text[:at] + chance.choice(SPIKES) + text[to:]
        elif deed == 4:
            text = text[:to] + chance.choice(corpus)[at:]
        elif deed == 5:
            text = text[:at] + text[at:to] * chance.randint(2, 5) + text[to:]
        else:
            text = text[:at] + chr(chance.choice((chance.randrange(128), chance.randrange(0x3000)))) + text[at + 1 :]
        text = text[:90_000]
    return text


def _bent(text: str, chance: random.Random) -> str:
    """JSON that is still JSON, with one value in it of another kind, gone, or under another key."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    places: list[tuple[Any, Any]] = []
    _places(value, places)
    if not places:
        return json.dumps(chance.choice(VALUES))
    inside, key = chance.choice(places)
    deed = chance.randrange(4)
    if deed == 0:
        del inside[key]
    elif deed == 1 and isinstance(inside, dict):
        inside[chance.choice(("", "type", "x" * 300, "n\x00"))] = inside.pop(key)
    else:
        inside[key] = chance.choice(VALUES)
    return json.dumps(value, ensure_ascii=chance.random() < 0.5)


def _places(value: Any, places: list[tuple[Any, Any]]) -> None:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        places.append((value, key))
        _places(value[key], places)
