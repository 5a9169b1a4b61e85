"""The page on the service itself, over real sockets: sign in, see, approve, cancel."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import watchkeeper
from service.chromium import Browser
from service.standing import Standing, standing
from watchkeeper.engine import Answered, Approve, Cancel
from watchkeeper.messages import ApprovalResolved, CallEnded, CancelConfirmed, CancelRequested, Result
from watchkeeper.service.listening import Bind, listen

PAGE = Path(watchkeeper.__file__).parent / "service" / "page"


class Desk:
    """A service in a thread of its own, and who executes its one run: takes what is sent, and says so in facts."""

    def __init__(self) -> None:
        self.url = ""
        self.taken: list[Any] = []
        self.secrets: dict[str, str] = {}
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: anyio.run(self._serve), daemon=True)

    def __enter__(self) -> Desk:
        self._thread.start()
        assert self._up.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join(30)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        async with standing(page=PAGE) as made, anyio.create_task_group() as group:
            self.secrets = made.store.secrets
            here = anyio.lowlevel.current_token()
            self._stop = lambda: anyio.from_thread.run_sync(group.cancel_scope.cancel, token=here)
            group.start_soon(self._obey, made)
            await listen(made.service, [Bind(host="127.0.0.1", port=0)], started=self._started)

    def _started(self, binds: Any) -> None:
        self.url = f"http://{binds[0]}/"
        self._up.set()

    async def _obey(self, made: Standing) -> None:
        lease, make = made.lease, made.facts.make
        async for command in lease.commands():
            self.taken.append(command)
            match command:
                case Approve(approval=approval, scope=how):
                    await lease.append(
                        [make(ApprovalResolved, approval=approval, call_id="c2.2", tool="burn", how=how)]
                    )
                case Cancel(reason=reason, mode=mode):
                    await lease.append([
                        make(CancelRequested, mode=mode, reason=reason),
                        make(CallEnded, result=Result("c2.1", "post", "cancelled", "cut off")),
                        make(CancelConfirmed, seconds=0.004),
                        *made.facts.end(),
                    ])  # fmt: skip
            await lease.settle(command, Answered(id=command.id, taken=True))


@pytest.fixture
def desk() -> Iterator[Desk]:
    with Desk() as made:
        yield made


def test_the_page_and_the_service_understand_each_other(browser: Browser, desk: Desk) -> None:
    tab = browser.open(desk.url)
    tab.type("input[name=token]", desk.secrets["admin"])
    tab.click("button[type=submit]")
    tab.wait("document.querySelectorAll('.row[data-run]').length === 2")
    assert tab.run("document.fonts.ready.then(() => document.fonts.check('13px Inter'))")
    tab.wait("document.querySelector('.badge')?.innerText === '1'")
    tab.run("location.hash = '#/runs/one'")
    tab.wait("document.querySelectorAll('.b rect').length >= 5 && document.querySelectorAll('.log-row').length >= 8")

    tab.click(".approval button.primary")
    tab.wait("!document.querySelector('.approval')")
    assert desk.taken[-1].approval == "a1"
    assert desk.taken[-1].by == "admin"

    tab.press("c")
    tab.click("dialog button[type=submit]")
    tab.wait("document.querySelector('#dialog-title')?.innerText === 'Ended in 4 ms'")
    assert "post" in tab.text("dialog .facts")
    assert desk.taken[-1].mode == "now"
    tab.press("Escape")
    tab.wait("document.querySelector('.outcome')?.innerText.includes('Done.')")

    tab.run("location.hash = '#/'")
    tab.type(".search input", "state:queued")
    tab.press("Enter")
    tab.press("C", shift=True)
    tab.wait("document.querySelector('dialog .stops li')?.innerText.includes('two')")
    tab.click("dialog button[type=submit]", "Cancel 1 run")
    tab.wait("document.querySelector('#dialog-title')?.innerText === '1 run of 1 ended'")
    assert "Cancelled" in tab.text("dialog .stops")
    tab.press("Escape")

    tab.run("location.hash = '#/policies'")
    tab.wait("document.querySelectorAll('.folds details').length >= 6")
    tab.run("location.hash = '#/tokens'")
    tab.type("input[name=name]", "grafana")
    tab.click(".make button[type=submit]")
    tab.wait("/^wk_[\\w-]{43}$/.test(document.querySelector('.secret input')?.value)")
    tab.wait("document.querySelectorAll('[data-token]').length === 5")
    tab.click("[data-token=grafana] button", "Take back")
    tab.click("[data-token=grafana] button", "Take it back")
    tab.wait("document.querySelectorAll('[data-token]').length === 4 && !document.querySelector('.secret')")
    assert [one for one in tab.complaints() if "401" not in one] == []
