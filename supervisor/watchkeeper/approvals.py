"""Approvals: the calls of a run that wait for a yes or a no, and what becomes of them. Pure: who waits is elsewhere.

An approval is bound to its run, its call and the very bytes of the arguments: a yes that names others is none, and none
counts twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from .arguments import canonical
from .errors import ApprovalError
from .fingerprint import arguments_hash as hash_of
from .guards.grants import Grant, Grants, exact_rule, pattern_rule
from .guards.guard import Ask
from .guards.rule import Compiled, Pattern, Rule
from .messages import ApprovalRequested, ApprovalResolved, How
from .messages import Scope as Scope
from .tools import Tool

if TYPE_CHECKING:
    from .admission import Slot
    from .recovery.past import Past

SCOPES: tuple[Scope, ...] = get_args(Scope)
REMEMBERED = 256
"""Answered approvals that are known as such."""
REASON = 500
"""Characters of the reason of a no."""


class Permit(msgspec.Struct, frozen=True):
    """A yes, as an approver gives it: ``approval.allow()`` makes one."""

    approval: str
    arguments_hash: str
    scope: Scope = "once"
    pattern: Mapping[str, Pattern] | None = None


class Denial(msgspec.Struct, frozen=True):
    """A no: ``approval.deny("why")`` makes one."""

    approval: str
    reason: str = ""


class Approval:
    """A call, or an answer, that waits for a yes or a no. All attributes are read-only by convention.

    Of an answer ``tool`` and ``call_id`` are empty, and ``arguments`` is its exact text.

    Whoever decides must see what runs: ``arguments`` are the exact ones, secrets included. So they stand in no fact, no
    snapshot and no representation of this object, only here.
    """

    __slots__ = (
        "agent", "arguments", "arguments_hash", "by", "call_id", "due", "id", "once", "run", "seconds", "task", "tool",
        "why",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        *,
        run: str,
        agent: str,
        task: str,
        call_id: str,
        tool: str,
        arguments: bytes,
        asks: Iterable[tuple[str, Ask]],
        seconds: float,
        due: float,
    ) -> None:
        asked = tuple(asks)
        self.id = id
        self.run = run
        self.agent = agent
        self.task = task
        self.call_id = call_id
        self.tool = tool
        self.arguments = arguments.decode("utf-8", "replace")
        """Canonical JSON: these bytes, in UTF-8, are what is run. Of an answer: its text."""
        self.arguments_hash = hash_of(arguments)
        """SHA-256 of these bytes, 64 hexadecimal characters."""
        self.why = "; ".join(dict.fromkeys(ask.why for _, ask in asked if ask.why))
        self.by = tuple(dict.fromkeys(guard for guard, _ in asked))
        """The guards that ask."""
        self.once = any(ask.once for _, ask in asked)
        """It can be permitted this once only."""
        self.seconds = seconds
        """How long it waited from the start; then silence is a no."""
        self.due = due
        """When that is, by the clock of the supervisor's seams."""

    def allow(self, scope: Scope = "once", pattern: Mapping[str, Pattern] | None = None) -> Permit:
        """The yes of an approver; as ``Run.approve``."""
        return Permit(self.id, self.arguments_hash, scope, pattern)

    def deny(self, reason: str = "") -> Denial:
        """The no of an approver; as ``Run.deny``."""
        return Denial(self.id, reason)

    @property
    def of_answer(self) -> bool:
        return not self.tool

    def __repr__(self) -> str:
        return f"<Approval {self.id} of {self.tool or 'the answer'} in {self.run}>"


Answer = Permit | Denial | bool | None
"""What an approver says. True: this once; False: no; None: it has nothing to say, a person may be asked."""
Approver = Callable[[Approval], Answer | Awaitable[Answer]]
"""Decides on calls that need approval: an async function, or a plain one, which runs in a thread. It has until the
approval's deadline (``Limits.approval``); one that raises, overruns it or answers something else has said no."""


class Resolution(msgspec.Struct, frozen=True):
    how: How
    by: str
    reason: str = ""

    @property
    def permits(self) -> bool:
        return self.how in SCOPES


class Asked:
    """What the guards ask about a call: ``left`` still needs a yes, ``lifted`` has one."""

    __slots__ = ("arguments_hash", "left", "lifted", "seat")

    def __init__(self, arguments_hash: str, left: list[tuple[str, Ask]], lifted: list[Grant]) -> None:
        self.arguments_hash = arguments_hash
        self.left = left
        self.lifted = lifted
        self.seat: Any = None
        """The hold for the call itself in the budget, as long as it is not known whether it runs."""


class Pending:
    """An approval that is open, and who waits for it."""

    __slots__ = ("approval", "asks", "on_resolved", "resolution", "slot", "tool", "values")

    def __init__(
        self, approval: Approval, tool: Tool | None, values: Mapping[str, Any], asks: list[tuple[str, Ask]], slot: int
    ) -> None:
        self.approval = approval
        self.tool = tool
        """None for an answer."""
        self.values = values
        self.asks = asks
        self.slot = slot
        self.resolution: Resolution | None = None
        self.on_resolved: Callable[[], None] | None = None


class Kept(msgspec.Struct, frozen=True):
    """An approval that a call had asked for before its run was recovered: it has its id, bound to the same bytes."""

    approval: str
    arguments_hash: str
    seconds: float
    """That are left until silence is a no."""
    resolution: Resolution | None = None
    """What became of it, if its call has no result yet."""


class Approvals:
    """Those of one run. All methods decide at once and write the facts; none waits.

    ``somebody`` says whether there is anyone to ask; ``always`` is what was permitted for all runs of the agent;
    ``clean`` cuts a text to so many characters, without half a secret at its end.
    """

    def __init__(
        self,
        run: str,
        agent: str,
        task: str,
        append: Callable[..., object],
        *,
        always: Grants,
        seconds: float,
        clock: Callable[[], float],
        new_id: Callable[[str], str],
        somebody: Callable[[], bool],
        clean: Callable[[str, int], str] = lambda text, limit: text[:limit],
    ) -> None:
        self._run = run
        self._agent = agent
        self._task = task
        self._append = append
        self._always = always
        self._seconds = seconds
        self._clock = clock
        self._new_id = new_id
        self.somebody = somebody
        self._clean = clean
        self.pending: dict[str, Pending] = {}
        self._grants: list[Grant] = []
        self._answered: dict[str, How] = {}
        self._kept: dict[str, Kept] = {}
        self.before: Collection[str] = ()
        """Approvals that were answered before the run was recovered."""

    def __contains__(self, approval: str) -> bool:
        return approval in self.pending or approval in self._answered

    def take_up(self, past: Past, kept: Mapping[str, Kept]) -> None:
        """Go on where an attempt that died has left them: ``kept`` by the id of the call, the empty one for an answer.
        What was permitted for the rest of the run is, as far as one guard alone had asked."""
        for question in (one for asked in past.asked.values() for one in asked):
            request, resolved = question.request, question.resolved
            if resolved is None:
                continue
            self._answered[request.approval] = resolved.how
            if resolved.how in ("run", "always") and resolved.by != "earlier" and len(request.by) == 1:
                self._grants.append(_grant_again(request, resolved))
        self.before = frozenset(self._answered)
        self._kept = dict(kept)

    def permitted(self, approval: str) -> bool:
        """Whether the answer to an approval was a yes."""
        return self._answered.get(approval) in SCOPES

    def is_kept(self, call_id: str) -> bool:
        """The call has asked before the run was recovered."""
        return call_id in self._kept

    # -- ask ---------------------------------------------------------------------------------------------------------

    def considered(self, tool: Tool, arguments: bytes, values: Mapping[str, Any], asks: list[tuple[str, Ask]]) -> Asked:
        """What is left to ask of what guards ask about a call, after all that was permitted before."""
        found = hash_of(arguments)
        left, lifted = [], []
        for guard, ask in asks:
            grant = None if ask.once else self._grant_for(tool.name, values, found, guard, ask.why)
            if grant is None:
                left.append((guard, ask))
            elif grant not in lifted:
                lifted.append(grant)
        return Asked(found, left, lifted)

    def _grant_for(
        self, tool: str, values: Mapping[str, Any], arguments_hash: str, guard: str, why: str
    ) -> Grant | None:
        return next(
            (
                grant
                for grant in (*self._grants, *self._always.of(self._agent))
                if (guard, why) in grant.asked and grant.covers(tool, values, arguments_hash)
            ),
            None,
        )

    def lifted(self, asked: Asked, call_id: str, tool: str, slot: int) -> None:
        """Say of a call that runs without being asked about by whose word it does."""
        for grant in asked.lifted:
            self._append(
                ApprovalResolved,
                slot=slot,
                approval=grant.approval,
                call_id=call_id,
                tool=tool,
                how="run" if grant in self._grants else "always",
                by="earlier",
            )

    def request(
        self,
        call_id: str,
        tool: Tool,
        arguments: bytes,
        values: Mapping[str, Any],
        asks: list[tuple[str, Ask]],
        slot: int,
    ) -> Pending:
        """Ask about a call."""
        return self._request(call_id, tool, arguments, values, asks, slot)

    def request_answer(self, text: str, by: str, why: str) -> Pending:
        """Ask whether an answer may count, this once: no earlier yes covers it."""
        return self._request("", None, text.encode("utf-8", "replace"), {}, [(by, Ask(why, once=True))], 0)

    def _request(
        self,
        call_id: str,
        tool: Tool | None,
        arguments: bytes,
        values: Mapping[str, Any],
        asks: list[tuple[str, Ask]],
        slot: int,
    ) -> Pending:
        seconds, kept = self._seconds, self._kept.pop(call_id, None)
        if kept is not None and kept.arguments_hash != hash_of(arguments):
            kept = None
        if kept is not None:
            seconds = kept.seconds
        approval = Approval(
            self._new_id("a") if kept is None else kept.approval,
            run=self._run,
            agent=self._agent,
            task=self._task,
            call_id=call_id,
            tool="" if tool is None else tool.name,
            arguments=arguments,
            asks=asks,
            seconds=seconds,
            due=self._clock() + seconds,
        )
        pending = Pending(approval, tool, values, asks, slot)
        if kept is not None and kept.resolution is not None:
            pending.resolution = kept.resolution
            return pending
        self.pending[approval.id] = pending
        if kept is not None:
            return pending
        self._append(
            ApprovalRequested,
            slot=slot,
            approval=approval.id,
            call_id=call_id,
            tool=approval.tool,
            arguments=approval.arguments,
            arguments_hash=approval.arguments_hash,
            seconds=self._seconds,
            why=approval.why,
            by=approval.by,
        )
        return pending

    # -- answer ------------------------------------------------------------------------------------------------------

    def approve(
        self,
        approval: str,
        arguments_hash: str,
        scope: Scope = "once",
        pattern: Mapping[str, Pattern] | None = None,
        by: str = "person",
    ) -> None:
        """A yes. Raises :class:`ApprovalError` if it matches no call that waits, and then nothing is permitted."""
        pending = self._find(approval)
        asked = pending.approval
        if arguments_hash != asked.arguments_hash:
            given, waits = str(arguments_hash)[:16], asked.arguments_hash[:16]
            told = (
                f"the yes to {approval} is for another answer (hash {given}…) than the one that waits (hash {waits}…)"
                if asked.of_answer
                else f"the yes to {approval} is for other arguments (hash {given}…) than those that {asked.tool} is to "
                f"be run with (hash {waits}…)"
            )
            raise ApprovalError(f"{told}; look at Run.approvals again", "hash")
        if scope not in SCOPES:
            raise ApprovalError(f"a scope is one of {', '.join(SCOPES)}, not {scope!r}", "scope")
        if scope == "once":
            if pattern is not None:
                raise ApprovalError('a pattern is for the scopes "run" and "always"; once is this one call', "scope")
            self._resolve(pending, Resolution(scope, by))
            return
        tool = pending.tool
        if asked.once or tool is None:
            what = f"this call of {asked.tool}" if asked.tool else "an answer"
            raise ApprovalError(f"{what} can be permitted once only ({asked.why}); say scope='once'", "scope")
        grant = self._granted(pending, tool, pattern, by)
        self._grants.append(grant)
        if scope == "always":
            self._always.add(self._agent, grant)
        self._resolve(pending, Resolution(scope, by), pattern)
        for other in [*self.pending.values()]:
            one = other.approval
            if (
                other.tool is not None
                and not self.considered(other.tool, one.arguments.encode(), other.values, other.asks).left
            ):
                self._resolve(other, Resolution(scope, by))

    def _granted(self, pending: Pending, tool: Tool, pattern: Mapping[str, Pattern] | None, by: str) -> Grant:
        asked = pending.approval
        reasons = frozenset((guard, ask.why) for guard, ask in pending.asks)
        if pattern is None:
            rule = exact_rule(tool, pending.values)
            return Grant(asked.id, tool.name, by, reasons, asked.arguments_hash, rule)
        rule = pattern_rule(tool.name, tool.fields, pending.values, pattern)
        return Grant(asked.id, tool.name, by, reasons, "", rule, Compiled(rule))

    def deny(self, approval: str, reason: str = "", by: str = "person") -> None:
        """A no. Raises :class:`ApprovalError` if no such call waits."""
        pending = self._find(approval)
        self._resolve(pending, Resolution("denied", by, self._clean(str(reason), REASON)))

    def expire(self, pending: Pending, how: How, by: str = "", reason: str = "") -> None:
        """End the wait without a yes. Does nothing if it has ended."""
        if pending.resolution is None:
            self._resolve(pending, Resolution(how, by, reason))

    def cancel(self, reason: str) -> None:
        """End all waits: what has not started will not."""
        for pending in [*self.pending.values()]:
            self._resolve(pending, Resolution("cancelled", "cancel", self._clean(reason, REASON)))

    def _find(self, approval: str) -> Pending:
        pending = self.pending.get(approval)
        if pending is not None:
            return pending
        if approval in self._answered:
            raise ApprovalError(
                f"the approval {approval} is settled already ({self._answered[approval]}); an answer counts once",
                "resolved",
            )
        raise ApprovalError(f"no call of run {self._run} waits for an approval {approval!r}", "unknown")

    def _resolve(self, pending: Pending, resolution: Resolution, pattern: Mapping[str, Pattern] | None = None) -> None:
        approval = pending.approval
        pending.resolution = resolution
        del self.pending[approval.id]
        self._answered[approval.id] = resolution.how
        if len(self._answered) > REMEMBERED:
            self._answered.pop(next(iter(self._answered)))
        self._append(
            ApprovalResolved,
            slot=pending.slot,
            approval=approval.id,
            call_id=approval.call_id,
            tool=approval.tool,
            how=resolution.how,
            by=resolution.by,
            reason=resolution.reason,
            pattern=None if pattern is None else {name: _plain(one) for name, one in pattern.items()},
        )
        if pending.on_resolved is not None:
            pending.on_resolved()


def _grant_again(request: ApprovalRequested, resolved: ApprovalResolved) -> Grant:
    asked = frozenset({(request.by[0], request.why)})
    if resolved.pattern is None:
        return Grant(request.approval, request.tool, resolved.by, asked, request.arguments_hash)
    rule = Rule("allow", request.tool, when=(resolved.pattern,) if resolved.pattern else (), approved=True)
    return Grant(request.approval, request.tool, resolved.by, asked, "", rule, Compiled(rule))


def intact(slot: Slot) -> bool:
    """The arguments that a call will be run with are those that its approval is for, byte by byte."""
    assert slot.asked is not None
    return hash_of(canonical(slot.tool, slot.fresh_values())) == slot.asked.arguments_hash


def _plain(pattern: Pattern) -> Pattern:
    return pattern if isinstance(pattern, str) else tuple(pattern)
