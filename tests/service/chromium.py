"""A headless Chromium for tests, spoken to by the DevTools protocol over its pipe: no package, no port, no network."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--disable-extensions", "--mute-audio",
    "--remote-debugging-pipe", "--window-size=1400,900", "about:blank",
)  # fmt: skip
LIMIT = 60.0
KEYS = {"Escape": 27, "Enter": 13}


def installed() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One process and its pipe; all waiting is bounded by ``LIMIT`` seconds."""

    def __init__(self, process: subprocess.Popen[bytes], read: int, write: int) -> None:
        self._process, self._write = process, write
        self._number = 0
        self._replies: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.events: list[dict[str, Any]] = []
        self.tab: Tab | None = None
        threading.Thread(target=self._listen, args=(read,), daemon=True).start()

    def _listen(self, read: int) -> None:
        with os.fdopen(read, "rb") as pipe:
            rest = b""
            while chunk := pipe.read1(1 << 16):
                *whole, rest = (rest + chunk).split(b"\0")
                for message in map(json.loads, whole):
                    if "id" in message:
                        self._replies.put(message)
                    else:
                        self.events.append(message)

    def send(self, method: str, session: str | None = None, **params: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + LIMIT
        while True:
            reply = self._replies.get(timeout=max(0.01, until - time.monotonic()))
            if reply["id"] == self._number:
                assert "error" not in reply, f"{method}: {reply['error']}"
                return reply["result"]

    def open(self, url: str, *, width: int = 1400, dark: bool = False) -> Tab:
        """The one tab, at an address; what was said against the page before is forgotten."""
        tab = self.tab = self.tab or self._tab()
        tab.send("Page.navigate", url="about:blank")
        self.events.clear()
        tab.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        tab.send("Emulation.setEmulatedMedia", features=scheme)
        tab.send("Page.navigate", url=url)
        return tab

    def _tab(self) -> Tab:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        tab = Tab(self, self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            tab.send(f"{domain}.enable")
        tab.send(
            "Page.addScriptToEvaluateOnNewDocument",
            source="""
            window.violations = [];
            document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective));
        """,
        )
        return tab


class Tab:
    """A page of the browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def send(self, method: str, **params: Any) -> Any:
        return self._browser.send(method, self._session, **params)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True,
                          allowUnsafeEvalBlockedByCSP=False)  # fmt: skip
        if wrong := found.get("exceptionDetails"):
            pytest.fail(wrong.get("exception", {}).get("description") or wrong["text"])
        return found["result"].get("value")

    def wait(self, condition: str) -> Any:
        """Until an expression is true in the page: the page itself looks, again and again."""
        return self.run(f"""new Promise((found, lost) => {{
            const end = performance.now() + {LIMIT * 500};
            const look = () => {{
                let value;
                try {{ value = ({condition}); }} catch {{ value = false; }}
                if (value) return found(value === true || typeof value === "object" ? true : value);
                if (performance.now() > end) return lost(new Error("not in time: " + {json.dumps(condition)}
                    + "; the page says: " + document.body?.innerText.slice(0, 2000)));
                setTimeout(look, 15);
            }};
            look();
        }})""")

    def text(self, selector: str = "body") -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str, having: str = "") -> None:
        """Click the first element that a selector finds, of those with a text in them."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        find = f"{found}.find((e) => e.innerText.includes({json.dumps(having)}))"
        self.wait(f"{find} && !{find}.disabled")
        self.run(f"{find}.click()")

    def press(self, key: str, shift: bool = False) -> None:
        params = {"key": key, "modifiers": 8 if shift else 0, "windowsVirtualKeyCode": KEYS.get(key, 0)}
        if len(key) == 1 or key == "Enter":
            params["text"] = "\r" if key == "Enter" else key
        self.send("Input.dispatchKeyEvent", type="keyDown", **params)
        params.pop("text", None)
        self.send("Input.dispatchKeyEvent", type="keyUp", **params)

    def type(self, selector: str, text: str) -> None:
        self.wait(f"document.querySelector({json.dumps(selector)})")
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.send("Input.insertText", text=text)

    def complaints(self) -> list[str]:
        """What the browser had to say against the page: broken policy, exceptions, errors of the console."""
        found = [f"violated {name}" for name in self.run("window.violations ?? []")]
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"].get("exception", {}).get("description")))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str([one.get("value") for one in params["args"]]))
        return found


@contextmanager
def chromium(executable: str, folder: Path) -> Iterator[Browser]:
    """Chromium with a profile of its own in ``folder``; its process and those below it are gone afterwards."""
    command_out, command_in = os.pipe()
    reply_out, reply_in = os.pipe()
    fds = (command_out, reply_in)

    def place() -> None:
        high = [os.dup(fd) for fd in fds]
        for wanted, fd in zip((3, 4), high, strict=True):
            os.dup2(fd, wanted, inheritable=True)

    process = subprocess.Popen(
        [executable, *OPTIONS[:-1], f"--user-data-dir={folder}", OPTIONS[-1]],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=place, close_fds=False, start_new_session=True,
    )  # fmt: skip
    for fd in fds:
        os.close(fd)
    browser = Browser(process, reply_out, command_in)
    try:
        yield browser
    finally:
        try:
            browser.send("Browser.close")
            process.wait(LIMIT)
        finally:
            os.close(command_in)
            if process.poll() is None:
                process.kill()
                process.wait(LIMIT)
