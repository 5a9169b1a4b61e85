"""The parts of the suite: each takes how much of it there is to be, and returns its figures."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from .figures import Figure
from .mutation import BENEATH, CORES, Mutant, control, drawn, tried
from .planted import Caught, Fault

ROOT = Path(__file__).parents[2]
BACKENDS = ("asyncio", "trio")
FIRST = 1_000_000
"""The first seed: the suite has those from 0 on, this has fresh ones."""
SHARE = 250
"""Runs of one task of a process."""


def _backends(asked: argparse.Namespace) -> tuple[str, ...]:
    return (asked.backend,) if asked.backend else BACKENDS


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=_quiet)


def _quiet() -> None:
    """Warnings are errors, and what runs report to operators goes nowhere."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "Async generator .* was garbage collected", ResourceWarning)  # as in pyproject
    import structlog

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[lambda *event: ""])


def _shares(seeds: range) -> Iterator[range]:
    for first in range(seeds.start, seeds.stop, SHARE):
        yield range(first, min(first + SHARE, seeds.stop))


def _shown(seeds: range) -> str:
    return f"{seeds.start}-{seeds.stop - 1}"


# -- whole runs --------------------------------------------------------------------------------------------------------


def _chaos(library: str, seeds: range) -> Counter[str]:
    from .chaos import chaos
    from .seeds import by_seed

    return by_seed("chaos", chaos, library, seeds)


def chaos(size: int, asked: argparse.Namespace) -> list[Figure]:
    seeds = asked.seeds or range(FIRST, FIRST + size)
    figures = []
    faults: Counter[str] = Counter()
    for library in _backends(asked):
        ended: Counter[str] = Counter()
        with _pool() as pool:
            for counted in pool.map(_chaos, *zip(*((library, share) for share in _shares(seeds)), strict=True)):
                ended += Counter({name: n for name, n in counted.items() if "(" in name})
                faults += Counter({name: n for name, n in counted.items() if "(" not in name})
        what = f"whole runs by seed on {library}, with faults, people and cancels"
        ways = tuple(f"{name}: {n}" for name, n in ended.most_common())
        figures.append(Figure("chaos", what, ended.total(), "0 broken invariants", _shown(seeds), True, ways))
    kinds = tuple(f"{name}: {n}" for name, n in sorted(faults.items()))
    if faults:
        what = "faults laid over model, stream, tool and clock in them"
        figures.append(Figure("chaos", what, faults.total(), "0 broken invariants", _shown(seeds), True, kinds))
    return figures


# -- hostile input -----------------------------------------------------------------------------------------------------


def _hostile(seeds: range) -> dict[str, Counter[str]]:
    from .hostile import barrage, targets

    with tempfile.TemporaryDirectory() as folder:
        return barrage(Path(folder), len(seeds) * len(targets(Path(folder))), seeds.start)


def hostile(size: int, asked: argparse.Namespace) -> list[Figure]:
    from .hostile import hostile as one
    from .hostile import targets
    from .twisted import made

    if asked.parser:
        with tempfile.TemporaryDirectory() as folder:
            target = targets(Path(folder))[asked.parser]
            for seed in asked.seeds:
                print(seed, repr(made(target.corpus, seed))[:2000], flush=True)
                print(one(target, seed), flush=True)
        return []
    seeds = asked.seeds or range(FIRST, FIRST + size // len(targets(Path())) + 1)
    went: dict[str, Counter[str]] = {}
    with _pool() as pool:
        for found in pool.map(_hostile, _shares(seeds)):
            for name, counts in found.items():
                went[name] = went.get(name, Counter()) + counts
    total = sum(counts.total() for counts in went.values())
    ways = tuple(f"{name}: {counts['taken']} taken, {counts['refused']} refused" for name, counts in went.items())
    return [Figure("hostile", "hostile inputs to parsers", total, "0 broken contracts", _shown(seeds), True, ways)]


def _streams(library: str, seeds: range) -> Counter[str]:
    import anyio

    from .streams import hail

    return anyio.run(hail, seeds, backend=library)


def streams(size: int, asked: argparse.Namespace) -> list[Figure]:
    seeds = asked.seeds or range(FIRST, FIRST + size)
    figures = []
    for library in _backends(asked):
        went: Counter[str] = Counter()
        with _pool() as pool:
            for counted in pool.map(_streams, *zip(*((library, share) for share in _shares(seeds)), strict=True)):
                went += counted
        what = f"hostile streams through the OpenAI adapter on {library}"
        ways = tuple(f"{name}: {n}" for name, n in went.most_common())
        result = "0 errors beside ModelError"
        figures.append(Figure("streams", what, went.total(), result, _shown(seeds), True, ways))
    return figures


# -- leaks -------------------------------------------------------------------------------------------------------------


def _leaks(library: str, runs: int) -> tuple[float, float, float, float]:
    from .leaks import series, slope

    samples = series(library, runs)
    return (
        slope(samples, lambda one: one.objects),
        slope(samples, lambda one: one.memory),
        slope(samples, lambda one: one.files),
        slope(samples, lambda one: one.threads),
    )


def leaks(size: int, asked: argparse.Namespace) -> list[Figure]:
    figures = []
    with _pool() as pool:
        libraries = _backends(asked)
        for library, found in zip(libraries, pool.map(_leaks, libraries, [size] * len(libraries)), strict=True):
            objects, memory, files, threads = found
            result = f"{objects:+.3f} objects, {memory:+.0f} bytes, {files:+.3f} files, {threads:+.3f} threads a run"
            what = f"slope over runs of 8 kinds on {library} (completed, failed, stopped, cancelled, …)"
            holds = objects < 1 and memory < 100 and files <= 0 and threads <= 0
            figures.append(Figure("leaks", what, size, result, "none", holds))
    return figures


# -- how good the tests are --------------------------------------------------------------------------------------------

GROUPS: dict[str, list[str]] = {
    **{name: [f"watchkeeper.{name}"] for name in ("planner", "ledger", "budget", "ladder")},
    "detect": [module for module in CORES if ".detect." in module and module != "watchkeeper.detect.chant"],
    "chant": ["watchkeeper.detect.chant"],
}
"""What has a row of its own. Chant is as large as the next three detectors, and hears streams instead of rounds."""


def _surgeons(*modules: str) -> ProcessPoolExecutor:
    from .surgery import load

    return ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=load, initargs=modules)


def _sound(module: str) -> bool:
    return control(module) == "survived"


def _caught(mutant: Mutant) -> bool:
    return tried(mutant) != "survived"


def mutation(size: int, asked: argparse.Namespace) -> list[Figure]:
    seed = asked.seeds.start if asked.seeds else 1
    figures = []
    with _surgeons(*BENEATH) as pool:
        wrong = [module for module, right in zip(CORES, pool.map(_sound, CORES), strict=True) if not right]
        assert not wrong, f"tests fail without a mutant: {', '.join(wrong)}"
        for group, modules in GROUPS.items():
            mutants = drawn(modules, size * 3 if group == "detect" else size, seed)
            verdicts = list(zip(pool.map(_caught, mutants), mutants, strict=True))
            caught = sum(right for right, _ in verdicts)
            what = f"mutants of {group}" + (
                f" ({len(modules)} detectors, by the tests of each)" if len(modules) > 1 else ""
            )
            result = f"{caught} caught: {caught / len(verdicts):.1%}"
            notes = tuple(f"survived: {mutant}" for right, mutant in verdicts if not right)
            holds = caught / len(verdicts) >= 0.85
            figures.append(Figure("mutation", what, len(verdicts), result, str(seed), holds, notes))
            print(figures[-1].line(), flush=True)
    return figures


def _plant(fault: Fault) -> Caught:
    from .planted import planted

    return planted(fault)


def planted(size: int, asked: argparse.Namespace) -> list[Figure]:
    from .planted import FAULTS

    faults = FAULTS[asked.seeds.start : asked.seeds.stop] if asked.seeds else FAULTS
    with _surgeons() as pool:
        found = list(pool.map(_plant, faults))
    caught = sum(bool(one.test) for one in found)
    notes = tuple(f"`{one.fault.place}` {one.fault.what}: {one.test or '**not caught**'}" for one in found)
    print("\n".join(notes), flush=True)
    return [Figure("planted", "deliberate faults", len(found), f"{caught} caught", "none", caught == len(found), notes)]


# -- where it runs, and what is run ------------------------------------------------------------------------------------

ENVIRONMENTS: dict[str, dict[str, str]] = {
    "TZ=Asia/Kolkata": {"TZ": "Asia/Kolkata"},
    "LC_ALL=C with PYTHONUTF8=0": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "-X warn_default_encoding": {"PYTHONWARNDEFAULTENCODING": "1"},
}
WARNINGS = (
    "error",
    "ignore::EncodingWarning",  # what is not ours, and tests, may open files as they like
    "error::EncodingWarning:watchkeeper.*",
    "ignore:Async generator .* was garbage collected:ResourceWarning",
)
TEXT = (
    *("tests/cassette", "tests/cli", "tests/handover", "tests/memory", "tests/tools"),
    *("tests/test_messages.py", "tests/test_redaction.py", "tests/test_continuing.py"),
)
"""The tests of what reads and writes text and times."""


def environment(size: int, asked: argparse.Namespace) -> list[Figure]:
    """For a push the tests of text and times under all of it at once; by night the whole suite under each alone."""
    if size == 1:
        whole = {name: value for variables in ENVIRONMENTS.values() for name, value in variables.items()}
        return [_under(", ".join(ENVIRONMENTS), whole, TEXT)]
    return [_under(name, variables, ("tests",)) for name, variables in ENVIRONMENTS.items()]


def _under(name: str, variables: dict[str, str], tests: tuple[str, ...]) -> Figure:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(os.cpu_count())]
    command += ["-o", "filterwarnings=" + "\n".join(WARNINGS)]
    # What is written under another locale is read as bytes: only marks and names of tests matter here.
    run = subprocess.run(
        [*command, *tests], cwd=ROOT, env={**os.environ, **variables}, stdout=subprocess.PIPE, check=False
    )
    output = run.stdout.decode("utf-8", "replace")
    passed, failed = _counts(output)
    notes = tuple(re.findall(r"^(?:FAILED|ERROR) \S+", output, re.MULTILINE)[:20])
    holds = run.returncode == 0 and not failed
    where = "the tests of text and times" if tests == TEXT else "the whole suite"
    return Figure("environment", f"{where} under {name}", passed + failed, f"{failed} failed", "none", holds, notes)


def _counts(output: str) -> tuple[int, int]:
    """Passed and failed tests, by the dots and letters of a quiet run."""
    lines = [line for line in output.splitlines() if re.fullmatch(r"[.FEsxX]+(\s+\[\s*\d+%\])?", line)]
    marks = Counter("".join(line.split("[")[0].strip() for line in lines))
    return marks["."], marks["F"] + marks["E"]


def coverage(size: int, asked: argparse.Namespace) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "coverage.ini"
        settings.write_text(
            f"[run]\nbranch = true\nparallel = true\nsource = watchkeeper\ndata_file = {folder}/data\n"
            "sigterm = true\npatch = subprocess\n"
            "[report]\nprecision = 1\nexclude_also =\n    if TYPE_CHECKING:\n    \\.\\.\\.$\n",
            "utf-8",
        )
        python = [sys.executable, "-m", "coverage"]
        rc = f"--rcfile={settings}"
        subprocess.run([*python, "run", rc, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=ROOT, check=False)
        subprocess.run([*python, "combine", rc, "-q"], cwd=ROOT, check=True)
        report = subprocess.run(
            [*python, "report", rc, "--skip-covered", "--sort=cover"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    total = next(line.split() for line in report.splitlines() if line.startswith("TOTAL"))
    share = float(total[-1].rstrip("%"))
    lowest = tuple(f"`{line.split()[0]}` {line.split()[-1]}" for line in report.splitlines()[2:12] if "%" in line)
    what = "branch coverage of the package by the tests (statements and branches)"
    n = int(total[1]) + int(total[3])
    return [Figure("coverage", what, n, f"{share} %", "none", share >= 95, lowest)]
