"""Others against loops on the same data: what they catch, what they stop of good runs, how soon, at what cost.

Run it with ``python benchmarks/rivals.py --data FOLDER`` (or set WATCHKEEPER_DATA). Rows: watchkeeper at defaults, our
own statements of published rules (``rules.py``), and the packages that are installed (``installed.py``;
``pip install --group rivals`` brings them). Columns: what was caught of the loop scenarios, of runs labelled as stuck,
and of splices by class; what was wrongly blocked or stopped of the benign scenarios, of good runs, and of runs labelled
as healthy; the median delay in calls on exact splices; microseconds a call.

One measure for all: *caught* is a loop in which a call was blocked or the run stopped at its onset or later, and not
stopped before; warnings count nowhere. The splices are those of ``splices.py``, but go on for longer. A rule that is
too slow judges what it can within ``--budget`` seconds: the numbers of runs say how many that were.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import installed
from rules import RULES, Act, Rule, Seen
from splices import good_runs, interval, splices
from splicing import CLASSES
from watchkeeper.cli.recorded import RecordedRun, events_of
from watchkeeper.cli.recordings import Read, files_of, read
from watchkeeper.cli.review import Review, Settings
from watchkeeper.profiles import PROFILES

LONG = {"least_calls": 60, "least_laps": 12}
"""Loops that go on for long enough that even the most patient of all may find them."""
SCENARIOS = Path(__file__).parent.parent / "tests" / "scenarios"
LOOPS = ("stuck", *CLASSES, "loop scenarios")
"""Sets in which something is to be caught; the others are to be left alone."""
BENIGN = ("good", "healthy", "benign scenarios")
Acted = tuple[int, str]
"""Where something was done (an index of calls, of a scenario's steps), and what."""


class Item(msgspec.Struct, frozen=True):
    """A run or a scenario to be judged by all."""

    kind: str
    source: str
    onset: int = 0
    run: RecordedRun | None = None
    case: Any = None
    polls: tuple[str, ...] = ()
    past: bool = False
    """A good run that a rule that learns may have learned from: it does not count for that one."""


class Came(msgspec.Struct):
    """What one of them did to one item."""

    item: Item
    caught: bool
    acted: bool
    stopped: bool
    delay: int | None
    calls: int
    seconds: float


# -- what is judged --------------------------------------------------------------------------------------------------


def items_of(data: Path, n: int, seed: int) -> list[Item]:
    runs = good_runs(data)
    found = [
        Item("good", source, run=run, past=bool(number % 2))
        for source, good in runs.items()
        for number, run in enumerate(good)
    ]
    found += [Item(splice.kind, splice.source, splice.onset, splice.run) for splice in splices(runs, n, seed, **LONG)]
    random.Random(seed).shuffle(found)
    return [*scenarios(), *labelled(data), *found]


def labelled(data: Path) -> Iterator[Item]:
    """Runs that a person has labelled as stuck or as healthy."""
    path = data / "labels.csv"
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="") as file:
        labels = {row["id"]: row for row in csv.DictReader(file) if row["stuck"] in ("yes", "no")}
    for file_path in files_of([data]):
        for one in read(file_path) if isinstance(file_path, Path) else ():
            if isinstance(one, Read) and isinstance(one.what, RecordedRun) and one.what.id in labels:
                label = labels[one.what.id]
                kind = "stuck" if label["stuck"] == "yes" else "healthy"
                yield Item(kind, label["source"], int(label["onset_step"] or 0), one.what)


def scenarios() -> Iterator[Item]:
    """The open scenario set of the tests, with the flip of each."""
    if not (SCENARIOS / "scenario.py").exists():
        return
    sys.path.append(str(SCENARIOS))
    from scenario import cases

    for case in cases():
        kind = "loop scenarios" if case.verdict == "loop" else "benign scenarios"
        yield Item(kind, "scenarios", case.onset, case=case, polls=case.polls)


# -- before a rule ---------------------------------------------------------------------------------------------------

Move = tuple[str, str, int, Any]
"""What happens, the agent context, the index of the call or step, and what a rule is given."""


def moves_of(item: Item) -> list[Move]:
    return list(_recorded(item.run) if item.run is not None else _scripted(item.case))


def _recorded(run: RecordedRun) -> Iterator[Move]:
    user_turns: dict[str, int] = {}
    for position, step in enumerate(run.calls):
        context = step.agent or "main"
        if step.user_turn is not None and user_turns.get(context, step.user_turn) != step.user_turn:
            yield "user", context, position, None
        user_turns[context] = step.user_turn or 0
        # A record that leaves out a part of the arguments must not make two calls equal.
        args = {**step.args, "#": position} if step.args_partial and isinstance(step.args, dict) else step.args
        yield "round", context, position, [_seen(step.tool, args, step.result, step.error, step.text)]


def _scripted(case: Any) -> Iterator[Move]:
    turn: int | None = None
    pending: list[Seen] = []
    at, context = 0, "main"
    for index, step in enumerate(case.steps):
        if pending and not (step.kind == "tool" and step.turn is not None and step.turn == turn):
            yield "round", context, at, pending
            pending = []
        if step.kind == "tool":
            pending = [*pending, _seen(step.tool, step.args, step.result, step.error, step.text)]
            at, context, turn = index, step.agent or "main", step.turn
        elif step.kind in ("user", "text", "stream"):
            name = {"user": "user", "text": "said", "stream": "streamed"}[step.kind]
            yield name, step.agent or "main", index, step.text
        elif step.mark == "compaction":
            yield "compacted", step.agent or "main", index, None
    if pending:
        yield "round", context, at, pending


def _seen(tool: str | None, args: Any, result: Any, error: Any, text: str | None) -> Seen:
    content = result if isinstance(result, str) else "" if result is None else json.dumps(result, default=str)
    return Seen(tool or "", {} if args is None else args, content, bool(error), text or "")


def by_rule(make: Callable[[tuple[str, ...]], Rule], item: Item, until: float) -> tuple[list[Acted], float, int] | None:
    """What a rule did, the seconds it took, and the calls it saw. None: there was no time for it."""
    rules: dict[str, Rule] = {}
    acts: list[Acted] = []
    spent, calls = 0.0, 0
    for what, context, position, given in moves_of(item):
        began = time.perf_counter()
        if began > until:
            return None
        rule = rules.get(context)
        if rule is None:
            rule = rules[context] = make(item.polls)
        act = _asked(rule, what, given)
        spent += time.perf_counter() - began
        calls += len(given) if what == "round" else 0
        if act in ("block", "stop"):
            acts.append((position, act))
            if act == "stop":
                break
    return acts, spent, calls


def _asked(rule: Rule, what: str, given: Any) -> Act | None:
    if what == "round":
        return rule.round(given)
    if what == "said":
        return rule.said(given or "")
    if what == "streamed":
        return rule.streamed(given or "")
    if what == "compacted":
        return rule.compacted()
    rule.user()
    return None


def by_watchkeeper(item: Item, settings: Settings) -> tuple[list[Acted], float, int]:
    if item.run is None:
        from trial import tried

        trial = tried(item.case)
        return [(act.step, act.action) for act in trial.acts if act.action != "nudge"], 0.0, 0
    review = Review(item.run.id, settings, logged=False)
    events = list(events_of(item.run))
    began = time.perf_counter()
    for event in events:
        review.observe(event)
    spent = time.perf_counter() - began
    acts = [(one.position, one.action) for one in review.judgements if one.action != "nudge"]
    return acts, spent, review.calls


def came(item: Item, acts: list[Acted], seconds: float, calls: int) -> Came:
    early = any(act == "stop" and position < item.onset for position, act in acts)
    after = [position for position, _ in acts if position >= item.onset]
    caught = bool(after) and not early
    stopped = any(act == "stop" for _, act in acts)
    return Came(item, caught, bool(acts), stopped, after[0] - item.onset if caught else None, calls, seconds)


# -- told ------------------------------------------------------------------------------------------------------------


def row(name: str, group: list[Came], source: str, version: str | None = None) -> dict[str, Any]:
    sets: defaultdict[str, list[Came]] = defaultdict(list)
    for one in group:
        sets[one.item.kind].append(one)
    found: dict[str, Any] = {"name": name, "source": source, "version": version, "judged": len(group)}
    for kind in (*LOOPS, *BENIGN):
        part = sets.get(kind, [])
        count = sum(one.caught if kind in LOOPS else one.acted for one in part)
        low, high = interval(count, len(part))
        found[kind] = {"count": count, "n": len(part), "low": low, "high": high}
        if kind in BENIGN:
            found[kind]["stopped"] = sum(one.stopped for one in part)
    delays = [one.delay for one in sets.get("exact", ()) if one.delay is not None]
    found["median_delay"] = statistics.median(delays) if delays else None
    timed = [one for one in group if one.seconds]
    calls = sum(one.calls for one in timed)
    found["us_per_call"] = sum(one.seconds for one in timed) / calls * 1e6 if calls else None
    return found


def rows_of(items: list[Item], only: Iterable[str], budget: float) -> list[dict[str, Any]]:
    chosen = set(only)

    def wanted(name: str) -> bool:
        return not chosen or any(part.lower() in name.lower() for part in chosen)

    rows = []
    if wanted("watchkeeper"):
        settings = Settings(profiles=PROFILES)
        group = [came(item, *by_watchkeeper(item, settings)) for item in items]
        rows.append(row("watchkeeper", group, "this package, defaults", installed.version("watchkeeper")))
    for name, rule in RULES.items():
        if wanted(name):
            rows.append(row(name, judged(items, lambda item, rule=rule: rule, budget), getattr(rule, "source", "")))
    for name, (distribution, prepare) in installed.PACKAGES.items():
        version = installed.version(distribution)
        if version is not None and wanted(name):
            make = prepare()
            group = judged(items, lambda item, make=make: make, budget)
            rows.append(row(name, group, getattr(make, "source", ""), version))
    version = installed.version("loopbrake")
    if version is not None and wanted("loopbrake"):
        lengths: defaultdict[str, list[int]] = defaultdict(list)
        for item in items:
            if item.past and item.run is not None:
                lengths[item.source].append(len(item.run.calls))
        lines = {source: installed.loopbrake(past) for source, past in lengths.items()}
        others = [item for item in items if item.source in lines and not item.past]
        group = judged(others, lambda item: lines[item.source], budget)
        rows.append(row("loopbrake", group, "its step line, learned from half of the good runs of a source", version))
    return rows


def judged(items: list[Item], maker: Callable[[Item], Any], budget: float) -> list[Came]:
    until = time.perf_counter() + budget
    group = []
    for item in items:
        done = by_rule(maker(item), item, until)
        if done is None:
            break
        group.append(came(item, *done))
    return group


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Shares of each row, and how many rivals come near: as much caught with no more good runs touched."""
    found: dict[str, float] = {}
    for one in rows:
        slug = "".join(letter if letter.isalnum() else "_" for letter in one["name"].lower()).strip("_")
        for kind in (*LOOPS, *BENIGN):
            if one[kind]["n"]:
                name = kind.replace(" ", "_")
                verb = "caught" if kind in LOOPS else "touched"
                found[f"{slug}_{verb}_{name}"] = one[kind]["count"] / one[kind]["n"]
        for name in ("median_delay", "us_per_call"):
            if one[name] is not None:
                found[f"{slug}_{name}"] = one[name]
    return found


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "watchkeeper": installed.version("watchkeeper") or "not installed"}
    return {**found, **{name: installed.version(name) or "not installed" for name in installed.DISTRIBUTIONS}}


HEADS = {
    "loop scenarios": "scen.",
    "stuck": "stuck",
    "exact": "exact",
    "noise": "noise",
    "shuffled": "shuffled",
    "volatile_results": "vol.res.",
    "volatile_arguments": "vol.args",
    "near": "near",
    "error": "error",
    "benign scenarios": "scen.",
    "good": "good runs",
    "healthy": "healthy",
}


def show(rows: list[dict[str, Any]]) -> None:
    print("  ".join(f"{name} {version}" for name, version in versions().items()))
    left_out = [name for name in installed.DISTRIBUTIONS if installed.version(name) is None]
    if left_out:
        print(f"not installed, left out: {', '.join(left_out)} (pip install --group rivals)")
    print("\ncaught | wrongly blocked or stopped | delay in calls (exact), µs a call")
    print(f"{'':24}" + "".join(f"{head:>10}" for head in HEADS.values()) + f"{'delay':>8}{'µs':>9}")
    most = _most(rows)
    for one in rows:
        cells = "".join(f"{_cell(one[kind], most[kind]):>10}" for kind in HEADS)
        delay = "-" if one["median_delay"] is None else f"{one['median_delay']:g}"
        cost = "-" if one["us_per_call"] is None else f"{one['us_per_call']:,.1f}"
        print(f"{one['name']:24}{cells}{delay:>8}{cost:>9}")


def markdown(rows: list[dict[str, Any]]) -> str:
    """The same as a table for a document."""
    heads = ["", *(f"{head} ✗" if kind in BENIGN else head for kind, head in HEADS.items()), "delay", "µs a call"]
    most = _most(rows)
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for one in rows:
        name = f"{one['name']} {one['version'] or ''}".strip()
        cells = [_cell(one[kind], most[kind]) for kind in HEADS]
        delay = "-" if one["median_delay"] is None else f"{one['median_delay']:g}"
        cost = "-" if one["us_per_call"] is None else f"{one['us_per_call']:,.0f}"
        lines.append(f"| {' | '.join([name, *cells, delay, cost])} |")
    return "\n".join(lines)


def _cell(share: dict[str, Any], most: int) -> str:
    """A share; with its numbers if they are few, or fewer than others had."""
    if not share["n"]:
        return "-"
    if share["n"] < max(30, most):
        return f"{share['count']}/{share['n']}"
    return f"{share['count'] / share['n']:.1%}"


def _most(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {kind: max((one[kind]["n"] for one in rows), default=0) for kind in HEADS}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of recordings (default: corpora in WATCHKEEPER_DATA)")
    parser.add_argument("--n", type=int, default=8, help="splices of each class, period and source")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=(), help="rows whose names hold one of these")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds that a rule may take")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    items = items_of(options.data or Path(os.environ.get("WATCHKEEPER_DATA", ".")) / "corpora", options.n, options.seed)
    rows = rows_of(items, options.only, options.budget)
    if options.json:
        report = {"benchmark": "rivals", "versions": versions(), "rows": rows, "figures": figures(rows)}
        json.dump(report, sys.stdout, indent=1)
        print()
    elif options.markdown:
        print(markdown(rows))
    else:
        show(rows)


if __name__ == "__main__":
    main()
