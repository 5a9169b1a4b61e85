"""Active forgetting: a note that is shown again and again and never used loses its weight. Pure.

The rule: a note that was shown (by itself or by a recall) and of which no two words come up in the model's next two
replies, or until it is shown once more, loses half of its weight; one that was of use has all of it again. Words that
it was looked up with do not count, nor does what the model asks ``recall`` for. Notes are sorted by rank and weight;
one below a fifth, shown three times for nothing, is not shown any more in the run. The store itself keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..messages import ModelReplied
from .store import Note

LEAST = 0.2
LOOKED_AT = 2
"""Replies in which a note that was shown may prove to be of use."""
USED = 2
"""Words of a note that come up when it is used; of one with fewer words of its own, all of them."""
REMEMBERED = 1000
"""Notes whose weight is known."""

_WORD = re.compile(r"\d+|\w{4,}")


class Weights:
    """What each note still weighs in a run: 1 at first."""

    def __init__(self) -> None:
        self._weights: dict[Note, float] = {}
        self._shown: dict[Note, tuple[frozenset[str], int]] = {}
        """Notes that are to prove of use: their own words, and the replies that are left for that."""

    def of(self, note: Note) -> float:
        return self._weights.get(note, 1.0)

    def sorted(self, notes: Sequence[Note]) -> list[Note]:
        """Those that still count, by rank and weight; the order given is that of the store."""
        ranked = [(self.of(note) / rank, -rank, note) for rank, note in enumerate(notes, 1) if self.of(note) >= LEAST]
        return [note for _, _, note in sorted(ranked, key=lambda one: one[:2], reverse=True)]

    def shown(self, notes: Iterable[Note], query: str) -> None:
        """They were shown to the model, who was asking for ``query``."""
        asked = words(query)
        for note in notes:
            own = words(f"{note.text} {note.about}") - asked
            if self._shown.get(note, (own, LOOKED_AT))[1] < LOOKED_AT:  # once more, and not used yet
                self._weigh(note, self.of(note) / 2)
            if own:
                self._shown[note] = own, LOOKED_AT

    def replied(self, reply: ModelReplied, recall: str) -> None:
        """The model has replied; what it asks the tool ``recall`` for is no use of anything."""
        if not self._shown:
            return
        said = words(" ".join((reply.text, *(call.arguments for call in reply.calls if call.tool != recall))))
        for note, (own, left) in list(self._shown.items()):
            if len(own & said) >= min(USED, len(own)):
                self._weigh(note, 1.0)
            elif left > 1:
                self._shown[note] = own, left - 1
                continue
            else:
                self._weigh(note, self.of(note) / 2)
            del self._shown[note]

    def _weigh(self, note: Note, weight: float) -> None:
        self._weights.pop(note, None)
        self._weights[note] = weight
        if len(self._weights) > REMEMBERED:
            del self._weights[next(iter(self._weights))]


def words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
