"""How an agent is kept to its goal, as far as it is code: what a profile says of it is data."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from ..errors import ConfigurationError
from .section import PLAIN_FORM
from .shingles import words_of


class Course(msgspec.Struct, frozen=True):
    """What a judge of the course is shown: the goal, the step of a plan if there is one, and what the agent has
    thought and called in its last turns, oldest first. All of it is bounded, and none of it is to be trusted."""

    goal: str
    step: str
    said: tuple[str, ...]


CourseJudge = Callable[[Course], Awaitable[bool]]
"""Says whether an agent has drifted from its goal."""


class Guide(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is told of its goal, and how it is seen that it loses it. ``Profile`` says when.

    - ``rules``: the section of its system prompt; None: the ready-made one (``Wording.rules``), with ``form`` as the
      form of the answer, in words.
    - ``words``: the words of a text that say what it is about; an agent drifts when it has none of its goal's.
    - ``alike``: whether two thoughts are near-equal; None: by shingles of their words. One that raises counts as no.
    - ``judge``: is asked every so many turns (``Profile.drift``) whether the agent has drifted, beside the words, for
      at most ``judge_seconds``. One that fails or is too late is not asked again: the words alone count from then on.

    Raises :class:`ConfigurationError` for what cannot work.
    """

    rules: str | None = None
    form: str = PLAIN_FORM
    words: Callable[[str], Iterable[str]] = words_of
    alike: Callable[[str, str], bool] | None = None
    judge: CourseJudge | None = None
    judge_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("words", "alike", "judge"):
            function = getattr(self, name)
            if not callable(function) and (function is not None or name == "words"):
                raise ConfigurationError(f"the guide's {name} must be a function, not {function!r}")
        if not 0 < self.judge_seconds < math.inf:
            raise ConfigurationError(f"the guide's judge_seconds must be more than 0, not {self.judge_seconds!r}")
