"""``replay --report``: one page with the figures, plots, and each false alarm and miss as a timeline."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import __version__
from ..thresholds import Thresholds
from .complaints import Complaints
from .exits import FAILED, CommandError
from .filters import GOOD
from .interval import Share
from .judging import Judged
from .plots import ROWS, bars, escaped, histogram, stacked, whisker
from .printable import count
from .review import ACTIONS
from .stylesheet import STYLE
from .tally import Tally, caught_at
from .timeline import LEGEND, timeline

TIMELINES = 60
"""Timelines on one page."""
EXAMPLES = 6
"""Timelines of runs that were rightly stopped, to see what that looks like."""
SOURCES = 12
"""Sources with figures of their own; all others are summed up."""
OTHERS = "other sources"

METRICS = (
    ("good runs stopped", "good_stopped", "good_runs", 0.002),
    ("good runs with a call blocked", "good_blocked", "good_runs", None),
    ("good runs nudged", "good_nudged", "good_runs", 0.02),
    ("failed runs stopped", "failed_stopped", "failed_runs", None),
    ("runs labelled stuck: caught", "stuck_caught", "stuck_labels", 1.0),
    ("runs labelled healthy: stopped", "healthy_stopped", "healthy_labels", 0.0),
    ("runs labelled healthy: a call blocked", "healthy_blocked", "healthy_labels", None),
    ("runs labelled healthy: nudged", "healthy_nudged", "healthy_labels", None),
    ("calls saved", "calls_saved", "calls", None),
)
"""What it is, what is counted, of how many, and the share that is aimed at: at most that, or all."""

KINDS = (
    ("false_stop", "Good runs that would have been stopped", "A good run that would have been <b>stopped</b>."),
    ("miss", "Misses: labelled stuck and not caught", "Labelled as stuck, and neither blocked nor stopped after that."),
    ("false_block", "Good runs with a call blocked", "A good run in which a call would have been <b>blocked</b>."),
    ("healthy", "Labelled healthy, and something was done", "Labelled as healthy, and yet something would be done."),
    ("false_nudge", "Good runs that would have been nudged", "A good run in which the model would be told something."),
    (
        "stopped",
        "Runs without a label that did not succeed and would have been stopped",
        "It did not succeed, has no label to compare with, and would have been <b>stopped</b>.",
    ),
    ("caught", "Examples of what was caught", "Caught."),
)


class Report:
    """Collects what replay judges; :meth:`write` makes the page. What it keeps is bounded."""

    def __init__(self, path: Path, *, policy: str = "", profile: str = "") -> None:
        if not path.parent.is_dir() or path.is_dir():
            raise CommandError(f"--report {path}: name a file in a folder that exists")
        self.path = path
        self._partial = path.with_name(path.name + ".partial")
        self._tried = (
            f"the policy {policy}"
            if policy
            else f"the profile {profile}"
            if profile
            else "the profile default, or that of the run"
        )
        self._all = Tally()
        self._sources: dict[str, Tally] = {}
        self._streaks: Counter[int] = Counter()
        self._kinds: Counter[str] = Counter()
        self._kept: dict[str, list[Judged]] = {kind: [] for kind, _, _ in KINDS}

    def spare(self, files: Iterable[Path]) -> None:
        """Raises :class:`CommandError` if the page would take the place of one of these files."""
        for file in files:
            if any(own.is_file() and _is_same(own, file) for own in (self.path, self._partial)):
                raise CommandError(
                    f"--report {self.path}: {file} is read, and would be overwritten; name another file for the report"
                )

    def add(self, judged: Judged) -> None:
        self._all.add(judged)
        source = judged.source or "unknown source"
        if source not in self._sources and len(self._sources) >= SOURCES:
            source = OTHERS
        self._sources.setdefault(source, Tally()).add(judged)
        if judged.outcome in GOOD and judged.longest_pair:
            self._streaks[judged.longest_pair] += 1
        kind = kind_of(judged)
        if kind is not None:
            self._kinds[kind] += 1
            if len(self._kept[kind]) < (EXAMPLES if kind == "caught" else TIMELINES):
                self._kept[kind].append(judged)

    def write(self, complaints: Complaints) -> None:
        """Write the page. Raises :class:`CommandError` where that cannot be done."""
        page = "".join(self._page(complaints)).encode("utf-8", "replace")
        try:
            if self.path.exists() and not self.path.is_file():
                self.path.write_bytes(page)  # a device
            else:
                self._partial.write_bytes(page)
                self._partial.replace(self.path)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise CommandError(f"--report {self.path}: {why}", FAILED) from error

    def _page(self, complaints: Complaints) -> Iterator[str]:
        summary = self._all.summary()
        yield (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            f"<title>watchkeeper replay</title><style>{STYLE}</style></head><body><main>"
        )
        yield (
            "<h1>What the watchdog would have done</h1>"
            f'<p class="lead">{count(summary["runs"], "recorded run")} with {count(summary["calls"], "call")}, '
            f"judged by {escaped(self._tried)} (watchkeeper {escaped(__version__)}).</p>"
        )
        yield from (f'<p class="lead">{escaped(line[:1].upper() + line[1:], 400)}.</p>' for line in complaints.lines())
        yield from self._tiles()
        yield (
            "<h2>Figures</h2><p class=lead>Each share with what it is counted of and its 95 % interval (Wilson). "
            "A nudge is a word to the model, a block refuses one call, a stop ends the run. "
            "A run that is labelled stuck counts as caught if it was blocked or stopped at its onset or later.</p>"
        )
        yield self._numbers()
        yield f'<h2>Plots</h2><div class="plots">{"".join(self._plots())}</div>'
        yield from self._timelines()
        yield "<footer>Made by watchkeeper replay. Positions count from 0; arguments and results are cut.</footer>"
        yield "</main></body></html>\n"

    def _tiles(self) -> Iterator[str]:
        tally = self._all
        tiles = [
            (_share_in_words(tally.share("good_stopped", "good_runs")), "good runs stopped"),
            (_share_in_words(tally.share("stuck_caught", "stuck_labels")), "labelled stuck runs caught"),
        ]
        delay = tally.summary()["median_delay_calls"]
        told = f"{delay:g} calls" if delay is not None else "–"
        tiles.append((told, f"median delay from onset, n\u00a0=\u00a0{len(tally.delays)}"))
        tiles.append((f"{tally.share('calls_saved', 'calls').value:.1%}", "of all calls saved"))
        yield '<div class="tiles">'
        yield from (
            f'<div class="tile"><b>{escaped(figure)}</b><span>{escaped(of)}</span></div>' for figure, of in tiles
        )
        yield "</div>"

    def _numbers(self) -> str:
        parts = []
        for name, hits, of, aim in METRICS:
            whole = self._all.share(hits, of)
            if not whole.n:
                continue
            rows = [(name, whole)]
            if len(self._sources) > 1:
                rows += [(source, tally.share(hits, of)) for source, tally in self._sources.items()]
            rows = [row for row in rows if row[1].n]
            highest = _scale(max(share.interval[1] for _, share in rows), aim)
            lines = [_number(name, share, highest, aim, first=not index) for index, (name, share) in enumerate(rows)]
            parts.append(f"<tbody>{''.join(lines)}</tbody>")
        parts += self._delay_rows()
        head = (
            '<tr><th></th><th class="num">count</th><th class="num">share</th><th class="num">95 % interval</th>'
            '<th class="wide"></th></tr>'
        )
        return f'<div class="scroll"><table class="numbers"><thead>{head}</thead>{"".join(parts)}</table></div>'

    def _delay_rows(self) -> Iterator[str]:
        rows = [("delay from onset, in calls: median", self._all)]
        rows += list(self._sources.items()) if len(self._sources) > 1 else []
        lines = []
        for name, tally in rows:
            if tally.delays:
                middle = tally.summary()["median_delay_calls"]
                ends = dict.fromkeys((min(tally.delays), max(tally.delays)))
                cells = (f"n = {len(tally.delays)}", f"{middle:g}", f"all {'–'.join(map(str, ends))}")
                told = "".join(f'<td class="num right">{cell}</td>' for cell in cells)
                lines.append(f'<tr><td>{escaped(name)}</td>{told}<td class="wide"></td></tr>')
        if lines:
            yield f"<tbody>{''.join(lines)}</tbody>"

    def _plots(self) -> Iterator[str]:
        equal = Thresholds().equal
        marks = {at: word for at, word in ((equal.nudge, "nudge"), (equal.block, "block"), (equal.stop, "stop")) if at}
        yield _figure(
            "Delay",
            histogram(Counter(self._all.delays), what="calls from the labelled onset to the stop"),
            "How long runs that are labelled stuck went on before they were stopped, or blocked where no stop came.",
        )
        detectors: dict[str, dict[str, int]] = {}
        for (detector, action), times in sorted(self._all.by_detector.items()):
            detectors.setdefault(detector, {})[action] = times
        rows = sorted(detectors.items(), key=lambda row: -sum(row[1].values()))
        yield _figure(
            "Who spoke",
            stacked(rows, ACTIONS),
            "Runs in which each rule did something, by the strongest that it did there: "
            '<span class="nudge">nudge</span>, <span class="block">block</span>, '
            '<span class="stop">pause or stop</span>.'
            + (f" The {ROWS} of {len(rows)} rules that spoke most." if len(rows) > ROWS else ""),
        )
        saved = [(source, tally.share("calls_saved", "calls").value) for source, tally in self._sources.items()]
        yield _figure("Calls saved", bars(saved), "Share of recorded calls that would not have been run, by source.")
        yield _figure(
            "What good runs look like",
            histogram(self._streaks, what="most equal calls with equal results in a row", marks=marks),
            "Good runs by the longest row of equal calls with equal results in them, and where the rule of equal calls "
            "acts by default.",
        )

    def _timelines(self) -> Iterator[str]:
        left = TIMELINES
        if not any(self._kinds.values()):
            yield (
                "<h2>Timelines</h2><p>Nothing to show: no run would have been stopped, no good one was touched, and no "
                "labelled one missed.</p>"
            )
            return
        legend = LEGEND
        for kind, title, headline in KINDS:
            total = self._kinds[kind]
            if not total:
                continue
            shown = self._kept[kind][: max(left, 0)]
            left -= len(shown)
            note = f" The first {len(shown)} of them are shown." if len(shown) < total else ""
            yield f"<h2>{title}</h2><p class=lead>{count(total, 'run')}.{note}</p>{legend}"
            legend = ""
            yield from (timeline(judged, headline) for judged in shown)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # the other one is not there
        return False


def kind_of(judged: Judged) -> str | None:
    """Which of :data:`KINDS` a run is to be shown as, if any."""
    stopped, blocked = judged.first("stop") is not None, judged.first("block") is not None
    label = judged.label.stuck if judged.label is not None else None
    if label == "yes":
        return "miss" if caught_at(judged) is None else "caught"
    if judged.outcome in GOOD and judged.judgements:
        return "false_stop" if stopped else "false_block" if blocked else "false_nudge"
    if label == "no":
        return "healthy" if judged.judgements else None
    return "stopped" if stopped else None


def _number(name: str, share: Share, highest: float, aim: float | None, *, first: bool) -> str:
    low, high = share.interval
    told = ""
    if first and aim is not None:
        met = share.value >= aim if aim == 1.0 else share.value <= aim
        words = "aim: all" if aim == 1.0 else "aim: none" if aim == 0.0 else f"aim: at most {aim:.1%}"
        told = f' <span class="aimed">{words} <b class="{"met" if met else "missed"}">{"✓" if met else "✗"}</b></span>'
    return (
        f'<tr><td>{escaped(name)}{told}</td><td class="num right">{share.hits:,} of {share.n:,}</td>'
        f'<td class="num right">{_percent(share.value)}</td>'
        f'<td class="num right">{_percent(low)}–{_percent(high)}</td>'
        f'<td class="wide">{whisker(share, highest, aim)}</td></tr>'
    )


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.0995 else f"{share:.2%}"


def _scale(highest: float, aim: float | None) -> float:
    return max(highest, aim or 0.0, 0.001)


def _share_in_words(share: Share) -> str:
    return f"{share.hits:,} of {share.n:,}" if share.n else "–"


def _figure(title: str, plot: str, caption: str) -> str:
    return f"<figure><h3>{title}</h3>{plot}<figcaption>{caption}</figcaption></figure>"
