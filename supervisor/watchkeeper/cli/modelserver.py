"""The small language model of ``demo --real``: a server in a process of its own, from start to end."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

import anyio
import anyio.abc
import msgspec

from .exits import FAILED, CommandError

START = 180.0
"""Seconds that the server gets to load the model."""
STOP = 5.0
"""Seconds that it gets to end after it was told to."""
MAX_LINE = 10_000


class Served(msgspec.Struct, frozen=True):
    """Where the model answers; the line that the server prints when it is ready."""

    base_url: str
    model: str


def find_script() -> Path:
    """The server's script in the source tree. Raises :class:`CommandError` where there is only the wheel."""
    script = Path(__file__).parents[3] / "scripts" / "model_server.py"
    if not script.is_file():
        raise CommandError(
            f"demo --real needs the source tree: there is no {script}; run `sh scripts/demo --real` there"
        )
    return script


def find_python(given: Path | None) -> Path:
    """The Python of the environment that has the model: the given one, or that which scripts/demo makes."""
    python = given or Path(__file__).parents[3] / ".venv-model" / "bin" / "python"
    if not python.is_file():
        raise CommandError(
            f"there is no {python}: `sh scripts/demo --real` makes the environment with the model, "
            "--model-python names another"
        )
    return python.absolute()  # not resolved: a link into an environment is what makes it that environment


@contextlib.asynccontextmanager
async def serve_model(python: Path, script: Path) -> AsyncIterator[Served]:
    """Start the server, wait until it is ready, and end it at the end, whatever happens in between.

    It also ends by itself when its standard input closes, so it outlives nobody. It has a session of its own: Ctrl-C
    is for us, and we end it.
    """
    with tempfile.TemporaryFile() as errors:
        process = await anyio.open_process(
            [str(python), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield await _ready(process, errors)
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _ready(process: anyio.abc.Process, errors: IO[bytes]) -> Served:
    assert process.stdout is not None
    line = b""
    try:
        with anyio.fail_after(START):
            while b"\n" not in line and len(line) < MAX_LINE:
                line += await process.stdout.receive()
        return msgspec.json.decode(line.partition(b"\n")[0], type=Served)
    except TimeoutError as error:
        raise CommandError(f"the model was not ready within {START:g} s", FAILED) from error
    except (anyio.EndOfStream, msgspec.DecodeError) as error:
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2] or "nothing"
        raise CommandError(f"the model's server did not start; it said: {said[:300]}", FAILED) from error


async def _end(process: anyio.abc.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    with anyio.move_on_after(STOP):
        await process.wait()
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    await process.aclose()
