"""Equal calls: with equal results, and whatever the result. What other detectors say of them is not looked at here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from watched import Did, Watched, bad, failed, refused

from watchkeeper.thresholds import Steps, Thresholds

SAME = {3: [("nudge", "equal")], 5: [("block", "equal")], 8: [("stop", "equal")]}


@pytest.mark.parametrize(
    "did",
    [
        Did(),
        Did(content=""),
        Did(productive=True),
        Did(error="not_found"),
        Did(error="exit_1", content="exit 1"),
        Did(tool="write", content="ok"),
    ],
)
def test_equal_call_and_result_to_the_exact_count(did: Did) -> None:
    """LOOP-01, LOOP-02: a success that says nothing new is no progress, like an error."""
    assert Watched(only="equal equal_any").turns(10, did) == SAME


def test_a_call_that_fails_in_the_same_way_is_told_once_a_step() -> None:
    """LOOP-01"""
    said = Watched().turns(8, failed())
    assert {number: {action for action, _ in what} for number, what in said.items()} == {
        3: {"nudge"},
        5: {"block"},
        8: {"stop"},
    }
    assert [len(what) for what in said.values()] == [1, 1, 2]  # the last one by two detectors


def test_the_verdict_names_the_calls_and_the_outcome() -> None:
    watched = Watched(only="equal equal_any")
    watched.turns(3, Did(content="the answer"))
    (verdict,) = watched.verdicts
    finding = verdict.finding
    assert finding.calls == ("c1", "c2", "c3")
    assert finding.keys == ("look a",)
    assert (finding.count, finding.tool, finding.known) == (3, "look", "the answer")
    assert finding.onset == 3
    assert "the answer" in verdict.message


def test_it_names_the_last_eight_calls() -> None:
    watched = Watched(Thresholds(equal=Steps(12)), only="equal")
    watched.turns(12, Did())
    assert watched.verdicts[0].finding.calls == tuple(f"c{call}" for call in range(5, 13))


def test_who_only_observes_is_told_at_the_steps_and_now_and_then_beyond() -> None:
    watched = Watched(only="equal", mode="observe")
    watched.turns(17, Did())
    assert [finding.count for finding in watched.findings] == [3, 5, 8, 12, 16]


def test_a_changed_result_begins_anew() -> None:
    """POLL-01: what changes may be progress."""
    watched = Watched(only="equal equal_any")
    assert all(watched.turn(Did(content=f"{n} mm of it")) == [] for n in range(19))
    assert watched.turns(2, Did(content="done")) == {1: [("nudge", "equal_any")]}
    assert watched.turn(Did(content="done")) == [("nudge", "equal")]


def test_another_call_between_begins_anew() -> None:
    watched = Watched(only="equal equal_any")
    for _ in range(2):
        assert watched.turns(2, Did()) == {}
        assert watched.turn(Did(arguments="b")) == []
    assert watched.turns(3, Did()) == {3: [("nudge", "equal")]}


def test_a_parallel_fan_out_counts_once() -> None:
    """Eight equal calls in one turn are one piece of evidence, not eight."""
    watched = Watched(only="equal equal_any")
    assert watched.turns(2, *[Did()] * 8) == {}
    assert watched.turn(*[Did()] * 8) == [("nudge", "equal")]
    assert watched.verdicts[0].finding.count == 3


def test_a_call_among_others_in_its_turns_is_seen() -> None:
    watched = Watched(only="equal equal_any")
    said = {n: watched.turn(Did(), Did(arguments=f"b{n}"), Did("read", "c", f"{n}")) for n in range(1, 9)}
    assert {number: what for number, what in said.items() if what} == SAME


def test_two_calls_that_repeat_side_by_side_climb_side_by_side() -> None:
    watched = Watched(only="equal equal_any")
    said = watched.turns(3, Did("look"), Did("read"))
    assert said == {3: [("nudge", "equal"), ("nudge", "equal")]}
    assert {verdict.finding.tool for verdict in watched.verdicts} == {"look", "read"}


def test_the_order_of_the_ends_does_not_matter() -> None:
    calls = (Did("look"), Did("read", content="x"), failed("find"))
    one, other = Watched(only="equal equal_any"), Watched(only="equal equal_any")
    for turn in range(8):
        assert one.turn(*calls) == other.turn(*calls, order=(2, 0, 1)), turn


@pytest.mark.parametrize("by", ["block", "equal"])
def test_our_own_refusals_count_as_equal_pairs(by: str) -> None:
    watched = Watched(only="equal equal_any")
    watched.turns(3, Did(content="the answer"))
    said = {n: watched.turn(refused(by, text=f"refused for the {n}th time")) for n in range(4, 9)}
    assert {number: what for number, what in said.items() if what} == {5: SAME[5], 8: SAME[8]}
    assert watched.verdicts[-1].finding.known == "the answer"


def test_a_result_from_memory_counts_as_an_equal_pair() -> None:
    """The duplicate guard answers in words of its own; the result is that of the first call."""
    watched = Watched(only="equal equal_any")
    assert watched.turn(Did(content="the answer")) == []
    said = {
        n: watched.turn(
            Did(content=f"You made this call in turn 1 ({n}): the answer", by="duplicate", reused_from="c1")
        )
        for n in range(2, 9)
    }
    assert {number: what for number, what in said.items() if what} == SAME
    assert watched.verdicts[-1].finding.known == "the answer"


def test_equal_reads_of_a_batch_that_share_a_result_are_one_pair() -> None:
    watched = Watched(only="equal equal_any")
    said = {}
    for n in range(1, 9):
        content = "old" if n < 4 else "new"
        said[n] = watched.turn(Did(content=content), Did(content=content, reused_from="c1"))
    assert {number: what for number, what in said.items() if what} == {
        3: [("nudge", "equal")],
        6: [("nudge", "equal")],
        8: [("block", "equal")],
    }


def test_refusals_are_the_same_whatever_their_words() -> None:
    """Of a guard that says how long to wait, of a tool that is not there, of arguments that do not fit."""
    for did in (
        lambda n: refused("interval", text=f"again in {n} seconds", error="too_soon"),
        lambda n: refused("policy", text=f"not allowed {n}", error="denied", kind="denied"),
        lambda n: refused("unknown_tool", tool="made_up", text=f"no such tool {n}"),
    ):
        watched = Watched(only="equal equal_any")
        said = {n: watched.turn(did(n)) for n in range(1, 9)}
        assert {number: what for number, what in said.items() if what} == SAME


def test_a_refusal_that_does_not_repeat_what_is_known_is_another_result() -> None:
    watched = Watched(only="equal equal_any")
    watched.turns(2, Did())
    assert watched.turn(refused("interval", error="too_soon")) == []
    assert watched.turns(3, Did()) == {3: [("nudge", "equal")]}


def test_calls_that_never_ran_are_no_evidence() -> None:
    for kind in ("cancelled", "abandoned", "not_run"):
        assert Watched(only="equal equal_any").turns(10, Did(kind=kind)) == {}


def test_what_a_tool_declares_as_its_result_is_compared() -> None:
    watched = Watched(only="equal equal_any")
    said = {n: watched.turn(Did(content=f"at {n}: busy", result_key="busy")) for n in range(1, 9)}
    assert {number: what for number, what in said.items() if what} == SAME


def test_a_user_message_makes_the_windows_fresh() -> None:
    watched = Watched(only="equal equal_any")
    watched.turns(4, Did())
    watched.user()
    assert watched.turns(8, Did()) == SAME


def test_contexts_are_apart() -> None:
    watched = Watched(only="equal equal_any")
    for number in range(1, 9):
        for context in ("one", "two"):
            watched.context = context
            assert watched.turn(Did()) == SAME.get(number, []), (number, context)


def test_the_thresholds_are_the_callers() -> None:
    watched = Watched(Thresholds(equal=Steps(6, None, 9)), only="equal equal_any")
    assert watched.turns(10, Did()) == {6: [("nudge", "equal")], 9: [("stop", "equal")]}


def test_an_episode_that_comes_again_climbs_anew() -> None:
    watched = Watched(only="equal equal_any")
    assert watched.turns(5, Did()) == {3: SAME[3], 5: SAME[5]}
    assert watched.turn(Did(arguments="other")) == []
    watched.user()
    assert watched.turns(5, Did()) == {3: SAME[3], 5: SAME[5]}


# -- whatever the result --------------------------------------------------------------------------------------------


def test_an_equal_call_with_any_result_has_a_much_higher_bar() -> None:
    """POLL-05: a clock that is read for ever."""
    watched = Watched(only="equal equal_any")
    said = {n: watched.turn(Did(content=str(n))) for n in range(1, 62)}
    assert {number: what for number, what in said.items() if what} == {
        20: [("nudge", "equal_any")],
        45: [("block", "equal_any")],
        60: [("stop", "equal_any")],
    }
    assert "wait once, with a deadline" in watched.verdicts[0].message
    assert watched.verdicts[0].finding.count == 20


def test_that_names_the_last_eight_calls_and_the_last_result() -> None:
    watched = Watched(only="equal_any")
    for n in range(20):
        watched.turn(Did(content=f"{n} " * 300))
    (found,) = watched.findings
    assert found.calls == tuple(f"c{call}" for call in range(13, 21))
    assert (found.onset, found.known) == (3, ("19 " * 300)[:400])


def test_another_call_between_begins_that_anew_too() -> None:
    watched = Watched(only="equal_any")
    assert all(watched.turn(Did(content=str(n))) == [] for n in range(19))
    assert watched.turn(Did(arguments="b")) == []
    assert all(watched.turn(Did(content=str(n))) == [] for n in range(19))
    assert watched.turn(Did(content="x")) == [("nudge", "equal_any")]
    watched.turn(Did(arguments="b"))
    assert all(watched.turn(Did(content=str(n))) == [] for n in range(19))
    assert watched.turn(Did(content="x")) == [("nudge", "equal_any")]


def test_it_begins_to_speak_at_its_least_step() -> None:
    watched = Watched(Thresholds(equal_any=Steps(None, 5, 9)), only="equal equal_any")
    said = {n: watched.turn(Did(content=str(n))) for n in range(1, 10)}
    assert {number: what for number, what in said.items() if what} == {
        5: [("block", "equal_any")],
        9: [("stop", "equal_any")],
    }


def test_polls_are_left_alone_here() -> None:
    watched = Watched(polls=("look",), only="equal equal_any")
    assert watched.turns(61, Did()) == {}
    assert all(watched.turn(Did(content=str(n))) == [] for n in range(70))


def test_bad_arguments_that_are_equal_are_an_equal_call() -> None:
    watched = Watched()
    said = watched.turns(5, bad())
    assert said[3] == [("nudge", "equal")]
    assert said[5][0][0] == "stop"


PROSE = [
    "the harbour was empty when the ferry came in",
    "nobody had told the keeper about the second light",
    "rain fell across seven valleys before evening",
    "their letters arrived together with the autumn catalogue",
]


@pytest.mark.parametrize(
    "page",
    [
        lambda n: f"Showing page {n} of 200.\nIt says {n * 7919 % 1000}.",
        lambda n: f'{{"page": {n}, "file": "scan_{n:03}.tif", "size_kb": {n * 7919 % 1000}}}',
        lambda n: f"Epoch {n}: loss {n * 7919 % 1000}",
        lambda n: f"processed={n} so far, {n * 7919 % 1000} ms",
        lambda n: f"epoch {n:3}/200 [{'#' * (n // 10)}] loss={2 / n:.4f}",
        lambda n: f"{n // 2} % done, at {n * 31 % 977} KB/s",
    ],
)
def test_more_of_a_whole_than_ever_is_progress(page: Callable[[int], str]) -> None:
    """It has an end of its own; what goes round in it, or stands still, has none."""
    watched = Watched(only="equal_any")
    assert all(watched.turn(Did(content=page(n))) == [] for n in range(1, 200))
    assert [("nudge", "equal_any")] in [watched.turn(Did(content=page(n % 7 + 1))) for n in range(1, 21)]


def test_a_whole_that_grows_along_has_no_end() -> None:
    watched = Watched(only="equal_any")
    said = {n: watched.turn(Did(content=f"{n} of {2 * n} looked at")) for n in range(1, 50)}
    assert {number: what for number, what in said.items() if what} == {
        20: [("nudge", "equal_any")],
        45: [("block", "equal_any")],
    }


def test_other_words_count_for_less_than_other_numbers() -> None:
    watched = Watched(only="equal_any")
    said = {n: watched.turn(Did(content=PROSE[n % len(PROSE)])) for n in range(1, 62)}
    assert {number: what for number, what in said.items() if what} == {56: [("nudge", "equal_any")]}
