"""A worker process is really killed: a few times here, some hundred times by the script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "killed_runs.py"


@pytest.mark.parametrize(("backend", "step"), [("asyncio", 9), ("trio", 17)])
def test_a_killed_worker_loses_and_repeats_nothing(backend: str, step: int) -> None:
    command = [sys.executable, str(SCRIPT), "--backend", backend, "--step", str(step), "--random", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no finished call repeated" in done.stdout
    assert not done.stdout.startswith("0 kills")
