"""``watchkeeper export``: a run as a file, for a person or for another program."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import anyio.to_thread
from cyclopts import Parameter

from ..messages import Event, Gap, RunEnded, encode_event
from .exits import COMPLETED, FAILED, CommandError, complain
from .finding import Sources, through
from .following import up_to
from .listed import Listed
from .printable import count, identifier
from .progress import Counted
from .show import Tree

Format = Literal["jsonl", "html", "perfetto", "otlp"]


def export(
    run: str,
    /,
    *,
    format_: Annotated[
        Format,
        Parameter(
            name=["--format"],
            help="jsonl: its facts, as replay reads them; html: the report for a person; perfetto, otlp: its trace.",
        ),
    ] = "jsonl",
    tree: Annotated[bool, Parameter(help="With its sub-agents; perfetto and otlp have them anyway.")] = False,
    out: Annotated[Path | None, Parameter(help="The file, which must not be there yet; else standard output.")] = None,
) -> int:
    """Write a run into a file, or onto standard output. What goes on is written as far as it has come.

    Parameters
    ----------
    run:
        The run: its id, the beginning of it, or @last.
    """
    if tree and format_ == "html":
        raise CommandError("--tree is not for html: each run has a report of its own")

    async def body(sources: Sources) -> int:
        one = await sources.find(run)
        if format_ == "html" and one.status.outcome is None:
            raise CommandError(
                f"run {identifier(one.run)} has not ended ({one.state}), and a report says how it did: take "
                "--format jsonl",
                FAILED,
            )
        runs = [one] if not tree and format_ in ("jsonl", "html") else list(await Tree.of(one))
        events = await facts_of(runs)
        parts = WRITERS[format_](one, events)
        with opened(out) as file:
            await anyio.to_thread.run_sync(_write, file, parts)
        if out is not None:
            complain(f"{out}: {count(len(events), 'fact')} of {count(len(runs), 'run')}")
        return COMPLETED

    return through(body)


async def facts_of(runs: Iterable[Listed]) -> list[Event]:
    """The facts of runs as far as they are there, one run after the other."""
    runs = list(runs)
    events: list[Event] = []
    with Counted(sum(one.status.n for one in runs), "facts") as bar:
        for one in runs:
            async for event in up_to(one.source.engine.watch(one.run), one.status.n):
                if isinstance(event, Gap):
                    complain(
                        f"{identifier(one.run)}: the facts {event.first} to {event.last} are no longer there "
                        "(deleted by retention)"
                    )
                else:
                    events.append(event)
                    bar.advance()
    return events


def as_jsonl(one: Listed, events: list[Event]) -> Iterator[bytes]:
    return (encode_event(event) + b"\n" for event in events)


def as_html(one: Listed, events: list[Event]) -> Iterator[bytes]:
    from ..handover.frames import judged_of
    from ..handover.page import page
    from ..handover.report import report_of

    ends = (event.outcome for event in reversed(events) if isinstance(event, RunEnded))
    outcome = next(ends, one.status.outcome)
    assert outcome is not None
    report = report_of(outcome, events, limits=one.status.limits or None)
    judged = judged_of(outcome, events, agent=report.agent, model=report.model)
    yield page(report, judged).encode("utf-8", "replace")


def as_perfetto(one: Listed, events: list[Event]) -> Iterator[bytes]:
    from ..observe.perfetto import perfetto

    yield perfetto(events)


def as_otlp(one: Listed, events: list[Event]) -> Iterator[bytes]:
    from ..observe.otlp import otlp

    yield otlp(events)


WRITERS: dict[str, Callable[[Listed, list[Event]], Iterator[bytes]]] = {
    "jsonl": as_jsonl,
    "html": as_html,
    "perfetto": as_perfetto,
    "otlp": as_otlp,
}


@contextlib.contextmanager
def opened(path: Path | None) -> Iterator[BinaryIO]:
    """A new file for its owner alone, which is taken away again where writing fails; or standard output. Raises
    :class:`CommandError` for what cannot be written."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except FileExistsError:
        raise CommandError(f"--out {path}: is there already; name another file") from None
    except OSError as error:
        raise CommandError(f"--out {path}: {error.strerror or error}; name a file that can be written") from error
    try:
        with file:
            yield file
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CommandError(f"--out {path}: {error.strerror or error}; nothing is left of it", FAILED) from error
        raise


def _write(file: BinaryIO, parts: Iterable[bytes]) -> None:
    file.writelines(parts)
