"""How good the tests of the pure cores are: small faults put into them, one at a time, and how many the tests catch.

A mutant is one change of one node of the source: another comparison, a sign, a number one higher, a condition turned
round, a statement left out. Which of them are tried is drawn by seed, the same number of each core, each mutant of it
as likely as any other. Some mutants change nothing that can be seen; they count as survivors all the same.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from .surgery import Verdict, operate, unchanged

DETECTORS = {
    **{
        name: name
        for name in (
            *("chant", "churn", "compaction", "complaint", "cycle", "equal", "failing", "fruitless", "handover"),
            *("interleaved", "monologue", "poll", "recurring", "silence", "similar", "stale", "turnedaway", "volume"),
        )
    },
    **{"badarguments": "failing", "breaker": "poll", "equal_any": "equal"},
}
"""Every module with a detector, and where its tests are; what the tests of scenarios would catch beside it is not
counted."""

CORES: dict[str, tuple[str, ...]] = {
    "watchkeeper.planner": ("tests/test_planner.py",),
    "watchkeeper.ledger": ("tests/test_ledger.py",),
    "watchkeeper.budget": ("tests/test_budget.py",),
    "watchkeeper.ladder": ("tests/test_ladder.py",),
    **{f"watchkeeper.detect.{name}": (f"tests/detect/test_{tests}.py",) for name, tests in DETECTORS.items()},
}
"""The cores, and the tests that are to catch what is wrong with each."""

BENEATH = (
    *(f"watchkeeper.{name}" for name in ("errors", "messages", "thresholds", "tools", "fingerprint")),
    *(f"watchkeeper.detect.{name}" for name in ("alike", "arguments", "detector", "round", "saying", "volatile")),
)
"""What the cores rest on, and what is slow to load: it is loaded once."""

SECONDS = 10
"""Of processor time, after which a test goes round for ever: those of each core take 3 at most."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    module: str
    line: int
    what: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.what}"


def mutants(module: str, numbers: Iterable[int]) -> list[Mutant]:
    """The mutants of a module with these numbers, counted from 0 in the order of its source."""
    return [_mutant(module, number) for number in numbers]


def count(module: str) -> int:
    return sum(1 for _ in _changes(unchanged(module)))


def _mutant(module: str, number: int) -> Mutant:
    tree = unchanged(module)
    node, change = next(islice(_changes(tree), number, None))
    before, line = ast.unparse(node), getattr(node, "lineno", 0)
    changed = change()
    ast.fix_missing_locations(tree)
    after = "left out" if changed is None else repr(ast.unparse(changed)[:60])
    return Mutant(module, line, f"{before[:60]!r} is {after}", tree)


def _changes(tree: ast.Module) -> Iterator[tuple[ast.AST, Callable[[], ast.AST | None]]]:
    """The nodes that can be changed, each with what changes it and returns what stands there then."""
    for node in _walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
            yield node, _setting(node, "ops", [_COMPARISONS[type(node.ops[0])]()])
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS:
            yield node, _setting(node, "op", _OPERATORS[type(node.op)]())
        elif isinstance(node, ast.BoolOp):
            yield node, _setting(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, _setting(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
        elif isinstance(node, ast.If | ast.IfExp | ast.While) and isinstance(
            node.test, ast.Name | ast.Call | ast.Attribute
        ):
            yield node.test, _setting(node, "test", ast.UnaryOp(ast.Not(), node.test))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            value = not node.value if isinstance(node.value, bool) else node.value + 1
            yield node, _setting(node, "value", value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in _SWAPPED:
            yield node, _setting(node, "id", _SWAPPED[node.id])
        elif (
            isinstance(node, ast.Break | ast.Continue)
            or (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant))
            or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript))
        ):
            yield node, _leave_out(tree, node)
        elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
            yield node.value, _setting(node, "value", ast.Constant(None))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: no annotations, signatures, decorators, names of slots, or checks of our own."""
    for part in _parts(node):
        if isinstance(part, ast.Assert | ast.Import | ast.ImportFrom):
            continue
        if isinstance(part, ast.If) and "TYPE_CHECKING" in ast.unparse(part.test):
            continue
        if isinstance(part, ast.Assign) and "__slots__" in ast.unparse(part.targets[0]):
            continue
        yield part
        yield from _walk(part)


def _parts(node: ast.AST) -> Iterable[ast.AST]:
    if isinstance(node, ast.FunctionDef):
        return node.body
    if isinstance(node, ast.ClassDef):
        return node.body
    if isinstance(node, ast.AnnAssign):
        return [node.value] if node.value is not None else []
    return ast.iter_child_nodes(node)


def _setting(node: ast.AST, field: str, value: object) -> Callable[[], ast.AST]:
    """Of a statement only what is put into it is shown."""

    def change() -> ast.AST:
        setattr(node, field, value)
        return value if isinstance(value, ast.AST) and field in ("test", "value") else node

    return change


def _leave_out(tree: ast.Module, node: ast.stmt) -> Callable[[], None]:
    def change() -> None:
        for parent in ast.walk(tree):
            for _, value in ast.iter_fields(parent):
                if isinstance(value, list) and node in value:
                    value[value.index(node)] = ast.copy_location(ast.Pass(), node)
                    return

    return change


def drawn(modules: Sequence[str], number: int, seed: int) -> list[Mutant]:
    """So many of the mutants of these modules, each as likely as any other, in the order of the source; 0 for all."""
    there = [(module, each) for module in modules for each in range(count(module))]
    if 0 < number < len(there):
        draws = random.Random(f"{seed} {' '.join(modules)}")
        there = [there[place] for place in sorted(draws.sample(range(len(there)), number))]
    return [_mutant(module, each) for module, each in there]


def tried(mutant: Mutant) -> Verdict:
    return operate(mutant.module, mutant.tree, CORES[mutant.module], seconds=SECONDS, pure=True)


def control(module: str) -> Verdict:
    """What the tests say of the module as it is: were it not ``survived``, they would tell nothing of its mutants."""
    return operate(module, unchanged(module), CORES[module], seconds=SECONDS, pure=True)
