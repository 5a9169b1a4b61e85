"""The judge: what a round is, which word is said, and that a detector that fails takes nobody with it."""

from __future__ import annotations

import gc
import hashlib
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched import Did, Watched, bad, failed, refused

from watchkeeper.detect.judge import BUILT_IN, Judge
from watchkeeper.detect.recent import Recent
from watchkeeper.detect.round import Ring, Round
from watchkeeper.fingerprint import call_key
from watchkeeper.ladder import GuardMode, steps_of
from watchkeeper.messages import (
    Call,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    Event,
    Finding,
    ModelReplied,
    Result,
    RunStarted,
    UserMessage,
    Verdict,
)
from watchkeeper.thresholds import Thresholds
from watchkeeper.wording import Wording

SAME = {3: [("nudge", "equal")], 5: [("block", "equal")], 8: [("stop", "equal")]}


def propose(watched: Watched, call_id: str, did: Did, slot: int = 0) -> None:
    assert watched.tell(CallProposed, slot=slot, call_id=call_id, tool=did.tool, arguments=did.arguments) == []


# -- rounds -----------------------------------------------------------------------------------------------------------


def test_facts_without_turns_are_a_round_each() -> None:
    """Recorded runs: a call proposed, a call ended, and no reply of a model."""
    watched = Watched()
    said = {}
    for number in range(1, 9):
        propose(watched, f"c{number}", Did())
        said[number] = watched.end(f"c{number}", Did())
    assert {number: what for number, what in said.items() if what} == SAME


def test_ends_alone_are_enough() -> None:
    watched = Watched()
    said = {number: watched.end(f"c{number}", Did()) for number in range(1, 9)}
    assert {number: what for number, what in said.items() if what} == SAME


def test_without_keys_tool_and_arguments_are_compared() -> None:
    watched = Watched()

    def end(arguments: str, tool: str = "look") -> list[tuple[str, str]]:
        return watched.tell(CallEnded, result=Result("c", tool, "finished", "x"), arguments=arguments)

    assert end("a") == end("a") == []
    assert end("a") == [("nudge", "equal")]
    assert end("b") == end("a") == end("a", "read") == []


def test_a_round_is_judged_when_it_is_whole() -> None:
    watched = Watched()
    watched.turns(2, Did(), Did("read"))
    calls = (Call("x", "look", "a", 1), Call("y", "read", "a", 2))
    watched.tell(ModelReplied, text="", calls=calls)
    propose(watched, "x", Did(), 1)
    propose(watched, "y", Did("read"), 2)
    assert watched.end("y", Did("read"), 2) == []
    assert watched.end("x", Did(), 1) == [("nudge", "equal"), ("nudge", "equal")]


def test_a_call_that_ends_before_the_next_is_proposed_does_not_make_the_round_whole() -> None:
    """As with calls that are refused at once: the reply says how many there will be."""
    watched = Watched()
    watched.turns(2, Did(), Did("read"))
    watched.tell(ModelReplied, text="", calls=(Call("x", "look", "a", 1), Call("y", "read", "a", 2)))
    propose(watched, "x", Did(), 1)
    assert watched.end("x", Did(), 1) == []
    propose(watched, "y", Did("read"), 2)
    assert len(watched.end("y", Did("read"), 2)) == 2


def test_a_reply_that_was_not_stored_announces_no_calls() -> None:
    watched = Watched()
    watched.turns(2, Did())
    watched.tell(ModelReplied, text="", calls=(Call("x", "look", "a", 1), Call("y", "look", "b", 2)), stored=False)
    assert watched.turn(Did()) == [("nudge", "equal")]


def test_what_is_left_of_a_turn_that_was_broken_off_belongs_to_no_round() -> None:
    """Neither calls that ended nor such that never did: the next round is whole when its own calls have ended."""
    for last in (1, 0):
        watched = Watched()
        watched.turn(Did(), Did())
        watched.tell(ModelReplied, text="", calls=(Call("x", "look", "z", 1), Call("y", "look", "y", 2)))
        propose(watched, "x", Did(arguments="z"), 1)
        if last:
            watched.end("x", Did(arguments="z"), 1)
        watched.tell(ModelReplied, text="", calls=(Call("v", "look", "a", 1), Call("w", "look", "a", 2)))
        for slot, call_id in enumerate("vw", 1):
            propose(watched, call_id, Did(), slot)
            assert watched.end(call_id, Did(), slot) == []
        assert watched.turn(Did()) == [("nudge", "equal")]


def test_a_user_message_in_the_middle_of_a_round_keeps_the_round() -> None:
    watched = Watched()
    watched.turns(2, Did())
    watched.tell(ModelReplied, text="", calls=(Call("x", "look", "a", 1),))
    propose(watched, "x", Did(), 1)
    watched.user()
    assert watched.end("x", Did(), 1) == []
    assert watched.turns(2, Did()) == {2: [("nudge", "equal")]}


def test_a_turn_in_which_nothing_ran_is_no_round() -> None:
    watched = Watched()
    watched.turns(2, Did())
    watched.turn(Did(kind="not_run"), Did(kind="cancelled"))
    assert watched.turn(Did()) == [("nudge", "equal")]


def test_a_run_that_starts_forgets_what_was_before() -> None:
    watched = Watched()
    watched.turns(2, Did())
    watched.tell(RunStarted, agent="a", task="t", polls=("look",))
    assert watched.turns(9, Did()) == {}


# -- which word -------------------------------------------------------------------------------------------------------


def test_two_detectors_that_see_the_same_say_it_once() -> None:
    """LOOP-01: equal and failing both see a call that fails the same way again and again."""
    watched = Watched()
    said = watched.turns(8, failed())
    assert {number: len(what) for number, what in said.items()} == {3: 1, 5: 1, 8: 2}
    assert [action for action, _ in said[3] + said[5]] == ["nudge", "block"]
    assert {action for action, _ in said[8]} == {"stop"}


def test_a_stop_comes_before_all_other_words() -> None:
    watched = Watched()
    for number in range(1, 8):
        watched.turn(Did("read"), *([failed("find", str(number))] if number > 5 else []))
    said = watched.turn(failed("find", "last"), Did("read"))
    assert [action for action, _ in said] == ["stop", "nudge"]


@pytest.mark.parametrize("calls", [1, 3, 4, 100])
def test_a_fan_out_does_not_become_a_flood_of_messages(calls: int) -> None:
    """Up to three calls of a turn have a word each; more of them have one together."""
    watched = Watched()
    fan = [Did(arguments=str(number)) for number in range(calls)]
    said = watched.turns(8, *fan)
    each = calls if calls <= 3 else 1
    assert {number: len(what) for number, what in said.items()} == {3: each, 5: each, 8: each}
    blocked = [key for verdict in watched.verdicts if verdict.action == "block" for key in verdict.finding.keys]
    assert sorted(blocked) == sorted(f"look {number}" for number in range(calls))
    assert all(len(verdict.finding.calls) <= 64 for verdict in watched.verdicts)
    if calls > 3:
        assert f"So have {calls - 1} other calls of that turn." in watched.verdicts[0].message


def test_what_is_blocked_is_not_blocked_again() -> None:
    watched = Watched()
    watched.turns(5, bad())
    assert [verdict.action for verdict in watched.verdicts].count("block") <= 1


def test_the_reason_of_a_stop_is_that_of_its_detector() -> None:
    watched = Watched()
    watched.turns(8, failed())
    reasons = {verdict.finding.detector: verdict.reason for verdict in watched.verdicts if verdict.action == "stop"}
    assert reasons == {"equal": "loop", "failing": "tool_failing"}


@pytest.mark.parametrize(("mode", "actions", "findings"), [("enforce", 3, 3), ("nudge", 1, 1), ("observe", 0, 3)])
def test_modes(mode: GuardMode, actions: int, findings: int) -> None:
    """Who only observes gets every finding and no verdict. Findings are made at the steps, not at every count."""
    watched = Watched(mode=mode)
    watched.turns(10, Did())
    assert len(watched.verdicts) == actions
    assert len(watched.findings) == findings
    assert [verdict.action for verdict in watched.verdicts] == ["nudge", "block", "stop"][:actions]


def test_the_verdict_carries_its_message_and_its_finding() -> None:
    watched = Watched()
    watched.turns(3, Did(content="the answer"))
    (verdict,) = watched.verdicts
    assert isinstance(verdict, Verdict)
    assert verdict.message.startswith("The same call of look has given the same result 3 times.")


def test_findings_of_others_are_ruled_on() -> None:
    judge = Judge()
    verdict = judge.rule(Finding(detector="silence", pattern="nothing for 120 s", count=1))
    assert verdict is not None
    assert (verdict.action, verdict.reason) == ("stop", "silence")
    assert judge.rule(Finding(detector="of others", pattern="x", count=1)) is None


def test_asking_changes_nothing() -> None:
    """LOOP-07"""
    watched = Watched()
    watched.turns(2, Did())
    boards = {str(watched.judge.scoreboard()) for _ in range(1000)}
    assert len(boards) == 1
    assert watched.turn(Did()) == [("nudge", "equal")]
    assert watched.judge.scoreboard() == {"window": 30, "switched_off": [], "climbed": {"equal": (1, 3)}}


DIDS = st.builds(
    Did,
    st.sampled_from(["look", "read"]),
    st.sampled_from("ab"),
    st.sampled_from(["same", "other"]),
    kind=st.sampled_from(["finished", "failed", "timed_out", "refused", "denied", "not_run"]),
    by=st.sampled_from([None, "block", "equal", "duplicate"]),
    error=st.sampled_from([None, "x", "bad_arguments"]),
    reused_from=st.sampled_from([None, "c1"]),
)


@given(st.lists(st.lists(DIDS, min_size=1, max_size=3), max_size=25), st.randoms())
def test_equal_facts_give_equal_answers_whatever_the_order_of_the_ends(turns: list[list[Did]], chance: Any) -> None:
    one, other = Watched(polls=("read",)), Watched(polls=("read",))
    for calls in turns:
        order = list(range(len(calls)))
        chance.shuffle(order)
        assert one.turn(*calls) == other.turn(*calls, order=order)
    assert [verdict.action for verdict in one.verdicts] == [verdict.action for verdict in other.verdicts]


@given(st.lists(st.lists(DIDS, min_size=1, max_size=3) | st.none(), max_size=40))
def test_a_stop_never_comes_before_a_word(turns: list[list[Did] | None]) -> None:
    """Whatever happens: of each detector the nudge comes first, ceilings excepted."""
    watched = Watched()
    told: set[str] = set()
    for calls in turns:
        if calls is None:
            watched.user()
            told.clear()
            continue
        for action, detector in watched.turn(*calls):
            if action == "nudge":
                told.add("any")
            else:
                assert told or detector == "breaker"
    assert watched.failed == []


def test_only_facts_that_matter_are_looked_at() -> None:
    watched = Watched()
    assert watched.tell(CallAdmitted, call_id="c", tool="look", key="k") == []
    assert watched.tell(CallStarted, call_id="c", tool="look") == []
    assert watched.turns(3, Did()) == {3: [("nudge", "equal")]}


def test_contexts_are_bounded() -> None:
    watched = Watched()
    for number in range(500):
        watched.context = f"agent {number}"
        watched.turn(Did())
    assert len(watched.judge._desks) <= 64


# -- detectors of third parties ---------------------------------------------------------------------------------------


class Counting:
    """Finds something in every round."""

    name = "counting"

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self.count = 0

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        self.count += 1
        return [Finding(detector=self.name, pattern="a round", count=self.count, tool="look")]


class Raising(Counting):
    name = "raising"
    rounds: ClassVar[list[str]] = []

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        Raising.rounds.append(round.first.tool)
        raise KeyError("a defect")


class Late(Counting):
    name = "late"

    def round(self, round: Round, ring: Ring) -> Iterator[Finding]:
        yield Finding(detector=self.name, pattern="a round", count=3)
        raise ValueError("in the middle")


class Wrong(Counting):
    name = "wrong"

    def round(self, round: Round, ring: Ring) -> Any:
        return ["no finding"]


class Nothing(Counting):
    name = "nothing"

    def round(self, round: Round, ring: Ring) -> Any:
        return None


class Unmade(Counting):
    name = "unmade"

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        raise RuntimeError("cannot be made")


class Nameless:
    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        pass


def test_a_detector_of_a_third_party_climbs_by_the_steps_of_equal() -> None:
    watched = Watched(extra=[Counting], only="counting equal")
    said = {n: watched.turn(Did(arguments=str(n))) for n in range(1, 10)}
    assert {number: what for number, what in said.items() if what} == {
        3: [("nudge", "counting")],
        5: [("block", "counting")],
        8: [("stop", "counting")],
    }


@pytest.mark.parametrize(
    ("detector", "error"),
    [
        (Raising, "KeyError: 'a defect'"),
        (Late, "ValueError: in the middle"),
        (Wrong, "TypeError: what it returned is no finding"),
        (Nothing, "TypeError: 'NoneType' object is not iterable"),
        (Unmade, "RuntimeError: cannot be made"),
    ],
)
def test_a_detector_that_fails_is_switched_off_and_reported_once(detector: Any, error: str) -> None:
    watched = Watched(extra=[detector, Counting], fails=True)
    said = {n: watched.turn(Did()) for n in range(1, 9)}
    assert watched.failed == [(detector.name, error)]
    assert watched.judge.scoreboard()["switched_off"] == [detector.name]
    assert ("stop", "equal") in said[8]
    assert ("stop", "counting") in said[8]
    watched.user()
    watched.context = "another"
    watched.turn(Did())
    assert len(watched.failed) == 1


def test_a_detector_without_a_name_is_switched_off_too() -> None:
    watched = Watched(extra=[Nameless], fails=True)  # type: ignore[list-item]  # it has no name
    watched.turns(3, Did())
    assert [name for name, _ in watched.failed] == ["Nameless"]


def test_it_is_switched_off_everywhere() -> None:
    """Also where it has not failed yet."""
    Raising.rounds.clear()
    watched = Watched(extra=[Raising], fails=True)
    watched.context = "one"
    watched.turn(Did(kind="not_run"))  # a desk is opened; nothing is judged
    watched.context = "two"
    watched.turn(Did("read"))
    watched.context = "one"
    watched.turn(Did())
    assert Raising.rounds == ["read"]


def test_every_detector_is_made_anew_for_a_user_message() -> None:
    watched = Watched(extra=[Counting])
    watched.turns(2, Did())
    watched.user()
    assert [watched.turn(Did(arguments=name)) for name in "abc"] == [[], [], [("nudge", "counting")]]


def test_detectors_that_have_heard_nothing_are_kept_for_what_the_user_says_first() -> None:
    made = []

    class Made(Counting):
        def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
            super().__init__(thresholds, polls)
            made.append(self)

    watched = Watched(extra=[Made])
    watched.tell(RunStarted, agent="a", task="t")
    watched.user()
    watched.turn(Did())
    assert [one.count for one in made] == [1]
    watched.user()
    watched.turn(Did())
    assert [one.count for one in made] == [1, 1]


def test_built_in_detectors_keep_their_state_in_bounds() -> None:
    """After ten thousand different calls none of them holds more than a few hundred things."""
    watched = Watched(polls=("poll",))
    for number in range(3000):
        watched.turn(
            Did("look", str(number)), failed(f"t{number}", str(number)), Did("poll", str(number)), bad(f"b{number}")
        )
    desk = watched.judge._desks["main"]
    assert len(desk.detectors) == len(BUILT_IN)
    sizes = [
        len(value)
        for thing in (*desk.detectors, desk.ring, desk.ring.recent)
        for value in gc.get_referents(thing)
        if isinstance(value, dict | list | set | tuple | deque)
    ]
    assert len(sizes) > 20
    assert max(sizes) <= 256


def test_messages_of_the_refusing_guard_do_not_reset_anything() -> None:
    watched = Watched()
    said = {n: watched.turn(refused("equal", text=f"proposal {n}") if n > 1 else Did(content="x")) for n in range(1, 9)}
    assert {number: what for number, what in said.items() if what} == SAME


# -- whatever comes ---------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=60) | st.sampled_from(
    ["", "\ud800", "\x00", "[" * 2000, '{"a":' * 997 + "1" + "}" * 997, "\x1b[" * 50, "running", "pid 3", "x: 1,024"]
)
ENDS = st.builds(
    CallEnded,
    n=st.integers(-3, 2**40),
    run=st.just("r"),
    at=st.just(0.0),
    t=st.floats(),
    context=st.sampled_from(["main", "other", ""]),
    slot=st.integers(-3, 10),
    result=st.builds(
        Result,
        TEXTS,
        TEXTS,
        st.sampled_from(["finished", "failed", "timed_out", "refused", "denied", "not_run", "cancelled", "abandoned"]),
        TEXTS,
        error=st.none() | TEXTS,
        by=st.none() | st.sampled_from(["block", "equal", "duplicate", "unknown_tool"]) | TEXTS,
        reused_from=st.none() | TEXTS,
    ),
    key=TEXTS,
    arguments=TEXTS,
    result_key=TEXTS,
    detail=TEXTS,
)
REPLIES = st.builds(
    ModelReplied,
    n=st.integers(-3, 2**40),
    run=st.just("r"),
    at=st.just(0.0),
    t=st.floats(),
    text=TEXTS,
    reasoning=TEXTS,
    calls=st.lists(st.builds(Call, TEXTS, TEXTS, TEXTS, st.integers(0, 5)), max_size=3).map(tuple),
    finish=st.sampled_from(["stop", "length", "chant", ""]),
    stored=st.booleans(),
)
PROPOSALS = st.builds(
    CallProposed,
    **{"n": st.integers(0, 99), "run": st.just("r"), "at": st.just(0.0), "t": st.floats()},
    call_id=TEXTS,
    tool=TEXTS,
    arguments=TEXTS,
)


@given(st.lists(ENDS | REPLIES | PROPOSALS, max_size=30))
def test_whatever_comes_nothing_raises_and_nobody_fails(events: list[Event]) -> None:
    judge = Judge()
    for event in events:
        judged = judge.observe(event)
        assert judged is None or judged.failed == []


@given(st.lists(ENDS, min_size=1, max_size=12))
def test_nor_where_all_of_it_comes_again_and_again(events: list[CallEnded]) -> None:
    judge = Judge()
    for event in events * 4:
        judged = judge.observe(event)
        assert judged is None or judged.failed == []


@pytest.mark.parametrize("size", [0, 100, 10_000_000])
def test_huge_results_and_arguments_are_judged_like_others(size: int) -> None:
    watched = Watched()
    said = watched.turns(8, Did(arguments=f'{{"a":"{"x" * size}"}}', content="y" * size))
    assert said == SAME


def test_a_recogniser_that_fails_is_switched_off_and_calls_are_compared_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ticking(number: int) -> Did:
        return Did(arguments=f'{{"q":"cats","attempt":{number}}}', content=f"took {number} ms")

    recognised = Watched()
    for number in range(8):
        recognised.turn(ticking(number))
    assert ("stop", "equal") in [(verdict.action, verdict.finding.detector) for verdict in recognised.verdicts]

    def broken(*given: Any) -> Any:
        raise LookupError("a defect")

    monkeypatch.setattr(Recent, "recognise", broken)
    watched = Watched(fails=True)
    assert [watched.turn(ticking(number)) for number in range(8)] == [[]] * 8
    assert watched.failed == [("recent", "LookupError: a defect")]
    assert watched.judge.scoreboard()["switched_off"] == ["recent"]
    assert watched.turns(8, Did()) == SAME
    watched.user()
    watched.context = "another"
    assert watched.turns(8, Did()) == SAME
    assert len(watched.failed) == 1  # it is reported once


# -- what it holds ----------------------------------------------------------------------------------------------------

CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.MappingProxyType)


def reached(roots: Iterable[Any], shared: set[int], within: tuple[type, ...] | None = None) -> Iterator[Any]:
    """All objects that are reached from these (through objects of these kinds), code and what is shared left out."""
    seen, waiting = set(shared), list(roots)
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, CODE):
            continue
        seen.add(id(one))
        yield one
        if within is None or isinstance(one, within):
            waiting += gc.get_referents(one)
            if isinstance(one, msgspec.Struct):  # not known to the collector
                waiting += [getattr(one, name) for name in one.__struct_fields__]


def constants() -> set[int]:
    """What lives without any judge: constants of modules and classes, with all in them."""
    roots = [value for module in list(sys.modules.values()) for value in vars(module).values()]
    roots += [value for kind in roots if isinstance(kind, type) for value in vars(kind).values()]
    return {id(one) for one in reached(roots, set(), (dict, list, tuple, set, frozenset, msgspec.Struct))}


def different(number: int) -> CallEnded:
    """A call like no other, with a result of 1 KB like no other."""
    content = "".join(hashlib.sha256(f"{number} {part}".encode()).hexdigest() + "\n" for part in range(16))[:1024]
    arguments = f'{{"path":"src/part_{number}.py","line":{number * 7}}}'
    result = Result(f"call_{number}", f"tool_{number % 7}", "finished", content)
    key = call_key(result.tool, arguments.encode() * 2)
    return CallEnded(n=number, run="r", at=0.0, t=float(number), result=result, key=key, arguments=arguments)


def fresh_judge() -> tuple[Judge, set[int]]:
    """A judge, and what it shares with all others of its process: constants, settings, what is made once."""
    thresholds, wording = Thresholds(), Wording()
    judge = Judge(thresholds, wording=wording)
    for number in range(1, 200):
        judge.observe(different(number))
    settings = (thresholds, steps_of(thresholds), wording)
    shared = constants() | {id(one) for one in reached(settings, set())}
    return Judge(thresholds, wording=wording), shared


def test_a_judge_holds_no_more_than_40_kb() -> None:
    """Objects of its own, all told, after 5,000 events that are all different."""
    judge, shared = fresh_judge()
    for number in range(1, 5_001):
        judge.observe(different(number))
    assert sum(map(sys.getsizeof, reached([judge], shared))) <= 40 * 1024


def test_what_it_holds_does_not_grow() -> None:
    (judge, shared), sizes = fresh_judge(), []
    for number in range(1, 6_001):
        judge.observe(different(number))
        if number % 1_000 == 0:
            sizes.append(sum(map(sys.getsizeof, reached([judge], shared))))
    assert max(sizes) <= 1.1 * sizes[0]


def test_events_that_are_not_ours_are_ignored() -> None:
    class Foreign(Event, tag="foreign"):
        pass

    assert Judge().observe(Foreign(n=1, run="r", at=0.0, t=0.0)) is None
    assert Judge().observe(UserMessage(n=1, run="r", at=0.0, t=0.0, text="hi")) is None
