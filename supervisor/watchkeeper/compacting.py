"""Compaction: the view of a run's conversation is made smaller, with a summary by the model where that is of use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from .context import digest
from .context.cuts import Cuts, size
from .context.plan import Frame, Plan, plan
from .context.room import Room
from .context.units import FOUND, IDLE, NOTHING, Standing
from .decisions import BROKEN, WITHHELD, End
from .detect.chant import FINISH
from .history import MARK
from .messages import ContextCompacted, Message
from .model import Reply, Request
from .naming import resolve
from .wording import LEFT_OUT

if TYPE_CHECKING:
    from .run import Run

REMEMBERED = 20
"""Lines of a summary that go into the long-term store."""

Aside = Callable[[Request, int, float], Awaitable[Reply | End | None]]
"""Asks the model something beside the conversation, given the tokens of its reply and the seconds it may take: its
reply, None, or the end of the run that came of it."""


class Compactor:
    """Makes the view of one run smaller. What it does is one fact, ``ContextCompacted``; the history stays as it is."""

    def __init__(self, run: Run, room: Room, aside: Aside) -> None:
        self._run = run
        self._room = room
        self._aside = aside
        self._summary = ""
        self._summed_up: int | None = None
        """The turn of the last summary."""
        self._covered: frozenset[int] = frozenset()
        """First places of the units that the summary speaks of."""

    async def compact(
        self, reason: Literal["window", "refused"], density: float, counted: float, fixed: int
    ) -> bool | End:
        """Cut the view to the target, as far as that is possible. True if enough was freed to go on.

        ``density``: tokens per character, rather too many; ``counted``: the same, as far as they were counted;
        ``fixed``: characters of the request beside the conversation. On cancel nothing is changed.
        """
        run, room = self._run, self._room
        history, log = run.history, run.log
        messages, standing = history.marked(), self._standing()
        cuts = history.cuts or Cuts()
        target = int(room.target / density) - fixed
        sums_up = room.sums_up(self._summed_up, log.turn)
        frame = self._frame(len(messages), max(target, 0), sums_up or bool(self._summary))
        made = plan(messages, cuts, standing, history.shortened, target=target, frame=frame, keep=room.limits.keep)
        if made.cuts.shortened == cuts.shortened and made.cuts.dropped == cuts.dropped:
            room.ended()
            return False
        if sums_up and made.fresh and frame.summary:
            ended = await self._sum_up(made, frame.summary, density)
            if ended is not None:
                return ended
        note = self._note(made, standing, frame)
        after = sum(map(size, history.seen(Cuts(made.cuts.shortened, made.cuts.dropped, note))))
        before = history.characters
        if after >= before:
            room.ended()
            return False
        log.append(
            ContextCompacted,
            reason=reason,
            before=int((before + fixed) * counted),
            after=int((after + fixed) * counted),
            window=room.window,
            shortened=tuple(sorted(made.cuts.shortened)),
            dropped=tuple(sorted(made.cuts.dropped)),
            note=note,
            summary=self._summary,
        )
        return room.compacted(int((before + fixed) * counted), int((after + fixed) * counted), log.turn)

    def remember(self, fact: ContextCompacted) -> None:
        """What an attempt that died has done."""
        if fact.summary != self._summary:
            self._summary, self._summed_up = fact.summary, fact.turn
            self._covered = frozenset(fact.dropped)

    def _standing(self) -> Standing:
        agent, worth, newest = self._run.agent, dict[str, int](), dict[str, str]()
        wanted = {*agent.required, *agent.required_any, *agent.fresh}
        for entry in self._run.ledger.entries.values():
            found = entry.kind == "finished" and entry.productive
            worth[entry.call_id] = FOUND if found else NOTHING if entry.kind == "finished" else IDLE
            tool = resolve(entry.tool, agent.tools) if found and wanted else None
            if tool is not None and tool.name in wanted:
                newest[tool.name] = entry.call_id
        open_calls = frozenset(call.id for call in self._run.history.open_calls())
        return Standing(open_calls, frozenset(newest.values()), worth, self._run.history.charge)

    def _frame(self, messages: int, target: int, summary: bool) -> Frame:
        told = self._run.supervisor.wording.left_out(messages, "-", "-", self._run.recalls)
        calls = min(max(target // 4, digest.LEAST), LEFT_OUT)
        return Frame(len(told.text) + len(MARK) + 1, calls, min(target // 4, LEFT_OUT) if summary else 0)

    def _note(self, made: Plan, standing: Standing, frame: Frame) -> str:
        if not made.left:
            return ""
        found = digest.index(self._run.history.messages(), made.left, standing, frame.calls, self._covered)
        count = sum(len(unit.places) for unit in made.left)
        summary = self._summary[: frame.summary]
        told = self._run.supervisor.wording.left_out(count, summary, found, self._run.recalls)
        return f"{MARK} {told.text}"

    async def _sum_up(self, made: Plan, most: int, density: float) -> End | None:
        """Ask the model for a summary of what is left out from now on. If anything is wrong with it, none is taken."""
        run, limits, wording = self._run, self._room.limits, self._run.supervisor.wording
        self._summed_up = run.log.turn  # also if nothing comes of it: it is not asked for at once again
        window = self._room.window
        room = int((window or 16_000) / density * 0.6) - int(limits.summary_tokens / density)
        text = digest.transcript(run.history.messages(), made.fresh, room)
        if not text:
            return None
        characters = min(most, int(limits.summary_tokens / density))
        asked = (
            Message("system", wording.summarise(characters)),
            Message("user", wording.excerpt(run.task, self._summary, text)),
        )
        reply = await self._aside(Request(asked), limits.summary_tokens, limits.summary_seconds)
        if isinstance(reply, End):
            return reply
        summary = _taken(reply, most, len(text) + len(self._summary))
        if summary:
            self._summary = summary
            self._covered = frozenset(unit.first for unit in made.left)
            if run.memory is not None:
                for line in summary.splitlines()[:REMEMBERED]:
                    await run.memory.add(line.lstrip("-* "), run.task)
        return None


def _taken(reply: Reply | None, most: int, before: int) -> str:
    """The summary that a reply is; empty if it is none, says most of it twice, or is as long as what was to be summed
    up (``before``). One that is too long loses its last lines."""
    if reply is None or reply.finish in (*WITHHELD, *BROKEN, FINISH) or len(reply.text) >= before:
        return ""
    lines = [line for line in digest.harmless(reply.text).splitlines() if line.strip()]
    told = dict.fromkeys(lines)
    if 2 * len(told) < len(lines):
        return ""
    text = "\n".join(told)
    if len(text) > most:
        text = text[: most + 1].rpartition("\n")[0] or text[:most]
    return text.strip()
