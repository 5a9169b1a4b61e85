"""No scenario is forgotten: each of the shared ones has a test here, one elsewhere, or an issue that it waits for."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent

ELSEWHERE = {
    "APPR-04": "test_approvals.py::test_appr_04_what_runs_are_the_bytes_that_were_shown",
    "APPR-05": "test_approvals.py::test_appr_05_a_cancel_ends_the_wait_at_once",
    "CANC-04": "test_cancel.py::test_a_tool_that_swallows_the_cancel_is_abandoned_at_the_grace_period",
    "PATH-01": "tools/test_confinement.py::test_names_that_lead_outside",
    "PATH-02": "tools/test_confinement.py::test_links_are_refused",
    "PROV-01": "models/test_openai.py::test_it_is_dropped_once_and_for_all",
    "RTRY-04": "models/test_failure.py::test_by_structured_code_then_by_status",
    "SECR-01": "test_secret_runs.py::test_secr_01_in_arguments_results_failures_task_instructions_and_history",
    "SECR-02": "test_secret_runs.py::test_secr_02_in_what_a_model_raises_and_what_is_reported",
    "SHEL-01": "guards/test_policy_guard.py::test_shel_01_one_command_is_permitted_and_none_that_resembles_it",
    "SSRF-01": "tools/test_http_tools.py::test_urls_that_are_not_asked",
    "WRIT-02": "tools/test_files.py::test_a_write_that_breaks_off_changes_nothing",
}
"""Scenarios whose test stands with the part that it is about."""

DETECTION, GUARDS, SERVICE = 3, 4, 6
LATER = {
    "NDUP-01": (DETECTION, "near-equal calls"),
    "COST-02": (GUARDS, "an adapter for servers that count cached tokens beside the others"),
    "APPR-01": (SERVICE, "approvals that outlive a restart"),
    "APPR-02": (SERVICE, "approvals that outlive a restart"),
    "ORPH-02": (SERVICE, "recovery from the journal"),
    "DUPX-01": (SERVICE, "recovery from the journal"),
    "JRNL-01": (SERVICE, "the journal"),
    "JRNL-02": (SERVICE, "the journal"),
    "SQLT-01": (SERVICE, "the journal"),
    "SQLT-02": (SERVICE, "the journal"),
    "WDOG-04": (SERVICE, "workers that are started again"),
    "REST-01": (SERVICE, "workers that are started again"),
    "REST-02": (SERVICE, "workers that are started again"),
    "CANC-10": (SERVICE, "clients that the service owns"),
    "RACE-05": (SERVICE, "the API"),
    "SECU-01": (SERVICE, "the API"),
    "SECU-02": (SERVICE, "the API"),
    "SECU-04": (SERVICE, "the API"),
}
"""Scenarios that wait for a later issue, and for what in it."""

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


def test_each_scenario_is_covered_or_waits(ids: list[str]) -> None:
    known = covered().keys() | ELSEWHERE.keys() | LATER.keys()
    assert sorted(set(ids) - known) == []
    assert sorted(known - set(ids)) == []
    assert len(ids) == len(set(ids))


def test_nothing_is_said_twice() -> None:
    assert covered().keys() & LATER.keys() == set()
    assert ELSEWHERE.keys() & LATER.keys() == set()


@pytest.mark.parametrize("place", ELSEWHERE.values())
def test_the_tests_elsewhere_are_there(place: str) -> None:
    file, _, name = place.partition("::")
    assert name in functions(TESTS / file)


def test_where_we_differ_it_is_written_down(ids: list[str]) -> None:
    written = set(_ID.findall((HERE / "DIFFERENCES.md").read_text("utf-8")))
    assert written <= set(ids)
    assert set(KNOWN) <= written
