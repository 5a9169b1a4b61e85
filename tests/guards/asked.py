"""What the tests of the guards share: proposals as admission makes them, and the facts of a run in few words."""

from __future__ import annotations

from typing import Any, TypeVar

from watchkeeper import Tool
from watchkeeper.fingerprint import loop_key
from watchkeeper.guards.guard import CallGuard, Decision, Proposal
from watchkeeper.messages import CallAdmitted, CallEnded, CallStarted, Event, Result, UserMessage
from watchkeeper.wording import Wording

E = TypeVar("E", bound=Event)
WORDING = Wording()


class Asked:
    """A guard that is asked about calls and told what came of them, as the executor does."""

    def __init__(self, guard: Any) -> None:
        self.guard = guard
        self.n = 0
        self.t = 0.0
        self.turn = 1
        self.calls = 0

    def tell(self, kind: type[E], **fields: Any) -> None:
        self.n += 1
        apply = self.guard.folds.get(kind)
        if apply is not None:
            apply(kind(n=self.n, run="r", at=0.0, t=self.t, turn=self.turn, **fields))

    def user(self) -> None:
        self.tell(UserMessage, text="And now?")

    def propose(self, tool: Tool, **values: Any) -> Proposal:
        self.calls += 1
        identity = f"{tool.name} {sorted(values.items())}"
        return Proposal(
            f"c{self.calls}",
            tool,
            values,
            loop_key(tool, values, identity),
            tool.effect_of(values),
            self.turn,
            1,
            self.t,
            identity,
        )

    def ask(self, tool: Tool, **values: Any) -> Decision | None:
        """Ask, and if it is let pass run it at once."""
        proposal = self.propose(tool, **values)
        decision: Decision | None = self.guard.call(proposal)
        if decision is None:
            self.start(proposal)
            self.end(proposal)
        else:
            self.end(proposal, kind="refused", by=self.guard.name, error="refused")
        return decision

    def pass_by(self, tool: Tool, **values: Any) -> Proposal:
        """Ask and expect it to pass."""
        proposal = self.propose(tool, **values)
        assert self.guard.call(proposal) is None
        return proposal

    def admit(self, proposal: Proposal) -> None:
        self.tell(
            CallAdmitted,
            call_id=proposal.call_id,
            tool=proposal.tool.name,
            key=proposal.key,
            reads=proposal.effect.reads,
            writes=proposal.effect.writes,
        )

    def start(self, proposal: Proposal) -> None:
        self.admit(proposal)
        self.tell(CallStarted, call_id=proposal.call_id, tool=proposal.tool.name)

    def end(self, proposal: Proposal, content: str = "found", **more: Any) -> None:
        fields = {"kind": "finished", "productive": more.get("kind", "finished") == "finished", **more}
        result = Result(proposal.call_id, proposal.tool.name, content=content, **fields)
        self.tell(CallEnded, result=result, key=proposal.key)


def is_guard(guard: Any) -> bool:
    return isinstance(guard, CallGuard)
