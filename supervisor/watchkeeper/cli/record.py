"""``watchkeeper record``: a proxy between an agent that is not ours and its model, which records what goes through."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Literal

import anyio
from cyclopts import Parameter

from ..cassette.proxy import RecordingProxy
from ..cassette.tape import Tape
from ..errors import CassetteError, ConfigurationError
from .exits import COMPLETED, FAILED, CommandError, complain

MAX_PORT = 65_535


def record(
    file: Path,
    /,
    *,
    upstream: Annotated[str, Parameter(help="The model's server, such as https://api.openai.com/v1.")],
    port: Annotated[int, Parameter(help="The port on this machine that the agent uses instead (any free one).")] = 0,
    add: Annotated[bool, Parameter(help="Add to the file if it is there.")] = False,
    backend: Annotated[Literal["asyncio", "trio"], Parameter(help="Event loop: asyncio or trio.")] = "asyncio",
) -> int:
    """Record what an agent and its model's server say to each other.

    Point the agent's base URL at the address that is printed. Streams go through as they come. No secret is recorded.
    Ctrl-C ends it.

    Parameters
    ----------
    file:
        Where to record, as JSON Lines; it must not be there yet.
    """
    if not 0 <= port <= MAX_PORT:
        raise CommandError(f"--port {port}: ports are from 1 to {MAX_PORT}, and 0 is any free one")
    try:
        tape = Tape(file, "http", adding="add" if add else "once")
    except CassetteError as error:
        raise CommandError(str(error)) from error
    try:
        _record(upstream, tape, port, file, backend)
    finally:
        tape.close()
    if not file.exists():
        complain(f"nothing came, so there is no {file}")
    if tape.failed is not None:
        complain(f"not all could be recorded: {tape.failed.strerror or tape.failed}")
        return FAILED
    return COMPLETED


def _record(upstream: str, tape: Tape, port: int, file: Path, backend: str) -> None:
    try:
        proxy = RecordingProxy(upstream, tape)
    except ConfigurationError as error:
        raise CommandError(f"--{error}") from error
    try:
        anyio.run(_serve, proxy, port, file, backend=backend)
    except* OSError as group:
        why = " ".join(str(error) for error in group.exceptions)
        raise CommandError(f"--port {port}: {why}; name another") from None


async def _serve(proxy: RecordingProxy, port: int, file: Path) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            found = await tasks.start(proxy.serve, port)
            print(f"recording into {file}: use http://127.0.0.1:{found} in place of {proxy.upstream}", flush=True)
            async for _ in signals:
                break
            tasks.cancel_scope.cancel()
