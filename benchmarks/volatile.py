"""What real tools put into arguments and results that is new each time and says nothing. Pure and seeded.

Modelled on what kubectl, pytest, cargo, npm, curl, docker, git, ps, SQL clients and HTTP JSON APIs print; written down
before and without a look at what the watchdog masks.
"""

from __future__ import annotations

import base64
import json
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from outputs import OUTPUTS
from watchkeeper.cli.recorded import Step

KEPT = 4096
ROOM = 400
"""Characters that an addition may need: fuller results get theirs where a record still shows it."""


class Moment:
    """Time and chance at one call: what differs from call to call, and some that only grows."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.at = rng.uniform(1_690_000_000, 1_790_000_000)
        self.count = rng.randrange(1, 40)
        self.pid = rng.randrange(300, 60_000)
        self.left = rng.randrange(200, 5000)
        self.since = self.at - rng.uniform(40, 400_000)

    def pass_on(self) -> None:
        self.at += self.rng.choice((0.4, 2.0, 7.0, 31.0)) * self.rng.uniform(0.6, 1.6)
        self.count += 1
        self.pid += self.rng.randrange(1, 60)
        self.left -= self.rng.randrange(1, 4)

    def told(self, form: str) -> str:
        return time.strftime(form, time.gmtime(self.at))

    @property
    def ms(self) -> int:
        return int(self.at * 1000) % 1000

    def hex(self, digits: int) -> str:
        return f"{self.rng.getrandbits(digits * 4):0{digits}x}"

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def text(self, length: int, alphabet: str = "abcdefghijklmnopqrstuvwxyz0123456789") -> str:
        return "".join(self.rng.choices(alphabet, k=length))

    def blob(self, size: int) -> str:
        return base64.urlsafe_b64encode(self.rng.randbytes(size)).decode().rstrip("=")

    def age(self) -> str:
        seconds = int(self.at - self.since)
        if seconds < 120:
            return f"{seconds}s"
        if seconds < 3 * 3600:
            return f"{seconds // 60}m{seconds % 60}s"
        return f"{seconds // 3600}h{seconds // 60 % 60}m"


Made = Callable[[Moment], str]

TIMES: tuple[Made, ...] = (
    lambda m: f"{m.told('%Y-%m-%dT%H:%M:%S')}Z",
    lambda m: f"{m.told('%Y-%m-%dT%H:%M:%S')}.{m.ms:03}Z",
    lambda m: f"{m.told('%Y-%m-%dT%H:%M:%S')}.{m.ms:03}{m.rng.randrange(1000):03}+00:00",
    lambda m: f"{m.told('%Y-%m-%d %H:%M:%S')},{m.ms:03}",
    lambda m: m.told("%Y-%m-%d %H:%M:%S"),
    lambda m: f"[{m.told('%d/%b/%Y:%H:%M:%S')} +0000]",
    lambda m: m.told("%a, %d %b %Y %H:%M:%S GMT"),
    lambda m: m.told("%b %d %H:%M:%S"),
    lambda m: m.told("%a %b %d %H:%M:%S UTC %Y"),
    lambda m: m.told("%m/%d/%Y, %I:%M:%S %p"),
    lambda m: f"{m.told('%Y%m%dT%H%M%S')}Z",
)
CLOCKS: tuple[Made, ...] = (
    lambda m: f"Current time: {m.told('%H:%M:%S')}",
    lambda m: f"[{m.told('%H:%M:%S')}] ready",
    lambda m: (
        f" {m.told('%H:%M:%S')} up 12 days,  3:{m.count % 60:02},  2 users,  load average: "
        f"{m.rng.uniform(0, 3):.2f}, {m.rng.uniform(0, 3):.2f}, {m.rng.uniform(0, 3):.2f}"
    ),
    lambda m: f"Last checked at {m.told('%I:%M:%S %p').lstrip('0').lower()}",
    lambda m: f"Started {m.age()} ago",
)
DURATIONS: tuple[Made, ...] = (
    lambda m: f"in {m.rng.uniform(0.01, 9):.2f}s",
    lambda m: f"Finished in {m.rng.uniform(0.01, 4):.5f} seconds",
    lambda m: f"took {m.rng.randrange(3, 2500)} ms",
    lambda m: f"real\t0m{m.rng.uniform(0.01, 9):.3f}s\nuser\t0m{m.rng.uniform(0.01, 3):.3f}s",
    lambda m: f"Ran 12 tests in {m.rng.uniform(0.001, 2):.3f}s",
    lambda m: f"(elapsed: 00:00:{m.rng.uniform(1, 40):09.6f})",
    lambda m: f"1 row in set ({m.rng.uniform(0, 0.4):.2f} sec)",
    lambda m: f"Time: {m.rng.uniform(0.2, 400):.3f} ms",
    lambda m: f"Done in {m.rng.choice(('', '1m '))}{m.rng.uniform(1, 50):.1f}s.",
    lambda m: f"Duration: {m.rng.randrange(100, 999)}µs",
)
IDS: tuple[Made, ...] = (
    Moment.uuid,
    lambda m: m.uuid().upper(),
    lambda m: m.uuid().replace("-", ""),
    lambda m: f"01J{m.text(23, '0123456789ABCDEFGHJKMNPQRSTVWXYZ')}",
    lambda m: f"req_{m.text(24, 'ABCDEFGHijklmnop0123456789xyzXYZ')}",
    lambda m: f"chatcmpl-{m.text(29, 'ABCDEFGHijklmnop0123456789xyzXYZ')}",
)
LINES: dict[str, tuple[Made, ...]] = {
    "time": (
        lambda m: ("as of ", "", "Generated: ", "timestamp=", "Date: ")[int(m.since) % 5] + _same(TIMES, m),
        lambda m: f"{_same(TIMES, m)} INFO  worker ready",
    ),
    "epoch": (
        lambda m: f"ts={int(m.at)}",
        lambda m: f"generated at {int(m.at * 1000)}",
        lambda m: f"{m.at:.6f} snapshot taken",
    ),
    "clock": CLOCKS,
    "duration": DURATIONS,
    "uuid": (
        lambda m: f"run id: {_same(IDS, m)}",
        lambda m: f"session={_same(IDS, m)} opened",
        lambda m: f"Trace: {_same(IDS, m)}",
    ),
    "address": (
        lambda m: f"<app.db.Session object at 0x7f{m.hex(10)}>",
        lambda m: f"<function handler at 0x{m.hex(12)}>",
        lambda m: f"goroutine 1 [running]: main.main() /app/main.go:41 +0x{m.hex(3)} fp=0xc000{m.hex(6)}",
        lambda m: f"java.lang.Object@{m.hex(7)}",
    ),
    "pid": (
        lambda m: f"[{m.pid}] worker started",
        lambda m: f"INFO (pid {m.pid}): listening",
        lambda m: f"app[{m.pid}]: healthy",
        lambda m: f"+ {m.pid} pts/0    00:00:00 bash",
    ),
    "port": (
        lambda m: f"listening on http://127.0.0.1:{m.rng.randrange(32768, 60999)}/",
        lambda m: f"connection from 10.0.3.7:{m.rng.randrange(32768, 60999)} closed",
        lambda m: f"Debugger port {m.rng.randrange(32768, 60999)}",
    ),
    "temporary path": (
        lambda m: f"wrote /tmp/tmp{m.text(8)}/out.json",
        lambda m: f"rootdir: /tmp/pytest-of-user/pytest-{m.count}",
        lambda m: f"log: /var/folders/9k/{m.text(30)}/T/build-{m.text(6)}.log",
        lambda m: f"Full report at /tmp/npm-{m.pid}-{m.hex(8)}/debug-0.log",
        lambda m: f"C:\\Users\\dev\\AppData\\Local\\Temp\\tmp{m.text(8)}.txt",
    ),
    "request id": (
        lambda m: f"x-request-id: {_same(IDS, m)}",
        lambda m: f"cf-ray: {m.hex(16)}-FRA",
        lambda m: f"X-Amzn-Trace-Id: Root=1-{int(m.at):08x}-{m.hex(24)}",
        lambda m: f"X-Request-Id: {m.text(22, 'ABCDEFGHijklmnop0123456789xyzXYZ')}",
        lambda m: f"traceparent: 00-{m.hex(32)}-{m.hex(16)}-01",
    ),
    "etag": (
        lambda m: f'ETag: W/"{m.hex(3)}-{m.blob(20)}"',
        lambda m: f'etag: "{m.hex(32)}"\nage: {m.rng.randrange(300)}',
        lambda m: f"Set-Cookie: session={m.blob(24)}; Path=/; HttpOnly",
    ),
    "counter": (
        lambda m: f"attempt {m.count}",
        lambda m: f"request #{m.count} served",
        lambda m: f"X-RateLimit-Remaining: {m.left}",
        lambda m: f"(call {m.count} of this session)",
    ),
    "cursor": (
        lambda m: f"next page token: {m.blob(30)}",
        lambda m: f"cursor={m.blob(18)}==",
        lambda m: f"<!-- csrf {m.blob(33)} -->",
    ),
    "colours": (
        lambda m: f"\x1b[{m.rng.choice((31, 32, 33, 36))}m●\x1b[0m building",
        lambda m: "".join(f"\r\x1b[K{'⠋⠙⠹⠸⠼⠴'[n % 6]} resolving" for n in range(m.rng.randrange(1, 8))) + "\r\x1b[K",
        lambda m: f"\x1b[2K\x1b[1G\x1b[{m.rng.choice(('1', '2', '22'))}mprogress\x1b[{m.rng.choice(('0', '39'))}m",
    ),
    "gauge": (
        lambda m: f"MemAvailable:   {m.rng.randrange(10_000_000, 16_000_000)} kB",
        lambda m: f"cpu {m.rng.uniform(0, 100):.1f}% mem {m.rng.uniform(20, 60):.1f}%",
        lambda m: f"/dev/sda1  98G  {m.rng.uniform(40, 42):.1f}G used",
    ),
}
"""By kind, the lines that tools print into plain text."""

FIELDS: dict[str, tuple[tuple[str, Callable[[Moment], Any]], ...]] = {
    "time": (
        ("timestamp", lambda m: _same(TIMES[:5], m)),
        ("generated_at", lambda m: _same(TIMES[:5], m)),
        ("lastSeen", lambda m: _same(TIMES[:3], m)),
        ("now", lambda m: _same(TIMES, m)),
    ),
    "epoch": (("ts", lambda m: int(m.at)), ("serverTime", lambda m: int(m.at * 1000)), ("time", lambda m: m.at)),
    "clock": (("clock", lambda m: m.told("%H:%M:%S")), ("uptime", lambda m: f"{m.at - m.since:.0f}s")),
    "duration": (
        ("elapsedMs", lambda m: m.rng.randrange(2, 4000)),
        ("took", lambda m: m.rng.randrange(2, 400)),
        ("duration", lambda m: f"{m.rng.uniform(0.01, 4):.3f}s"),
        ("query_time", lambda m: round(m.rng.uniform(0.001, 0.9), 6)),
    ),
    "uuid": (("id", lambda m: _same(IDS, m)), ("message_id", Moment.uuid), ("runId", lambda m: _same(IDS, m))),
    "address": (("repr", lambda m: f"<Job at 0x7f{m.hex(10)}>"),),
    "pid": (("pid", lambda m: m.pid), ("worker", lambda m: f"worker-{m.pid}")),
    "port": (("port", lambda m: m.rng.randrange(32768, 60999)), ("peer", lambda m: f"10.1.0.4:{m.pid + 1024}")),
    "temporary path": (
        ("output_file", lambda m: f"/tmp/tmp{m.text(8)}/r.json"),
        ("workdir", lambda m: f"/tmp/w-{m.hex(6)}"),
    ),
    "request id": (
        ("request_id", lambda m: _same(IDS, m)),
        ("requestId", lambda m: m.text(16)),
        ("correlation_id", lambda m: m.hex(16)),
    ),
    "etag": (
        ("etag", lambda m: f'"{m.hex(32)}"'),
        ("version", lambda m: m.hex(8)),
        ("consistency_token", lambda m: m.blob(20)),
    ),
    "counter": (("attempt", lambda m: m.count), ("seq", lambda m: m.count), ("rateLimitRemaining", lambda m: m.left)),
    "cursor": (("next_cursor", lambda m: m.blob(30)), ("pageToken", lambda m: m.blob(18))),
    "colours": (("log", lambda m: f"\x1b[{m.rng.choice((31, 32, 33))}mok\x1b[0m"),),
    "gauge": (("load", lambda m: round(m.rng.uniform(0, 4), 2)), ("rss", lambda m: m.rng.randrange(90_000, 99_000))),
}
"""By kind, the fields that tools put into JSON."""

PLACES = ("head", "middle", "tail", "in a line", "each line")
PREFIXES = frozenset(("time", "epoch", "clock", "pid", "request id", "uuid", "counter"))
"""Kinds that loggers put before each line."""
SHAPES = ("head", "tail", "nested", "headers")


def _same(choices: tuple[Made, ...], moment: Moment) -> str:
    """One and the same of the forms all through a splice: a tool does not change its format."""
    return choices[int(moment.since) % len(choices)](moment)


class VolatileResults:
    """Makes laps whose results are those of the record, but for something that is new each time."""

    def __init__(self, body: list[Step], rng: random.Random, *, whole_outputs: bool = True) -> None:
        self._moment = Moment(rng)
        self._body = body
        kinds = list(LINES)
        kind = rng.choice([*kinds, *["tool output"] * 4 * whole_outputs, *["several"] * 2])
        self._make: list[Callable[[str], str]] = []
        if kind == "tool output":
            name = rng.choice(sorted(OUTPUTS))
            self._body = [OUTPUTS[name].call(call, number) for number, call in enumerate(body)]
            self._make = [OUTPUTS[name].maker(self._moment, rng.getrandbits(32)) for _ in body]
            self.variant = f"{kind}: {name}"
            return
        chosen = rng.sample(kinds, 3) if kind == "several" else [kind]
        place, shape = rng.choice(PLACES), rng.choice(SHAPES)
        if place == "each line" and not PREFIXES.issuperset(chosen):
            place = "middle"
        self.variant = f"{kind}, {place}" if kind != "several" else f"{' and '.join(chosen)}, {place}"
        self._make = [_adding(chosen, place, shape, self._moment, rng) for _ in body]

    def lap(self) -> Iterator[tuple[Step, str]]:
        for call, make in zip(self._body, self._make, strict=True):
            self._moment.pass_on()
            yield call, make(call.result if isinstance(call.result, str) else json.dumps(call.result))


def _adding(kinds: list[str], place: str, shape: str, moment: Moment, rng: random.Random) -> Callable[[str], str]:
    lines = [rng.choice(LINES[kind]) for kind in kinds]
    fields = [rng.choice(FIELDS[kind]) for kind in kinds]
    spot = rng.random()

    def added(text: str) -> str:
        if text[:1] in "[{" and shape != "headers":
            values = {name: make(moment) for name, make in fields}
            with_fields = _in_json(text, values, shape)
            if with_fields is not None:
                return with_fields
        told = [make(moment) for make in lines]
        return _in_text(text, told, place, spot)

    return added


def _in_text(text: str, told: list[str], place: str, spot: float) -> str:
    """The text with these lines at the place; ``spot`` says where in the middle."""
    rows = text.split("\n")
    at = int(spot * min(len(rows), 12))
    if len(text) + ROOM > KEPT and (place == "tail" or len("\n".join(rows[: at + 1])) + ROOM > KEPT):
        place = "head"
    if place == "each line" and "\n" not in "".join(told):
        return "\n".join(f"{' '.join(told)} {row}" for row in rows)
    if place == "in a line":
        rows[at] = f"{rows[at]} {' '.join(told)}".replace("\n", " ")
        return "\n".join(rows)
    if place == "middle" and len(rows) > 1:
        return "\n".join((*rows[: at + 1], *told, *rows[at + 1 :]))
    if place == "head":
        return "\n".join((*told, text))
    return "\n".join((text.rstrip("\n"), *told))


def _in_json(text: str, values: dict[str, Any], shape: str) -> str | None:
    """The JSON text with these fields, formatted as it was; None if it is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, list):
        value = {"items": value}
    if not isinstance(value, dict):
        return None
    inner = value.get("content")
    if isinstance(inner, list) and inner and isinstance(inner[0], dict) and isinstance(inner[0].get("text"), str):
        deeper = _in_json(inner[0]["text"], values, shape)  # JSON within a string within JSON, as tool servers send it
        if deeper is not None:
            value = {**value, "content": [{**inner[0], "text": deeper}, *inner[1:]]}
            return json.dumps(value)
    values = {f"x_{name}" if name in value else name: made for name, made in values.items()}
    if shape == "nested":
        value = {**value, "_meta" if "meta" in value else "meta": {"status": "ok", **values}}
    elif shape == "head":
        value = {**values, **value}
    else:
        value = {**value, **values}
    return json.dumps(value, indent=2 if "\n" in text else None)


# -- arguments -------------------------------------------------------------------------------------------------------


Change = Callable[[dict[str, Any]], dict[str, Any]]


class VolatileArguments:
    """Makes laps whose calls mean the same, with arguments that are written differently each time."""

    def __init__(self, body: list[Step], rng: random.Random) -> None:
        self._moment = Moment(rng)
        self._body = body
        shell = ["shell"] * 3 if any(_command_of(call) for call in body) else []
        fitting = [*(name for name in CHANGES if name != "shell"), *shell]
        self.variant = rng.choice(fitting)
        self._changes = [CHANGES[self.variant](self._moment, call) for call in body]

    def lap(self) -> list[Step]:
        calls = []
        for call, change in zip(self._body, self._changes, strict=True):
            self._moment.pass_on()
            args = dict(call.args) if isinstance(call.args, dict) else {"input": call.args}
            calls.append(msgspec.structs.replace(call, args=change(args)))
        return calls


def _command_of(call: Step) -> str | None:
    args = call.args if isinstance(call.args, dict) else {}
    return next((name for name in ("command", "cmd", "script") if isinstance(args.get(name), str)), None)


def _turning(m: Moment, choices: Sequence[Any]) -> Callable[[], Any]:
    """One of the choices at random, never the same twice in a row."""
    last: list[int] = []

    def turn() -> Any:
        at = m.rng.choice([at for at in range(len(choices)) if at not in last])
        last[:] = [at]
        return choices[at]

    return turn


def _id_field(m: Moment, call: Step) -> Change:
    name = m.rng.choice(
        ("request_id", "requestId", "nonce", "trace_id", "idempotency_key", "correlationId", "session", "client_ref")
    )
    make: Callable[[Moment], Any] = m.rng.choice(
        (*IDS, lambda m: m.hex(16), lambda m: m.rng.getrandbits(40), lambda m: m.text(8))
    )
    nested = m.rng.choice((None, None, "_meta", "context", "metadata"))
    if nested:
        return lambda args: {**args, nested: {"source": "agent", name: make(m)}}
    return lambda args: {**args, name: make(m)}


def _time_field(m: Moment, call: Step) -> Change:
    name = m.rng.choice(("timestamp", "ts", "now", "requested_at", "clientTime", "date"))
    make: Callable[[Moment], Any] = m.rng.choice(
        (*TIMES, lambda m: int(m.at), lambda m: int(m.at * 1000), lambda m: m.at)
    )
    return lambda args: {**args, name: make(m)}


def _window(m: Moment, call: Step) -> Change:
    start, end = m.rng.choice((("since", "until"), ("from", "to"), ("start_time", "end_time"), ("after", None)))
    numeric, span = m.rng.random() < 0.4, m.rng.choice((300, 3600, 86400))

    def told(at: float) -> Any:
        return int(at) if numeric else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))

    return lambda args: {**args, start: told(m.at - span), **({end: told(m.at)} if end else {})}


def _limit(m: Moment, call: Step) -> Change:
    name = m.rng.choice(("limit", "max_results", "page_size", "timeout", "timeout_ms", "maxBytes", "n"))
    scale = m.rng.choice((1, 10, 1000))
    return lambda args: {**args, name: m.rng.randrange(1, 60) * scale}


def _spaces(m: Moment, call: Step) -> Change:
    def change(args: dict[str, Any]) -> dict[str, Any]:
        texts = [name for name, value in args.items() if isinstance(value, str)]
        if not texts:
            args, texts = {**args, "query": "open items"}, ["query"]
        name = m.rng.choice(texts)
        blank = " " * m.rng.randrange(0, 4) + m.rng.choice(("", "\n", "\t", ""))
        front = " " * m.rng.randrange(0, 3)
        return {**args, name: f"{front}{args[name]}{blank}"}

    return change


def _key_order(m: Moment, call: Step) -> Change:
    def change(args: dict[str, Any]) -> dict[str, Any]:
        pairs = list({**args, "verbose": False, "format": "json", "options": {"deep": True, "all": False}}.items())
        m.rng.shuffle(pairs)
        return dict(pairs)

    return change


def _numbers(m: Moment, call: Step) -> Change:
    name = m.rng.choice(("page", "limit", "depth", "offset"))
    value = _turning(m, m.rng.choice(((1, 1.0), (10, 10.0, "10"), (0, -0.0, 0.0), (25, 25.0), ("1", 1))))
    form = _turning(m, (int, float))
    numeric = [key for key, value in _fields(call) if type(value) is int]
    if numeric:
        return lambda args: {**args, **dict(zip(numeric, map(form(), (args[key] for key in numeric)), strict=True))}
    return lambda args: {**args, name: value()}


def _fields(call: Step) -> list[tuple[str, Any]]:
    return list(call.args.items()) if isinstance(call.args, dict) else []


def _path_forms(m: Moment, call: Step) -> Change:
    def forms(path: str) -> list[str]:
        head, _, tail = path.rpartition("/")
        found = [path, f"./{path}", f"././{path}", f"{path}/", f"./x/../{path}"]
        found += [f"{head}/./{tail}", f"{head}//{tail}", f"{head}/x/../{tail}"] if head else [f"x/../{tail}"]
        return [form for form in found if not (path.startswith("/") and form.startswith("."))]

    own = {key: _turning(m, forms(value)) for key, value in _fields(call) if _is_path(value)}
    if not own:
        own = {m.rng.choice(("path", "file", "file_path", "cwd")): _turning(m, forms("src/app/handlers/orders.py"))}
    return lambda args: {**args, **{key: form() for key, form in own.items()}}


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and "/" in value and 3 < len(value) < 200 and not any(c in value for c in " \n'\"(|")


def _temporary(m: Moment, call: Step) -> Change:
    name = m.rng.choice(("output", "out_file", "save_to", "workdir"))
    make = m.rng.choice(
        (lambda: f"/tmp/tmp{m.text(8)}", lambda: f"/tmp/run-{m.hex(6)}/out.json", lambda: f"/tmp/{int(m.at)}.log")
    )
    return lambda args: {**args, name: make()}


def _json_text(m: Moment, call: Step) -> Change:
    name = m.rng.choice(("payload", "body", "filter", "input"))

    def change(args: dict[str, Any]) -> dict[str, Any]:
        pairs = list({**args, "active": True, "page": 1}.items())
        m.rng.shuffle(pairs)
        return {
            name: json.dumps(
                dict(pairs),
                indent=m.rng.choice((None, 1, 2, 4)),
                separators=m.rng.choice((None, (", ", ":"), (",", " : "))),
            )
        }

    return change


def _unicode_forms(m: Moment, call: Step) -> Change:
    composed, decomposed = "Café Zürich – señal", "Cafe\u0301 Zu\u0308rich – sen\u0303al"
    name, form = m.rng.choice(("title", "query", "customer")), _turning(m, (composed, decomposed, composed + "\u00a0"))
    return lambda args: {**args, name: form()}


def _shell(m: Moment, call: Step) -> Change:
    name = _command_of(call)
    if name is None:
        return _id_field(m, call)
    style = m.rng.choice(("comment", "echo", "date", "sleep", "temporary", "variable", "spaces"))
    wrapped = m.rng.random() < 0.5

    def change(args: dict[str, Any]) -> dict[str, Any]:
        command = args[name]
        if style == "comment":
            new = f"{command} # {m.rng.choice(('attempt', 'try', 'retry'))} {m.count}"
        elif style == "echo":
            new = f'echo "{m.told("%H:%M:%S")}"; {command}' if wrapped else f"{command}; echo done-{m.hex(6)}"
        elif style == "date":
            new = f"{command}\n# {m.told('%Y-%m-%dT%H:%M:%SZ')}"
        elif style == "sleep":
            new = f"sleep {m.rng.randrange(1, 30)} && {command}"
        elif style == "temporary":
            new = f"{command} 2>&1 | tee /tmp/out_{m.hex(6)}.log"
        elif style == "variable":
            new = f"RUN_ID={m.hex(8)} {command}"
        else:
            new = command.replace(" ", " " * m.rng.randrange(1, 4), 1) + " " * m.rng.randrange(0, 3)
        return {**args, name: new}

    return change


CHANGES: dict[str, Callable[[Moment, Step], Change]] = {
    "id field": _id_field,
    "time field": _time_field,
    "window": _window,
    "limit": _limit,
    "spaces": _spaces,
    "key order": _key_order,
    "number forms": _numbers,
    "path forms": _path_forms,
    "temporary path": _temporary,
    "json in a string": _json_text,
    "unicode forms": _unicode_forms,
    "shell": _shell,
}
