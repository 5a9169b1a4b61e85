"""Packages against loops that can be installed, each fed with a recorded run by its own interface, at its defaults.

``pip install --group rivals`` brings them; one that is missing is left out. What had to be chosen because a record
lacks it, or because a default only reports, is said with each. None of them is given a clock, a model or a network.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rules import Act, Rule, Seen

Make = Callable[[Sequence[str]], Rule]


def agent_loop_guard() -> Make:
    from loop_guard import Action, LoopGuard

    class AgentLoopGuard(Rule):
        source = "LoopGuard().check(tool, args, output); of results the first 200 characters, else it takes seconds"

        def begin(self) -> None:
            self._guard = LoopGuard()

        def call(self, seen: Seen) -> Act | None:
            action = self._guard.check(seen.tool, _named(seen.args), seen.result[:200]).action
            return "stop" if action in (Action.STOP, Action.ESCALATE) else "warn" if action is Action.WARN else None

    return AgentLoopGuard


def trajectory_fuse() -> Make:
    from trajectory_fuse import Action, AgentFuse, DeadlockDetected, FuseConfig

    class TrajectoryFuse(Rule):
        source = "AgentFuse().observe(Action(...)); declared polls as its allow_repeats"

        def begin(self) -> None:
            self._fuse = AgentFuse(config=FuseConfig(allow_repeats=dict.fromkeys(self.polls, 1000)))

        def call(self, seen: Seen) -> Act | None:
            try:
                self._fuse.observe(Action(seen.tool, seen.args, seen.result, not seen.error))
            except DeadlockDetected:
                return "stop"
            return None

    return TrajectoryFuse


class _Unwedge(Rule):
    """unwedge takes turns of commands; calls that are no commands are written as ``tool {arguments}``."""

    hints_count = False

    def begin(self) -> None:
        from unwedge import Guard

        self._guard = Guard("", None)
        self._turns = 0

    def user(self) -> None:
        """A session goes on."""

    def call(self, seen: Seen) -> Act | None:
        from unwedge import Action, Turn
        from unwedge.normalize import classify_command, looks_like_error
        from unwedge.turns import ToolClass

        self._turns += 1
        command = seen.command
        if command is not None:
            command = re.sub(r"^/bin/bash -lc (['\"]?)(.*)\1$", r"\2", command, flags=re.DOTALL)
            tool, kind = classify_command(command)
        else:
            command, tool = f"{seen.tool} {json.dumps(seen.args, sort_keys=True, default=str)}", seen.tool
            kind = ToolClass.EDIT if re.search(r"edit|write|replace|create|update", seen.tool) else ToolClass.RUN
        failed = seen.error or (seen.command is not None and looks_like_error(seen.result, kind))
        changes = kind is ToolClass.EDIT and not failed
        turn = Turn(self._turns, command, tool, kind, seen.result, failed, changes, 1.0)
        action = self._guard.on_turn(turn).decision.action
        if action in (Action.ESCALATE, Action.KILL):
            return "stop"
        return None if action is not Action.HINT else "stop" if self.hints_count else "warn"


class UnwedgeHint(_Unwedge):
    source = "Guard('', None).on_turn(turn), code tier alone; its first hint counts as a stop"
    hints_count = True


class UnwedgeEscalate(_Unwedge):
    source = "the same; only its escalation counts as a stop"


def runbound() -> Make:
    import runbound as package

    logging.getLogger("runbound").setLevel(logging.CRITICAL)
    package.init(on_anomaly="raise", on_loop="break", auto_wrap=False)
    number = 0

    class Runbound(Rule):
        source = "@runbound.tool in a session, on_loop='break' (its default only reports)"

        def begin(self) -> None:
            nonlocal number
            number += 1
            self._key = f"run {number}"
            self._tools: dict[str, Callable[..., Any]] = {}
            self._now: Seen | None = None

        def user(self) -> None:
            """A session goes on."""

        def call(self, seen: Seen) -> Act | None:
            self._now = seen
            if seen.tool not in self._tools:
                self._tools[seen.tool] = self._wrapped(seen.tool)
            try:
                with package.session(self._key):
                    self._tools[seen.tool](json.dumps(seen.args, sort_keys=True, default=str))
            except _Failed:
                return None
            except (package.GuardrailTripped, package.ExecutionRefused) as error:
                # Its other detectors go by the clock, which a replay does not have.
                return "stop" if getattr(getattr(error, "anomaly", None), "detector", "loop") == "loop" else None
            return None

        def _wrapped(self, name: str) -> Callable[..., Any]:
            def run(arguments: str) -> str:
                assert self._now is not None
                if self._now.error:
                    raise _Failed(self._now.result[:200])
                return self._now.result

            wrapped: Callable[..., Any] = package.tool(name=name, polling=name in self.polls)(run)
            return wrapped

    return Runbound


class _Failed(Exception):
    """Raised where the recorded call had failed."""


def steerplane() -> Make:
    from steerplane import LoopDetector

    class SteerPlane(Rule):
        source = "LoopDetector().record_action(tool)"

        def begin(self) -> None:
            self._detector = LoopDetector()

        def user(self) -> None:
            """A run goes on."""

        def call(self, seen: Seen) -> Act | None:
            return "stop" if self._detector.record_action(seen.tool).loop_detected else None

    return SteerPlane


def agent_vitals() -> Make:
    from agent_vitals import AgentVitals

    class Vitals(Rule):
        source = "AgentVitals().step(...): distinct results as findings, their share as coverage, ten tokens a word"

        def begin(self) -> None:
            self._monitor = AgentVitals()
            self._results: set[str] = set()
            self._calls = self._errors = self._tokens = 0

        def user(self) -> None:
            """A mission goes on."""

        def call(self, seen: Seen) -> Act | None:
            self._calls += 1
            self._errors += seen.error
            self._tokens += 50 + len(seen.result) // 4
            self._results.add(seen.key + seen.outcome)
            found = len(self._results)
            snapshot = self._monitor.step(
                findings_count=found,
                coverage_score=found / (found + 10),
                total_tokens=self._tokens,
                error_count=self._errors,
                query_count=self._calls,
                output_text=seen.result[:4096],
            )
            return "stop" if snapshot.loop_detected or snapshot.stuck_detected else None

    return Vitals


def loopbrake(lengths: Sequence[int]) -> Make:
    """``lengths``: of past good runs, from which it takes its line (5 % of good runs may be stopped)."""
    from loopbrake.brake import Brake
    from loopbrake.conformal import threshold

    home = Path(tempfile.mkdtemp(prefix="loopbrake-"))
    line = threshold(sorted(lengths), 0.05)

    class LoopBrake(Rule):
        source = "Brake.step(...), its line at 5 % from half of the good runs of the source"

        def begin(self) -> None:
            calibration = {"method": "steps", "alpha": 0.05, "n": len(lengths), "stop_line": line, "watch_only": False}
            self._brake = Brake("p", "s", "r", home, calibration, record=False)

        def user(self) -> None:
            """A run goes on."""

        def call(self, seen: Seen) -> Act | None:
            return "stop" if self._brake.step(seen.key, seen.result, error=seen.error or None).stop else None

    return LoopBrake


PACKAGES: dict[str, tuple[str, Callable[[], Make]]] = {
    "agent-loop-guard": ("agent-loop-guard", agent_loop_guard),
    "trajectory-fuse": ("trajectory-fuse", trajectory_fuse),
    "unwedge (hint)": ("unwedge", lambda: UnwedgeHint),
    "unwedge (escalate)": ("unwedge", lambda: UnwedgeEscalate),
    "runbound (break)": ("runbound", runbound),
    "steerplane": ("steerplane", steerplane),
    "agent-vitals": ("agent-vitals", agent_vitals),
}
"""By name of the row: the distribution, and what makes the maker of its rules. loopbrake needs past runs: apart."""
DISTRIBUTIONS = (*dict.fromkeys(name for name, _ in PACKAGES.values()), "loopbrake")


def version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _named(args: Any) -> dict[str, Any]:
    return args if isinstance(args, dict) else {"input": args}
