"""Waiting is told from what a call says, and from what it is told."""

from __future__ import annotations

import pytest

from watchkeeper.detect.round import Pair
from watchkeeper.detect.waiting import goes_on, is_going_on, is_poll, is_wait


def pair(content: str = "", arguments: str = "", tool: str = "look") -> Pair:
    made = Pair(1, 0.0, "c1", tool, "k", "r", "finished")
    made.content, made.arguments = content, arguments
    return made


@pytest.mark.parametrize(
    "content",
    [
        "running",
        '{"status":"pending"}',
        "Build 7 is IN PROGRESS",
        "in_progress",
        "queued at place 3",
        "not ready yet",
        "It isn't finished",
        "The job hasn't finished.",
        "still processing, please wait",
        "Your parcel is in transit.",
    ],
)
def test_a_short_result_that_says_that_something_goes_on(content: str) -> None:
    assert is_going_on(pair(content))
    assert is_poll(pair(content), frozenset())


@pytest.mark.parametrize(
    "content",
    [
        "done",
        "",
        "the build failed while running",
        "error: still pending",
        '{"running": false}',
        '{"queued": 0}',
        "stopped; it was running",
        "running " + "x" * 300,
        "one\ntwo\nthree\nfour\nrunning",
        "prerunning",
    ],
)
def test_anything_else_is_no_wait(content: str) -> None:
    assert not is_going_on(pair(content))


@pytest.mark.parametrize("tool", ["send_mail", "job.submit", "create", "restart-server"])
def test_queued_is_an_acknowledgement_of_a_tool_that_does_something(tool: str) -> None:
    assert not is_going_on(pair("queued", tool=tool))
    assert is_going_on(pair("queued", tool="job_status"))


def test_a_failure_or_a_refusal_says_nothing_of_what_goes_on() -> None:
    one, other = pair("running"), pair("running")
    one.signature, other.ran = "error: running", False
    assert not is_going_on(one)
    assert not is_going_on(other)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("sleep", '{"seconds":30}'),
        ("wait_for", "{}"),
        ("agent.wait", ""),
        ("bash", '{"command":"sleep 30"}'),
        ("bash", '{"command":"sleep 30 && make status"}'),
        ("bash", '["bash","-lc","sleep 5; tail log"]'),
        ("powershell", '{"command":"Start-Sleep -Seconds 5"}'),
        ("bash", '{"command":"wait"}'),
    ],
)
def test_a_call_that_waits(tool: str, arguments: str) -> None:
    assert is_wait(pair(arguments=arguments, tool=tool))
    assert is_poll(pair(arguments=arguments, tool=tool), frozenset())


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("sleep", '{"seconds":0}'),
        ("bash", '{"command":"sleep 0"}'),
        ("bash", '{"command":"make && sleep 30"}'),
        ("bash", '{"command":"grep sleep src"}'),
        ("bash", '{"command":"cat waiting.txt"}'),
        ("waiter_of_table", '{"table":7}'),
        ("await", '{"x":1}'),
        ("search", '{"query":"how to sleep 8 hours"}'),
    ],
)
def test_a_call_that_does_not(tool: str, arguments: str) -> None:
    assert not is_wait(pair(arguments=arguments, tool=tool))


def test_a_declared_poll_is_one_whatever_it_says() -> None:
    assert is_poll(pair("done", tool="status"), frozenset({"status"}))
    assert not is_poll(pair("done", tool="status"), frozenset({"other"}))


CHECKS = "lint\tpass\t4m\nunit (3.10)\tpending\t0\nunit (3.11)\tpending\t0\ndocs\tpending\t0\nwindows\tpending\t0\n"


def test_what_ends_with_a_status_of_its_own_while_it_goes_on() -> None:
    waited = '{"command":"sleep 60; gh pr checks 51"}'
    assert goes_on(pair(CHECKS, waited, "shell"))
    assert not goes_on(pair(CHECKS, '{"command":"gh pr checks 51"}', "shell")), "it did not wait"
    assert not goes_on(pair(CHECKS.replace("lint\tpass", "lint\tfail"), waited, "shell"))
    assert not goes_on(pair("connection refused", waited, "shell"))
    assert not goes_on(pair(CHECKS * 100, waited, "shell")), "too long to be taken at its word"
