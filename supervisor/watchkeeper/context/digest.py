"""What stands in place of the messages that a view leaves out: the calls that found something, and what they were."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..history import MARK
from ..messages import Message
from .units import FOUND, Standing, Unit

ARGUMENTS = 80
"""Characters of a call's arguments in its line."""
RESULT = 120
"""And of its result."""
RESERVE = 24
"""Characters of an index that are kept for its frame: the number of those without a line."""
LEAST = 400
"""Characters that an index may have however short the target is."""
EACH = 1500
"""Characters of a message that is summed up; of a longer one its beginning and its end."""


def lines(messages: Sequence[Message], unit: Unit, standing: Standing) -> list[str]:
    """A line for each call of the unit that found something."""
    results = {message.call_id: message.content for message in messages[unit.first : unit.end]}
    return [
        f"- {call.id}: {call.tool} {_line(call.arguments, ARGUMENTS)} -> {_line(results.get(call.id, ''), RESULT)}"
        for call in messages[unit.first].calls
        if standing.of(call.id) >= FOUND
    ]


def index(
    messages: Sequence[Message], left: Iterable[Unit], standing: Standing, room: int, covered: Collection[int] = ()
) -> str:
    """The calls that found something and are left out, in at most ``room`` characters: the newest with a line each,
    those before by their ids, the oldest by their number. ``covered``: first places of units that a summary speaks of;
    of these the ids will do."""
    told: list[str] = []
    ids: list[str] = []
    more = 0
    room -= RESERVE
    for_ids = room // 4
    for unit in reversed(list(left)):
        for line in reversed(lines(messages, unit, standing)):
            call_id = line[2:].partition(":")[0]
            if unit.first not in covered and len(line) < room - for_ids:
                told.append(line)
                room -= len(line) + 1
            elif len(call_id) + 1 < room:
                ids.append(call_id)
                room -= len(call_id) + 2
            else:
                more += 1
    counted = [f"- {more:,} more"] if more else []
    named = [f"- {', '.join(reversed(ids))}"] if ids else []
    return "\n".join([*counted, *named, *reversed(told)])


def transcript(messages: Sequence[Message], left: Iterable[Unit], room: int) -> str:
    """What the units say, for a summary, in at most ``room`` characters; the oldest go first if it is too much."""
    parts: list[str] = []
    for unit in reversed(list(left)):
        part = "\n".join(_said(messages[place]) for place in unit.places)
        room -= len(part) + 1
        if room < 0:
            break
        parts.append(part)
    return "\n".join(reversed(parts))


def _said(message: Message) -> str:
    text = _bounded(message.content)
    if message.role == "tool":
        return f"result of {message.tool} ({message.call_id}): {text}"
    calls = "".join(f"\ncall of {call.tool} ({call.id}): {_bounded(call.arguments)}" for call in message.calls)
    return f"{message.role}: {text}{calls}"


def harmless(text: str) -> str:
    """Text of others that imitates no mark of ours."""
    return text.replace(MARK, MARK[1:-1])


def _bounded(text: str) -> str:
    return text if len(text) <= EACH else f"{text[: EACH * 2 // 3]} … {text[-EACH // 3 :]}"


def _line(text: str, limit: int) -> str:
    """The beginning of a text, in one line."""
    text = harmless(" ".join(text[: 2 * limit].split()))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
