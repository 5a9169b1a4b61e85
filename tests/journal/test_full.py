"""Files that may not grow, wherever that is met: it is said, can be asked again, and no fact is lost or there twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import full
import pytest

from watchkeeper.testing import BACKENDS


@pytest.mark.parametrize("backend", BACKENDS)
def test_wherever_the_disk_takes_no_more_the_run_goes_on_when_it_does(backend: str) -> None:
    """Also in the middle of a page, and while the files are made."""
    command = [sys.executable, str(Path(full.__file__)), "--step", "9001", "--backend", backend]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    failed = json.loads(done.stdout)
    assert min(failed["open"], failed["lease"], failed["append"]) > 1
