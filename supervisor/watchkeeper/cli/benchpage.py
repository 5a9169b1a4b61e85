"""The page of ``bench --report``: figures, plots and tables of all benchmarks that were run."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from .plots import escaped
from .stylesheet import STYLE

BARS = {
    "ratio_best_peer_n10": (4, "least"),
    "ratio_best_peer_n100": (4, "least"),
    "ratio_best_peer_n1000": (4, "least"),
    "times_gather_n10": (5, "most"),
    "times_gather_n100": (5, "most"),
    "times_gather_n1000": (5, "most"),
    "times_gather_n10_trio": (7, "most"),
    "times_gather_n100_trio": (7, "most"),
    "times_gather_n1000_trio": (7, "most"),
    "times_gather_100ms_n1000": (1.5, "most"),
    "us_per_call_n100": (40, "most"),
    "us_per_call_n100_trio": (60, "most"),
    "distinct_writers_over_readers": (1.2, "most"),
    "overlaps": (0, "most"),
    "ms_per_turn": (0.3, "most"),
    "ratio_best_peer": (1, "least"),
    "kb_per_run": (64, "most"),
    "loop_lag_p99_ms": (50, "most"),
    "growth_exponent": (1.05, "most"),
    "kb_growth": (64, "most"),
    "last_over_first_turn": (1.1, "most"),
    "us_1kb": (40, "most"),
    "us_100kb": (300, "most"),
    "p99_ms_asyncio": (10, "most"),
    "p99_ms_trio": (10, "most"),
    "max_ms_100_asyncio": (100, "most"),
    "max_ms_100_trio": (100, "most"),
    "p99_ms_processes_asyncio": (100, "most"),
    "p99_ms_processes_trio": (100, "most"),
    "p99_ms_http_asyncio": (50, "most"),
    "p99_ms_http_trio": (50, "most"),
    "import_s": (0.15, "most"),
    "help_s": (0.3, "most"),
    "ps_s": (0.3, "most"),
    "records_per_s_1_file": (5_000, "least"),
    "records_per_s_2_files": (10_000, "least"),
    "append_p99_ms_1_file": (150, "most"),
    "append_p99_ms_2_files": (150, "most"),
}
"""What is aimed at, figure by figure."""
PLOTS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "tools": ("n", "us_per_call", "name", {"work": "no-op"}),
    "writers": ("writers", "ms", "resources", {}),
    "turns": ("name", "ms_per_turn", "backend", {}),
    "runs": ("runs", "ms_per_run", "backend", {"what": "time"}),
    "long": ("turn", "ms_per_turn", "backend", {"what": "time"}),
    "events": ("size", "p50", "stream", {"what": "result"}),
    "cancel": ("case", "p99_ms", "backend", {}),
    "start": ("what", "seconds", "", {}),
    "journal": ("what", "records_per_s", "backend", {}),
}
"""By benchmark: what is on the two axes, what makes a line or bar of its own, and which rows are drawn."""
HIDDEN = ("taken_ms",)
"""Fields of rows that are too long for a table."""


class Measured(msgspec.Struct, frozen=True):
    """What a benchmark prints."""

    benchmark: str
    versions: dict[str, str]
    rows: list[dict[str, Any]]
    figures: dict[str, float]


def write(place: Path, measured: list[Measured], *, quick: bool) -> Path:
    """Write the plots (PNG and SVG) and the page; the page's path."""
    page = place / "index.html"
    drawn = {one.benchmark: _draw(place, one) for one in measured}
    page.write_text("\n".join(_page(measured, drawn, quick)), encoding="utf-8")
    return page


def _draw(place: Path, one: Measured) -> bool:
    """Draw the plot of a benchmark; False if there is nothing to draw."""
    if one.benchmark not in PLOTS:
        return False
    across, up, by, only = PLOTS[one.benchmark]
    rows = [row for row in one.rows if up in row and across in row and all(row.get(k) == v for k, v in only.items())]
    if not rows:
        return False
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    series: dict[str, list[tuple[Any, float]]] = {}
    for row in rows:
        name = " ".join(str(row[key]) for key in ("backend", by) if key and key in row and key != across)
        series.setdefault(name or up, []).append((row[across], float(row[up])))
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    if all(isinstance(row[across], int | float) for row in rows):
        for name, points in series.items():
            axes.plot(*zip(*sorted(points), strict=True), marker="o", label=name)
        if max(row[across] for row in rows) > 50 * max(min(row[across] for row in rows), 1):
            axes.set_xscale("log")
            axes.set_yscale("log")
    else:
        names = list(dict.fromkeys(str(row[across]) for row in rows))
        height = 0.8 / len(series)
        for index, (name, points) in enumerate(series.items()):
            places = [names.index(str(what)) + index * height for what, _ in points]
            axes.barh(places, [value for _, value in points], height, label=name)
        axes.set_yticks([place + 0.4 - height / 2 for place in range(len(names))], names)
        axes.invert_yaxis()
    axes.set_title(one.benchmark)
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    axes.set_xlabel(across if all(isinstance(row[across], int | float) for row in rows) else up)
    if axes.get_xlabel() == across:
        axes.set_ylabel(up)
    for ending in ("png", "svg"):
        figure.savefig(place / f"{one.benchmark}.{ending}", dpi=120)
    pyplot.close(figure)
    return True


def _page(measured: list[Measured], drawn: dict[str, bool], quick: bool) -> Iterator[str]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    yield "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>watchkeeper: benchmarks</title>"
    yield f"<meta name='viewport' content='width=device-width'><style>{STYLE}\nimg{{max-width:100%}}</style></head>"
    yield "<body>"
    yield f"<main><h1>Benchmarks</h1><p>{now}. Times are this machine's: read the ratios.</p>"
    if quick:
        yield "<p><b>Made with --quick: these figures mean nothing.</b></p>"
    versions = {name: version for one in measured for name, version in one.versions.items()}
    yield "<p>" + ", ".join(escaped(f"{name} {version}") for name, version in sorted(versions.items())) + "</p>"
    for one in measured:
        yield f"<h2>{escaped(one.benchmark)}</h2>"
        yield from _table(("figure", "value", "aimed at"), map(_figure, sorted(one.figures.items())))
        if drawn[one.benchmark]:
            picture = escaped(one.benchmark)
            yield f"<p><a href='{picture}.svg'><img src='{picture}.png' alt='{picture}'></a></p>"
        fields = list(dict.fromkeys(field for row in one.rows for field in row if field not in HIDDEN))
        yield f"<details><summary>{len(one.rows)} rows</summary>"
        yield from _table(fields, ([_shown(row.get(field, "")) for field in fields] for row in one.rows))
        yield "</details>"
    yield "</main></body></html>"


def _figure(item: tuple[str, float]) -> list[str]:
    name, value = item
    if name not in BARS:
        return [name, _shown(value), ""]
    bar, way = BARS[name]
    met = value <= bar if way == "most" else value >= bar
    return [name, _shown(value), f"at {way} {bar:g}: {'met' if met else 'not met'}"]


def _shown(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield "<div style='overflow-x:auto'><table><thead><tr>"
    yield "".join(f"<th>{escaped(head)}</th>" for head in heads)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"
