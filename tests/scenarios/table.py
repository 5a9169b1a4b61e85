"""Prints what was caught, missed and falsely stopped: ``python tests/scenarios/table.py [FILE…]`` (all without one)."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

from scenario import FOLDER, read
from trial import Trial, tried

COLUMNS = ("loops", "caught", "early", "late", "missed", "benign", "false", "nudged", "delay")


def counted(trials: list[Trial]) -> dict[str, int]:
    """How the trials of one family went."""
    count: Counter[str] = Counter()
    for trial in trials:
        wrong = trial.wrong or ""
        if trial.case.verdict == "loop":
            count["loops"] += 1
            count["caught"] += not wrong
            count["missed"] += wrong == "missed"
            count["late"] += wrong.startswith("too late")
            count["early"] += wrong.startswith("too early")
        else:
            count["benign"] += 1
            count["false"] += bool(wrong)
            count["nudged"] += trial.nudged
    delays = [trial.delay for trial in trials if trial.case.verdict == "loop" and trial.delay is not None]
    count["delay"] = round(median(delays)) if delays else 0
    return dict(count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="scenario files (all of ours without one)")
    parser.add_argument("--failures", action="store_true", help="name each case that is judged wrongly")
    parser.add_argument("--by", choices=("family", "pattern"), default="pattern")
    given = parser.parse_args()
    groups: dict[str, list[Trial]] = defaultdict(list)
    for path in given.files or sorted(FOLDER.glob("*.jsonl")):
        for case in read(path):
            groups[getattr(case, given.by)].append(tried(case))
    print(f"{'':26}" + "".join(f"{name:>8}" for name in COLUMNS))
    everything = [trial for trials in groups.values() for trial in trials]
    for name, trials in [*groups.items(), ("all", everything)]:
        count = counted(trials)
        print(f"{name:26}" + "".join(f"{count.get(column, 0):>8}" for column in COLUMNS))
    wrong = [trial for trial in everything if trial.wrong]
    if given.failures:
        for trial in wrong:
            print(f"{trial.case.family}: {trial.case.id}: {trial.wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
