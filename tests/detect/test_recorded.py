"""The watchdog over recorded runs of real models: good ones go on, stuck ones end.

The runs are those of tau-bench, tau2-bench and SWE-PolyBench submissions (MIT), with the labels of one reader.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from recorded import Judged, judge, runs


@pytest.fixture(scope="module")
def judged(shared_data: Path) -> dict[str, Judged]:
    return {run["id"]: judge(run) for run in runs(shared_data)}


def share(part: list[Judged], whole: list[Judged]) -> str:
    return f"{len(part)} of {len(whole)} ({len(part) / len(whole):.1%})"


def test_good_runs_go_on(judged: dict[str, Judged]) -> None:
    good = [run for run in judged.values() if run.outcome == "success"]
    nudged, blocked, stopped = (
        [run for run in good if getattr(run, name)] for name in ("nudged", "blocked", "stopped")
    )
    print(f"\ngood runs: nudged {share(nudged, good)}, blocked {share(blocked, good)}, stopped {share(stopped, good)}")
    assert len(good) == 508
    assert len(stopped) <= 0.002 * len(good)
    assert len(blocked) <= 0.002 * len(good)
    assert len(nudged) <= 0.01 * len(good)


def test_stuck_runs_end_soon(judged: dict[str, Judged], shared_data: Path) -> None:
    with (shared_data / "corpora" / "labels.csv").open(encoding="utf-8") as lines:
        labels = list(csv.DictReader(lines))
    stuck = [(judged[row["id"]], int(row["onset_step"])) for row in labels if row["stuck"] == "yes"]
    healthy = [judged[row["id"]] for row in labels if row["stuck"] == "no"]
    saved = sum(run.calls - run.stopped for run, _ in stuck if run.stopped)
    ended = [run for run, _ in stuck if run.stopped or run.blocked]
    print(
        f"\nstuck runs: ended {share(ended, [run for run, _ in stuck])}, {saved} of "
        f"{sum(run.calls for run, _ in stuck)} calls saved; healthy runs stopped: "
        f"{share([run for run in healthy if run.stopped], healthy)}"
    )
    assert len(stuck) == 7
    assert len(healthy) == 16
    assert len(ended) == len(stuck)
    for run, onset in stuck:
        # The first of the repetition counts, and calls are numbered from 1: told at the 3rd, stopped at the 8th.
        assert (run.nudged, run.blocked, run.stopped) == (onset + 3, onset + 5, onset + 8), run.id
    assert not [run.id for run in healthy if run.stopped or run.blocked]
