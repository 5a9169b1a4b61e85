"""The suite itself: its mutants are mutants, its faults are faults, its page says nothing without a number."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from . import parts
from .driver import PARTS, SIZES
from .figures import Figure, page
from .mutation import CORES, count, drawn, mutants
from .planted import FAULTS, Fault
from .surgery import ROOT, path_of, unchanged

OPERATION = """
from reliability.planted import FAULTS, planted
from reliability.surgery import load, operate, unchanged
load()
fault = next(fault for fault in FAULTS if fault.what == "a budget is off by one")
print(operate(fault.module, unchanged(fault.module), ["tests/test_budget.py"]), planted(fault).test)
"""


def test_a_fault_that_is_put_in_is_caught_and_the_source_as_it_is_passes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPERATION], cwd=ROOT / "tests", capture_output=True, text=True, check=True, timeout=300
    )
    verdict, test = done.stdout.split()
    assert verdict == "survived"
    assert test.startswith("tests/test_budget.py::")


PURE = """
import ast, sys
from reliability.mutation import BENEATH, CORES, control, mutants, tried
from reliability.surgery import load, operate
load(*BENEATH)
core = "watchkeeper.ledger"
endless = operate(core, ast.parse("while True: pass"), CORES[core], seconds=1, pure=True)
print([core for core in CORES if core in sys.modules], control(core), tried(mutants(core, [1])[0]), endless)
"""


def test_a_mutant_of_a_core_is_caught_and_one_that_never_ends_is_ended() -> None:
    """No core is loaded beforehand."""
    done = subprocess.run(
        [sys.executable, "-c", PURE], cwd=ROOT / "tests", capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == ["[]", "survived", "caught", "hung"]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_each_fault_has_its_place_in_the_source_and_its_tests(fault: Fault) -> None:
    assert fault.line > 0
    assert fault.before != fault.after
    assert all((ROOT / "tests" / name).exists() for name in fault.tests)


@pytest.mark.parametrize("module", CORES)
def test_each_core_has_its_tests(module: str) -> None:
    assert path_of(module).exists()
    assert all((ROOT / name).exists() for name in CORES[module])


def test_each_core_is_in_one_row() -> None:
    assert sorted(module for modules in parts.GROUPS.values() for module in modules) == sorted(CORES)


def test_each_mutant_differs_from_the_source_and_from_the_others() -> None:
    source = ast.unparse(unchanged("watchkeeper.planner"))
    made = [
        ast.unparse(mutant.tree) for mutant in mutants("watchkeeper.planner", range(0, count("watchkeeper.planner"), 2))
    ]
    assert len(made) > 30
    assert source not in made
    assert len(set(made)) == len(made)


def test_equal_seeds_draw_equal_mutants() -> None:
    cores = ("watchkeeper.budget", "watchkeeper.ledger")
    first = [str(mutant) for mutant in drawn(cores, 20, 1)]
    assert len(set(first)) == 20
    assert first == [str(mutant) for mutant in drawn(cores, 20, 1)]
    assert first != [str(mutant) for mutant in drawn(cores, 20, 2)]
    assert len(drawn(cores, 0, 1)) == sum(map(count, cores)) == len(drawn(cores, 10**6, 1))


def test_a_figure_without_a_number_is_not_published() -> None:
    figure = Figure("chaos", "runs", 3, "0 broken", "0-2", True, ("completed: 3",))
    whole = page([figure, figure._replace(holds=False)], "per push")
    assert "| runs | 3 | 0 broken | 0-2 | yes |" in whole
    assert "| runs | 3 | 0 broken | 0-2 | **no** |" in whole
    assert "- completed: 3" in whole
    with pytest.raises(AssertionError, match="without n"):
        page([figure._replace(n=0)], "per push")


def test_the_marks_of_a_quiet_run_are_counted() -> None:
    assert parts._counts("..F.s   [ 50%]\n..E.\n== FAILURES ==\nE   x\n1 failed\n") == (6, 2)


def test_every_part_has_its_size() -> None:
    assert set(PARTS) == set(SIZES)
    assert all(callable(getattr(parts, name)) for name in PARTS)
