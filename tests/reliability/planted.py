"""Deliberate faults, and whether the tests catch them: each is one piece of the source in the place of another.

``planted(fault)`` runs tests against the package with that fault, in a process of its own, until one fails.
"""

from __future__ import annotations

import ast
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from .surgery import ROOT, operate, path_of


class Fault(NamedTuple):
    """What is wrong and where; ``after`` in the place of ``before``, which is there once, makes it so. ``tests`` are
    run."""

    what: str
    module: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def line(self) -> int:
        source = path_of(self.module).read_text("utf-8")
        assert source.count(self.before) == 1, f"{self.what}: {self.module} has it {source.count(self.before)} times"
        return source[: source.index(self.before)].count("\n") + 1

    @property
    def place(self) -> str:
        return f"{path_of(self.module).relative_to(ROOT)}:{self.line}"


class Caught(NamedTuple):
    """The test that failed first; empty if none did."""

    fault: Fault
    test: str


EXECUTOR, RUN, BUDGET, PLANNER = (f"watchkeeper.{name}" for name in ("actors.executor", "run", "budget", "planner"))

FAULTS = (
    Fault(
        "a result is dropped: calls of the last reply at the end of a run",
        "watchkeeper.windup",
        '    run.settle_rest(f"the run was ended first ({ending.reason})")\n',
        "",
        (
            "test_cancellation_windows.py",
            "reliability/test_chaos.py",
        ),
    ),
    Fault(
        "a result is dropped: that of a call which shares another's",
        EXECUTOR,
        "        for sharer in slot.sharers or ():\n            self._share(sharer, slot, settlement)\n",
        "        for sharer in slot.sharers or ():\n            del self._open[sharer.call_id]\n",
        ("test_executor.py",),
    ),
    Fault(
        "a result is dropped: the model never reads one that failed",
        "watchkeeper.history",
        "        result = event.result\n",
        '        result = event.result\n        if result.kind == "timed_out":\n            return\n',
        (
            "test_executor.py",
            "scenarios/test_field_cancel.py",
        ),
    ),
    Fault(
        "two results for one call",
        EXECUTOR,
        "        slot.settled = True\n        del self._open[slot.call_id]\n",
        "        self._open.pop(slot.call_id, None)\n",
        (
            "test_cancel.py",
            "test_cancellation_windows.py",
        ),
    ),
    Fault(
        "a budget is off by one",
        BUDGET,
        "self.used(dimension) + amount <= limit * (1 + EXACT)",
        "self.used(dimension) + amount <= limit + 1",
        ("test_budget.py",),
    ),
    Fault(
        "a limit of none is taken for no limit",
        BUDGET,
        "return limit is None or self.used",
        "return not limit or self.used",
        ("test_budget.py",),
    ),
    Fault(
        "a hold is kept after it is settled",
        BUDGET,
        "                rest = budget.held.get(dimension, 0) - amount\n",
        "                rest = budget.held.get(dimension, 0)\n",
        ("test_budget.py",),
    ),
    Fault(
        "a parent's budget is not asked",
        BUDGET,
        "        limited = [budget for budget in self.path if budget.limits]\n",
        "        limited = [budget for budget in self.path[:1] if budget.limits]\n",
        ("test_budget.py",),
    ),
    Fault(
        "a cancel is swallowed: calls go on",
        RUN,
        "                self.executor.cancel(ending.reason)\n",
        "                pass\n",
        ("test_cancellation_windows.py",),
    ),
    Fault(
        "a cancel is swallowed: the run goes on",
        RUN,
        "        else:\n            self.end(Ending(self.ends_as, reason))\n        for child",
        "        for child",
        ("test_cancel.py",),
    ),
    Fault(
        "a cancel is swallowed: that of sub-agents",
        RUN,
        '            child.cancel("parent_cancelled", mode, deadline=deadline)\n',
        "            pass\n",
        (
            "test_children.py",
            "test_cancel.py",
            "test_cancellation_windows.py",
        ),
    ),
    Fault(
        "a cancel does not reach a request that is under way",
        RUN,
        "                self.agent_task.cancel()\n",
        "                pass\n",
        ("test_cancellation_windows.py",),
    ),
    Fault(
        "two writers are let through: the plan forgets the writer before",
        PLANNER,
        "        if last >= 0:\n            waits.add(last)\n",
        "",
        ("test_planner.py",),
    ),
    Fault(
        "two writers are let through: the executor does not wait",
        EXECUTOR,
        "                slot.waits = len(waits)\n",
        "                slot.waits = 0\n",
        ("test_executor.py",),
    ),
    Fault(
        "two writers are let through: of a prefix and what is under it",
        PLANNER,
        "    return a[:short] == b[:short]\n",
        "    return a == b\n",
        (
            "test_planner.py",
            "test_locks.py",
        ),
    ),
    Fault(
        "a writer and a reader are let through",
        PLANNER,
        "                waits.update(node.readers[bisect_right(node.readers, last) :])\n",
        "                pass\n",
        ("test_planner.py",),
    ),
    Fault(
        "a leak: runs that have ended are kept",
        "watchkeeper.supervisor",
        "        if self.runs.get(run.id) is run:\n            del self.runs[run.id]\n",
        "",
        ("reliability/test_leaks.py",),
    ),
    Fault(
        "a leak: whoever follows a run is never let go",
        "watchkeeper.log",
        "        if self._waiting is not None:\n"
        "            self._waiting.set()\n"
        "            self._waiting = None\n"
        "        self._wake_lazy()\n",
        "        self._wake_lazy()\n",
        ("test_log.py",),
    ),
    Fault(
        "a call runs without the yes that it asks for",
        EXECUTOR,
        "            if slot.asked is not None:\n                self._ask(slot)\n",
        "",
        ("test_approvals.py",),
    ),
    Fault(
        "a yes is not bound to what was shown",
        "watchkeeper.approvals",
        "        if arguments_hash != asked.arguments_hash:\n",
        "        if not arguments_hash:\n",
        ("test_approvals.py",),
    ),
    Fault(
        "a number of facts is left out",
        "watchkeeper.log",
        "        self.n = n = self.n + 1\n",
        "        self.n = n = self.n + 1 + (self.n == 20)\n",
        (
            "testing/test_invariants.py",
            "test_cancellation_windows.py",
        ),
    ),
    Fault(
        "a fact comes after the end record",
        "watchkeeper.windup",
        "    log.append_clean(RunEnded, outcome=outcome)\n    log.close()\n",
        "    log.append_clean(RunEnded, outcome=outcome)\n"
        "    log.append_clean(RunEnding, status=ending.status, reason=ending.reason)\n"
        "    log.close()\n",
        ("test_cancel.py",),
    ),
    Fault(
        "a pause lasts for ever",
        RUN,
        "        self.paused_until = self._paused_at + seconds\n",
        "        self.paused_until = None\n",
        (
            "test_attended.py",
            "test_hostile_hosts.py",
        ),
    ),
    Fault(
        "threads that were left behind are not counted",
        "watchkeeper.threads",
        "                        self.abandoned.add(job)\n",
        "",
        ("test_threads.py",),
    ),
    Fault(
        "more threads are left behind than may be",
        "watchkeeper.threads",
        ">= self._max_abandoned",
        "> self._max_abandoned",
        ("test_threads.py",),
    ),
)
"""What somebody might do to the source by mistake, and the files of tests that are run against it."""


def planted(fault: Fault, seconds: float = 300.0) -> Caught:
    """Run its tests with the fault until one fails."""
    source = path_of(fault.module).read_text("utf-8")
    assert fault.line
    tree = ast.parse(source.replace(fault.before, fault.after))
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "output"
        verdict = operate(fault.module, tree, [f"tests/{name}" for name in fault.tests], seconds=seconds, said=said)
        output = said.read_text("utf-8", "replace")
    if verdict == "survived":
        return Caught(fault, "")
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", output, re.MULTILINE)
    return Caught(fault, failed[1] if failed else "a test that never ended" if verdict == "hung" else "the import")
