"""What all benchmarks share: back ends, versions, options, and how a report is printed."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import platform
import statistics
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import anyio

Row = dict[str, Any]
BACKENDS = ("asyncio", "uvloop", "trio")
"""uvloop is asyncio on another loop; it is left out where it is not installed."""


def installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def backends(chosen: str) -> tuple[str, ...]:
    """The back ends of an option: one by name, or ``both``: all there are."""
    if chosen == "both":
        return tuple(name for name in BACKENDS if name != "uvloop" or installed("uvloop"))
    return (chosen,)


def run(backend: str, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """Run an async function on a back end."""
    if backend == "uvloop":
        return anyio.run(function, *arguments, backend="asyncio", backend_options={"use_uvloop": True})
    return anyio.run(function, *arguments, backend=backend)


def suffix(backend: str) -> str:
    """Figures without one are those of asyncio."""
    return "" if backend == "asyncio" else f"_{backend}"


def versions(*names: str) -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    for name in ("watchkeeper", "anyio", "trio", "uvloop", *names):
        found[name] = importlib.metadata.version(name) if installed(name) else "not installed"
    return found


def exponent(points: Iterable[tuple[float, float]]) -> float:
    """The power of n that a cost grows with: the slope of a line through (n, cost) on logarithmic scales."""
    logs = [(math.log(n), math.log(cost)) for n, cost in points]
    if len(logs) < 2:
        return float("nan")
    slope, _ = statistics.linear_regression([x for x, _ in logs], [y for _, y in logs])
    return slope


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of the sorted values does not pass."""
    return ordered[min(len(ordered) - 1, max(math.ceil(share * len(ordered)) - 1, 0))]


def parser(doc: str | None) -> argparse.ArgumentParser:
    """With the options that all benchmarks have."""
    made = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    made.add_argument("--backend", choices=[*BACKENDS, "both"], default="both", help="both: all that there are")
    made.add_argument("--json", action="store_true", help="one object: benchmark, versions, rows, figures")
    made.add_argument("--quick", action="store_true", help="fewer and smaller: to see that it works")
    return made


def report(
    name: str,
    rows: list[Row],
    figures: dict[str, float],
    *,
    columns: dict[str, str],
    as_json: bool,
    of: Iterable[str] = (),
) -> None:
    """Print rows and figures, as one JSON object or as tables; ``columns``: fields of a row with their formats."""
    known = {key: value for key, value in sorted(figures.items()) if not math.isnan(value)}
    if as_json:
        json.dump({"benchmark": name, "versions": versions(*of), "rows": rows, "figures": known}, sys.stdout, indent=1)
        print()
        return
    print("  ".join(f"{key} {value}" for key, value in versions(*of).items() if value != "not installed"))
    missing = [key for key, value in versions(*of).items() if value == "not installed"]
    if missing:
        print(f"not installed, and left out: {', '.join(missing)}")
    shown = [
        {key: format(row.get(key, ""), form) if key in row else "" for key, form in columns.items()} for row in rows
    ]
    widths = {key: max(len(key), *(len(row[key]) for row in shown)) for key in columns}
    print("  ".join(f"{key:>{widths[key]}}" for key in columns))
    for row in shown:
        print("  ".join(f"{row[key]:>{widths[key]}}" for key in columns))
    print()
    for key, value in known.items():
        print(f"{key:40} {value:12.4g}")
