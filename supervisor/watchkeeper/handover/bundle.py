"""The bundle: what a person gets of a run that has ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..continuing import continuation_of, encoded
from ..errors import ConfigurationError
from ..messages import Event, encode_event
from .frames import judged_of
from .markdown import markdown
from .page import page
from .report import Report, report_of
from .words import EVENTS_FILE, TOKEN_FILE, Words

if TYPE_CHECKING:
    from ..cli.judging import Judged
    from ..run import Run

MARKDOWN_FILE, PAGE_FILE = "report.md", "report.html"
FILES = (MARKDOWN_FILE, PAGE_FILE, EVENTS_FILE, TOKEN_FILE)


class Bundle:
    """A report on a run, its events, and the token with which to continue it: ``Bundle.of(run).write("folder")``.

    - ``report``: what happened, as data; :meth:`markdown` and :meth:`html` show it.
    - ``events``: the facts that the run's log still has, all unless there are more than the supervisor keeps.
    - ``token``: opaque text for ``Supervisor.start(agent, continue_from=token)``. It holds the conversation.
    """

    def __init__(
        self, report: Report, events: tuple[Event, ...], token: str, judged: Judged, words: Words | None = None
    ) -> None:
        self.report = report
        self.events = events
        self.token = token
        self._judged = judged
        self._words = words or Words()

    @classmethod
    def of(cls, run: Run, words: Words | None = None) -> Bundle:
        """That of a run that has ended, however it did. Raises :class:`ConfigurationError` for one that has not.

        It takes some 20 ms for 1,000 facts; where many more are kept, call it in a thread.
        """
        outcome = run.outcome
        if outcome is None:
            raise ConfigurationError(f"run {run.id} has not ended: await run.wait() first")
        events = run.log.kept()
        continuation = continuation_of(run, __version__)
        agent, model = run.agent.name, run.agent.model.name
        report = report_of(
            outcome, events, goal=run.task, agent=agent, model=model, limits=run.limits(), runs=continuation.runs
        )
        token = encoded(continuation, run.supervisor.token_key)
        return cls(report, events, token, judged_of(outcome, events, agent=agent, model=model), words)

    def markdown(self) -> str:
        return markdown(self.report, self._words)

    def html(self) -> str:
        """One page that loads nothing and runs nothing."""
        return page(self.report, self._judged, self._words)

    def lines(self) -> Iterator[bytes]:
        """The events as JSON Lines, as ``watchkeeper replay`` reads them."""
        return (encode_event(event) + b"\n" for event in self.events)

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``report.md``, ``report.html``, ``events.jsonl`` and ``continue.token`` into a folder, which is made if
        it is not there, for the eyes of its owner only; the folder.

        Raises ``FileExistsError`` if one of them is there already, and ``OSError`` where writing fails; then none of
        them is left behind.
        """
        place = Path(folder)
        check_free(place)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo:
            for name, parts in self._files():
                _write(place / name, parts, undo)
            undo.pop_all()
        return place

    def _files(self) -> Iterator[tuple[str, Iterable[bytes]]]:
        yield MARKDOWN_FILE, [self.markdown().encode("utf-8", "replace")]
        yield PAGE_FILE, [self.html().encode("utf-8", "replace")]
        yield EVENTS_FILE, self.lines()
        yield TOKEN_FILE, [self.token.encode(), b"\n"]

    def __repr__(self) -> str:
        return f"<Bundle of run {self.report.run}: {self.report.outcome.status}>"


def check_free(folder: Path) -> None:
    """Raises ``FileExistsError`` if a bundle in this folder would take the place of another."""
    for name in FILES:
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} is there already; name another folder")


def _write(path: Path, parts: Iterable[bytes], undo: contextlib.ExitStack) -> None:
    """A new file, which ``undo`` takes away again."""
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    undo.callback(path.unlink, missing_ok=True)
    with os.fdopen(opened, "wb") as file:
        file.writelines(parts)
