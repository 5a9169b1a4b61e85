"""A control process for the tests: ``controlled.py FOLDER OVERRIDES BEHAVIOUR``, with an engine in memory and workers
that are stand-ins."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import msgspec

from watchkeeper.configuration import ConfigurationProblems
from watchkeeper.errors import ConfigurationError
from watchkeeper.journal import MemoryEngine
from watchkeeper.service.assignment import Given
from watchkeeper.service.places import Folder
from watchkeeper.service.restarts import Restarts
from watchkeeper.service.serving import ControlProcess

folder = Path(sys.argv[1])
given = msgspec.json.decode(sys.argv[2], type=Given)
standin = str(Path(__file__).with_name("standin.py"))


def argv(name: str) -> list[str]:
    return [sys.executable, standin, "asyncio", sys.argv[3], str(folder / f"{name}.mark")]


try:
    process = ControlProcess(
        given, given.load(), Folder(folder), engine=MemoryEngine(), argv=argv, restarts=Restarts(1)
    )
    code = anyio.run(process.run)
except (ConfigurationError, ConfigurationProblems) as error:
    print(error, file=sys.stderr)
    code = 78
loaded = {"watchkeeper.supervisor", "watchkeeper.agent", "watchkeeper.plugins", "watchkeeper_tools"} & set(sys.modules)
if loaded:
    print(f"the control process has loaded what agents are made of: {loaded}", file=sys.stderr)
    code = 99
sys.exit(code)
