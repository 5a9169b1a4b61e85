"""The engine behind a service: the port over HTTP, on asyncio and on trio. It needs no server's libraries.

It has the side of those who submit, look and steer. Leases and shared limits are for workers, which are on the
service's own machine.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import anyio
import msgspec

from ..engine import (
    AddBudget,
    Answered,
    AnyCommand,
    Approve,
    BudgetStanding,
    Cancel,
    Deny,
    EngineError,
    HandOver,
    Lease,
    Page,
    Pause,
    Query,
    Resume,
    RunSpec,
    RunStatus,
    Steer,
    Unavailable,
    UnknownBudget,
    UnknownRun,
    Unusable,
)
from ..errors import ConfigurationError
from ..journal.checks import check_name
from ..messages import Event, Gap, Mode, decode_event, mended
from ..states import State

if TYPE_CHECKING:
    import httpx2

SECONDS = 30.0
"""For a request to be answered; a service that only looks something up answers in milliseconds."""
AWAY = 15.0
"""Seconds for which a stream tries to come back to a service that has gone; a restart takes less."""
PINGED = 60.0
"""Seconds without a byte after which a stream is taken for dead: the service pings each 15."""
MANY = 10_000
"""Runs that one request cancels at most; the service takes twice as many."""
LONG = 25.0
"""Seconds of one long wait for an answer."""
LARGEST_LINE = 64 * 1024 * 1024
"""Bytes of one event: an end record holds the whole conversation."""

T = TypeVar("T")
_Params = tuple[tuple[str, str], ...]

_PATHS: dict[type[Any], str] = {
    Pause: "pause",
    Resume: "resume",
    Steer: "steer",
    AddBudget: "budget",
    HandOver: "hand-over",
    Cancel: "cancel",
}


class _StoppedRun(msgspec.Struct):
    run: str
    state: State


class _Stopped(msgspec.Struct):
    runs: tuple[_StoppedRun, ...]


class _Sent(msgspec.Struct):
    command: str


class _Problem(msgspec.Struct):
    type: str = ""
    title: str = ""
    detail: str = ""


class Refused(EngineError):
    """The service does not do it: the token is missing, not known or has not the scope, or what was sent cannot be.

    ``status`` is that of the response, ``problem`` the last part of the problem's type (``scope``, ``refused``, …) or
    empty.
    """

    def __init__(self, message: str, status: int, problem: str) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem


class Unreachable(Unavailable):
    """No service answers there."""


class HttpEngine:
    """``HttpEngine("unix:/path/api.sock")`` or ``HttpEngine("http://127.0.0.1:8700", token="wk_…")``.

    A stream whose line is cut goes on behind the last event that it has. On cancellation of a call it is not known
    whether the service has done it: with an id of one's own it may be asked again.
    """

    def __init__(self, url: str, *, token: str = "", transport: httpx2.AsyncBaseTransport | None = None) -> None:
        scheme, _, rest = url.partition(":")
        if scheme not in ("unix", "http", "https") or not rest.strip("/"):
            raise ConfigurationError(f"{url!r} is no address of a service: say unix:/PATH or http://HOST:PORT")
        self.url = url
        self._socket = rest if scheme == "unix" else None
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._transport = transport
        self._open = False
        self._client: httpx2.AsyncClient | None = None
        """Made when it is needed first: what is asked over the socket does without."""
        self.limits = _NoLimits()

    async def __aenter__(self) -> HttpEngine:
        self._open = True
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self._open = False
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # -- the port ------------------------------------------------------------------------------------------------------

    async def submit(self, spec: RunSpec, *, run: str = "") -> RunStatus:
        key = check_name("the id of a run", run) if run else ""
        return await self._ask("POST", "/v1/runs", RunStatus, body=spec, key=key)

    async def get(self, run: str) -> RunStatus:
        return await self._ask("GET", f"/v1/runs/{_part(run)}", RunStatus)

    async def list(self, query: Query) -> Page:
        if query.limit < 1:
            raise EngineError(f"a page has at least 1 run, not {query.limit}")
        params: list[tuple[str, str]] = [("state", state) for state in query.states]
        params += [("label", f"{quote(key, safe='')}:{value}") for key, value in query.labels.items()]
        params += [
            (name, value)
            for name, value in (("agent", query.agent), ("worker", query.worker), ("before", query.before))
            if value
        ]
        if query.parent is not None:
            params.append(("parent", query.parent))
        params.append(("limit", str(min(query.limit, 1_000))))
        return await self._ask("GET", "/v1/runs", Page, params=tuple(params))

    async def cancel(
        self, run: str, reason: str = "cancelled", mode: Mode = "now", *, by: str = "", id: str = ""
    ) -> None:
        body = {"reason": reason, "mode": mode}
        await self._ask("POST", f"/v1/runs/{_part(run)}/cancel", RunStatus, body=body, key=id or _new_id(), by=by)

    async def cancel_many(
        self, runs: Sequence[str], reason: str = "cancelled", mode: Mode = "now", *, by: str = "", wait: float = 0.0
    ) -> frozenset[str]:
        """Cancel many runs by one request, beyond what the port asks of an engine: those of them that have ended when
        it is answered. That is when the cancels are durable, or with ``wait`` when all have ended or so many seconds
        are over, at most 60. Runs that have a parent or are not there are left as they are."""
        ended: set[str] = set()
        wait = min(wait, 60.0)
        for start in range(0, len(runs), MANY):
            body = {"filter": {"runs": runs[start : start + MANY]}, "reason": reason, "mode": mode, "wait": wait}
            path, seconds = "/v1/runs/cancel", SECONDS + wait
            found = await self._ask("POST", path, _Stopped, body=body, by=by, seconds=seconds)
            ended.update(one.run for one in found.runs if one.state == "ended")
        return frozenset(ended)

    async def send(self, run: str, command: AnyCommand) -> str:
        command = msgspec.structs.replace(command, id=command.id or _new_id())
        if isinstance(command, Approve | Deny):
            return await self._decide(run, command)
        fields = msgspec.to_builtins(command)
        body = {name: value for name, value in fields.items() if name not in ("do", "id", "by", "run")}
        path = f"/v1/runs/{_part(run)}/{_PATHS[type(command)]}"
        if isinstance(command, Cancel):
            await self._ask("POST", path, RunStatus, body=body, key=command.id, by=command.by)
            return command.id
        return (await self._ask("POST", path, _Sent, body=body, key=command.id, by=command.by)).command

    async def _decide(self, run: str, command: Approve | Deny) -> str:
        body: dict[str, Any] = {"run": run, "decision": "approve" if isinstance(command, Approve) else "deny"}
        if isinstance(command, Approve):
            body |= {"arguments_hash": command.arguments_hash, "scope": command.scope, "pattern": command.pattern}
        else:
            body["reason"] = command.reason
        path = f"/v1/approvals/{_part(command.approval)}"
        wait = (("wait", "0"),)
        return (await self._ask("POST", path, _Sent, body=body, key=command.id, by=command.by, params=wait)).command

    async def answered(self, run: str, command: str) -> Answered:
        path = f"/v1/runs/{_part(run)}/commands/{_part(command)}"
        while True:
            try:
                return await self._ask("GET", path, Answered, params=(("wait", f"{LONG:g}"),), seconds=LONG + SECONDS)
            except Refused as error:
                if error.problem != "not-answered":
                    raise

    async def watch(self, run: str, after: int = 0) -> AsyncIterator[Event | Gap]:
        last = max(after, 0)
        lost: float | None = None
        while True:
            try:
                async for item in self._stream(run, last):
                    if item is None:
                        return
                    lost = None
                    last = item.last if isinstance(item, Gap) else item.n
                    yield item
                failed: EngineError | None = None
            except Unreachable as error:
                failed = error
            # The line was cut: by a service that closes, one that found us slow, or the network.
            now = anyio.current_time()
            lost = now if lost is None else lost
            if failed is not None and now - lost > AWAY:
                raise failed
            await anyio.sleep(random.uniform(0.05, 0.5))  # noqa: S311 -- spreads those that come back

    async def _stream(self, run: str, after: int) -> AsyncIterator[Event | Gap | None]:
        """What one connection brings: facts, gaps, None for the end of the run; it just ends where the line is cut."""
        import httpx2

        client = self._opened()
        try:
            async with client.stream(
                "GET",
                f"/v1/runs/{_part(run)}/events",
                params={"after": str(after)},
                headers={"Accept": "application/x-ndjson"},
                timeout=httpx2.Timeout(SECONDS, read=PINGED),
            ) as response:
                if response.status_code != 200:
                    raise self._error(response.status_code, await response.aread())
                rest = b""
                async for chunk in response.aiter_bytes():
                    *lines, rest = (rest + chunk).split(b"\n")
                    if len(rest) > LARGEST_LINE:
                        raise EngineError(f"{self.url} sends an event of more than {LARGEST_LINE} bytes")
                    for line in lines:
                        if line:
                            item = _item(line)
                            if isinstance(item, str):
                                if item == "end":
                                    yield None
                                    return
                                raise Unreachable(f"{self.url} has cut the stream of run {run}: {item}")
                            yield item
        except httpx2.TransportError as error:
            raise Unreachable(self._told(error)) from error

    def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        raise EngineError("runs are executed on the service's own machine: an engine over HTTP gives no leases")

    # -- requests ------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._open:
            raise Unavailable("this engine is not open: use it within `async with HttpEngine(…) as engine`")

    def _opened(self) -> httpx2.AsyncClient:
        import httpx2

        self._check_open()
        if self._client is None:
            transport = self._transport or httpx2.AsyncHTTPTransport(
                uds=self._socket, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20)
            )
            self._client = httpx2.AsyncClient(
                base_url="http://localhost" if self._socket else self.url,
                headers=self._headers,
                timeout=httpx2.Timeout(SECONDS, connect=5.0),
                transport=transport,
                trust_env=False,
                follow_redirects=False,
            )
        return self._client

    async def _ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        body: object = None,
        key: str = "",
        by: str = "",
        params: _Params = (),
        seconds: float = SECONDS,
    ) -> T:
        self._check_open()
        headers = {"Idempotency-Key": quote(key, safe="")} if key else {}
        if by:
            headers["Watchkeeper-By"] = quote(by, safe="", errors="replace")
        content = b""
        if body is not None:
            content = _encoded(body)
            headers["Content-Type"] = "application/json"
        by_hand = self._socket is not None and self._transport is None
        exchange = self._by_hand if by_hand else self._by_library
        status, answer = await exchange(method, path, params, headers, content, seconds)
        if not 200 <= status < 300:
            raise self._error(status, answer)
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.DecodeError as error:
            raise EngineError(f"{self.url} answers something else than a service does: {error}") from error

    async def _by_hand(
        self, method: str, path: str, params: _Params, headers: dict[str, str], content: bytes, seconds: float
    ) -> tuple[int, bytes]:
        from .exchange import exchange

        target = f"{path}?{urlencode(params)}" if params else path
        assert self._socket is not None
        try:
            return await exchange(self._socket, method, target, self._headers | headers, content, seconds)
        except OSError as error:
            raise Unreachable(self._told(error)) from error

    async def _by_library(
        self, method: str, path: str, params: _Params, headers: dict[str, str], content: bytes, seconds: float
    ) -> tuple[int, bytes]:
        import httpx2

        client = self._opened()
        try:
            response = await client.request(
                method, path, content=content or None, headers=headers, params=params, timeout=seconds
            )
        except httpx2.TransportError as error:
            raise Unreachable(self._told(error)) from error
        return response.status_code, response.content

    def _told(self, error: Exception) -> str:
        return f"no service answers at {self.url}: {error or type(error).__name__}; start one with `watchkeeper serve`"

    def _error(self, status: int, body: bytes) -> EngineError:
        try:
            problem = msgspec.json.decode(body, type=_Problem)
        except msgspec.DecodeError:
            return EngineError(f"{self.url} answers {status} without a reason")
        name = problem.type.rpartition(":")[2] if problem.type.startswith("urn:watchkeeper:") else ""
        told = (problem.detail or problem.title or f"status {status}")[:2_000]
        if name == "unknown-run":
            return UnknownRun(told)
        if name == "unknown-budget":
            return UnknownBudget(told)
        if status >= 500 and name != "draining":
            if not name:
                return Unreachable(f"{self.url}: {told}")
            return Unavailable(told) if status == 503 else Unusable(told)
        return Refused(told, status, name)


class _NoLimits:
    """Shared budgets are the workers' affair."""

    async def define(self, budget: str, amounts: Mapping[str, float]) -> None:
        raise EngineError(_NO_LIMITS)

    async def left(self, budget: str) -> dict[str, float]:
        raise EngineError(_NO_LIMITS)

    async def standing(self) -> list[BudgetStanding]:
        raise EngineError(_NO_LIMITS)


_NO_LIMITS = (
    "shared budgets are kept on the service's own machine: an engine over HTTP does not reach them; GET /v1/budgets "
    "tells how they stand"
)


def _item(line: bytes) -> Event | Gap | str:
    """A fact, a gap, or the name of what is no fact. Raises :class:`EngineError` for what is none of these."""
    try:
        if line.startswith(b'{"gap":'):
            gap = msgspec.json.decode(line, type=dict[str, dict[str, int]])["gap"]
            return Gap(gap["first"], gap["last"])
        for name in ("end", "cut", "closing"):
            if line.startswith(b'{"%b":' % name.encode()):
                return name
        if line.startswith(b'{"error":'):
            raise EngineError(msgspec.json.decode(line, type=dict[str, dict[str, str]])["error"]["detail"])
        return decode_event(line)
    except (msgspec.DecodeError, KeyError) as error:
        raise EngineError(f"the service sends what is no event: {error}") from error


def _encoded(body: object) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(mended(msgspec.to_builtins(body)))


def _new_id() -> str:
    return f"c-{secrets.token_hex(12)}"


def _part(name: str) -> str:
    """A name as one part of a path. The empty one and the two that mean folders can be no run's."""
    if name in ("", ".", "..") or "/" in name or len(name) > 1_000:
        raise UnknownRun(f"there is no {name[:100]!r}: it is empty, too long, or has a slash")
    return quote(name, safe="")
