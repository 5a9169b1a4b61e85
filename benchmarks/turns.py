"""Turn overhead: a run of many turns of one call each, before a scripted model, with every guard on, against peers.

Run it with ``python benchmarks/turns.py``; peers that are not installed are left out and said to be
(``pip install --group peers`` brings them). The model answers at once and the tool does nothing, so what is left is the
runtime's own work: the view, the request, the decision, the call, its checks, its facts, and the watchdog. The control
asks the same scripted model and calls the same function, turn by turn, and does nothing else.

Arguments and results differ from turn to turn, as those of a run that gets somewhere do. The history grows with the
turns for all alike; ``ms_per_turn`` is what a runtime takes beyond the control. Of ours it is said which part takes how
much of it (``shares.py``).
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from peers import TURN_PEERS
from reporting import Row, backends, parser, report, run, suffix
from shares import Shares
from watchkeeper import Agent, Limits, Supervisor, tool
from watchkeeper.messages import Message
from watchkeeper.model import CallDelta, Request
from watchkeeper.testing import ScriptedModel, call, say
from watchkeeper.testing.script import Step

MOST_MS = 0.3
Once = Callable[[], Awaitable[float]]
"""One run of all turns; its seconds."""


def told(number: int) -> str:
    return f"item {number} has {number * 7919 % 1000} entries"


@tool(effect="reads")
async def look(number: int) -> str:
    """Look something up."""
    return told(number)


def script(turns: int) -> Iterator[Step]:
    for number in range(turns):
        yield call(("look", json.dumps({"number": number})))
    yield say("done")


async def ours(supervisor: Supervisor, turns: int) -> float:
    limits = Limits(max_turns=turns + 2, max_calls=turns + 2, tokens=None, seconds=None)
    agent = Agent(ScriptedModel(script(turns), keep_requests=False), [look], limits=limits)
    began = time.perf_counter()
    outcome = await (await supervisor.start(agent, "task")).wait()
    took = time.perf_counter() - began
    assert (outcome.status, outcome.turns) == ("completed", turns + 1), outcome.message
    return took


async def control(turns: int) -> float:
    model = ScriptedModel(script(turns), keep_requests=False)
    messages = [Message("user", "task")]
    found = []
    began = time.perf_counter()
    for _ in range(turns + 1):
        async with model.stream(Request(tuple(messages))) as chunks:
            raws = [chunk.arguments async for chunk in chunks if isinstance(chunk, CallDelta)]
        found += [await look.function(**json.loads(raw)) for raw in raws]
    took = time.perf_counter() - began
    assert found == [told(number) for number in range(turns)]
    return took


async def measure(backend: str, turns: int, rounds: int, with_peers: bool) -> tuple[list[Row], dict[str, float]]:
    async with Supervisor(plugged=False) as supervisor:
        competitors: dict[str, Once] = {
            "control": partial(control, turns),
            "watchkeeper": partial(ours, supervisor, turns),
        }
        if with_peers and backend == "asyncio":
            prepared = {name: prepare(turns, told) for name, prepare in TURN_PEERS.items()}
            competitors |= {name: once for name, once in prepared.items() if once is not None}
        times: dict[str, list[float]] = {name: [] for name in competitors}
        for number in range(rounds + 1):
            for name, once in competitors.items():
                gc.collect()
                gc.freeze()
                took = await once()
                if number:  # the first round warms up
                    times[name].append(took)
        shares = Shares()
        with shares.looking():
            for _ in range(rounds):
                await ours(supervisor, turns)
    bare = times["control"]
    own = {
        name: [(one - base) / turns * 1000 for one, base in zip(taken, bare, strict=True)]
        for name, taken in times.items()
    }
    rows = [
        {
            "backend": backend,
            "turns": turns,
            "name": name,
            "ms_per_turn": statistics.median(own[name])
            if name != "control"
            else statistics.median(taken) / turns * 1000,
            "times_control": statistics.median(one / base for one, base in zip(taken, bare, strict=True)),
            "times_watchkeeper": statistics.median(
                one / base for one, base in zip(taken, times["watchkeeper"], strict=True)
            ),
            "low_ms": min(own[name]),
            "high_ms": max(own[name]),
        }
        for name, taken in times.items()
    ]
    figures = {f"ms_per_turn{suffix(backend)}": statistics.median(own["watchkeeper"])}
    rows += [
        {
            "backend": backend,
            "turns": turns,
            "name": f"  {part}",
            "ms_per_turn": share * statistics.median(own["watchkeeper"]),
        }
        for part, share in shares.parts().items()
    ]
    peers = [row["times_watchkeeper"] for row in rows if row["name"] in TURN_PEERS]
    if peers:
        figures["ratio_best_peer"] = min(peers)
    return rows, figures


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--turns", type=int, default=1000)
    options_of.add_argument("--rounds", type=int, default=5)
    options_of.add_argument("--no-peers", action="store_true")
    options = options_of.parse_args()
    rows: list[Row] = []
    figures: dict[str, float] = {}
    for backend in backends(options.backend):
        turns, rounds = (50, 1) if options.quick else (options.turns, options.rounds)
        more, found = run(backend, measure, backend, turns, rounds, not options.no_peers)
        rows += more
        figures |= found
    columns = {
        "backend": "", "turns": "", "name": "", "ms_per_turn": ".3f", "low_ms": ".3f", "high_ms": ".3f",
        "times_control": ".1f", "times_watchkeeper": ".2f",
    }  # fmt: skip
    of = ("langgraph", "pydantic-ai-slim", "openai-agents", "agent-framework-core")
    report("turns", rows, figures, columns=columns, as_json=options.json, of=of)


if __name__ == "__main__":
    main()
