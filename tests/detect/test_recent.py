"""Recent calls: which call is an earlier one, which result is the one before, and what is kept of them."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.inside import EDGE
from watchkeeper.detect.recent import ARGUMENTS_KEPT, KEPT, SHOWN, Recent, Seen
from watchkeeper.fingerprint import result_key

WEATHER = "It is sunny in Paris, 20 degrees, with a light wind from the west."


class Calls:
    """A recogniser; each call is told with its arguments and its result."""

    def __init__(self, tool: str = "look") -> None:
        self.recent = Recent()
        self.tool = tool

    def made(self, arguments: str, content: str = "what was found", tool: str = "") -> Seen:
        tool = tool or self.tool
        return self.recent.recognise(tool, f"{tool} {arguments}", arguments, result_key(content), content)

    def keys(self, *arguments: str) -> int:
        """How many calls these are taken for."""
        return len({self.made(one).key for one in arguments})

    def results(self, *contents: str) -> list[str]:
        """What the results of one call are known by."""
        return [self.made("{}", content).result for content in contents]


# -- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"q":"cats","request_id":"a1"}', '{"q":"cats","request_id":"b2"}'),
        ('{"q":"cats","now":1700000013}', '{"q":"cats","now":1700000077}'),
        ('{"q":"cats","attempt":1}', '{"q":"cats","attempt":2}'),
        ('{"path":"./src//a.py"}', '{"path":"src/a.py"}'),
        ('{"url":"http://a/b?x=1&nonce=17"}', '{"url":"http://a/b?x=1&nonce=99"}'),
    ],
)
def test_a_call_that_differs_in_volatile_parts_only_is_the_same(one: str, other: str) -> None:
    calls = Calls()
    first = calls.made(one).key
    assert calls.made(other).key == first == calls.made(one).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"q":"cats","limit":10}', '{"q":"cats","limit":20}'),
        ('{"q":"Cats"}', '{"q":"cats"}'),
        ('{"q":"sim card"}', '{"q":"sim-card"}'),
        ('{"q":"cats","at":"2026-03-01T12:00:13Z"}', '{"q":"cats","at":"2026-03-01T12:00:37Z"}'),
    ],
)
def test_a_call_that_asks_the_same_is_the_same_if_it_is_told_the_same(one: str, other: str) -> None:
    calls = Calls()
    calls.made('{"q":"dogs"}', "a dog barked in the night")  # the tool has more than one answer
    first = calls.made(one).key
    assert calls.made(other).key == first
    assert calls.made(one).key == first
    told = Calls()
    told.made('{"q":"dogs"}', "a dog barked in the night")
    assert told.made(one).key != told.made(other, "seven more were found").key
    done = Calls()
    done.made('{"q":"dogs"}', "a dog barked in the night")
    assert done.made(one, "ok").key != done.made(other, "ok").key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"q":"cats"}', '{"q":"dogs"}'),
        ('{"page":1}', '{"page":2}'),
        ('{"id":"item-17"}', '{"id":"item-18"}'),
        ('{"path":"/tmp/a"}', '{"path":"/tmp/b"}'),
        ('{"day":"2026-03-01"}', '{"day":"2026-03-02"}'),
        ('{"from":"2026-03-01T12:00:00Z"}', '{"from":"2026-03-01T13:00:00Z"}'),
        ('{"host":"a","port":8080}', '{"host":"a","port":8081}'),
        ('{"commit":"a1b2c3d4e5"}', '{"commit":"f1b2c3d4e5"}'),
        ("make one", "make other"),
    ],
)
def test_another_target_is_another_call(one: str, other: str) -> None:
    assert Calls().keys(one, other) == 2


def test_tools_are_apart() -> None:
    calls = Calls()
    assert calls.made("{}", tool="look").key != calls.made("{}", tool="read").key


def test_long_arguments_are_the_same_only_if_they_are_equal() -> None:
    text = "x" * ARGUMENTS_KEPT
    assert Calls().keys(f'{{"text":"{text}","attempt":1}}', f'{{"text":"{text}","attempt":2}}') == 2
    assert Calls().keys(f'{{"text":"{text}"}}', f'{{"text":"{text}"}}') == 1


# -- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("took 12 ms", "took 1450 ms"),
        ('{"rows":3,"request_id":"a1"}', '{"rows":3,"request_id":"b2"}'),
        ("\x1b[31mred\x1b[0m", "red"),
        (f"{WEATHER} (asked at 12:00:01)", f"{WEATHER} (asked at 12:00:02)"),
        ("10%\r 20%\r100% of it", "15%\r100% of it"),
    ],
)
def test_a_result_that_differs_in_volatile_parts_only_is_the_same(one: str, other: str) -> None:
    first, second, third = Calls().results(one, other, one)
    assert first == second == third


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("red", "green"),
        ("3/24 done", "4/24 done"),
        ("10 rows", "11 rows"),
        (WEATHER, WEATHER.replace("sunny", "rainy")),
        ("short", "short" + " and long" * 20),
    ],
)
def test_another_result_moves(one: str, other: str) -> None:
    calls = Calls()
    first, second = calls.made("{}", one), None
    assert not first.moved
    known_by = first.result
    second = calls.made("{}", other)
    assert second.moved
    assert second.result != known_by
    assert not calls.made("{}", other).moved


def test_a_number_that_goes_up_and_down_is_learned() -> None:
    known_by = Calls().results(*(f"the pump runs, level {n}" for n in (3, 7, 4, 6, 5)))
    assert len(set(known_by)) == 2
    assert len(set(known_by[1:])) == 1


def test_unless_it_is_all_that_is_told() -> None:
    assert len(set(Calls().results(*(f"level {n}" for n in (3, 7, 4, 6, 5))))) == 5


def test_a_number_that_goes_up_is_progress() -> None:
    assert len(set(Calls().results(*(f"level {n}" for n in range(12))))) == 12


def test_a_hint_beside_a_result_that_brought_nothing_is_learned() -> None:
    hints = ("be brief", "use quotes", "look elsewhere", "check the spelling", "mind the gap", "read the manual")
    known_by = Calls().results(*(f"Nothing was found.\nThe index is up to date.\n{hint}" for hint in hints))
    assert len(set(known_by[2:])) < len(set(known_by)) <= 4
    assert known_by[-1] == known_by[-2] == known_by[-3]


def test_a_log_that_goes_on_is_never_learned() -> None:
    """Other words beside a result that brought something may be what was asked for."""
    lines = ("the cat sat", "a dog barked", "rain fell", "somebody sang", "the sun rose", "night came")
    known_by = Calls().results(*(f"Log of today.\nThe index is up to date.\n{line}" for line in lines))
    assert len(set(known_by)) == len(lines)


def test_of_a_long_result_the_beginning_and_the_end_are_compared() -> None:
    def long(first: str = "begin", last: str = "end", middle: str = "7 " * 40, length: int = 5_000) -> str:
        return f"{first}\n{'-' * EDGE}{(middle * length)[:length]}{'-' * EDGE}\n{last}"

    assert len(set(Calls().results(long(), long(middle="8 " * 40)))) == 1
    # Of what lies between, the longest words.
    kittens, coffee = long(middle="about kittens and puppies "), long(middle="on the prices of coffee ")
    assert len(set(Calls().results(kittens, coffee))) == 2
    assert len(set(Calls().results(long(), long(first="other")))) == 2
    assert len(set(Calls().results(long(), long(last="other")))) == 2
    assert len(set(Calls().results(long(), long(length=9_000)))) == 2


def test_what_a_result_repeats_of_the_arguments_does_not_count() -> None:
    calls = Calls()
    one = calls.made('{"path":"src/alpha/one.py"}', "There is no src/alpha/one.py here, and nothing like it.")
    other = calls.made('{"path":"src/gamma/two.py"}', "There is no src/gamma/two.py here, and nothing like it.")
    assert one.key != other.key
    assert one.family == other.family


# -- put differently --------------------------------------------------------------------------------------------------


def test_a_paraphrase_with_the_same_result_is_near() -> None:
    calls = Calls()
    assert not calls.made('{"q":"weather in Paris today"}', WEATHER).near
    assert calls.made('{"q":"what is the weather in Paris"}', WEATHER).near
    assert not calls.made('{"q":"population of Lyon"}', "About half a million people live there.").near


def test_orders_of_one_kind_are_not() -> None:
    calls = Calls()
    for number in range(5):
        assert not calls.made(f'{{"item":"item{number}","state":"done"}}', "ok").near


def test_a_paraphrase_with_another_result_is_not() -> None:
    calls = Calls()
    calls.made('{"q":"weather in Paris today"}', WEATHER)
    assert not calls.made(
        '{"q":"what is the weather in Paris"}', "It rains in all of France and snows in the Alps now."
    ).near


def test_nor_one_of_another_tool() -> None:
    calls = Calls()
    calls.made('{"q":"weather in Paris today"}', WEATHER)
    assert not calls.made('{"q":"what is the weather in Paris"}', WEATHER, tool="other").near


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_so_many_are_kept_and_no_more() -> None:
    calls = Calls()
    for number in range(500):
        calls.made(f'{{"page":{number}}}', f"page {number} " * 1_000)
    assert len(calls.recent._seen) == len(calls.recent._spelled) == KEPT
    for seen in calls.recent._seen.values():
        assert len(seen.head) <= EDGE
        assert len(seen.tail) <= EDGE
        assert len(seen.arguments) <= ARGUMENTS_KEPT


def test_what_is_used_is_kept_longest() -> None:
    calls = Calls()
    often = calls.made('{"q":"often","attempt":0}').key
    for number in range(50):
        calls.made(f'{{"page":{number}}}')
        assert calls.made(f'{{"q":"often","attempt":{number}}}').key == often


def test_what_is_shown_is_the_beginning_of_the_last_result() -> None:
    calls = Calls()
    key = calls.made("{}", "first").key
    calls.made("{}", "second " * 100)
    assert calls.recent.shown(key) == ("second " * 100)[:SHOWN]
    assert calls.recent.shown("never made") is None


def test_huge_and_strange_results_are_looked_at_in_bounds() -> None:
    calls = Calls()
    for content in ("x" * 10_000_000, "\x00" * 100_000, "\ud800", "\n" * 1_000_000, "\x1b[" * 100_000, "\r" * 100_000):
        seen = calls.made('{"a":"\ud800"}', content)
        assert sys.getsizeof(seen.head) + sys.getsizeof(seen.tail) < 4 * (EDGE + EDGE) + 500


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=80)), max_size=12))
def test_it_never_raises(made: list[tuple[str, str]]) -> None:
    calls = Calls()
    for arguments, content in made:
        seen = calls.made(arguments, content)
        assert calls.made(arguments, content).key == seen.key


def test_the_middle_of_a_long_result_may_differ_once() -> None:
    """From then on more of it is kept: a number in it that moves is news, a time is none."""
    text = "".join(f"line {number} of the long report on the northern harbour\n" for number in range(40))

    def report(said: str) -> str:
        return f"{text[:700]}{said}\n{text[700:]}"

    moving = Calls().results(*(report(f"{number} of 40 ships are in") for number in range(6)))
    assert len(set(moving[1:])) == len(moving[1:])
    timed = Calls().results(*(report(f"written at 12:00:0{number}") for number in range(6)))
    assert len(set(timed)) == 1


def test_the_same_question_with_another_limit_is_the_same_call() -> None:
    calls = Calls()
    text = "a long answer that tells quite a lot about the ships in the northern harbour. " * 3
    first = calls.made('{"q":"ships","limit":5}', f"{text}\nmemory 1201 kB")
    second = calls.made('{"q":"ships","limit":50}', f"{text}\nmemory 1209 kB")
    other = calls.made('{"q":"boats","limit":50}', f"{text}\nmemory 1209 kB")
    assert second.key == first.key
    assert other.key != first.key


def test_records_of_many_ids_are_many_calls() -> None:
    """Each is asked for by its id, says that id and holds another amount."""
    calls = Calls()
    made = []
    for number in range(12):
        name = f"{number * 7919 + 13:024x}"
        record = f'{{"id":"{name}","state":"open","customer":"a person with a long name","amount":{number * 37 % 100}}}'
        made.append(calls.made(f'{{"id":"{name}"}}', record + " and so on, as every record of an order says it" * 3))
    assert len({seen.key for seen in made}) == 12


def test_a_growing_log_is_never_the_same() -> None:
    line = "2024-05-01 12:00:00 INFO worker: request served in 9 ms\n"
    assert len(set(Calls().results(*(line * 20 * number for number in range(1, 9))))) == 8


def test_other_words_in_the_middle_are_news_each_time() -> None:
    edge = "".join(f"line {number} of the long report on the northern harbour\n" for number in range(30))
    words = ("amber topaz", "quartz basalt", "granite marble", "slate chalk", "flint shale")
    middles = [f"{word} " * 40 for word in words]
    known_by = Calls().results(*(f"{edge}{middle}\n{edge}" for middle in middles))
    assert len(set(known_by[1:])) == len(words) - 1


def test_terminal_control_in_long_lines_takes_no_long_time() -> None:
    """Both expressions were quadratic once; at these sizes that took minutes."""
    assert len(set(Calls().results("a" * 400_000 + "\r\n", "b" * 400_000 + "\r\n"))) == 2
    assert len(set(Calls().results("\x1b[0m" + "\\e]" * 20_000, "\x1b[1m" + "\\e]" * 20_000))) == 1
