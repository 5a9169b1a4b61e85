"""Policies and tokens on the page, over a double of the service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.chromium import Browser
from service.made_up import HOSTILE
from service.office import MADE
from service.pretended import furnished
from service.site import ROWS, Site, site_of


@pytest.fixture
def site(browser: Browser) -> Iterator[Site]:
    yield from site_of(browser, furnished(12))


def test_the_rules_of_each_agent_are_shown(site: Site) -> None:
    tab = site.open("#/policies")
    tab.wait("document.querySelectorAll('.policy').length === 4")
    auditor, coder, researcher, hostile = tab.run("[...document.querySelectorAll('.policy')].map((e) => e.innerText)")
    assert "watchkeeper config check" in auditor
    lines = [line.strip() for line in coder.splitlines() if line.strip()]
    assert lines[:3] == [
        "coder",
        "nudge",
        "A policy file, on the profile production · tools files http · an answer rests on read_file",
    ]
    assert lines[lines.index("Turns") + 1] == "40"
    assert lines[lines.index("Money") + 1] == "2.50"
    decisions = [line for line in lines if line in ("deny", "ask", "allow")]
    assert decisions == ["deny", "deny", "ask", "allow", "allow", "ask"], "in the order in which they count"
    assert "where path is *.env, or path is secrets/*" in coder
    assert "2 s from one call to the next, 10 calls in 60 s" in coder
    assert "refuses the 3rd proposal of an equal call" in coder
    assert "Money\nno limit" in researcher.replace("\n\n", "\n")
    assert "\\u202e" in hostile
    tab.run("document.querySelectorAll('.policy')[1].querySelector('details').open = true")
    rows = tab.run("[...document.querySelectorAll('.policy')[1].querySelectorAll('tbody tr')].map((e) => e.innerText)")
    assert "equal\t11\t—\t21" in rows
    assert "off topic\t2\t4\t6" in rows, "a detector of a third party"
    assert HOSTILE not in tab.run("document.title")
    assert tab.run("document.querySelectorAll('#app img, #app script').length") == 0


def test_what_is_left_of_shared_budgets_is_shown(site: Site) -> None:
    tab = site.open("#/policies")
    tab.wait("document.querySelectorAll('.card.budget').length === 2")
    night, hostile = tab.run("[...document.querySelectorAll('.card.budget')].map((e) => e.innerText)")
    lines = [line.strip() for line in night.splitlines() if line.strip()]
    assert lines == ["night", "Money left", "12.50 of 50.00", "Calls left", "9000 of 10k"]
    assert "0 of 3" in hostile, "granted is more than it holds now"
    assert "<img src=x" in hostile
    assert tab.run("document.querySelectorAll('#app img, #app script').length") == 0


def test_a_token_is_made_shown_once_and_taken_back(site: Site) -> None:
    tab = site.open("#/tokens")
    tab.wait("document.querySelectorAll('[data-token]').length === 4")
    tab.wait("document.querySelector('nav').innerText.includes('Tokens')")
    tab.type("input[name=name]", "ci")
    tab.click(".make button[type=submit]")
    tab.wait("document.querySelector('.toast.bad')?.innerText.includes('there is a token ci already')")
    assert not tab.run("document.querySelector('.secret')")
    tab.run("document.querySelector('input[name=name]').select()")
    tab.type("input[name=name]", "grafana")
    tab.click("input[name=scope][value=approve]")
    tab.click(".make button[type=submit]")
    tab.wait("document.querySelector('.secret input')?.value.startsWith('wk_')")
    assert tab.run("document.querySelector('.secret input').value") == MADE
    assert site.service.sent[-1] == ("POST", "/v1/tokens", {"name": "grafana", "scopes": ["read", "approve"]})
    tab.wait("document.querySelector('[data-token=grafana]')")
    assert MADE not in tab.text()
    kept = tab.run("JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, location.href])")
    assert "wk_" not in kept
    tab.click(".secret button", "I have it")
    tab.wait("!document.querySelector('.secret')")

    tab.click("[data-token=grafana] button", "Take back")
    tab.wait("document.querySelector('[data-token=grafana]').innerText.includes('shut out')")
    assert "grafana" in site.service.tokens.kept
    tab.click("[data-token=grafana] button", "Take it back")
    tab.wait("!document.querySelector('[data-token=grafana]')")
    assert site.service.sent[-1][:2] == ("DELETE", "/v1/tokens/grafana")
    tab.click("[data-token=desk] button", "Take back")
    tab.wait("document.querySelector('[data-token=desk]').innerText.includes('You will be signed out')")
    site.complaints = True  # The browser notes the 409 as an error of the page.


def test_who_is_no_admin_is_not_offered_tokens(site: Site) -> None:
    site.service.scopes = ["read", "approve"]
    tab = site.open()
    tab.wait(f"{ROWS} > 3 && !document.querySelector('.stop-all, .list-head .many')")  # It knows who looks.
    assert "Policies" in tab.text("nav")
    assert "Tokens" not in tab.text("nav")
