"""Admission: from a call as the model wrote it to one that may run and is paid for, or to its result. Pure."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from . import arguments, outputs
from .budget import Budget, Hold, Short
from .fingerprint import call_key, loop_key
from .fitting import Problem
from .guards.duplicate import Duplicate
from .guards.equal import RefuseEqual
from .guards.guard import Ask, CallGuard, Note, Proposal, Refuse, Replace, Reuse, Wait
from .guards.observed import Observed
from .guards.rate import RateLimit
from .guards.sideeffects import SideEffects
from .messages import Call, Kind, Result
from .naming import resolve
from .redaction import HELD, NOTHING_SECRET, Redaction
from .tools import WRITES, Effect, Tool
from .wording import Told, Wording

if TYPE_CHECKING:
    from .approvals import Approvals, Asked
    from .locks import Grip
    from .occurrences import Execution
    from .threads import Job

COUNTING = (Duplicate, RateLimit, RefuseEqual, SideEffects)
"""Guards that note what they are asked about; what all others know is in the facts."""
SHOWN_ARGUMENTS = 2000
"""Characters of the canonical arguments in a ``CallEnded``."""
LOOKED_THROUGH = SHOWN_ARGUMENTS + HELD
"""Characters of them that are redacted before they are cut."""
MOST_REPLACED = 3
"""Times in a row that another call takes the place of one."""


class Replacement(NamedTuple):
    """A call that took the place of another, or an answer that did: without ``instead`` nothing is run."""

    by: str
    tool: str
    instead: str
    arguments: str
    why: str


class Slot(Proposal):
    """A proposal on its way through the executor to its result."""

    __slots__ = (
        "arguments",
        "asked",
        "begun",
        "coroutine",
        "deadline",
        "dependents",
        "execution",
        "grip",
        "heading",
        "hold",
        "job",
        "lost",
        "not_before",
        "note",
        "repaired",
        "replacements",
        "settled",
        "sharers",
        "shown",
        "started",
        "waits",
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
        self.replacements: tuple[Replacement, ...] = ()
        """How it came to stand here, if it is not what the model asked for."""
        self.heading = ""
        """What the model is told of that."""
        self.not_before = 0.0
        self.started: float | None = None
        self.deadline: float | None = None
        """When its time is up; None until it waits for the first time."""
        self.waits = 0
        """Calls of the batch that must end first, and the approval if it needs one."""
        self.asked: Asked | None = None
        """What guards ask about it."""
        self.note = ""
        """What the model reads below its result, should it succeed."""
        self.execution: Execution | None = None
        """Which execution of a writing call it is, from its start on."""
        self.dependents: list[Slot] | None = None
        self.sharers: list[Slot] | None = None
        """Equal reads of the batch that get this one's result."""
        self.settled = False
        self.begun = 0
        """Attempts at it before its run was recovered."""
        self.hold: Hold | None = None
        """What is set aside for its cost."""
        self.lost = False
        """It did not stop at its deadline and was given up, with the worker that it holds."""
        self.grip: Grip | None = None
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        self.job: Job | None = None

    @property
    def stands_in(self) -> bool:
        return bool(self.replacements)

    def fresh_values(self) -> dict[str, Any]:
        """The arguments as they were admitted, untouched by whoever had them since."""
        try:
            return msgspec.structs.asdict(msgspec.json.decode(self.arguments, type=self.tool.arguments_type))
        except (ValueError, TypeError):  # types that JSON does not bring back: as they are
            return self.values


class _Chosen(NamedTuple):
    """A guard's decision to replace a call."""

    guard: CallGuard
    replace: Replace


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
        approvals: Approvals | None = None,
    ) -> None:
        self._tools = dict(tools)
        self._guards = guards
        self._wording = wording
        self._budget = budget
        self._counted: dict[str, dict[str, float]] = {}
        self._whose = "of the run"
        self.draw_from(budget, self._whose)
        self._writers_alone = writers_alone
        self._redaction = redaction
        self._approvals = approvals

    def draw_from(self, budget: Budget, whose: str) -> None:
        """From now on calls are paid from this budget. ``whose`` its limit of calls is, in words for the model."""
        self._budget, self._whose = budget, whose
        self._counted = {name: self._counts(name) for name in self._tools}

    def offer(self, tool: Tool) -> None:
        """One more tool, from now on."""
        self._tools[tool.name] = tool
        self._counted[tool.name] = self._counts(tool.name)

    def consider(
        self, call: Call, turn: int, t: float, *, tools_off: bool, shown: Call | None = None
    ) -> tuple[Slot | None, Result | None]:
        """The call as a slot, its result if it is not to run, or both. Never raises, whatever guards and tools do.

        A slot without a result is admitted: its call is counted in the budget, or held there until it is known whether
        it may run, and its cost is held. ``shown``: the call without secrets, if it has any.
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
        slot = self._slot(call, tool, parsed, turn, t)
        decided = self._ask_guards(call, slot)
        if isinstance(decided, _Chosen):
            slot, result = self._replace(call, slot, decided)
        else:
            result = decided
        if self._writers_alone and slot.effect.writes:
            slot.effect = WRITES
        return slot, result or self._charge(call, slot)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All that a call may be of, by name."""
        return self._tools

    def counted(self, tool: str) -> Mapping[str, float]:
        """What a call of a tool counts in."""
        return self._counted.get(tool) or self._counts(tool)

    def wanted(self, calls: Sequence[Call]) -> dict[str, float]:
        """What calls take of the budget if all of them run as they were made."""
        found: dict[str, float] = {}
        for call in calls:
            slot = self.slot_of(call, 0, 0.0)
            if slot is None:
                continue
            try:
                cost = slot.tool.cost_of(slot.values)
            except ValueError:
                cost = {}
            for amounts in (cost, self.counted(slot.tool.name)):
                for name, amount in amounts.items():
                    found[name] = found.get(name, 0.0) + amount
        return found

    def slot_of(self, call: Call, turn: int, t: float, tool: str = "") -> Slot | None:
        """The call as a slot, unasked; of another ``tool`` where that was run in its place. None: its arguments do not
        fit, or there is no such tool."""
        found = resolve(tool or call.tool, self._tools)
        parsed = arguments.parse(found, call.arguments) if found is not None else None
        if found is None or parsed is None or isinstance(parsed, arguments.BadArguments):
            return None
        return self._slot(call, found, parsed, turn, t)

    def known(self, key: str) -> None:
        """What came of a call that a crash had cut off is known: an equal one is not asked about for its sake."""
        for guard in self._guards:
            inner = guard.observed if isinstance(guard, Observed) else guard
            if isinstance(inner, SideEffects):
                inner.known(key)

    def remember(self, slot: Slot, upto: str | None = None) -> None:
        """Ask the guards that count calls about one that was proposed before the run was recovered, as far as the one
        that has answered it; whatever they say of it now."""
        for guard in self._guards:
            inner = guard.observed if isinstance(guard, Observed) else guard
            if isinstance(inner, COUNTING):
                inner.call(slot)
            if guard.name == upto:
                return

    def _slot(self, call: Call, tool: Tool, parsed: arguments.Parsed, turn: int, t: float) -> Slot:
        identity = key = call_key(tool.name, parsed.canonical)
        if tool.loop_key is not None:
            key = loop_key(tool, parsed.values, key)
        begin = parsed.canonical[:LOOKED_THROUGH].decode("utf-8", "replace")
        clean = self._redaction.text(begin)
        if clean is not begin or key is not identity:
            key = self._redaction.text(key)  # as the log has it: what is blocked is compared with that
        effect = tool.effect_of(parsed.values)
        return Slot(call, tool, parsed, key, effect, turn, t, identity, clean[:SHOWN_ARGUMENTS])

    def _replace(self, call: Call, slot: Slot, decided: _Chosen) -> tuple[Slot, Result | None]:
        """Put other calls in the place of a call until one stays, and the guards have decided on that."""
        stood, asked = {slot.identity}, slot.tool.name
        while True:
            by, chosen = decided.guard.name, decided.replace
            if chosen.answer is not None and not chosen.tool:
                answer = outputs.render(chosen.answer, slot.tool.max_output, self._redaction)
                self._stand_in(slot, slot, asked, Replacement(by, slot.tool.name, "", "", chosen.why))
                result = Result(
                    call.id, slot.tool.name, "finished", answer.content, chosen.productive, by=by, cut=answer.cut
                )
                return slot, result
            other = self._other(call, slot, chosen)
            if isinstance(other, str):
                return slot, self._guard_failed(call, slot.tool.name, decided.guard, other)
            if other.identity in stood or len(slot.replacements) == MOST_REPLACED:
                why = "what it put in the place of the call was replaced in turn, again and again"
                return slot, self._guard_failed(call, slot.tool.name, decided.guard, why)
            stood.add(other.identity)
            stands_in = Replacement(by, slot.tool.name, other.tool.name, other.shown, chosen.why)
            self._stand_in(other, slot, asked, stands_in)
            slot = other
            following = self._ask_guards(call, slot)
            if not isinstance(following, _Chosen):
                return slot, following
            decided = following

    def _other(self, call: Call, slot: Slot, chosen: Replace) -> Slot | str:
        """The call that takes the place of a slot's; or why it cannot."""
        tool = self._tools.get(chosen.tool)
        if chosen.answer is not None or tool is None:
            return f"it put {chosen.tool[:80]!r} in the place of the call, which is no tool of this agent"
        try:
            parsed = arguments.parse(tool, msgspec.json.encode(dict(chosen.arguments)).decode())
        except Exception as error:  # whatever a guard puts into them
            return f"the arguments that it gave {tool.name} cannot be written ({type(error).__name__})"
        if isinstance(parsed, arguments.BadArguments):
            return f"the arguments that it gave {tool.name} do not fit"
        return self._slot(call, tool, parsed, slot.turn, slot.t)

    def _stand_in(self, slot: Slot, before: Slot, asked: str, replacement: Replacement) -> None:
        slot.replacements = (*before.replacements, replacement)
        heading = self._wording.replaced(asked, replacement.instead, replacement.arguments, replacement.why)
        slot.heading = self._redaction.text(heading)

    def _counts(self, tool: str) -> dict[str, float]:
        """What a call is counted in; by tool only where there is a limit, which comes with a budget and never later."""
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
        short = self._take(slot, self._counted[tool])
        if short is None:
            slot.hold = hold
            return None
        if hold is not None:
            self._budget.release(hold)
        whose = self._whose if short.dimension == "calls" else f"of {tool}"
        told = self._wording.too_many_calls(int(self._budget.limit(short.dimension) or 0), whose)
        return _result(call, tool, "not_run", told, "too_many_calls", by=short.dimension)

    def _take(self, slot: Slot, counted: Mapping[str, float]) -> Short | None:
        """Count a call; one that waits for an approval has its place kept, and counts if it runs."""
        if slot.asked is None or not slot.asked.left:
            return self._budget.take(counted)
        seat = self._budget.hold(counted)
        if isinstance(seat, Short):
            return seat
        slot.asked.seat = seat
        return None

    def _ask_guards(self, call: Call, slot: Slot) -> Result | _Chosen | None:
        tool = slot.tool.name
        asking: list[tuple[str, Ask]] = []
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
                asking.append((guard.name, decision))
            elif isinstance(decision, Note):
                note = self._redaction.text(decision.message)
                slot.note = f"{slot.note}\n{note}" if slot.note else note
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
            elif isinstance(decision, Replace) and _is_sound(decision):
                return _Chosen(guard, decision)
            else:
                return self._guard_failed(call, tool, guard, f"it answered with a {type(decision).__name__}")
        return self._approval(call, slot, asking) if asking else None

    def _approval(self, call: Call, slot: Slot, asks: list[tuple[str, Ask]]) -> Result | None:
        """What becomes of a call that needs approval and that no guard refuses: what was permitted before needs none;
        else it waits for one, or is turned away where there is nobody to ask."""
        if self._approvals is not None:
            slot.asked = self._approvals.considered(slot.tool, slot.arguments, slot.values, asks)
            asks = slot.asked.left
            if not asks or self._approvals.is_kept(call.id) or self._approvals.somebody():
                return None
        guard, ask = next((one for one in asks if one[1].nobody is None), asks[0])
        tool = slot.tool.name
        if (refuse := ask.nobody) is not None:
            return Result(call.id, tool, refuse.kind, refuse.message, error=refuse.error, by=guard)
        told = self._wording.no_approval(tool, ask.why)
        return _result(call, tool, "denied", told, "no_approval", by=guard)

    def _guard_failed(self, call: Call, tool: str, guard: CallGuard, why: str) -> Result:
        told = self._wording.not_run(tool, f"the guard {guard.name} failed ({why})")
        return _result(call, tool, "refused", told, "guard_failed", by=guard.name)


def _result(call: Call, tool: str, kind: Kind, told: Told, error: str, by: str | None = None) -> Result:
    return Result(call.id, tool, kind, told.text, error=error, by=by or error)


def _is_sound(replace: Replace) -> bool:
    """Whether it is what its types say: a guard may be anybody's."""
    return (
        all(isinstance(text, str) for text in (replace.tool, replace.why, replace.answer or ""))
        and isinstance(replace.arguments, Mapping)
        and isinstance(replace.productive, bool)
    )


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
