"""``watchkeeper demo --real``: a real small model at small file tasks, in a bare loop and under supervision.

Small models run away by nature. Nothing here judges what the model says: the table shows what each way of running it
cost, and how it ended.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

import anyio

from ..agent import Agent
from ..messages import Call, CallAdmitted, CallStarted, Event, Message, Outcome
from ..model import CallDelta, Chunk, Model, ModelError, Request, TextDelta, Timeouts, UsageReported
from ..models.openai import OpenAIModel
from ..plugins import load_tools
from ..profiles import Limits
from ..supervisor import Supervisor
from ..tools import Tool
from .epilogue import epilogue
from .exits import COMPLETED
from .modelserver import find_python, find_script, serve_model
from .narrator import Style, line
from .printable import arguments, count, duration, first_line, one_line
from .tables import Row, print_table
from .view import View, show, view_on

FILES = {
    "notes.txt": "The release is on Monday.\nAnna brings the cake.\n",
    "todo.txt": "1. write the tests\n2. call the printer\n3. water the plants\n",
    "log/errors.txt": "disk full on server 3\n",
}
TASKS = (
    "What does the file notes.txt say?",
    "Read the file todo.txt and tell me how many things there are to do.",
    "Find the file about the budget and tell me what it says.",
)
INSTRUCTIONS = "You are an agent. Use the tools to do the task. When you know the answer, say it."
TOOLS = ("read_file", "list_dir", "find_files")
"""Few, so that the prompt stays short: a slow machine reads some 100 tokens a second."""
STEPS = 12
REPLY = 160
RUN = 120.0
"""Seconds that one run may take."""
PATIENCE = 270.0
"""Seconds for all tasks: one that would probably pass that, going by those before it, is left out."""
TIMEOUTS = Timeouts(first_chunk=180.0, idle=60.0, total=300.0)


class Tally:
    """What one way of doing a task cost, and how it ended."""

    def __init__(self) -> None:
        self.calls = 0
        self.repeated = 0
        self.tokens = 0
        self.ended = ""
        self._began = time.perf_counter()
        self.seconds = 0.0
        self._seen: set[str] = set()

    def count(self, key: str) -> None:
        """A call was run; equal ones have equal keys."""
        self.calls += 1
        self.repeated += key in self._seen
        self._seen.add(key)

    def end(self, how: str) -> Tally:
        self.ended, self.seconds = how, time.perf_counter() - self._began
        return self


async def compare(model_python: Path | None) -> int:
    """Do each task twice, side by side in one table; the exit code."""
    script, python = find_script(), find_python(model_python)
    view = view_on(sys.stdout)
    view.print([line("Loading a small language model (SmolLM2-135M) on this machine …", "dim")])
    rows, tallies = list[Row](), list[tuple[Tally, Tally]]()
    async with serve_model(python, script) as served:
        model = OpenAIModel(
            served.model,
            base_url=served.base_url,
            api_key="none",
            timeouts=TIMEOUTS,
            extra={"temperature": 0, "seed": 1},
            context_window=4096,
        )
        for number, task in enumerate(TASKS, 1):
            longest = max((bare.seconds + watched.seconds for bare, watched in tallies), default=0.0)
            if sum(bare.seconds + watched.seconds for bare, watched in tallies) + longest > PATIENCE:
                view.print([line(""), line("This machine is slow or busy: the other tasks are left out.", "warn")])
                break
            view.print([line(""), line(f"{number}. {task}", "head", wrap=True)])
            tallies.append(await both(model, task, view))
            rows += _rows(f"{number}. {task}", *tallies[-1])
    if len(tallies) > 1:
        rows += _rows("all", _sum(bare for bare, _ in tallies), _sum(watched for _, watched in tallies))
    view.print([line("")])
    print_table(("task", "", "bare loop", "watchkeeper"), rows)
    return COMPLETED


async def both(model: Model, task: str, view: View) -> tuple[Tally, Tally]:
    """One task without and with supervision, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="watchkeeper-") as folder:
        tools = _tools(Path(folder))
        view.print([line("in a bare loop", "head")])
        bare = await loop(model, tools, task, view)
        view.print([line("under watchkeeper", "head")])
        return bare, await supervise(model, tools, task, view)


# -- without supervision ---------------------------------------------------------------------------------------------


async def loop(model: Model, tools: Mapping[str, Tool], task: str, view: View) -> Tally:
    """What many an agent is: ask, run the calls, append the results, again; until there is an answer."""
    tally = Tally()
    with anyio.move_on_after(RUN):
        return await _loop(model, tools, task, view, tally)
    return tally.end(f"cut off after {RUN:g} s")


async def _loop(model: Model, tools: Mapping[str, Tool], task: str, view: View, tally: Tally) -> Tally:
    messages = [Message("system", INSTRUCTIONS), Message("user", task)]
    specs = tuple(tool.spec() for tool in tools.values())
    for step in range(1, STEPS + 1):
        try:
            async with model.stream(Request(tuple(messages), specs, max_tokens=REPLY)) as chunks:
                reply = await _whole(chunks, step, tally)
        except ModelError as error:
            view.print([line(f"    ✗ the model failed: {error.kind}: {one_line(str(error), 160)}", "bad")])
            return tally.end(f"error: {error.kind}")
        messages.append(reply)
        if not reply.calls:
            view.print([line(f"step {step}  an answer: {one_line(reply.content, 100) or '(empty)'}")])
            return tally.end("answer" if reply.content.strip() else "empty answer")
        for call in reply.calls:
            result = execute(tools, call)
            tally.count(f"{call.tool} {call.arguments}")
            messages.append(Message("tool", result, call_id=call.id, tool=call.tool))
            said = f"{one_line(call.tool, 40)} {arguments(call.arguments, 56)}"
            view.print([line(f"step {step}  {said}  {first_line(result, 60)}")])
    return tally.end(f"cap of {STEPS} steps")


def execute(tools: Mapping[str, Tool], call: Call) -> str:
    """Run a call as it came; whatever goes wrong is told to the model."""
    try:
        value = tools[call.tool].function(**json.loads(call.arguments))
        return str(value.content)
    except Exception as error:
        return f"ERROR: {type(error).__name__}: {error}"


async def _whole(chunks: AsyncIterator[Chunk], step: int, tally: Tally) -> Message:
    """A reply put together from its chunks."""
    text, parts = "", dict[int, list[str]]()
    async for chunk in chunks:
        if isinstance(chunk, TextDelta) and chunk.channel == "content":
            text += chunk.text
        elif isinstance(chunk, CallDelta):
            part = parts.setdefault(chunk.index, ["", ""])
            part[0] += chunk.tool or ""
            part[1] += chunk.arguments
        elif isinstance(chunk, UsageReported):
            tally.tokens += chunk.usage.total
    calls = tuple(Call(f"call_{step}_{i}", tool, raw, i) for i, (tool, raw) in enumerate(parts.values(), 1))
    return Message("assistant", text, calls=calls)


# -- with supervision ------------------------------------------------------------------------------------------------


async def supervise(model: Model, tools: Mapping[str, Tool], task: str, view: View) -> Tally:
    """The same model, tools, instructions and number of steps, under watchkeeper with its default profile."""
    tally = Tally()
    limits = Limits(max_turns=STEPS, finish_turns=1, reply_tokens=REPLY, seconds=RUN)
    agent = Agent(model, tools.values(), instructions=INSTRUCTIONS, limits=limits)
    async with Supervisor(plugged=False, keep=10_000) as supervisor:
        run = await supervisor.start(agent, task)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show, run, view)
            outcome = await run.wait()
        _count_calls(tally, [event async for event in run.events() if isinstance(event, Event)])
    view.print(epilogue(outcome))
    tally.tokens = outcome.usage.total
    return tally.end(_ended(outcome))


def _count_calls(tally: Tally, events: Iterable[Event]) -> None:
    keys = dict[str, str]()
    for event in events:
        if isinstance(event, CallAdmitted):
            keys[event.call_id] = event.key
        elif isinstance(event, CallStarted) and event.attempt == 1:
            tally.count(keys[event.call_id])


def _ended(outcome: Outcome) -> str:
    kinds = Counter(call.kind for call in outcome.calls)
    refused = f", {count(kinds['refused'], 'call')} refused" if kinds["refused"] else ""
    if outcome.status == "completed":
        return ("forced answer" if outcome.forced else "answer") + refused
    return f"{outcome.status}: {outcome.reason}{refused}"


# -- side by side ----------------------------------------------------------------------------------------------------


def _tools(folder: Path) -> dict[str, Tool]:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return {tool.name: tool for tool in load_tools("files", root=folder) if tool.name in TOOLS}


def _sum(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.calls += tally.calls
        whole.repeated += tally.repeated
        whole.tokens += tally.tokens
        whole.seconds += tally.seconds
    return whole


def _rows(name: str, bare: Tally, watched: Tally) -> list[Row]:
    def cells(tally: Tally) -> list[str]:
        return [str(tally.calls), str(tally.repeated), f"{tally.tokens:,}", duration(tally.seconds), tally.ended]

    labels = ["calls run", "of these repeats", "tokens", "time", "ended by"]
    table = list[Row]()
    for number, (label, left, right) in enumerate(zip(labels, cells(bare), cells(watched), strict=True)):
        if not left and not right:
            continue
        style: Style = "plain"
        table.append(((name if not number else "", "head"), (label, "dim"), (left, style), (right, style)))
    return table
