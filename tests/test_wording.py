"""Every message of ours to a model: what happened, what is known, what to do next; bounded whatever comes in."""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from watchkeeper.arguments import BadArguments, parse
from watchkeeper.fitting import Problem
from watchkeeper.ladder import steps_of
from watchkeeper.messages import Action, Finding
from watchkeeper.thresholds import Thresholds
from watchkeeper.tools import tool
from watchkeeper.wording import KNOWN, LEFT_OUT, LISTED, NAME, Told, Wording, bounded, named

LISTS = (
    *("answer_misfit", "answer_refused", "bad_arguments", "check_failed", "left_out", "no_evidence"),
    "unknown_tool",
)
"""Messages that list whatever is wrong or there, each item bounded."""
HOSTILE = "¶" * 100_000
DETECTORS = (*steps_of(Thresholds()), "breaker", "silence", "of a third party")


def _methods() -> dict[str, Callable[..., Told]]:
    methods = inspect.getmembers(Wording(), inspect.ismethod)
    return {name: method for name, method in methods if typing.get_type_hints(method).get("return") is Told}


METHODS = _methods()


def finding(detector: str, text: str | None, count: int = 4) -> Finding:
    return Finding(detector=detector, pattern=text or "a pattern", count=count, tool=text, known=text, calls=("c1",))


def bad(text: str) -> BadArguments:
    problems = tuple(Problem(f"path[{i}].{text}"[:120], text) for i in range(12))
    return BadArguments(problems, text[:800], len(text), incomplete=len(text) > 100)


def values(hint: Any, text: str) -> list[Any]:
    """What a parameter of that type may get: something, nothing, too much."""
    if hint is str:
        return [text]
    if hint == str | None:
        return [text, None, ""]
    if hint in (int, float):
        return [hint(0), hint(1), hint(3)]
    if hint == float | None:
        return [2.5, None]
    if hint is bool:
        return [True, False]
    if hint is BadArguments:
        return [bad(text), BadArguments((Problem("", "x"),))]
    if hint is Finding:
        return [finding(detector, part) for detector in DETECTORS for part in (text, None)]
    if hint == Action:
        return list(typing.get_args(Action))
    if hint == Mapping[str, int]:
        return [{f"{n} {text}": 3 for n in range(200)}, {text: 1}, {}]
    if typing.get_origin(hint) is not None:
        return [[text] * 200, [text], []]
    raise AssertionError(f"what may a parameter of the type {hint} get? say so here")


def messages(name: str, text: str) -> Iterator[Told]:
    method = METHODS[name]
    hints = typing.get_type_hints(method)
    options = [values(hints[parameter], text) for parameter in inspect.signature(method).parameters]
    for given in itertools.product(*options):
        yield method(*given)


def echoes(told: Told) -> list[int]:
    """Lengths of what came in and is said again."""
    return [len(list(group)) for char, group in itertools.groupby(told.text) if char == "¶"]


def test_all_of_them_are_walked() -> None:
    assert len(METHODS) >= 25
    for name in ("unknown_tool", "bad_arguments", "duplicate", "verdict", "answer_now", "no_evidence", "failed"):
        assert name in METHODS


@pytest.mark.parametrize("name", METHODS)
def test_each_has_its_three_parts(name: str) -> None:
    for told in messages(name, "what was wanted"):
        for part in (told.happened, told.known, told.next):
            assert part.strip() == part
            assert len(part.split()) >= 3
        assert told.text == f"{told.happened}\n{told.known}\n{told.next}"
        assert "None" not in told.text


@pytest.mark.parametrize("name", METHODS)
def test_each_is_bounded_whatever_comes_in(name: str) -> None:
    """No name is echoed beyond its bound, no result and no error beyond theirs."""
    for told in messages(name, HOSTILE):
        assert max(echoes(told), default=0) <= (LEFT_OUT if name == "left_out" else KNOWN)
        assert len(told.text) < (17_000 if name in LISTS else 2_500)


@pytest.mark.parametrize(
    "name", ["timed_out", "cancelled", "abandoned", "tools_off", "too_soon", "unparsed_call", "in_the_way"]
)
def test_a_name_is_echoed_within_its_bound(name: str) -> None:
    for told in messages(name, HOSTILE):
        assert max(echoes(told)) == NAME


def test_nothing_said_to_the_model_looks_as_if_the_user_had_interrupted() -> None:
    text = Wording().cancelled("look").text
    assert "the user did not ask for it" in text
    assert "cancelled from outside" in text


def test_polls_are_told_to_wait_and_never_to_try_other_arguments() -> None:
    """POLL-04"""
    for detector, action in itertools.product(("poll", "equal_any"), ("nudge", "block")):
        told = Wording().verdict(action, finding(detector, "status"))  # type: ignore[arg-type]
        assert "wait once, with a deadline" in told.next
        assert "arguments" not in told.text


def test_a_pause_reads_as_what_it_is_once_the_run_goes_on() -> None:
    told = Wording().verdict("pause", finding("equal", "look"))
    assert told.next.startswith("The run was held here for a person to look at, and they let it go on.")
    assert "The run ends here" in Wording().verdict("stop", finding("equal", "look")).next


def test_what_a_verdict_rests_on_is_told_to_people() -> None:
    found = Finding(detector="equal", pattern="equal call, equal result", count=8, tool="look")
    assert Wording().episode(found) == "What was seen: equal call, equal result (look), 8 times."
    known = msgspec.structs.replace(found, onset_call=12, calls_since=8, tokens_since=12_345)
    assert Wording().episode(known) == (
        "What was seen: equal call, equal result (look), 8 times, from call 12 on; 8 calls and 12,345 tokens went into "
        "it."
    )
    once = Finding(detector="silence", pattern="nothing for 120 s", count=1)
    assert Wording().episode(once) == "What was seen: nothing for 120 s."
    grown = Finding(detector="volume", pattern="3001 calls, the line is 2000", count=150)
    assert Wording().episode(grown) == "What was seen: 3001 calls, the line is 2000, 150 %."
    assert len(Wording().episode(Finding(detector="x", pattern=HOSTILE, count=2, tool=HOSTILE))) < 500


def test_unknown_tools_are_answered_with_the_nearest_first() -> None:
    """NAME-01"""
    told = Wording().unknown_tool("read_fil", ["write_file", "read_file", "zip"])
    assert told.happened == "There is no tool named 'read_fil', so nothing was run."
    assert told.known == "The tools are: read_file, write_file, zip."
    assert told.next == "Call 'read_file' if that is what you meant."
    assert Wording().unknown_tool("execute_python", ["a"]).next == "Use one of these, or answer without a tool."
    assert Wording().unknown_tool("x", []).known == "The tools are: none."
    many = [f"tool_{number}" for number in range(LISTED + 10)]
    assert Wording().unknown_tool("x", many).known.endswith(" and 10 more.")


def test_bad_arguments_are_shown_back_in_bounds() -> None:
    """ARGS-02, ARGS-04: the problem, what was sent, the schema."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return city

    cut = parse(weather, '{"city": "San Fra')
    assert isinstance(cut, BadArguments)
    assert Wording().bad_arguments("weather", cut, '{"city":{"type":"string"}}').text == (
        "The arguments for weather do not fit, so it was not run:\n"
        "- the JSON is not complete: the text breaks off (char 9)\n"
        'You sent: {"city": "San Fra\n'
        'Its parameters are: {"city":{"type":"string"}}\n'
        "Send the whole call again; if it is long, do the work in smaller parts."
    )
    huge = parse(weather, "x" * 5_000_000)
    assert isinstance(huge, BadArguments)
    assert "You sent (first 800 of 5000000 characters): xxx" in Wording().bad_arguments("weather", huge, "{}").text


def test_missing_evidence_is_named() -> None:
    told = Wording().no_evidence(["tests"], ("search", "read"), {"check"})
    assert told.known == (
        "Missing: a successful call of tests; a successful call of one of read, search; "
        "a call of check after the last change that found something."
    )


def test_a_verdict_of_a_third_party_says_its_pattern() -> None:
    told = Wording().verdict("nudge", Finding(detector="mine", pattern="too many moons", count=4))
    assert told.happened == "This has come 4 times: too many moons."


@pytest.mark.parametrize(
    ("detector", "happened"),
    [
        ("equal", "The same call of look has given the same result 4 times."),
        ("equal_any", "You have made the very same call of look 4 times in a row."),
        ("cycle", "You have gone round the same circle 4 times: look."),
        ("poll", "look has given the same answer 4 times."),
        ("failing", "look has failed in the same way 4 times in a row."),
        ("arguments", "The arguments for look have not fitted 4 times in a row."),
        ("breaker", "The same call of look has given the same result 4 times."),
    ],
)
def test_what_each_detector_says(detector: str, happened: str) -> None:
    assert Wording().verdict("nudge", finding(detector, "look")).happened == happened


def test_failures_in_words() -> None:
    wording = Wording()
    assert wording.failed("look", "KeyError", "'a'", None, "7-1").happened == "look failed: KeyError: 'a'"
    assert wording.failed("look", "KeyError", "", None, "7-1").happened == "look failed: KeyError."
    assert wording.failed("look", "KeyError", "", "List them first.", "7-1").next == "List them first."
    assert wording.transient("look", "busy", 2.5, 0).happened == "look is unavailable for now: busy"
    assert wording.transient("look", "busy", 2.5, 2).happened == "look is unavailable for now after 3 tries: busy"
    assert wording.transient("look", "busy", 2.5, 0).known == "It may work again in 2.5 seconds."
    assert wording.transient("look", "busy", None, 0).known == "It may work again later."


@pytest.mark.parametrize(("more", "said"), [(0, ""), (1, " So has 1 other call"), (4, " So have 4 other calls")])
def test_what_is_true_of_others_too(more: int, said: str) -> None:
    told = Wording().verdict("nudge", finding("equal", "look"), more)
    assert told.happened.partition(" times.")[2] == (f"{said} of that turn." if said else "")


def test_a_host_may_say_it_otherwise() -> None:
    class German(Wording):
        def denied(self, tool: str) -> Told:
            return Told(f"{tool} ist nicht erlaubt.", "So ist die Regel.", "Nimm ein anderes Werkzeug.")

    assert German().denied("look").text.startswith("look ist nicht erlaubt.")


def test_what_is_cut_says_so() -> None:
    assert bounded("abc", 3) == "abc"
    assert bounded("abcdef", 3) == "abc … (3 more characters)"
    assert bounded(None) == bounded("") == "(nothing)"
    assert named("x" * 81) == "x" * 80 + "…"
    assert named("") == named(None) == "(no name)"


STATUSES = {
    "completed": ["answer"],
    "stopped": [
        *("turns", "calls", "time", "tokens", "overrun", "loop", "tool_failing", "bad_arguments", "breaker", "silence"),
        *("working_time", "input_tokens", "output_tokens", "money", "unpriced"),
        *("no_evidence", "empty", "length", "filtered", "pause_expired", "of a newer version"),
    ],
    "cancelled": ["asked", "parent_cancelled"],
    "failed": ["model_unavailable", "model_refused", "crash"],
    "handed_over": ["calls", "turns"],
    "of a newer version": ["something"],
}


@pytest.mark.parametrize(("status", "reason"), [(s, reason) for s, reasons in STATUSES.items() for reason in reasons])
def test_each_outcome_has_a_friendly_sentence(status: str, reason: str) -> None:
    text = Wording().outcome(status, reason, 1, {"look": 2})
    assert text.startswith(("The ", "A "))
    assert "It took 1 turn and 2 tool calls (look 2); everything done so far is kept." in text
    assert "{" not in text
    assert Wording().outcome(status, reason, 2, {}, "More of it.").endswith(" More of it.")


def test_outcomes_tell_their_reasons_apart() -> None:
    sentences = [Wording().outcome("stopped", reason, 1, {}) for reason in STATUSES["stopped"]]
    assert len(set(sentences)) == len(sentences)


def test_what_was_done_names_the_tools_that_were_used_most() -> None:
    wording = Wording()
    assert wording.done(1, {}) == "1 turn and 0 tool calls"
    assert wording.done(3, {"look": 1, "search": 1200}) == "3 turns and 1,201 tool calls (search 1,200, look 1)"
    many = wording.done(9, {letter: n for n, letter in enumerate("abcdefgh", 1)})
    assert many == "9 turns and 36 tool calls (h 8, g 7, f 6, e 5, d 4, others 6)"


@pytest.mark.parametrize(
    ("dimension", "left", "said", "then"),
    [
        ("turns", 4, "its turns.", "Left: 4; then tools go off"),
        ("tokens", 123_456, "its tokens.", "Left: 123,456; then tools go off"),
        ("money", 0.0123, "its money.", "Left: 0.0123; then tools go off"),
        ("working_time", 12.34, "its working time.", "Left: 12.3 seconds; then tools go off"),
        ("calls:look", 1, "its calls of look.", "Left: 1; calls that would take more will not be run"),
        ("pages", 2, "its pages.", "Left: 2; calls that would take more will not be run"),
    ],
)
def test_a_limit_that_is_near_says_what_was_done_what_is_left_and_what_follows(
    dimension: str, left: float, said: str, then: str
) -> None:
    told = Wording().limit_near(dimension, 0.75, left, 2, {"look": 3})
    assert told.happened == f"This run has used up 75% of {said}"
    assert told.known.startswith(f"So far: 2 turns and 3 tool calls (look 3). {then}")
