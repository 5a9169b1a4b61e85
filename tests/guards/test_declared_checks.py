"""Checks of arguments that a tool declares: asked before it runs, all problems told at once."""

from __future__ import annotations

from typing import Any

import pytest
from asked import WORDING, Asked, is_guard

from watchkeeper import ConfigurationError, tool
from watchkeeper.guards.checks import Checks
from watchkeeper.guards.guard import Refuse


def even(value: Any) -> str | None:
    return None if value % 2 == 0 else f"{value} is odd"


def small(value: Any) -> str | None:
    return None if value < 10 else f"{value} is large"


@tool(checks={"a": even, "b": (even, small)})
def add(a: int, b: int = 0) -> int:
    """Add."""
    return a + b


@tool
def plain(a: int) -> int:
    """No checks."""
    return a


def test_what_passes_passes() -> None:
    run = Asked(Checks(WORDING))
    assert is_guard(run.guard)
    assert run.ask(add, a=2, b=4) is None
    assert run.ask(plain, a=3) is None


def test_all_problems_are_told_at_once() -> None:
    refused = Asked(Checks(WORDING)).ask(add, a=1, b=11)
    assert isinstance(refused, Refuse)
    assert (refused.kind, refused.error) == ("refused", "check_failed")
    assert "- a: 1 is odd\n- b: 11 is odd\n- b: 11 is large\n" in refused.message


def test_a_check_that_fails_lets_nothing_pass() -> None:
    with pytest.raises(TypeError):  # a guard that raises refuses the call
        Asked(Checks(WORDING)).ask(add, a="x", b=2)


def test_a_check_of_an_argument_that_is_not_there() -> None:
    with pytest.raises(ConfigurationError, match="checks names 'c', which is not a parameter; it has a"):
        tool(checks={"c": even})(plain.function)
