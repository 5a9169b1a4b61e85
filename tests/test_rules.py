"""Our statements of others' rules act where their sources say: at which call, and at which not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from watchkeeper.cli.recorded import RecordedRun, Step

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
sys.path.append(str(BENCHMARKS))

from document import filled  # noqa: E402
from rivals import Item, by_rule, came  # noqa: E402
from rules import RULES, Seen, laps, run_length  # noqa: E402


def acts(name: str, pattern: str, count: int = 40, *, error: bool = False) -> tuple[int, str] | None:
    """The first call (from 1) at which a call was blocked or the run stopped.

    The pattern goes round, a letter a tool with equal arguments: ``a`` with equal results, ``A`` with ever new ones,
    ``*`` has new arguments and an equal result.
    """
    rule = RULES[name]([])
    for at in range(count):
        letter = pattern[at % len(pattern)]
        result = f"{letter} {at}" if letter.isupper() else "same"
        args = {"x": at if letter == "*" else 1}
        act = rule.round([Seen(f"tool_{letter.lower()}", args, result, error)])
        if act in ("block", "stop"):
            return at + 1, act
    return None


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("third equal call", (3, "stop")),
        ("20 steps", (21, "stop")),
        ("gemini-cli", (6, "stop")),  # told at the fifth
        ("OpenHands (old)", (4, "stop")),
        ("OpenHands SDK", (4, "stop")),
        ("OpenClaw (enabled)", (20, "block")),
        ("opencode", (3, "block")),
        ("Roo", (4, "block")),
        ("Cline", (5, "stop")),
        ("Crush", (6, "stop")),
        ("qwen-code", (5, "stop")),
        ("qwen-code (heuristics)", (5, "stop")),
        ("Goose", None),
        ("Hermes (unattended)", (5, "stop")),
        ("CrewAI", (5, "stop")),
        ("OpenRouter", (3, "block")),
        ("DeerFlow", (5, "stop")),
    ],
)
def test_the_same_call_with_the_same_result(name: str, at: tuple[int, str] | None) -> None:
    assert acts(name, "a") == at


@pytest.mark.parametrize(
    "name", ["OpenHands (old)", "OpenHands SDK", "OpenClaw (enabled)", "Crush", "Hermes (unattended)", "CrewAI"]
)
def test_those_that_look_at_results_let_a_changing_one_pass(name: str) -> None:
    assert acts(name, "A") is None


@pytest.mark.parametrize("name", ["gemini-cli", "Roo", "Cline", "qwen-code", "OpenRouter", "opencode", "DeerFlow"])
def test_those_that_do_not_stop_it(name: str) -> None:
    assert acts(name, "A") is not None


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("gemini-cli", 11),
        ("OpenHands SDK", 6),
        ("Roo", None),
        ("Cline", None),
        ("Crush", None),
        ("qwen-code", None),
        ("qwen-code (heuristics)", 6),
        ("OpenClaw (enabled)", 20),
        ("Hermes (unattended)", 10),
    ],
)
def test_two_that_alternate(name: str, at: int | None) -> None:
    found = acts(name, "ab")
    assert (found and found[0]) == at


@pytest.mark.parametrize(("name", "at"), [("gemini-cli", 26), ("Hermes (unattended)", None), ("OpenHands SDK", None)])
def test_a_cycle_of_five(name: str, at: int | None) -> None:
    found = acts(name, "abcde")
    assert (found and found[0]) == at


@pytest.mark.parametrize(
    ("name", "at"), [("Goose", 3), ("Cline", 3), ("Hermes (unattended)", 8), ("Roo", None), ("CrewAI", None)]
)
def test_one_failure_under_many_arguments(name: str, at: int | None) -> None:
    found = acts(name, "*", error=True)
    assert (found and found[0]) == at


def test_a_user_message_starts_anew_where_it_does() -> None:
    for name, kept in (
        ("Roo", False),
        ("gemini-cli", False),
        ("CrewAI", True),
        ("OpenRouter", True),
        ("DeerFlow", True),
    ):
        rule = RULES[name]([])
        found = None
        for _ in range(12):
            found = found or rule.round([Seen("t", {}, "same")]) in ("block", "stop")
            rule.user()
        assert bool(found) is kept, name


def test_equal_calls_of_one_round_count_once_where_they_do() -> None:
    rule = RULES["OpenRouter"]([])
    assert rule.round([Seen("t", {}, "same")] * 5) is None
    rule = RULES["Roo"]([])
    assert rule.round([Seen("t", {}, "same")] * 5) == "block"


def test_arguments_as_written_and_as_meant() -> None:
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    for name, at in (("Roo", 4), ("gemini-cli", 11)):  # a cycle of two for the one that keeps the order of keys
        rule = RULES[name]([])
        found = [rule.round([Seen("t", (one, other)[n % 2], "same")]) for n in range(20)]
        assert next(n for n, act in enumerate(found, 1) if act in ("block", "stop")) == at


def test_ends_of_sequences() -> None:
    assert [run_length(text) for text in ("", "a", "ba", "baa")] == [0, 1, 1, 2]
    assert [laps(text, 2) for text in ("", "b", "ab", "abab", "xabab", "babab")] == [0, 0, 1, 2, 2, 2]
    assert laps("aaaa", 1) == 4


def test_what_counts_as_caught() -> None:
    item = Item("exact", "here", onset=5)

    def judged(*acts: tuple[int, str]) -> tuple[bool, bool, int | None]:
        one = came(item, list(acts), 0.0, 10)
        return one.caught, one.acted, one.delay

    assert judged((5, "block")) == (True, True, 0)
    assert judged((9, "stop")) == (True, True, 4)
    assert judged((4, "stop")) == (False, True, None)  # a good run was stopped, no loop was found
    assert judged((3, "block"), (8, "stop")) == (True, True, 3)
    assert judged() == (False, False, None)


def test_each_agent_context_has_a_rule_of_its_own() -> None:
    steps = tuple(Step(tool="t", args={}, result="same", agent="ab"[n % 2], user_turn=1) for n in range(8))
    item = Item("exact", "here", run=RecordedRun("r", steps))
    done = by_rule(lambda polls: RULES["Roo"](polls), item, float("inf"))
    assert done is not None
    assert done[0] == [(6, "block"), (7, "block")]


def test_figures_go_into_their_part_of_the_document() -> None:
    text = (
        "before\n<!-- figures: rivals -->\nold\n<!-- end -->\nbetween\n<!-- figures: events -->\nkept\n<!-- end -->\n"
    )
    report = {"benchmark": "rivals", "versions": {"python": "3", "other": "not installed"}, "rows": []}
    made = filled(text, report)
    assert "old" not in made
    assert made.startswith("before\n<!-- figures: rivals -->\n\n| ")
    assert made.endswith("(python 3)\n\n<!-- end -->\nbetween\n<!-- figures: events -->\nkept\n<!-- end -->\n")
    with pytest.raises(ValueError, match="no part for the figures of splices"):
        filled(text, {**report, "benchmark": "splices"})
