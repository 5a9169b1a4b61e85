"""How faults are said: in Python, in one word, in a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from watchkeeper.cassette import Fault, fault_in, faults_in
from watchkeeper.cassette.fault import Faults
from watchkeeper.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("2:rate_limited:retry_after=3", Fault(kind="rate_limited", at=2, retry_after=3.0)),
        ("server_error", Fault(kind="server_error")),
        ("1:cut:pieces=4", Fault(kind="cut", at=1, pieces=4)),
        ("loss:chance=0.25:seed=7", Fault(kind="loss", chance=0.25, seed=7)),
        ("3:slow:delay=0.5", Fault(kind="slow", at=3, delay=0.5)),
    ],
)
def test_one_word_says_a_fault(text: str, fault: Fault) -> None:
    assert fault_in(text) == fault


@pytest.mark.parametrize(
    "text", ["", "2", "2:", "boom", "cut:pieces=x", "cut:many=3", "loss:chance=2", "slow:delay=-1"]
)
def test_what_is_no_fault_is_told(text: str) -> None:
    with pytest.raises(ConfigurationError, match="fault"):
        fault_in(text)


@pytest.mark.parametrize(
    "given", [{"kind": "boom"}, {"kind": "cut", "at": -1}, {"kind": "slow", "delay": float("inf")}]
)
def test_nonsense_is_no_fault(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Fault(**given)


def test_a_file_says_several(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text('[[faults]]\nat = 1\nkind = "stall"\n[[faults]]\nkind = "loss"\nchance = 0.1\n')
    assert faults_in(path) == [Fault(kind="stall", at=1), Fault(kind="loss", chance=0.1)]
    for wrong in ("[[faults]]\nkind = 3\n", "x = 1\n", "[[", "[faults]\nkind='cut'\n", '[[faults]]\nkind="cut"\nx=1\n'):
        path.write_text(wrong)
        with pytest.raises(ConfigurationError, match="fault"):
            faults_in(path)
    with pytest.raises(ConfigurationError, match="No such file"):
        faults_in(tmp_path / "none")


def test_the_first_that_is_meant_for_a_request_hits_it() -> None:
    faults = Faults([Fault(kind="cut", at=2), Fault(kind="slow")])
    assert [fault.kind for fault in (faults.next(), faults.next(), faults.next()) if fault] == ["slow", "cut", "slow"]


def test_one_fault_does_not_change_the_chances_of_another() -> None:
    def hits(*more: Fault) -> list[bool]:
        faults = Faults([*more, Fault(kind="loss", chance=0.5, seed=3)])
        return [(found := faults.next()) is not None and found.kind == "loss" for _ in range(30)]

    alone, beside = hits(), hits(Fault(kind="cut", at=1))
    assert alone[1:] == beside[1:]
    assert 5 < sum(alone) < 25
