"""What a call guard is: a pure rule that sees a proposed call and lets it pass, refuses it or answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from ..messages import Event, Kind
from ..tools import Effect, Tool

if TYPE_CHECKING:
    from .answer import AnswerGuard


class Proposal:
    """A call whose tool is known and whose arguments fit, before it is admitted."""

    __slots__ = ("call_id", "effect", "identity", "key", "slot", "t", "tool", "turn", "values")

    def __init__(
        self,
        call_id: str,
        tool: Tool,
        values: dict[str, Any],
        key: str,
        effect: Effect,
        turn: int,
        slot: int,
        t: float,
        identity: str = "",
    ) -> None:
        self.call_id = call_id
        self.tool = tool
        self.values = values
        self.key = key
        """What detection compares: the tool may declare that only some arguments count."""
        self.identity = identity or key
        """Tool and all arguments: only calls of one identity may stand in for each other."""
        self.effect = effect
        self.turn = turn
        self.slot = slot
        self.t = t


class Refuse(msgspec.Struct, frozen=True):
    """The call is not run; the model reads ``message``."""

    message: str
    error: str
    kind: Kind = "refused"


class Reuse(msgspec.Struct, frozen=True):
    """The call is not run; it is answered with what an earlier one found."""

    message: str
    earlier: str
    productive: bool


class Wait(msgspec.Struct, frozen=True):
    """The call may run, but not for so many seconds."""

    seconds: float


class Ask(msgspec.Struct, frozen=True):
    """The call may run if a person says so. ``why``: what they are asked for."""

    why: str = ""


Decision = Refuse | Reuse | Wait | Ask


@runtime_checkable
class CallGuard(Protocol):
    """A rule at the hook *call*. Guards are asked in order; the first that decides wins, save for :class:`Wait` and
    :class:`Ask`, behind which another may still refuse.

    ``folds`` says which facts it wants to see, so that a guard is a fold over the log of its run. One guard belongs to
    one run. A guard that raises or answers nonsense refuses the call: what is broken must not let things pass. That a
    guard lets a call pass does not mean that it runs: those behind it are asked too.
    """

    name: str

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], None]]: ...

    def call(self, proposal: Proposal) -> Decision | None: ...


GuardFactory = Callable[[], "CallGuard | AnswerGuard"]
"""Makes the guard of one run."""
