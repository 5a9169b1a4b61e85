"""Whole runs by seed: whatever a model, tools, people, guards and a clock may do to one, in any order.

``await chaos(seed)`` makes one run, meddles with it, and holds it to the invariants. An equal seed is an equal run.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from support import facts
from watchkeeper import (
    Agent,
    ApprovalError,
    Judge,
    Limits,
    ModelError,
    Run,
    RunEndedError,
    Supervisor,
    Tool,
    Verifier,
    tool,
    writes,
)
from watchkeeper.guards.guard import Replace
from watchkeeper.guards.rule import Rule
from watchkeeper.messages import CallProposed, StepEnded, StepStarted
from watchkeeper.model import Request
from watchkeeper.profiles import PROFILES, Profile
from watchkeeper.testing import ScriptedModel, Step, call, check_conversation, say
from watchkeeper.testing.faults import SeededFaults
from watchkeeper.testing.invariants import violations_of
from windows import Strict

HANGS = 50_000.0
"""Virtual seconds after which a run that has not ended hangs: no limit of any of them is as long."""

PLAN = json.dumps({"question": "q", "steps": [{"goal": "read pages"}, {"goal": "write things"}, {"goal": "sum up"}]})
TALK = (
    "I think it is a fine thing and we go on with all of it",
    "done [call:call_1_1]",
    "answer\nMISSING: the rest",
    '{"a":1}',
)
WHY = ("model_unavailable", "model_refused")
"""Reasons for which a run may fail here: its model's faults, never a crash."""


@tool(effect="reads")
async def read(page: int, length: int = 500) -> str:
    """Read a page."""
    await anyio.sleep(page % 3)
    return f"page {page} begins. " + f"text of {page}. " * (length // 12)


@tool(effect=lambda what: writes(f"things/{what}"))
async def write(what: str) -> str:
    """Write a thing."""
    await anyio.sleep(1)
    return "ok"


@tool
async def put(what: str) -> str:
    """Put something somewhere; it does not say what it touches."""
    await anyio.sleep(0.5)
    return "ok"


@tool(effect="reads", judged=True, cost={"money": 1.0})
async def pay(what: str) -> str:
    """Pay for something."""
    await anyio.sleep(2)
    return "paid"


@tool(effect="writes", idempotent=True, timeout=20)
async def send(to: str) -> str:
    """Send a message."""
    await anyio.sleep(0.2)
    return f"sent to {to}"


TOOLS = (read, write, put, pay, send)


class Safer:
    """A guard that puts a harmless call in the place of a bad one."""

    name = "safer"

    def __init__(self) -> None:
        self.folds: dict[Any, Any] = {}

    def call(self, proposal: Any) -> Replace | None:
        if proposal.tool.name == "write" and proposal.values["what"] == "bad":
            return Replace("read", {"page": 99}, why="safer")
        return None


class Chance:
    """What happens in the run of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.faults = SeededFaults(seed, chance=self.pick(0.0, 0.05, 0.15))
        self.talks = self.pick(0.01, 0.03, 0.1)

    def pick(self, *of: Any) -> Any:
        return self.random.choice(of)

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    def reply(self, request: Request, n: int) -> Step:
        delay = self.pick(0, 0, 0.5, 3)
        kinds = ["plan", "talk", "empty", "cut", "error", "stall", "calls"]
        kind = self.random.choices(kinds, [0.05, self.talks, 0.06, 0.03, 0.03, 0.01, 0.8])[0]
        if kind == "plan":
            return say(PLAN, delay=delay)
        if kind == "talk":
            return say(self.pick(*TALK), delay=delay)
        if kind == "empty":
            return say("", delay=delay)
        if kind == "cut":
            return say("half", finish="length", delay=delay)
        if kind == "error":
            error = ModelError(self.pick("server", "rate_limited", "connection", "context_length"), "x")
            return Step(error=error, delay=delay)
        if kind == "stall":
            return say("x", stall=True)
        calls = [self.call() for _ in range(self.pick(1, 1, 2, 4))]
        return call(*calls, text=self.pick("", "", TALK[0], "Let us now read the page number one"), delay=delay)

    def call(self) -> tuple[str, Any]:
        return self.pick(
            ("read", {"page": self.random.randrange(9)}),
            ("read", {"page": self.random.randrange(9), "length": 3000}),
            ("write", {"what": self.pick("a", "b", "bad")}),
            ("put", {"what": self.pick("a", "b")}),
            ("pay", {"what": self.pick("a", "b")}),
            ("send", {"to": self.pick("a", "b")}),
            ("nope", {}),
            ("read", "{bad"),
            ("recall", {"query": "page"}),
        )

    def summary(self, request: Request) -> Step:
        trouble = Step(error=ModelError("server", "x"))
        return self.pick(say("- a fact\n- more"), say("x", stall=True), say("- f", delay=2), trouble)

    def judged(self, request: Request, n: int) -> Step:
        if self.often(0.15):
            return say("x", stall=True)
        if self.often(0.15):
            return Step(error=ModelError("server", "x"), delay=1)
        decision = self.pick("allow", "allow", "allow", "refuse", "ask", "stop" if self.often(0.1) else "allow")
        return say(json.dumps({"decision": decision, "why": "w"}), delay=self.pick(0, 1))

    def verified(self, request: Request, n: int) -> Step:
        if self.often(0.2):
            return say("x", stall=True)
        return say(json.dumps({"accepted": self.often(0.5), "why": "w"}), delay=self.pick(0, 1))

    async def approve(self, approval: Any) -> Any:
        await anyio.sleep(self.pick(0, 1, 9))
        if self.often(0.2):
            raise ValueError("an approver that fails")
        return self.pick(True, True, False, None, approval.allow("run"), approval.allow("run"))

    def profile(self) -> Profile:
        rules = (Rule("ask", self.pick("read", "write", "*"), why="house"),) if self.often(0.3) else ()
        limits = Limits(
            max_turns=self.pick(6, 20, 40),
            max_calls=self.pick(5, 40),
            tokens=self.pick(3000, 20_000, 10**6),
            reply_tokens=200,
            money=self.pick(3.0, 100.0),
            unpriced="allow",
            seconds=self.pick(30.0, 900.0),
            approval=self.pick(5.0, 60.0),
            calls_per_tool=self.pick({}, {"read": 3}),
        )
        return msgspec.structs.replace(
            PROFILES["default"],
            limits=limits,
            rules=rules,
            restate_goal=self.pick(1, 5, None),
            mode=self.pick("enforce", "enforce", "observe"),
            on_stop=self.pick("stop", "hand_over"),
            thought_alert=2,
            thought_force=3,
        )

    def agent(self) -> Agent:
        window, told = self.pick(2500, 4000, 100_000), self.often(0.6)
        model = self.faults.model(Strict(self.reply, window, told=told, summary=self.summary))
        asked: dict[str, Any] = {"judge": Judge(ScriptedModel(self.judged), every_turn=self.often(0.5))}
        if self.often(0.5):
            on_failure = self.pick("allow", "refuse")
            asked["verifier"] = Verifier(ScriptedModel(self.verified), seconds=20, on_failure=on_failure)
        tools: list[Tool] = [self.faults.tool(one) for one in TOOLS]
        return Agent(model, tools, profile=self.profile(), plan=self.often(0.5), **asked)

    async def meddle(self, run: Run) -> None:
        """What people do to a run from outside."""
        for _ in range(self.pick(0, 1, 3, 6)):
            await anyio.sleep(self.pick(0, 0, 0.1, 1, 4, 17))
            if run.outcome is not None:
                return
            try:
                self._do_something(run)
            except (RunEndedError, ApprovalError):
                continue  # it came too late, which is an answer

    def _do_something(self, run: Run) -> None:
        deed = self.pick(*["steer"] * 5, *["pause"] * 3, *["resume"] * 4, *["yes"] * 2, *["no"] * 2, "cancel", "over")
        if deed == "steer":
            run.steer("and now do b as well")
        elif deed == "pause":
            run.pause("p", seconds=self.pick(2, 50))
        elif deed == "resume":
            run.resume()
        elif deed == "yes" and run.approvals:
            waits = run.approvals[0]
            run.approve(waits.id, waits.arguments_hash, self.pick("once", "run", "always"))
        elif deed == "no" and run.approvals:
            run.deny(run.approvals[0].id, "no")
        elif deed == "cancel":
            run.cancel("c", self.pick("after_turn", "now", "kill"), deadline=self.pick(None, 3))
        elif deed == "over":
            run.hand_over("h", self.pick("after_turn", "now"))


async def chaos(seed: int, look: Callable[[Run], object] = lambda run: None) -> Counter[str]:
    """The run of this seed, in virtual time, held to what must hold. Returns how it ended and the faults it had.
    ``look`` gets the run when it has ended.

    Raises ``AssertionError`` with what was broken.
    """
    chance = Chance(seed)
    settings: dict[str, Any] = {"approver": chance.approve if chance.often(0.6) else None}
    async with Supervisor(
        seams=chance.faults.seams(), plugged=False, keep=10**6, guards=[Safer], **settings
    ) as supervisor:
        run = await supervisor.start(chance.agent(), "Read the pages and write things.", attended=chance.often(0.4))
        async with anyio.create_task_group() as people:
            people.start_soon(chance.meddle, run)
            with anyio.move_on_after(HANGS) as hanging:
                await run.wait()
            people.cancel_scope.cancel()
        assert not hanging.cancelled_caught, f"the run hangs: {run.snapshot()}"
    look(run)
    await check(run)
    assert run.outcome is not None
    return Counter({f"{run.outcome.status} ({run.outcome.reason})": 1, **chance.faults.counts})


async def check(run: Run) -> None:
    """What must hold of a run that has ended with its supervisor."""
    outcome, events = run.outcome, await facts(run)
    assert outcome is not None
    found = violations_of(run)
    assert not found, "\n".join(map(str, found))
    assert outcome.status != "failed" or outcome.reason in WHY, (outcome.reason, outcome.cause)
    assert (wrong := check_conversation(outcome.history)) is None, wrong
    for budget in run.budget.path:
        assert all(abs(held) < 1e-6 for held in budget.held.values()), f"still held: {budget.held}"
    steps = [type(event) for event in events if isinstance(event, StepStarted | StepEnded)]
    assert steps == [StepStarted, StepEnded] * (len(steps) // 2), steps
    assert any(isinstance(event, CallProposed) for event in events) or outcome.status != "completed" or outcome.answer
