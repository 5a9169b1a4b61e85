"""Our own scenarios of stuck and of good runs, as data: read, checked, and written out call by call.

One JSON object a line: ``id``, ``pattern``, ``verdict`` (``loop`` or ``benign``), ``why`` (a sentence that a person
believes), ``steps``; ``polls`` names tools that are declared as such; a loop has ``onset`` (the index of its first
step, from 0) and ``within`` (steps from there by which it must be blocked or stopped). ``flip`` holds one ``change``
that turns the verdict round, as other ``steps`` or as an ``edit`` of these, with an onset of its own if that is a loop.

A step is a call (``tool``, ``args``, ``result``, ``error``, ``agent``, ``user_turn``, ``text``, ``turn``,
``seconds``), a message of the ``user``, a reply of ``text`` alone, a piece of a ``stream`` (the channel) with its
``text``, a ``mark`` (``resume``, ``compaction``), or ``quiet`` for so many seconds. Steps of one ``turn`` are one
parallel round. Blocks are ``{"repeat": n, "steps"}``, ``{"each": items, "steps"}`` and ``{"draw": n, "steps"}`` (n of
them in a drawn order).
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from template import BadTemplate, Filler

FOLDER = Path(__file__).with_name("loops")
VERDICTS = ("loop", "benign")
OPPOSITE = {"loop": "benign", "benign": "loop"}
LONGEST = 5000
"""Steps of one scenario at most: more is a slip."""


class BadScenario(ValueError):
    """Raised when a line is no scenario; says where and what is wrong."""


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step, with all placeholders filled in."""

    tool: str | None = None
    args: Any = None
    result: Any = None
    error: bool | str = False
    agent: str | None = None
    user_turn: int | None = None
    text: str | None = None
    turn: int | None = None
    seconds: float | None = None
    user: str | None = None
    stream: str | None = None
    mark: str | None = None
    quiet: float | None = None

    @property
    def kind(self) -> str:
        for kind in ("tool", "user", "stream", "mark", "quiet", "text"):
            if getattr(self, kind) is not None:
                return kind
        raise BadScenario("a step needs a tool, a user, a text, a stream, a mark or a quiet")


class Flip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    change: str
    steps: list[Any] | None = None
    edit: list[dict[str, Any]] = []
    polls: tuple[str, ...] | None = None
    onset: int | None = None
    within: int | None = None


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    pattern: str
    verdict: str
    why: str
    steps: list[Any]
    flip: Flip
    polls: tuple[str, ...] = ()
    onset: int | None = None
    within: int | None = None


class Case(msgspec.Struct, frozen=True):
    """A scenario to be judged: as it stands, or with its one change."""

    id: str
    pattern: str
    verdict: str
    why: str
    steps: tuple[Step, ...]
    polls: tuple[str, ...] = ()
    onset: int = 0
    within: int = 0
    flipped: bool = False
    family: str = ""


def cases(folder: Path = FOLDER) -> list[Case]:
    """All cases of a folder, each scenario followed by its flip."""
    return [case for path in sorted(folder.glob("*.jsonl")) for case in read(path)]


def read(path: Path) -> Iterator[Case]:
    """The cases of one file. Raises :class:`BadScenario` with the line."""
    for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            line = msgspec.convert(json.loads(text), Line)
            yield from pair(line, path.stem)
        except (ValueError, msgspec.ValidationError) as error:  # also BadScenario, BadTemplate and broken JSON
            raise BadScenario(f"{path.name}:{number}: {error}") from None


def pair(line: Line, family: str = "") -> tuple[Case, Case]:
    """The scenario and its flip."""
    if line.verdict not in VERDICTS:
        raise BadScenario(f"the verdict is {' or '.join(VERDICTS)}, not {line.verdict!r}")
    flip = line.flip
    if (flip.steps is None) == (not flip.edit):
        raise BadScenario("a flip has other steps or an edit of these, not both and not neither")
    case = _case(line, line.id, line.verdict, line.why, line.steps, line.polls, line, family)
    steps = flip.steps if flip.steps is not None else edited(line.steps, flip.edit)
    polls = line.polls if flip.polls is None else flip.polls
    flipped = _case(line, f"{line.id}/flip", OPPOSITE[line.verdict], flip.change, steps, polls, flip, family)
    return case, flipped


def _case(
    line: Line,
    id: str,
    verdict: str,
    why: str,
    raw: list[Any],
    polls: tuple[str, ...],
    bounds: Line | Flip,
    family: str,
) -> Case:
    # A flip draws the same values as its scenario: nothing but the change differs.
    steps = tuple(expanded(raw, line.id))
    onset, within = bounds.onset, bounds.within
    if verdict == "loop":
        if onset is None or within is None:
            raise BadScenario(f"{id}: a loop needs an onset and a within")
        if onset + within > len(steps):
            raise BadScenario(f"{id}: it ends after {len(steps)} steps, before it must be found ({onset} + {within})")
    elif onset is not None or within is not None:
        raise BadScenario(f"{id}: what is benign has no onset")
    flipped = bounds is line.flip
    return Case(id, line.pattern, verdict, why, steps, polls, onset or 0, within or 0, flipped, family)


def expanded(raw: Iterable[Any], name: str) -> Iterator[Step]:
    """The steps of blocks, written out in order."""
    count = 0

    def walk(steps: Iterable[Any], laps: dict[str, int], item: Any) -> Iterator[Step]:
        nonlocal count
        for step in steps:
            if not isinstance(step, dict):
                raise BadScenario(f"a step is an object, not {step!r}")
            if "steps" in step:
                for lap, inner, it in _laps(step, name, item):
                    yield from walk(inner, {"j": laps.get("i", 1), "i": lap}, it)
                continue
            count += 1
            if count > LONGEST:
                raise BadScenario(f"more than {LONGEST} steps")
            filled = Filler(name, count, laps, item).fill(step)
            made = msgspec.convert(filled, Step)
            _ = made.kind
            yield made

    return walk(raw, {}, None)


def _laps(block: dict[str, Any], name: str, item: Any) -> Iterator[tuple[int, list[Any], Any]]:
    steps, kinds = block["steps"], block.keys() - {"steps"}
    if kinds == {"repeat"}:
        for lap in range(1, block["repeat"] + 1):
            yield lap, steps, item
    elif kinds == {"each"}:
        for lap, it in enumerate(block["each"], 1):
            yield lap, steps, it
    elif kinds == {"draw"}:
        chance = random.Random(f"{name}|draw")
        for lap in range(1, block["draw"] + 1):
            yield lap, [chance.choice(steps)], item
    else:
        raise BadScenario(f"a block has repeat, each or draw, not {', '.join(sorted(kinds)) or 'none'}")


def edited(steps: list[Any], edits: list[dict[str, Any]]) -> list[Any]:
    """A copy with each edit made: ``find`` and ``with`` in all texts, or ``set`` fields of the step ``at`` a place."""
    changed = copy.deepcopy(steps)
    for edit in edits:
        if edit.keys() == {"find", "with"}:
            before = changed
            changed = _replaced(changed, edit["find"], edit["with"])
            if changed == before:
                raise BadScenario(f"the edit finds nothing: {edit['find']!r}")
        elif edit.keys() == {"at", "set"}:
            place: Any = {"steps": changed}
            for index in edit["at"]:
                try:
                    place = place["steps"][index]
                except (KeyError, IndexError):
                    raise BadScenario(f"the edit leads nowhere: {edit['at']}") from None
            place.update(edit["set"])
            for field in [field for field, value in place.items() if value is None]:
                del place[field]
        else:
            raise BadScenario(f"an edit has find and with, or at and set, not {', '.join(edit)}")
    return changed


def _replaced(value: Any, find: str, text: str) -> Any:
    if isinstance(value, str):
        return value.replace(find, text)
    if isinstance(value, list):
        return [_replaced(inner, find, text) for inner in value]
    if isinstance(value, dict):
        return {key: _replaced(inner, find, text) for key, inner in value.items()}
    return value


__all__ = ["BadScenario", "BadTemplate", "Case", "Line", "Step", "cases", "edited", "expanded", "pair", "read"]
