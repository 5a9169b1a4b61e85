"""What a failure is about: the leaf inside its groups, in words for the model, and whole for people."""

from __future__ import annotations

import asyncio
import subprocess

import pytest
import trio

from watchkeeper.errors import ToolError, Transient
from watchkeeper.failures import LONGEST, SHOWN, describe, full_text, holds, is_timeout, leaf, short


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class TimeoutException(Exception):
    pass


class PoolTimeout(TimeoutException):
    pass


def cancelled() -> BaseException:
    return asyncio.CancelledError()


def raised(failure: BaseException) -> BaseException:
    try:
        raise failure
    except BaseException as error:
        return error


FOUND = ValueError("the cause")


@pytest.mark.parametrize(
    "failure",
    [
        FOUND,
        ExceptionGroup("one", [FOUND]),
        ExceptionGroup("one", [ExceptionGroup("two", [ExceptionGroup("three", [FOUND])])]),
        BaseExceptionGroup("one", [cancelled(), FOUND]),
        BaseExceptionGroup("one", [BaseExceptionGroup("two", [cancelled()]), BaseExceptionGroup("three", [FOUND])]),
        ExceptionGroup("one", [FOUND, KeyError("another")]),
    ],
)
def test_the_leaf_is_what_is_told(failure: BaseException) -> None:
    """ERRG-01"""
    assert leaf(failure) is FOUND


def test_a_group_of_cancels_is_a_cancel() -> None:
    one = cancelled()
    assert leaf(BaseExceptionGroup("g", [BaseExceptionGroup("h", [one]), cancelled()])) is one


def test_what_a_group_holds() -> None:
    group = BaseExceptionGroup("g", [BaseExceptionGroup("h", [cancelled()]), FOUND])
    assert holds(group, asyncio.CancelledError)
    assert holds(group, ValueError)
    assert not holds(group, KeyError)
    assert holds(FOUND, Exception)


@pytest.mark.parametrize(
    "failure",
    [
        TimeoutError(),
        trio.TooSlowError(),
        subprocess.TimeoutExpired("sleep", 1),
        PoolTimeout(),
        ExceptionGroup("g", [ExceptionGroup("h", [TimeoutError()])]),
    ],
)
def test_every_kind_of_timeout_is_one(failure: BaseException) -> None:
    """TIME-02"""
    assert is_timeout(failure)


@pytest.mark.parametrize("failure", [ValueError("timeout"), cancelled(), OSError(), ExceptionGroup("g", [OSError()])])
def test_what_is_no_timeout(failure: BaseException) -> None:
    assert not is_timeout(failure)


@pytest.mark.parametrize(
    ("failure", "described"),
    [
        (ValueError("bad value"), ("ValueError", "bad value", "the tool's hint")),
        (ToolError("no such row"), ("tool_error", "no such row", "the tool's hint")),
        (ToolError("no such row", hint="list them first"), ("tool_error", "no such row", "list them first")),
        (Transient("busy", retry_after=3), ("transient", "busy", "the tool's hint")),
        (Unprintable(), ("Unprintable", "", "the tool's hint")),
        (KeyError("a"), ("KeyError", "'a'", "the tool's hint")),
    ],
)
def test_what_the_model_reads(failure: BaseException, described: tuple[str, str, str | None]) -> None:
    assert describe(failure, "the tool's hint") == described


def test_only_the_first_line_is_read_in_bounds() -> None:
    assert short(ValueError("\n\nfirst line\nsecond line")) == "first line"
    assert short(ValueError("x" * 1000)) == "x" * SHOWN + "…"
    assert short(ValueError()) == ""


def test_the_whole_of_it_is_for_people() -> None:
    text = full_text(raised(ExceptionGroup("several", [ValueError("one"), KeyError("two")])))
    assert "Traceback (most recent call last)" in text
    assert "ValueError: one" in text
    assert "KeyError: 'two'" in text
    assert "in raised" in text


def test_a_failure_that_cannot_be_shown_is_named() -> None:
    assert "Unprintable" in full_text(raised(Unprintable()))


def test_a_very_long_traceback_keeps_its_begin_and_its_end() -> None:
    text = full_text(raised(ValueError("start" + "x" * 100_000 + "end")))
    assert len(text) < LONGEST + 100
    assert text.startswith("Traceback")
    assert text.rstrip().endswith("end")
    assert "characters left out" in text
