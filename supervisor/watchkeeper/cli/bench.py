"""``watchkeeper bench``: run the benchmarks that come with the source, one by one or as a page of all."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from .exits import COMPLETED, FAILED, CommandError, complain

if TYPE_CHECKING:
    from .benchpage import Measured

NAMES = ("tools", "writers", "turns", "runs", "long", "events", "cancel", "start", "journal")


def bench(
    name: Annotated[str | None, Parameter(help=f"Which: {', '.join(NAMES)}. Without: what each measures.")] = None,
    /,
    *,
    json: Annotated[bool, Parameter(help="One object: benchmark, versions, rows, figures.")] = False,
    report: Annotated[
        Path | None, Parameter(help="Run all (or the named one) and write a page into this folder.")
    ] = None,
    quick: Annotated[bool, Parameter(help="Few and small: to see that it works; the figures mean nothing.")] = False,
    backend: Annotated[str | None, Parameter(help="asyncio, uvloop or trio (default: all that there are).")] = None,
) -> int:
    """Measure the overhead of watchkeeper on this machine, beside a raw control and, where they are installed, peers.

    Each benchmark runs in a process of its own. Read the ratios: absolute times are the machine's. Options that only
    one of them has are those of its script, ``python benchmarks/NAME.py --help``.
    """
    scripts = folder()
    if name is not None and name not in NAMES:
        raise CommandError(f"there is no benchmark {name!r}; there are {', '.join(NAMES)}")
    options = ["--quick"] * quick + (["--backend", backend] if backend is not None else [])
    if report is not None:
        return _write_page(scripts, NAMES if name is None else (name,), options, report)
    if name is None:
        for one in NAMES:
            print(f"{one:8} {purpose(scripts / f'{one}.py')}")
        return COMPLETED
    command = [sys.executable, str(scripts / f"{name}.py"), *options, *(["--json"] if json else [])]
    done = subprocess.run(command, check=False)  # noqa: S603 - a script of ours
    return COMPLETED if done.returncode == 0 else FAILED


def folder() -> Path:
    """Where the scripts are: in the source tree, or beside the installed package."""
    here = Path(__file__).resolve()
    for place in (here.parents[3] / "benchmarks", here.parents[2] / "watchkeeper_benchmarks"):
        if (place / "reporting.py").is_file():
            return place
    raise CommandError(
        "the benchmarks are not here: they come with the source of watchkeeper and with its wheel; "
        "clone the repository, or install it anew with pip install --force-reinstall watchkeeper"
    )


def purpose(script: Path) -> str:
    """The first sentence of a script's docstring."""
    said = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return " ".join(said.split("\n\n")[0].split()).replace("``", "")


def _write_page(scripts: Path, names: tuple[str, ...], options: list[str], place: Path) -> int:
    from .benchpage import Measured, write

    try:
        import matplotlib  # noqa: F401 - asked here, before hours of measuring
    except ImportError:
        raise CommandError(
            "bench --report draws plots with matplotlib, which is not installed: pip install 'watchkeeper[bench]'"
        ) from None
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"the folder {place} cannot be made: {error.strerror}; name another with --report") from None
    measured: list[Measured] = []
    failed = []
    for name in names:
        print(f"{name}: {purpose(scripts / f'{name}.py')}", file=sys.stderr, flush=True)
        command = [sys.executable, str(scripts / f"{name}.py"), *options, "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)  # noqa: S603 - a script of ours
        try:
            if done.returncode:
                raise ValueError(f"it ended with exit code {done.returncode}")
            measured.append(msgspec.json.decode(done.stdout, type=Measured))
        except ValueError as error:
            failed.append(name)
            complain(f"{name} gives no figures: {error}")
            continue
        (place / f"{name}.json").write_bytes(done.stdout)
    if not measured:
        complain("nothing was measured, so there is no page")
        return FAILED
    print(write(place, measured, quick="--quick" in options))
    return FAILED if failed else COMPLETED
