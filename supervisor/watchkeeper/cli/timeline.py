"""One run as a timeline that a person can read: a cell a call, what was done to it, and why. Pure."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator

from ..detect.judge import BUILT_IN, OF_RUNS
from .film import Frame
from .judging import Judged
from .plots import escaped
from .printable import arguments, count
from .review import Judgement

LETTERS = "ABCDEFGH"
PERCENT = frozenset({"volume"})
"""Detectors that count something else than how often."""
_MARKUP = re.compile(r"``([^`]+)``|:\w+:`[~.]*([^`]+)`")
ROWS = 9
"""Calls of a timeline that are told in full."""
MARKS = {
    "nudge": ("▲", "nudged"),
    "block": ("■", "blocked"),
    "pause": ("◆", "paused"),
    "stop": ("●", "stopped"),
}
GUARDS = {
    "guard:policy": "The profile denies this tool.",
    "guard:equal": "The profile refuses an equal call by its count alone.",
    "guard:duplicate": "The answer to this call is known and nothing has changed since.",
}
_LABELLED = '<span><i class="onset">▽</i> labelled onset</span> '
LEGEND = (
    '<p class="legend">'
    '<span><b class="cell a0">A</b> equal calls have one letter and colour</span> '
    '<span><b class="cell"></b> a call made once</span> '
    '<span><b class="cell a0 same">A</b> with the result that it had before</span> '
    '<span><b class="cell bad"></b> it failed</span> '
    '<span><b class="cell turn"></b> the user spoke before it</span> '
    f"{_LABELLED}"
    '<span><i class="nudge">▲</i> nudge</span> '
    '<span><i class="block">■</i> block</span> '
    '<span><i class="stop">●</i> stop</span></p>'
)
LEGEND_OF_ONE = LEGEND.replace(_LABELLED, "")
"""The same for a run that nobody has labelled."""


def timeline(judged: Judged, headline: str) -> str:
    """The run as HTML. Everything that was recorded is escaped and cut."""
    frames = judged.frames
    facts = [judged.source, judged.model, judged.outcome, count(judged.calls, "call")]
    if judged.label is not None:
        onset = f" from call {judged.label.onset}" if judged.label.onset is not None else ""
        facts.append(f"labelled stuck = {judged.label.stuck}{onset}")
    return "".join(
        (
            f"<article><h3>{escaped(judged.run, len(judged.run))}</h3>",  # whole: commands take it
            f'<p class="facts">{" · ".join(escaped(fact, 80) for fact in facts if fact)}</p>',
            f"<p>{headline}</p>",
            *(f"<p>{one}</p>" for one in _told(judged)),
            f'<div class="cells">{"".join(_cells(judged, frames))}</div>',
            _table(judged, frames),
            "</article>",
        )
    )


def explanation(detector: str) -> str:
    """What a detector looks for, in its own words: the beginning of its docstring."""
    if detector in GUARDS:
        return GUARDS[detector]
    found = next((one for one in (*BUILT_IN, *OF_RUNS) if getattr(one, "name", None) == detector), None)
    words = inspect.getdoc(found) if found is not None else None
    return _MARKUP.sub(r"\1\2", " ".join((words or "").partition("\n\n")[0].split()))


def firsts(judged: Judged) -> dict[str, Judgement]:
    """The first judgement of each kind, mildest first."""
    found: dict[str, Judgement] = {}
    for action in MARKS:
        one = next((one for one in judged.judgements if one.action == action), None)
        if one is not None:
            found[action] = one
    return found


def _told(judged: Judged) -> Iterator[str]:
    """What was seen and done, in words."""
    seen: set[str] = set()
    for action, one in firsts(judged).items():
        times = f", {one.count} times" if one.count > 1 and one.detector not in PERCENT else ""
        began = f" from call {one.began} on" if one.began is not None else ""
        pattern = one.pattern.removeprefix(f"{one.detector}: ")
        of = f" of <code>{escaped(one.tool, 60)}</code>" if one.tool else ""
        line = (
            f'<span class="{action}">{MARKS[action][0]} {MARKS[action][1]}</span> at call {one.position} by '
            f"<b>{escaped(one.detector, 60)}</b>: {escaped(pattern, 200)}{of}{times}{began}."
        )
        if one.detector not in seen and (why := explanation(one.detector)):
            line += f' <span class="why">{escaped(why, 300)}</span>'
        seen.add(one.detector)
        yield line
    if judged.saved:
        yield f"{count(judged.saved, 'call')} of {judged.calls:,} would have been saved."


def _letters(frames: tuple[Frame, ...]) -> dict[int, int]:
    """By call that was made more than once: its place in :data:`LETTERS`; those made most come first."""
    times = Counter(frame.call for frame in frames)
    often = [call for call, number in times.most_common(len(LETTERS)) if number > 1]
    order = list(dict.fromkeys(frame.call for frame in frames if frame.call in often))
    return {call: index for index, call in enumerate(order)}


def _cells(judged: Judged, frames: tuple[Frame, ...]) -> Iterator[str]:
    letters = _letters(frames)
    marks = _marks(judged)
    answers: dict[int, int] = {}
    turns: dict[str, int] = {}
    expected = 0
    for frame in frames:
        if frame.position != expected:
            yield f'<span class="gap">… {frame.position - expected:,} calls …</span>'
        expected = frame.position + 1
        kinds = ["cell"]
        letter = ""
        if frame.call in letters:
            index = letters[frame.call]
            letter = LETTERS[index]
            kinds.append(f"a{index}")
        if answers.get(frame.call) == frame.answer:
            kinds.append("same")
        answers[frame.call] = frame.answer
        if frame.failed:
            kinds.append("bad")
        if turns.setdefault(frame.context, frame.user_turn) != frame.user_turn:
            turns[frame.context] = frame.user_turn
            kinds.append("turn")
        below = "".join(f'<i class="{kind}">{sign}</i>' for kind, sign in marks.get(frame.position, ()))
        told = f"call {frame.position}: {frame.tool} {arguments(frame.arguments, 100)} → {frame.result}"
        yield f'<span class="{" ".join(kinds)}" title="{escaped(told, 240)}">{letter}<u>{below}</u></span>'
    if frames and (left := judged.calls - expected) > 0:
        yield f'<span class="gap">… {count(left, "more call")}</span>'


def _marks(judged: Judged) -> dict[int, list[tuple[str, str]]]:
    marks: dict[int, list[tuple[str, str]]] = {}
    if judged.label is not None and judged.label.stuck == "yes" and judged.label.onset is not None:
        marks.setdefault(judged.label.onset, []).append(("onset", "▽"))
    for one in judged.judgements:
        here = marks.setdefault(one.position, [])
        if (one.action, MARKS[one.action][0]) not in here:
            here.append((one.action, MARKS[one.action][0]))
    return marks


def _table(judged: Judged, frames: tuple[Frame, ...]) -> str:
    """The calls that matter: those that were acted on, where it began, and their neighbours."""
    marks, letters = _marks(judged), _letters(frames)
    places = {one.position for one in firsts(judged).values()}
    began = {one.began for one in firsts(judged).values() if one.began is not None} | marks.keys()
    wanted: list[int] = []
    around = (*(n + 1 for n in sorted(began)), *(n - 1 for n in sorted(places)))
    for place in [*sorted(places), *sorted(began), *around, *(n + more for n in sorted(began) for more in range(ROWS))]:
        if place not in wanted:
            wanted.append(place)
    chosen = sorted(wanted[:ROWS])
    rows = []
    told: set[int] = set()
    answered: set[int] = set()
    for frame in (frame for frame in frames if frame.position in chosen):
        letter = letters.get(frame.call)
        sign = f'<span class="cell a{letter}">{LETTERS[letter]}</span> ' if letter is not None else ""
        done = "".join(f'<i class="{kind}">{mark}</i>' for kind, mark in marks.get(frame.position, ()))
        call = f"<code>{escaped(f'{frame.tool} {arguments(frame.arguments, 160)}', 200)}</code>"
        failed = '<i class="stop">failed</i> ' if frame.failed else ""
        result = f"{failed}<code>{escaped(frame.result, 160) or '(empty)'}</code>"
        if letter is not None and frame.call in told:
            call = '<span class="again">again</span>'
        if frame.answer in answered:
            result = f'{failed}<span class="again">the same result</span>'
        told.add(frame.call)
        answered.add(frame.answer)
        rows.append(f'<tr><td class="num">{frame.position}{done}</td><td>{sign}{call}</td><td>{result}</td></tr>')
    if not rows:
        return ""
    head = "<tr><th>call</th><th>tool and arguments</th><th>result</th></tr>"
    return f'<div class="scroll"><table class="calls"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'
