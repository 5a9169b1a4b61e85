"""Made-up runs for the page: whole event logs in the package's own vocabulary, and how a run stands after k of them."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

from watchkeeper import messages as m
from watchkeeper.engine import RunSpec, RunStatus

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202etxt.exe\u202c"
TASKS = (
    ("researcher", "Which of our suppliers changed their terms since March, and what does it cost us?"),
    ("coder", "Make the flaky test in the payment service deterministic and open a pull request"),
    ("analyst", "Compare last quarter's churn by region and explain the outliers"),
    ("support", "Answer ticket 48213: the customer was billed twice for the same invoice"),
    ("migrator", "Move the nightly export from cron to the scheduler, keep the file names"),
    ("researcher", "Find three independent sources for the claim on page 14 of the annual report"),
    ("auditor", "List every service account that has not been used for 90 days"),
    ("coder", "Upgrade the HTTP client to the next major version across all packages"),
)
TOOLS = (
    ("search", lambda r: {"query": r.choice(("terms of delivery 2026", "supplier notice March", "price list B"))}),
    ("read_file", lambda r: {"path": f"reports/{r.choice(('q1', 'q2', 'q3'))}/terms-{r.randint(1, 40)}.md"}),
    ("fetch", lambda r: {"url": f"https://intranet.example/wiki/{r.randint(100, 999)}", "timeout": 20}),
    ("sql", lambda r: {"query": f"select region, count(*) from churn where week = {r.randint(1, 52)} group by 1"}),
    ("write_file", lambda r: {"path": f"out/summary-{r.randint(1, 9)}.md", "text": "# Summary\n\nDraft."}),
)
LIMITS = {"turns": 20.0, "calls": 1000.0, "tokens": 200_000.0, "money": 2.0}
START = 1_790_000_000.0


class Log:
    """Writes the events of one run."""

    def __init__(self, run: str, began: float, pace: float = 1.0) -> None:
        self.run, self.began, self.pace = run, began, pace
        self.events: list[m.Event] = []
        self.t = 0.0
        self.turn = 0

    def add(self, kind: type[m.Event], later: float = 0.0, /, slot: int = 0, **fields: Any) -> m.Event:
        self.t += later * self.pace
        event = kind(
            n=len(self.events) + 1,
            run=self.run,
            at=self.began + self.t,
            t=round(self.t, 3),
            turn=self.turn,
            slot=slot,
            **fields,
        )
        self.events.append(event)
        return event


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def log_of(
    spec: RunSpec, run: str, seed: int, *, turns: int, began: float, trouble: str = "", pace: float = 1.0
) -> Log:
    """The facts of a whole run. ``trouble``: ``approval``, ``loop``, ``child``, or ``hostile`` for its texts."""
    r = random.Random(seed)
    log = Log(run, began, pace)
    log.add(m.RunStarted, agent=spec.agent, task=spec.task, tools=tuple(n for n, _ in TOOLS), limits=dict(LIMITS),
            model="gpt-oss-120b")  # fmt: skip
    log.add(m.UserMessage, text=spec.task)
    for number in range(1, turns + 1):
        log.turn = number
        log.add(m.TurnStarted, 0.02, left=turns - number)
        _ask(log, r)
        last = number == turns
        calls = () if last else _calls(log, r, number, trouble)
        text = HOSTILE if trouble == "hostile" else r.choice((
            "The March notice names a new surcharge. I look at the contracts that refer to it.",
            "Two of the files agree; the third is older. I check the price list next.",
            "I have what I need for the first half of the question.",
        ))  # fmt: skip
        usage = m.Usage(input_tokens=1800 * number + r.randint(0, 900), output_tokens=r.randint(80, 600))
        log.add(m.ModelReplied, r.uniform(0.8, 4.0), text=text, calls=calls, usage=usage,
                finish="stop" if last else "tool_calls", seconds=2.1)  # fmt: skip
        log.add(m.Settled, held=f"h{number}", amounts={
            "turns": 1.0, "tokens": float(usage.total), "money": round(usage.total * 3.1e-6, 6),
        })  # fmt: skip
        if calls:
            _work(log, r, calls, number, trouble)
    log.add(m.RunEnding, 0.01, status="completed", reason="answer")
    log.add(m.RunEnded, outcome=outcome(run, "completed", "answer", "The run has answered.", log))
    return log


def outcome(run: str, status: Any, reason: str, message: str, log: Log, **more: Any) -> m.Outcome:
    return m.Outcome(
        run=run, status=status, reason=reason, message=message, seconds=log.t, turns=log.turn,
        answer="Three suppliers changed their terms; the yearly effect is 41,200." if status == "completed" else None,
        **more,
    )  # fmt: skip


def _ask(log: Log, r: random.Random) -> None:
    log.add(m.ModelRequested, 0.01, model="gpt-oss-120b", messages=2 * log.turn, input_estimate=1500 * log.turn)
    if log.turn == 3:
        log.add(m.ModelRetried, 0.6, attempt=1, error="rate_limited", wait=1.5)
    log.add(m.ModelFirstChunk, r.uniform(0.2, 0.9), seconds=0.4)


def _calls(log: Log, r: random.Random, turn: int, trouble: str) -> tuple[m.Call, ...]:
    if trouble == "approval" and turn == 3:
        arguments = json.dumps({"amount": 1249.0, "invoice": "INV-2026-0391", "to": "DE44 5001 0517 5407 3249 31"})
        return (m.Call(f"c{turn}.1", "refund", arguments, 1),)
    if trouble == "loop" and turn >= 3:
        return (m.Call(f"c{turn}.1", "search", '{"query":"supplier notice March"}', 1),)
    made = []
    for slot in range(1, r.choice((2, 3, 3, 4, 6)) + 1):
        tool, arguments = r.choice(TOOLS[:4] if slot > 1 else TOOLS)
        given = {"query": HOSTILE} if trouble == "hostile" else arguments(r)
        made.append(m.Call(f"c{turn}.{slot}", tool, json.dumps(given, ensure_ascii=False), slot))
    return tuple(made)


def _work(log: Log, r: random.Random, calls: tuple[m.Call, ...], turn: int, trouble: str) -> None:
    for call in calls:
        log.add(m.CallProposed, 0.001, slot=call.slot, call_id=call.id, tool=call.tool, arguments=call.arguments)
        log.add(m.CallAdmitted, 0.001, slot=call.slot, call_id=call.id, tool=call.tool, key=digest(call.arguments)[:16])
    if calls[0].tool == "refund":
        log.add(m.ApprovalRequested, 0.01, slot=1, approval=f"a-{log.run}", call_id=calls[0].id, tool="refund",
                arguments=calls[0].arguments, arguments_hash=digest(calls[0].arguments), seconds=600.0,
                why="the tool refund is declared irreversible", by=("policy",))  # fmt: skip
    running = []
    for call in calls:
        log.add(m.CallStarted, r.uniform(0.01, 0.2), slot=call.slot, call_id=call.id, tool=call.tool, timeout=30.0)
        if trouble == "child" and turn == 2 and call.slot == 1:
            log.add(m.ChildStarted, 0.01, child=f"{log.run}-c", agent="reader", call_id=call.id, task="Read the terms")
        running.append(call)
    r.shuffle(running)
    for call in running:
        kind: Any = r.choices(("finished", "failed", "timed_out"), (12, 1, 0.4))[0]
        content = HOSTILE if trouble == "hostile" else f"{r.randint(1, 9)} matches in {call.tool}: see lines 12 to 40."
        error = {"finished": None, "failed": "http_503", "timed_out": "timeout"}[kind]
        result = m.Result(call.id, call.tool, kind, content, productive=error is None, error=error)
        log.add(m.CallEnded, r.uniform(0.1, 2.4), slot=call.slot, result=result, arguments=call.arguments, ran=1.2)
    log.add(m.EvidenceFound, 0.001, calls=tuple(call.id for call in calls))
    if trouble == "loop" and turn >= 4:
        _judge(log, turn)


def _judge(log: Log, turn: int) -> None:
    finding = m.Finding(
        detector="equal", pattern="search(query) returned the same result", count=turn - 2, tool="search",
        calls=tuple(f"c{n}.1" for n in range(3, turn + 1)), onset=12, onset_call=7, calls_since=turn - 2,
        tokens_since=5200 * (turn - 2),
    )  # fmt: skip
    cause = log.add(m.FindingMade, 0.002, finding=finding)
    if turn == 4:
        log.add(m.Nudged, 0.001, by="equal", cause=cause.n,
                text="This call gave the same result before. Use what it found, or ask something else.")  # fmt: skip
    else:
        log.add(m.Blocked, 0.001, by="equal", cause=cause.n, keys=("search",))


def stands(spec: RunSpec, log: Log, k: int, **fixed: Any) -> RunStatus:
    """How the run stands after its first ``k`` facts."""
    state, turn, calls, findings, asked, done = "queued", 0, 0, 0, 0, None
    spent: dict[str, float] = {}
    at_work: dict[str, str] = {}
    doing, progress, ended = "", None, None
    for event in log.events[:k]:
        turn = event.turn
        match event:
            case m.RunStarted():
                state = "running"
            case m.ModelRequested():
                doing = "model"
            case m.ModelReplied():
                doing, progress = "", event.at
            case m.CallStarted():
                at_work[event.call_id] = event.tool
            case m.CallEnded():
                at_work.pop(event.result.call_id, None)
                calls += 1
                progress = event.at if event.result.productive else progress
            case m.Settled():
                for name, amount in event.amounts.items():
                    spent[name] = spent.get(name, 0.0) + amount
                spent["calls"] = float(calls)
            case m.FindingMade():
                findings += 1
            case m.ApprovalRequested():
                asked += 1
            case m.ApprovalResolved():
                asked -= 1
            case m.Paused():
                state = "paused"
            case m.Resumed():
                state = "running"
            case m.CancelRequested():
                state = "cancelling"
            case m.RunEnding():
                state = "ending"
            case m.RunEnded():
                state, done, ended, doing = "ended", event.outcome, event.at, ""
    known: dict[str, Any] = {
        "run": log.run, "root": log.run, "spec": spec, "state": state, "attempt": 1 if k else 0,
        "worker": "w1" if k else "", "submitted": log.began - 0.4, "started": log.began if k else None, "ended": ended,
        "n": k, "turn": turn, "calls": calls, "progress": progress, "spent": spent, "limits": dict(LIMITS),
        "approvals": asked, "findings": findings, "outcome": done,
        "doing": ", ".join(dict.fromkeys(at_work.values())) or doing,
    }  # fmt: skip
    return RunStatus(**{**known, **fixed})
