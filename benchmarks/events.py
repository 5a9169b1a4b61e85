"""What the watchdog costs: microseconds an event, by size and kind of stream, and the state it keeps of a run.

Run it with ``python benchmarks/events.py``. A *result event* is a call's end: all detectors judge then. Streams:
results that are all different; all equal; equal but for a clock and a uuid; equal but for a clock in each line; equal
ones under ever other arguments. Every text is an object of its own: nothing profits from one that was hashed before.
The control takes the sha256 of the result and nothing else.

Times of single events are wall-clock times, less the clock's own; the p99.9 is given in the thread's processor time
too, which leaves out what other processes did meanwhile. The share of a detector is measured in runs of their own, with
a stopwatch around each. The state is what the judge holds alone after 10,000 events: the size of all that is reached
from it, code and shared constants not counted, beside what ``tracemalloc`` says was kept.
"""

from __future__ import annotations

import gc
import hashlib
import json
import random
import statistics
import sys
import time
import tracemalloc
import types
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from reporting import parser, report, versions
from watchkeeper.detect import judge as judging
from watchkeeper.detect.judge import Judge
from watchkeeper.fingerprint import call_key
from watchkeeper.messages import (
    Call,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    Event,
    ModelFirstChunk,
    ModelReplied,
    ModelRequested,
    ModelStreamed,
    Result,
    RunStarted,
    Settled,
    TurnStarted,
    UserMessage,
)

SIZES = (100, 1_000, 10_000, 100_000)
BARS = {1_000: 40.0, 100_000: 300.0}
OTHER_BAR = 2.0
TAIL_BAR = 1_000.0
STATE_BAR = 16.0
STATE_EVENTS = 10_000
WORDS = (
    *("connection", "request", "handler", "total", "index", "session", "user", "order", "payment", "module", "import"),
    *("return", "value", "error", "warning", "config", "build", "test", "passed", "failed", "started", "finished"),
    *("listening", "worker", "cache", "queue", "table", "column", "select", "update"),
)
CALLED = [f"{word}({other}, {len(word)})" for word in WORDS for other in WORDS]
SAID = [" ".join(random.Random(number).choices(WORDS, k=3 + number % 6)) for number in range(500)]


class Stream:
    """Makes the result events of one kind of stream."""

    def __init__(self, kind: str, size: int, seed: int = 1) -> None:
        self.kind = kind
        self.size = size
        self._rng = random.Random(f"{seed}/{kind}/{size}")
        self._lines = self._text_lines()
        self._at = 1_750_000_000.0

    def pair(self, n: int) -> tuple[str, str]:
        """Arguments and result of the n-th call."""
        rng = self._rng
        self._at += rng.uniform(0.2, 9)
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self._at)) + f".{rng.randrange(1000):03}Z"
        lines = self._lines
        if self.kind == "different":
            lines = self._text_lines()
        arguments = (
            {"path": f"src/{WORDS[n % 30]}/{n}.py", "limit": n} if self.kind == "different" else {"path": "src/app.py"}
        )
        if self.kind == "arguments":
            arguments = {"path": "src/app.py", "note": " ".join(rng.choices(WORDS, k=12)), "request_id": self._uuid()}
        elif self.kind == "volatile":
            lines = [f"generated at {clock}", *lines, f"request id {self._uuid()}"]
        elif self.kind == "volatile lines":
            lines = [f"{clock} {line}" for line in lines]
        return json.dumps(arguments), "\n".join(lines)

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def _text_lines(self) -> list[str]:
        """Fresh lines to this size, as a search or a log prints them."""
        rng, lines, left = self._rng, [], self.size
        while left > 0:
            line = f"{rng.randrange(10_000):5}: {rng.choice(CALLED)} # {rng.choice(SAID)}"
            lines.append(line[:left])
            left -= len(line) + 1
        return lines


STREAMS = ("different", "equal", "volatile", "volatile lines", "arguments")


def calls(stream: Stream, count: int) -> list[tuple[CallProposed, CallEnded]]:
    """Result events with what comes before them, each call a round of its own."""
    made = []
    for n in range(count):
        arguments, content = stream.pair(n)
        call_id = f"call_{n}"
        tool = f"tool_{n % 7}" if stream.kind == "different" else "read_file"
        at: dict[str, Any] = {"run": "r", "at": 0.0, "t": float(n)}
        proposed = CallProposed(n=2 * n + 1, call_id=call_id, tool=tool, arguments=arguments, **at)
        ended = CallEnded(
            n=2 * n + 2,
            result=Result(call_id, tool, "finished", content, productive=True),
            key=call_key(tool, arguments.encode()),
            arguments=arguments,
            **at,
        )
        made.append((proposed, ended))
    return made


def turns(count: int, seed: int = 1) -> list[Event]:
    """All facts of ordinary turns: a streamed reply, two calls with different results, a word of the user at times."""
    rng = random.Random(seed)
    stream = Stream("different", 1_000, seed)
    found: list[Event] = []

    def add(kind: type[Event], turn: int, **fields: Any) -> None:
        found.append(kind(n=len(found) + 1, run="r", at=0.0, t=len(found) / 10, turn=turn, **fields))

    add(RunStarted, 0, agent="a", task="t")
    for turn in range(1, count + 1):
        if turn % 25 == 1:
            add(UserMessage, turn, text="go on")
        add(TurnStarted, turn)
        add(ModelRequested, turn, model="m", messages=turn)
        add(ModelFirstChunk, turn, seconds=0.4)
        thoughts = [" ".join(rng.choices(WORDS, k=60))[:400] for _ in range(2)]
        text = " ".join(rng.choices(WORDS, k=40))
        for thought in thoughts:
            add(ModelStreamed, turn, channel="reasoning", text=thought)
        add(ModelStreamed, turn, channel="content", text=text)
        pairs = [stream.pair(2 * turn + slot) for slot in (1, 2)]
        asked = tuple(Call(f"c{turn}.{slot}", "read_file", pairs[slot - 1][0], slot) for slot in (1, 2))
        add(ModelReplied, turn, text=text, reasoning="".join(thoughts), calls=asked, finish="tool_calls")
        add(Settled, turn, amounts={"tokens": 1200.0, "usd": 0.004}, held=f"model {turn}")
        for call in asked:
            add(CallProposed, turn, slot=call.slot, call_id=call.id, tool=call.tool, arguments=call.arguments)
        for call in asked:
            key = call_key(call.tool, call.arguments.encode())
            add(CallAdmitted, turn, slot=call.slot, call_id=call.id, tool=call.tool, key=key, reads=("files",))
            add(CallStarted, turn, slot=call.slot, call_id=call.id, tool=call.tool)
        for call, (arguments, content) in zip(asked, pairs, strict=True):
            result = Result(call.id, call.tool, "finished", content, productive=True)
            key = call_key(call.tool, arguments.encode())
            add(CallEnded, turn, slot=call.slot, result=result, key=key, arguments=arguments)
    return found


# -- time ------------------------------------------------------------------------------------------------------------


def overhead(clock: Callable[[], int]) -> int:
    """What reading the clock twice costs, in nanoseconds."""
    taken = []
    for _ in range(5000):
        began = clock()
        taken.append(clock() - began)
    return int(statistics.median(taken))


def timed(events: list[tuple[CallProposed, CallEnded]], clock: Callable[[], int]) -> list[float]:
    """Microseconds of each result event before a fresh judge."""
    judge = Judge()
    observe = judge.observe
    own = overhead(clock)
    taken = []
    for proposed, ended in events:
        observe(proposed)
        began = clock()
        observe(ended)
        taken.append((clock() - began - own) / 1000)
    return taken


def control(events: list[tuple[CallProposed, CallEnded]]) -> float:
    """Microseconds that the sha256 of a result takes (median)."""
    taken = []
    for _, ended in events:
        began = time.perf_counter_ns()
        hashlib.sha256(ended.result.content.encode("utf-8", "replace")).hexdigest()
        taken.append((time.perf_counter_ns() - began) / 1000)
    return statistics.median(taken)


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def result_rows(sizes: Iterable[int], count: int, rounds: int) -> list[dict[str, Any]]:
    rows = []
    for size in sizes:
        for kind in STREAMS:
            wall: list[float] = []
            processor: list[float] = []
            raw: list[float] = []
            for number in range(rounds + 1):
                events = calls(Stream(kind, size, number), count if size < 100_000 else max(count // 8, 50))
                gc.collect()
                gc.freeze()
                if not number:  # the first round warms up
                    timed(events, time.perf_counter_ns)
                    continue
                wall += timed(events, time.perf_counter_ns)
                processor += timed(events, time.thread_time_ns)
                raw.append(control(events))
            wall.sort()
            processor.sort()
            rows.append(
                {
                    "what": "result",
                    "stream": kind,
                    "size": size,
                    "n": len(wall),
                    "p50": quantile(wall, 0.5),
                    "p99": quantile(wall, 0.99),
                    "p999": quantile(wall, 0.999),
                    "max": wall[-1],
                    "mean": statistics.fmean(wall),
                    "p999_processor": quantile(processor, 0.999),
                    "control": statistics.median(raw),
                }
            )
    return rows


def other_rows(count: int, rounds: int) -> list[dict[str, Any]]:
    """All other kinds of events, within ordinary turns."""
    taken: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        events = turns(count, number)
        gc.collect()
        gc.freeze()
        observe = Judge().observe
        clock = time.perf_counter_ns
        own = overhead(clock)
        for event in events:
            began = clock()
            observe(event)
            spent = clock() - began - own
            if number:
                taken[type(event).__name__].append(spent / 1000)
    rows = []
    for kind, times in taken.items():
        times.sort()
        tail = {"p99": quantile(times, 0.99), "p999": quantile(times, 0.999), "max": times[-1]}
        mean = statistics.fmean(times)
        rows.append({"what": "event", "kind": kind, "n": len(times), "p50": quantile(times, 0.5), "mean": mean, **tail})
    return sorted(rows, key=lambda row: -row["p50"])


class Stopwatch:
    """A detector that is timed; all else is that detector."""

    def __init__(self, detector: Any, spent: defaultdict[str, int]) -> None:
        self._detector = detector
        self._spent = spent
        if folds := getattr(detector, "folds", None):
            self.folds = {kind: partial(self._timed, fold) for kind, fold in folds.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._detector, name)

    def round(self, *what: Any) -> Any:
        return self._timed(self._detector.round, *what)

    def _timed(self, ask: Callable[..., Any], *what: Any) -> Any:
        began = time.perf_counter_ns()
        try:
            return list(ask(*what) or ())
        finally:
            self._spent[self._detector.name] += time.perf_counter_ns() - began


def share_rows(size: int, count: int) -> list[dict[str, Any]]:
    """What each detector takes of a result event; the rest is keys, recognising, rounds and the ladder."""
    rows = []
    built_in, of_runs = judging.BUILT_IN, getattr(judging, "OF_RUNS", ())
    for kind in STREAMS:
        spent: defaultdict[str, int] = defaultdict(int)

        def watched(factory: Any, spent: defaultdict[str, int] = spent) -> Any:
            return lambda *given: Stopwatch(factory(*given), spent)

        events = calls(Stream(kind, size), count)
        timed(events, time.perf_counter_ns)  # warms up
        judging.BUILT_IN = tuple(watched(factory) for factory in built_in)
        judging.OF_RUNS = tuple(watched(factory) for factory in of_runs)
        try:
            whole = sum(timed(events, time.perf_counter_ns))
        finally:
            judging.BUILT_IN, judging.OF_RUNS = built_in, of_runs
        own = overhead(time.perf_counter_ns) / 1000
        parts = {name: max(ns / 1000 / count - own, 0.0) for name, ns in spent.items()}
        rest = max(whole / count - sum(parts.values()) - 2 * own * len(parts), 0.0)
        rows += [
            {"what": "share", "stream": kind, "size": size, "detector": name, "us": us}
            for name, us in sorted({**parts, "keys, rounds, ladder": rest}.items(), key=lambda item: -item[1])
        ]
    return rows


# -- state -----------------------------------------------------------------------------------------------------------

CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.MappingProxyType)


def deep_size(root: Any, shared: set[int]) -> int:
    """Bytes of all that is reached from here, code and what is shared not counted."""
    seen = set(shared)
    waiting, size = [root], 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, CODE):
            continue
        seen.add(id(one))
        size += sys.getsizeof(one)
        waiting += gc.get_referents(one)
        if isinstance(one, msgspec.Struct):  # not known to the collector
            waiting += [getattr(one, name) for name in one.__struct_fields__]
    return size


def shared_objects() -> set[int]:
    """What lives without any judge: constants of modules, with all in them."""
    found: set[int] = set()
    waiting: list[Any] = []
    for module in list(sys.modules.values()):
        waiting += list(vars(module).values()) if hasattr(module, "__dict__") else ()
    while waiting:
        one = waiting.pop()
        if id(one) in found or isinstance(one, types.ModuleType):
            continue
        found.add(id(one))
        if isinstance(one, dict | list | tuple | set | frozenset | type | types.FunctionType):
            waiting += gc.get_referents(one)
        elif isinstance(one, msgspec.Struct):
            waiting += [getattr(one, name) for name in one.__struct_fields__]
    return found


def fed(kind: str, size: int, count: int) -> Judge:
    """A judge that has seen so many events of a run; the events are gone but for what it keeps."""
    judge = Judge()
    for event in life(kind, size, count):
        judge.observe(event)
    return judge


def life(kind: str, size: int, count: int) -> Iterator[Event]:
    if kind == "turns":
        events = turns(count // 15 + 1, 3)
        yield from events[:count]
        return
    stream = Stream(kind, size)
    for start in range(0, count // 2, 100):
        # Numbered on: the n-th call of a stream is made from its number.
        for n in range(start, start + 100):
            arguments, content = stream.pair(n)
            tool, failed = f"tool_{n % 7}", kind == "different" and n % 5 == 0
            at: dict[str, Any] = {"run": "r", "at": 0.0, "t": float(n)}
            result = Result(
                f"call_{n}", tool, "failed" if failed else "finished", content, error=content[:80] if failed else None
            )
            yield CallProposed(n=2 * n + 1, call_id=f"call_{n}", tool=tool, arguments=arguments, **at)
            key = call_key(tool, arguments.encode())
            yield CallEnded(n=2 * n + 2, result=result, key=key, arguments=arguments, **at)


def state_rows(events: int) -> list[dict[str, Any]]:
    rows = []
    fed("different", 100, 200)  # whatever is made once is made now
    shared = shared_objects()
    for kind, size in (
        *((kind, 1_000) for kind in STREAMS),
        ("different", 100_000),
        ("volatile", 100_000),
        ("turns", 1_000),
    ):
        count = events if size < 100_000 else events // 10
        deep = deep_size(fed(kind, size, count), shared) / 1024
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        judge = fed(kind, size, count)
        gc.collect()
        traced = (tracemalloc.get_traced_memory()[0] - before) / 1024
        tracemalloc.stop()
        del judge
        rows.append({"what": "state", "stream": kind, "size": size, "events": count, "kb": deep, "kb_traced": traced})
    return rows


# -- told ------------------------------------------------------------------------------------------------------------


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    results = [row for row in rows if row["what"] == "result"]
    for row in results:
        name = f"{row['stream'].replace(' ', '_')}_{row['size']}"
        found[f"us_{name}"] = row["p50"]
    for size in sorted({row["size"] for row in results}):
        found[f"us_worst_{size}"] = max(row["p50"] for row in results if row["size"] == size)
        if size in BARS:  # the worst of the streams
            found[f"us_{size // 1000}kb"] = found[f"us_worst_{size}"]
    if results:
        found["us_p999_worst"] = max(row["p999"] for row in results)
        found["us_p999_worst_processor"] = max(row["p999_processor"] for row in results)
    others = [row for row in rows if row["what"] == "event" and row["kind"] != "CallEnded"]
    if others:
        found["us_other_worst"] = max(row["p50"] for row in others)
        found["us_other_mean"] = sum(row["mean"] * row["n"] for row in others) / sum(row["n"] for row in others)
        found["us_other_p999_worst"] = max(row["p999"] for row in others)
    states = [row for row in rows if row["what"] == "state"]
    if states:
        found["state_kb_worst"] = max(row["kb"] for row in states)
        found["state_kb_traced_worst"] = max(row["kb_traced"] for row in states)
    return found


def show(rows: list[dict[str, Any]]) -> None:
    print("  ".join(f"{name} {version}" for name, version in versions().items()))
    heads = f"{'p50':>8} {'p99':>8} {'p99.9':>8}"
    print(f"\n{'result events, µs':24} {'bytes':>8} {'n':>6} {heads} {'(cpu)':>8} {'max':>9} {'sha256':>7}")
    for row in rows:
        if row["what"] == "result":
            shown = f"{row['stream']:24} {row['size']:8,} {row['n']:6} {_quantiles(row)} {row['p999_processor']:8.1f}"
            print(f"{shown} {row['max']:9.1f} {row['control']:7.1f}{_bar(row['p50'], BARS.get(row['size']))}")
    print(f"\n{'other events, µs':24} {'':8} {'n':>6} {heads} {'mean':>8} {'max':>9}")
    for row in rows:
        if row["what"] == "event":
            bar = OTHER_BAR if row["kind"] != "CallEnded" else None
            shown = f"{row['kind']:24} {'':8} {row['n']:6} {_quantiles(row)} {row['mean']:8.2f}"
            print(f"{shown} {row['max']:9.1f}{_bar(row['p50'], bar)}")
    shares = [row for row in rows if row["what"] == "share"]
    if shares:
        print(f"\nµs a result event by detector ({shares[0]['size']:,} bytes)")
        streams = list(dict.fromkeys(row["stream"] for row in shares))
        print(f"{'':24} " + " ".join(f"{stream:>14}" for stream in streams))
        by = {(row["detector"], row["stream"]): row["us"] for row in shares}
        names = sorted(
            {row["detector"] for row in shares}, key=lambda name: -max(by.get((name, s), 0) for s in streams)
        )
        for name in names:
            print(f"{name:24} " + " ".join(f"{by.get((name, stream), 0.0):14.2f}" for stream in streams))
    print(f"\n{'state, KB':24} {'bytes':>8} {'events':>6} {'deep':>8} {'traced':>8}")
    for row in rows:
        if row["what"] == "state":
            print(
                f"{row['stream']:24} {row['size']:8,} {row['events']:6} {row['kb']:8.1f} {row['kb_traced']:8.1f}"
                f"{_bar(row['kb'], STATE_BAR)}"
            )
    print()
    for name, value in figures(rows).items():
        if "worst" in name or "mean" in name:
            print(f"{name:28} {value:10.2f}")


def _quantiles(row: dict[str, Any]) -> str:
    return f"{row['p50']:8.2f} {row['p99']:8.2f} {row['p999']:8.2f}"


def _bar(value: float, bar: float | None) -> str:
    return "" if bar is None or value <= bar else f"   over {bar:g}"


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="bytes of a result")
    options_of.add_argument("--n", type=int, default=1_000, help="result events a round (fewer of the largest)")
    options_of.add_argument("--rounds", type=int, default=5)
    options = options_of.parse_args()
    sizes, n, rounds = ([1_000], 60, 1) if options.quick else (options.sizes, options.n, options.rounds)
    rows = result_rows(sizes, n, rounds)
    rows += other_rows(max(n // 5, 50), rounds)
    rows += share_rows(1_000, n)
    rows += state_rows(300 if options.quick else STATE_EVENTS)
    if options.json:
        report("events", rows, figures(rows), columns={}, as_json=True)
    else:
        show(rows)


if __name__ == "__main__":
    main()
