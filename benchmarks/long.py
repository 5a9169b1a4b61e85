"""A long run: ten thousand turns of one run. What it holds must not grow, and its last turns must be as fast as its
first.

Run it with ``python benchmarks/long.py``. The history of a run grows with its turns, whoever keeps it: what the model
has been told is what it has been told. So ``kb_growth`` is measured without it: the bytes of the conversation (texts,
arguments and the messages that hold them) are taken off what ``tracemalloc`` says was kept from turn 1,000 to the last.
``last_over_first_turn`` compares the median time of the last thousand turns with that of the first thousand behind the
warm-up. The model is scripted and answers at once; it does not look at the conversation, so that the time of a turn is
the runtime's own. The control appends the same messages to a list.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterable

import msgspec

from reporting import Row, backends, parser, report, run, suffix
from watchkeeper import Agent, Limits, Supervisor, tool
from watchkeeper.messages import Call, Message
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, call, say
from watchkeeper.testing.script import Step


@tool(effect="nothing")
async def look(number: int) -> str:
    """Look something up."""
    return f"{number:08} ".ljust(200, chr(97 + number % 26))


class Watch:
    """A scripted model that notes when it is asked, and at some turns what is held."""

    def __init__(self, turns: int, traced: bool) -> None:
        self.turns = turns
        self.traced = traced
        self.at: list[float] = []
        self.held: list[tuple[int, float, float]] = []
        """Turn, bytes that are kept, bytes of the conversation among them."""

    def reply(self, request: Request, asked: int) -> Step:
        if self.traced and asked in (self.turns // 10, self.turns):
            gc.collect()
            self.held.append((asked, tracemalloc.get_traced_memory()[0], size_of(request.messages)))
        self.at.append(time.perf_counter())
        return call(("look", {"number": asked * 7919})) if asked < self.turns else say("done")


def size_of(messages: Iterable[Message]) -> float:
    """Bytes of a conversation: of each object once."""
    seen: set[int] = set()
    total, waiting = 0, list[object](messages)
    while waiting:
        one = waiting.pop()
        if id(one) in seen or one is None:
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        if isinstance(one, msgspec.Struct):
            waiting += [getattr(one, name) for name in one.__struct_fields__]
        elif isinstance(one, tuple | list):
            waiting += one
    return total


async def go(turns: int, traced: bool) -> Watch:
    watch = Watch(turns, traced)
    async with Supervisor(plugged=False, monitor=False) as supervisor:
        limits = Limits(max_turns=turns + 2, max_calls=turns + 2, tokens=None, seconds=None)
        model = ScriptedModel(watch.reply, keep_requests=False)
        outcome = await (await supervisor.start(Agent(model, [look], limits=limits), "task")).wait()
    assert (outcome.status, outcome.turns) == ("completed", turns), outcome.message
    return watch


def control(turns: int) -> float:
    """Milliseconds a turn of keeping the conversation and nothing else."""
    kept: list[Message] = []
    began = time.perf_counter()
    for number in range(turns):
        kept.append(Message("assistant", "", (Call(f"c{number}", "look", "{}", 1),)))
        kept.append(Message("tool", f"{number:08} ".ljust(200), call_id=f"c{number}"))
    return (time.perf_counter() - began) / turns * 1000


def measure(backend: str, turns: int) -> tuple[list[Row], dict[str, float]]:
    watch = run(backend, go, turns, False)
    part = max(turns // 10, 10)
    times = [(after - before) * 1000 for before, after in zip(watch.at, watch.at[1:], strict=False)]
    # In tenths: the first one warms up.
    tenths = [statistics.median(times[at : at + part]) for at in range(0, len(times) - part + 1, part)]
    rows: list[Row] = [
        {"what": "time", "backend": backend, "turn": (number + 1) * part, "ms_per_turn": took, "control": control(part)}
        for number, took in enumerate(tenths)
    ]
    tracemalloc.start()
    held = run(backend, go, turns, True).held
    tracemalloc.stop()
    rows += [
        {"what": "memory", "backend": backend, "turn": turn, "kb": kept / 1024, "kb_history": history / 1024}
        for turn, kept, history in held
    ]
    (_, before, its), (_, after, theirs) = held
    return rows, {
        f"kb_growth{suffix(backend)}": ((after - theirs) - (before - its)) / 1024,
        f"last_over_first_turn{suffix(backend)}": tenths[-1] / tenths[1],
    }


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--turns", type=int, default=10_000)
    options = options_of.parse_args()
    rows: list[Row] = []
    figures: dict[str, float] = {}
    for backend in backends(options.backend):
        more, found = measure(backend, 200 if options.quick else options.turns)
        rows += more
        figures |= found
    columns = {
        "what": "", "backend": "", "turn": "", "ms_per_turn": ".3f", "control": ".4f", "kb": ",.0f",
        "kb_history": ",.0f",
    }  # fmt: skip
    report("long", rows, figures, columns=columns, as_json=options.json)


if __name__ == "__main__":
    main()
