"""Whole outputs of well-known commands, asked again while nothing of substance has changed. Pure and seeded.

Written after what the tools print; what differs from time to time is what differs in reality: ages, durations, dates,
process numbers, request ids, hashes of builds. What counts (states, counts, rows, failures) stays.
"""

# ruff: noqa: E501, PERF401 - what the tools print is kept line by line

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from watchkeeper.cli.recorded import Step

if TYPE_CHECKING:
    from volatile import Moment

Print = Callable[["Moment", random.Random], str]
"""The output now; the second argument gives the same values each time."""


class Output(msgspec.Struct, frozen=True):
    """A command and what it prints."""

    commands: tuple[str, ...]
    print: Print
    tool: str = "bash"
    argument: str = "command"

    def call(self, call: Step, number: int) -> Step:
        """The call of this command; ``number`` tells those of one body apart."""
        command = self.commands[number % len(self.commands)].format(n=number + 1)
        return msgspec.structs.replace(call, tool=self.tool, args={self.argument: command}, error=False)

    def maker(self, moment: Moment, seed: int) -> Callable[[str], str]:
        return lambda text: self.print(moment, random.Random(seed))


def _pods(m: Moment, same: random.Random) -> str:
    rows = ["NAME                        READY   STATUS             RESTARTS      AGE"]
    for name in ("api", "worker", "web"):
        pod = f"{name}-{same.getrandbits(36):09x}-{same.choice('bcdfghjk')}{same.randrange(1000, 9999)}"
        state = same.choice(("1/1     Running           ", "0/1     CrashLoopBackOff  ", "0/1     ImagePullBackOff  "))
        rows.append(f"{pod:27} {state} {same.randrange(0, 9)} ({m.age()} ago)   {m.age()}")
    return "\n".join(rows) + "\n"


def _events(m: Moment, same: random.Random) -> str:
    pod = f"pod/api-{same.getrandbits(36):09x}"
    return (
        "LAST SEEN   TYPE      REASON      OBJECT                 MESSAGE\n"
        f"{m.age():11} Warning   BackOff     {pod}   Back-off restarting failed container api\n"
        f"{m.age():11} Normal    Pulled      {pod}   Container image already present on machine in {m.rng.randrange(90, 900)}ms\n"
    )


def _pytest(m: Moment, same: random.Random) -> str:
    passed, name, line = same.randrange(3, 90), same.choice(("total", "parse", "render")), same.randrange(10, 200)
    return (
        "============================= test session starts ==============================\n"
        "platform linux -- Python 3.12.3, pytest-9.0.1, pluggy-1.6.0\nrootdir: /app\n"
        f"collected {passed + 1} items\n\ntests/test_{name}.py {'.' * min(passed, 40)}F [100%]\n\n"
        "=================================== FAILURES ===================================\n"
        f"    def test_{name}():\n>       assert {name}(cart) == 7\nE       assert 6 == 7\n"
        f"E        +  where 6 = <bound method Cart.{name} of <shop.Cart object at 0x7f{m.hex(10)}>>()\n\n"
        f"tests/test_{name}.py:{line}: AssertionError\n"
        f"--------------------------- Captured log call ---------------------------\n"
        f"INFO     shop:cart.py:31 {m.told('%Y-%m-%d %H:%M:%S')},{m.ms:03} tmp_path=/tmp/pytest-of-dev/pytest-{m.count}/test_{name}0\n"
        f"=========================== short test summary info ============================\n"
        f"FAILED tests/test_{name}.py::test_{name} - assert 6 == 7\n"
        f"========================= 1 failed, {passed} passed in {m.rng.uniform(0.2, 9):.2f}s =========================\n"
    )


def _unittest(m: Moment, same: random.Random) -> str:
    count = same.randrange(3, 40)
    return f"{'.' * count}F\n======\nFAIL: test_sum (test_a.A.test_sum)\nAssertionError: 3 != 4\n\n------\nRan {count + 1} tests in {m.rng.uniform(0.001, 3):.3f}s\n\nFAILED (failures=1)\n"


def _cargo(m: Moment, same: random.Random) -> str:
    line = same.randrange(5, 300)
    return (
        f"   Compiling shop v0.3.{same.randrange(9)} (/app)\n"
        f"error[E0308]: mismatched types\n  --> src/cart.rs:{line}:17\n   |\n{line} |     total += price;\n"
        "   |              ^^^^^ expected `u64`, found `i32`\n\n"
        f"error: could not compile `shop` (lib) due to 1 previous error; took {m.rng.uniform(0.3, 20):.2f}s\n"
    )


def _cargo_test(m: Moment, same: random.Random) -> str:
    return (
        f"    Finished `test` profile [unoptimized + debuginfo] target(s) in {m.rng.uniform(0.03, 8):.2f}s\n"
        f"     Running unittests src/lib.rs (target/debug/deps/shop-{same.getrandbits(64):016x})\n\nrunning 2 tests\n"
        "test cart::adds ... ok\ntest cart::empties ... FAILED\n\nfailures:\n\n---- cart::empties stdout ----\n"
        f"thread 'cart::empties' ({m.pid}) panicked at src/cart.rs:{same.randrange(9, 99)}:9:\nassertion failed: cart.is_empty()\n\n"
        f"test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; finished in {m.rng.uniform(0, 2):.2f}s\n"
    )


def _npm(m: Moment, same: random.Random) -> str:
    return (
        "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree\n"
        f"npm error Found: react@{same.randrange(16, 19)}.2.0\n"
        "npm error A complete log of this run can be found in: "
        f"/home/dev/.npm/_logs/{m.told('%Y-%m-%dT%H_%M_%S')}_{m.ms:03}Z-debug-0.log\n"
    )


def _npm_install(m: Moment, same: random.Random) -> str:
    return f"\nup to date, audited {same.randrange(40, 1900)} packages in {m.rng.choice(('', '1m '))}{m.rng.randrange(1, 59)}s\n\n12 packages are looking for funding\n  run `npm fund` for details\n\nfound 0 vulnerabilities\n"


def _jest(m: Moment, same: random.Random) -> str:
    return (
        f"FAIL src/cart.test.ts ({m.rng.uniform(5, 9):.3f} s)\n  Cart\n    ✓ adds ({m.rng.randrange(1, 40)} ms)\n    ✕ empties ({m.rng.randrange(1, 40)} ms)\n\n"
        f"  ● Cart › empties\n\n    Expected: 0\n    Received: {same.randrange(1, 9)}\n\n"
        f"Tests:       1 failed, 1 passed, 2 total\nTime:        {m.rng.uniform(0.4, 9):.3f} s, estimated {m.rng.randrange(1, 9)} s\n"
    )


def _gotest(m: Moment, same: random.Random) -> str:
    return (
        f"--- FAIL: TestTotal ({m.rng.uniform(0, 2):.2f}s)\n    cart_test.go:{same.randrange(10, 99)}: got 6, want 7\n"
        f"FAIL\nFAIL\texample.com/shop/cart\t{m.rng.uniform(0.001, 2):.3f}s\nFAIL\n"
    )


def _curl(m: Moment, same: random.Random) -> str:
    body = json.dumps({"status": "pending", "order": same.randrange(10**6), "items": []})
    return (
        f"HTTP/2 200 \r\ndate: {m.told('%a, %d %b %Y %H:%M:%S GMT')}\r\ncontent-type: application/json\r\n"
        f'content-length: {len(body)}\r\netag: W/"{m.hex(2)}-{m.blob(20)}"\r\nx-request-id: {m.uuid()}\r\n'
        f"x-ratelimit-remaining: {m.left}\r\ncf-ray: {m.hex(16)}-AMS\r\nserver-timing: app;dur={m.rng.uniform(1, 90):.1f}\r\n\r\n{body}"
    )


def _curl_failing(m: Moment, same: random.Random) -> str:
    return (
        "  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n"
        f"  0     0    0     0    0     0      0      0 --:--:--  0:00:0{m.rng.randrange(1, 9)} --:--:--     0\n"
        f"curl: (7) Failed to connect to localhost port 8080 after {m.rng.randrange(1, 2100)} ms: Could not connect to server\n"
    )


def _docker(m: Moment, same: random.Random) -> str:
    rows = ["CONTAINER ID   IMAGE          COMMAND        CREATED        STATUS                  PORTS     NAMES"]
    minutes = int(m.at - m.since) // 60
    for name in ("db", "api"):
        rows.append(
            f'{same.getrandbits(48):012x}   shop/{name}:1.4   "/start.sh"   {minutes} minutes ago   '
            f"{same.choice((f'Up {minutes} minutes (unhealthy)', f'Restarting (1) {m.rng.randrange(1, 59)} seconds ago'))}             {name}"
        )
    return "\n".join(rows) + "\n"


def _build(m: Moment, same: random.Random) -> str:
    return (
        f'#0 building with "default" instance using docker driver\n#5 [2/4] RUN pip install -r requirements.txt\n'
        f"#5 {m.rng.uniform(0.3, 9):.3f} Collecting torch=={same.randrange(1, 3)}.9\n#5 {m.rng.uniform(9, 12):.3f} ERROR: No matching distribution found\n"
        f'#5 ERROR: process "/bin/sh -c pip install" did not complete successfully: exit code: 1\n'
        f"View build details: docker-desktop://dashboard/build/default/default/{m.text(25)}\n"
    )


def _git(m: Moment, same: random.Random) -> str:
    minutes = int(m.at - m.since) // 60
    return "".join(
        f"{same.getrandbits(28):07x} {minutes + same.randrange(3, 5000)} minutes ago {subject}\n"
        for subject in ("Fix rounding of totals", "Add currency", "Update deps")
    )


def _ps(m: Moment, same: random.Random) -> str:
    rows = ["USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND"]
    for command in ("/usr/bin/python3 worker.py", "nginx: worker process"):
        rows.append(
            f"app       {same.randrange(100, 9000):6} {m.rng.uniform(0, 9):4.1f} {m.rng.uniform(0, 4):4.1f} {same.randrange(20_000, 90_000):6} "
            f"{m.rng.randrange(9_000, 20_000):5} ?        S    09:1{same.randrange(9)}   0:{m.count % 60:02} {command}"
        )
    rows.append(
        f"app       {m.pid:6}  0.0  0.0   9{m.rng.randrange(100, 999)}  3{m.rng.randrange(100, 999)} pts/0    R+   {m.told('%H:%M')}   0:00 ps aux"
    )
    return "\n".join(rows) + "\n"


def _logs(m: Moment, same: random.Random) -> str:
    rows = []
    for word in ("connecting to postgres:5432", "connection refused", "backing off"):
        rows.append(
            f"{m.told('%Y-%m-%dT%H:%M:%S')}.{m.rng.randrange(10**9):09}Z  {same.choice(('INFO', 'WARN'))} [{m.pid}] {word} request={m.hex(8)}"
        )
    return "\n".join(rows) + "\n"


def _psql(m: Moment, same: random.Random) -> str:
    return (
        " id  |  state  | total \n-----+---------+-------\n"
        f" {same.randrange(100, 999)} | pending |  {same.randrange(10, 99)}.00\n(1 row)\n\nTime: {m.rng.uniform(0.2, 30):.3f} ms\n"
    )


def _mysql(m: Moment, same: random.Random) -> str:
    if same.random() < 0.5:
        return f"Empty set ({m.rng.uniform(0, 0.3):.2f} sec)\n"
    return f"Query OK, 0 rows affected ({m.rng.uniform(0, 0.3):.2f} sec)\nRows matched: {same.randrange(1, 5)}  Changed: 0  Warnings: 0\n"


def _api(m: Moment, same: random.Random) -> str:
    return json.dumps(
        {
            "object": "list",
            "request_id": f"req_{m.text(20)}",
            "created": int(m.at),
            "data": [
                {
                    "id": f"ord_{same.getrandbits(40):010x}",
                    "state": "open",
                    "updated_at": f"{m.told('%Y-%m-%dT%H:%M:%S')}Z",
                }
            ],
            "has_more": False,
            "usage": {"took_ms": m.rng.randrange(1, 300), "rate_limit_remaining": m.left},
        },
        indent=same.choice((None, 2)),
    )


def _job(m: Moment, same: random.Random) -> str:
    return json.dumps(
        {
            "jobId": f"{same.getrandbits(64):016x}",
            "status": "FAILED",
            "error": f"quota of {same.randrange(10, 90)} GB exceeded",
            "polledAt": f"{m.told('%Y-%m-%dT%H:%M:%S')}.{m.ms:03}Z",
            "ResponseMetadata": {"RequestId": m.uuid(), "HTTPStatusCode": 200, "RetryAttempts": 0},
        }
    )


def _browser(m: Moment, same: random.Random) -> str:
    return (
        f'<<<EXTERNAL_UNTRUSTED_CONTENT id="{m.hex(16)}">>>\nSource: Browser\n---\nerror: element [ref=e{same.randrange(9, 99)}] not found on page\n'
        f'<<<END_EXTERNAL_UNTRUSTED_CONTENT id="{m.hex(16)}">>>\n'
    )


def _sent(m: Moment, same: random.Random) -> str:
    return json.dumps(
        {
            "ok": True,
            "channel": f"C0{same.randrange(10**6)}",
            "messageId": m.uuid(),
            "ts": f"{m.at:.6f}",
            "receipt": m.blob(12),
        }
    )


def _traceback(m: Moment, same: random.Random) -> str:
    return (
        "Traceback (most recent call last):\n"
        f'  File "/tmp/tmp{m.text(8)}/script.py", line {same.randrange(3, 99)}, in <module>\n    main()\n'
        f"requests.exceptions.ConnectionError: HTTPConnectionPool(host='localhost', port=8080): Max retries exceeded with url: / "
        f"(Caused by NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f{m.hex(10)}>: [Errno 111] Connection refused'))\n"
    )


def _ls(m: Moment, same: random.Random) -> str:
    return (
        f"total {same.randrange(8, 90)}\ndrwxr-xr-x 5 dev dev 4096 {m.told('%b %d %H:%M')} .\n"
        f"-rw-r--r-- 1 dev dev {same.randrange(90, 9000)} Mar 12 05:32 setup.py\n-rw------- 1 dev dev 0 {m.told('%b %d %H:%M')} .{m.text(6)}.swp\n"
    )


OUTPUTS: dict[str, Output] = {
    "kubectl get": Output(("kubectl get pods -n shop{n}", "kubectl -n prod{n} get pods"), _pods),
    "kubectl events": Output(("kubectl get events -n shop{n} --sort-by=.lastTimestamp",), _events),
    "pytest": Output(("pytest tests/part{n} -q", "python -m pytest tests/test_{n}.py"), _pytest),
    "unittest": Output(("python -m unittest tests.test_{n}",), _unittest),
    "cargo build": Output(("cargo build -p crate{n}",), _cargo),
    "cargo test": Output(("cargo test -p crate{n}",), _cargo_test),
    "npm error": Output(("npm install --prefix app{n}",), _npm),
    "npm install": Output(("npm install --prefix web{n}",), _npm_install),
    "jest": Output(("npx jest src/part{n}",), _jest),
    "go test": Output(("go test ./pkg{n}/...",), _gotest),
    "curl -i": Output(("curl -i https://api.example.com/orders/{n}",), _curl),
    "curl refused": Output(("curl http://localhost:808{n}/health",), _curl_failing),
    "docker ps": Output(("docker ps -a --filter label=part{n}",), _docker),
    "docker build": Output(("docker build -t shop/part{n} .",), _build),
    "git log": Output(("git log --oneline --format='%h %cr %s' -- part{n}",), _git),
    "ps": Output(("ps aux | grep worker{n}",), _ps),
    "docker logs": Output(("docker logs --tail 3 -t part{n}",), _logs),
    "psql": Output(("SELECT id, state, total FROM orders{n} WHERE state = 'pending'",), _psql, "sql", "query"),
    "mysql": Output(("UPDATE orders SET state = 'paid' WHERE id = {n}",), _mysql, "run_query", "sql"),
    "http api": Output(("https://api.example.com/v1/orders?customer={n}",), _api, "http_get", "url"),
    "job status": Output(("job-{n}",), _job, "get_job", "job_id"),
    "browser": Output(("click e{n}",), _browser, "browser", "action"),
    "send": Output(("The build has failed, part {n}.",), _sent, "send_message", "text"),
    "traceback": Output(("python check_{n}.py",), _traceback),
    "ls": Output(("ls -la part{n}",), _ls),
}
