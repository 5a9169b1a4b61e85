"""A test double of the service: its public API over made-up runs, so that the page can be tried without a service.

``python -m service.double --runs 1000 --port 8000`` from ``tests/`` serves it, with runs that go on by themselves.
"""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

import watchkeeper
from service.made_up import HOSTILE, LIMITS, TASKS, Log, log_of, outcome, stands
from watchkeeper import messages as m
from watchkeeper.engine import RunSpec, RunStatus

FILES = Path(watchkeeper.__file__).parent / "service" / "page"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
LIVE = ("running", "paused", "pausing", "cancelling", "ending", "queued")


class MadeUp:
    """One run: its whole log, of which ``k`` facts have happened."""

    def __init__(self, spec: RunSpec, log: Log, k: int, **fixed: Any) -> None:
        self.spec, self.log, self.k, self.fixed = spec, log, k, fixed

        self._stood: tuple[int, RunStatus] | None = None

    @property
    def status(self) -> RunStatus:
        if self._stood is None or self._stood[0] != self.k:
            self._stood = (self.k, stands(self.spec, self.log, self.k, **self.fixed))
        return self._stood[1]

    @property
    def waits(self) -> m.ApprovalRequested | None:
        last = self.log.events[self.k - 1] if self.k else None
        return last if isinstance(last, m.ApprovalRequested) else None

    def now(self, kind: type[m.Event], **fields: Any) -> None:
        """Something happens otherwise than the log has it: what was to come is forgotten, save for a pause."""
        later = self.log.events[self.k :]
        del self.log.events[self.k :]
        self.log.t = max(self.log.events[-1].t if self.log.events else 0.0, time.time() - self.log.began)
        self.log.turn = self.log.events[-1].turn if self.log.events else 0
        self.log.add(kind, **fields)
        self.k += 1
        if kind in (m.Paused, m.Resumed, m.ApprovalResolved, m.UserMessage):
            shift = self.log.t - later[0].t + 0.5 if later else 0.0
            for number, event in enumerate(later):
                moved = {"n": self.k + number + 1, "t": event.t + shift, "at": event.at + shift}
                self.log.events.append(msgspec.structs.replace(event, **moved))

    def end(self, status: Any, reason: str) -> None:
        self.now(m.CancelRequested, mode="now", reason=reason)
        self.now(m.RunEnding, status=status, reason=reason)
        told = f"The run was cancelled: {reason}."
        self.now(m.RunEnded, outcome=outcome(self.log.run, status, reason, told, self.log))


class Service:
    """The made-up runs, and what is sent to them."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.scopes = ["read", "run", "approve", "admin"]
        self.runs: dict[str, MadeUp] = {}
        self.changed = threading.Condition()
        self.version = 0
        self.sent: list[tuple[str, str, Any]] = []
        self.dropped = 0
        """Raise it, and all streams are cut."""
        self.down = False

    def add(self, agent: str, task: str, *, turns: int = 8, k: int | None = None, age: float = 0.0,
            trouble: str = "", pace: float = 1.0, labels: dict[str, str] | None = None, run: str = "", **fixed: Any) -> MadeUp:  # fmt: skip
        number = len(self.runs) + 1
        run = run or f"r{number:04d}x{(number * 7919) % 46656:04x}"
        spec = RunSpec(agent=agent, task=task, labels=labels or {}, by="desk")
        log = log_of(spec, run, number, turns=turns, began=time.time() - age, trouble=trouble, pace=pace)
        made = self.runs[run] = MadeUp(spec, log, len(log.events) if k is None else k, **fixed)
        return made

    def changes(self) -> None:
        with self.changed:
            self.version += 1
            self.changed.notify_all()

    def stop(self, run: str, reason: str) -> None:
        made = self.runs[run]
        if made.status.state != "ended":
            made.end("cancelled", reason or "cancelled")

    def approvals(self) -> list[dict[str, Any]]:
        found = []
        for made in self.runs.values():
            if asked := made.waits:
                found.append({
                    "approval": asked.approval, "run": asked.run, "agent": made.spec.agent, "task": made.spec.task,
                    "call": asked.call_id, "tool": asked.tool, "arguments": asked.arguments,
                    "arguments_hash": asked.arguments_hash, "why": asked.why, "asked": asked.at,
                    "expires": asked.at + asked.seconds, "exact": True, "by": asked.by,
                })  # fmt: skip
        return found

    def play(self, stop: threading.Event) -> None:
        """Let time pass for the runs, until told to stop."""
        while not stop.wait(0.2):
            now, moved = time.time(), False
            for made in list(self.runs.values()):
                while made.k < len(made.log.events) and not made.waits and made.status.state != "paused":
                    if made.log.began + made.log.events[made.k].t > now:
                        break
                    made.k += 1
                    moved = True
            if moved and not stop.is_set():
                self.changes()


def timeline(made: MadeUp) -> dict[str, Any]:
    """As the service gives it: bars of the three lanes, and the spend."""
    lanes: dict[str, list[dict[str, Any]]] = {"model": [], "tools": [], "watchdog": []}
    open_calls: dict[str, dict[str, Any]] = {}
    spend, total = [], {}
    for event in made.log.events[: made.k]:
        base = {"from": event.t, "to": event.t, "row": 0, "n": event.n, "call": ""}
        match event:
            case m.ModelRequested():
                lanes["model"].append({**base, "to": None, "label": event.model, "kind": "running"})
            case m.ModelReplied():
                lanes["model"][-1].update({"to": event.t, "kind": "reply"})
            case m.ApprovalRequested():
                bar = {**base, "to": None, "label": event.tool, "kind": "waiting", "call": event.call_id}
                lanes["tools"].append(bar)
                open_calls[f"approval {event.call_id}"] = bar
            case m.ApprovalResolved():
                open_calls.pop(f"approval {event.call_id}").update({"to": event.t, "kind": event.how})
            case m.UserMessage() | m.CancelRequested():
                kind = "user" if isinstance(event, m.UserMessage) else "cancel"
                lanes["watchdog"].append({**base, "label": kind, "kind": kind})
            case m.Paused():
                lanes["watchdog"].append({**base, "to": None, "label": event.reason, "kind": "pause"})
            case m.Resumed():
                lanes["watchdog"][-1]["to"] = event.t
            case m.CallStarted():
                taken = {bar["row"] for bar in open_calls.values()}
                row = next(row for row in range(99) if row not in taken)
                bar = {**base, "to": None, "row": row, "label": event.tool, "kind": "running", "call": event.call_id}
                lanes["tools"].append(bar)
                open_calls[event.call_id] = bar
            case m.CallEnded():
                open_calls.pop(event.result.call_id).update({"to": event.t, "kind": event.result.kind})
            case m.FindingMade():
                lanes["watchdog"].append({**base, "label": event.finding.detector, "kind": "finding"})
            case m.Nudged() | m.Blocked():
                lanes["watchdog"].append({**base, "label": event.by, "kind": "nudge" if isinstance(event, m.Nudged) else "block"})
            case m.Settled():
                for name, amount in event.amounts.items():
                    total[name] = total.get(name, 0.0) + amount
                spend.append({"t": event.t, "spent": dict(total)})
            case m.RunEnded():
                for bar in (bar for bars in lanes.values() for bar in bars if bar["to"] is None):
                    bar.update({"to": event.t, "kind": "abandoned" if bar["kind"] == "running" else bar["kind"]})
    ended = made.status.state == "ended"
    now = made.log.events[made.k - 1].t if ended else time.time() - made.log.began
    return {"lanes": [{"lane": lane, "bars": bars} for lane, bars in lanes.items()], "spend": spend, "now": now}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: Service

    def log_message(self, *_: object) -> None: ...

    def reply(self, status: int, body: Any, kind: str = "application/json", **headers: str) -> None:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        with suppress(OSError):
            self.end_headers()
            self.wfile.write(data)

    def problem(self, status: int, title: str, detail: str = "") -> None:
        body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
        self.reply(status, body, "application/problem+json")

    def allowed(self) -> bool:
        told = f"session={self.service.token}"
        return not self.service.token or told in self.headers.get("Cookie", "")

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if url.path == "/" or url.path.startswith("/static/"):
            path = FILES / (url.path.removeprefix("/static/") if url.path != "/" else "index.html")
            if path.is_file() and path.suffix in TYPES and FILES in path.resolve().parents:
                self.reply(200, path.read_bytes(), TYPES[path.suffix], **HEADERS)
            else:
                self.problem(404, "Not Found")
        elif self.service.down:
            self.problem(503, "Service Unavailable", "The double is told to be down.")
        elif not self.allowed():
            self.problem(401, "Unauthorized", "Say who you are with a token.")
        else:
            self.read(url.path.split("/")[1:], asked, parse_qs(url.query))

    def read(self, path: list[str], asked: dict[str, str], every: dict[str, list[str]]) -> None:
        service = self.service
        match path:
            case ["version"]:
                self.reply(200, {"version": "0.1.0"})
            case ["v1", "runs"]:
                self.list(asked, every)
            case ["v1", "events"]:
                self.stream_all()
            case ["v1", "approvals"]:
                self.reply(200, {"approvals": service.approvals()})
            case ["v1", "workers"]:
                at = time.time()
                self.reply(200, {"workers": [
                    {"name": "w1", "pid": 4120, "stack": "", "state": "running", "runs": 7, "since": at - 8000, "restarts": 0},
                    {"name": "w2", "pid": 4121, "state": "blocked", "runs": 2, "since": at - 300, "restarts": 2,
                     "stack": 'File "app/tools.py", line 41, in parse\n    re.match(pattern, text)'},
                ]})  # fmt: skip
            case ["v1", "session"]:
                self.reply(200, {"name": "desk", "scopes": service.scopes})
            case ["v1", "runs", run, *rest] if run in service.runs:
                made = service.runs[run]
                match rest:
                    case []:
                        self.reply(200, made.status)
                    case ["timeline"]:
                        self.reply(200, timeline(made))
                    case ["tree"]:
                        children = [one for one in service.runs.values() if one.fixed.get("parent") == run]
                        self.reply(200, {
                            "run": made.status,
                            "children": [{"run": child.status, "children": []} for child in children],
                        })  # fmt: skip
                    case ["events"]:
                        self.stream(made, int(self.headers.get("Last-Event-ID") or asked.get("after") or 0), asked)
                    case _:
                        self.problem(404, "Not Found")
            case _:
                self.problem(404, "Not Found", "There is no such run.")

    def list(self, asked: dict[str, str], every: dict[str, list[str]]) -> None:
        states = [one for value in every.get("state", ()) for one in value.split(",")]
        found = [made.status for made in self.service.runs.values() if "parent" not in made.fixed]
        found = sorted((s for s in found if not states or s.state in states), key=lambda s: s.submitted, reverse=True)
        if before := asked.get("before"):
            place = next((n for n, status in enumerate(found) if status.run == before), -1)
            found = found[place + 1 :]
        limit = int(asked.get("limit", 100))
        self.reply(200, {"runs": found[:limit], "more": len(found) > limit})

    # -- streams -------------------------------------------------------------------------------------------------------

    def begin_stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def write_event(self, event: str, data: bytes, number: int | None = None) -> None:
        head = f"id: {number}\n" if number is not None else ""
        self.wfile.write(f"{head}event: {event}\ndata: ".encode() + data + b"\n\n")
        self.wfile.flush()

    def wait(self, version: int, dropped: int) -> bool:
        """Until something has changed; false when the stream is to end."""
        service = self.service
        with service.changed:
            service.changed.wait_for(lambda: service.version != version or service.dropped != dropped, 5)
        return service.dropped == dropped and not service.down

    def stream(self, made: MadeUp, after: int, asked: dict[str, str]) -> None:
        dropped = self.service.dropped
        if asked.get("follow") == "false" or "ndjson" in self.headers.get("Accept", ""):
            lines = [m.encode_event(event) for event in made.log.events[after : made.k]]
            self.reply(200, b"\n".join(lines), "application/x-ndjson")
            return
        self.begin_stream()
        try:
            while True:
                version = self.service.version
                for event in made.log.events[after : made.k]:
                    encoded = m.encode_event(event)
                    self.write_event(json.loads(encoded)["type"], encoded, event.n)
                    after = event.n
                if made.status.state == "ended" and after == made.k:
                    self.write_event("end", b"{}")
                    return
                if not self.wait(version, dropped):
                    return
                self.wfile.write(b": ping\n\n")
        except OSError:
            return

    def stream_all(self) -> None:
        dropped = self.service.dropped
        seen: dict[str, bytes] = {}
        self.begin_stream()
        try:
            while True:
                version = self.service.version
                for run, made in list(self.service.runs.items()):
                    now = msgspec.json.encode(made.status)
                    if seen.get(run) != now:
                        if seen or version:
                            self.write_event("run", now)
                        seen[run] = now
                self.write_event("stats", b"{}")
                if not self.wait(version, dropped):
                    return
                time.sleep(0.3)
        except OSError:
            return

    # -- what is sent --------------------------------------------------------------------------------------------------

    def do_DELETE(self) -> None:
        self.reply(204, b"", **{"Set-Cookie": "session=; Max-Age=0; HttpOnly; SameSite=Strict; Path=/"})

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.service.sent.append(("POST", self.path, body))
        if url.path == "/v1/session":
            if body.get("token") != self.service.token:
                self.problem(401, "Unauthorized", "This token is not known.")
            else:
                cookie = f"session={self.service.token}; HttpOnly; SameSite=Strict; Path=/"
                self.reply(204, b"", **{"Set-Cookie": cookie})
        elif not self.allowed():
            self.problem(401, "Unauthorized")
        else:
            self.obey(url.path.split("/")[2:], body, "wait" in url.query)
            self.service.changes()

    def obey(self, path: list[str], body: dict[str, Any], wait: bool) -> None:
        service = self.service
        match path:
            case ["runs"]:
                made = service.add(body["agent"], body["task"], k=0)
                self.reply(201, made.status)
            case ["stop-all"]:
                live = [run for run, made in service.runs.items() if made.status.state in LIVE]
                for run in () if body.get("dry_run") else live:
                    service.stop(run, body.get("reason", ""))
                self.reply(200, {"runs": [
                    {
                        "run": run, "agent": status.spec.agent, "task": status.spec.task, "state": status.state,
                        "outcome": status.outcome and status.outcome.status, "reason": "",
                    }
                    for run in live
                    for status in (service.runs[run].status,)
                ], "dry_run": bool(body.get("dry_run"))})  # fmt: skip
            case ["runs", run, "cancel"] if run in service.runs:
                doing = service.runs[run].status.doing
                since = time.time() - 1.4
                service.stop(run, body.get("reason", ""))
                proof = {
                    "run": service.runs[run].status,
                    "in_flight": [{"call": "c4.1", "tool": doing or "model", "since": since}],
                    "ended": [{"call": "c4.1", "tool": doing or "model", "kind": "cancelled", "seconds": 0.008}],
                    "seconds": 0.011,
                }
                self.reply(200 if wait else 202, proof if wait else service.runs[run].status)
            case ["runs", run, "pause" | "resume" | "steer" | "budget" | "hand-over" as do] if run in service.runs:
                made = service.runs[run]
                match do:
                    case "pause":
                        made.now(m.Paused, reason=body.get("reason", "paused"))
                    case "resume":
                        made.now(m.Resumed)
                    case "steer":
                        made.now(m.UserMessage, text=body["text"], source="steer")
                self.reply(200 if wait else 202, {"id": "k1", "taken": True} if wait else {"command": "k1"})
            case ["approvals", approval]:
                made = next((r for r in service.runs.values() if r.waits and r.waits.approval == approval), None)
                if made is None or made.waits is None:
                    self.problem(409, "Conflict", f"The approval {approval} is settled already.")
                    return
                asked = made.waits
                if body["decision"] == "approve" and body.get("arguments_hash") != asked.arguments_hash:
                    self.problem(409, "Conflict", "The yes is for other arguments.")
                    return
                how = body.get("scope", "once") if body["decision"] == "approve" else "denied"
                made.now(m.ApprovalResolved, approval=approval, call_id=asked.call_id, tool=asked.tool, how=how)
                self.reply(200, {"id": "k2", "taken": True})
            case _:
                self.problem(404, "Not Found", "There is no such run.")


def serve(service: Service, port: int = 0) -> ThreadingHTTPServer:
    """The double on localhost; ``server_port`` says where. Close it with ``shutdown`` and ``server_close``."""
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Bound", (Handler,), {"service": service}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def furnished(runs: int, token: str = "") -> Service:
    """A service with runs of every kind, most of them at work."""
    r = random.Random(7)
    service = Service(token)
    for number in range(max(0, runs - 9)):
        agent, task = TASKS[number % len(TASKS)]
        turns, share = r.randint(3, 14), r.random()
        labels = {"team": r.choice(("billing", "data", "web"))} if number % 3 else {}
        made = service.add(agent, task, turns=turns, labels=labels, pace=r.uniform(1, 9))
        whole = made.log.t
        if share < 0.5:
            _place(made, -r.uniform(60, 30_000) - whole)
        else:
            _place(made, -r.uniform(1, whole * 0.9))
    loop = service.add("researcher", TASKS[0][1], turns=19, pace=3, trouble="loop", labels={"team": "data"})
    _place(loop, -loop.log.t * 0.6)
    for age in (20, 75):
        asks = service.add("support", TASKS[3][1], turns=6, trouble="approval", labels={"ticket": str(48213 + age)})
        at = next(event.n for event in asks.log.events if isinstance(event, m.ApprovalRequested))
        _place(asks, -asks.log.events[at - 1].t - age, at)
    parent = service.add("coder", TASKS[7][1], turns=18, pace=3, trouble="child", run="r-tree")
    _place(parent, -parent.log.t * 0.6)
    for name in ("c", "d"):
        child = service.add("reader", "Read the changelog of one package", turns=8, pace=5, run=f"r-tree-{name}",
                            parent="r-tree", root="r-tree")  # fmt: skip
        _place(child, -8 if name == "c" else -500)
    hostile = service.add(HOSTILE, HOSTILE, turns=9, pace=8, trouble="hostile", labels={HOSTILE: HOSTILE})
    _place(hostile, -60)
    stopped = service.add("analyst", TASKS[2][1], turns=5, k=30)
    _place(stopped, -4000, 30)
    stopped.end("stopped", "loop")
    failed = service.add("auditor", TASKS[6][1], turns=5, k=20)
    _place(failed, -2000, 20)
    failed.end("failed", "model_unavailable")
    paused = service.add("migrator", TASKS[4][1], turns=8)
    _place(paused, -9)
    paused.now(m.Paused, reason="a word with the team first")
    queued = service.add("analyst", TASKS[5][1], turns=4, k=0)
    queued.log.began = time.time() + 3600
    return service


def _place(made: MadeUp, offset: float, k: int | None = None) -> None:
    """Let the run have begun so many seconds from now, and as many of its facts have happened as fit."""
    began = time.time() + offset
    made.log.events[:] = [msgspec.structs.replace(event, at=began + event.t) for event in made.log.events]
    made.log.began = began
    made.k = sum(event.t <= -offset for event in made.log.events) if k is None else k


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the page over made-up runs.")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    service = furnished(given.runs, given.token)
    server = serve(service, given.port)
    print(f"http://127.0.0.1:{server.server_port}/ with limits {LIMITS}")
    stop = threading.Event()
    try:
        service.play(stop)
    except KeyboardInterrupt:
        server.shutdown()


if __name__ == "__main__":
    main()
