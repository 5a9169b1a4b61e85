"""Small plots as SVG, drawn by ourselves: they need no script and take their colours from the page. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from .interval import Share
from .printable import one_line

WIDTH = 440
ROW = 22
LEFT = 150
"""Where bars begin: what is left of it are their names."""
RIGHT = 56
"""Kept free for the numbers behind bars."""
COLUMNS = 24
"""Columns of a histogram; what does not fit is counted in the last one."""
ROWS = 16


def escaped(text: object, limit: int = 200) -> str:
    """Any text as part of a page: cut, in one line, with controls made visible and nothing that HTML would act on."""
    return html.escape(one_line(str(text), limit), quote=True)


def histogram(counts: Mapping[int, int], *, what: str, marks: Mapping[int, str] | None = None) -> str:
    """Columns over whole numbers. ``marks``: words over some of them."""
    if not counts:
        return _nothing("There is nothing to count here.")
    first, last = min(counts), max(counts)
    last_shown = min(last, first + COLUMNS - 1)
    columns = dict.fromkeys(range(first, last_shown + 1), 0)
    for value, count in counts.items():
        columns[min(value, last_shown)] += count
    height, top, bottom = 190, 34, 34
    highest = max(columns.values())
    step = (WIDTH - 20) / len(columns)
    wide = min(step * 0.72, 44)
    parts = [f'<line class="axis" x1="10" y1="{height - bottom}" x2="{WIDTH - 10}" y2="{height - bottom}"/>']
    every = -(-len(columns) // 12)
    for index, (value, count) in enumerate(columns.items()):
        middle = 10 + step * (index + 0.5)
        tall = (height - top - bottom) * count / highest
        y = height - bottom - tall
        if count:
            parts.append(
                f'<rect class="bar" x="{middle - wide / 2:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
                f'rx="1.5"><title>{value}: {count}</title></rect>'
            )
            if len(columns) <= 14:
                parts.append(f'<text class="n" x="{middle:.1f}" y="{y - 4:.1f}" text-anchor="middle">{count:,}</text>')
        if index % every == 0 or index == len(columns) - 1:
            more = "+" if value == last_shown < last else ""
            parts.append(f'<text x="{middle:.1f}" y="{height - bottom + 15}" text-anchor="middle">{value}{more}</text>')
        if marks and value in marks:
            parts.append(
                f'<text class="mark" x="{middle:.1f}" y="14" text-anchor="middle">{escaped(marks[value])}</text>'
            )
            parts.append(f'<line class="guide" x1="{middle:.1f}" y1="18" x2="{middle:.1f}" y2="{height - bottom}"/>')
    parts.append(f'<text x="{WIDTH / 2}" y="{height - 4}" text-anchor="middle">{escaped(what)}</text>')
    return _svg(height, parts)


def stacked(rows: Sequence[tuple[str, Mapping[str, int]]], kinds: Sequence[str]) -> str:
    """A bar for each row, of pieces of several kinds; ``kinds`` are their classes too."""
    shown = [row for row in rows if sum(row[1].values())][:ROWS]
    if not shown:
        return _nothing("Nothing would have been done.")
    highest = max(sum(pieces.values()) for _, pieces in shown)
    space = WIDTH - LEFT - RIGHT
    parts = []
    for index, (name, pieces) in enumerate(shown):
        y, x = index * ROW + 4, float(LEFT)
        parts.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escaped(name, 22)}</text>')
        for kind in kinds:
            wide = space * pieces.get(kind, 0) / highest
            if wide:
                told = f"{escaped(name)}: {pieces[kind]} {kind}"
                parts.append(
                    f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{max(wide, 1):.1f}" height="{ROW - 6}">'
                    f"<title>{told}</title></rect>"
                )
            x += wide
        parts.append(f'<text class="n" x="{x + 6:.1f}" y="{y + 13}">{sum(pieces.values()):,}</text>')
    return _svg(len(shown) * ROW + 8, parts)


def bars(rows: Iterable[tuple[str, float]]) -> str:
    """A bar for each share, from 0 to the largest."""
    shown = list(rows)[:ROWS]
    if not shown:
        return _nothing("There is nothing to show here.")
    highest = max((share for _, share in shown), default=0.0) or 1.0
    parts = []
    for index, (name, share) in enumerate(shown):
        y = index * ROW + 4
        wide = (WIDTH - LEFT - RIGHT) * share / highest
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escaped(name, 22)}</text>',
            f'<rect class="bar" x="{LEFT}" y="{y}" width="{wide:.1f}" height="{ROW - 6}" rx="1.5"/>',
            f'<text class="n" x="{LEFT + wide + 6:.1f}" y="{y + 13}">{share:.1%}</text>',
        ]
    return _svg(len(shown) * ROW + 8, parts)


def whisker(share: Share, highest: float, bar: float | None = None) -> str:
    """A share with its interval on a line from 0 to ``highest``; ``bar``: the share that is aimed at."""
    wide, height = 150, 16
    low, high = (min(end / highest, 1.0) * (wide - 8) + 4 for end in share.interval)
    at = min(share.value / highest, 1.0) * (wide - 8) + 4
    parts = [f'<line class="axis" x1="4" y1="8" x2="{wide - 4}" y2="8"/>']
    if bar is not None and bar <= highest:
        x = bar / highest * (wide - 8) + 4
        parts.append(f'<line class="aim" x1="{x:.1f}" y1="1" x2="{x:.1f}" y2="15"/>')
    if share.n:
        parts.append(f'<line class="whisker" x1="{low:.1f}" y1="8" x2="{high:.1f}" y2="8"/>')
        parts.append(f'<circle class="dot" cx="{at:.1f}" cy="8" r="3.5"/>')
    return f'<svg class="small" viewBox="0 0 {wide} {height}" aria-hidden="true">{"".join(parts)}</svg>'


def _svg(height: float, parts: Iterable[str]) -> str:
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _nothing(words: str) -> str:
    return f'<p class="none">{escaped(words)}</p>'
