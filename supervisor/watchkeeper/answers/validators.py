"""Ready-made validators of answers, and what a validator is."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from ..errors import ConfigurationError

Validator = Callable[[Any], "str | Awaitable[str | None] | None"]
"""Gets the value of an answer, or its text if the answer has no type, and says what is wrong with it, for the model to
read; None: nothing. A plain function runs in a thread, an async one in the loop. One that raises, answers anything else
or takes too long lets no answer pass."""


class Words:
    """Says which words are missing in the text of an answer, or stand there and must not. Whole words, in any case."""

    of_text = True
    """It gets the text, whatever the type of the answer."""

    def __init__(self, words: tuple[str, ...], *, there: bool) -> None:
        if not words or not all(isinstance(word, str) and word.strip() for word in words):
            raise ConfigurationError("the words that an answer must or must not mention: name at least one, none empty")
        self._there = there
        self._words = {word.strip(): _pattern(word.strip()) for word in words}

    def __call__(self, text: str) -> str | None:
        wrong = [word for word, pattern in self._words.items() if (pattern.search(text) is None) is self._there]
        if not wrong:
            return None
        listed = ", ".join(map(repr, wrong))
        return f"it must mention {listed}" if self._there else f"it must not mention {listed}"


def must_mention(*words: str) -> Words:
    """A validator: each of the words must stand in the answer's text."""
    return Words(words, there=True)


def must_not_mention(*words: str) -> Words:
    """A validator: none of the words may stand in the answer's text."""
    return Words(words, there=False)


def _pattern(word: str) -> re.Pattern[str]:
    begin = r"(?<!\w)" if word[0].isalnum() else ""
    end = r"(?!\w)" if word[-1].isalnum() else ""
    inner = r"\s+".join(map(re.escape, word.split()))
    return re.compile(f"{begin}{inner}{end}", re.IGNORECASE)
