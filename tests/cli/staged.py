"""The program with runs in memory, as a process of its own: ``python staged.py COMMAND …``."""

from __future__ import annotations

import sys

import pytest
from cli_stage import Stage

from watchkeeper.cli import main


async def three(stage: Stage) -> None:
    await stage.run("r00000001", "Sum up the notes", "writer")
    await stage.run("r00000002", "Sort the letters")
    await stage.ask("r00000002")
    await stage.run("r00000003")
    await stage.end("r00000003")


if __name__ == "__main__":
    stage = Stage(pytest.MonkeyPatch(), "asyncio")
    stage.set(three)
    sys.exit(main(sys.argv[1:]))
