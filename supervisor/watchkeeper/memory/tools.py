"""The tools of a model's memory: ``recall`` for what its view leaves out and what was noted, ``remember`` to note."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from ..current import current_call
from ..messages import Message
from ..tools import Tool, ToolOutput, tool
from .forgetting import words
from .offer import RECALL, REMEMBER
from .recollection import line

PART = 6000
"""Characters of an earlier result that are shown at once."""
FOUND = 3
"""Earlier results in which words were found."""
AROUND = 150
"""Characters on each side of what was found in one."""


@tool(name=RECALL, effect="nothing")
async def recall(
    query: Annotated[str, "The id of an earlier call, for its whole result; or words to look for"],
    start: Annotated[int, "For a long result: the character to begin with"] = 0,
) -> ToolOutput:
    """Look up what is no longer shown of this conversation, and notes from earlier work."""
    run = current_call().run
    result = run.history.result_of(query.strip())
    if result is not None:
        return _said(_part(result, max(start, 0)))
    told = [
        f"call {result.call_id} ({result.tool}): … {around} …" for result, around in _hits(run.history.unseen(), query)
    ]
    if run.memory is not None:
        told += [f"note: {line(note)}" for note in await run.memory.search(query)]
    return _said("\n".join(told) or "Nothing was found. Use other words, or the id of a call.")


@tool(name=REMEMBER, effect="nothing")
async def remember(
    text: Annotated[str, "The fact, in one or two sentences that can be understood alone"],
    about: Annotated[str, "What it is about, in a few words"] = "",
) -> ToolOutput:
    """Note a fact that will be needed later in this work, or in later work."""
    memory = current_call().run.memory
    if memory is not None and await memory.add(text, about):
        return _said("Noted.")
    return ToolOutput("It was not noted: there was nothing in it, or the store does not answer.", False, "not_noted")


def tools() -> list[Tool]:
    """Both of them, for an agent with a store."""
    return [recall, remember]


def _said(text: str) -> ToolOutput:
    """What was known before is no new evidence."""
    return ToolOutput(text, productive=False)


def _part(result: Message, start: int) -> str:
    content = result.content
    end = min(start + PART, len(content))
    more = f'\n(For more: recall("{result.call_id}", start={end}))' if end < len(content) else ""
    where = f"characters {start:,} to {end:,} of {len(content):,}"
    return f"Result of {result.tool} (call {result.call_id}), {where}:\n{content[start:end]}{more}"


def _hits(results: Iterable[Message], query: str) -> list[tuple[Message, str]]:
    """The results with most of the words, newest first among equals, each with what stands around the first of them."""
    wanted = words(query[:500]) or frozenset(query.casefold().split()[:8])
    counted = []
    for place, result in enumerate(results):
        text = result.content.casefold()
        there = [at for at in map(text.find, wanted) if at >= 0]
        if there:
            counted.append((len(there), place, result, min(there)))
    best = sorted(counted, key=lambda one: one[:2], reverse=True)[:FOUND]
    return [(result, " ".join(result.content[max(at - AROUND, 0) : at + AROUND].split())) for _, _, result, at in best]
