"""``watchkeeper replay``: judge recorded runs anew: what would have been nudged, blocked and stopped, and when."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from ..messages import Event
from .complaints import Complaints
from .exits import COMPLETED, FAILED, CommandError, complain
from .filters import Filter, LeftOut, fits
from .inputs import inputs
from .judging import Done, Job, Judged, Judging, Logs, position_of
from .labels import LABELS, read_labels
from .options import split
from .printable import count, identifier, one_line
from .progress import Progress
from .recordings import FILES, Problem, Read
from .settings import settings_of, standard_of
from .sharing import shared
from .tally import Tally, row_of

VERBS = (("nudged", "nudge"), ("blocked", "block"), ("stopped", "stop"))
NAMED = 5
"""Labels without a run that are named."""
ALL_VERBS = (*VERBS[:2], ("paused", "pause"), *VERBS[2:])
"""Pauses are only in logs of runs that a person attended."""


def replay(
    *files: Annotated[Path, Parameter(help=FILES)],
    profile: Annotated[str | None, Parameter(help="Judge by this profile (that of the run, else default).")] = None,
    policy: Annotated[
        Path | None, Parameter(help="TOML file with a profile to try; says what would differ from the default.")
    ] = None,
    labels: Annotated[Path | None, Parameter(help=LABELS)] = None,
    json: Annotated[bool, Parameter(help="One JSON object a run, and last a summary.")] = False,
    report: Annotated[Path | None, Parameter(help="Write an HTML page with figures, plots and timelines.")] = None,
    all_runs: Annotated[bool, Parameter(name="--all", help="Name also the runs where nothing would be done.")] = False,
    only: Annotated[tuple[str, ...], Parameter(help="Only runs with such an id; * and ? stand for others.")] = (),
    source: Annotated[tuple[str, ...], Parameter(help="Only runs from such a source.")] = (),
    model: Annotated[tuple[str, ...], Parameter(help="Only runs of such a model.")] = (),
    outcome: Annotated[tuple[str, ...], Parameter(help="Only runs with this outcome: good, failed, unknown, …")] = (),
    detector: Annotated[
        tuple[str, ...], Parameter(help="Name only runs in which this detector or guard acted; all count.")
    ] = (),
    acted: Annotated[bool, Parameter(help="Name only runs in which something would be done; all count.")] = False,
    poll: Annotated[tuple[str, ...], Parameter(help="Tools that are meant to be asked again (recorded runs).")] = (),
    stable: Annotated[tuple[str, ...], Parameter(help="Tools whose answers may be remembered (recorded runs).")] = (),
    jobs: Annotated[int | None, Parameter(help="Processes that share the work (as many as cores; 1: none).")] = None,
) -> int:
    """Judge recorded runs: what would have been nudged, blocked and stopped, and when.

    Takes events that watchkeeper has written and runs recorded elsewhere (an object a line, with id and steps), plain
    or gzipped, and folders of them. Where a log holds verdicts of its own, it says where those judged anew differ.
    Positions are indices of calls, from 0. The exit code is 1 if anything could not be read, or nothing was there.
    """
    if not files:
        raise CommandError("replay needs at least one file or folder: watchkeeper replay FILE…")
    if jobs is not None and jobs < 1:
        raise CommandError(f"--jobs must be at least 1, not {jobs}")
    settings = settings_of(profile, policy, poll, stable)
    job = Job(
        settings=settings,
        standard=standard_of(settings) if policy is not None else None,
        labels=read_labels(labels) if labels is not None else {},
        wanted=Filter(only=split(only), source=split(source), model=split(model), outcome=split(outcome)),
        drawn=report is not None,
    )
    page = None
    if report is not None:
        from .report import Report

        page = Report(report, policy=str(policy) if policy is not None else "", profile=profile or "")
    shown = _shown(split(detector), everything=all_runs or (json and not acted))
    read = [path for path in (labels, policy) if path is not None]
    return Replay(job, json, shown, page, jobs).run(files, read)


def _shown(detectors: tuple[str, ...], *, everything: bool) -> Callable[[Judged], bool]:
    """Which runs are named; all of them count."""

    def shown(judged: Judged) -> bool:
        if detectors:
            return any(fits(one.detector, name) for one in judged.judgements for name in detectors)
        return everything or bool(judged.judgements or judged.differences or judged.standard)

    return shown


class Replay:
    """One command: reads, judges, prints."""

    def __init__(self, job: Job, as_json: bool, shown: Callable[[Judged], bool], report: Any, jobs: int | None) -> None:
        self._job = job
        self._json = as_json
        self._shown = shown
        self._report = report
        self._jobs = jobs
        self._tally = Tally()
        self._complaints = Complaints()
        self._unmet = dict.fromkeys(job.labels)
        """Runs that have a label and were not seen yet."""

    def run(self, paths: tuple[Path, ...], also: Iterable[Path] = ()) -> int:
        """``also``: files beside the recordings that are read."""
        files = inputs(paths, self._complaints)
        if self._report is not None:
            self._report.spare([*files, *also])
        with Progress(files) as progress, contextlib.closing(self._judged(files, progress)) as judged:
            for one in judged:
                self._take(one, progress)
        summary = {**self._tally.summary(), **self._complaints.summary(), "labels_without_run": len(self._unmet)}
        if self._json:
            _write(summary)
        else:
            print("\n".join([*_told(summary), *self._complaints.unread()]))
        self._complaints.end()
        if self._unmet:
            some = ", ".join(map(identifier, list(self._unmet)[:NAMED]))
            more = ", …" if len(self._unmet) > NAMED else ""
            complain(
                f"--labels: {count(len(self._unmet), 'label')} of runs that are not in what was read: {some}{more}"
            )
        if self._report is not None:
            self._report.write(self._complaints)
            complain(f"the report is in {self._report.path}")
        return FAILED if self._complaints.any else COMPLETED

    def _judged(self, files: list[Path], progress: Progress) -> Generator[Judged]:
        logs: Logs | None = None
        with contextlib.closing(shared(Judging(self._job).work, files, self._jobs)) as done:
            for part in done:
                if logs is None or logs.file != part.file:
                    logs = Logs(self._job, part.file)
                yield from self._of(part, logs)
                progress.advance(part.taken)

    def _of(self, part: Done, logs: Logs) -> Iterator[Judged]:
        for item in part.items:
            if isinstance(item, Read):
                assert isinstance(item.what, Event)
                yield from self._sorted(logs.feed(item.line, item.what))
            else:
                yield from self._sorted([item])
        if part.last:
            yield from self._sorted(logs.end())
            self._complaints.file_ended(part.file)

    def _sorted(self, items: Iterable[Problem | Judged | LeftOut]) -> Iterator[Judged]:
        """The runs that were judged; of the rest note is taken."""
        for item in items:
            if isinstance(item, Problem):
                self._complaints.tell(item)
                continue
            self._unmet.pop(item.run, None)
            if isinstance(item, Judged):
                yield item
            else:
                self._complaints.left_out()

    def _take(self, judged: Judged, progress: Progress) -> None:
        self._tally.add(judged)
        self._complaints.judged(judged.run, judged.failed)
        progress.run()
        if self._report is not None:
            self._report.add(judged)
        if not self._shown(judged):
            return
        progress.clear()
        if self._json:
            _write(row_of(judged))
            return
        print(_line(judged))
        for one in judged.differences:
            print(f"    differs: {one_line(one, 200)}")


def _write(value: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def _line(judged: Judged) -> str:
    label = ""
    if judged.label is not None:
        label = f", labelled stuck={judged.label.stuck}"
        label += f" from call {judged.label.onset}" if judged.label.onset is not None else ""
    why = ""
    if (strongest := judged.strongest()) is not None:
        tool = f", {one_line(strongest.tool, 60)}" if strongest.tool else ""
        pattern = strongest.pattern.removeprefix(f"{strongest.detector}: ")
        why = f" ({one_line(strongest.detector, 60)}: {one_line(pattern, 100)}{tool})"
    saved = f"; {count(judged.saved, 'call')} saved" if judged.saved else ""
    name = f"{identifier(judged.run)}  {judged.outcome}, {count(judged.calls, 'call')}{label}"
    done = _done({verb: judged.first(action) for verb, action in ALL_VERBS})
    standard = ""
    if judged.standard is not None:
        before = _done({verb: position_of(judged.standard, action) for verb, action in ALL_VERBS})
        standard = f" [by default: {before}]" if before != done else ""
    return f"{name}: {done}{why}{saved}{standard}"


def _done(at: dict[str, int | None]) -> str:
    return ", ".join(f"{verb} at call {position}" for verb, position in at.items() if position is not None) or "nothing"


def _told(summary: dict[str, Any]) -> Iterator[str]:
    """The summary in words."""
    s = summary
    yield (
        f"{count(s['runs'], 'run')}, {count(s['calls'], 'call')}: {s['nudged']} nudged, {s['blocked']} blocked, "
        f"{s['stopped']} stopped; {count(s['calls_saved'], 'call')} saved ({s['calls_saved_share']:.1%})"
    )
    if s["good_runs"]:
        yield (
            f"of {count(s['good_runs'], 'good run')}: {s['good_nudged']} nudged, {s['good_blocked']} blocked, "
            f"{s['good_stopped']} stopped"
        )
    if s["stuck_labels"]:
        delay = f", stopped {s['median_delay_calls']:g} calls after the onset (median)" if s["stuck_caught"] else ""
        yield f"labelled as stuck: {s['stuck_labels']}, of these caught {s['stuck_caught']}{delay}"
    if s["healthy_labels"]:
        yield (
            f"labelled as healthy: {s['healthy_labels']}, of these nudged {s['healthy_nudged']}, "
            f"blocked {s['healthy_blocked']}, stopped {s['healthy_stopped']}"
        )
    if s["differing"]:
        yield f"{count(s['differing'], 'run')} with verdicts that differ from the log's"
    if (against := s.get("against_default")) is not None:
        told = ", ".join(
            f"{against[f'now_{verb}']} more and {against[f'no_longer_{verb}']} fewer {verb}" for verb, _ in VERBS
        )
        yield f"against the default profile: {told}; {against['calls_saved_more']:+,} calls saved"
