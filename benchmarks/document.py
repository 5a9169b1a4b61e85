"""Writes the figures of benchmarks into docs/detection.md, so that none is copied by hand.

``python benchmarks/splices.py --json > splices.json`` (and ``events``, ``rivals``), then
``python benchmarks/document.py splices.json events.json rivals.json``: each part of the document between
``<!-- figures: NAME -->`` and ``<!-- end -->`` is replaced by a table of that report.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rivals import markdown
from splices import BARS

DOCUMENT = Path(__file__).parent.parent / "docs" / "detection.md"


def splices(report: dict[str, Any]) -> str:
    figures = report["figures"]
    held_out = any(name.endswith("_holdout") for name in figures)
    heads = ["class", "n", "caught", "95 % interval", "bar", "within the bars for delay", "delay: median", "95 %"]
    lines = _head([*heads, *(["caught of the source apart"] if held_out else [])])
    for name in [
        name.removeprefix("n_") for name in figures if name.startswith("n_") and not name.endswith("_holdout")
    ]:
        cells = [
            name.replace("_", " "),
            f"{figures[f'n_{name}']:,}",
            f"{figures[f'caught_{name}']:.1%}",
            f"{figures[f'caught_{name}_low']:.1%} – {figures[f'caught_{name}_high']:.1%}",
            f"{BARS[name]:.0%}" if name in BARS else "",
            f"{figures[f'prompt_{name}']:.0%}",
            *(
                f"{figures[f'{which}_delay_{name}']:g}"
                for which in ("median", "p95")
                if f"{which}_delay_{name}" in figures
            ),
        ]
        if held_out:
            cells.append(f"{figures[f'caught_{name}_holdout']:.1%} of {figures[f'n_{name}_holdout']}")
        lines.append(_line(cells))
    lines += ["", f"Stopped before its onset: {figures['stopped_early']:.0f}. {_told(report)}"]
    return "\n".join(lines)


def events(report: dict[str, Any]) -> str:
    lines = _head(["result events", "bytes", "p50, µs", "p99", "p99.9", "sha256 of it, µs"])
    for row in report["rows"]:
        if row["what"] == "result":
            times = [f"{row[name]:.1f}" for name in ("p50", "p99", "p999", "control")]
            lines.append(_line([row["stream"], f"{row['size']:,}", *times]))
    lines += ["", *_head(["other events", "p50, µs", "p99", "p99.9"])]
    for row in report["rows"]:
        if row["what"] == "event" and row["kind"] != "CallEnded":
            lines.append(_line([row["kind"], *(f"{row[name]:.2f}" for name in ("p50", "p99", "p999"))]))
    lines += ["", *_head(["state of a run", "bytes of a result", "events", "KB"])]
    for row in report["rows"]:
        if row["what"] == "state":
            lines.append(_line([row["stream"], f"{row['size']:,}", f"{row['events']:,}", f"{row['kb']:.1f}"]))
    lines += ["", _told(report)]
    return "\n".join(lines)


def rivals(report: dict[str, Any]) -> str:
    return f"{markdown(report['rows'])}\n\n{_told(report)}"


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {"splices": splices, "events": events, "rivals": rivals}


def filled(document: str, report: dict[str, Any]) -> str:
    """The document with the part of this report made anew."""
    name = report["benchmark"]
    part = re.compile(rf"(<!-- figures: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not part.search(document):
        raise ValueError(f"the document has no part for the figures of {name}")
    table = PARTS[name](report)
    return part.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", document)


def _told(report: dict[str, Any]) -> str:
    known = {name: version for name, version in report["versions"].items() if version != "not installed"}
    return f"({', '.join(f'{name} {version}' for name, version in known.items())})"


def _head(cells: list[str]) -> list[str]:
    return [_line(cells), f"| --- |{' ---: |' * (len(cells) - 1)}"]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", type=Path, nargs="+", help="what the benchmarks print with --json")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    options = parser.parse_args()
    text = options.document.read_text(encoding="utf-8")
    for path in options.reports:
        text = filled(text, json.loads(path.read_text(encoding="utf-8")))
    options.document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
