"""``watchkeeper replay``: judge recorded runs anew: what would have been nudged, blocked and stopped, and when."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from ..errors import ConfigurationError
from ..messages import Event, RunEnded
from ..plugins import load_detectors
from ..profiles import PROFILES, profile_named
from .exits import COMPLETED, FAILED, CommandError, complain
from .labels import Label, read_labels
from .options import split
from .printable import count, one_line
from .recorded import RecordedRun, events_of
from .recordings import Note, Problem, Read, files_of, read
from .review import Review, Settings
from .tally import Tally, row_of

SHOWN_PROBLEMS = 3
"""Problems of one file that are told one by one."""


def replay(
    *files: Path,
    profile: Annotated[str | None, Parameter(help="Judge by this profile (that of the run, else default).")] = None,
    labels: Annotated[Path | None, Parameter(help="CSV file with the columns id, stuck and onset_step.")] = None,
    json: Annotated[bool, Parameter(help="One JSON object a run, and last a summary.")] = False,
    all_runs: Annotated[bool, Parameter(name="--all", help="Name also the runs where nothing would be done.")] = False,
    poll: Annotated[tuple[str, ...], Parameter(help="Tools that are meant to be asked again (recorded runs).")] = (),
    stable: Annotated[tuple[str, ...], Parameter(help="Tools whose answers may be remembered (recorded runs).")] = (),
) -> int:
    """Judge recorded runs: what would have been nudged, blocked and stopped, and when.

    Takes events that watchkeeper has written and runs recorded elsewhere (an object a line, with id and steps), plain
    or gzipped, and folders of them. Where a log holds verdicts of its own, it says where those judged anew differ.
    Positions are indices of calls, from 0. The exit code is 1 if anything could not be read.
    """
    if not files:
        raise CommandError("replay needs at least one file or folder: watchkeeper replay FILE…")
    judged = _settings(profile, poll, stable)
    return Replay(judged, read_labels(labels) if labels is not None else {}, json, all_runs).run(files)


def _settings(profile: str | None, poll: tuple[str, ...], stable: tuple[str, ...]) -> Settings:
    try:
        return Settings(
            profile=profile_named(profile) if profile is not None else None,
            profiles=PROFILES,
            polls=split(poll),
            stable=split(stable),
            extra=tuple(load_detectors()),
        )
    except ConfigurationError as error:
        raise CommandError(f"--profile: {error}" if profile is not None else str(error)) from error


class Replay:
    """One command: reads, judges, prints."""

    def __init__(self, settings: Settings, labels: dict[str, Label], as_json: bool, all_runs: bool) -> None:
        self._settings = settings
        self._labels = labels
        self._json = as_json
        self._all = all_runs
        self._tally = Tally()
        self._broken = False

    def run(self, paths: tuple[Path, ...]) -> int:
        for path in files_of(paths):
            if isinstance(path, Problem):
                self._tell(path)
                continue
            for review in self._reviews(path):
                self._show(review)
        summary = self._tally.summary()
        if self._json:
            _write(summary)
        else:
            print("\n".join(_told(summary)))
        return FAILED if self._broken else COMPLETED

    def _reviews(self, path: Path) -> Iterator[Review]:
        """The reviews of a file's runs; those of event logs come when they end, and at the end of the file."""
        open_runs: dict[str, tuple[Review, int]] = {}
        problems: Counter[str] = Counter()
        for item in read(path):
            if isinstance(item, Problem):
                self._count(item, problems)
            elif isinstance(item.what, RecordedRun):
                yield self._recorded(item.what)
            else:
                review = self._logged(str(path), item, item.what, open_runs, problems)
                if review is not None:
                    yield review
        more = sum(problems.values()) - SHOWN_PROBLEMS
        if more > 0:
            complain(f"{path}: and {count(more, 'more problem')} like these")
        yield from (review for review, _ in open_runs.values())

    def _recorded(self, run: RecordedRun) -> Review:
        review = Review(run.id, self._settings, logged=False)
        review.outcome = run.outcome
        for event in events_of(run, polls=self._settings.polls, stable=self._settings.stable):
            review.observe(event)
        return review

    def _logged(
        self,
        name: str,
        item: Read,
        event: Event,
        open_runs: dict[str, tuple[Review, int]],
        problems: Counter[str],
    ) -> Review | None:
        review, last = open_runs.get(event.run) or (Review(event.run, self._settings), 0)
        if event.n != last + 1:
            what = (
                f"events {last + 1} to {event.n - 1} of run {event.run} are missing"
                if event.n > last
                else (f"event {event.n} of run {event.run} comes after event {last}")
            )
            self._count(Problem(name, item.line, what), problems)
        review.observe(event)
        open_runs[event.run] = review, event.n
        if isinstance(event, RunEnded):
            del open_runs[event.run]
            return review
        return None

    def _count(self, problem: Problem, problems: Counter[str]) -> None:
        problems[problem.text[:20]] += 1
        if sum(problems.values()) <= SHOWN_PROBLEMS:
            self._tell(problem)
        else:
            self._broken = self._broken or not isinstance(problem, Note)

    def _tell(self, problem: Problem) -> None:
        complain(one_line(str(problem), 400))
        self._broken = self._broken or not isinstance(problem, Note)

    def _show(self, review: Review) -> None:
        row = row_of(review, self._labels.get(review.run))
        differences = review.differences()
        self._tally.add(row, review, len(differences))
        if self._json:
            _write({**row, "differs": [str(one) for one in differences]} if differences else row)
            return
        if self._all or review.judgements or differences:
            print(_line(review, row))
        for one in differences:
            print(f"    differs: {one_line(str(one), 200)}")


def _write(value: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def _line(review: Review, row: dict[str, Any]) -> str:
    verbs = (("nudged", "nudged_at"), ("blocked", "blocked_at"), ("stopped", "stopped_at"))
    done = ", ".join(f"{verb} at call {row[name]}" for verb, name in verbs if row[name] is not None) or "nothing"
    label = f", labelled stuck={row['label']}" if row["label"] is not None else ""
    label += f" from call {row['onset']}" if row["onset"] is not None else ""
    why = ""
    if (strongest := review.strongest()) is not None:
        tool = f", {one_line(strongest.tool, 60)}" if strongest.tool else ""
        why = f" ({strongest.detector}: {one_line(strongest.pattern, 100)}{tool})"
    saved = f"; {count(review.saved, 'call')} saved" if review.saved else ""
    return f"{one_line(review.run, 120)}  {review.outcome}, {count(review.calls, 'call')}{label}: {done}{why}{saved}"


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
