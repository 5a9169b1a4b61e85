"""Runs the parts of the suite, each in a process of its own, and writes RELIABILITY.md from what they found.

Without a part all of them are run: as for each push, or with ``--nightly`` with many more seeds. A part alone, with a
range of seeds, runs what has failed again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .figures import Figure, page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "RELIABILITY.md"
PARTS = ("chaos", "hostile", "streams", "leaks", "mutation", "planted", "environment", "coverage")
SIZES: dict[str, tuple[int | None, int | None]] = {
    "chaos": (500, 20_000),
    "hostile": (110_000, 1_000_000),
    "streams": (500, 20_000),
    "leaks": (5000, 50_000),
    "mutation": (40, 0),
    "planted": (0, 0),
    "environment": (1, 2),
    "coverage": (None, 1),
}
"""How much of each part there is for a push and by night; None: it is not run.

- ``chaos``: runs on each back end; ``hostile``: inputs; ``streams``: replies on each back end; ``leaks``: runs on each;
- ``mutation``: mutants of each core, and three times as many of the detectors (without chant); 0 for all;
- ``environment``: 1 for the tests of what reads and writes text, 2 for the whole suite; the others have one size.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    asked = _asked(arguments)
    if asked.figures is not None:
        _work(asked)
        return
    parts = asked.parts or [part for part in PARTS if SIZES[part][asked.nightly] is not None]
    figures: list[Figure] = []
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            print(f"== {part}", flush=True)
            wrote = Path(folder) / part
            command = [sys.executable, "-m", "reliability", part, "--figures", str(wrote), *_passed_on(asked)]
            code = subprocess.run(command, cwd=ROOT / "tests", check=False).returncode
            found = [Figure(**one) for one in json.loads(wrote.read_text("utf-8"))] if wrote.exists() else []
            figures += found
            for figure in found:
                print(figure.line(), flush=True)
            if code or not all(figure.holds for figure in found):
                failed.append(part)
            if not asked.parts:
                PAGE.write_text(page(figures, "nightly" if asked.nightly else "per push"), "utf-8")
    if failed:
        sys.exit(f"FAILED: {', '.join(failed)}")


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/reliability", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--nightly", action="store_true", help="many more seeds: some hours")
    parser.add_argument("--seeds", type=_seeds, help="only these: N, or FROM-TO (TO is left out)")
    parser.add_argument("--backend", choices=("asyncio", "trio"), help="only this one")
    parser.add_argument("--parser", help="of hostile: only this one")
    parser.add_argument("--figures", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    return range(int(first), int(last) if dash else int(first) + 1)


def _passed_on(asked: argparse.Namespace) -> list[str]:
    passed = ["--nightly"] if asked.nightly else []
    if asked.seeds is not None:
        passed += ["--seeds", f"{asked.seeds.start}-{asked.seeds.stop}"]
    for name in ("backend", "parser"):
        if getattr(asked, name) is not None:
            passed += [f"--{name}", getattr(asked, name)]
    return passed


def _work(asked: argparse.Namespace) -> None:
    """One part, in this process."""
    from . import parts

    (name,) = asked.parts
    work: Callable[..., list[Figure]] = getattr(parts, name)
    figures = work(SIZES[name][asked.nightly] or 0, asked)
    encoded: list[dict[str, Any]] = [figure._asdict() for figure in figures]
    asked.figures.write_text(json.dumps(encoded), "utf-8")
