"""One target worked on again and again, with no look at what came of it."""

from __future__ import annotations

import json

import pytest
from watched import Did, Watched, failed, refused, steps_by

from watchkeeper.detect.churn import target_of
from watchkeeper.thresholds import Steps, Thresholds

CHURN = steps_by("churn")
NUDGE = min(CHURN)


def told(watched: Watched, *dids: Did) -> dict[int, list[tuple[str, str]]]:
    said = {number: watched.turn(did) for number, did in enumerate(dids, 1)}
    return {number: what for number, what in said.items() if what}


def write(number: int, path: str = "notes.txt", tool: str = "write", content: str = "ok") -> Did:
    return Did(tool, json.dumps({"path": path, "content": f"version {number} of it"}), content)


def test_one_file_written_again_and_again() -> None:
    watched = Watched(only="churn")
    assert told(watched, *(write(number) for number in range(max(CHURN) + 1))) == CHURN
    assert watched.verdicts[0].finding.keys == ("tool:write",)


def test_it_names_the_last_calls_and_what_they_were_told() -> None:
    watched = Watched(only="churn")
    told(watched, Did("read"), *(write(number, content="ok" * 300) for number in range(NUDGE)))
    (found,) = watched.findings
    assert found.calls == tuple(f"c{number}" for number in range(NUDGE - 6, NUDGE + 2))
    assert (found.count, found.onset, found.known) == (NUDGE, 6, "ok" * 200)


def test_writes_that_are_refused_count_on_once_it_is_blocked() -> None:
    nudge, block, stop = CHURN
    watched = Watched(only="churn")
    assert told(watched, *(write(number) for number in range(block))) == {nudge: CHURN[nudge], block: CHURN[block]}
    blocked = [refused("block", "write", str(number)) for number in range(stop - block)]
    assert told(watched, *blocked) == {stop - block: CHURN[stop]}


def test_a_refusal_of_another_tool_is_none_of_it() -> None:
    block, stop = sorted(CHURN)[1:]
    watched = Watched(only="churn")
    told(watched, *(write(number) for number in range(block)))
    assert told(watched, *(refused("block", "read", str(number)) for number in range(stop))) == {}


def test_a_refusal_before_its_block_is_for_something_else() -> None:
    watched = Watched(only="churn")
    told(watched, *(write(number) for number in range(NUDGE)))
    assert told(watched, refused("block", "write"), *(write(number) for number in range(NUDGE - 1))) == {}


def test_where_nothing_is_blocked_a_refusal_is_no_write() -> None:
    watched = Watched(Thresholds(churn=Steps(3, None, 6)), only="churn")
    assert told(watched, *(write(number) for number in range(3))) == {3: CHURN[NUDGE]}
    assert told(watched, *(refused("block", "write", str(number)) for number in range(9))) == {}


def test_another_target_in_between_begins_anew() -> None:
    watched = Watched(only="churn")
    paths = ("a.txt" if number % 5 else "b.txt" for number in range(40))
    assert told(watched, *(write(number, path) for number, path in enumerate(paths))) == {}


def test_many_files_are_work() -> None:
    assert told(Watched(only="churn"), *(write(number, f"notes_{number}.txt") for number in range(40))) == {}


@pytest.mark.parametrize(
    "look",
    [Did("read", '{"path":"notes.txt"}', "what stands there"), Did("test", "{}", "all pass"), failed("write", "{}")],
)
def test_a_look_at_what_came_of_it_begins_anew(look: Did) -> None:
    turns = (look if number % NUDGE == NUDGE - 1 else write(number) for number in range(60))
    assert told(Watched(only="churn"), *turns) == {}


def test_answers_that_differ_tell_something() -> None:
    words = ("short", "better", "too long", "odd", "fine", "dull")
    answers = (write(number, content=f"now it is {words[number % 6]}") for number in range(40))
    assert told(Watched(only="churn"), *answers) == {}


@pytest.mark.parametrize("tool", ["send_message", "say", "chat.post", "reply"])
def test_many_messages_to_one_person_are_a_conversation(tool: str) -> None:
    assert told(Watched(only="churn"), *(write(number, "bob", tool) for number in range(40))) == {}


def test_equal_calls_are_judged_elsewhere() -> None:
    assert Watched(only="churn").turns(40, write(1)) == {}


def test_several_calls_in_a_turn_are_no_churn() -> None:
    watched = Watched(only="churn")
    for number in range(30):
        assert watched.turn(write(number), write(number, "other.txt")) == []


def test_orders_that_fail_are_judged_elsewhere() -> None:
    fails = (failed("write", json.dumps({"path": "a", "content": f"version {number}"})) for number in range(40))
    assert told(Watched(only="churn"), *fails) == {}


def test_the_target_is_what_is_not_written() -> None:
    assert target_of('{"path":"a","content":"x"}') == target_of('{"content":"y","path":"a"}')
    assert target_of('{"path":"a","content":"x"}') != target_of('{"path":"b","content":"x"}')
    one, other = '{"path":"a","old_str":"x","new_str":"y"}', '{"path":"a","old_str":"p","new_str":"q"}'
    assert target_of(one) != target_of(other)  # what is replaced says where
    assert target_of(one, failed=True) == target_of(other, failed=True)  # unless it was not there
    assert target_of('{"path":"a"}') is None  # nothing is written
    assert target_of('{"content":"x"}') is None  # nothing says where
    assert target_of("make all") is None
    assert target_of('{"path":"a","content":"' + "x" * 10_000_000 + '"}') is None


def test_what_brings_nothing_counts_twice() -> None:
    steps = steps_by("churn")
    text = "No replacement was performed, the text does not appear in a.py."
    edits = (Did("edit", json.dumps({"path": "a.py", "content": f"version {number}"}), text) for number in range(40))
    assert told(Watched(only="churn"), *edits) == {number // 2: what for number, what in steps.items()}


def test_that_all_is_well_is_no_refusal() -> None:
    steps = steps_by("churn")
    edits = (
        Did("edit", json.dumps({"path": "a.py", "content": f"version {number}"}), "Edit applied. No lint errors.")
        for number in range(40)
    )
    assert told(Watched(only="churn"), *edits) == steps
