"""The page in a browser, over a double of the service: see, watch, approve, cancel, stop all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.chromium import Browser
from service.made_up import HOSTILE
from service.pretended import Service, furnished
from service.site import ROWS, Site, nameless, run_of, site_of, top
from watchkeeper import messages as m


@pytest.fixture
def site(browser: Browser) -> Iterator[Site]:
    yield from site_of(browser, furnished(24))


@pytest.fixture
def guarded(browser: Browser) -> Iterator[Site]:
    yield from site_of(browser, furnished(12, token="wk_right"))


def test_a_started_run_is_seen_and_watched(site: Site) -> None:
    tab = site.open()
    tab.wait(f"{ROWS} > 5")
    tab.press("n")
    tab.type("dialog input", "researcher")
    tab.type("dialog textarea", "Count the lighthouses")
    tab.click("dialog button[type=submit]")
    tab.wait("document.querySelector('.run h1')?.innerText === 'Count the lighthouses'")
    (run,) = (made for made in site.service.runs.values() if made.spec.task == "Count the lighthouses")

    run.k = next(event.n for event in run.log.events if isinstance(event, m.CallStarted))
    site.service.changes()
    tab.wait("document.querySelectorAll('.log-row').length > 4 && document.querySelector('.b.open')")
    assert "Asked" in tab.text(".log-rows")
    run.k = len(run.log.events)
    site.service.changes()
    tab.wait("document.querySelector('.outcome')?.innerText.includes('41,200')")
    tab.press("Escape")
    tab.wait(f"document.querySelector('[data-run=\"{run.log.run}\"] .state')?.innerText === 'Completed'")


def test_calls_side_by_side_are_bars_side_by_side(site: Site) -> None:
    tab = site.open("#/runs/r-tree")
    tab.wait("document.querySelectorAll('.b rect').length > 10")
    tab.wait("document.querySelectorAll('.tree li').length === 3")
    bars = tab.run("""[...document.querySelectorAll('.b[data-call^="c"] rect')].map(
        (r) => ['x', 'y', 'width'].map((name) => Number(r.getAttribute(name))))""")
    overlapping = [
        (a, b)
        for n, a in enumerate(bars)
        for b in bars[:n]
        if a[0] < b[0] + b[2] - 0.2 and b[0] < a[0] + a[2] - 0.2  # at the same time
    ]
    assert overlapping
    assert all(a[1] != b[1] for a, b in overlapping)


def test_a_finding_shows_the_calls_it_rests_on(site: Site) -> None:
    run = next(run for run, made in site.service.runs.items() if made.status.findings)
    tab = site.open(f"#/runs/{run}")
    tab.click(".finding")
    tab.wait("document.querySelectorAll('.b.on').length >= 2 && document.querySelector('.fact')")
    tab.click(".chip")
    tab.wait("document.querySelector('.fact h3')?.innerText === 'search'")


def test_a_call_is_approved_with_the_hash_of_what_was_shown(site: Site) -> None:
    tab = site.open()
    tab.wait("document.querySelector('.badge')?.innerText === '2'")
    tab.wait("document.title === '(2) watchkeeper'")
    tab.press("a")
    tab.wait("document.querySelectorAll('.approval').length === 2")
    first = site.service.approvals()[0]
    assert '"amount": 1249.0' in tab.text(".exact pre")
    tab.click(".approval button.primary")
    tab.wait("document.querySelectorAll('.approval').length === 1")
    method, path, body = site.service.sent[-1]
    assert (method, path) == ("POST", f"/v1/approvals/{first['approval']}")
    assert body == {
        "run": first["run"], "decision": "approve", "arguments_hash": first["arguments_hash"], "scope": "once",
    }  # fmt: skip

    tab.click(".approval .danger", "Deny")
    tab.type(".deny input", "not this customer")
    tab.click(".deny button[type=submit]")
    tab.wait("document.querySelectorAll('.approval').length === 0 && !document.querySelector('.badge')")
    assert site.service.sent[-1][2]["decision"] == "deny"
    assert site.service.sent[-1][2]["reason"] == "not this customer"


def test_an_approval_that_was_answered_elsewhere_is_said(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    tab = site.open("#/approvals")
    tab.wait("document.querySelectorAll('.approval').length === 2")
    # The page is told late: until it has sent its answer, the inbox is as it was.
    inbox, told = site.service.approvals, site.service.approvals()
    monkeypatch.setattr(site.service, "approvals", lambda: inbox() if site.service.sent else told)
    for asked in told:
        made = site.service.runs[asked["run"]]
        made.now(m.ApprovalResolved, approval=asked["approval"], call_id=asked["call"], tool="refund", how="denied")
    tab.click(".approval button.primary")
    tab.wait("document.querySelector('.toast.bad')?.innerText.includes('settled already')")
    tab.wait("document.querySelectorAll('.approval').length === 0")
    site.complaints = True  # The browser notes the 409 as an error of the page, which it is not.


def test_cancel_from_the_list_by_keys_shows_its_proof(site: Site) -> None:
    run = run_of(site, "coder", run="r-tree")
    tab = site.open()
    tab.wait(f"{ROWS} > 5")
    tab.press("/")
    tab.wait("document.activeElement.type === 'search'")
    tab.type(".search input", "id:r-tree")
    tab.wait(f"{ROWS} === 1")
    tab.press("Enter")
    tab.press("c")
    tab.click("dialog .choice input[value=after_turn]")
    tab.type("dialog .field input", "seen enough")
    tab.click("dialog button[type=submit]")
    tab.wait("document.querySelector('#dialog-title')?.innerText.startsWith('Ended in')")
    assert "cancelled after 8 ms" in tab.text("dialog")
    assert site.service.sent[-1][1:] == (
        f"/v1/runs/{run}/cancel?wait=15",
        {"mode": "after_turn", "reason": "seen enough"},
    )
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog') && document.querySelector('.row .state').innerText === 'Cancelled'")


def test_stop_all_says_what_it_will_stop_before_it_does(site: Site) -> None:
    tab = site.open()
    tab.wait(f"{ROWS} > 5")
    live = {run for run, made in top(site).items() if made.status.state != "ended"}
    tab.press("S", shift=True)
    tab.wait(f"document.querySelectorAll('dialog[open] .stops li').length === {len(live)}")
    assert set(tab.run("[...document.querySelectorAll('.stops code')].map((e) => e.textContent)")) == live
    assert all(body["dry_run"] for _, _, body in site.service.sent)
    tab.click("dialog button[type=submit]")
    tab.wait(f"document.querySelector('#dialog-title')?.innerText === '{len(live)} runs of {len(live)} ended'")
    assert all(made.status.state == "ended" for made in site.service.runs.values())


def test_runs_are_cancelled_by_the_filter_of_the_list(site: Site) -> None:
    site.service.add("coder", "Clean the data", labels={"team": "data"}, k=3)
    wanted = {
        run: made
        for run, made in top(site).items()
        if made.status.state != "ended" and made.spec.labels.get("team") == "data"
    }
    assert len(wanted) > 1
    tab = site.open()
    tab.type(".search input", "team=data")
    tab.wait(f"document.querySelector('.list-head .many')?.innerText === 'Cancel {len(wanted)}…'")
    tab.press("Enter")
    tab.press("C", shift=True)
    tab.wait(f"document.querySelectorAll('dialog[open] .stops li').length === {len(wanted)}")
    assert set(tab.run("[...document.querySelectorAll('.stops code')].map((e) => e.textContent)")) == wanted.keys()
    _, path, dry = site.service.sent[-1]
    assert (path, dry) == ("/v1/runs/cancel", {"filter": {"labels": {"team": "data"}}, "dry_run": True})
    late = site.service.add("coder", "Come too late to be seen", labels={"team": "data"}, k=3)
    tab.click("dialog .choice input[value=kill]")
    tab.type("dialog input[maxlength]", "wrong data")
    tab.click("dialog button[type=submit]", f"Cancel {len(wanted)} runs")
    tab.wait(f"document.querySelector('#dialog-title')?.innerText === '{len(wanted)} runs of {len(wanted)} ended'")
    body = site.service.sent[-1][2]
    assert (body["mode"], body["reason"], body["dry_run"]) == ("kill", "wrong data", False)
    assert set(body["filter"].pop("runs")) == wanted.keys()
    assert body["filter"] == {"labels": {"team": "data"}}
    assert all(made.status.outcome.reason == "wrong data" for made in wanted.values())
    assert late.status.state != "ended"


def test_a_filter_is_chosen_in_the_dialog_and_nothing_is_cancelled_without_one(site: Site) -> None:
    tab = site.open()
    tab.wait(f"{ROWS} > 5")
    tab.click(".list-head .many", "by filter")
    tab.wait("document.querySelector('dialog h3')?.innerText === 'Which runs?'")
    assert tab.run("document.querySelector('dialog button[type=submit]').disabled")
    coders = sum(made.spec.agent == "coder" and made.status.state != "ended" for made in top(site).values())
    tab.run("""{
        const select = document.querySelector("dialog select");
        select.value = "coder";
        select.dispatchEvent(new Event("change"));
    }""")
    tab.wait(f"document.querySelectorAll('dialog .stops li').length === {coders}")
    assert [body for _, _, body in site.service.sent] == [{"filter": {"agent": "coder"}, "dry_run": True}]
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog')")

    tab.type(".search input", "state:waiting")
    tab.press("Enter")
    tab.press("C", shift=True)
    tab.wait("document.querySelectorAll('dialog .stops li').length === 2")
    assert "state:waiting" in tab.text("dialog .chips")
    named = site.service.sent[-1][2]["filter"]
    assert set(named) == {"runs"}, "what the service does not know is said by naming the runs"
    tab.click("dialog .chips button")
    tab.wait("document.querySelector('dialog h3')?.innerText === 'Which runs?'")
    assert all(body["dry_run"] for _, _, body in site.service.sent)


def test_hostile_texts_stay_texts(site: Site) -> None:
    run = run_of(site, HOSTILE)
    tab = site.open()
    tab.wait(f"{ROWS} > 5")
    tab.wait("document.querySelector('.rows').innerText.includes('<script>document.title')")
    tab.run(f"location.hash = '#/runs/{run}'")
    tab.wait("document.querySelectorAll('.log-row').length > 4")
    tab.click(".facts-panel button", "Conversation")
    tab.wait("document.querySelector('.talk')?.innerText.includes('onerror')")
    tab.click(".facts-panel button", "JSON")
    tab.wait("document.querySelector('.json')?.innerText.includes('onerror')")
    # A character that turns the reading order is shown as what it is.
    assert "\\u202e" in tab.text("h1")
    assert "\u202e" not in tab.text()
    assert tab.run("document.querySelectorAll('img, #app script').length") == 0
    assert "owned" not in tab.run("document.title")


def test_the_policy_forbids_scripts_styles_and_html_from_texts(site: Site) -> None:
    tab = site.open()
    tab.wait(f"{ROWS} > 5")
    told = tab.run("""(() => {
        const tried = [];
        for (const attempt of [
            () => { document.body.innerHTML = "<b>x</b>"; },
            () => eval("1"),
            () => new Function("1"),
        ]) try { attempt(); tried.push("ran"); } catch (error) { tried.push("refused"); }
        const style = document.createElement("style");
        style.textContent = "body { display: none }";
        document.head.append(style);
        tried.push(getComputedStyle(document.body).display);
        return tried;
    })()""")
    assert told == ["refused", "refused", "refused", "block"]
    site.complaints = True  # They are violations, as they should be.


def test_a_cut_line_is_shown_and_nothing_is_missed(site: Site) -> None:
    run = run_of(site, "coder", run="r-tree")
    made = site.service.runs[run]
    tab = site.open(f"#/runs/{run}")
    tab.wait("document.querySelectorAll('.log-row').length > 4 && document.querySelector('.l-live')")
    site.service.down = True
    site.service.changes()
    tab.wait("document.querySelector('.l-cut')?.innerText.startsWith('Line cut')")
    made.k += 6
    site.service.down = False
    tab.run("dispatchEvent(new Event('online'))")
    tab.wait("document.querySelector('.l-live')")
    tab.click(".log .check input")
    tab.wait(f"document.querySelector('.log-head').innerText.includes('{made.k} lines')")
    site.complaints = None  # The browser notes each 503 as an error of the page.


def test_a_held_log_stands_still_and_goes_on(site: Site) -> None:
    made = site.service.runs["r-tree"]
    tab = site.open("#/runs/r-tree")
    tab.wait("document.querySelectorAll('.log-row').length > 4")
    tab.click(".log .check input")
    before = made.k
    tab.wait(f"document.querySelector('.log-head').innerText.includes('{before} lines')")
    tab.press("p")
    made.k += 3
    site.service.changes()
    tab.wait("document.querySelector('.log-head').innerText.includes('3 new facts')")
    assert f"{before} lines" in tab.text(".log-head")
    tab.press("p")
    tab.wait(f"document.querySelector('.log-head').innerText.includes('{before + 3} lines')")


def test_who_has_no_token_sees_the_sign_in_and_nothing_else(guarded: Site) -> None:
    tab = guarded.open()
    tab.type("input[name=token]", "wk_wrong")
    assert "Find three" not in tab.text()
    tab.click("button[type=submit]")
    tab.wait("document.querySelector('.wrong')?.innerText.includes('not known')")
    tab.run("document.querySelector('input[name=token]').select()")
    tab.type("input[name=token]", "wk_right")
    tab.click("button[type=submit]")
    tab.wait(f"{ROWS} > 3")
    kept = tab.run("JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, location.href])")
    assert "wk_" not in kept
    guarded.complaints = True  # The browser notes each 401 as an error of the page.


def test_a_thousand_runs_are_a_few_rows_of_the_document(browser: Browser) -> None:
    service = Service()
    for number in range(1000):
        service.add("researcher", f"Task {number}", turns=1, k=2, age=number)
    site = Site(browser, service)
    try:
        tab = site.open()
        tab.wait("document.querySelector('.tabs').innerText.includes('1000')")
        assert 10 < tab.run(ROWS) < 60
        assert int(tab.run("document.querySelector('[role=table]').getAttribute('aria-rowcount')")) == 1001
        tab.run("document.querySelector('.rows').scrollTop = 1e6")
        tab.wait("document.querySelector('.rows').innerText.includes('Task 999')")
        assert tab.run(ROWS) < 60
        assert tab.complaints() == []
    finally:
        site.close()


PLACES = {
    "#/": ".view-list .row[data-run]",
    "#/runs/r-tree": ".view-run .log-row",
    "#/approvals": ".view-approvals .approval",
    "#/workers": ".worker",
    "#/policies": ".policy",
    "#/tokens": "[data-token]",
}


@pytest.mark.parametrize("width", [400, 1400])
def test_all_controls_have_names_and_nothing_is_wider_than_the_window(site: Site, width: int) -> None:
    tab = site.open(width=width)
    tab.wait(f"{ROWS} > 5")
    for place, seen in PLACES.items():
        tab.run(f"location.hash = '{place}'")
        tab.wait(f"document.querySelector('{seen}')")
        wide = tab.run("""[...document.querySelectorAll('#app *')].filter((e) =>
            e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('svg, .tabs, nav, .meta, pre, .sr')
        ).map((e) => e.outerHTML.slice(0, 120))""")
        assert wide == []
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert nameless(tab) == []


def test_dark_is_as_the_system_has_it_until_it_is_chosen(site: Site) -> None:
    tab = site.open(dark=True)
    tab.wait(f"{ROWS} > 5")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = tab.run(ground)
    tab.press("t")
    tab.wait(f"{ground} !== '{dark}'")
    assert tab.run("document.documentElement.dataset.theme") == "light"


def test_keys_go_along_the_rows_and_open_one(site: Site) -> None:
    tab = site.open()
    tab.wait("document.querySelector('.tabs .count')?.innerText === '24'")  # Rows that come later would move these.
    tab.press("j")
    tab.press("j")
    tab.press("j")
    tab.wait("document.querySelectorAll('.row[data-run]')[2].classList.contains('on')")
    tab.press("k")
    tab.wait("document.querySelectorAll('.row[data-run]')[1].classList.contains('on')")
    run = tab.run("document.querySelector('.row.on').dataset.run")
    tab.press("Enter")
    tab.wait(f"location.hash === '#/runs/{run}' && document.querySelector('.run')")
    tab.press("?")
    tab.wait("document.querySelectorAll('dialog .keys div').length > 8")


def test_who_may_only_look_is_offered_nothing_else(site: Site) -> None:
    site.service.scopes = ["read"]
    tab = site.open()
    tab.wait(f"{ROWS} > 5")
    tab.wait("!document.querySelector('.stop-all, .c-cancel button, .list-head .primary')")
    tab.run("location.hash = '#/runs/r-tree'")
    tab.wait("document.querySelector('.log-row')")
    assert not tab.run("document.querySelector('.run-head .actions')")
    tab.run("location.hash = '#/approvals'")
    tab.wait("document.querySelector('.approval')")
    assert tab.run("[...document.querySelectorAll('.approval .actions button')].every((one) => one.disabled)")


def test_a_page_that_nobody_looks_at_holds_no_stream_open(site: Site) -> None:
    made = site.service.runs["r-tree"]
    tab = site.open("#/runs/r-tree")
    tab.wait("document.querySelectorAll('.log-row').length > 4")
    assert site.service.streams == 1
    tab.run("""{
        const later = window.setTimeout;
        window.setTimeout = (then, ms, ...rest) => later(then, ms === 20000 ? 0 : ms, ...rest);
        Object.defineProperty(document, "hidden", { value: true, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    assert site.service.until(lambda: site.service.streams == 0)
    made.k += 2
    tab.run("""{
        Object.defineProperty(document, "hidden", { value: false, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    tab.click(".log .check input")
    tab.wait(f"document.querySelector('.log-head').innerText.includes('{made.k} lines')")
