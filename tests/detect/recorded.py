"""Recorded runs of real models as facts: what the judge makes of each."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from watchkeeper.detect.judge import Judge
from watchkeeper.messages import CallEnded, CallProposed, Event, Result, UserMessage

FILES = ("tau.jsonl.gz", "polybench_iswe.jsonl.gz", "polybench_codex.jsonl.gz")


class Judged(msgspec.Struct):
    """When the watchdog would have acted: numbers of calls from 1; 0 for never."""

    id: str
    outcome: str
    calls: int = 0
    nudged: int = 0
    blocked: int = 0
    stopped: int = 0
    detector: str = ""


def runs(folder: Path) -> Iterator[dict[str, Any]]:
    for name in FILES:
        with gzip.open(folder / "corpora" / name, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def facts(run: dict[str, Any]) -> Iterator[Event]:
    """The facts of a recorded run: no turns, no times, no declarations."""
    n = user_turn = 0
    canonical = msgspec.json.Encoder(order="deterministic")
    for step in run["steps"]:
        envelope: dict[str, Any] = {"run": run["id"], "at": 0.0, "t": 0.0, "context": step.get("agent") or "main"}
        if step.get("user_turn", 0) != user_turn:
            user_turn = step["user_turn"]
            n += 1
            yield UserMessage(n=n, text="", user_turn=user_turn, **envelope)
        envelope["user_turn"] = user_turn
        arguments = canonical.encode(step["args"]).decode()
        n += 1
        yield CallProposed(n=n, call_id=step["call_id"], tool=step["tool"], arguments=arguments, **envelope)
        n += 1
        failed = bool(step["error"])
        result = Result(
            step["call_id"],
            step["tool"],
            "failed" if failed else "finished",
            str(step["result"]),
            error="error" if failed else None,
        )
        yield CallEnded(n=n, result=result, arguments=arguments, result_key=step["result_sha256"], **envelope)


def judge(run: dict[str, Any]) -> Judged:
    """Feed a run to a fresh judge until it stops it or the run ends."""
    watching = Judge()
    seen = Judged(run["id"], run["outcome"], len(run["steps"]))
    call = 0
    for event in facts(run):
        call += isinstance(event, CallEnded)
        judged = watching.observe(event)
        for finding, verdict in judged.found if judged is not None else ():
            if verdict is None:
                continue
            if verdict.action == "nudge":
                seen.nudged = seen.nudged or call
            elif verdict.action == "block":
                seen.blocked = seen.blocked or call
            else:
                seen.stopped, seen.detector = call, finding.detector
                return seen
    return seen
