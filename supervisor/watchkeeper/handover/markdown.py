"""The report as Markdown, to be read as it is or rendered. Pure.

Whatever a model or a tool has said stands in code spans and fenced blocks that it cannot leave, without control
characters: no renderer makes a link, an image or markup of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..cli.printable import arguments, count, duration, one_line, printable
from .report import Report
from .story import Attempt
from .words import Words

_TICKS = re.compile(r"`+")
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$@]|^[#+=-]|^\d+(?=[.)])|(?<=\d)[.)](?= )|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""What would be markup in the middle of a line or at its beginning, or become a link."""


def markdown(report: Report, words: Words | None = None) -> str:
    """The whole report."""
    return "\n".join(_lines(report, words or Words())) + "\n"


def code(text: str, limit: int = 200) -> str:
    """Any text as a code span of one line."""
    flat = one_line(text, limit).replace("|", "¦")
    if not flat:
        return "(empty)"
    ticks = "`" * (max(map(len, _TICKS.findall(flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}"


def block(text: str) -> str:
    """Any text as a fenced block."""
    shown = printable(text).strip("\n")
    fence = "`" * max(max(map(len, _TICKS.findall(shown)), default=0) + 1, 3)
    return f"{fence}text\n{shown}\n{fence}"


def escaped(text: str, limit: int = 2_000) -> str:
    """Any text as one line of prose."""
    return _SPECIAL.sub(r"\\\1", one_line(text, limit))


def _lines(report: Report, words: Words) -> Iterator[str]:
    outcome = report.outcome
    yield f"# {words.title}: {words.status(report)}\n"
    yield f"{escaped(outcome.message)}\n"
    yield f"{escaped(words.facts(report))}\n"
    for note in filter(None, (words.continued(report), words.begins_late(report))):
        yield f"{escaped(note)}\n"
    yield f"## {words.goal}\n\n{block(report.goal)}\n"
    if outcome.answer is not None:
        yield f"## {words.answer}\n"
        if outcome.forced:
            yield f"{words.forced}\n"
        yield f"{block(outcome.answer)}\n"
    yield f"## {words.why}\n\n{escaped(outcome.status)}, {code(outcome.reason)}.\n"
    if report.finding is not None:
        yield f"{escaped(words.cause(report.finding))}\n"
    if outcome.cause:
        yield f"{block(outcome.cause)}\n"
    yield f"## {words.next}\n"
    for number, (told, command) in enumerate(words.next_steps(report), 1):
        yield f"{number}. {escaped(told)}" + (f" {code(command)}" if command else "")
    yield ""
    if report.unsettled:
        yield f"## {words.unsettled}\n\n{words.unsettled_note}\n"
        yield from _listed(report.unsettled, report.more_unsettled, words)
    if report.not_executed:
        yield f"## {words.not_executed}\n"
        yield from _listed(report.not_executed, report.more_not_executed, words)
    if outcome.answer is None and outcome.partial:
        yield f"## {words.partial}\n\n{block(outcome.partial)}\n"
    if outcome.answer is None and outcome.rejected:
        yield f"## {words.rejected}\n"
        yield from (f"{block(text)}\n" for text in outcome.rejected)
    yield f"## {words.done}\n\n### {words.tools}\n"
    yield from _tools(report, words)
    yield f"### {words.steps}\n"
    yield from _steps(report, words)
    yield f"## {words.evidence}\n"
    if not report.evidence:
        yield f"{words.evidence_none}\n"
    yield from _listed(report.evidence, report.more_evidence, words)
    yield f"## {words.spend}\n"
    yield from _table(
        words.columns_spend,
        (
            (
                escaped(words.dimension(line.name)),
                words.amount(line.name, line.spent, line.unknown),
                words.amount(line.name, line.limit) if line.limit is not None else words.unlimited,
                words.amount(line.name, max(line.limit - line.spent, 0)) if line.limit is not None else "",
            )
            for line in report.spend
        ),
    )


def _listed(calls: Iterable[Attempt], more: int, words: Words) -> Iterator[str]:
    yield from (_call(call, words, where=True) for call in calls)
    if more:
        yield f"- {words.more(more)}"
    yield ""


def _call(call: Attempt, words: Words, *, where: bool = False) -> str:
    turn = f"{words.turn(call.turn)}: " if where else ""
    given = f" {code(arguments(call.arguments, 240), 240)}" if call.arguments else ""
    took = f" in {duration(call.ran)}" if call.ran else ""
    result = f"  \n  → {code(call.result, 300)}" if call.result else ""
    frame = f"  \n  {code(call.frame)}" if call.frame else ""
    return f"- {turn}{code(call.tool, 80)}{given}: {escaped(words.kind(call))}{took}{result}{frame}"


def _tools(report: Report, words: Words) -> Iterator[str]:
    if not report.uses:
        yield f"{words.no_calls}\n"
        return
    yield from _table(
        words.columns_tools,
        (
            (
                code(use.tool, 60),
                *(f"{number:,}" for number in (use.calls, use.finished, use.found, use.failed, use.not_executed)),
                duration(use.seconds),
            )
            for use in report.uses
        ),
    )
    if report.more_uses:
        yield f"{words.more(report.more_uses)}\n"


def _steps(report: Report, words: Words) -> Iterator[str]:
    for left_out, step in report.told():
        if left_out:
            yield f"{words.left_out(left_out)}\n"
        yield f"**{words.turn(step.turn)}**\n"
        if step.said:
            yield f"{block(step.said)}\n"
        if step.calls:
            yield from (_call(call, words) for call in step.calls)
            if step.more:
                yield f"- {words.more(step.more)} ({count(step.more, 'call')})"
            yield ""
        for who, told in step.notes:
            yield f"- {words.who(who)}: {code(told, 300)}"
        if step.notes:
            yield ""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(head)
    yield f"| {' | '.join(names)} |"
    yield f"| {' | '.join(['---'] + ['---:'] * (len(names) - 1))} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
