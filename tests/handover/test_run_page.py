"""The report as a page and as Markdown: it says what there is, and can be hurt by nothing that a run has said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reporting import EVIL, Log, Page, unsafe
from watchkeeper import Event, Outcome, Result
from watchkeeper.handover.frames import judged_of
from watchkeeper.handover.lanes import LANES, STEPS, lanes
from watchkeeper.handover.markdown import block, code, escaped, markdown
from watchkeeper.handover.page import page
from watchkeeper.handover.picture import BARS, Bar, Draft, Mark, Picture
from watchkeeper.handover.report import report_of
from watchkeeper.handover.words import Words
from watchkeeper.messages import Blocked, Finding, FindingMade, Nudged, Paused, RunEnding, Stopped, UserMessage, Verdict

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "div", "b", "span", "footer"),
    *("table", "thead", "tbody", "tr", "th", "td", "article", "code", "i", "u", "pre", "ul", "ol", "li"),
    *("svg", "line", "rect", "text"),
}
"""All that the page is made of; none of it can load or run anything."""
ATTRIBUTES = {
    *("lang", "charset", "name", "content", "http-equiv", "class", "title", "role", "height", "width"),
    *("x", "y", "x1", "y1", "x2", "y2", "text-anchor"),
}
texts = st.text(st.characters() | st.sampled_from("`|<>&\"'[]()!#*_-\n\\:/@"), max_size=60)


def a_run(text: str, **more: Any) -> tuple[Outcome, list[Event]]:
    """A run in which everybody says this text, in every place."""
    log = Log().begin(text)
    finding = Finding(detector="equal", pattern=text, count=3, tool=text, onset_call=1)
    verdict = Verdict("stop", finding, text)
    log.round(
        (text or "x", text, Result("a", text, "finished", text, productive=True)),
        (text or "x", text, Result("b", text, "failed", text, error=text)),
        (text or "x", text, Result("c", text, "denied", text, by=text)),
        (text or "x", text, Result("d", text, "abandoned", text)),
        text=text,
    )
    log.add(FindingMade, finding=finding)
    log.add(Nudged, text=text, by=text, cause=1)
    log.add(Blocked, keys=(text,), by=text, cause=2)
    log.add(Paused, reason=text)
    log.add(UserMessage, text=f"{text}.", source="steer")
    log.add(Stopped, verdict=verdict, cause=3)
    said: dict[str, Any] = {"partial": text, "rejected": (text,), "cause": text, "verdict": verdict}
    said |= {"spent": {text: 1.0}, "reason": text, "message": text}
    return log.outcome(**said | more), log.events


def shown(outcome: Outcome, events: list[Event], agent: str = "a") -> tuple[str, str]:
    report = report_of(outcome, events, agent=agent, model=agent, runs=(agent,))
    return page(report, judged_of(outcome, events, agent=agent)), markdown(report)


@given(texts)
@example(EVIL)
@example("```\n</pre>\n# x")
@example("-----\n=====\n1. x\n\n    code")
def test_nothing_that_is_said_becomes_markup(text: str) -> None:
    for more in ({}, {"answer": text}):
        whole, told = shown(*a_run(text, **more), agent=text or "a")
        found = Page(whole)
        assert found.open == []
        assert found.tags <= TAGS
        assert found.attributes <= ATTRIBUTES
        assert not unsafe(whole + told)
        rendered = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(told)
        made = Page(rendered).tags
        ours = {"h1", "h2", "h3", "p", "pre", "code", "ol", "ul", "li", "strong", "br"}
        assert made <= ours | {"table", "thead", "tbody", "tr", "th", "td"}
        for heading in ("h1", "h2", "h3"):
            assert rendered.count(f"<{heading}>") == sum(
                line.startswith("#" * int(heading[1]) + " ") for line in headings(told)
            )


def headings(told: str) -> list[str]:
    """The lines of Markdown outside of fenced blocks."""
    lines, fence = [], ""
    for line in told.split("\n"):
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if fence:
            if line == fence:
                fence = ""
        elif len(ticks) >= 3:
            fence = ticks
        else:
            lines.append(line)
    return lines


@given(texts)
@example("``")
@example("`x")
def test_code_and_blocks_cannot_be_left(text: str) -> None:
    render = MarkdownIt("commonmark").render
    assert Page(render(code(text))).tags <= {"p", "code"}
    assert Page(render(block(text))).tags == {"pre", "code"}
    assert Page(render(f"{escaped(text)}")).tags <= {"p"}


def test_it_loads_and_runs_nothing() -> None:
    whole, _ = shown(*a_run("https://example.com/x.png url(x) @import"))
    assert "default-src 'none'" in whole
    for word in ("<script", "<img", "<link", "<iframe", " href", " src=", " style=", "javascript:"):
        assert word not in whole.replace("https://example.com/x.png url(x) @import", "")


def test_it_says_what_there_is() -> None:
    log = Log().begin("Find it.")
    log.looks(3)
    outcome = log.outcome(spent={"turns": 3.0}, message="The run reached its limit of turns.", partial="I have half.")
    report = report_of(outcome, log.events)
    whole, told = page(report, judged_of(outcome, log.events)), markdown(report)
    for text in (Page(whole).text, told.replace("\\", "")):
        for part in (
            *("Handed over to a person", "The run reached its limit of turns.", "Find it.", "I have half.", "saw 2"),
            *("Calls by tool", "Evidence", "What it took", "What to do next", "watchkeeper run --continue"),
        ):
            assert part in text, part
    assert "When it happened" in whole


def test_words_may_be_replaced() -> None:
    class German(Words):
        language = "de"
        title = "Bericht <über> einen Lauf"
        goal = "Das Ziel"

    log = Log().begin()
    report = report_of(log.outcome(), log.events)
    whole = page(report, judged_of(log.outcome(), log.events), German())
    assert '<html lang="de">' in whole
    assert "Bericht &lt;über&gt; einen Lauf" in whole
    assert "## Das Ziel" in markdown(report, German())


# -- the picture -----------------------------------------------------------------------------------------------------


def drawn(picture: Picture) -> Page:
    return Page(lanes(picture, Words()))


def percent(text: str) -> float:
    assert text.endswith("%")
    return float(text[:-1])


def test_a_bar_stands_where_its_call_was() -> None:
    bars = (Bar("", 0, 5, "model"), Bar("look", 5, 10, "finished"), Bar("look", 7.5, 10, "failed"))
    rects = drawn(Picture(bars, (), 0.0, 10.0)).rects
    assert [(one["class"], one["x"], one["width"]) for one in rects] == [
        ("model", "0%", "50%"),
        ("ok", "50%", "50%"),
        ("failed", "75%", "25%"),
    ]


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1e6), st.floats(0, 1e6)), max_size=40), st.floats(0, 1e6))
def test_every_bar_is_seen_and_none_leaves_the_picture(calls: list[tuple[int, float, float]], began: float) -> None:
    bars = tuple(Bar(f"t{lane}", min(a, b), max(a, b), "finished") for lane, a, b in calls)
    found = drawn(Picture(bars, (Mark(began, "stop", "x"),), began, began + 1.0))
    for rect in found.rects:
        assert 0 <= percent(rect["x"]) < 100
        assert percent(rect["width"]) > 0
        assert percent(rect["x"]) + percent(rect["width"]) <= 100 + 1e-9
    assert len({bar.lane for bar in bars}) <= LANES or "other tools" in found.text


def test_what_did_not_come_to_its_end_has_a_lane_of_its_own() -> None:
    busy = [Bar(f"busy{n}", n, n + 1, "finished") for n in range(2 * LANES) for _ in range(2)]
    found = drawn(Picture((*busy, Bar("save", 1, 2, "cancelled"), Bar("pay", 2, 2, "denied")), (), 0.0, 50.0))
    assert {"save", "pay", "other tools"} <= set(found.words)


def test_a_run_that_took_no_time_is_drawn() -> None:
    bars = (Bar("", 0, 0, "model"), Bar("look", 0, 0, "finished"))
    assert len(drawn(Picture(bars, (), 0.0, 0.0)).rects) == 2
    assert drawn(Picture((), (), 0.0, 0.0)).rects == []


def test_however_long_a_run_the_picture_stays_small() -> None:
    bars = tuple(Bar("look", n * 0.001, n * 0.001 + 0.0005, "finished") for n in range(BARS))
    assert len(drawn(Picture(bars, (), 0.0, BARS * 0.001)).rects) <= 2 * STEPS


def test_what_is_kept_is_the_end() -> None:
    log = Log().begin()
    log.looks(BARS)
    draft = Draft()
    for event in log.events:
        draft.observe(event)
    picture = draft.picture()
    assert (len(picture.bars), picture.lost) == (BARS, BARS)
    assert picture.began == picture.bars[0].began
    assert picture.ended == log.events[-1].t


@pytest.mark.parametrize(("status", "marked"), [("completed", []), ("stopped", ["stop"]), ("handed_over", ["stop"])])
def test_an_end_that_is_no_answer_is_marked(status: Any, marked: list[str]) -> None:
    log = Log()
    log.add(RunEnding, status=status, reason="turns")
    draft = Draft()
    draft.observe(log.events[0])
    assert [mark.kind for mark in draft.picture().marks] == marked


@pytest.mark.parametrize("kind", ["block", "pause"])
def test_the_word_that_comes_with_a_block_is_no_mark_of_its_own(kind: str) -> None:
    log = Log().begin()
    finding = Finding(detector="equal", pattern="p", count=5, tool="look")
    log.add(Nudged, text="a", by="equal", cause=3)
    if kind == "block":
        log.add(Blocked, keys=("k",), by="equal", cause=7)
    else:
        log.add(Paused, reason="loop", verdict=Verdict("pause", finding, "m"), cause=7)
    log.add(Nudged, text="b", by="equal", cause=7)
    draft = Draft()
    for event in log.events:
        draft.observe(event)
    assert [mark.kind for mark in draft.picture().marks] == ["user", "nudge", kind]


# -- the calls, one by one -------------------------------------------------------------------------------------------


def test_verdicts_stand_at_their_calls_also_where_the_log_is_cut() -> None:
    log = Log().begin()
    log.looks(10)
    finding = Finding(detector="equal", pattern="p", count=3, tool="look", onset_call=8)
    log.add(FindingMade, finding=finding)
    log.add(Nudged, text="t", by="equal", cause=9)
    log.looks(2)
    log.add(Stopped, verdict=Verdict("stop", finding, "m"), cause=11)
    outcome = log.outcome()
    place = next(n for n, event in enumerate(log.events) if event.turn == 5)
    for events in (log.events, log.events[place:]):
        judged = judged_of(outcome, events)
        assert [(one.action, one.position, one.began) for one in judged.judgements] == [
            ("nudge", 9, 7),
            ("stop", 11, 7),
        ]
        assert judged.calls == 12
        assert judged.frames[-1].position == 11
        assert judged.frames[-1].result == "saw 1"
    assert judged.frames[0].position == 4
    assert "… 4 calls …" in Page(page(report_of(outcome, events), judged)).text
