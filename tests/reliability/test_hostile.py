"""Hostile input for everything that parses: some here, at least 100,000 by ``sh scripts/reliability``."""

from __future__ import annotations

from pathlib import Path

import pytest

from .hostile import barrage, hostile, targets
from .twisted import made

INPUTS = 2000
NAMES = tuple(targets(Path()))


def test_no_input_breaks_a_contract(tmp_path: Path) -> None:
    went = barrage(tmp_path, INPUTS)
    assert sum(counts.total() for counts in went.values()) >= INPUTS - len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_what_it_is_meant_for_is_taken(tmp_path: Path, name: str) -> None:
    target = targets(tmp_path)[name]
    assert "taken" in {target.take(text) for text in target.corpus}


def test_the_same_seed_is_the_same_input(tmp_path: Path) -> None:
    target = targets(tmp_path)["arguments"]
    assert [made(target.corpus, seed) for seed in range(50)] == [made(target.corpus, seed) for seed in range(50)]
    assert hostile(target, 5) == hostile(target, 5)


def test_a_broken_contract_names_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reliability.hostile.sendable_name", lambda text: text)
    with pytest.raises(AssertionError, match=r"names breaks its contract on .*--parser names --seeds \d+"):
        barrage(tmp_path, INPUTS)
