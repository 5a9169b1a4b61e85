"""No scenario is forgotten: each of the shared ones has a test here, or one elsewhere."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent

ELSEWHERE = {
    "APPR-01": "recovery/test_attempts.py::test_an_approval_survives_a_restart_under_its_old_id",
    "APPR-02": "recovery/test_attempts.py::test_a_disconnect_is_neither_yes_nor_no_and_the_deadline_stands",
    "APPR-04": "test_approvals.py::test_appr_04_what_runs_are_the_bytes_that_were_shown",
    "APPR-05": "test_approvals.py::test_appr_05_a_cancel_ends_the_wait_at_once",
    "CANC-04": "test_cancel.py::test_a_tool_that_swallows_the_cancel_is_abandoned_at_the_grace_period",
    "COST-02": "models/test_dialect.py::test_cost_02_one_request_costs_the_same_whoever_counts",
    "DUPX-01": "recovery/test_after_crash.py::test_by_default_nobody_runs_it_where_nobody_can_be_asked",
    "ORPH-02": "recovery/test_cuts.py::test_it_ends_as_it_would_have",
    "PATH-01": "tools/test_confinement.py::test_names_that_lead_outside",
    "PATH-02": "tools/test_confinement.py::test_links_are_refused",
    "PROV-01": "models/test_openai.py::test_it_is_dropped_once_and_for_all",
    "REST-01": "service/test_foreman.py::test_too_many_deaths_end_the_foreman_and_the_others",
    "REST-02": "service/test_vitals.py::test_it_gives_up_exactly_where_a_window_holds_too_many",
    "RTRY-04": "models/test_failure.py::test_by_structured_code_then_by_status",
    "SECR-01": "test_secret_runs.py::test_secr_01_in_arguments_results_failures_task_instructions_and_history",
    "SECR-02": "test_secret_runs.py::test_secr_02_in_what_a_model_raises_and_what_is_reported",
    "SECU-01": "service/test_hostile.py::test_they_are_refused_and_nothing_happens",
    "SECU-02": "service/test_hostile.py::test_they_are_refused_and_nothing_happens",
    "SHEL-01": "guards/test_policy_guard.py::test_shel_01_one_command_is_permitted_and_none_that_resembles_it",
    "SSRF-01": "tools/test_http_tools.py::test_urls_that_are_not_asked",
    "WDOG-04": "service/test_foreman.py::test_one_that_hangs_is_named_with_its_stack_and_killed_at_its_grace",
    "WRIT-02": "tools/test_files.py::test_a_write_that_breaks_off_changes_nothing",
}
"""Scenarios whose test stands with the part that it is about."""

KNOWN = (
    "LOOP-01",
    "PARL-05",
    "RTRY-01",
    "RTRY-02",
    "NDUP-02",
    "CANC-04",
    "TURN-01",
    "TURN-04",
    "TURN-05",
    "LOOP-04",
    "MISS-01",
    "NDUP-01",
    "JRNL-01",
    "JRNL-02",
    "RACE-05",
    "SECU-04",
)
"""Scenarios of which it is known that a decision of ours differs from them."""

_NAMED = re.compile(r"test_((?:[a-z]{4}_\d\d_)+)")
_ID = re.compile(r"\b[A-Z]{4}-\d\d\b")


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def covered() -> dict[str, list[str]]:
    """The scenarios that a test of this folder names, and the tests."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        for name in sorted(functions(path)):
            named = _NAMED.match(name)
            for kind, number in re.findall(r"([a-z]{4})_(\d\d)_", named[1]) if named else ():
                found.setdefault(f"{kind.upper()}-{number}", []).append(f"{path.name}::{name}")
    return found


@pytest.fixture(scope="session")
def ids(shared_data: Path) -> list[str]:
    lines = (shared_data / "scenarios" / "field.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["id"] for line in lines]


def test_each_scenario_is_covered(ids: list[str]) -> None:
    known = covered().keys() | ELSEWHERE.keys()
    assert sorted(set(ids) - known) == []
    assert sorted(known - set(ids)) == []
    assert len(ids) == len(set(ids))


def test_nothing_is_said_twice() -> None:
    assert covered().keys() & ELSEWHERE.keys() == set()


@pytest.mark.parametrize("place", ELSEWHERE.values())
def test_the_tests_elsewhere_are_there(place: str) -> None:
    file, _, name = place.partition("::")
    assert name in functions(TESTS / file)


def test_where_we_differ_it_is_written_down(ids: list[str]) -> None:
    written = set(_ID.findall((HERE / "DIFFERENCES.md").read_text("utf-8")))
    assert written <= set(ids)
    assert set(KNOWN) <= written
