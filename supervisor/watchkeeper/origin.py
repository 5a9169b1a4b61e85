"""Where a sub-agent comes from: the run above it, and the call of that run within which it is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .current import HERE
from .detect.handover import task_key
from .errors import SpawnRefused
from .guards.reentry import DEEPEST
from .messages import ChildStarted, Message

if TYPE_CHECKING:
    from .agent import Agent
    from .budget import Budget
    from .locks import Grip
    from .run import Run
    from .tools import Tool

MAX_DEPTH = 2
MAX_CHILDREN = 10
"""Sub-agents that one root run may ever start, at any depth."""
SHOWN_TASK = 500
"""Characters of a sub-agent's task that the fact of its start shows."""


class Origin:
    """Made by the code that starts the sub-agent, for it looks at the call that this code runs for."""

    def __init__(self, parent: Run) -> None:
        self.parent = parent
        self._here = HERE.get(None)
        within = self._here is not None and self._here.run is parent
        self._call = self._here if within else None
        """None outside of a call of the parent."""

    @property
    def _call_id(self) -> str:
        return self._call.call_id if self._call is not None else ""

    def check(self, agent: Agent) -> None:
        """Raises :class:`SpawnRefused` if there may be no such sub-agent."""
        parent = self.parent
        if parent.ending is not None or parent.stopping_after_turn is not None:
            raise SpawnRefused(f"run {parent.id} is ending")
        if parent.depth >= MAX_DEPTH:
            raise SpawnRefused(f"sub-agents may be {MAX_DEPTH} deep, and this would be the next level")
        if sum(agent.is_like(run.agent) for run in parent.line()) + 1 >= DEEPEST:
            raise SpawnRefused(f"the agent {agent.name} would be at work inside itself for the {DEEPEST}rd time")
        if parent.root.descendants >= MAX_CHILDREN:
            raise SpawnRefused(f"this run has started {MAX_CHILDREN} sub-agents already, which is all it may")

    @property
    def purse(self) -> Budget:
        """What it draws from: within a call what that call does, which may be a step's of the parent's plan."""
        return self.parent.drawn if self._call is not None else self.parent.budget

    @property
    def grips(self) -> frozenset[Grip]:
        """The grips of the calls within which it is started: what it does never waits for its own caller."""
        parent, here = self.parent, self._here
        grip = parent.executor.grip_of(here.call_id) if here is not None and parent.executor is not None else None
        return parent.grips_above | ({grip} if grip is not None else set())

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the calls within which it is started, outermost first."""
        parent, call = self.parent, self._call
        tool = parent.agent.tools.get(call.tool) if call is not None else None
        return parent.within if tool is None else (*parent.within, tool)

    def add(self, child: Run, task: str, history: Sequence[Message]) -> None:
        """It is there: it counts among those of its parent, whose log says so."""
        parent, agent = self.parent, child.agent
        child.within_call = bool(self._call_id)
        parent.children.append(child)
        parent.children_changed()
        parent.root.descendants += 1
        child.log.attach(child.work)
        parent.log.append(
            ChildStarted,
            child=child.id,
            agent=agent.name,
            call_id=self._call_id,
            task=child.task[:SHOWN_TASK],
            key=task_key(agent.name, task, (message.content for message in history)),
        )
