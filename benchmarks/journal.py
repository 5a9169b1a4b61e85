"""The journal: records a second and how long an append takes, in one worker's file and in those of two processes.

Run it with ``python benchmarks/journal.py``. A *record* is what a call leaves: four facts, of which two are journal
entries, one with a result of 1 KB, and a charge to a shared budget, appended in one transaction that is on the disk
(``synchronous=FULL``) when the append returns. 500 runs side by side append one record after another each, so up to 500
of them share a transaction. The control writes bare rows of 1 KB, 500 in a transaction, and nothing else.

With two workers each process has its own file and half of the runs, and they begin at the same moment. What was written
is counted after the clock has stopped: facts, entries and charges. ``us_busy`` is the processor time of a record, which
does not depend on what else the machine does.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from reporting import Row, backends, parser, quantile, report, run, suffix
from watchkeeper.engine import Lease, RunSpec
from watchkeeper.journal import SqliteEngine
from watchkeeper.messages import CallAdmitted, CallEnded, CallProposed, CallStarted, Event, Result

RUNS = 500
RECORDS = 60
FACTS = 4
RESULT = 1024
ARGUMENTS = '{"path":"src/app.py","limit":100}'


def record(run: str, turn: int) -> list[Event]:
    """The facts of the one call of a turn."""
    n, call = (turn - 1) * FACTS, f"call_{turn}"
    at: dict[str, Any] = {"run": run, "at": 1_800_000_000.0 + turn, "t": float(turn), "turn": turn, "slot": 1}
    content = f"{run} {turn} ".ljust(RESULT, "abcdefghij"[turn % 10])
    return [
        CallProposed(n=n + 1, call_id=call, tool="read_file", arguments=ARGUMENTS, **at),
        CallAdmitted(n=n + 2, call_id=call, tool="read_file", key="0123456789abcdef0123456789abcdef", **at),
        CallStarted(n=n + 3, call_id=call, tool="read_file", timeout=30.0, **at),
        CallEnded(
            n=n + 4,
            result=Result(call, "read_file", "finished", content, productive=True),
            key="0123456789abcdef0123456789abcdef",
            arguments=ARGUMENTS,
            ran=0.01,
            **at,
        ),
    ]


async def work(folder: Path, worker: str, runs: int, records: int, begin: float) -> dict[str, Any]:
    """Append all records of one worker; when it began and ended (by the wall clock) and how long each append took."""
    taken: list[float] = []
    async with SqliteEngine(folder, worker=worker) as engine:
        async with anyio.create_task_group() as tasks:
            for number in range(runs):
                tasks.start_soon(partial(engine.submit, RunSpec(agent="bench", task="write"), run=f"{worker}-{number}"))
        # No more than its share: what one worker has claimed beyond it the other would wait for.
        leases = aiter(engine.leases(lambda: runs - len(engine.leases_given)))
        held = [await anext(leases) for _ in range(runs)]
        batches = {lease.run: [record(lease.run, turn) for turn in range(1, records + 1)] for lease in held}

        async def append(lease: Lease) -> None:
            for facts in batches[lease.run]:
                began = time.perf_counter()
                await lease.append(facts, {"team/tokens": 10.0})
                taken.append(time.perf_counter() - began)

        print("ready", file=sys.stderr, flush=True)
        if begin:
            begin = float(await anyio.to_thread.run_sync(sys.stdin.readline))
            await anyio.sleep(max(begin - time.time(), 0))
        began, busy = time.time(), time.process_time()
        async with anyio.create_task_group() as tasks:
            for lease in held:
                tasks.start_soon(append, lease)
        return {"began": began, "ended": time.time(), "busy": time.process_time() - busy, "taken": taken}


def count(folder: Path) -> tuple[int, int, float]:
    """Facts, entries and charges that are in the files of a folder."""
    facts = entries = 0
    charged = 0.0
    for path in (folder / "workers").glob("*.db"):
        with sqlite3.connect(path) as connection:
            facts += connection.execute("SELECT sum(last - first + 1) FROM chunk").fetchone()[0]
            entries += connection.execute("SELECT count(*) FROM chunk, json_each(chunk.entries)").fetchone()[0]
            charged += connection.execute("SELECT sum(amount) FROM charge").fetchone()[0]
        connection.close()
    return facts, entries, charged


def together(folder: Path, backend: str, workers: int, runs: int, records: int) -> list[dict[str, Any]]:
    """The same in processes of their own, which begin at the same moment."""
    share = runs // workers
    command = [sys.executable, __file__, "--work", str(folder), "--backend", backend]
    processes = [
        subprocess.Popen(
            [*command, "--worker", f"w{number}", "--runs", str(share), "--records", str(records)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(workers)
    ]
    for process in processes:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said == "ready\n", said + process.stderr.read()
    begin = f"{time.time() + 0.2}\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(begin)
        process.stdin.flush()
    told = [process.communicate() for process in processes]
    assert all(process.returncode == 0 for process in processes), told
    return [json.loads(out) for out, _ in told]


def bare(folder: Path, rows: int) -> float:
    """Seconds for bare rows of 1 KB, 500 in a transaction."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE bare (key INTEGER PRIMARY KEY, body TEXT)")
    bodies = [(f"{number} ".ljust(RESULT, "x"),) for number in range(rows)]
    began = time.perf_counter()
    for start in range(0, rows, 500):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO bare (body) VALUES (?)", bodies[start : start + 500])
        connection.execute("COMMIT")
    took = time.perf_counter() - began
    connection.close()
    return took


def measure(backend: str, workers: int, runs: int, records: int) -> Row:
    with tempfile.TemporaryDirectory(prefix="watchkeeper-bench-") as place:
        folder = Path(place)
        done = together(folder, backend, workers, runs, records)
        total = runs * records
        assert count(folder) == (total * FACTS, total * 2, total * 10.0)
    seconds = max(one["ended"] for one in done) - min(one["began"] for one in done)
    taken = sorted(second * 1000 for one in done for second in one["taken"])
    return {
        "what": f"{workers} file{'s' if workers > 1 else ''}",
        "backend": backend,
        "records": total,
        "records_per_s": total / seconds,
        "us_busy": sum(one["busy"] for one in done) / total * 1e6,
        "p50_ms": quantile(taken, 0.5),
        "p99_ms": quantile(taken, 0.99),
        "max_ms": taken[-1],
    }


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--runs", type=int, default=RUNS, help="runs side by side")
    options_of.add_argument("--records", type=int, default=RECORDS, help="records of each run")
    options_of.add_argument("--work", type=Path, help="be one worker, in this folder")
    options_of.add_argument("--worker", default="w0")
    options = options_of.parse_args()
    if options.work is not None:
        job = partial(work, options.work, options.worker, options.runs, options.records, 1.0)
        json.dump(run(options.backend, job), sys.stdout)
        return
    runs, records = (20, 5) if options.quick else (options.runs, options.records)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="watchkeeper-bench-") as place:
        total = runs * records
        rows.append({"what": "bare rows", "records": total, "records_per_s": total / bare(Path(place), total)})
    figures = {}
    for backend in backends(options.backend):
        for workers in (1, 2):
            row = measure(backend, workers, runs, records)
            rows.append(row)
            files = f"{workers}_file{'s' if workers > 1 else ''}"
            figures[f"records_per_s_{files}{suffix(backend)}"] = row["records_per_s"]
            figures[f"append_p99_ms_{files}{suffix(backend)}"] = row["p99_ms"]
    columns = {
        **{"what": "", "backend": "", "records": "", "records_per_s": ".0f", "us_busy": ".0f"},
        **{"p50_ms": ".1f", "p99_ms": ".1f", "max_ms": ".1f"},
    }
    report("journal", rows, figures, columns=columns, as_json=options.json)


if __name__ == "__main__":
    main()
