"""The parts of the page that decide: what is shown of texts and numbers, how a stream is read; what it is made of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watchkeeper
from service.chromium import Browser, Tab
from service.double import serve
from service.pretended import Service

PAGE = Path(watchkeeper.__file__).parent / "service" / "page"
OURS = [path for path in PAGE.iterdir() if path.suffix in (".js", ".css", ".html")]

texts = st.text(st.sampled_from('ab"\\{}[],: \n\t\u202e\u200b\U0001f600'), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(texts, below, max_size=3),
    max_leaves=8,
)
few = settings(max_examples=8)


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Tab]:
    server = serve(Service())
    try:
        yield browser.open(f"http://127.0.0.1:{server.server_port}/static/icon.svg")
    finally:
        server.shutdown()
        server.server_close()


def asked(tab: Tab, module: str, expression: str, given: Any = None) -> Any:
    """What an expression over a module of the page (``it``) and ``given`` gives."""
    made = f"import('/static/{module}').then((it) => {{ const given = {json.dumps(given)}; return {expression}; }})"
    return tab.run(made)


def without_space(text: str) -> str:
    """JSON text without the white space outside of its strings."""
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|[^"]+', text, re.DOTALL)
    return "".join(piece if piece.startswith('"') else "".join(piece.split()) for piece in pieces)


@few
@given(made=st.lists(values, min_size=20, max_size=40))
def test_indented_arguments_are_the_same_to_the_letter(tab: Tab, made: list[Any]) -> None:
    written = [json.dumps(value, ensure_ascii=False) for value in made]
    shown = asked(tab, "format.js", "given.map(it.indented)", written)
    assert [without_space(text) for text in shown] == [without_space(text) for text in written]
    assert any("\n  " in text for text in shown) or not any(isinstance(value, dict | list) and value for value in made)


@few
@given(made=st.lists(st.text(max_size=40), min_size=20, max_size=40))
def test_no_character_that_hides_or_steers_is_shown_as_itself(tab: Tab, made: list[str]) -> None:
    shown = asked(tab, "format.js", "given.map(it.visible)", made)
    for text, seen in zip(made, shown, strict=True):
        assert not re.search(
            "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]", seen
        )
        if text.isascii() and text.isprintable():
            assert seen == text


def test_characters_that_turn_the_reading_order_are_named(tab: Tab) -> None:
    assert asked(tab, "format.js", "it.visible(given)", "pay \u202e001\u202c\u200b") == "pay \\u202e001\\u202c\\u200b"
    assert (
        asked(tab, "format.js", "it.visible(given)", "caf\u00e9 \U0001f600\n\t\u4e2d")
        == "caf\u00e9 \U0001f600\n\t\u4e2d"
    )


@few
@given(
    facts=st.lists(st.tuples(st.integers(1, 10**6), st.sampled_from(["a", "end", "call_ended"]), values), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_a_stream_is_read_the_same_however_it_is_cut(
    tab: Tab, facts: list[tuple[int, str, Any]], cuts: list[int], newline: str
) -> None:
    blocks = [f"id: {n}\nevent: {kind}\ndata: {json.dumps(value)}\n\n: ping\n\n" for n, kind, value in facts]
    whole = "retry: 1000\n\n" + "".join(blocks)
    whole = whole.replace("\n", newline)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    chunks = [whole[a:b] for a, b in pairwise(places)]
    found = asked(tab, "stream.js", "(() => { const parse = it.parser(); return given.flatMap(parse); })()", chunks)
    assert [(int(one["id"]), one["event"], json.loads(one["data"])) for one in found] == facts


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0004, "0 ms"),
        (0.05, "50 ms"),
        (1.25, "1.3 s"),
        (59.9, "59 s"),
        (61, "1 m 01 s"),
        (7260, "2 h 01 m"),
        (-3, "0 ms"),
    ],
)
def test_durations_read_as_people_say_them(tab: Tab, seconds: float, told: str) -> None:
    assert asked(tab, "format.js", "it.duration(given)", seconds) == told


def test_the_tightest_limit_is_shown_before_money_only_when_it_is_nearly_used_up(tab: Tab) -> None:
    run = {"run": "r", "limits": {"money": 2.0, "tokens": 1000.0}, "spent": {"money": 0.2, "tokens": 799.0}}
    expression = "it.spend(it.normal(given)).dimension"
    assert asked(tab, "runs.js", expression, run) == "money"
    run["spent"] = {"money": 0.2, "tokens": 800.0}
    assert asked(tab, "runs.js", expression, run) == "tokens"


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("terms", True), ("agent:res terms", True), ("agent:coder", False), ("state:waiting", True),
        ("state:run", True), ("team=da", True), ("team=web", False), ("id:r1", True), ("r1", True),
        ("terms zebra", False), ("worker:w1", True),
    ],
)  # fmt: skip
def test_all_words_of_a_filter_have_to_fit(tab: Tab, query: str, fits: bool) -> None:
    run = {
        "run": "r1x", "state": "running", "approvals": 1, "worker": "w1",
        "spec": {"agent": "researcher", "task": "Which terms changed?", "labels": {"team": "data"}},
    }  # fmt: skip
    assert asked(tab, "runs.js", "it.matcher(given.query)(it.normal(given.run))", {"query": query, "run": run}) is fits


def test_an_event_of_a_later_version_is_shown_by_its_type(tab: Tab) -> None:
    shown = asked(
        tab, "facts.js", "given.map(it.describe)", [{"type": "moon_seen"}, {"type": "call_ended", "result": None}]
    )
    assert [one["title"] for one in shown] == ["moon seen", "call ended"]


def test_one_episode_of_a_detector_is_one_finding(tab: Tab) -> None:
    def seen(n: int, onset: int) -> dict[str, Any]:
        return {
            "type": "finding_made",
            "n": n,
            "t": n,
            "finding": {"detector": "equal", "pattern": "p", "count": n, "onset": onset},
        }

    events = [seen(4, 2), seen(6, 2), {"type": "nudged", "n": 7, "cause": 6, "text": "stop that"}, seen(9, 8)]
    found = asked(tab, "facts.js", "it.findingsIn(given)", events)
    assert [(one["n"], one["earlier"], len(one["actions"])) for one in found] == [(9, 0, 0), (6, 1, 1)]


def test_a_late_reply_never_takes_the_place_of_newer_news(tab: Tab) -> None:
    state = {
        "run": "r1", "root": "r1", "spec": {"agent": "a", "task": "t", "labels": {}}, "state": "running", "n": 5,
        "submitted": 1.0, "spent": {}, "limits": {}, "approvals": 0, "findings": 0,
    }  # fmt: skip
    late = {name: value for name, value in state.items() if name not in ("state", "n")}  # Defaults are not sent.
    held = asked(
        tab,
        "state.js",
        """new Promise((later) => {
            it.take(given[0]);
            it.take(given[1]);  // The same batch: the page draws what came in a fifth of a second at once.
            setTimeout(() => {
                it.take(given[1]);
                setTimeout(() => later([it.app.get().runs.get("r1").state, it.app.get().runs.get("r1").n]), 400);
            }, 400);
        })""",
        [state, late],
    )
    assert held == ["running", 5]


def test_a_refusal_of_what_was_asked_before_the_sign_in_ends_no_session(tab: Tab) -> None:
    ends = asked(
        tab,
        "api.js",
        """(async () => {
            let ends = 0;
            it.onSignedOut(() => { ends += 1; });
            const before = window.fetch;
            window.fetch = async () => new Response("{}", { status: 401 });
            const late = it.ask("/v1/runs").catch(() => {});
            it.beginSession();
            await late;
            const early = ends;
            await it.ask("/v1/runs").catch(() => {});
            window.fetch = before;
            return [early, ends];
        })()""",
    )
    assert ends == [0, 1]


# -- what it is made of ------------------------------------------------------------------------------------------------


def test_nothing_is_loaded_from_elsewhere_and_no_text_becomes_html() -> None:
    for path in OURS:
        source = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        found = re.findall(
            r"https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerously|\beval\(|new Function",
            source,
        )
        assert not found, f"{path.name}: {found}"
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bstyle=|\bon\w+=", index)


def test_each_import_names_a_file_that_is_there() -> None:
    for path in (*OURS, *(PAGE / "vendor").glob("*.js")):
        for name in re.findall(r'(?:from|import)\s*"(\.[^"]+)"', path.read_text(encoding="utf-8")):
            assert (path.parent / name).is_file(), f"{path.name} imports {name}"


def test_what_is_brought_along_is_named_with_its_licence() -> None:
    notice = (PAGE / "vendor" / "NOTICE").read_text(encoding="utf-8")
    for path in (PAGE / "vendor").iterdir():
        assert path.name == "NOTICE" or path.name in notice, f"{path.name} is not named in NOTICE"


def run_(run: str, agent: str, state: str = "running", **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {})
    return {"run": run, "state": state, "approvals": 0, "spec": {"agent": agent, "task": "t", "labels": labels}, **more}


RUNS = [
    run_("a", "coder", labels={"team": "web"}),
    run_("b", "coder", "queued", labels={"team": "webs"}),
    run_("c", "Reader", labels={"team": "Data", "n": "1"}),
    run_("d", "readers", approvals=1),
    run_("e", "coder", "ended", labels={"team": "web"}),
    run_("f", "coder", parent="a", labels={"team": "web"}),
]


@pytest.mark.parametrize(
    ("query", "group", "wanted"),
    [
        ("", "live", {}),
        ("agent:cod", "all", {"agent": "coder"}),
        ("agent:reader", "all", {"runs": ["c", "d"]}),
        ("agent:cod agent:reader", "all", {"agent": "coder", "runs": ["c", "d"]}),
        ("state:queued", "all", {"states": ["queued"]}),
        ("state:p", "all", {"runs": []}),
        ("state:waiting", "all", {"runs": ["d"]}),
        ("state:ended", "all", {"runs": []}),
        ("TEAM=data", "all", {"labels": {"team": "Data"}}),
        ("n=1 team=data agent:read", "all", {"labels": {"n": "1", "team": "Data"}, "runs": ["c", "d"]}),
        ("team=web", "all", {"runs": ["a", "b"]}),
        ("__proto__=x", "all", {"runs": []}),
        ("id:a", "all", {"runs": ["a"]}),
        ("", "you", {"runs": ["d"]}),
        ("agent:cod", "ended", {"agent": "coder", "runs": []}),
    ],
)
def test_the_filter_of_the_service_is_never_wider_than_that_of_the_list(
    tab: Tab, query: str, group: str, wanted: dict[str, Any]
) -> None:
    expression = """import('/static/runs.js').then(({ normal }) => {
        const runs = given.runs.map(normal);
        return it.asked(it.filterOf(given.query, given.group, runs), runs);
    })"""
    assert asked(tab, "filter.js", expression, {"runs": RUNS, "query": query, "group": group}) == wanted
