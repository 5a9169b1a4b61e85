"""A service with runs that stand in known ways, and requests as they come over the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from watchkeeper.engine import AnyCommand, Lease, RunSpec, RunStatus
from watchkeeper.journal import MemoryEngine
from watchkeeper.messages import ApprovalRequested, CallStarted
from watchkeeper.service.access import Door, Right
from watchkeeper.service.app import Service
from watchkeeper.service.tokens import NameTaken, Token, mint
from watchkeeper.testing.conformance.ground import Facts

HOST = "watch.example:8700"
ORIGIN = f"http://{HOST}"
HASH = "a" * 64


class Stored:
    """A store of tokens in memory, with one for each scope; ``secrets`` are theirs, by name."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self.kept: list[Token] = []
        scopes: tuple[Right, ...] = ("read", "run", "approve", "admin")
        for number, scope in enumerate(scopes):
            secret, token = mint(scope, [scope], bytes([number + 1]) * 32, 0.0)
            self.secrets[scope] = secret
            self.kept.append(token)

    def tokens(self) -> list[Token]:
        return list(self.kept)

    def add_token(self, token: Token) -> None:
        if any(token.name == one.name for one in self.kept):
            raise NameTaken(f"there is a token {token.name} already")
        self.kept.append(token)

    def remove_token(self, name: str) -> bool:
        before = len(self.kept)
        self.kept = [token for token in self.kept if token.name != name]
        return len(self.kept) < before


class Reply(msgspec.Struct):
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name]
        return found[0] if found else None

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def knock(
    app: Any,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes | Iterable[bytes] = b"",
    *,
    scheme: str = "http",
) -> Reply:
    """One request, sent as it is written: nothing is made sound on the way."""
    path, _, query = target.partition("?")
    pieces = [body] if isinstance(body, bytes) else list(body)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "server": ("127.0.0.1", 8700),
        "client": ("127.0.0.1", 50000),
        "root_path": "",
        "state": {},
    }
    reply = Reply(0, [], b"")
    done = anyio.Event()

    async def receive() -> dict[str, Any]:
        if pieces:
            piece = pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}
        await done.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
        else:
            reply.body += message.get("body", b"")
            if not message.get("more_body"):
                done.set()

    with anyio.fail_after(10):
        await app(scope, receive, send)
    return reply


class Noting(MemoryEngine):
    """Notes each request that would change something."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[object] = []

    async def submit(self, spec: RunSpec, *, run: str = "") -> RunStatus:
        self.asked.append((spec, run))
        return await super().submit(spec, run=run)

    async def cancel(self, run: str, *said: Any, **more: Any) -> None:
        self.asked.append((run, said, more))
        await super().cancel(run, *said, **more)

    async def send(self, run: str, command: AnyCommand) -> str:
        self.asked.append((run, command))
        return await super().send(run, command)


class Standing:
    """Run ``one`` is at work at a call and waits for an approval; ``two`` waits in the queue."""

    def __init__(self, engine: Noting, service: Service, store: Stored, lease: Lease, facts: Facts) -> None:
        self.engine = engine
        self.service = service
        self.store = store
        self.lease = lease
        self.facts = facts
        self.tcp = service.door(Door(hosts=frozenset({HOST})))
        self.local = service.door(Door(local=True))

    async def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        token: str = "admin",
        headers: Iterable[tuple[str, str]] = (),
    ) -> Reply:
        """Over TCP with the token of that name."""
        sent = [("host", HOST), ("authorization", f"Bearer {self.store.secrets[token]}"), *headers]
        content = b""
        if body is not None:
            content = body if isinstance(body, bytes) else msgspec.json.encode(body)
            sent += [("content-type", "application/json"), ("content-length", str(len(content)))]
        return await knock(self.tcp, method, target, sent, content)

    def seen(self) -> object:
        """All that has been asked of the engine, the sessions that are open, and the tokens."""
        return list(self.engine.asked), len(self.service.desk.sessions._open), self.store.tokens()


@asynccontextmanager
async def standing(**settings: Any) -> AsyncIterator[Standing]:
    store, engine = Stored(), Noting()
    async with engine, Service(engine, tokens=store, **settings) as service:
        await engine.submit(RunSpec(agent="clerk", task="File the letters", labels={"team": "a"}), run="one")
        lease = await anext(aiter(engine.leases(lambda: 1)))
        facts = Facts("one")
        await lease.append(
            [
                *facts.start(),
                *facts.turn(1, slots=2),
                facts.make(CallStarted, turn=2, slot=1, call_id="c2.1", tool="post"),
                facts.make(
                    ApprovalRequested,
                    turn=2,
                    slot=2,
                    approval="a1",
                    call_id="c2.2",
                    tool="burn",
                    arguments='{"what":"letters"}',
                    arguments_hash=HASH,
                    seconds=600.0,
                    why="it cannot be undone",
                ),
            ]
        )
        await engine.submit(RunSpec(agent="clerk", task="Wait"), run="two")
        yield Standing(engine, service, store, lease, facts)
