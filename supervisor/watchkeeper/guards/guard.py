"""What a call guard is: a pure rule that sees a proposed call and lets it pass, refuses it or answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from ..messages import Event, Kind
from ..tools import Effect, Tool

if TYPE_CHECKING:
    from .answer import AnswerGuard
    from .request import RequestGuard
    from .result import ResultGuard


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

    @property
    def stands_in(self) -> bool:
        """It takes the place of a call that the model made: what was said of that one does not hold for it."""
        return False


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
    """The call may run if a person says so."""

    why: str = ""
    """What they are asked for."""
    once: bool = False
    """Each such call is asked about: no earlier yes covers it, and a yes covers no later one."""
    nobody: Refuse | None = None
    """What becomes of it where there is nobody to ask; None: it is denied, and the model reads that."""


class Note(msgspec.Struct, frozen=True):
    """The call may run; if it succeeds the model reads this below its result."""

    message: str


class Replace(msgspec.Struct, frozen=True):
    """A safer path in its place: a call of the ``tool`` with the ``arguments`` (one that the agent has, which may be a
    sub-agent); or, without a tool, nothing is run and ``answer`` is the result.

    The other call is dealt with as if the model had asked for it: all guards are asked about it, this one too, and it
    is counted and paid for. A call is replaced at most three times, and never by one that stood in its place before:
    then it is refused. The model reads what was run in place of what, and ``why``. ``productive``: the answer found
    something.
    """

    tool: str = ""
    arguments: Mapping[str, Any] = {}
    answer: str | None = None
    why: str = ""
    productive: bool = False


Decision = Refuse | Reuse | Wait | Ask | Note | Replace


@runtime_checkable
class CallGuard(Protocol):
    """A rule at the hook *call*. Guards are asked in order; the first that decides wins, save for :class:`Wait`,
    :class:`Ask` and :class:`Note`, behind which another may still refuse.

    ``folds`` says which facts it wants to see, so that a guard is a fold over the log of its run. One guard belongs to
    one run. A guard that raises or answers nonsense refuses the call: what is broken must not let things pass. That a
    guard lets a call pass does not mean that it runs: those behind it are asked too, and where one replaces it all are
    asked anew, about the other call under the same id.
    """

    name: str

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], None]]: ...

    def call(self, proposal: Proposal) -> Decision | None: ...


AnyGuard: TypeAlias = "RequestGuard | CallGuard | ResultGuard | AnswerGuard"
"""A guard at one hook or at several: each is a method."""
GuardFactory = Callable[[], AnyGuard]
"""Makes the guard of one run."""
