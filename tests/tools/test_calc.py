from __future__ import annotations

import contextlib
import math
from collections.abc import Coroutine

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Effect, ToolError
from watchkeeper_tools import calc

pytestmark = pytest.mark.anyio


def test_the_tool() -> None:
    (made,) = calc.tools(root="anywhere")
    assert made.name == "calculate"
    assert made.stable
    assert made.effect == Effect()


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 + 2 * 3", "7"),
        ("-(1 + 2) ** 2", "-9"),
        ("2 ** -1", "0.5"),
        ("2 ** 3 ** 2", "512"),
        ("7 // 2 + 7 % 4", "6"),
        ("-7 // 2", "-4"),
        ("0.1 + 0.2", "0.3"),
        ("1e3 / 4", "250"),
        ("1_000 * .5", "500"),
        ("sqrt(16) + abs(-3)", "7"),
        ("round(2.675, 1)", "2.7"),
        ("round(pi, 4)", "3.1416"),
        ("max(1, 2.5, -3) - min(4, 2)", "0.5"),
        ("floor(-1.5) * ceil(1.2)", "-4"),
        ("log(8, 2)", "3"),
        ("log(e)", "1"),
        ("sin(0) + cos(0) + tan(0) + exp(0)", "2"),
        ("-0.0", "0"),
        (" ( 1\n + 1 ) ", "2"),
        ("+".join(["1"] * 500), "500"),
        ("10 ** 1000", "1" + "0" * 1000),
        ("10 ** -5000", "0"),
        ("(-1) ** (2 ** 4000)", "1"),
    ],
)
async def test_results(expression: str, result: str) -> None:
    assert await calc.calculate(expression) == result


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "not a complete expression"),
        ("1 +", "not a complete expression"),
        ("(1", "not a complete expression"),
        ("1, 2", "cannot be calculated"),
        ("sqrt", "cannot be calculated"),
        ("1(2)", "cannot be calculated"),
        ("pi(2)", "cannot be calculated"),
        ("007", "not a complete expression"),
        ("1 / 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("2 ^ 3", "cannot read"),
        ("2 ** 100000", "too large"),
        ("9 ** 9 ** 9 ** 9", "too large"),
        ("10.0 ** 1000", "too large"),
        ("1e999", "too large"),
        ("1e308 * 10", "too large"),
        ("*".join(["10 ** 1000"] * 5), "too large"),
        ("round(1, -10 ** 1000)", "300 digits"),
        ("round(1.5, 10 ** 9)", "300 digits"),
        ("(-8) ** 0.5", "not a real number"),
        ("sqrt(-1)", "not defined"),
        ("log(0)", "not defined"),
        ("sqrt(1, 2)", "not defined"),
        ("max()", "needs a number"),
        ("max(" + ",".join(["1"] * 101) + ")", "100 is the most"),
        ("(" * 60 + "1" + ")" * 60, "nested"),
        ("-" * 900 + "1", "nested"),
        ("1" * 2000, "1,000 is the most"),
        ("x + 1", "unknown name 'x'"),
        ("__import__('os')", "cannot read"),
        ("abs.__class__", "cannot read"),
        ("().__class__", "cannot read"),
        ("0x10", "cannot read"),
        ("1if 1else 2", "cannot read"),
        ("1 if pi else 2", "unknown name 'if'"),
        ("not 1", "unknown name 'not'"),
        ("lambda: 1", "unknown name 'lambda'"),
        ("[1]", "cannot read"),
        ("'a' * 9", "cannot read"),
        ("1j", "cannot read"),
        ("max(*pi)", "cannot be calculated"),
        ("abs(e=1)", "cannot read"),
        ("1 << 9", "cannot read"),
        ("٣ + ٣", "cannot read"),
        ("1\0", "cannot read"),
        ("\ud800", "cannot read"),
    ],
)
async def test_refusals(expression: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        await calc.calculate(expression)


@given(st.text(alphabet="0123456789.eE+-*/%(),_ pisqrtmaxlogo\n", max_size=60))
def test_any_text_is_a_number_or_a_tool_error(expression: str) -> None:
    with contextlib.suppress(ToolError):
        assert math.isfinite(float(at_once(calc.calculate(expression))))


def at_once(coroutine: Coroutine[None, None, str]) -> str:
    """The value of a coroutine that waits for nothing."""
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    return str(done.value.value)
