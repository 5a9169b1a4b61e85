"""One tool that keeps failing in one way, and arguments that do not fit again and again."""

from __future__ import annotations

import json

import pytest
from watched import Did, Watched, bad, failed, refused, steps_by

from watchkeeper.detect.failing import REMEMBERED
from watchkeeper.thresholds import Steps, Thresholds

FAILING = {3: [("nudge", "failing")], 5: [("block", "failing")], 8: [("stop", "failing")]}
ERRING = steps_by("erring")
MOST = max(ERRING)
FAILING_TWICE = 2 * max(FAILING)


def varied(number: int, **more: str) -> Did:
    """A failure with other arguments each time."""
    return failed(arguments=f"page {number}", **more)


def play(watched: Watched, *turns: Did | tuple[Did, ...]) -> dict[int, list[tuple[str, str]]]:
    said = {number: watched.turn(*(did if isinstance(did, tuple) else (did,))) for number, did in enumerate(turns, 1)}
    return {number: what for number, what in said.items() if what}


def test_one_signature_with_varied_arguments_to_the_exact_round() -> None:
    watched = Watched(only="failing")
    assert play(watched, *(varied(n) for n in range(1, 11))) == FAILING
    stop = watched.verdicts[-1]
    assert (stop.reason, stop.finding.tool) == ("tool_failing", "look")
    assert stop.finding.keys == ("tool:look",)
    assert stop.finding.known == "look failed: it broke"


def test_it_names_the_last_rounds_and_shows_the_failure_in_bounds() -> None:
    watched = Watched(Thresholds(failing=Steps(None, None, 12)), only="failing")
    text = "it broke in so many words " * 20
    play(watched, Did("read"), *(varied(n, text=text) for n in range(12)))
    (found,) = watched.findings
    assert found.calls == tuple(f"c{call}" for call in range(6, 14))
    assert (found.count, found.onset, found.known) == (12, 6, f"look failed: {text}"[:400])
    assert found.pattern.startswith("failing: ")
    assert "it broke in so many words" in found.pattern
    assert len(found.pattern) == len("failing: ") + 120


def test_one_failure_is_none_to_speak_of() -> None:
    watched = Watched(only="failing", mode="observe")
    play(watched, *(varied(n) for n in range(4)))
    assert [finding.count for finding in watched.findings] == [2, 3, 4]


def test_two_calls_that_fail_in_turn_are_the_tool() -> None:
    watched = Watched(only="failing")
    assert play(watched, *(varied(n % 2) for n in range(3))) == {3: FAILING[3]}
    assert watched.findings[0].keys == ("tool:look",)


@pytest.mark.parametrize(
    "texts",
    [
        [f"timeout after {n} ms" for n in range(10, 19)],
        [f"the server is busy (request_id: {n * 7919:08x}-{n})" for n in range(9)],
        [f"it broke at 2026-03-01T12:{n:02}:00Z" for n in range(9)],
        [f"it broke in /tmp/build_{n}{n}{n}{n}/out" for n in range(9)],
    ],
)
def test_what_is_volatile_in_an_error_does_not_count(texts: list[str]) -> None:
    assert play(Watched(only="failing"), *(varied(n, text=text) for n, text in enumerate(texts))) == FAILING


def test_what_an_error_repeats_of_the_arguments_does_not_count() -> None:
    def missing(name: str) -> Did:
        return failed(arguments=f'{{"path":"{name}"}}', text=f"there is no {name} here")

    names = [
        f"{word}/{word}_{word}.py" for word in ("alpha", "gamma", "delta", "theta", "kappa", "sigma", "omega", "zeta")
    ]
    assert play(Watched(only="failing"), *map(missing, names)) == FAILING


@pytest.mark.parametrize(
    "texts",
    [
        [f"no such file: /data/run{n}/{'xyz'[n % 3]}.csv" for n in range(MOST + 1)],
        [f"unknown key '{word}'" for word in ("name", "age", "title", "place", "owner") * 4],
        [f"line {n} of {100 - n} lines does not parse" for n in range(MOST + 1)],
    ],
)
def test_errors_of_one_kind_have_a_higher_bar(texts: list[str]) -> None:
    """Each names another thing: it may be the next one of many that are mended one by one."""
    assert play(Watched(only="failing"), *(varied(n, text=text) for n, text in enumerate(texts))) == {}
    assert play(Watched(only="erring"), *(varied(n, text=text) for n, text in enumerate(texts))) == ERRING


def test_sites_that_are_shut_are_told_apart() -> None:
    def fetch(number: int, host: str) -> Did:
        return failed("fetch", f'{{"url":"https://{host}/{number}"}}', text="403 Forbidden")

    sites = [fetch(n, f"site-{n}.example") for n in range(2 * MOST)]
    assert play(Watched(only="failing"), *sites) == {}
    assert play(Watched(only="erring"), *sites) == {2 * number: what for number, what in ERRING.items()}
    assert play(Watched(only="failing"), *(fetch(n, "one.example") for n in range(8))) == FAILING


def test_what_is_not_said_of_the_site_is_said_of_the_tool() -> None:
    sites = (failed("fetch", f'{{"url":"https://site-{n}.example/"}}', text="connection reset") for n in range(8))
    assert play(Watched(only="failing"), *sites) == FAILING


def test_a_check_that_still_fails_after_a_change_counts_half() -> None:
    watched, said = Watched(only="failing"), {}
    for number in range(2 * MOST):
        watched.turn(Did("edit", f'{{"line":{number}}}', "ok"))
        if found := watched.turn(failed(arguments="x")):
            said[number + 1] = found
    assert list(said) == [2 * number - 1 for number in FAILING]


def test_what_was_changed_among_looks_at_other_things_is_a_change() -> None:
    watched = Watched(only="failing")
    turns: list[Did | tuple[Did, ...]] = []
    for number in range(FAILING_TWICE):
        look = Did("read", f"{number}", f"page {number} of a long text about {number} things " * 9)
        turns += [(Did("edit", f'{{"line":{number}}}', "ok"), look), failed(arguments="x")]
    assert list(play(watched, *turns)) == [2 * (2 * number - 1) for number in FAILING]


def test_only_the_first_failure_after_a_change_counts_half() -> None:
    def edit(number: int) -> Did:
        return Did("edit", f'{{"line":{number}}}', "ok")

    check = failed(arguments="x")
    watched = Watched(only="failing")
    assert play(watched, check, edit(1), check, edit(2), check, check) == {6: FAILING[3]}


@pytest.mark.parametrize("status", ["500", "429"])
def test_equal_errors_of_a_server(status: str) -> None:
    did = failed(arguments="x", error="transient", text=f"{status} try later")
    said = play(Watched(), *[did] * 8)
    assert [number for number in said] == [3, 5, 8]
    assert said[8][0][0] == "stop"


def test_a_timeout_is_a_failure() -> None:
    dids = (Did(arguments=str(n), kind="timed_out", error="timeout", content="look did not end") for n in range(10))
    assert play(Watched(only="failing"), *dids) == FAILING


@pytest.mark.parametrize(
    "did",
    [
        Did(content='{"status": "not_found"}'),
        Did(content="exit 1", error="exit_1"),
        Did(content="", error="not_found"),
    ],
)
def test_not_found_and_a_bad_exit_are_results(did: Did) -> None:
    watched = Watched(only="failing erring complaint")
    for number in range(30):
        did.arguments = str(number)
        assert watched.turn(did) == []


def test_two_retries_of_a_transient_error_are_normal() -> None:
    assert (
        play(
            Watched(only="failing"), varied(1), varied(2), Did(arguments="3"), varied(4), varied(5), Did(arguments="6")
        )
        == {}
    )


def test_a_success_ends_the_streak() -> None:
    watched = Watched(only="failing")
    assert play(watched, *(varied(n) for n in range(4)), Did(arguments="x")) == {3: [("nudge", "failing")]}
    assert play(watched, *(varied(n) for n in range(8))) == FAILING


def test_another_error_begins_another_streak() -> None:
    watched = Watched(only="failing")
    assert play(watched, varied(1), varied(2), *(varied(n, text="other words") for n in range(3, 11))) == {
        number + 2: what for number, what in FAILING.items()
    }
    assert "other words" in watched.verdicts[0].message


def test_a_round_without_the_tool_changes_nothing() -> None:
    watched = Watched(only="failing")
    turns = [did for n in range(1, 9) for did in (varied(n), Did("read", str(n)))]
    assert play(watched, *turns) == {2 * number - 1: what for number, what in FAILING.items()}


def test_a_parallel_round_counts_once_and_only_if_all_of_it_failed() -> None:
    watched = Watched(only="failing")
    assert play(watched, *((varied(10 * n), varied(10 * n + 1), varied(10 * n + 2)) for n in range(1, 9))) == FAILING
    watched = Watched(only="failing")
    assert play(watched, *((varied(10 * n), Did(arguments=f"{n}")) for n in range(1, 20))) == {}
    watched = Watched(only="failing")
    assert play(watched, *((varied(10 * n), varied(10 * n + 1, text="other")) for n in range(1, 20))) == {}


def test_tools_are_apart() -> None:
    watched = Watched(only="failing")
    said = play(watched, *((failed("a", str(n)), failed("b", str(n))) for n in range(1, 9)))
    assert {number: [action for action, _ in what] for number, what in said.items()} == {
        3: ["nudge", "nudge"],
        5: ["block", "block"],
        8: ["stop", "stop"],
    }


@pytest.mark.parametrize("by", ["block", "equal"])
def test_our_blocks_go_on_counting(by: str) -> None:
    watched = Watched(only="failing")
    assert play(watched, *(varied(n) for n in range(5))) == {3: FAILING[3], 5: FAILING[5]}
    assert play(watched, *(refused(by, arguments=f"new {n}") for n in range(3))) == {3: FAILING[8]}


def test_so_does_a_round_of_which_only_a_part_was_blocked() -> None:
    watched = Watched(only="failing")
    play(watched, *(varied(n) for n in range(5)))
    rounds = ((refused("block", arguments=f"new {n}"), refused("policy", kind="denied")) for n in range(3))
    assert play(watched, *rounds) == {3: FAILING[8]}


@pytest.mark.parametrize(
    "between",
    [
        refused("interval", error="too_soon", text="again in 3 s"),
        refused("policy", kind="denied", error="denied"),
        bad(),
        Did(content="from memory", by="duplicate", reused_from="c0"),
        Did(kind="not_run", by="calls"),
        Did(kind="cancelled", by="cancel"),
    ],
)
def test_what_did_not_run_says_nothing_about_the_tool(between: Did) -> None:
    """Neither counts nor resets."""
    watched = Watched(only="failing")
    said = play(watched, *(did for n in range(1, 9) for did in (varied(n), between)))
    assert [number for number, what in said.items() if ("nudge", "failing") in what] == [5]
    assert [number for number, what in said.items() if ("stop", "failing") in what] == [15]


def test_one_call_that_fails_is_blocked_and_not_the_whole_tool() -> None:
    watched = Watched(only="failing")
    assert play(watched, *[failed()] * 5) == {3: FAILING[3], 5: FAILING[5]}
    assert watched.verdicts[-1].finding.keys == ("look a",)


def test_a_tool_that_fails_at_last_with_other_arguments_is_told_once() -> None:
    watched = Watched(only="failing")
    assert play(watched, failed(), failed(), failed(), *(varied(n) for n in range(4, 9))) == FAILING


def test_a_user_message_begins_anew() -> None:
    watched = Watched(only="failing")
    play(watched, *(varied(n) for n in range(7)))
    watched.user()
    assert play(watched, *(varied(n) for n in range(8))) == FAILING


def test_whatever_the_error_where_a_profile_asks_for_it() -> None:
    watched = Watched(Thresholds(failing=Steps(None, None, 3), failing_in_any_way=True), only="failing")
    errors = [failed(arguments=str(n), error=name, text=name * 3) for n, name in enumerate(("ab", "cd", "ef"))]
    assert play(watched, *errors) == {3: [("stop", "failing")]}
    watched = Watched(Thresholds(failing=Steps(None, None, 3), failing_in_any_way=True), only="failing")
    assert play(watched, *errors[:2], Did(), *errors[:2]) == {}


def test_the_least_step_is_the_second_failure() -> None:
    watched = Watched(Thresholds(failing=Steps(2, 3, 4)), only="failing")
    assert play(watched, *(varied(n) for n in range(1, 6))) == {2: FAILING[3], 3: FAILING[5], 4: FAILING[8]}


def test_the_memory_is_bounded_and_keeps_what_is_in_use() -> None:
    watched = Watched(only="failing arguments")
    for number in range(300):
        watched.turn(failed(f"tool_{number}"), wrong(1, f"bad_{number}"))
        if number % 10 == 0:
            watched.turn(failed("look", str(number)), wrong(number, "read"))
    streaks = {d.name: getattr(d, "_streaks", None) for d in watched.judge._desks["main"].detectors}
    for name, tool in (("failing", "look"), ("arguments", "read")):
        found = streaks[name]
        assert found is not None
        assert len(found) == REMEMBERED
        assert tool in found
    assert sorted(verdict.action for verdict in watched.verdicts) == ["block", "nudge", "nudge", "stop", "stop"]


# -- errors of one kind -----------------------------------------------------------------------------------------------


def kind(number: int, tool: str = "build") -> Did:
    return failed(tool, f"try {number}", text=f"cannot find 'thing_{number}' in /src/part{number}.c")


def test_the_same_failure_again_is_one_of_a_kind_too() -> None:
    """Of two detectors that see it the one with the lower bar speaks, and the other has nothing to add."""
    watched = Watched(only="failing erring")
    assert play(watched, *(varied(n) for n in range(1, 9))) == FAILING


def test_an_error_that_moves_after_something_new_is_the_next_of_many() -> None:
    """Mended one by one: each failure in another place, after a change that was new."""
    watched = Watched(only="erring")
    turns = [
        did for n in range(20) for did in (kind(n), Did("edit", f"part {n}", f"replaced line {n * 7} of part {n}"))
    ]
    assert play(watched, *turns) == {}


def test_so_it_is_where_yet_another_tool_failed_beside_it() -> None:
    watched = Watched(only="erring")
    turns: list[Did | tuple[Did, ...]] = []
    for n in range(20):
        turns += [kind(n), (failed("lint", f"{n}"), Did("edit", f"part {n}", f"replaced line {n * 7} of part {n}"))]
    assert not [number for number, what in play(watched, *turns).items() if number % 2]


def test_what_is_known_from_another_tool_in_between_mends_nothing() -> None:
    watched = Watched(only="erring")
    assert watched.turn(Did("read", "notes", "the notes")) == []
    said = play(watched, *(did for n in range(MOST) for did in (kind(n), Did("read", "notes", "the notes"))))
    assert said == {2 * number - 1: what for number, what in ERRING.items()}


def test_an_equal_call_that_fails_otherwise_moves_on() -> None:
    """The same test, run again and again: each time it fails at another place."""
    watched = Watched(only="erring")
    places = ("parser", "lexer", "writer", "reader", "loader", "router", "cache", "queue", "timer", "socket", "codec")
    assert play(watched, *(failed("test", "all", text=f"cannot import '{place}'") for place in places)) == {}


def test_one_of_several_in_a_round_that_moves_on_is_enough() -> None:
    watched = Watched(only="erring")
    places = ("parser", "lexer", "writer", "reader", "loader", "router", "cache", "queue", "timer", "socket", "codec")
    rounds = (
        (failed("test", "all", text=f"cannot import '{place}'"), failed("test", place, text=f"cannot import '{place}'"))
        for place in places
    )
    assert play(watched, *rounds) == {}


def test_the_reason_of_the_end_is_that_a_tool_fails() -> None:
    watched = Watched(only="erring")
    play(watched, *(kind(n) for n in range(MOST)))
    assert [(verdict.action, verdict.reason) for verdict in watched.verdicts][-1] == ("stop", "tool_failing")


# -- arguments --------------------------------------------------------------------------------------------------------

ARGUMENTS = {4: [("nudge", "arguments")], 5: [("stop", "arguments")]}


def wrong(number: int, tool: str = "look") -> Did:
    return bad(tool, "{" * number, f"problem {number}")


def test_three_tries_to_mend_them_then_a_word_then_the_end() -> None:
    watched = Watched(only="arguments")
    assert play(watched, *(wrong(n) for n in range(1, 8))) == ARGUMENTS
    assert watched.verdicts[-1].reason == "bad_arguments"
    assert "problem 5" in watched.verdicts[-1].message


def test_the_finding_names_the_last_tries_and_what_was_wrong() -> None:
    watched = Watched(Thresholds(arguments=Steps(None, None, 12)), only="arguments")
    play(watched, Did("read"), *(bad(arguments="{" * n, text=f"problem {n} " * 60) for n in range(12)))
    (found,) = watched.findings
    assert found.calls == tuple(f"c{call}" for call in range(6, 14))
    assert (found.count, found.onset, found.known) == (12, 6, ("problem 11 " * 60)[:400])


def test_arguments_that_fit_end_the_streak() -> None:
    watched = Watched(only="arguments")
    for fitting in (Did(), failed(), refused("block"), Did(kind="timed_out", error="timeout")):
        assert play(watched, wrong(1), wrong(2), wrong(3), fitting) == {}


def test_a_round_without_the_tool_is_no_mending() -> None:
    watched = Watched(only="arguments")
    assert play(watched, wrong(1), Did("read"), wrong(2), wrong(3), wrong(4)) == {5: ARGUMENTS[4]}


def test_parallel_tries_are_one() -> None:
    watched = Watched(only="arguments")
    assert play(watched, *((wrong(10 * n), wrong(10 * n + 1)) for n in range(1, 6))) == ARGUMENTS


@pytest.mark.parametrize("first", [True, False])
def test_a_round_in_which_one_call_fits_is_a_mending(first: bool) -> None:
    watched = Watched(only="arguments")
    pairs = ((wrong(n), Did(arguments=str(n))) for n in range(1, 10))
    assert play(watched, *(pair if first else pair[::-1] for pair in pairs)) == {}


def test_such_a_round_is_no_try_either() -> None:
    watched = Watched(only="arguments")
    assert play(watched, (wrong(1), Did()), wrong(2), wrong(3), wrong(4), wrong(5)) == {5: ARGUMENTS[4]}


def test_bad_arguments_of_two_tools_are_apart() -> None:
    watched = Watched(only="arguments")
    said = play(watched, *((wrong(n, "a"), wrong(n, "b")) for n in range(1, 6)))
    assert said == {4: ARGUMENTS[4] * 2, 5: ARGUMENTS[5] * 2}
    watched = Watched(only="arguments")
    assert play(watched, *(wrong(n, "ab"[n % 2]) for n in range(1, 7))) == {}


def test_what_waits_and_has_to_wait_on_does_not_fail() -> None:
    """As many programs say that something is pending by their status."""

    def checked(number: int, text: str) -> Did:
        command = f'{{"command":"sleep {30 * number}; gh pr checks 51"}}'
        return Did("shell", command, text, kind="failed", error="exit status 8", detail=text)

    pending = Watched(only="failing erring")
    assert play(pending, *(checked(n, f"lint\tpass\t{n}m\nunit\tpending\t0") for n in range(1, 12))) == {}
    broken = Watched(only="failing")
    assert play(broken, *(checked(n, "no git remotes found") for n in range(1, 12)))


def test_what_an_error_shows_of_the_arguments_does_not_tell_it_from_others() -> None:
    watched = Watched(only="erring")

    def patch(number: int) -> Did:
        old = f"-    retry_after = {'timeout' if number % 2 else 'deadline'} + {['one', 'two', 'three'][number % 3]}"
        text = f"Failed to find expected lines in src/app.py:\n class Worker:\n{old}"
        arguments = json.dumps({"input": f"*** Update File: src/app.py\n class Worker:\n{old}\n+    pass {number}"})
        return failed("apply_patch", arguments, "exit status 1", text)

    assert play(watched, *(patch(n) for n in range(1, MOST + 1))) == ERRING


# -- a tool that does many things --------------------------------------------------------------------------------------

REFUSED = "curl: (7) Failed to connect to localhost port {} after {} ms: Connection refused"


def asked(number: int) -> Did:
    """One more try at a server that is not up, after a longer wait."""
    command = json.dumps(
        {"command": f"sleep {number} && curl -s http://localhost/health?n={number}"}, separators=(",", ":")
    )
    return failed("bash", command, "failed", REFUSED.format(8000, number % 3))


def bash(command: str, content: str) -> Did:
    return Did("bash", json.dumps({"command": command}, separators=(",", ":")), content)


def alternating(command: str, times: int = 14) -> list[Did]:
    """Tries, and behind each one a command that is new."""
    others = [bash(f"{command} {'abcdefghijklmnopqrstu'[n]}", f"row {n}") for n in range(times)]
    return [did for n, other in enumerate(others, 1) for did in (asked(n), other)]


def test_what_a_tool_only_looks_at_in_between_is_no_reason_why_it_should_fail_no_longer() -> None:
    watched = Watched(only="erring")
    said = play(watched, *alternating("ps aux | grep"))
    assert list(said.values()) == [ERRING[step] for step in sorted(ERRING)]
    assert list(said) == [2 * step - 1 for step in sorted(ERRING)]
    block = watched.verdicts[1].finding
    assert (block.tool, block.subject) == ("bash", "bash curl")
    assert "tool:bash" not in block.keys  # it may be of use for something else
    assert block.onset_call == 1


@pytest.mark.parametrize("command", ["python server.py", "sed -i s/8000/8001/ conf", "echo 8001 > port", "make"])
def test_what_was_done_in_between_is(command: str) -> None:
    watched = Watched(only="erring")
    assert play(watched, *alternating(command, 20)) == {}


def test_so_is_a_time_at_which_it_works() -> None:
    watched = Watched(only="erring")
    turns = [*map(asked, range(1, 5)), bash("curl -s http://localhost/health", "up"), *map(asked, range(5, 9))]
    assert play(watched, *turns) == {}


def test_of_a_tool_that_is_told_what_to_do_one_thing_may_fail_beside_others() -> None:
    def edit(number: int) -> Did:
        arguments = {
            "command": "str_replace",
            "old_str": f"def some_name_{number}():\n    return None",
            "path": "/a/b.py",
        }
        text = f"No replacement was performed, old_str `{arguments['old_str']}` did not appear verbatim in /a/b.py."
        return failed("editor", json.dumps(arguments, separators=(",", ":")), text.split("\n")[0], text)

    def view(number: int) -> Did:
        arguments = {"command": "view", "path": "/a/b.py", "view_range": [number, number + 20]}
        return Did("editor", json.dumps(arguments, separators=(",", ":")), f"lines of {'abcdefghijklmnop'[number]}" * 9)

    watched = Watched(only="erring")
    said = play(watched, *(turn for n in range(1, 15) for turn in (edit(n), view(n))))
    assert list(said.values()) == [ERRING[step] for step in sorted(ERRING)]
    assert watched.verdicts[-1].finding.subject == "editor str_replace"
