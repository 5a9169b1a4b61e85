"""``watchkeeper show``: one run, as it stands, in full."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import Parameter

from ..engine import Query
from .exits import COMPLETED
from .finding import PAGE, Sources, listed, through
from .ids import shortened
from .listed import Listed
from .narrator import INDENT, Line, line
from .objects import print_object
from .printable import count, identifier, one_line, printable
from .standing import STYLES, age, budget, doing, since_progress, span
from .view import view_on

DEEPEST = 32
"""Levels of a tree that are followed."""
CHILDREN = 10_000
TASK = 2_000


def show(
    run: str,
    /,
    *,
    tree: Annotated[bool, Parameter(help="With its sub-agents, as a tree.")] = False,
    json: Annotated[bool, Parameter(help="A JSON object; of a tree, each with its children.")] = False,
) -> int:
    """How a run stands: what it does, what it has spent and may spend, how it ended.

    Parameters
    ----------
    run:
        The run: its id, the beginning of it, or @last.
    """

    async def body(sources: Sources) -> int:
        one = await sources.find(run)
        view = view_on(sys.stdout)
        if tree:
            grown = await Tree.of(one)
            if json:
                print_object(grown.plain())
            else:
                view.print(grown.lines(time.time()))
            return COMPLETED
        if json:
            print_object(one.plain())
        else:
            view.print(told(one, time.time()))
        return COMPLETED

    return through(body)


class Tree:
    """A run and its sub-agents."""

    def __init__(self, one: Listed, children: list[Tree]) -> None:
        self.one = one
        self.children = children

    @classmethod
    async def of(cls, one: Listed, depth: int = 0) -> Tree:
        if depth >= DEEPEST:
            return cls(one, [])
        below = await listed(one.source, Query(parent=one.run, limit=PAGE), CHILDREN)
        below.sort(key=lambda child: (child.status.submitted, child.run))
        return cls(one, [await cls.of(child, depth + 1) for child in below])

    def plain(self) -> dict[str, Any]:
        return {"run": self.one.plain(), "children": [child.plain() for child in self.children]}

    def __iter__(self) -> Iterator[Listed]:
        yield self.one
        for child in self.children:
            yield from child

    def lines(self, now: float) -> Iterator[Line]:
        short = shortened(one.run for one in self)
        yield from self._lines(short, now, "", "")

    def _lines(self, short: dict[str, str], now: float, before: str, below: str) -> Iterator[Line]:
        one = self.one
        status = one.status
        facts = f"turn {status.turn}, {count(status.calls, 'call')}, {age(one, now)}"
        what = doing(one)
        yield Line(
            (
                (before, "dim"),
                (f"{identifier(short[one.run])} ", "head"),
                (f"{one.state}{f' ({what})' if what else ''}", STYLES.get(one.state, "plain")),
                (f"  {one_line(status.spec.agent, 30)}: {one_line(status.spec.task, 40)}  ", "plain"),
                (facts, "dim"),
            )
        )
        for place, child in enumerate(self.children):
            last = place == len(self.children) - 1
            yield from child._lines(
                short, now, f"{below}{'└─ ' if last else '├─ '}", f"{below}{'   ' if last else '│  '}"
            )


def told(one: Listed, now: float) -> Iterator[Line]:
    """A run in lines."""
    status, spec = one.status, one.status.spec
    yield Line(
        (
            (f"{identifier(one.run)}  ", "head"),
            (one.state, STYLES.get(one.state, "plain")),
            (f"  {one_line(spec.agent, 40)}", "plain"),
        )
    )
    yield line(f"{INDENT}{printable(spec.task[:TASK]).strip()}{'…' if len(spec.task) > TASK else ''}", wrap=True)
    for name, text in _facts(one, now):
        if text:
            yield Line(((f"{INDENT}{name:<12}", "dim"), (text, "plain")), wrap=True)
    spends = list(budget(status.spent, status.limits))
    if spends:
        yield line("budget", "head")
    for name, spent, limit in spends:
        amount = f"{spent} of {limit}" if spent and limit else spent or f"at most {limit}"
        yield Line(((f"{INDENT}{name:<16}", "dim"), (amount, "plain")))
    if status.approvals and not one.ended:
        yield line(f"{count(status.approvals, 'call')} to be approved: watchkeeper approvals ls", "warn")
    if one.died:
        yield line(
            "its process has died, and what had begun in it is not known to have ended: watchkeeper tail shows how far "
            "it came",
            "bad",
            wrap=True,
        )
    outcome = status.outcome
    if outcome is not None:
        from .epilogue import epilogue

        yield line("outcome", "head")
        yield from epilogue(outcome)


def _facts(one: Listed, now: float) -> Iterator[tuple[str, str]]:
    status, spec = one.status, one.status.spec
    progress, stale = since_progress(one, now)
    yield "where", one_line(f"{one.source.where}{f', worker {status.worker}' if status.worker else ''}", 120)
    yield "labels", one_line(", ".join(f"{name}={value}" for name, value in spec.labels.items()), 300)
    yield "submitted", _moment(status.submitted, now) + (f" by {one_line(spec.by, 60)}" if spec.by else "")
    yield "started", _moment(status.started, now) + (f", attempt {status.attempt}" if status.attempt > 1 else "")
    yield "ended", _moment(status.ended, now)
    yield "does", doing(one) if not (one.ended or status.refused) else ""
    yield "refused", "" if one.ended else one_line(status.refused, 1_000)
    yield "progress", f"{progress} ago{' (it may be stuck)' if stale else ''}" if progress else ""
    yield "so far", f"turn {status.turn}, {count(status.calls, 'call')}, {count(status.n, 'fact')}"
    yield "findings", f"{status.findings} (watchkeeper tail {identifier(one.run)})" if status.findings else ""
    yield "sub-agent of", identifier(status.parent)


def _moment(at: float | None, now: float) -> str:
    if not at:
        return ""
    try:
        told = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):  # no time of this calendar
        return f"{at:g}"
    return f"{told} ({span(max(now - at, 0.0))} ago)"
