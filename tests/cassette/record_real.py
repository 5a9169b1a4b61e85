"""Record the cassettes of a real small model that the tests play, anew.

``python tests/cassette/record_real.py MODEL_PYTHON``, where MODEL_PYTHON is the Python of the environment that
``sh scripts/demo --real`` makes. Takes a few minutes on a slow machine. SmolLM2-135M-Instruct (Apache-2.0), by
llama.cpp on loopback.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from real import LOOP, PLAIN, ask_plainly, loop

from watchkeeper.cassette import recording_client
from watchkeeper.cli.modelserver import find_script, serve_model


async def main(python: Path) -> None:
    async with serve_model(python, find_script()) as served:
        for path, work in ((PLAIN, ask_plainly), (LOOP, loop)):
            path.unlink(missing_ok=True)
            async with recording_client(path) as client:
                await work(client, served.base_url, served.model)
            print(path)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]).absolute())
