"""JSON in an answer: alone, in a fence, or with words around it. Nothing is guessed and nothing is mended."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ..jsontext import NotJSON, decode, decode_first

MAX_CHARACTERS = 256 * 1024
"""Characters of an answer in which JSON is looked for; a longer one does not pass."""
MAX_TRIES = 64
"""Places at which JSON may begin that are tried."""
_FENCE = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_OPENING = re.compile(r"[\[{]")


class Found(NamedTuple):
    """The JSON values of a text, those with the longest text first; ``wrong`` is what was wrong where JSON began."""

    values: list[Any]
    wrong: NotJSON | None


def json_in(text: str) -> Found:
    """Every JSON value of a text: the text itself, else what stands in its fences, else each object and list in it.

    Never raises. A text that is longer than :data:`MAX_CHARACTERS` has none.
    """
    if len(text) > MAX_CHARACTERS:
        return Found([], NotJSON(f"the answer is {len(text)} characters long; at most {MAX_CHARACTERS} are read"))
    try:
        return Found([decode(text)], None)
    except NotJSON as error:
        whole = error
    fenced = [(len(inner), inner) for inner in (match[1] for match in _FENCE.finditer(text))][:MAX_TRIES]
    values: list[tuple[int, Any]] = []
    for length, inner in fenced:
        try:
            values.append((length, decode(inner)))
        except NotJSON:
            continue
    if not values:
        values, inside = _embedded(text)
        whole = inside or whole
    values.sort(key=lambda one: -one[0])
    return Found([value for _, value in values], None if values else whole)


def _embedded(text: str) -> tuple[list[tuple[int, Any]], NotJSON | None]:
    """Objects and lists in a text, each with its length, none within another; what was wrong with the first that broke
    off or else with the first."""
    values: list[tuple[int, Any]] = []
    wrong: NotJSON | None = None
    place, tries = 0, 0
    while tries < MAX_TRIES and (match := _OPENING.search(text, place)) is not None:
        tries += 1
        start = match.start()
        try:
            value, end = decode_first(text[start:])
        except NotJSON as error:
            if wrong is None or (error.incomplete and not wrong.incomplete):
                wrong = error
            place = start + 1
        else:
            values.append((end, value))
            place = start + end
    return values, wrong
