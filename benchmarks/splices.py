"""Recall on loops spliced into good recorded runs: how many are caught, and how soon.

Run it with ``python benchmarks/splices.py --data FOLDER`` (or set WATCHKEEPER_DATA): it takes the runs that succeeded
of all recordings there (a source a file), splices in loops (``splicing.py`` says which), and judges them as
``watchkeeper replay`` does, at defaults. *Caught* is a splice that was blocked or stopped at the onset of its loop or
later, and not stopped before it; a nudge does not count. The delay is in calls from the onset (0: its first call).

``--misses N`` shows N misses of each class so that one can read them, ``--holdout SOURCE`` gives that source figures
of its own, ``--json`` prints all as one object.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import platform
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from splicing import CLASSES, PERIODS, Splice, Splicer
from watchkeeper.cli.recorded import RecordedRun, Step, events_of
from watchkeeper.cli.recordings import Read, files_of, read
from watchkeeper.cli.review import Review, Settings
from watchkeeper.profiles import PROFILES

SUMMED = {"volatile": ("volatile_results", "volatile_arguments")}
"""Classes that the bars take together."""
BARS = {"exact": 0.99, "volatile": 0.95, "near": 0.80}
PROMPT = {"nudge": 3, "block": 5, "stop": 8}
"""Period 1: at which call of the loop each must have come; longer ones are seen within 3 laps, stopped within 5."""


class Seen(msgspec.Struct, frozen=True):
    """What came of one splice. Delays are in calls from the onset."""

    kind: str
    variant: str
    source: str
    period: int
    caught: bool
    early: bool
    """Stopped before its onset: a false stop of a good run, not a catch."""
    nudge: int | None
    block: int | None
    stop: int | None
    laps_to_see: int | None
    laps_to_stop: int | None

    @property
    def delay(self) -> int | None:
        return min((at for at in (self.block, self.stop) if at is not None), default=None) if self.caught else None

    @property
    def prompt(self) -> bool:
        """Within the bars for delay."""
        if self.period == 1:
            return all(
                at is not None and at < bar
                for at, bar in zip((self.nudge, self.block, self.stop), PROMPT.values(), strict=True)
            )
        return (self.laps_to_see or 99) <= 3 and (self.laps_to_stop or 99) <= 5


def good_runs(folder: Path) -> dict[str, list[RecordedRun]]:
    """The runs that succeeded, by source."""
    found: dict[str, list[RecordedRun]] = {}
    for path in files_of([folder]):
        if not isinstance(path, Path):
            sys.exit(str(path))
        runs = [item.what for item in read(path) if isinstance(item, Read) and isinstance(item.what, RecordedRun)]
        good = [run for run in runs if run.outcome == "success" and run.calls]
        if good:
            found[path.name.split(".")[0]] = good
    return found


def splices(
    runs: dict[str, list[RecordedRun]],
    n: int,
    seed: int,
    classes: Iterable[str] = CLASSES,
    periods: Iterable[int] = PERIODS,
    **length: int,
) -> Iterator[Splice]:
    """``n`` of each class, period and source. A failure under varied arguments has no period: it gets n for each."""
    chosen = tuple(periods)
    for source, good in runs.items():
        splicer = Splicer(source, good, seed, **length)
        for kind in classes:
            for period in chosen:
                if kind == "shuffled" and period == 1:
                    continue
                for number in range(n):
                    at = number + n * period if kind == "error" else number
                    found = splicer.splice(kind, 1 if kind == "error" else period, at)
                    if found is not None:
                        yield found


def judged(splice: Splice, settings: Settings) -> tuple[Seen, Review]:
    review = Review(splice.run.id, settings, logged=False)
    for event in events_of(splice.run):
        review.observe(event)
    at: dict[str, int | None] = {}
    for action in ("nudge", "block", "stop"):
        at[action] = next(
            (one.position for one in review.judgements if one.action == action and one.position >= splice.onset), None
        )
    early = any(one.action == "stop" and one.position < splice.onset for one in review.judgements)
    seen = min((position for position in at.values() if position is not None), default=None)
    seen_at = {action: None if position is None else position - splice.onset for action, position in at.items()}
    return (
        Seen(
            splice.kind,
            splice.variant,
            splice.source,
            splice.period,
            not early and (at["block"] is not None or at["stop"] is not None),
            early,
            **seen_at,
            laps_to_see=None if seen is None else splice.lap_at(seen),
            laps_to_stop=None if at["stop"] is None else splice.lap_at(at["stop"]),
        ),
        review,
    )


def interval(caught: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if not n:
        return 0.0, 1.0
    z = 1.959964
    share, middle = caught / n, 1 + z * z / n
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, (share + z * z / (2 * n) - half) / middle), min(1.0, (share + z * z / (2 * n) + half) / middle)


def row(group: list[Seen], **names: Any) -> dict[str, Any]:
    caught = sum(one.caught for one in group)
    low, high = interval(caught, len(group))
    delays = sorted(one.delay for one in group if one.delay is not None)
    stops = sorted(one.stop for one in group if one.stop is not None and not one.early)
    return {
        **names,
        "n": len(group),
        "caught": caught,
        "share": caught / len(group) if group else None,
        "low": low,
        "high": high,
        "early": sum(one.early for one in group),
        "stopped": len(stops),
        "prompt": sum(one.prompt for one in group),
        "median_delay": statistics.median(delays) if delays else None,
        "p95_delay": delays[math.ceil(0.95 * len(delays)) - 1] if delays else None,
        "median_stop": statistics.median(stops) if stops else None,
    }


def rows(seen: list[Seen]) -> list[dict[str, Any]]:
    groups: defaultdict[tuple[str, int, str], list[Seen]] = defaultdict(list)
    for one in seen:
        groups[one.kind, one.period, one.source].append(one)
    return [row(group, kind=kind, period=period, source=source) for (kind, period, source), group in groups.items()]


def figures(seen: list[Seen], holdout: str | None = None) -> dict[str, float]:
    """Shares by class, with interval and n; with a source held out, its own apart from those of the others."""
    found: dict[str, float] = {}
    parts = [("", seen)]
    if holdout is not None:
        parts = [("", [one for one in seen if one.source != holdout])]
        parts.append(("_holdout", [one for one in seen if one.source == holdout]))
    for suffix, part in parts:
        for name in dict.fromkeys((*(one.kind for one in part), *SUMMED)):
            group = [one for one in part if one.kind in SUMMED.get(name, (name,))]
            if not group:
                continue
            one = row(group)
            found[f"caught_{name}{suffix}"] = one["share"]
            found[f"caught_{name}_low{suffix}"] = one["low"]
            found[f"caught_{name}_high{suffix}"] = one["high"]
            found[f"n_{name}{suffix}"] = one["n"]
            found[f"prompt_{name}{suffix}"] = one["prompt"] / one["n"]
            if one["median_delay"] is not None:
                found[f"median_delay_{name}{suffix}"] = one["median_delay"]
                found[f"p95_delay_{name}{suffix}"] = one["p95_delay"]
        found[f"stopped_early{suffix}"] = sum(one.early for one in part)
    return found


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), "watchkeeper": importlib.metadata.version("watchkeeper")}


# -- to read ---------------------------------------------------------------------------------------------------------


class Lines:
    """Calls as compact lines: of what the tool was told and answered before only what differs is shown."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[str, str]] = {}

    def line(self, position: int, call: Step, mark: str) -> str:
        args = json.dumps(call.args, ensure_ascii=False)
        result = str(call.result).replace("\n", "⏎").replace("\x1b", "␛").replace("\r", "␍")
        shown = [
            _differing(new, old) for new, old in zip((args, result), self._before.get(call.tool, ("", "")), strict=True)
        ]
        self._before[call.tool] = args, result
        return f"  {position:4} {mark:>4} {call.tool} {shown[0]} ->{' !' if call.error else ''} {shown[1]}"


def _differing(new: str, old: str, most: int = 170) -> str:
    """The text from shortly before the first place where it differs from the earlier one."""
    if new == old and new:
        return "(the same)"
    alike = next(
        (at for at, (one, other) in enumerate(zip(new, old, strict=False)) if one != other), min(len(new), len(old))
    )
    start = max(alike - 30, 0)
    part = new[start:]
    cut = part if len(part) <= most else f"{part[: most * 2 // 3]} … {part[-most // 3 :]}"
    return f"… {cut}" if start else cut


def told(splice: Splice, seen: Seen, review: Review, most: int = 14) -> str:
    said = ", ".join(f"{one.action} at {one.position} ({one.detector}: {one.pattern})" for one in review.judgements)
    calls = splice.run.calls
    lines = Lines()
    shown = [
        lines.line(position, calls[position], f"L{lap}" if lap else "+")
        for position, lap in enumerate(splice.laps[:most], splice.onset)
    ]
    return "\n".join(
        (
            f"{splice.run.id}",
            f"  {splice.kind} ({splice.variant}), period {splice.period}, onset {splice.onset}, "
            f"{len(splice.laps)} calls from there; {'STOPPED EARLY; ' if seen.early else ''}done: {said or 'nothing'}",
            *shown,
        )
    )


def show(seen: list[Seen], holdout: str | None) -> None:
    print("  ".join(f"{name} {version}" for name, version in versions().items()))
    sources = sorted({one.source for one in seen})
    print(f"{'class':20} {'period':>6} {'n':>5} {'caught':>7}   95 % interval    early prompt  median p95   by source")
    for kind in dict.fromkeys(one.kind for one in seen):
        group = [one for one in seen if one.kind == kind]
        periods = sorted({one.period for one in group})
        for period in (*periods, None) if len(periods) > 1 else periods:
            part = [one for one in group if period in (None, one.period)]
            one = row(part)
            each = (row([other for other in part if other.source == source]) for source in sources)
            by_source = "  ".join(
                f"{source}{' (held out)' if source == holdout else ''} {one['caught']}/{one['n']}"
                for source, one in zip(sources, each, strict=True)
            )
            delays = f"{_told(one['median_delay']):>6} {_told(one['p95_delay']):>4}"
            print(
                f"{kind:20} {period or 'all':>6} {one['n']:5} {one['share']:7.1%}   "
                f"{one['low']:6.1%} … {one['high']:6.1%} "
                f"{one['early']:5} {one['prompt'] / one['n']:6.1%} {delays}   {by_source}"
            )
    facets: defaultdict[tuple[str, str], list[Seen]] = defaultdict(list)
    for other in seen:
        for facet in {part for part in re.split(r", |; | and | \\+ ", other.variant) if part}:
            facets[other.kind, facet].append(other)
    print("\nby variant, those with misses:")
    for (kind, facet), group in sorted(facets.items(), key=lambda item: (item[0][0], _missed(item[1]))):
        if _missed(group):
            print(f"  {kind:20} {facet:34} {len(group) - _missed(group):5} of {len(group):5}")
    print()
    for name, value in figures(seen, holdout).items():
        if name.startswith(("caught", "prompt", "stopped")) and not name.endswith(("_low", "_high")):
            bar = BARS.get(name.removeprefix("caught_").removesuffix("_holdout"))
            print(f"{name:34} {value:8.3f}{f'   bar {bar}' if bar and name.startswith('caught') else ''}")


def _missed(group: list[Seen]) -> int:
    return sum(not one.caught for one in group)


def _told(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of recordings (default: corpora in WATCHKEEPER_DATA)")
    parser.add_argument("--n", type=int, default=20, help="splices of each class, period and source")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--classes", nargs="+", choices=CLASSES, default=CLASSES)
    parser.add_argument("--periods", type=int, nargs="+", choices=PERIODS, default=list(PERIODS))
    parser.add_argument("--misses", type=int, default=0, help="misses of each class to show")
    parser.add_argument("--holdout", help="a source that gets figures of its own")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = options.data or Path(os.environ.get("WATCHKEEPER_DATA", ".")) / "corpora"
    runs = good_runs(data)
    if not runs:
        parser.error(f"no good runs in {data}: name a folder of recordings by --data")
    if options.holdout is not None and options.holdout not in runs:
        parser.error(f"--holdout: there is no source {options.holdout}; there are {', '.join(runs)}")
    settings = Settings(profiles=PROFILES)
    seen: list[Seen] = []
    missed: defaultdict[str, list[str]] = defaultdict(list)
    for splice in splices(runs, options.n, options.seed, options.classes, options.periods):
        one, review = judged(splice, settings)
        seen.append(one)
        if not one.caught:
            missed[one.kind].append(told(splice, one, review) if options.misses else "")
    if options.json:
        report = {
            "benchmark": "splices",
            "versions": versions(),
            "rows": rows(seen),
            "figures": figures(seen, options.holdout),
        }
        json.dump(report, sys.stdout, indent=1)
        print()
        return
    show(seen, options.holdout)
    for kind, texts in missed.items():
        if options.misses:
            step = max(1, len(texts) // options.misses)  # spread over sources and periods
            print(f"\n== {kind}: {len(texts)} missed, {min(options.misses, len(texts))} shown ==\n")
            print("\n\n".join(texts[::step][: options.misses]))


if __name__ == "__main__":
    main()
