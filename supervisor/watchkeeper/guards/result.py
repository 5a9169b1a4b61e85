"""What a result guard is: a pure rule that sees what a call gave, before the model and the log do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from ..messages import Event, Would
from ..wording import Wording


class Output(msgspec.Struct, frozen=True):
    """What a call that ran gave. No secret is in ``content``; it is bounded already."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    """Values as the tool had them. Not to be changed."""
    content: str
    productive: bool
    """It found something."""
    error: str | None = None
    """The code of a failure that the tool has told of."""


class Rewrite(msgspec.Struct, frozen=True):
    """The model reads this content in place of what the call gave. ``productive``: None leaves it as it was."""

    content: str
    productive: bool | None = None


class Withhold(msgspec.Struct, frozen=True):
    """The call has run, and the model reads ``message`` in place of what it gave; it counts as failed."""

    message: str
    error: str = "withheld"


ResultDecision = Rewrite | Withhold


@runtime_checkable
class ResultGuard(Protocol):
    """A rule at the hook *result*, asked about each call that ran and gave something. They are asked in order, each
    about what those before it have left; the first :class:`Withhold` is the last word.

    As with :class:`.CallGuard`: ``folds`` says which facts it wants to see, one guard belongs to one run. What one that
    raises or answers nonsense was asked about is withheld: what is broken must not let things pass.
    """

    name: str

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], None]]: ...

    def result(self, output: Output) -> ResultDecision | None: ...


class Left(msgspec.Struct):
    """What the guards have left of an output. ``by``: the last that has changed something."""

    output: Output
    withheld: Withhold | None = None
    by: str | None = None


def left_of(
    output: Output,
    *,
    guards: Sequence[ResultGuard],
    observed: Collection[str],
    note: Callable[..., object],
    wording: Wording,
) -> Left:
    """Ask them. ``observed`` and ``note`` are as with :func:`.request.heard`."""
    whole = Left(output)
    for guard in guards:
        try:
            decision = guard.result(whole.output)
            if decision is not None and not _is_sound(decision):
                raise TypeError(f"it answered with a {type(decision).__name__}")
        except Exception as error:
            told = wording.withheld(output.tool, f"the guard {guard.name} failed ({type(error).__name__})")
            decision = Withhold(told.text, "guard_failed")
        if decision is None:
            continue
        if guard.name in observed:
            would, code, text = _told(decision)
            note(by=guard.name, would=would, call_id=output.call_id, tool=output.tool, error=code, text=text)
            continue
        whole.by = guard.name
        if isinstance(decision, Withhold):
            whole.withheld = decision
            return whole
        productive = whole.output.productive if decision.productive is None else decision.productive
        whole.output = msgspec.structs.replace(whole.output, content=decision.content, productive=productive)
    return whole


def _told(decision: ResultDecision) -> tuple[Would, str, str]:
    if isinstance(decision, Withhold):
        return "withhold", decision.error, decision.message
    return "rewrite", "", decision.content


def _is_sound(decision: object) -> bool:
    """Whether it is what its types say: a guard may be anybody's."""
    if isinstance(decision, Rewrite):
        return isinstance(decision.content, str) and isinstance(decision.productive, bool | None)
    return isinstance(decision, Withhold) and isinstance(decision.message, str) and isinstance(decision.error, str)
