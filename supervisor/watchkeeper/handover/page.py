"""The report as one HTML page that holds all it needs: it loads nothing and runs nothing. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator

from ..cli.judging import Judged
from ..cli.plots import escaped
from ..cli.printable import arguments, duration, printable
from ..cli.stylesheet import STYLE
from ..cli.timeline import LEGEND_OF_ONE, timeline
from . import lanes
from .report import Report
from .story import Attempt
from .words import Words

LONG = 2_000
"""Characters of a sentence of ours."""
OWN_STYLE = """
.status { font-weight: 650; }
.status.completed { color: var(--good); }
.status.stopped, .status.handed_over, .status.cancelled { color: var(--block); }
.status.failed { color: var(--stop); }
pre { font: .8125rem/1.5 ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre-wrap; overflow-wrap: anywhere;
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; margin: 8px 0;
  max-height: 24em; overflow: auto; }
ol.next { margin: 8px 0; padding-left: 1.5em; max-width: 76ch; }
ol.next li { margin: 4px 0; overflow-wrap: anywhere; }
ul.calls-of { list-style: none; margin: 6px 0; padding: 0; }
ul.calls-of li { border-top: 1px solid var(--line); padding: 6px 0; overflow-wrap: anywhere; }
ul.calls-of .result { display: block; color: var(--soft); padding-left: 14px; }
.kind { font-size: .875rem; white-space: nowrap; }
.kind.finished { color: var(--good); }
.kind.refused, .kind.denied, .kind.not_run, .kind.cancelled { color: var(--block); }
.kind.failed, .kind.timed_out, .kind.abandoned { color: var(--stop); }
code.command { display: block; margin: 2px 0; }
.note { font-size: .9rem; color: var(--soft); }
.step h3 { margin-bottom: 6px; }
.alarm { border-left: 4px solid var(--stop); }
.plain td, .plain th { border-top: 1px solid var(--line); padding-top: 6px; padding-bottom: 6px; }
.plain thead th { border-top: 0; vertical-align: bottom; }
.plain td:first-child { min-width: 6em; }
@media (max-width: 560px) {
  .plain td, .plain th { padding-right: 6px; font-size: .74rem; }
  .plain td:first-child { min-width: 4.6em; }
  .plain td:last-child, .plain th:last-child { padding-right: 0; }
  .plain .num { white-space: normal; }
}
"""


def page(report: Report, judged: Judged, words: Words | None = None) -> str:
    """The whole page; ``judged``: the calls and verdicts that the timeline shows."""
    return "".join(_page(report, judged, words or Words()))


def _page(report: Report, judged: Judged, words: Words) -> Iterator[str]:
    outcome = report.outcome
    yield (
        f'<!doctype html><html lang="{escaped(words.language)}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escaped(words.title)}</title><style>{STYLE}{lanes.STYLE}{OWN_STYLE}</style></head><body><main>"
    )
    yield (
        f'<h1>{escaped(words.title)}: <span class="status {outcome.status}">{escaped(words.status(report))}</span></h1>'
        f"<p>{escaped(outcome.message, LONG)}</p>"
        f'<p class="facts">{escaped(words.facts(report), 600)}</p>'
    )
    for note in filter(None, (words.continued(report), words.begins_late(report))):
        yield f'<p class="facts">{escaped(note, LONG)}</p>'
    yield f"<h2>{escaped(words.goal)}</h2>{_block(report.goal)}"
    if outcome.answer is not None:
        forced = f'<p class="lead">{escaped(words.forced)}</p>' if outcome.forced else ""
        yield f"<h2>{escaped(words.answer)}</h2>{forced}{_block(outcome.answer)}"
    yield f"<h2>{escaped(words.why)}</h2><p>{escaped(outcome.status)}, <code>{escaped(outcome.reason)}</code>.</p>"
    if report.finding is not None:
        yield f'<p class="lead">{escaped(words.cause(report.finding), LONG)}</p>'
    if outcome.cause:
        yield _block(outcome.cause)
    steps = "".join(
        f"<li>{escaped(told, LONG)}" + (f'<code class="command">{escaped(command)}</code>' if command else "") + "</li>"
        for told, command in words.next_steps(report)
    )
    yield f'<h2>{escaped(words.next)}</h2><ol class="next">{steps}</ol>'
    if report.unsettled:
        yield (
            f'<h2>{escaped(words.unsettled)}</h2><article class="alarm"><p>{escaped(words.unsettled_note, LONG)}</p>'
            f"{_listed(report.unsettled, report.more_unsettled, words)}</article>"
        )
    if report.not_executed:
        yield f"<h2>{escaped(words.not_executed)}</h2>{_listed(report.not_executed, report.more_not_executed, words)}"
    if outcome.answer is None and outcome.partial:
        yield f"<h2>{escaped(words.partial)}</h2>{_block(outcome.partial)}"
    if outcome.answer is None and outcome.rejected:
        yield f"<h2>{escaped(words.rejected)}</h2>{''.join(map(_block, outcome.rejected))}"
    yield f"<h2>{escaped(words.picture)}</h2>"
    yield f"<article>{lanes.lanes(report.picture, words)}</article>"
    if judged.frames:
        yield f"<h2>{escaped(words.calls)}</h2>{LEGEND_OF_ONE}{timeline(judged, escaped(words.calls_note, LONG))}"
    yield f"<h2>{escaped(words.tools)}</h2>{_tools(report, words)}"
    yield f"<h2>{escaped(words.steps)}</h2>"
    yield from _steps(report, words)
    yield f"<h2>{escaped(words.evidence)}</h2>"
    if not report.evidence:
        yield f'<p class="none">{escaped(words.evidence_none)}</p>'
    yield _listed(report.evidence, report.more_evidence, words)
    yield f"<h2>{escaped(words.spend)}</h2>{_spend(report, words)}"
    yield f"<footer>{escaped(words.footer)}</footer></main></body></html>\n"


def _block(text: str) -> str:
    return f"<pre>{html.escape(printable(text).strip(chr(10)), quote=True)}</pre>"


def _listed(calls: Iterable[Attempt], more: int, words: Words) -> str:
    rows = "".join(f"<li>{_call(call, words, where=True)}</li>" for call in calls)
    rest = f'<li class="note">{escaped(words.more(more))}</li>' if more else ""
    return f'<ul class="calls-of">{rows}{rest}</ul>' if rows else ""


def _call(call: Attempt, words: Words, *, where: bool = False) -> str:
    turn = f'<span class="note">{escaped(words.turn(call.turn))}</span> ' if where else ""
    given = f" {arguments(call.arguments, 240)}" if call.arguments else ""
    took = f", {duration(call.ran)}" if call.ran else ""
    result = f'<code class="result">{escaped(call.result, 300)}</code>' if call.result else ""
    frame = f'<code class="result">{escaped(call.frame)}</code>' if call.frame else ""
    return (
        f"{turn}<code>{escaped(f'{call.tool}{given}', 320)}</code> "
        f'<span class="kind {call.kind or "open"}">{escaped(words.kind(call) + took)}</span>{result}{frame}'
    )


def _tools(report: Report, words: Words) -> str:
    if not report.uses:
        return f'<p class="none">{escaped(words.no_calls)}</p>'
    rows = [
        (
            f"<code>{escaped(use.tool, 60)}</code>",
            *(f"{number:,}" for number in (use.calls, use.finished, use.found, use.failed, use.not_executed)),
            escaped(duration(use.seconds)),
        )
        for use in report.uses
    ]
    more = f'<p class="note">{escaped(words.more(report.more_uses))}</p>' if report.more_uses else ""
    return _table(words.columns_tools, rows) + more


def _spend(report: Report, words: Words) -> str:
    return _table(
        words.columns_spend,
        [
            (
                escaped(words.dimension(line.name)),
                escaped(words.amount(line.name, line.spent, line.unknown)),
                escaped(words.amount(line.name, line.limit) if line.limit is not None else words.unlimited),
                escaped(words.amount(line.name, max(line.limit - line.spent, 0))) if line.limit is not None else "",
            )
            for line in report.spend
        ],
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """``rows``: cells that are HTML already."""
    first, *others = head
    top = f"<th>{escaped(first)}</th>" + "".join(f'<th class="num">{escaped(name)}</th>' for name in others)
    body = []
    for row in rows:
        name, *cells = row
        numbers = "".join(f'<td class="num right">{cell}</td>' for cell in cells)
        body.append(f"<tr><td>{name}</td>{numbers}</tr>")
    whole = f"<thead><tr>{top}</tr></thead><tbody>{''.join(body)}</tbody>"
    return f'<div class="scroll"><table class="plain">{whole}</table></div>'


def _steps(report: Report, words: Words) -> Iterator[str]:
    for left_out, step in report.told():
        if left_out:
            yield f'<p class="note">{escaped(words.left_out(left_out))}</p>'
        yield f'<article class="step"><h3>{escaped(words.turn(step.turn))}</h3>'
        if step.said:
            yield _block(step.said)
        if step.calls:
            yield f'<ul class="calls-of">{"".join(f"<li>{_call(call, words)}</li>" for call in step.calls)}</ul>'
        if step.more:
            yield f'<p class="note">{escaped(words.more(step.more))}</p>'
        for who, told in step.notes:
            yield f'<p class="note"><b>{escaped(words.who(who))}</b>: {escaped(told, 320)}</p>'
        yield "</article>"
