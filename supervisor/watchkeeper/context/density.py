"""How many tokens a character of a request is: guessed at first, then learned from what the server counts. Pure."""

from __future__ import annotations

from ..messages import Usage

GUESS = 0.4
"""Tokens per character of the first request; later ones use what the server counted."""
LEAST = 0.2
"""Tokens per character that a request has at least. As long as nobody has counted any, nothing that may fit is cut or
held back: a server says so if it does not."""
MARGIN = 1.15
PER_MESSAGE = 8
"""Tokens that a chat template adds to a message, at most."""
PER_REQUEST = 16
BOUNDS = (0.05, 4.0)
"""What a count may say; one beyond is of something else."""
TELLING = 200
"""Characters from which on a count says something of the text, and not of what is around it."""


class Density:
    """Tokens per character of one model's requests."""

    __slots__ = ("_learned", "value")

    def __init__(self) -> None:
        self.value = GUESS
        """Rather too many."""
        self._learned = False

    @property
    def counted(self) -> float:
        """The same as the server has counted it; until it has, the least that it can be."""
        return self.value if self._learned else LEAST

    def estimate(self, characters: int, messages: int) -> int:
        """Tokens of a request of so many characters in so many messages: rather too many."""
        return int(characters * self.value * MARGIN) + PER_MESSAGE * messages + PER_REQUEST

    def learn(self, usage: Usage | None, characters: int) -> None:
        """The server has counted a request of so many characters. The last count counts."""
        if usage is not None and usage.input_tokens and not usage.estimated and characters > TELLING:
            least, most = BOUNDS
            self.value = min(max(usage.input_tokens / characters, least), most)
            self._learned = True

    def exceeded(self, window: int, characters: int) -> None:
        """A request of so many characters was longer than a window of so many tokens: it had more of them."""
        self.value = min(max(self.value, window * MARGIN / max(characters, 1)), BOUNDS[1])
        self._learned = True
