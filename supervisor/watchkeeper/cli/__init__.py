"""The command line: ``watchkeeper run``, ``record``, ``demo``, ``replay``, ``stats``, ``case``. Needs extra ``cli``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

EXTRA = ("cyclopts", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``arguments`` are those of the process unless given.

    Called as the program (without arguments) it also sees to it that the process ends: see :func:`.exits.end_for_sure`.
    """
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        print(
            f"watchkeeper: the command line needs {' and '.join(missing)}: pip install 'watchkeeper[cli]'",
            file=sys.stderr,
        )
        return 2
    from .exits import end_for_sure
    from .program import start

    code = start(list(sys.argv[1:] if arguments is None else arguments))
    if arguments is None:
        end_for_sure(code)
    return code
