"""The double of the service as a place that a browser looks at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.chromium import Browser, Tab
from service.double import serve
from service.pretended import MadeUp, Service

ROWS = "document.querySelectorAll('.row[data-run]').length"


class Site:
    """A service, and tabs that look at it."""

    def __init__(self, browser: Browser, service: Service) -> None:
        self.browser, self.service = browser, service
        self.server = serve(service)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        self.complaints: bool | None = False
        """Whether the browser has to complain, of what the test brings about; None: it may."""

    def open(self, path: str = "", **how: int) -> Tab:
        return self.browser.open(self.url + path, **how)

    def close(self) -> None:
        self.service.down = True
        self.service.changes()
        self.server.shutdown()
        self.server.server_close()


def site_of(browser: Browser, service: Service) -> Iterator[Site]:
    site = Site(browser, service)
    try:
        yield site
        assert browser.tab
        complaints = browser.tab.complaints()
        assert site.complaints in (None, bool(complaints)), complaints
    finally:
        site.close()


def run_of(site: Site, agent: str, **wanted: object) -> str:
    for run, made in site.service.runs.items():
        status = made.status
        if status.spec.agent == agent and all(getattr(status, name) == value for name, value in wanted.items()):
            return run
    raise AssertionError(f"no run of {agent} with {wanted}")


def top(site: Site) -> dict[str, MadeUp]:
    """The runs that have no parent."""
    return {run: made for run, made in site.service.runs.items() if "parent" not in made.fixed}


def nameless(tab: Tab) -> list[Any]:
    """Controls that tell who cannot see them nothing."""
    controls = {"button", "link", "textbox", "searchbox", "combobox", "checkbox"}
    return [
        node
        for node in tab.send("Accessibility.getFullAXTree")["nodes"]
        if node.get("role", {}).get("value") in controls and not node.get("ignored") and not node["name"].get("value")
    ]
