"""Runs that are made up, and what can be done to them, as a service would: no HTTP is here."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from service.made_up import HOSTILE, TASKS, Log, log_of, outcome, stands
from service.office import Tokens
from watchkeeper import messages as m
from watchkeeper.engine import RunSpec, RunStatus


class MadeUp:
    """One run: its whole log, of which ``k`` facts have happened."""

    def __init__(self, spec: RunSpec, log: Log, k: int, **fixed: Any) -> None:
        self.spec, self.log, self.k, self.fixed = spec, log, k, fixed

        self._stood: tuple[int, RunStatus] | None = None

    @property
    def status(self) -> RunStatus:
        if self._stood is None or self._stood[0] != self.k:
            self._stood = (self.k, stands(self.spec, self.log, self.k, **self.fixed))
        return self._stood[1]

    @property
    def waits(self) -> m.ApprovalRequested | None:
        last = self.log.events[self.k - 1] if self.k else None
        return last if isinstance(last, m.ApprovalRequested) else None

    def now(self, kind: type[m.Event], **fields: Any) -> None:
        """Something happens otherwise than the log has it: what was to come is forgotten, save for a pause."""
        later = self.log.events[self.k :]
        del self.log.events[self.k :]
        self.log.t = max(self.log.events[-1].t if self.log.events else 0.0, time.time() - self.log.began)
        self.log.turn = self.log.events[-1].turn if self.log.events else 0
        self.log.add(kind, **fields)
        self.k += 1
        if kind in (m.Paused, m.Resumed, m.ApprovalResolved, m.UserMessage):
            shift = self.log.t - later[0].t + 0.5 if later else 0.0
            for number, event in enumerate(later):
                moved = {"n": self.k + number + 1, "t": event.t + shift, "at": event.at + shift}
                self.log.events.append(msgspec.structs.replace(event, **moved))

    def end(self, status: Any, reason: str) -> None:
        self.now(m.CancelRequested, mode="now", reason=reason)
        self.now(m.RunEnding, status=status, reason=reason)
        told = f"The run was cancelled: {reason}."
        self.now(m.RunEnded, outcome=outcome(self.log.run, status, reason, told, self.log))


def _fits(status: RunStatus, wanted: dict[str, Any]) -> bool:
    return (
        status.state != "ended"
        and status.state in wanted.get("states", [status.state])
        and status.spec.agent == wanted.get("agent", status.spec.agent)
        and wanted.get("labels", {}).items() <= status.spec.labels.items()
        and status.run in wanted.get("runs", [status.run])
    )


class Service:
    """The made-up runs, and what is sent to them."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.scopes = ["read", "run", "approve", "admin"]
        self.runs: dict[str, MadeUp] = {}
        self.tokens = Tokens()
        self.changed = threading.Condition()
        self.version = 0
        self.sent: list[tuple[str, str, Any]] = []
        self.dropped = 0
        """Raise it, and all streams are cut."""
        self.down = False
        self.streams = 0
        """Of single runs, that are open."""

    def add(
        self,
        agent: str,
        task: str,
        *,
        turns: int = 8,
        k: int | None = None,
        age: float = 0.0,
        trouble: str = "",
        pace: float = 1.0,
        labels: dict[str, str] | None = None,
        run: str = "",
        **fixed: Any,
    ) -> MadeUp:
        number = len(self.runs) + 1
        run = run or f"r{number:04d}x{(number * 7919) % 46656:04x}"
        spec = RunSpec(agent=agent, task=task, labels=labels or {}, by="desk")
        log = log_of(spec, run, number, turns=turns, began=time.time() - age, trouble=trouble, pace=pace)
        made = self.runs[run] = MadeUp(spec, log, len(log.events) if k is None else k, **fixed)
        return made

    def changes(self) -> None:
        with self.changed:
            self.version += 1
            self.changed.notify_all()

    def until(self, condition: Callable[[], bool], seconds: float = 15.0) -> bool:
        with self.changed:
            return self.changed.wait_for(condition, seconds)

    def stop(self, run: str, reason: str) -> None:
        for name, made in self.runs.items():
            if run in (name, made.fixed.get("parent")) and made.status.state != "ended":
                made.end("cancelled", reason or "cancelled")

    def stop_many(self, body: dict[str, Any]) -> dict[str, Any]:
        """All live runs, or those that fit the filter: what is told of them, and they are stopped unless it is dry."""
        wanted = body.get("filter", {})
        found = [run for run, made in self.runs.items() if "parent" not in made.fixed and _fits(made.status, wanted)]
        for run in () if body.get("dry_run") else found:
            self.stop(run, body.get("reason", ""))
        return {
            "runs": [
                {
                    "run": run, "agent": status.spec.agent, "task": status.spec.task, "state": status.state,
                    "outcome": status.outcome and status.outcome.status, "reason": "",
                }
                for run in found
                for status in (self.runs[run].status,)
            ],
            "dry_run": bool(body.get("dry_run")),
        }  # fmt: skip

    def approvals(self) -> list[dict[str, Any]]:
        return [
            {
                "approval": asked.approval, "run": asked.run, "agent": made.spec.agent, "task": made.spec.task,
                "call": asked.call_id, "tool": asked.tool, "arguments": asked.arguments,
                "arguments_hash": asked.arguments_hash, "why": asked.why, "asked": asked.at,
                "expires": asked.at + asked.seconds, "exact": True, "by": asked.by,
            }
            for made in self.runs.values()
            if (asked := made.waits)
        ]  # fmt: skip

    def play(self, stop: threading.Event) -> None:
        """Let time pass for the runs, until told to stop."""
        while not stop.wait(0.2):
            now, moved = time.time(), False
            for made in list(self.runs.values()):
                while made.k < len(made.log.events) and not made.waits and made.status.state != "paused":
                    if made.log.began + made.log.events[made.k].t > now:
                        break
                    made.k += 1
                    moved = True
            if moved and not stop.is_set():
                self.changes()


def timeline(made: MadeUp) -> dict[str, Any]:
    """As the service gives it: bars of the three lanes, and the spend."""
    lanes: dict[str, list[dict[str, Any]]] = {"model": [], "tools": [], "watchdog": []}
    open_calls: dict[str, dict[str, Any]] = {}
    spend, total = [], {}
    for event in made.log.events[: made.k]:
        base = {"from": event.t, "to": event.t, "row": 0, "n": event.n, "call": ""}
        match event:
            case m.ModelRequested():
                lanes["model"].append({**base, "to": None, "label": event.model, "kind": "running"})
            case m.ModelReplied():
                lanes["model"][-1].update({"to": event.t, "kind": "reply"})
            case m.ApprovalRequested():
                bar = {**base, "to": None, "label": event.tool, "kind": "waiting", "call": event.call_id}
                lanes["tools"].append(bar)
                open_calls[f"approval {event.call_id}"] = bar
            case m.ApprovalResolved():
                open_calls.pop(f"approval {event.call_id}").update({"to": event.t, "kind": event.how})
            case m.UserMessage() | m.CancelRequested():
                kind = "user" if isinstance(event, m.UserMessage) else "cancel"
                lanes["watchdog"].append({**base, "label": kind, "kind": kind})
            case m.Paused():
                lanes["watchdog"].append({**base, "to": None, "label": event.reason, "kind": "pause"})
            case m.Resumed():
                lanes["watchdog"][-1]["to"] = event.t
            case m.CallStarted():
                taken = {bar["row"] for bar in open_calls.values()}
                row = next(row for row in range(99) if row not in taken)
                bar = {**base, "to": None, "row": row, "label": event.tool, "kind": "running", "call": event.call_id}
                lanes["tools"].append(bar)
                open_calls[event.call_id] = bar
            case m.CallEnded():
                open_calls.pop(event.result.call_id).update({"to": event.t, "kind": event.result.kind})
            case m.FindingMade():
                lanes["watchdog"].append({**base, "label": event.finding.detector, "kind": "finding"})
            case m.Nudged() | m.Blocked():
                lanes["watchdog"].append(
                    {**base, "label": event.by, "kind": "nudge" if isinstance(event, m.Nudged) else "block"}
                )
            case m.Settled():
                for name, amount in event.amounts.items():
                    total[name] = total.get(name, 0.0) + amount
                spend.append({"t": event.t, "spent": dict(total)})
            case m.RunEnded():
                for bar in (bar for bars in lanes.values() for bar in bars if bar["to"] is None):
                    bar.update({"to": event.t, "kind": "abandoned" if bar["kind"] == "running" else bar["kind"]})
    ended = made.status.state == "ended"
    now = made.log.events[made.k - 1].t if ended else time.time() - made.log.began
    return {"lanes": [{"lane": lane, "bars": bars} for lane, bars in lanes.items()], "spend": spend, "now": now}


def furnished(runs: int, token: str = "") -> Service:
    """A service with runs of every kind, most of them at work."""
    r = random.Random(7)
    service = Service(token)
    for number in range(max(0, runs - 9)):
        agent, task = TASKS[number % len(TASKS)]
        turns, share = r.randint(3, 14), r.random()
        labels = {"team": r.choice(("billing", "data", "web"))} if number % 3 else {}
        made = service.add(agent, task, turns=turns, labels=labels, pace=r.uniform(1, 9))
        whole = made.log.t
        if share < 0.5:
            _place(made, -r.uniform(60, 30_000) - whole)
        else:
            _place(made, -r.uniform(1, whole * 0.9))
    loop = service.add("researcher", TASKS[0][1], turns=19, pace=3, trouble="loop", labels={"team": "data"})
    _place(loop, -loop.log.t * 0.6)
    for age in (20, 75):
        asks = service.add("support", TASKS[3][1], turns=6, trouble="approval", labels={"ticket": str(48213 + age)})
        at = next(event.n for event in asks.log.events if isinstance(event, m.ApprovalRequested))
        _place(asks, -asks.log.events[at - 1].t - age, at)
    parent = service.add("coder", TASKS[7][1], turns=18, pace=3, trouble="child", run="r-tree")
    _place(parent, -parent.log.t * 0.6)
    for name in ("c", "d"):
        child = service.add("reader", "Read the changelog of one package", turns=8, pace=5, run=f"r-tree-{name}",
                            parent="r-tree", root="r-tree")  # fmt: skip
        _place(child, -8 if name == "c" else -500)
    hostile = service.add(HOSTILE, HOSTILE, turns=9, pace=8, trouble="hostile", labels={HOSTILE: HOSTILE})
    _place(hostile, -60)
    stopped = service.add("analyst", TASKS[2][1], turns=5, k=30)
    _place(stopped, -4000, 30)
    stopped.end("stopped", "loop")
    failed = service.add("auditor", TASKS[6][1], turns=5, k=20)
    _place(failed, -2000, 20)
    failed.end("failed", "model_unavailable")
    paused = service.add("migrator", TASKS[4][1], turns=8)
    _place(paused, -9)
    paused.now(m.Paused, reason="a word with the team first")
    queued = service.add("analyst", TASKS[5][1], turns=4, k=0)
    queued.log.began = time.time() + 3600
    return service


def _place(made: MadeUp, offset: float, k: int | None = None) -> None:
    """Let the run have begun so many seconds from now, and as many of its facts have happened as fit."""
    began = time.time() + offset
    made.log.events[:] = [msgspec.structs.replace(event, at=began + event.t) for event in made.log.events]
    made.log.began = began
    made.k = sum(event.t <= -offset for event in made.log.events) if k is None else k
