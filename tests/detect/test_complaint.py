"""One tool whose results end in one and the same complaint, though they count as results."""

from __future__ import annotations

import pytest
from watched import Did, Watched, failed, steps_by

COMPLAINT = steps_by("complaint")
NUDGE = min(COMPLAINT)


def told(watched: Watched, *dids: Did) -> dict[int, list[tuple[str, str]]]:
    said = {number: watched.turn(did) for number, did in enumerate(dids, 1)}
    return {number: what for number, what in said.items() if what}


def shell(number: int, content: str) -> Did:
    return Did("bash", f'{{"command":"make part_{number}"}}', content)


@pytest.mark.parametrize(
    "complaint",
    [
        "bash: tool: command not found",
        "Traceback (most recent call last):\n  File \"x{n}.py\", line {n}\nImportError: no module named 'lib'",
        "cat: /data/part.txt: No such file or directory",
        "make: *** [all] Error {n}\nfatal: part.o is missing",
        "error[E0433]: cannot find value `x` in this scope after {n}ms",
        "ERRORS:\n- E999 IndentationError: unexpected indent",
        "curl: (7) Failed to connect to web port 8080 after {n} ms",
        "429 Too Many Requests for part {n}",
        '{{"ok":false,"error":"quota exceeded"}}',
    ],
)
def test_whatever_is_tried_it_ends_in_the_same_complaint(complaint: str) -> None:
    said = told(
        Watched(only="complaint"),
        *(shell(n, f"trying {n}\n{complaint.format(n=n)}") for n in range(10, 11 + max(COMPLAINT))),
    )
    assert said == COMPLAINT


@pytest.mark.parametrize(
    "complaint",
    [
        *("ValueError", "  - E501 ValueError in part.py", "java.lang.NullPointerException", "KernelPanic, all stops"),
        *("error: no", "Error: no", "error[E1]: no", "ERROR: no", "ERROR[7]: no"),
        *("fatal: no", "fatal[1]: no", "FATAL: no", "panic: no", "panic[main]: no"),
        *("sh: tool: command not found", "cat: x: No such file or directory", "cat: x: Permission denied"),
        *("'tool' is not recognized as a command", "curl: (7) no", "HTTP 429", "rate limit", "Rate limit reached"),
        *("Too Many Requests", "quota exceeded", "Quota exceeded", '{"ok": false}', '{"success":false}'),
        *('{"error": "no"}', '{"error":{"code":7}}', '{"status": "error"}', '{"status":"failed"}', '{"status": 503}'),
        *("HTTP/1.1 401 Unauthorized", "< HTTP/2 500 ", "HTTP 403 Forbidden"),
        *("Invalid signature", "it is invalid", "Access denied", "Unable to open it", "I was unable to open it"),
        *(
            "Failed to open it",
            "it failed to open",
            "Cannot open it",
            "it cannot be",
            "Could not open it",
            "it could not be",
        ),
    ],
)
def test_each_way_to_complain_is_heard_alone(complaint: str) -> None:
    said = told(Watched(only="complaint"), *(shell(n, f"all right\n{complaint}") for n in range(NUDGE)))
    assert said == {NUDGE: COMPLAINT[NUDGE]}


@pytest.mark.parametrize("answer", ["404 Not Found", '502 {"a":1}'])
def test_an_answer_that_begins_with_its_status(answer: str) -> None:
    assert told(Watched(only="complaint"), *(shell(n, answer) for n in range(NUDGE))) == {NUDGE: COMPLAINT[NUDGE]}


@pytest.mark.parametrize(
    "words",
    [
        "an error in the text",
        "panicked",
        "a fatality",
        "not false at all",
        "Exceptional",
        '{"error":null}',
        '{"error": false, "status": "ok", "code": 200}',
        "HTTP/2 200 ",
        "4000 Rows",
        "invalidated",
        "cannonball",
    ],
)
def test_words_that_look_like_it_are_no_complaint(words: str) -> None:
    assert told(Watched(only="complaint"), *(shell(n, words) for n in range(NUDGE))) == {}


def test_the_finding_says_what_it_complains_of() -> None:
    watched = Watched(only="complaint")
    complaint = "error: " + "so long that " * 20
    told(watched, *(shell(n, f"part {n}\n{complaint}") for n in range(NUDGE)))
    assert watched.findings[-1].pattern == f"failing: {' '.join(complaint.split())[:120]}"
    assert watched.findings[-1].known == f"part {NUDGE - 1}\n{complaint}"[:400]


def test_what_is_far_from_the_end_or_far_to_the_right_is_none() -> None:
    """There it may be a part of what was asked for."""
    early = "error: no\n" + "as it should be\n" * 80
    right = "x" * 400 + " error: no"
    for content in (early, right):
        assert told(Watched(only="complaint"), *(shell(n, content) for n in range(NUDGE))) == {}


def test_one_that_works_ends_it() -> None:
    turns = (shell(n, "all is well" if n % NUDGE == NUDGE - 1 else "bash: tool: command not found") for n in range(40))
    assert told(Watched(only="complaint"), *turns) == {}


def test_so_does_another_complaint() -> None:
    kinds = ("command not found", "Permission denied", "No such file or directory", "error: it is too long")
    assert told(Watched(only="complaint"), *(shell(n, f"tool: {kinds[n % 4]}") for n in range(40))) == {}


def test_of_another_thing_it_is_another_complaint() -> None:
    missing = (shell(n, f"bash: tool_{n}: command not found") for n in range(40))
    assert told(Watched(only="complaint"), *missing) == {}


def test_after_something_new_it_may_be_the_next_of_many() -> None:
    """A build that is mended one error after the other."""
    watched = Watched(only="complaint")
    for n in range(20):
        assert watched.turn(shell(n, "error: cannot find 'thing' in part.c")) == []
        assert watched.turn(Did("edit", f"part {n}", f"replaced line {n * 7} of part {n}")) == []


def test_a_word_in_the_middle_of_a_text_is_no_complaint() -> None:
    page = "This page is about errors.\nHow an error is handled is said below; not all of it is known.\nThat is all."
    assert told(Watched(only="complaint"), *(shell(n, f"{page}\nPage {n} of 40.") for n in range(40))) == {}


def test_failures_are_judged_elsewhere() -> None:
    assert told(Watched(only="complaint"), *(failed("bash", f"{n}", text="error: no") for n in range(20))) == {}


def test_a_wide_fan_out_is_not_looked_at() -> None:
    watched = Watched(only="complaint")
    for turn in range(12):
        assert watched.turn(*(shell(100 * turn + n, "x: command not found") for n in range(9))) == []


def test_another_tool_that_complains_is_no_news() -> None:
    def busy(tool: str, number: int) -> Did:
        return Did(tool, f'{{"q":"thing {number}"}}', "429 Too Many Requests")

    turns = [busy(tool, number) for number in range(max(COMPLAINT)) for tool in ("search", "fetch")]
    assert len(told(Watched(only="complaint"), *turns)) == 2 * len(COMPLAINT)
