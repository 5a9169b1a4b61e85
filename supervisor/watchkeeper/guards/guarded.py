"""A guard that somebody else wrote, held at arm's length: what is broken must not let things pass, nor break a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from ..host import is_async
from ..messages import Event
from ..wording import Wording
from .guard import Ask, Decision, Proposal, Refuse
from .limited import TimeLimit

if TYPE_CHECKING:
    from .answer import AnswerDecision, Draft
    from .guard import AnyGuard
    from .request import Preview, RequestDecision
    from .result import Output, ResultDecision

HOOKS = ("request", "call", "result", "answer")
"""Where a guard may be asked: each is a method of that name."""


class Guarded:
    """Passes everything on to the guard. Once one of its folds has raised it knows no longer what has happened: its
    folds are left out from then on, and whatever it is asked about is refused in its name.

    ``at``: the hooks that it guards. ``limit``: what it may take for one question. Raises :class:`ConfigurationError`
    for one that guards none, or that would have to be awaited.
    """

    def __init__(self, guard: AnyGuard, limit: TimeLimit, wording: Wording) -> None:
        self.name = guard.name
        rules = {hook: getattr(guard, hook, None) for hook in HOOKS}
        for hook, rule in rules.items():
            if is_async(rule):
                raise ConfigurationError(
                    f"the guard {guard.name} is async, and guards are asked without waiting; make its {hook} a plain "
                    "function"
                )
        found = {hook: rule for hook, rule in rules.items() if callable(rule)}
        self.at = frozenset(found)
        if not found:
            raise ConfigurationError(
                f"the guard {guard.name!r} guards nothing: it has none of the methods {', '.join(HOOKS)}"
            )
        self._rules: dict[str, Callable[[Any], Any]] = {
            hook: limit.hold(guard.name, rule, self._stated_of_call if hook == "call" else self._stated)
            for hook, rule in found.items()
        }
        self._then = limit.then
        self._wording = wording
        self.broken: str | None = None
        self.folds: Mapping[type[Event], Callable[[Any], None]] = {
            kind: self._held(fold) for kind, fold in guard.folds.items()
        }

    def request(self, preview: Preview) -> RequestDecision | None:
        decision: RequestDecision | None = self._asked("request", preview)
        return decision

    def call(self, proposal: Proposal) -> Decision | None:
        decision: Decision | None = self._asked("call", proposal)
        return decision

    def result(self, output: Output) -> ResultDecision | None:
        decision: ResultDecision | None = self._asked("result", output)
        return decision

    def answer(self, draft: Draft) -> AnswerDecision | None:
        decision: AnswerDecision | None = self._asked("answer", draft)
        return decision

    def _asked(self, hook: str, about: Any) -> Any:
        if self.broken is not None:
            raise RuntimeError(self.broken)
        return self._rules[hook](about)

    def _stated_of_call(self, proposal: Proposal) -> Decision | None:
        if self._then == "allow":
            return None
        if self._then == "ask":
            return Ask(f"the guard {self.name} takes too long")
        return Refuse(self._wording.overran(proposal.tool.name, self.name).text, "guard_overran", "denied")

    def _stated(self, about: object) -> None:
        """Only a call can be asked about: of the rest, what is not allowed does not pass."""
        if self._then != "allow":
            raise RuntimeError("it takes too long and is asked no more")

    def _held(self, fold: Callable[[Any], None]) -> Callable[[Any], None]:
        def held(event: Event) -> None:
            if self.broken is None:
                try:
                    fold(event)
                except Exception as error:
                    self.broken = f"it failed at {type(event).__name__}: {type(error).__name__}: {error}"

        return held
