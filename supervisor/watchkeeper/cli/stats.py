"""``watchkeeper stats``: what recorded runs did: calls, repeats, failures, and what each rule saw."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..messages import Event, RunEnded, RunStarted
from .complaints import Complaints
from .exits import COMPLETED, FAILED, CommandError
from .filters import Filter, LeftOut
from .habits import Habits
from .inputs import inputs
from .judging import stem
from .observed import Observed
from .options import split
from .progress import Progress
from .recorded import RecordedRun, events_of
from .recordings import FILES, Batch, Problem, Read, decoded, read
from .review import Settings
from .settings import settings_of
from .sharing import shared
from .totals import Told


def stats(
    *files: Annotated[Path, Parameter(help=FILES)],
    json: Annotated[bool, Parameter(help="One JSON object a run, and last one of them all.")] = False,
    profile: Annotated[str | None, Parameter(help="Rules as of this profile (that of the run, else default).")] = None,
    policy: Annotated[Path | None, Parameter(help="TOML file with the rules to ask instead.")] = None,
    only: Annotated[tuple[str, ...], Parameter(help="Only runs with such an id; * and ? stand for others.")] = (),
    source: Annotated[tuple[str, ...], Parameter(help="Only runs from such a source.")] = (),
    model: Annotated[tuple[str, ...], Parameter(help="Only runs of such a model.")] = (),
    outcome: Annotated[tuple[str, ...], Parameter(help="Only runs with this outcome: good, failed, unknown, …")] = (),
    poll: Annotated[tuple[str, ...], Parameter(help="Tools that are meant to be asked again (recorded runs).")] = (),
    stable: Annotated[tuple[str, ...], Parameter(help="Tools whose answers may be remembered (recorded runs).")] = (),
    step_line: Annotated[
        float | None, Parameter(help="Instead: a line of calls that good runs pass at most this often, by source.")
    ] = None,
    jobs: Annotated[int | None, Parameter(help="Processes that share the work (as many as cores; 1: none).")] = None,
) -> int:
    """Say what recorded runs did: calls by tool, repeats, failures and when, and what each rule would have refused.

    Rules are asked as in mode observe: each as if no other one had done anything. Places of failures are seconds on the
    run's clock in logs of watchkeeper, and indices of calls in runs recorded elsewhere. The exit code is 1 if anything
    could not be read, or nothing was there.
    """
    if not files:
        raise CommandError("stats needs at least one file or folder: watchkeeper stats FILE…")
    if jobs is not None and jobs < 1:
        raise CommandError(f"--jobs must be at least 1, not {jobs}")
    wanted = Filter(only=split(only), source=split(source), model=split(model), outcome=split(outcome))
    settings = settings_of(profile, policy, poll, stable)
    if step_line is not None:
        from .stepping import StepLines

        return Stats(settings, wanted, jobs, StepLines(step_line, as_json=json)).run(files)
    return Stats(settings, wanted, jobs, Told(as_json=json)).run(files)


class Counting:
    """Makes rows of what recordings hold: the work that processes share."""

    def __init__(self, settings: Settings, wanted: Filter) -> None:
        self._settings = settings
        self._wanted = wanted

    def work(self, unit: Batch | Path) -> tuple[str, list[Problem | dict[str, Any] | LeftOut | Read], int, bool]:
        if isinstance(unit, Path):
            runs = Runs(self._settings, self._wanted)
            found = [one for item in read(unit) for one in self.of(item, str(unit), runs)]
            return str(unit), [*found, *runs.end()], 0, True
        return unit.file, [one for item in decoded(unit) for one in self.of(item, unit.file)], unit.taken, unit.last

    def of(
        self, item: Read | Problem, file: str, runs: Runs | None = None
    ) -> Iterator[Problem | dict[str, Any] | LeftOut | Read]:
        if isinstance(item, Problem):
            yield item
        elif isinstance(item.what, RecordedRun):
            yield self._recorded(item.what, file)
        elif runs is not None:
            yield from runs.feed(item.what)
        else:
            yield item

    def _recorded(self, run: RecordedRun, file: str) -> dict[str, Any] | LeftOut:
        source, model, settings = run.source or stem(file), run.model or "", self._settings
        if not self._wanted.wants(run.id, source, model, run.outcome):
            return LeftOut(run.id)
        habits, observed = Habits(timed=False), Observed(settings)
        for event in events_of(run, polls=settings.polls, stable=settings.stable, tools=settings.tools):
            habits.observe(event)
            observed.observe(event)
        habits.end()
        return _row(run.id, source, model, run.outcome, habits, observed)


class Runs:
    """The runs of one log, whose events may be mixed."""

    def __init__(self, settings: Settings, wanted: Filter) -> None:
        self._settings = settings
        self._wanted = wanted
        self._open: dict[str, tuple[Habits, Observed]] = {}
        self._about: dict[str, tuple[str, str, str]] = {}

    def feed(self, event: Event) -> Iterator[dict[str, Any] | LeftOut]:
        run = event.run
        habits, observed = self._open.setdefault(run, (Habits(timed=True), Observed(self._settings)))
        if isinstance(event, RunStarted):
            self._about[run] = event.agent, event.model, "unknown"
        habits.observe(event)
        observed.observe(event)
        if isinstance(event, RunEnded):
            source, model, _ = self._about.get(run, ("", "", ""))
            self._about[run] = source, model, event.outcome.status
            yield from self._closed(run)

    def end(self) -> Iterator[dict[str, Any] | LeftOut]:
        for run in list(self._open):
            yield from self._closed(run)

    def _closed(self, run: str) -> Iterator[dict[str, Any] | LeftOut]:
        habits, observed = self._open.pop(run)
        source, model, outcome = self._about.pop(run, ("", "", "unknown"))
        habits.end()
        wanted = self._wanted.wants(run, source, model, outcome)
        yield _row(run, source, model, outcome, habits, observed) if wanted else LeftOut(run)


class Stats:
    """One command: reads, counts, hands the rows on."""

    def __init__(self, settings: Settings, wanted: Filter, jobs: int | None, sink: Any) -> None:
        self._settings = settings
        self._wanted = wanted
        self._jobs = jobs
        self._sink = sink
        self._complaints = Complaints()

    def run(self, paths: tuple[Path, ...]) -> int:
        files = inputs(paths, self._complaints)
        counting = Counting(self._settings, self._wanted)
        with Progress(files) as progress, contextlib.closing(shared(counting.work, files, self._jobs)) as done:
            runs, of = Runs(self._settings, self._wanted), ""
            for file, items, taken, last in done:
                if file != of:
                    runs, of = Runs(self._settings, self._wanted), file
                for item in items:
                    self._take(item, runs, progress)
                progress.advance(taken)
                if last:
                    for row in runs.end():
                        self._show(row)
                    self._complaints.file_ended(file)
        self._sink.end(self._complaints)
        self._complaints.end()
        return FAILED if self._complaints.any else COMPLETED

    def _take(self, item: Problem | dict[str, Any] | LeftOut | Read, runs: Runs, progress: Progress) -> None:
        if isinstance(item, Problem):
            self._complaints.tell(item)
            return
        if isinstance(item, Read):
            assert isinstance(item.what, Event)
            rows = list(runs.feed(item.what))
        else:
            rows = [item]
        for row in rows:
            progress.run()
            progress.clear()
            self._show(row)

    def _show(self, row: dict[str, Any] | LeftOut) -> None:
        if isinstance(row, LeftOut):
            self._complaints.left_out()
            return
        self._complaints.judged(row["id"], row.get("failed_detectors", {}).items())
        self._sink.take(row)


def _row(run: str, source: str, model: str, outcome: str, habits: Habits, observed: Observed) -> dict[str, Any]:
    return {
        "id": run,
        "source": source,
        "model": model,
        "outcome": outcome,
        **habits.row(),
        "observe": observed.rows(),
        **({"failed_detectors": observed.failed} if observed.failed else {}),
    }
