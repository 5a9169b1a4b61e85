"""Nothing new: known calls in any order, and new ones that bring known lines only."""

from __future__ import annotations

import pytest
from watched import Did, Watched, refused, steps_by

STALE = steps_by("stale")
NUDGE = min(STALE)
SHUFFLED = "acebdfadbecfbfcadebfea"
TEXT = "The first line of the manual.\n" + "\n".join(
    f"Line {n} of the manual, as it has always been and will be as long as anybody reads it." for n in range(2)
)


def read(name: str, content: str = "") -> Did:
    return Did("read", f'{{"path":"{name}.txt"}}', content or f"What stands in file {name}.")


def told(watched: Watched, *dids: Did) -> dict[int, list[tuple[str, str]]]:
    said = {number: watched.turn(did) for number, did in enumerate(dids, 1)}
    return {number: what for number, what in said.items() if what}


def test_known_calls_in_any_order_once_each_was_seen_twice() -> None:
    watched = Watched(only="stale")
    assert told(watched, *map(read, "abcdef" * 2)) == {}  # looking a second time is honest
    assert told(watched, *map(read, SHUFFLED)) == STALE
    assert "read" in {verdict.finding.tool for verdict in watched.verdicts}
    assert all(len(verdict.finding.calls) <= 8 for verdict in watched.verdicts)


def test_it_names_the_last_calls_and_goes_back_to_the_first_without_news() -> None:
    watched = Watched(only="stale")
    told(watched, *map(read, "abcdef" * 2))
    block = sorted(STALE)[1]
    told(watched, *map(read, SHUFFLED[:block]))
    found = watched.findings[-1]
    assert (found.count, found.onset) == (block, 3 * 13)
    assert found.calls == tuple(f"c{12 + block - 7 + place}" for place in range(8))
    assert sorted(found.keys) == sorted({f'read {{"path":"{name}.txt"}}' for name in SHUFFLED[:block]})


def test_of_many_calls_it_names_the_last_eight() -> None:
    watched = Watched(only="stale")
    names = "abcdefghijkl"
    told(watched, *map(read, names * 2))
    told(watched, *map(read, names[: sorted(STALE)[1]]))
    assert watched.findings[-1].keys == tuple(f'read {{"path":"{name}.txt"}}' for name in "cdefghij")


def test_each_count_is_told_once_however_it_goes_up_and_down() -> None:
    watched = Watched(only="stale", mode="observe")
    told(watched, *map(read, "abcdef" * 2))
    for number in range(6):
        told(watched, *map(read, SHUFFLED[: NUDGE if number == 0 else 3]))
        watched.turn(read(f"new {number}"))
    assert [finding.count for finding in watched.findings] == [NUDGE]


def test_the_same_calls_with_another_result_each_time_go_on() -> None:
    watched = Watched(only="stale")
    told(watched, *map(read, "abcdef" * 2))
    changed = (read(name, f"What stands in file {name}, after change {n} of it.") for n, name in enumerate(SHUFFLED))
    assert told(watched, *changed) == {}


def test_a_result_that_goes_to_and_fro_moves() -> None:
    """Both are known by now, but which one it is says something."""
    watched = Watched(only="stale")
    for number in range(40):
        assert watched.turn(Did("gate", "{}", "the gate is open" if number % 2 else "the gate is shut")) == []
        assert watched.turn(read("a")) == []


def walk(room: int) -> Did:
    """Few words lead everywhere: what they bring depends on where one is."""
    way = "north" if room % 3 else "south"
    return Did("go", f'{{"way":"{way}"}}', f"You are in the room that is called number {'abcdefghijklm'[room] * 4}.")


def test_a_lap_that_is_longer_than_any_cycle() -> None:
    """From its third time on, though each call has another result than the last time."""
    watched = Watched(only="stale")
    said = told(watched, *[walk(room) for _ in range(5) for room in range(11)])
    assert list(said.values()) == list(STALE.values())
    assert 2 * 11 < min(said) <= 3 * 11


def test_who_goes_through_known_rooms_another_way_looks_for_something() -> None:
    watched = Watched(only="stale")
    ways = [0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0, 3, 6, 2, 5, 1, 4, 0, 2, 4, 6, 1, 3, 5, 0, 4, 1, 5, 2, 6, 3]
    assert told(watched, *map(walk, ways)) == {}


def test_one_thing_after_the_other_in_the_same_few_steps() -> None:
    """Numbers that are known, put together anew, are another order."""
    watched = Watched(only="stale")
    for number in range(40):
        place = f'{{"x":{number // 7},"y":{number % 7}}}'
        for did in (
            Did("move", place, "reached"),
            Did("grip", "{}", "closed"),
            Did("move", '{"x":9,"y":9}', "reached"),
        ):
            assert watched.turn(did) == []


def test_new_calls_that_bring_known_lines_only() -> None:
    """One page under many numbers."""
    said = told(Watched(only="stale"), *(Did("open", f'{{"page":{n}}}', TEXT) for n in range(20)))
    assert said == {number + 1: what for number, what in STALE.items()}


def test_a_known_answer_about_another_thing_says_nothing_either_way() -> None:
    """A site that answers every address with its first page, a login that is tried with another word."""
    said = told(Watched(only="stale"), *(Did("open", f'{{"url":"page-{n}"}}', TEXT) for n in range(40)))
    assert said == {}


def test_one_new_line_is_enough() -> None:
    pages = (Did("open", f'{{"url":"page-{n}"}}', f"{TEXT}\nOn page {n} there is more of it.") for n in range(40))
    assert told(Watched(only="stale"), *pages) == {}


def test_a_short_answer_about_many_things_says_nothing_either_way() -> None:
    assert (
        told(Watched(only="stale"), *(Did("state", f'{{"machine":"node-{n}"}}', "all is well") for n in range(40)))
        == {}
    )


def test_new_orders_that_are_acknowledged_are_work() -> None:
    assert told(Watched(only="stale"), *(Did("mark", f'{{"item":"entry-{n}"}}', "ok") for n in range(40))) == {}


def test_an_order_in_between_makes_up_for_looking_around() -> None:
    watched = Watched(only="stale")
    told(watched, *map(read, "abcdef" * 2))
    for number in range(40):
        assert told(watched, *(read("abcdef"[(3 * number + place) % 6]) for place in range(3))) == {}
        assert watched.turn(Did("mark", f'{{"item":"entry-{number}"}}', "ok")) == []


def test_news_makes_up_for_three_rounds_without() -> None:
    """What grows by one in four is work; what grows by one in five is hardly."""
    for share, expected in ((4, set()), (5, {"nudge"}), (9, {"nudge"})):
        watched = Watched(only="stale")
        told(watched, *map(read, "abcdef" * 2))
        for number in range(60):
            watched.turn(read(f"new {number}") if number % share == share - 1 else read("abcdef"[number % 6]))
        assert {verdict.action for verdict in watched.verdicts} & {"nudge"} == expected, share


@pytest.mark.parametrize(
    ("page", "news"),
    [
        ("{n} is what it is about now.", True),
        (TEXT + "\nOn page {n} there is more of it.", True),
        (TEXT + "\nIt is a long page.\n" + "Every line but one is as ever.\n" * 60 + "{n}, however.\n" * 3, True),
        (TEXT + "\n" + "Every line but one is as ever.\n" * 30 + "{n}, however.\n" * 3, True),
        (TEXT + "\n{n}", True),
        (TEXT + "\n  {n:.3}  ", False),
        (TEXT, False),
    ],
)
def test_what_a_new_page_brings_is_looked_for_all_over_it(page: str, news: bool) -> None:
    """A line of a few characters tells nothing."""
    watched = Watched(only="stale")
    told(watched, *map(read, "abcdef" * 2), Did("open", '{"page":0}', TEXT), Did("open", '{"page":1}', TEXT))
    for number in range(40):
        name = f"{number * 7919 % 10_000:04}"
        watched.turn(
            Did("open", f'{{"page":{name}}}', page.format(n=name)) if number % 4 == 3 else read(SHUFFLED[number % 21])
        )
    assert (watched.verdicts == []) is news


def test_a_call_that_does_not_run_brings_nothing() -> None:
    watched = Watched(only="stale")
    told(watched, *map(read, "abcdef" * 2))
    turned_away = (refused("policy", "read", f"{number}", kind="denied", error="denied") for number in range(20))
    assert told(watched, *(did for pair in zip(map(read, SHUFFLED), turned_away, strict=False) for did in pair))


def test_one_round_over_and_over_is_judged_elsewhere() -> None:
    assert Watched(only="stale").turns(40, read("a")) == {}


def test_so_is_waiting() -> None:
    watched = Watched(only="stale")
    looks = (Did("status", f'{{"job":"{name}"}}', "running") for name in "abc" * 20)
    assert told(watched, *looks) == {}


def test_a_wide_fan_out_begins_anew() -> None:
    watched = Watched(only="stale")
    told(watched, *map(read, "abcdef" * 2))
    assert told(watched, *map(read, SHUFFLED[: NUDGE - 1])) == {}
    watched.turn(*(read(f"wide {number}") for number in range(9)))
    assert told(watched, *map(read, SHUFFLED[: NUDGE - 1])) == {}
    assert told(watched, read(SHUFFLED[NUDGE - 1])) == {1: STALE[NUDGE]}
