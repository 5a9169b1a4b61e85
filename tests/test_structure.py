"""The shape of the source: which way imports go, what the pure modules may touch, what an import loads."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import watchkeeper

ROOT = Path(__file__).parent.parent
RUNTIME = ROOT / "supervisor" / "watchkeeper"
TOOLS = ROOT / "tools" / "watchkeeper_tools"

# Each module or package under watchkeeper/, lowest first. One may import from its own layer, without a cycle, and from
# those above it in this table. Imports for type checkers only do not count: they never run.
LAYERS = tuple(
    frozenset(names.split())
    for names in (
        "messages errors lazily seams",
        "admission agent allowance answers approvals arguments asking budget compacting context continuing"
        " current decisions detect engine escapes examiner failures"
        " fingerprint finishing fitting goal guards history host jsontext"
        " keyed ladder ledger locks log memory model monitor naming observers occurrences opinions outputs pace"
        " plan planner plugins price prices private profiles provider recovery redaction reports results retry rush"
        " shared shelf states stopwatch supply threads thresholds tools trampoline wording",
        "actors",
        "attempt hooks leasing obeying origin orphans recalling run supervisor threadsafe windup wiring",
        "cassette cli configuration handover journal models observe service testing",
    )
)

# The same for the modules of detect/: what reads texts, the calls as they are compared, detectors, and who asks them.
DETECTION = tuple(
    frozenset(names.split())
    for names in (
        "alike arguments bloom doing drift inside question saying spent stepline volatile",
        "recent",
        "round",
        "detector waiting",
        "badarguments breaker chant churn compaction complaint cycle equal equal_any failing fruitless handover"
        " interleaved monologue poll recurring silence similar stale turnedaway volume",
        "judge",
    )
)

# Decide without waiting, act afterwards: these decide.
PURE = {
    *(
        "admission",
        "allowance",
        "answers",
        "approvals",
        "arguments",
        "budget",
        "context",
        "continuing",
        "decisions",
        "detect",
    ),
    *("escapes", "fingerprint", "finishing", "fitting", "goal", "guards", "history", "jsontext", "ladder", "ledger"),
    *("occurrences", "plan", "planner", "price", "profiles", "provider", "recovery", "redaction", "results", "shared"),
    *("shelf", "states", "stopwatch", "wording"),
}
IMPURE_IMPORTS = frozenset({"anyio", "asyncio", "trio", "time", "random", "threading", "os", "socket"})

# Slow to load, so never loaded by `import watchkeeper`: inside functions only.
LAZY = frozenset({"genai_prices", "openai", "structlog", "rich", "httpx2", "pydantic"})

MEANINGLESS_NAMES = frozenset({"utils", "helpers", "manager", "common", "base", "misc"})


class Import(NamedTuple):
    target: str  # dotted and absolute; for `from a import b`, `a.b`
    line: int
    runs: bool  # false in an `if TYPE_CHECKING` block
    lazy: bool  # inside a function


@cache
def modules(package: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(module: str, path: Path) -> Iterator[Import]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]

    def walk(node: ast.AST, runs: bool, lazy: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, runs, lazy)
            elif isinstance(child, ast.ImportFrom):
                origin = child.module or ""
                if child.level:
                    above = package.split(".")[: len(package.split(".")) - child.level + 1]
                    origin = ".".join([*above, origin] if origin else above)
                for alias in child.names:
                    yield Import(f"{origin}.{alias.name}", child.lineno, runs, lazy)
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for part in child.body:
                    yield from walk(ast.Module([part], []), False, lazy)
                for part in child.orelse:
                    yield from walk(ast.Module([part], []), runs, lazy)
            else:
                yield from walk(child, runs, lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    return walk(tree(path), True, False)


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def unit(module: str) -> str:
    """The entry of the table that a module of ours belongs to: `watchkeeper.actors.agent` to `actors`."""
    return module.split(".")[1] if "." in module else ""


def layer(module: str) -> int:
    """Its layer. The package itself, which only lists the public names, is read from outside the core alone."""
    name = unit(module)
    return next((number for number, names in enumerate(LAYERS) if name in names), len(LAYERS) - 1)


@cache
def ours(target: str) -> str | None:
    """The module of ours that an import loads, if any."""
    known = modules(RUNTIME)
    while target:
        if target in known:
            return target
        target = target.rpartition(".")[0]
    return None


def test_every_module_has_a_layer() -> None:
    known = frozenset().union(*LAYERS)
    unknown = sorted({unit(module) for module in modules(RUNTIME)} - known - {""})
    assert not unknown, f"modules without a layer: {', '.join(unknown)}: say in LAYERS (tests/test_structure.py) where"


def test_no_module_has_two_layers() -> None:
    assert sum(map(len, LAYERS)) == len(frozenset().union(*LAYERS))


def test_imports_go_one_way() -> None:
    wrong = []
    for module, path in modules(RUNTIME).items():
        for found in imports(module, path):
            target = ours(found.target)
            if unit(module) and target and found.runs and layer(target) > layer(module):
                wrong.append(f"{where(path, found.line)}: {module} may not import {target}")
    assert not wrong, "\n".join(dict.fromkeys(wrong))


def test_every_module_of_detection_has_one_layer() -> None:
    names = [path.stem for path in (RUNTIME / "detect").glob("*.py") if path.stem != "__init__"]
    assert sorted(names) == sorted(name for layer in DETECTION for name in layer)


def test_imports_of_detection_go_one_way() -> None:
    layers = {name: number for number, names in enumerate(DETECTION) for name in names}
    wrong = []
    for module, path in modules(RUNTIME / "detect").items():
        for found in imports(f"watchkeeper.{module}", path):
            target = ours(found.target)
            if target and target.startswith("watchkeeper.detect.") and found.runs:
                name, other = module.rpartition(".")[2], target.rpartition(".")[2]
                if layers[other] > layers[name]:
                    wrong.append(f"{where(path, found.line)}: {name} may not import {other}")
    assert not wrong, "\n".join(dict.fromkeys(wrong))


def test_imports_have_no_cycle() -> None:
    graph: dict[str, set[str]] = {}
    for module, path in modules(RUNTIME).items():
        loaded = {ours(found.target) for found in imports(module, path) if found.runs and not found.lazy}
        graph[module] = {target for target in loaded if target and target != module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' <- '.join(error.args[1])}")


def test_messages_import_nothing_of_ours() -> None:
    path = RUNTIME / "messages.py"
    assert not [found.target for found in imports("watchkeeper.messages", path) if ours(found.target)]


def test_actors_import_only_envelopes_of_each_other() -> None:
    actors = {module: path for module, path in modules(RUNTIME).items() if module.startswith("watchkeeper.actors.")}
    runners = {
        f"{module}.{node.name}"
        for module, path in actors.items()
        for node in tree(path).body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(part, ast.AsyncFunctionDef) and part.name == "run" for part in node.body)
    }
    assert len(runners) >= 3
    wrong = [
        f"{where(path, found.line)}: {module} imports the actor {found.target}"
        for module, path in actors.items()
        for found in imports(module, path)
        if found.runs and (found.target in runners or found.target in actors)
    ]
    assert not wrong, "\n".join(wrong)


def test_pure_modules_neither_wait_nor_look_at_the_world() -> None:
    wrong = []
    for module, path in modules(RUNTIME).items():
        if unit(module) not in PURE:
            continue
        wrong += [
            f"{where(path, found.line)}: {module} is pure and may not import {found.target}"
            for found in imports(module, path)
            if found.target.partition(".")[0] in IMPURE_IMPORTS
        ]
        wrong += [
            f"{where(path, node.lineno)}: {module} is pure and may not wait"
            for node in ast.walk(tree(path))
            if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        ]
    assert not wrong, "\n".join(wrong)


def test_openai_is_imported_in_one_file() -> None:
    files = {
        str(path.relative_to(ROOT))
        for package in (RUNTIME, TOOLS)
        for module, path in modules(package).items()
        for found in imports(module, path)
        if found.target.partition(".")[0] == "openai"
    }
    assert files == {"supervisor/watchkeeper/models/openai.py"}


def test_slow_packages_are_imported_inside_functions() -> None:
    wrong = [
        f"{where(path, found.line)}: {found.target} belongs inside the function that needs it"
        for module, path in modules(RUNTIME).items()
        if unit(module) != "cli"  # nothing imports the command line; with it, its extra is loaded as a whole
        for found in imports(module, path)
        if found.target.partition(".")[0] in LAZY and found.runs and not found.lazy
    ]
    assert not wrong, "\n".join(wrong)


def test_tools_use_public_names_only() -> None:
    wrong = []
    for module, path in modules(TOOLS).items():
        for found in imports(module, path):
            package, _, name = found.target.partition(".")
            if package == "watchkeeper" and name not in watchkeeper.__all__:
                wrong.append(f"{where(path, found.line)}: {found.target} is not a public name of watchkeeper")
    assert not wrong, "\n".join(wrong)


def test_text_files_say_what_they_are_written_in() -> None:
    """Without it, it is whatever the locale says."""
    bad = []
    for path in (*modules(RUNTIME).values(), *modules(TOOLS).values()):
        for node in ast.walk(tree(path)):
            match node:
                case ast.Call(func=ast.Attribute(attr="read_text"), args=[], keywords=[]):
                    bad.append(where(path, node.lineno))
                case ast.Call(func=ast.Attribute(attr="write_text"), args=[_], keywords=[]):
                    bad.append(where(path, node.lineno))
    assert not bad


def test_import_loads_nothing_slow() -> None:
    code = "import json, sys, watchkeeper; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert LAZY.isdisjoint(json.loads(done.stdout))


def test_names_say_what_is_inside() -> None:
    parts = {part for package in (RUNTIME, TOOLS) for module in modules(package) for part in module.split(".")}
    assert MEANINGLESS_NAMES.isdisjoint(parts)


def test_no_file_names_the_place_it_was_written_in() -> None:
    place = "/" + "work" + "/"
    folders = ("supervisor", "tools", "tests", "benchmarks", "docs", "scripts", "lock", ".ci")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if not {"__pycache__", ".hypothesis"} & set(path.parts)
    ]
    files += [path for path in ROOT.glob("*") if path.name != ".git"]  # a file in a working tree of its own
    wrong = [
        str(path.relative_to(ROOT))
        for path in files
        if path.is_file() and place in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert not wrong


def test_what_runs_leave_behind_is_no_part_of_the_source() -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a checkout, or no git to ask")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    left = {"continue.token", "report.html", "report.md"}
    assert not [name for name in listed.stdout.splitlines() if Path(name).name in left]
