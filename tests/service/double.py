"""A test double of the service: its public API over made-up runs, so that the page can be tried without a service.

``python -m service.double --runs 1000 --port 8000`` from ``tests/`` serves it, with runs that go on by themselves.
"""

from __future__ import annotations

import argparse
import json
import select
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

import watchkeeper
from service.office import BUDGETS, policies, workers
from service.pretended import MadeUp, Service, furnished, timeline
from watchkeeper import messages as m
from watchkeeper.service.gate import HEADERS

FILES = Path(watchkeeper.__file__).parent / "service" / "page"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


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
                self.reply(200, path.read_bytes(), TYPES[path.suffix], **{a.decode(): b.decode() for a, b in HEADERS})
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
                self.reply(200, workers(time.time()))
            case ["v1", "policies"]:
                self.reply(200, policies())
            case ["v1", "budgets"]:
                self.reply(200, {"budgets": BUDGETS})
            case ["v1", "tokens"]:
                self.reply(200, service.tokens.listed())
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
        """Until something has changed, or a moment; false when the stream is to end, or nobody reads it any more."""
        service = self.service
        with service.changed:
            service.changed.wait_for(lambda: service.version != version or service.dropped != dropped, 0.2)
        left = bool(select.select([self.connection], [], [], 0)[0])
        return service.dropped == dropped and not service.down and not left

    def stream(self, made: MadeUp, after: int, asked: dict[str, str]) -> None:
        dropped = self.service.dropped
        if asked.get("follow") == "false" or "ndjson" in self.headers.get("Accept", ""):
            lines = [m.encode_event(event) for event in made.log.events[after : made.k]]
            self.reply(200, b"\n".join(lines), "application/x-ndjson")
            return
        self.begin_stream()
        self.service.streams += 1
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
        finally:
            self.service.streams -= 1
            self.service.changes()

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
        except OSError:
            return

    # -- what is sent --------------------------------------------------------------------------------------------------

    def do_DELETE(self) -> None:
        self.service.sent.append(("DELETE", self.path, None))
        if self.path.startswith("/v1/tokens/"):
            self.service.tokens.kept.pop(self.path.removeprefix("/v1/tokens/"))
            self.reply(204, b"")
            return
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
            case ["tokens"]:
                token = service.tokens.make(body["name"], body["scopes"])
                if token is None:
                    self.problem(409, "Conflict", f"there is a token {body['name']} already")
                else:
                    self.reply(201, token)
            case ["runs"]:
                made = service.add(body["agent"], body["task"], k=0)
                self.reply(201, made.status)
            case ["stop-all"] | ["runs", "cancel"]:
                self.reply(200, service.stop_many(body))
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


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # of 5, a browser's sixth connection at once would be tried again after a second or more


def serve(service: Service, port: int = 0) -> ThreadingHTTPServer:
    """The double on localhost; ``server_port`` says where. Close it with ``shutdown`` and ``server_close``."""
    server = Server(("127.0.0.1", port), type("Bound", (Handler,), {"service": service}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the page over made-up runs.")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    service = furnished(given.runs, given.token)
    server = serve(service, given.port)
    print(f"http://127.0.0.1:{server.server_port}/")
    stop = threading.Event()
    try:
        service.play(stop)
    except KeyboardInterrupt:
        server.shutdown()


if __name__ == "__main__":
    main()
