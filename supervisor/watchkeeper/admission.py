"""Admission: from a call as the model wrote it to one that may run and is paid for, or to its result. Pure."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from . import arguments
from .budget import Budget, Hold, Short
from .fingerprint import call_key, loop_key
from .fitting import Problem
from .guards.guard import Ask, CallGuard, Proposal, Refuse, Reuse, Wait
from .messages import Call, Kind, Result
from .naming import resolve
from .redaction import HELD, NOTHING_SECRET, Redaction
from .tools import WRITES, Effect, Tool
from .wording import Told, Wording

if TYPE_CHECKING:
    from .locks import Grip
    from .threads import Job

SHOWN_ARGUMENTS = 2000
"""Characters of the canonical arguments in a ``CallEnded``."""
LOOKED_THROUGH = SHOWN_ARGUMENTS + HELD
"""Characters of them that are redacted before they are cut."""


class Slot(Proposal):
    """A proposal on its way through the executor to its result."""

    __slots__ = (
        "arguments", "coroutine", "deadline", "dependents", "grip", "hold", "job", "lost", "not_before", "repaired",
        "settled", "sharers", "shown", "started", "waits",
    )  # fmt: skip

    def __init__(
        self,
        call: Call,
        tool: Tool,
        parsed: arguments.Parsed,
        key: str,
        effect: Effect,
        turn: int,
        t: float,
        identity: str = "",
        shown: str = "",
    ) -> None:
        super().__init__(call.id, tool, parsed.values, key, effect, turn, call.slot, t, identity)
        self.arguments = parsed.canonical
        self.shown = shown
        """The beginning of the canonical arguments, without secrets."""
        self.repaired = parsed.repaired
        self.not_before = 0.0
        self.started: float | None = None
        self.deadline: float | None = None
        """When its time is up; None until it waits for the first time."""
        self.waits = 0
        """Calls of the batch that must end first."""
        self.dependents: list[Slot] | None = None
        self.sharers: list[Slot] | None = None
        """Equal reads of the batch that get this one's result."""
        self.settled = False
        self.hold: Hold | None = None
        """What is set aside for its cost."""
        self.lost = False
        """It did not stop at its deadline and was given up, with the worker that it holds."""
        self.grip: Grip | None = None
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        self.job: Job | None = None

    def fresh_values(self) -> dict[str, Any]:
        """The arguments as they were admitted, untouched by whoever had them since."""
        try:
            return msgspec.structs.asdict(msgspec.json.decode(self.arguments, type=self.tool.arguments_type))
        except (ValueError, TypeError):  # types that JSON does not bring back: as they are
            return self.values


class Admission:
    """Finds the tool, fits the arguments, asks the guards, and last, when nothing else speaks against it, the budget.

    So a batch is trimmed to what is left, in slot order: who comes first is served, and what is refused costs nothing.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        guards: Sequence[CallGuard],
        wording: Wording,
        budget: Budget,
        *,
        writers_alone: bool = False,
        redaction: Redaction = NOTHING_SECRET,
    ) -> None:
        self._tools = tools
        self._guards = guards
        self._wording = wording
        self._budget = budget
        self._counted: dict[str, dict[str, float]] = {name: self._counts(name) for name in tools}
        self._writers_alone = writers_alone
        self._redaction = redaction

    def consider(
        self, call: Call, turn: int, t: float, *, tools_off: bool, shown: Call | None = None
    ) -> tuple[Slot | None, Result | None]:
        """The call as a slot, its result if it is not to run, or both. Never raises, whatever guards and tools do.

        A slot without a result is admitted: its call is counted in the budget, and its cost is held. ``shown``: the
        call without secrets, if it has any.
        """
        shown = shown or call
        if tools_off:
            name = shown.tool[:80]
            return None, _result(call, name, "refused", self._wording.tools_off(name), "tools_off")
        tool = resolve(call.tool, self._tools)
        if tool is None:
            told = self._wording.unknown_tool(shown.tool, self._tools.keys())
            return None, _result(call, shown.tool[:80], "refused", told, "unknown_tool")
        parsed = arguments.parse(tool, call.arguments)
        if isinstance(parsed, arguments.BadArguments):
            told = self._wording.bad_arguments(tool.name, _shown(parsed, tool, call, shown), _parameters(tool))
            return None, _result(call, tool.name, "refused", told, "bad_arguments", by="arguments")
        identity = key = call_key(tool.name, parsed.canonical)
        if tool.loop_key is not None:
            key = loop_key(tool, parsed.values, key)
        begin = parsed.canonical[:LOOKED_THROUGH].decode("utf-8", "replace")
        clean = self._redaction.text(begin)
        if clean is not begin or key is not identity:
            key = self._redaction.text(key)  # as the log has it: what is blocked is compared with that
        effect = tool.effect_of(parsed.values)
        slot = Slot(call, tool, parsed, key, effect, turn, t, identity, clean[:SHOWN_ARGUMENTS])
        result = self._ask_guards(call, slot)
        if self._writers_alone and effect.writes:
            slot.effect = WRITES
        return slot, result or self._charge(call, slot)

    def _counts(self, tool: str) -> dict[str, float]:
        """What a call is counted in; by tool only where there is a limit, which never comes later."""
        by_tool = f"calls:{tool}"
        return {"calls": 1} if self._budget.limit(by_tool) is None else {"calls": 1, by_tool: 1}

    def _charge(self, call: Call, slot: Slot) -> Result | None:
        tool = slot.tool.name
        try:
            cost = slot.tool.cost_of(slot.values)
        except ValueError as error:
            told = self._wording.not_run(tool, f"what it would cost cannot be told ({error})")
            return _result(call, tool, "refused", told, "cost_failed", by="cost")
        hold = self._budget.hold(cost) if cost else None
        if isinstance(hold, Short):
            told = self._wording.budget_short(hold.dimension, hold.wanted, hold.left)
            return _result(call, tool, "not_run", told, "budget_short", by=hold.dimension)
        short = self._budget.take(self._counted[tool])
        if short is None:
            slot.hold = hold
            return None
        if hold is not None:
            self._budget.release(hold)
        whose = "of the run" if short.dimension == "calls" else f"of {tool}"
        told = self._wording.too_many_calls(int(self._budget.limit(short.dimension) or 0), whose)
        return _result(call, tool, "not_run", told, "too_many_calls", by=short.dimension)

    def _ask_guards(self, call: Call, slot: Slot) -> Result | None:
        tool = slot.tool.name
        asking: tuple[CallGuard, Ask] | None = None
        for guard in self._guards:
            try:
                decision = guard.call(slot)
            except Exception as error:
                return self._guard_failed(call, tool, guard, type(error).__name__)
            if decision is None:
                continue
            if isinstance(decision, Wait):
                slot.not_before = max(slot.not_before, slot.t + decision.seconds)
            elif isinstance(decision, Ask):
                asking = asking or (guard, decision)
            elif isinstance(decision, Reuse):
                return Result(
                    call.id,
                    tool,
                    "finished",
                    decision.message,
                    productive=decision.productive,
                    by=guard.name,
                    reused_from=decision.earlier,
                )
            elif isinstance(decision, Refuse):
                return Result(call.id, tool, decision.kind, decision.message, error=decision.error, by=guard.name)
            else:
                return self._guard_failed(call, tool, guard, f"it answered with a {type(decision).__name__}")
        return None if asking is None else self._approval(call, tool, *asking)

    def _approval(self, call: Call, tool: str, guard: CallGuard, ask: Ask) -> Result | None:
        """What becomes of a call that needs approval and that no guard refuses. There is nobody who could be asked, so
        it is denied; whoever adds approvals adds them here."""
        told = self._wording.no_approval(tool, ask.why)
        return _result(call, tool, "denied", told, "no_approval", by=guard.name)

    def _guard_failed(self, call: Call, tool: str, guard: CallGuard, why: str) -> Result:
        told = self._wording.not_run(tool, f"the guard {guard.name} failed ({why})")
        return _result(call, tool, "refused", told, "guard_failed", by=guard.name)


def _result(call: Call, tool: str, kind: Kind, told: Told, error: str, by: str | None = None) -> Result:
    return Result(call.id, tool, kind, told.text, error=error, by=by or error)


def _shown(bad: arguments.BadArguments, tool: Tool, call: Call, shown: Call) -> arguments.BadArguments:
    """What is wrong with arguments, as far as it may be said: of those without secrets."""
    if shown.arguments == call.arguments:
        return bad
    again = arguments.parse(tool, shown.arguments)
    if isinstance(again, arguments.BadArguments):
        return again
    return arguments.BadArguments((Problem("", "they do not fit"),), shown.arguments[: arguments.MAX_ECHO])


def _parameters(tool: Tool) -> str:
    described = {name: tool.schema[name] for name in ("properties", "$defs") if name in tool.schema}
    return msgspec.json.encode(described.get("properties") if len(described) == 1 else described).decode()
