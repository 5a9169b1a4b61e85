"""The picture of a run as SVG, drawn by ourselves: a lane a tool, a bar a call, marks above. Pure.

It has no view box: places are shares of the width and sizes are pixels, so that it stays readable on any screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ..cli.plots import escaped
from ..cli.printable import duration
from ..cli.timeline import MARKS
from .picture import MODEL, Bar, Mark, Picture
from .words import Words

LANES = 10
"""Tools with a lane of their own, first those with calls that did not come to their end; all others share one."""
STEPS = 400
"""Places on the axis: what falls on the same one of a lane, and is alike, is drawn once."""
TOP, LANE, BAR, BOTTOM = 26, 36, 11, 20
"""Heights: of the marks, of a lane with its name, of a bar, of the axis."""
CLASSES = {
    "finished": "ok",
    "model": "model",
    "refused": "turned",
    "denied": "turned",
    "not_run": "turned",
    "cancelled": "cutoff",
    "timed_out": "cutoff",
    "abandoned": "cutoff",
}
"""How a bar looks, by its kind; all others have failed."""
ORDER = ("model", "ok", "turned", "cutoff", "failed")
SIGNS = {name: sign for name, (sign, _) in MARKS.items()} | {"user": "▼"}
STYLE = """
svg.lanes { width: 100%; margin: 4px 0 2px; overflow: visible; }
svg.lanes text { font-size: 12px; }
svg.lanes text.mark { font-size: 12px; text-anchor: middle; }
svg.lanes text.user { fill: var(--ink); }
svg.lanes text.nudge { fill: var(--nudge); }
svg.lanes text.block { fill: var(--block); }
svg.lanes text.pause, svg.lanes text.stop { fill: var(--stop); }
svg.lanes line.rule { stroke: var(--line); }
svg.lanes line.nudge { stroke: var(--nudge); }
svg.lanes line.block { stroke: var(--block); }
svg.lanes line.pause, svg.lanes line.stop { stroke: var(--stop); }
svg.lanes line.user { stroke: var(--aim); }
svg.lanes line.drop { stroke-dasharray: 2 3; opacity: .7; }
svg.lanes rect { stroke-width: 1; }
rect.ok { fill: var(--good); stroke: var(--good); }
rect.model { fill: var(--quiet); stroke: var(--aim); }
rect.failed { fill: var(--stop); stroke: var(--stop); }
svg.lanes rect.turned { fill: none; stroke: var(--block); }
svg.lanes rect.cutoff { fill: var(--nudge); stroke: var(--nudge); }
.key { display: inline-block; width: 18px; height: 10px; border: 1px solid; border-radius: 2px; margin-right: 4px; }
.key.ok { background: var(--good); border-color: var(--good); }
.key.model { background: var(--quiet); border-color: var(--aim); }
.key.failed { background: var(--stop); border-color: var(--stop); }
.key.turned { border-color: var(--block); }
.key.cutoff { background: var(--nudge); border-color: var(--nudge); }
"""


def lanes(picture: Picture, words: Words) -> str:
    """The picture with its legend."""
    rows = _rows(picture.bars)
    height = TOP + LANE * len(rows) + BOTTOM
    span = picture.ended - picture.began
    parts = [*_grid(len(rows), height), *_marks(picture, span, height)]
    for number, (lane, bars) in enumerate(rows):
        parts += _lane(_named(lane, words), bars, TOP + LANE * number, picture, span)
    parts += [
        f'<text x="0" y="{height - 4}">{_clock(picture.began)}</text>',
        f'<text x="100%" y="{height - 4}" text-anchor="end">{_clock(picture.ended)}</text>',
    ]
    return f'<svg class="lanes" height="{height}" role="img">{"".join(parts)}</svg>{_legend(rows, picture, words)}'


_OTHERS = "\0"
"""The lane of all tools that have none; no tool has this name on a page."""


def _rows(bars: Sequence[Bar]) -> list[tuple[str, list[Bar]]]:
    """The lanes with their bars: the model first, then tools by the time of their first call."""
    often = Counter(bar.lane for bar in bars if bar.lane != MODEL)
    open_ends = {bar.lane for bar in bars if CLASSES.get(bar.kind) in ("turned", "cutoff")}
    first = sorted(often, key=lambda lane: (lane not in open_ends, -often[lane]))
    own = set(first[: LANES if len(often) <= LANES else LANES - 1])
    rows: dict[str, list[Bar]] = {}
    for bar in bars:
        lane = bar.lane if bar.lane == MODEL or bar.lane in own else _OTHERS
        rows.setdefault(lane, []).append(bar)
    order = sorted(rows, key=lambda lane: (lane != MODEL, lane == _OTHERS))
    return [(lane, rows[lane]) for lane in order]


def _named(lane: str, words: Words) -> str:
    return {MODEL: words.model_lane, _OTHERS: words.others_lane}.get(lane, lane)


def _grid(number: int, height: int) -> Iterator[str]:
    for row in range(number + 1):
        y = TOP + LANE * row
        yield f'<line class="rule" x1="0" x2="100%" y1="{y}" y2="{y}"/>'


def _lane(name: str, bars: Sequence[Bar], top: int, picture: Picture, span: float) -> Iterator[str]:
    yield f'<text class="n" x="0" y="{top + 15}">{escaped(name, 40)}</text>'
    seen: set[tuple[int, int, str]] = set()
    for bar in sorted(bars, key=_weight):
        left, right = (_place(at, picture.began, span) for at in (bar.began, bar.ended))
        kind = CLASSES.get(bar.kind, "failed")
        if (left, right, kind) in seen:
            continue
        seen.add((left, right, kind))
        least = 2 if kind == "turned" else 1
        left = min(left, STEPS - least)
        wide = max(right - left, least)
        told = f"{name}: {bar.kind}, {duration(max(bar.ended - bar.began, 0.0))}"
        yield (
            f'<rect class="{kind}" x="{_percent(left)}" y="{top + 20}" width="{_percent(wide)}" height="{BAR}">'
            f"<title>{escaped(told)}</title></rect>"
        )


def _weight(bar: Bar) -> int:
    """What went wrong is drawn above what went well at the same time."""
    return ORDER.index(CLASSES.get(bar.kind, "failed"))


def _marks(picture: Picture, span: float, height: int) -> Iterator[str]:
    last: dict[str, int] = {}
    for mark in sorted(picture.marks, key=lambda one: one.at):
        place = min(max(_place(mark.at, picture.began, span), 2), STEPS - 2)
        if last.get(mark.kind) == place:
            continue
        last[mark.kind] = place
        yield _mark(mark, place, height)


def _mark(mark: Mark, place: int, height: int) -> str:
    x = _percent(place)
    return (
        f'<line class="drop {mark.kind}" x1="{x}" x2="{x}" y1="{TOP - 8}" y2="{height - BOTTOM}"/>'
        f'<text class="mark {mark.kind}" x="{x}" y="{TOP - 11}">{SIGNS[mark.kind]}'
        f"<title>{escaped(f'{_clock(mark.at)}: {mark.text}')}</title></text>"
    )


def _legend(rows: Sequence[tuple[str, list[Bar]]], picture: Picture, words: Words) -> str:
    there = {CLASSES.get(bar.kind, "failed") for _, bars in rows for bar in bars}
    parts = [
        f'<span><b class="key {kind}"></b>{escaped(told)}</span>' for kind, told in words.bars.items() if kind in there
    ]
    signs = {mark.kind for mark in picture.marks}
    parts += [
        f'<span><i class="{kind}">{SIGNS[kind]}</i> {escaped(told)}</span>'
        for kind, told in words.marks.items()
        if kind in signs
    ]
    return f'<p class="legend">{" ".join(parts)}</p>'


def _place(at: float, began: float, span: float) -> int:
    return min(max(round((at - began) / span * STEPS), 0), STEPS) if span > 0 else 0


def _percent(place: int) -> str:
    return f"{place * 100 / STEPS:g}%"


def _clock(seconds: float) -> str:
    return duration(seconds) if seconds else "0 s"
