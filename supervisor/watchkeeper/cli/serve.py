"""``watchkeeper serve``: execute runs in worker processes, and let them be watched and stopped from anywhere."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import anyio
from cyclopts import Parameter

from .exits import CONFIGURATION, FAILED, CommandError, complain

EXTRA = ("litestar", "uvicorn", "prometheus_client")


def serve(
    *,
    config: Annotated[tuple[Path, ...], Parameter(help="A TOML file, in the place of those that are found.")] = (),
    bind: Annotated[
        tuple[str, ...],
        Parameter(help="Where it listens: unix: (its own socket), unix:PATH, or HOST:PORT (access by token only)."),
    ] = (),
    workers: Annotated[int | None, Parameter(help="Worker processes (2).")] = None,
    backend: Annotated[Literal["asyncio", "trio"] | None, Parameter(help="Their event loop (asyncio).")] = None,
    max_runs: Annotated[int | None, Parameter(help="Runs side by side in each of them (1000).")] = None,
    grace: Annotated[
        float | None,
        Parameter(help="Seconds that a worker gets that hangs or was told to end; then it is killed (5)."),
    ] = None,
    drain: Annotated[
        float | None, Parameter(help="Seconds that turns get to end when the service drains (30).")
    ] = None,
) -> int:
    """Execute runs in worker processes, and let them be watched and stopped from anywhere.

    Ctrl-C or TERM drains: no more runs are taken, turns finish, what is left is suspended and goes on with the next
    start. A second one stops at once. HUP reads the configuration anew, USR1 writes all stacks to the log.
    """
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise CommandError(f"serve needs {', '.join(missing)}: pip install 'watchkeeper[server]'")
    from ..configuration import ConfigurationProblems, files_of
    from ..engine import EngineError, Unusable
    from ..errors import ConfigurationError
    from ..observe.configured import lines_of
    from ..service.assignment import Given
    from ..service.garbage import collect_seldom
    from ..service.places import Folder, Places
    from ..service.serving import ControlProcess

    overrides = {
        "service.bind": bind or None,
        "service.workers": workers,
        "service.backend": backend,
        "service.max_runs": max_runs,
        "service.grace": grace,
        "service.drain": drain,
    }
    given = Given(
        config=tuple(str(path.absolute()) for path in config or files_of(os.environ)),
        overrides={key: value for key, value in overrides.items() if value is not None},
    )
    try:
        configuration = given.load()
        state = configuration.service.state
        folder = Folder(Path(state) / "service") if state else Places.of().service
        collect_seldom()
        with lines_of(configuration.log):
            code: int = anyio.run(ControlProcess(given, configuration, folder).run)
    except ConfigurationProblems as error:
        for problem in error.problems:
            complain(problem)
        return CONFIGURATION
    except (ConfigurationError, Unusable) as error:
        raise CommandError(str(error), CONFIGURATION) from error
    except EngineError as error:
        raise CommandError(str(error), FAILED) from error
    return code
