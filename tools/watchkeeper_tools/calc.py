"""A calculator: arithmetic on bounded expressions, by walking their syntax tree; nothing is ever evaluated as code."""

from __future__ import annotations

import ast
import math
import operator
import os
import re
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from watchkeeper import Effect, Tool, ToolError, tool

MAX_LENGTH = 1_000
MAX_DEPTH = 50
MAX_BITS = 4_096
"""Bits of a whole number: about 1,233 digits."""
MAX_ARGUMENTS = 100

Number = int | float
Expression = Annotated[str, Meta(min_length=1, max_length=MAX_LENGTH, description="such as '2 * (3 + 4) ** 2'")]

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "max": max,
    "min": min,
    "round": round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_NAMES = ", ".join([*_FUNCTIONS, *_CONSTANTS])
_HINT = f"use numbers, + - * / // % ** ( ) and {_NAMES}"
_TOKEN = re.compile(
    r"\s*(?:((?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])|([A-Za-z]\w*)|(\*\*|//|[-+*/%(),]))",
    re.ASCII,
)


def tools(*, root: str | os.PathLike[str] = ".", **_: Any) -> list[Tool]:
    """The tool ``calculate``. It touches nothing and its answers do not change."""
    return [tool(effect=Effect(), timeout=5, stable=True, idempotent=True)(calculate)]


async def calculate(expression: Expression) -> str:
    """Calculate an arithmetic expression: + - * / // % ** and parentheses, sqrt, sin, cos, tan (radians), log(x) or
    log(x, base), exp, abs, round(x, digits), min, max, floor, ceil, pi, e."""
    _refuse_unknown(expression)
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ToolError("that is not a complete expression", hint=_HINT) from None
    try:
        return _text(_value(tree.body, MAX_DEPTH))
    except ZeroDivisionError:
        raise ToolError("division by zero", hint="check the divisor") from None
    except OverflowError:
        raise ToolError("the result is too large", hint="use smaller numbers") from None
    except (ValueError, TypeError) as error:
        raise ToolError(f"not defined: {error}", hint="check what the functions are given") from None


def _refuse_unknown(expression: str) -> None:
    """Let only numbers, known names and operators through, so that the parser never meets anything else."""
    if len(expression) > MAX_LENGTH:
        raise ToolError(f"the expression is {len(expression):,} characters long; {MAX_LENGTH:,} is the most")
    text, at, depth = expression.strip(), 0, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            hint = "write ** for powers" if text[at:].lstrip().startswith("^") else _HINT
            raise ToolError(f"cannot read {text[at : at + 20]!r}", hint=hint)
        name = token.group(2)
        if name is not None and name not in _FUNCTIONS and name not in _CONSTANTS:
            raise ToolError(f"unknown name {name[:40]!r}", hint=_HINT)
        depth += {"(": 1, ")": -1}.get(token.group(3) or "", 0)
        if depth > MAX_DEPTH:
            raise ToolError(f"parentheses are nested more than {MAX_DEPTH} deep")
        at = token.end()


def _value(node: ast.expr, depth: int) -> Number:
    if depth == 0:
        raise ToolError(f"the expression is nested more than {MAX_DEPTH} deep", hint="calculate it in parts")
    match node:
        case ast.Constant(value=int() | float() as value):
            return _bounded(value)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            value = _value(operand, depth - 1)
            return -value if isinstance(sign, ast.USub) else value
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, depth - 1), _value(right, depth - 1))
        case ast.BinOp():
            return _chain(node, depth)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _call(name, [_value(arg, depth - 1) for arg in args])
    raise ToolError("that cannot be calculated", hint=_HINT)


def _chain(node: ast.expr, depth: int) -> Number:
    """``a + b - c …``: the parser nests such a chain to the left; it is taken apart in a loop, however long it is."""
    rest: list[tuple[Callable[[Any, Any], Any], ast.expr]] = []
    while isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        rest.append((_OPERATORS[type(node.op)], node.right))
        node = node.left
    value = _value(node, depth - 1)
    for operation, right in reversed(rest):
        value = _bounded(operation(value, _value(right, depth - 1)))
    return value


def _call(name: str, values: list[Number]) -> Number:
    if len(values) > MAX_ARGUMENTS:
        raise ToolError(f"{name} with {len(values)} arguments; {MAX_ARGUMENTS} is the most")
    if name in ("min", "max"):
        if not values:
            raise ToolError(f"{name} needs a number")
        return _bounded(_FUNCTIONS[name](values))
    if name == "round" and len(values) == 2 and abs(values[1]) > 300:
        raise ToolError("round to at most 300 digits")
    return _bounded(_FUNCTIONS[name](*values))


def _power(base: Number, exponent: Number) -> Number:
    """``base ** exponent``, after a look at how large it will be."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        if exponent * abs(base).bit_length() > 2 * MAX_BITS:
            raise OverflowError
        if exponent < -2 * MAX_BITS:
            return 0.0
    return _bounded(base**exponent)


def _bounded(value: object) -> Number:
    if isinstance(value, int) and value.bit_length() <= MAX_BITS:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, complex):
        raise ToolError("the result is not a real number", hint="a root of a negative number is not defined here")
    raise OverflowError


def _text(value: Number) -> str:
    return str(value) if isinstance(value, int) else f"{value + 0.0:.15g}"  # + 0.0: no negative zero
