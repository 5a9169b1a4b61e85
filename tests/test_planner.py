"""The plan: each call waits for every earlier one that it conflicts with, directly or through another, and no more."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchkeeper.planner import Plan, conflict, is_shared, overlap, split
from watchkeeper.tools import NOTHING, READS, WRITES, Effect, reads, writes

NAMES = st.sampled_from(["", "a", "a/b", "a/b/c", "a/c", "ab", "b", "b/a", "shared:", "shared:/a", "shared:/a/b", "/"])
EFFECTS = st.builds(
    Effect, st.lists(NAMES, max_size=2).map(tuple), st.lists(NAMES, max_size=2).map(tuple)
) | st.sampled_from([READS, WRITES, NOTHING])


def planned(effects: list[Effect]) -> list[tuple[int, ...]]:
    plan = Plan()
    return [plan.add(effect) for effect in effects]


def closure(waits: list[tuple[int, ...]]) -> list[set[int]]:
    """All calls that end before each one starts."""
    whole: list[set[int]] = []
    for direct in waits:
        whole.append(set(direct).union(*(whole[number] for number in direct)))
    return whole


@settings(max_examples=3 * settings().max_examples)
@given(st.lists(EFFECTS, max_size=12))
def test_the_plan_is_that_of_every_earlier_conflicting_call(effects: list[Effect]) -> None:
    plain = [
        tuple(number for number, earlier in enumerate(effects[:at]) if conflict(earlier, effect))
        for at, effect in enumerate(effects)
    ]
    waits = planned(effects)
    for at, direct in enumerate(waits):
        assert direct == tuple(sorted(set(direct)))
        assert set(direct) <= set(plain[at]), "waits for a call that it does not conflict with"
    assert closure(waits) == closure(plain)


@given(EFFECTS, EFFECTS)
def test_conflict_is_mutual(one: Effect, other: Effect) -> None:
    assert conflict(one, other) == conflict(other, one)
    shared = conflict(one, other, shared_only=True)
    assert shared <= conflict(one, other)
    assert shared == conflict(other, one, shared_only=True)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (reads("a"), reads("a"), False),
        (reads("a"), writes("a"), True),
        (writes("a"), writes("a"), True),
        (reads("a"), writes("a/b"), True),
        (reads("a/b"), writes("a"), True),
        (reads("a"), writes("ab"), False),
        (writes("a/b"), writes("a/c"), False),
        (reads(), writes("a/b/c"), True),
        (reads("a"), writes(), True),
        (NOTHING, WRITES, False),
        (reads("shared:/a"), writes("/a"), False),
        (reads("shared:/a"), writes("shared:/a/b"), True),
        (reads("a//b/"), writes("a/b"), True),
        (reads("db:users"), writes("db:users"), True),
        (reads("db:users"), writes("db"), False),
    ],
)
def test_what_conflicts(one: Effect, other: Effect, expected: bool) -> None:
    assert conflict(one, other) is expected
    assert conflict(other, one) is expected
    assert (planned([one, other])[1] == (0,)) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (writes("shared:/a"), reads("shared:/a"), True),
        (writes("a"), reads("a"), False),
        (writes("shared:/a"), WRITES, False),
        (writes("shared:/a", "b"), reads("b"), False),
        (writes("shared:"), reads("shared:/a"), True),
    ],
)
def test_what_conflicts_across_runs(one: Effect, other: Effect, expected: bool) -> None:
    assert conflict(one, other, shared_only=True) is expected
    assert conflict(other, one, shared_only=True) is expected


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("", ()),
        ("/", ()),
        ("a", ("a",)),
        ("/a//b/", ("a", "b")),
        ("shared:/a//b/", ("shared:", "a", "b")),
        ("shared:a", ("shared:", "a")),
        ("shared:", ("shared:",)),
        ("a/b:c", ("a", "b:c")),
        (":x", (":", "x")),
    ],
)
def test_names_are_paths(name: str, parts: tuple[str, ...]) -> None:
    assert split(name) == parts


def test_overlap_is_by_whole_parts() -> None:
    assert overlap((), ("a",))
    assert overlap(("a", "b"), ("a",))
    assert not overlap(("a", "b"), ("a", "c"))
    assert not overlap(("ab",), ("a",))


def test_only_whole_prefixes_are_shared() -> None:
    assert is_shared("shared:/a")
    assert not is_shared("shared/a")


def test_readers_writers_and_an_undeclared_call() -> None:
    """Readers side by side, a writer after what it conflicts with, an undeclared call alone."""
    effects = [reads("a"), reads("b"), writes("a"), reads("a"), WRITES, reads("b")]
    assert planned(effects) == [(), (), (0,), (2,), (1, 2, 3), (4,)]


def test_one_slow_call_holds_up_only_what_conflicts_with_it() -> None:
    assert planned([writes("slow"), writes("a"), reads("a"), writes("b"), reads("slow")]) == [(), (), (1,), (), (0,)]


def test_edits_of_one_file_go_in_order_and_others_beside_them() -> None:
    effects = [writes("f/a"), writes("f/b"), writes("f/a"), writes("f/b"), writes("f/a")]
    assert planned(effects) == [(), (), (0,), (1,), (2,)]


def test_a_call_never_waits_for_itself() -> None:
    assert planned([Effect(reads=("a",), writes=("a/b", "a", ""))]) == [()]


def test_a_search_sees_what_was_written_before_it() -> None:
    assert planned([writes("root/x"), reads("root"), writes("root/x"), reads("root/x")]) == [(), (0,), (0, 1), (2,)]


COUNT = 10_000
LONG = {
    "readers of everything": [READS] * COUNT,
    "writers of everything": [WRITES] * COUNT,
    "calls that touch nothing": [NOTHING] * COUNT,
    "readers of one name": [reads("a/b")] * COUNT,
    "writers of one name": [writes("a/b")] * COUNT,
    "readers of many names": [reads(f"d/{n}") for n in range(COUNT)],
    "writers of many names": [writes(f"d/{n}") for n in range(COUNT)],
    "a reader of a name, then one of everything": [reads(f"d/{n}") if n % 2 else READS for n in range(COUNT)],
    "a reader of everything, then a writer of everything": [WRITES if n % 2 else READS for n in range(COUNT)],
    "many readers, one writer, again and again": [WRITES if n % 100 == 0 else reads(f"d/{n}") for n in range(COUNT)],
    "deep names": [writes("/".join(map(str, range(n % 50)))) for n in range(COUNT)],
    "readers of everything, then writers of one name": [READS if n < COUNT // 2 else writes("f") for n in range(COUNT)],
    "readers after one writer": [WRITES, *[READS] * (COUNT - 1)],
}


@pytest.mark.parametrize("effects", LONG.values(), ids=LONG)
def test_a_long_batch_is_planned_in_linear_time(effects: list[Effect]) -> None:
    """Ten thousand calls within seconds on any machine (a quadratic plan takes minutes), and few waits each."""
    began = process_time()
    waits = planned(effects)
    assert process_time() - began < 5
    assert sum(map(len, waits)) <= 2 * COUNT


def test_a_chain_of_writers_waits_for_the_one_before_only() -> None:
    assert planned([writes("x")] * 5) == [(), (0,), (1,), (2,), (3,)]
