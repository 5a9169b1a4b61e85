"""Calls that are put differently and all have one result."""

from __future__ import annotations

from watched import Did, Watched, failed, refused, steps_by

from watchkeeper.detect.similar import REMEMBERED
from watchkeeper.thresholds import Steps, Thresholds

SIMILAR = steps_by("similar")
NUDGE = min(SIMILAR)
SUNNY = "It is sunny in Paris, 20 degrees, with a light wind."
ASKED = (
    *("weather in Paris", "what is the weather in Paris", "Paris weather today", "current weather of Paris"),
    *(
        "how is the weather in Paris now",
        "weather forecast Paris",
        "Paris weather conditions",
        "the weather for Paris please",
    ),
    *("Paris weather report", "weather at Paris this morning", "latest Paris weather", "tell the weather in Paris"),
    *("Paris: weather?", "weather situation in Paris"),
)
TOPICS = (
    "cats",
    "trains",
    "bread",
    "glass",
    "rivers",
    "chess",
    "opera",
    "bees",
    "maps",
    "salt",
    "steel",
    "moss",
    "silk",
)


def told(watched: Watched, *dids: Did) -> dict[int, list[tuple[str, str]]]:
    said = {number: watched.turn(did) for number, did in enumerate(dids, 1)}
    return {number: what for number, what in said.items() if what}


def ask(query: str, content: str = SUNNY, tool: str = "search") -> Did:
    return Did(tool, f'{{"query":"{query}"}}', content)


def test_one_question_in_other_words_with_one_answer() -> None:
    watched = Watched(only="similar")
    assert told(watched, *map(ask, ASKED)) == SIMILAR
    finding = watched.verdicts[0].finding
    assert (finding.keys, finding.known) == (("tool:search",), SUNNY)


def test_it_names_the_last_calls_and_what_they_were_told() -> None:
    steps = Thresholds(similar=Steps(None, None, 10))
    watched = Watched(steps, only="similar")
    told(watched, Did("read"), *(ask(query, SUNNY * 10) for query in ASKED[:10]))
    (found,) = watched.findings
    assert found.calls == tuple(f"c{call}" for call in range(4, 12))
    assert (found.count, found.onset, found.known) == (10, 6, (SUNNY * 10)[:400])


def test_searches_that_are_refused_count_on_once_they_are_blocked() -> None:
    _, block, stop = sorted(SIMILAR)
    watched = Watched(only="similar")
    told(watched, *map(ask, ASKED[:block]))
    blocked = [refused("block", "search", f'{{"query":"{query}"}}') for query in ASKED[block:stop]]
    assert told(watched, *blocked) == {stop - block: SIMILAR[stop]}
    assert watched.findings[-1].calls[-1] == f"c{stop}"


def test_a_refusal_before_its_block_says_nothing() -> None:
    watched = Watched(only="similar")
    told(watched, *map(ask, ASKED[: NUDGE - 1]))
    assert told(watched, *(refused("block", "search", f"{number}") for number in range(9))) == {}
    assert watched.turn(ask(ASKED[NUDGE])) == SIMILAR[NUDGE]


def test_nor_does_one_of_another_tool_or_where_nothing_is_blocked() -> None:
    _, block, stop = sorted(SIMILAR)
    watched = Watched(only="similar")
    told(watched, *map(ask, ASKED[:block]))
    assert told(watched, *(refused("block", "read", f"{number}") for number in range(stop))) == {}
    watched = Watched(Thresholds(similar=Steps(5, None, 8)), only="similar")
    told(watched, *map(ask, ASKED[:6]))
    assert told(watched, *(refused("block", "search", f"{number}") for number in range(stop))) == {}


def test_questions_that_are_asked_again_count_on() -> None:
    assert told(Watched(only="similar"), *(ask(ASKED[number % 2]) for number in range(14))) == SIMILAR


def test_other_questions_in_between_with_that_answer_say_nothing_either_way() -> None:
    mixed = [did for n in range(NUDGE) for did in (ask(ASKED[n]), ask(f"{TOPICS[n]} {TOPICS[-n]} {n * 37}"))]
    assert told(Watched(only="similar"), *mixed) == {2 * NUDGE - 1: SIMILAR[NUDGE]}


def test_a_wide_fan_out_is_not_looked_at() -> None:
    watched = Watched(only="similar")
    assert told(watched, ask(ASKED[0])) == {}
    assert watched.turn(*map(ask, ASKED)) == []


def test_with_another_answer_in_between_it_goes_on() -> None:
    answers = (
        ask(query, SUNNY if number % 4 else f"{SUNNY} {query} has no more") for number, query in enumerate(ASKED)
    )
    assert told(Watched(only="similar"), *answers) == {}


def test_a_volatile_answer_is_the_same() -> None:
    answers = (ask(query, f"{SUNNY} (took {100 + number} ms)") for number, query in enumerate(ASKED))
    said = told(Watched(only="similar"), *answers)
    assert list(said.values()) == list(SIMILAR.values())
    assert max(said) <= max(SIMILAR) + 1  # of many answers that all differ only a few are looked at


def test_other_questions_that_found_nothing_say_nothing() -> None:
    assert told(Watched(only="similar"), *(ask(topic, "No results.") for topic in TOPICS)) == {}


def test_many_orders_with_one_acknowledgement_are_work() -> None:
    orders = (Did("mark", f'{{"item":"item{number}","state":"done"}}', "ok") for number in range(30))
    assert told(Watched(only="similar"), *orders) == {}


def test_slices_of_one_thing_that_all_show_the_whole() -> None:
    whole = "The whole of it is shown here, whichever part was asked for. " * 4
    slices = [Did("read", f'{{"path":"big.txt","from":{number * 10}}}', whole) for number in range(13)]
    watched = Watched(only="similar")
    watched.turn(Did("read", '{"path":"small.txt"}', "It is small, and has nothing to do with the other."))
    assert told(watched, *slices) == SIMILAR
    # A tool that was never heard to say anything else acknowledges.
    assert told(Watched(only="similar"), *slices) == {}


def test_equal_calls_are_judged_elsewhere() -> None:
    assert Watched(only="similar").turns(20, ask("weather in Paris")) == {}


def test_failures_are_too() -> None:
    fails = (failed("search", f'{{"query":"{query}"}}') for query in ASKED)
    assert told(Watched(only="similar"), *fails) == {}


def test_tools_are_apart_and_the_memory_is_bounded() -> None:
    watched = Watched(only="similar")
    said = told(watched, *(ask(query, tool=tool) for query in ASKED[:NUDGE] for tool in ("search", "web")))
    assert said == {2 * NUDGE - 1: SIMILAR[NUDGE], 2 * NUDGE: SIMILAR[NUDGE]}
    told(watched, *(ask(f"{number}", tool=f"tool {number}") for number in range(50)))
    (detector,) = (one for one in watched.judge._desks["main"].detectors if one.name == "similar")
    assert len(detector._streaks) == REMEMBERED
