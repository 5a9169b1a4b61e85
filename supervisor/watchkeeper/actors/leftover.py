"""The calls of a turn that an attempt which died has left without a result: what is known of them, and who can tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import msgspec

from .. import failures, reports
from ..host import called
from ..messages import Call, Result
from ..occurrences import Unfinished
from ..recovery.past import OUTCOME_UNKNOWN, Begun, Past
from ..threads import Threads
from ..tools import Tool

if TYPE_CHECKING:
    from ..run import Run

NEVER_RUN = ("refused", "denied", "not_run", "cancelled")


class Happened(NamedTuple):
    """What a tool says that a call has given."""

    tool: str
    key: str
    value: Any


class Leftover:
    """Of a run that was never broken off there is none, and everything here says so."""

    def __init__(self, run: Run, threads: Threads) -> None:
        self._run = run
        self._threads = threads
        self._begun: dict[str, Begun] = {}
        self._unknown: dict[str, Unfinished] = {}
        """Those that may have had their effect, until they run again or have a result."""
        self._wrote: Collection[str] = ()
        """Those whose sub-agent has begun to write."""

    def take_up(self, past: Past, wrote: Collection[str]) -> None:
        self._wrote = frozenset(wrote)
        self._begun = past.open
        self._unknown = {one.call_id: one for one in past.unknown if one.call_id in past.open}

    def begun(self, call_id: str) -> Begun | None:
        """How far it had come, told once."""
        return self._begun.pop(call_id, None)

    def wrote(self, call_id: str) -> bool:
        """Whether its sub-agent has begun to write: run again it would start another one."""
        return call_id in self._wrote

    def known(self, call_id: str) -> None:
        """It runs again, or its tool has told: what comes of it from now on is known."""
        self._unknown.pop(call_id, None)

    def as_unknown(self, result: Result) -> Result:
        """A call that was started once has not never run, whoever turns it away now."""
        if result.kind in NEVER_RUN and (result.call_id in self._unknown or result.call_id in self._wrote):
            return msgspec.structs.replace(result, kind="abandoned", error=OUTCOME_UNKNOWN)
        return result

    async def look(self, call: Call, tools: Mapping[str, Tool]) -> Happened | None:
        """Ask its tool, if that can tell, whether the call had its effect. One that fails, or takes longer than a call
        may, has said nothing."""
        unknown = self._unknown.get(call.id)
        tool = tools.get(unknown.tool) if unknown is not None else None
        if unknown is None or tool is None or tool.happened is None:
            return None
        return await self._ask(unknown, tool, tool.happened)

    async def _ask(self, unknown: Unfinished, tool: Tool, happened: Callable[[str], Any]) -> Happened | None:
        try:
            with anyio.fail_after(tool.timeout):
                value = await called(happened, unknown.key, self._threads)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # what a host's function raises is no word of it; a real cancel is passed on
            if failures.holds(error, anyio.get_cancelled_exc_class()):
                raise
            cause = failures.full_text(error, self._run.log.redaction)
            reports.report("after_crash_failed", run=self._run.id, tool=tool.name, cause=cause)
            return None
        if value is None:
            self._run.attempt.cleared.add(unknown.key)
            return None
        return Happened(tool.name, unknown.key, value)
