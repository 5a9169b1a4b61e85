"""Judges what recordings hold, a batch of lines or a file at a time: the work that processes share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ..messages import Event, RunEnded, Unknown
from .film import Film, Frame
from .filters import Filter, LeftOut
from .habits import Habits
from .labels import Label
from .recorded import RecordedRun, events_of
from .recordings import Batch, Problem, Read, decoded, read
from .review import ACTIONS, Judgement, Review, Settings

LOOP = 80
"""Calls from the onset of a run that is stuck and was not stopped that are kept to be drawn."""
MAX_OPEN = 1000
"""Unfinished runs of one file that are followed at once; the one that has been silent longest is taken as it is."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run, as plain data."""

    run: str
    source: str
    model: str
    outcome: str
    calls: int
    saved: int
    judgements: tuple[Judgement, ...]
    differences: tuple[str, ...] = ()
    label: Label | None = None
    standard: tuple[Judgement, ...] | None = None
    """What the default profile would have done, where a policy is tried."""
    standard_saved: int = 0
    longest_pair: int = 0
    """The most equal calls with equal results in a row, where it was asked for."""
    frames: tuple[Frame, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    """Detectors that failed, with their error: the run was judged without them from there on."""

    def first(self, action: str) -> int | None:
        return position_of(self.judgements, action)

    def strongest(self) -> Judgement | None:
        """The judgement that matters most: the stop, else the first pause, block or nudge."""
        for action in reversed(ACTIONS):
            for one in self.judgements:
                if one.action == action:
                    return one
        return None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done with each run."""

    settings: Settings
    standard: Settings | None = None
    """Settings to compare with."""
    labels: dict[str, Label] = {}
    wanted: Filter = Filter()
    drawn: bool = False
    """Keep what a report draws."""


class Done(msgspec.Struct, frozen=True):
    """What came of one batch or file, in the order of its lines."""

    file: str
    items: list[Problem | Judged | LeftOut | Read]
    """Runs that were judged or left out, problems, and events of ours, which belong to runs that other batches go on
    with."""
    taken: int
    last: bool


class _Watch:
    """One run under review, in as many ways as the job asks for."""

    def __init__(self, run: str, job: Job, *, logged: bool) -> None:
        self._job = job
        self._logged = logged
        self.review = Review(run, job.settings, logged=logged)
        self._standard = Review(run, job.standard, logged=logged) if job.standard is not None else None
        self._film = Film() if job.drawn else None
        self._habits = Habits(timed=False) if job.drawn else None
        self.last = 0

    def observe(self, event: Event) -> None:
        done = len(self.review.judgements)
        self.review.observe(event)
        if self._standard is not None:
            self._standard.observe(event)
        if self._film is not None and self._habits is not None:
            self._film.observe(event, self.review.first("stop"))
            if len(self.review.judgements) != done:
                self._film.keep()
            self._habits.observe(event)

    def judged(self) -> Judged:
        review, standard = self.review, self._standard
        label = self._job.labels.get(review.run)
        frames: tuple[Frame, ...] = ()
        if self._film is not None and (review.judgements or (label is not None and label.stuck == "yes")):
            frames = self._film.around(marks_of(review.judgements, label))
        return Judged(
            run=review.run,
            source=review.source,
            model=review.model,
            outcome=review.outcome,
            calls=review.calls,
            saved=review.saved,
            judgements=tuple(review.judgements),
            differences=tuple(str(one) for one in review.differences()),
            label=label,
            standard=tuple(standard.judgements) if standard is not None else None,
            standard_saved=standard.saved if standard is not None else 0,
            longest_pair=self._habits.longest_pair if self._habits is not None else 0,
            frames=frames,
            failed=tuple(review.failed.items()),
        )


class Judging:
    """Does one job with whatever it is given."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def work(self, unit: Batch | Path) -> Done:
        """Judge a batch; of a file that is given as a whole also the runs that are spread over its lines."""
        if isinstance(unit, Path):
            logs = Logs(self._job, str(unit))
            found: list[Problem | Judged | LeftOut | Read] = []
            for item in read(unit):
                found.extend(self._of(item, logs))
            found.extend(logs.end())
            return Done(str(unit), found, _size(unit), True)
        return Done(
            unit.file,
            [one for item in decoded(unit) for one in self._of(item, None, unit.file)],
            unit.taken,
            unit.last,
        )

    def _of(
        self, item: Read | Problem, logs: Logs | None, file: str = ""
    ) -> Iterator[Problem | Judged | LeftOut | Read]:
        if isinstance(item, Problem):
            yield item
        elif isinstance(item.what, RecordedRun):
            yield self._recorded(item.what, file or (logs.file if logs is not None else ""))
        elif logs is not None:
            yield from logs.feed(item.line, item.what)
        else:
            what = item.what
            yield Read(item.line, msgspec.structs.replace(what, raw={}) if isinstance(what, Unknown) else what)

    def _recorded(self, run: RecordedRun, file: str) -> Judged | LeftOut:
        source, model = run.source or stem(file), run.model or ""
        if not self._job.wanted.wants(run.id, source, model, run.outcome):
            return LeftOut(run.id)
        settings = self._job.settings
        watch = _Watch(run.id, self._job, logged=False)
        watch.review.source, watch.review.model, watch.review.outcome = source, model, run.outcome
        tools = settings.tools
        for event in events_of(run, polls=settings.polls, stable=settings.stable, tools=tools):
            watch.observe(event)
        return watch.judged()


class Logs:
    """The runs of one log, whose events may be mixed."""

    def __init__(self, job: Job, file: str) -> None:
        self.file = file
        self._job = job
        self._open: dict[str, _Watch] = {}
        """By run; the one that was heard of last comes last."""

    def feed(self, line: int, event: Event) -> Iterator[Problem | Judged | LeftOut]:
        run = event.run
        watch = self._open.pop(run, None) or _Watch(run, self._job, logged=True)
        self._open[run] = watch
        if event.n != watch.last + 1:
            yield Problem(self.file, line, _gap(run[:80], watch.last, event.n))
        watch.observe(event)
        watch.last = event.n
        if isinstance(event, RunEnded):
            yield from self._closed(run)
        elif len(self._open) > MAX_OPEN:
            silent = next(iter(self._open))
            yield Problem(self.file, line, f"more than {MAX_OPEN} runs are open at once; {silent[:80]} is cut off here")
            yield from self._closed(silent)

    def end(self) -> Iterator[Judged | LeftOut]:
        """The runs that had no end."""
        for run in list(self._open):
            yield from self._closed(run)

    def _closed(self, run: str) -> Iterator[Judged | LeftOut]:
        judged = self._open.pop(run).judged()
        wanted = self._job.wanted.wants(run, judged.source, judged.model, judged.outcome)
        yield judged if wanted else LeftOut(run)


def position_of(judgements: tuple[Judgement, ...], action: str) -> int | None:
    """The position of the first judgement of this kind."""
    return next((one.position for one in judgements if one.action == action), None)


def marks_of(judgements: Iterable[Judgement], label: Label | None) -> set[int]:
    """The calls that matter: the first of each kind of action, where it began, and the onset of the label."""
    first = {one.action: one for one in reversed(list(judgements))}
    marks = {one.position for one in first.values()} | {one.began for one in first.values() if one.began is not None}
    if label is not None and label.stuck == "yes":
        onset = label.onset or 0
        marks |= {onset} if "stop" in first else {onset, onset + LOOP}
    return marks


def stem(file: str) -> str:
    """A file's name without its folder and endings."""
    return Path(file).name.partition(".")[0]


def _gap(run: str, last: int, n: int) -> str:
    if n > last:
        return f"events {last + 1} to {n - 1} of run {run} are missing"
    return f"event {n} of run {run} comes after event {last}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
