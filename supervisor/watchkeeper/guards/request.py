"""What a request guard is: a pure rule that sees what the model is about to be asked, and may have a word in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from ..messages import Event, Message


class Preview(msgspec.Struct, frozen=True):
    """A turn before the model is asked."""

    turn: int
    goal: str
    """The task of the run."""
    messages: Sequence[Message]
    """What the model will read, behind its instructions."""
    tools: tuple[str, ...]
    """Names of the tools that it may call; none where they are off."""


class Say(msgspec.Struct, frozen=True):
    """The model reads ``text`` at the end of this request. It is no part of the conversation."""

    text: str


class Halt(msgspec.Struct, frozen=True):
    """The model is not asked: the run ends as ``stopped`` with this reason."""

    reason: str
    detail: str = ""
    """For people, in the outcome's message."""


RequestDecision = Say | Halt


@runtime_checkable
class RequestGuard(Protocol):
    """A rule at the hook *request*, asked once a turn; retries of the request are of the same turn. All guards are
    asked, and the first :class:`Halt` ends the run.

    As with :class:`.CallGuard`: ``folds`` says which facts it wants to see, one guard belongs to one run. Where one
    that is not merely observed raises or answers nonsense, the run ends with the reason ``guard_failed``: what is
    broken must not let things pass.
    """

    name: str

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], None]]: ...

    def request(self, preview: Preview) -> RequestDecision | None: ...


class Heard(msgspec.Struct):
    """What the guards of a request say, together."""

    words: list[str] = []
    halt: Halt | None = None


def heard(
    preview: Preview, *, guards: Sequence[RequestGuard], observed: Collection[str], note: Callable[..., object]
) -> Heard:
    """Ask all of them. ``observed``: the names of those that only say what they would do; ``note`` takes the fields of
    a ``WouldRefuse``."""
    whole = Heard()
    for guard in guards:
        try:
            decision = guard.request(preview)
            if decision is not None and not isinstance(decision, Say | Halt):
                raise TypeError(f"it answered with a {type(decision).__name__}")
        except Exception as error:
            decision = Halt("guard_failed", f"the guard {guard.name} failed: {type(error).__name__}: {error}")
        if decision is None:
            continue
        if guard.name in observed:
            _note(decision, note, guard.name)
        elif isinstance(decision, Halt):
            whole.halt = decision
            return whole
        else:
            whole.words.append(decision.text)
    return whole


def _note(decision: RequestDecision, note: Callable[..., object], by: str) -> None:
    if isinstance(decision, Halt):
        note(by=by, would="halt", error=decision.reason, text=decision.detail)
    else:
        note(by=by, would="tell", text=decision.text)
