"""One module of the package with other source, and tests against it: in a forked process, nothing is written.

The parent has loaded what is slow to load and none of ours, so that each child begins with the tests.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Literal

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "supervisor"

Verdict = Literal["caught", "survived", "hung"]

_VERDICTS: dict[int, Verdict] = {0: "survived", -signal.SIGXCPU: "hung", -signal.SIGKILL: "hung"}
WHOLE = ("-p", "anyio.pytest_plugin", "-p", "_hypothesis_pytestplugin")
"""How tests with runs are started."""
PURE = ("--noconftest", "--tb=native")
"""How those without are."""
MEMORY = 2**31
"""Bytes that a test of a pure module may have."""


def path_of(module: str) -> Path:
    """The file of a module of ours: ``watchkeeper.detect.equal``."""
    return SOURCE.joinpath(*module.split(".")).with_suffix(".py")


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, module: str, tree: ast.Module) -> None:
        super().__init__(module, str(path_of(module)))
        self._tree = tree

    def get_code(self, fullname: str) -> object:  # type: ignore[override]  # code, as it is loaded
        return compile(self._tree, str(path_of(self.name)), "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, tree: ast.Module) -> None:
        self._module = module
        self._tree = tree

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        loader = _Loader(self._module, self._tree)
        return importlib.util.spec_from_file_location(fullname, path_of(fullname), loader=loader)


def load(*modules: str) -> None:
    """Load what every child needs, of ours these modules: none that is to be changed, and none that loads it."""
    import _pytest.config
    import anyio
    import anyio._backends._asyncio
    import anyio._backends._trio  # noqa: F401
    import hypothesis
    import hypothesis.stateful  # noqa: F401
    import msgspec  # noqa: F401
    import pytest  # noqa: F401
    import structlog  # noqa: F401
    import trio.testing  # noqa: F401

    _pytest.config.get_config()  # loads its own plugins
    loaded = [name for name in sys.modules if name.partition(".")[0] == "watchkeeper"]
    assert not loaded, f"loaded before the fork: {', '.join(loaded)}"
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # a child need not look through what is here


def operate(
    module: str,
    tree: ast.Module,
    tests: Sequence[str],
    *,
    seconds: float = 120.0,
    said: Path | None = None,
    pure: bool = False,
) -> Verdict:
    """Run the tests with the module as ``tree``: were they to fail, it is ``caught``.

    One that takes longer is ``hung``, and killed with all that it has started. ``said``: where the output goes.
    ``pure``: these tests make no runs. They do without what all others share, which takes longer to load than most of
    them take, and without shared data; their time is the processor's, however busy the machine is.
    """
    assert module not in sys.modules, f"loaded before the fork: {module}"
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            if pure:
                _bound(int(seconds))
                os.environ.pop("WATCHKEEPER_DATA", None)  # tests of shared data take longer than all others of a core
            code = _child(module, tree, [*(PURE if pure else WHOLE), *tests], said)
            sys.stdout.flush()  # what comes next does not
        finally:
            os._exit(code)
    ends = time.monotonic() + seconds * (10 if pure else 1)
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return _VERDICTS.get(os.waitstatus_to_exitcode(status), "caught")
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


def _bound(seconds: int) -> None:
    """What goes round for ever is ended by the system, and what grows for ever finds no more memory."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _child(module: str, tree: ast.Module, arguments: Sequence[str], said: Path | None) -> int:
    import pytest

    output = os.open(said or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(ROOT)
    os.environ["WATCHKEEPER_PROPERTIES"] = "brief"
    sys.path.insert(0, str(ROOT / "tests"))
    import plain  # settles how many examples there are

    sys.meta_path.insert(0, _Finder(module, tree))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others' plugins take longer to load than the tests take
    loaded = "ignore::pytest.PytestAssertRewriteWarning"  # of what the parent has loaded already
    return int(pytest.main(["-x", "-q", "-W", loaded, "-p", "no:cacheprovider", *arguments], [plain]))


def unchanged(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text("utf-8"))
