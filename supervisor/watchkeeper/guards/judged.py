"""The judge's guard: what a second opinion has said of a call is carried out. It asks nobody; that was done before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from ..arguments import Parsed, parse
from ..fingerprint import call_key
from ..messages import CallEnded, Event, OpinionGiven
from ..tools import Tool
from ..wording import Wording
from .guard import Ask, Proposal, Refuse, Replace


class Judged:
    """Refuses what the judge refuses, asks where it asks, puts another call in the place of one where it does, and lets
    no call pass that it should have seen and has not.

    ``every_turn``: it sees all calls; else those of tools that are marked, or ``named`` in the profile. What it has
    said is of the call that the model asked for: another one that a guard puts in its place has not been judged, and
    passes only if its tool is neither marked nor named.
    """

    name = "judge"

    def __init__(self, wording: Wording, *, every_turn: bool, named: Collection[str] = ()) -> None:
        self._wording = wording
        self._every_turn = every_turn
        self._named = frozenset(named)
        self._given: dict[str, OpinionGiven] = {}
        self.folds: Mapping[type[Event], Callable[[Any], None]] = {OpinionGiven: self._heard, CallEnded: self._ended}

    def covers(self, tool: Tool) -> bool:
        return self._every_turn or self._marks(tool)

    def _marks(self, tool: Tool) -> bool:
        return tool.judged or tool.name in self._named

    def call(self, proposal: Proposal) -> Refuse | Ask | Replace | None:
        tool = proposal.tool
        given = self._given.get(proposal.call_id)
        if proposal.stands_in:
            if not self._marks(tool) or (given is not None and _puts(given, proposal)):
                return None
            given = None
        elif not self.covers(tool):
            return None
        if given is None:
            return Refuse(self._wording.judge_refused(tool.name, "it has not been judged").text, "judge_refused")
        if given.decision == "allow":
            return None
        if given.decision == "ask":
            return Ask(given.why)
        if given.decision == "replace" and given.tool:
            return Replace(given.tool, msgspec.json.decode(given.arguments), why=given.why)
        if given.decision == "replace" and given.instead:
            told = self._wording.judge_replaced(tool.name, given.why, given.instead)
            return Refuse(told.text, "judge_replaced")
        return Refuse(self._wording.judge_refused(tool.name, given.why or given.failed).text, "judge_refused")

    def _heard(self, event: OpinionGiven) -> None:
        if event.call_id:
            self._given[event.call_id] = event

    def _ended(self, event: CallEnded) -> None:
        self._given.pop(event.result.call_id, None)


def _puts(given: OpinionGiven, proposal: Proposal) -> bool:
    """The proposal is the very call that the judge has put in the place of another."""
    if given.tool != proposal.tool.name:
        return False
    parsed = parse(proposal.tool, given.arguments)
    return isinstance(parsed, Parsed) and call_key(given.tool, parsed.canonical) == proposal.identity
