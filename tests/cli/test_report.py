"""``replay --report``: one page that holds nothing but itself, says what was counted, and can be hurt by no run."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from recording import recorded, step, write
from thirdparty import install

from watchkeeper.cli import main
from watchkeeper.cli.interval import Share
from watchkeeper.cli.judging import Judged
from watchkeeper.cli.plots import bars, histogram, stacked, whisker
from watchkeeper.cli.review import Judgement
from watchkeeper.cli.tally import Tally

LOOP = [step("ask", {"q": "?"}, "no")] * 12
EVIL = "</style><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\x1b[31m\x00\u202eabc\u2028"
VOID = {"meta", "br", "img", "link", "input", "hr"}
PLAIN = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "div", "b", "span", "footer"),
    *("table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "article", "code", "i", "u"),
    *("svg", "line", "rect", "circle", "text"),
}
"""All that the page is made of; none of it can load or run anything."""
ATTRIBUTES = {
    *("lang", "charset", "name", "content", "http-equiv", "class", "title", "viewbox", "role", "aria-hidden"),
    *("x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "width", "height", "text-anchor"),
}


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.classes: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        self.classes.extend(name for key, value in attrs if key == "class" for name in (value or "").split())
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def report(tmp_path: Path, runs: list[Any], labels: str = "", code: int = 0) -> tuple[str, Page]:
    page = tmp_path / "page.html"
    table = tmp_path / "labels.csv"
    table.write_text(f"id,stuck,onset_step\n{labels}")
    file = write(tmp_path / "runs.jsonl", runs)
    assert main(["replay", str(file), "--labels", str(table), "--report", str(page)]) == code
    source = page.read_text("utf-8")
    return source, Page(source)


def test_it_says_what_was_counted_with_n_and_interval(tmp_path: Path) -> None:
    good = [recorded(step(), run=f"g{n}", outcome="success", source=("a", "b")[n % 2]) for n in range(9)]
    runs = [*good, recorded(*LOOP, run="bad", outcome="success", source="a"), recorded(*LOOP, run="s", source="b")]
    _, page = report(tmp_path, runs, "s,yes,0\n")
    assert "11 recorded runs with 33 calls" in page.text
    low, high = Share(1, 10).interval
    assert f"1 of 10 10.0% {low:.2%}–{high:.1%}" in page.text
    assert "a 1 of 6" in page.text
    assert "b 0 of 4" in page.text
    assert "runs labelled stuck: caught aim: all ✓ 1 of 1" in page.text
    assert "n = 1 7 all 7" in page.text


def test_false_stops_and_misses_are_told_and_drawn(tmp_path: Path) -> None:
    wandering = [step(args={"n": n * n}, result=str(n)) for n in range(8)]
    runs = [recorded(*LOOP, run="false-stop", outcome="success"), recorded(*wandering, run="missed")]
    _, page = report(tmp_path, runs, "missed,yes,3\n")
    assert page.tags.count("article") == 2
    assert "Good runs that would have been stopped 1 run" in page.text
    assert "Misses: labelled stuck and not caught 1 run" in page.text
    assert "● stopped at call 7 by equal : equal call, equal result of ask , 8 times from call 0 on." in page.text
    assert "labelled stuck = yes from call 3" in page.text
    assert page.classes.count("a0") == 2 + 12 + 9  # in the legend, the cells, and the rows of the table
    assert {"onset", "nudge", "block", "stop"} <= set(page.classes)


def test_nothing_but_itself_and_nothing_that_runs(tmp_path: Path) -> None:
    runs = [recorded(*LOOP, run="x", outcome="success")]
    source, page = report(tmp_path, runs)
    assert set(page.tags) <= PLAIN
    assert page.attributes <= ATTRIBUTES
    assert page.open == []
    assert "url(" not in source
    assert "@import" not in source
    assert not re.search(r"https?:", source)
    assert "default-src 'none'" in source
    assert "prefers-color-scheme: dark" in source
    assert "@media print" in source


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    steps = [step(EVIL, {EVIL: [EVIL]}, EVIL)] * 12
    file = tmp_path / "evil.jsonl"
    run = recorded(*steps, run=EVIL, outcome="success", source=EVIL, model=EVIL)
    file.write_text(json.dumps(run) + "\n")
    page = tmp_path / "page.html"
    assert main(["replay", str(file), "--report", str(page)]) == 0
    source = page.read_text("utf-8")
    found = Page(source)
    assert set(found.tags) <= PLAIN
    assert found.attributes <= ATTRIBUTES
    assert found.tags.count("style") == 1
    assert "<script>alert(1)</script>" in found.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028]", source)


def test_without_labels_the_runs_that_would_be_stopped_are_drawn(tmp_path: Path) -> None:
    """What has a label or has succeeded is shown for that."""
    runs = [recorded(*LOOP, run="failed"), recorded(*LOOP, run="unknown", outcome="unknown")]
    more = [recorded(step(), run="quiet"), recorded(*LOOP[:4], run="nudged"), recorded(*LOOP, run="caught")]
    file = write(tmp_path / "runs.jsonl", [*runs, *more])
    page = tmp_path / "page.html"
    assert main(["replay", str(file), "--only", "failed,unknown,quiet,nudged", "--report", str(page)]) == 0
    found = Page(page.read_text("utf-8"))
    assert found.tags.count("article") == 2
    assert "Runs without a label that did not succeed and would have been stopped 2 runs." in found.text
    assert found.text.count("● stopped at call 7 by equal") == 2
    _, found = report(tmp_path, [*runs, *more], "caught,yes,0\nfailed,no,\n")
    for title, number in (
        ("Runs without a label that did not succeed and would have been stopped", 1),
        ("Labelled healthy, and something was done", 1),
        ("Examples of what was caught", 1),
    ):
        assert f"{title} {number} run." in found.text


def test_who_spoke_counts_each_run_once_a_rule(tmp_path: Path) -> None:
    """For the strongest that the rule did there: a run that was stopped was nudged and blocked before."""
    runs = [
        recorded(*LOOP, run="stopped"),
        recorded(*LOOP, run="stopped too"),
        recorded(*LOOP[:5], run="blocked"),
        recorded(*LOOP[:3], run="nudged"),
    ]
    source, page = report(tmp_path, runs)
    drawn = source.partition("<h3>Who spoke</h3>")[2].partition("</figure>")[0]
    assert re.findall("<title>(.*?)</title>", drawn) == ["equal: 1 nudge", "equal: 1 block", "equal: 2 stop"]
    assert re.findall('<text class="n"[^>]*>(.*?)</text>', drawn) == ["4"]
    assert "by the strongest that it did there: nudge , block , pause or stop" in page.text


def test_pauses_are_drawn_as_the_strongest(tmp_path: Path) -> None:
    tally = Tally()
    judged = Judged(
        run="r",
        source="s",
        model="m",
        outcome="stopped",
        calls=9,
        saved=0,
        judgements=tuple(Judgement(n, action, "equal", "x") for n, action in enumerate(("nudge", "block", "pause"))),
    )
    tally.add(judged)
    assert tally.by_detector == {("equal", "pause"): 1}


def test_what_could_not_be_read_and_who_failed_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, a="thirdparty:Failing")
    _, page = report(tmp_path, [recorded(step(), run="r"), "nonsense\n", "more\n"], code=1)
    assert "Not all of it could be read: 2 problems." in page.text
    assert "The detector unwell failed in 1 run and was switched off there: ValueError: it is unwell" in page.text


def test_its_size_is_bounded(tmp_path: Path) -> None:
    many = [
        recorded(*[step("t" * 99, {"a": "x" * 9000}, "y" * 4000)] * 200, run=f"r{n}", outcome="success")
        for n in range(70)
    ]
    source, page = report(tmp_path, many)
    assert page.tags.count("article") == 60
    assert "70 runs. The first 60 of them are shown." in page.text
    assert len(source) < 4_000_000


def test_many_sources_are_summed_up(tmp_path: Path) -> None:
    runs = [recorded(step(), run=f"r{n}", outcome="success", source=f"source {n}") for n in range(30)]
    _, page = report(tmp_path, runs)
    assert "source 11 0 of 1" in page.text
    assert "source 12" not in page.text
    assert "other sources 0 of 18" in page.text


def test_a_long_run_is_drawn_around_what_matters(tmp_path: Path) -> None:
    long = [step(args={"n": n}, result=f"r{n}") for n in range(1100)]
    _, page = report(tmp_path, [recorded(*long, *LOOP, run="long", outcome="success")])
    assert "calls …" in page.text
    assert re.search(r"stopped at call 110\d", page.text)
    assert page.classes.count("cell") < 200


def test_what_was_done_in_the_middle_is_drawn(tmp_path: Path) -> None:
    def new(first: int, count: int) -> list[dict[str, Any]]:
        return [step(args={"n": n}, result=f"r{n}") for n in range(first, first + count)]

    _, page = report(tmp_path, [recorded(*new(0, 900), *LOOP[:3], *new(900, 500), run="long", outcome="success")])
    assert "▲ nudged at call 902 by equal" in page.text
    assert page.classes.count("nudge") >= 5  # a caption, the legend, the words, the cell, and the row of the table


def test_of_nothing_there_is_a_page_too(tmp_path: Path) -> None:
    _, page = report(tmp_path, [], code=1)
    assert "0 recorded runs" in page.text
    assert "Nothing to show: no run would have been stopped" in page.text


@pytest.mark.parametrize("way", ["named", "link", "hard link", "folder", "labels", "policy", "partial"])
def test_it_takes_the_place_of_nothing_that_is_read(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    file = write(tmp_path / "runs" / "a.jsonl", [recorded(step())])
    labels, policy = tmp_path / "labels.csv", tmp_path / "policy.toml"
    labels.write_text("id,stuck,onset_step\n")
    policy.touch()
    page = {"named": file, "folder": file, "labels": labels, "policy": policy}.get(way, tmp_path / "page.html")
    if way == "link":
        page.symlink_to(file)
    elif way == "hard link":
        page.hardlink_to(file)
    elif way == "partial":
        file = file.rename(tmp_path / "page.html.partial")
    before = {path: path.read_bytes() for path in (file, labels, policy)}
    given = file.parent if way == "folder" else file
    options = ["--labels", labels, "--policy", policy, "--report", page]
    assert main(["replay", *map(str, [given, *options])]) == 2
    shown = capsys.readouterr()
    assert "is read, and would be overwritten; name another file for the report" in shown.err
    assert shown.out == ""
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("where", ["no/such/folder/page.html", "."])
def test_where_it_cannot_be_written_is_said_before_the_work(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "a.jsonl", [recorded(step())])
    assert main(["replay", str(file), "--report", str(tmp_path / where)]) == 2
    shown = capsys.readouterr()
    assert "--report" in shown.err
    assert shown.out == ""


def test_no_room_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    file = write(tmp_path / "a.jsonl", [recorded(step())])
    assert main(["replay", str(file), "--report", "/dev/full"]) == 1
    assert "--report /dev/full: No space left" in capsys.readouterr().err


class TestPlots:
    def test_a_histogram_counts_all(self) -> None:
        drawn = histogram({1: 5, 2: 3, 40: 2}, what="calls", marks={2: "here"})
        assert "<title>1: 5</title>" in drawn
        assert ">24+</text>" in drawn
        assert "<title>24: 2</title>" in drawn
        assert "here" in drawn

    def test_bars_are_as_long_as_their_shares(self) -> None:
        wide = [float(found) for found in re.findall(r'width="([\d.]+)"', bars([("a", 0.5), ("b", 0.25), ("c", 0.0)]))]
        assert wide[0] == pytest.approx(2 * wide[1], abs=0.2)
        assert wide[2] == 0.0

    def test_stacked_pieces_follow_each_other(self) -> None:
        drawn = stacked([("rule", {"nudge": 3, "stop": 1})], ("nudge", "block", "stop"))
        assert "rule: 3 nudge" in drawn
        assert "rule: 1 stop" in drawn
        assert "block" not in drawn

    def test_a_whisker_stays_on_its_line(self) -> None:
        places = [float(x) for x in re.findall(r'(?:x1|x2|cx)="([\d.]+)"', whisker(Share(3, 4), 0.5, 0.9))]
        assert all(0 <= x <= 150 for x in places)

    @pytest.mark.parametrize("plot", [histogram({}, what="x"), bars([]), stacked([], ("nudge",))])
    def test_nothing_to_draw_is_said(self, plot: str) -> None:
        assert plot.startswith('<p class="none">')
