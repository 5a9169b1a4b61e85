"""The judge's guard: what a second opinion has said of a call is carried out. It asks nobody; that was done before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..messages import CallEnded, Event, OpinionGiven
from ..tools import Tool
from ..wording import Wording
from .guard import Ask, Proposal, Refuse


class Judged:
    """Refuses what the judge refuses, asks where it asks, and lets no call pass that it should have seen and has not;
    nor one that another guard has put in the place of what it saw.

    ``every_turn``: it sees all calls; else those of tools that are marked, or ``named`` in the profile.
    """

    name = "judge"

    def __init__(self, wording: Wording, *, every_turn: bool, named: Collection[str] = ()) -> None:
        self._wording = wording
        self._every_turn = every_turn
        self._named = frozenset(named)
        self._given: dict[str, OpinionGiven] = {}
        self.folds: Mapping[type[Event], Callable[[Any], None]] = {OpinionGiven: self._heard, CallEnded: self._ended}

    def covers(self, tool: Tool) -> bool:
        return self._every_turn or tool.judged or tool.name in self._named

    def call(self, proposal: Proposal) -> Refuse | Ask | None:
        tool = proposal.tool
        if not self.covers(tool):
            return None
        given = None if proposal.stands_in else self._given.get(proposal.call_id)
        if given is None:
            return Refuse(self._wording.judge_refused(tool.name, "it has not been judged").text, "judge_refused")
        if given.decision == "allow":
            return None
        if given.decision == "ask":
            return Ask(given.why)
        if given.decision == "replace" and given.instead:
            told = self._wording.judge_replaced(tool.name, given.why, given.instead)
            return Refuse(told.text, "judge_replaced")
        return Refuse(self._wording.judge_refused(tool.name, given.why or given.failed).text, "judge_refused")

    def _heard(self, event: OpinionGiven) -> None:
        if event.call_id:
            self._given[event.call_id] = event

    def _ended(self, event: CallEnded) -> None:
        self._given.pop(event.result.call_id, None)
