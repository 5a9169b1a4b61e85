"""SIGKILL at random moments of a worker that appends: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

from pathlib import Path

import killed
import pytest

from watchkeeper.testing import BACKENDS


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_acknowledged_outlives_the_process(backend: str, tmp_path: Path) -> None:
    total, _ = killed.rounds(tmp_path, backend, 2, seed=7)
    assert total
