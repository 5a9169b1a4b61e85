"""Our own scenarios: each loop is blocked or stopped in time, each benign run is neither; and so with one change each.

What a sensible user expects is written in ``loops/*.jsonl``; the steps are judged with the defaults, by the watchdog
and the guards, as ``watchkeeper replay`` does. ``table.py`` prints the figures.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scenario import BadScenario, Case, Line, cases, pair, read
from trial import tried

from watchkeeper.cli.review import Settings
from watchkeeper.detect.round import Ring, Round
from watchkeeper.messages import Finding
from watchkeeper.profiles import Profile

CASES = cases()
SCENARIOS = [case for case in CASES if not case.flipped]

LOOPS = (
    "equal call",
    "equal error",
    "cycle",
    "cycle with noise",
    "volatile result",
    "volatile arguments",
    "paraphrase",
    "churn",
    "nothing new",
    "ineffective edits",
    "unknown tool",
    "bad arguments",
    "monologue",
    "chanting",
    "compaction",
    "fan-out",
    "hand-over",
    "resume",
    "self-trigger",
    "silence",
    "volume",
    "ignored warning",
    "stub",
    "odd payload",
    "patience run out",
)
"""The patterns that a watchdog must catch."""

BENIGN = (
    "progressing poll",
    "patient poll",
    "sleep and continue",
    "paging",
    "edit and test",
    "edit and test, same failure",
    "re-read after a change",
    "same edit over many files",
    "batch acknowledgements",
    "many reads at the start",
    "diagnostic sweep",
    "browser",
    "transient errors",
    "plan updates",
    "equal calls in one round",
    "provider replay",
    "scheduled runs",
    "shared state",
    "long lists",
    "asked repetition",
    "stepping",
    "sends",
    "restarts",
    "long honest run",
)
"""The patterns that look like loops and are none."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_scenario_and_its_flip(case: Case, record_property: Callable[[str, object], None]) -> None:
    trial = tried(case)
    record_property("nudged", trial.nudged)
    assert trial.wrong is None, f"{case.verdict}: {case.why}"


def test_there_are_enough_of_each_pattern() -> None:
    assert len(SCENARIOS) >= 300
    for names, verdict in ((LOOPS, "loop"), (BENIGN, "benign")):
        count = Counter(case.pattern for case in SCENARIOS if case.verdict == verdict)
        assert {name: count[name] for name in names if count[name] < 3} == {}
        assert count.keys() == set(names)


def test_ids_are_given_once() -> None:
    assert [name for name, count in Counter(case.id for case in CASES).items() if count > 1] == []


def test_a_flip_is_another_run_with_the_opposite_verdict() -> None:
    for case, flip in zip(CASES[::2], CASES[1::2], strict=True):
        assert (case.flipped, flip.flipped) == (False, True)
        assert {case.verdict, flip.verdict} == {"loop", "benign"}
        assert case.steps != flip.steps, case.id
        assert case.why != flip.why


def test_periods_from_two_to_eight_are_there() -> None:
    found = {case.within // 5 for case in SCENARIOS if case.pattern == "cycle"}
    assert found >= set(range(2, 9))


def test_runs_are_the_same_each_time() -> None:
    assert cases() == CASES


# -- the measure itself ----------------------------------------------------------------------------------------------


def test_a_watchdog_that_only_watches_is_wrong_about_each_loop() -> None:
    """But for ceilings, which hold in every mode, and for streams, which are cut off where they are read."""
    watching = Settings(profile=Profile(mode="observe"))
    for case in CASES:
        if case.verdict == "loop" and case.within < 20 and {step.kind for step in case.steps} <= {"tool", "mark"}:
            delay = tried(case, watching).delay
            assert delay is None or delay >= 20, case.id


class Hasty:
    """A detector that takes all that is done for one loop."""

    name = "hasty"

    def __init__(self, *made_with: Any) -> None:
        pass

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        yield Finding(self.name, "anything", 100, keys=(round.first.key,), subject="all", tool=round.first.tool)


def test_a_hasty_watchdog_is_wrong_about_what_is_benign_and_too_early_for_the_rest() -> None:
    hasty = Settings(extra=(Hasty,))
    for case in SCENARIOS:
        trial = tried(case, hasty)
        if case.verdict == "loop" and case.onset >= 3:
            assert (trial.wrong or "").startswith("too early"), case.id
        elif case.verdict == "benign" and all(step.kind in ("tool", "user", "mark") for step in case.steps):
            assert (trial.wrong or "").startswith("false"), case.id


# -- files that are none ---------------------------------------------------------------------------------------------

WHOLE: dict[str, Any] = {
    "id": "x",
    "pattern": "cycle",
    "verdict": "loop",
    "why": "It goes round.",
    "onset": 0,
    "within": 2,
    "steps": [{"repeat": 3, "steps": [{"tool": "look", "args": {"at": "door"}}]}],
    "flip": {"change": "Another door each time.", "edit": [{"find": "door", "with": "door {i}"}]},
}


def test_a_whole_one_is_written_out() -> None:
    case, flip = pair(msgspec.convert(WHOLE, Line))
    assert [step.args for step in case.steps] == [{"at": "door"}] * 3
    assert [step.args for step in flip.steps] == [{"at": f"door {lap}"} for lap in (1, 2, 3)]
    assert (flip.id, flip.verdict, flip.onset) == ("x/flip", "benign", 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "maybe"}, "the verdict is loop or benign, not 'maybe'"),
        ({"onset": None}, "x: a loop needs an onset and a within"),
        ({"within": 9}, "x: it ends after 3 steps, before it must be found"),
        ({"colour": "red"}, "unknown field `colour`"),
        ({"steps": [{"tool": "look", "arguments": {}}]}, "unknown field `arguments`"),
        ({"steps": [{"repeat": 2, "shuffle": True, "steps": []}]}, "a block has repeat, each or draw"),
        ({"steps": [{"tool": "look", "args": "{it}"}]}, "stands outside of an each block"),
        ({"steps": [{"args": "door"}]}, "a step needs a tool"),
        ({"steps": ["look"]}, "a step is an object"),
        ({"flip": {"change": "None."}}, "a flip has other steps or an edit"),
        ({"flip": {"change": "No.", "edit": [{"find": "window", "with": "x"}]}}, "the edit finds nothing: 'window'"),
        ({"flip": {"change": "No.", "edit": [{"at": [4], "set": {}}]}}, "the edit leads nowhere"),
        ({"flip": {"change": "No.", "edit": [{"cut": 1}]}}, "an edit has find and with"),
        (
            {"flip": {"change": "No.", "edit": [{"find": "door", "with": "{i}"}], "onset": 1}},
            "what is benign has no onset",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_scenario_is_said_with_its_line(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "family.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in (WHOLE, WHOLE | change)), "utf-8")
    with pytest.raises(BadScenario, match=r"^family\.jsonl:2: ") as raised:
        list(read(file))
    assert said in str(raised.value)


def test_broken_json_too(tmp_path: Path) -> None:
    file = tmp_path / "family.jsonl"
    file.write_text(json.dumps(WHOLE)[:-9], "utf-8")
    with pytest.raises(BadScenario, match=r"^family\.jsonl:1: "):
        list(read(file))
