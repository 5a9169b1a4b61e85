"""The guards of one run at their four hooks: on requests, calls, results and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from . import plugins
from .actors.approving import accepts
from .errors import ConfigurationError
from .guards.blocked import Blocked
from .guards.checks import Checks
from .guards.duplicate import Duplicate
from .guards.equal import RefuseEqual
from .guards.guarded import Guarded
from .guards.limited import TimeLimit
from .guards.observed import Observed
from .guards.policy import Policy
from .guards.rate import RateLimit
from .guards.reentry import DEEPEST, Reentry
from .guards.request import Heard, Preview, heard
from .guards.result import Left, Output, left_of
from .guards.scope import Scope, Scoped
from .guards.sideeffects import SideEffects
from .messages import GuardOverran, WouldRefuse

if TYPE_CHECKING:
    from .agent import Agent
    from .examiner import Examiner
    from .guards.guard import CallGuard, GuardFactory
    from .model import Model
    from .opinions.bench import Bench
    from .prices import Prices
    from .provider import Provider
    from .run import Run
    from .threads import Threads

T = TypeVar("T")


class Hooks:
    """Made when the run begins, and asked by its agent and its executor. ``factories`` make the guards of third
    parties; ``prices``, ``provider_of`` and ``threads`` are for second models that have an opinion."""

    def __init__(
        self,
        run: Run,
        factories: Iterable[GuardFactory],
        *,
        prices: Prices,
        provider_of: Callable[[Model], Provider],
        threads: Threads,
    ) -> None:
        self._run = run
        self._wording = run.supervisor.wording
        self._prices = prices
        self._provider_of = provider_of
        self._threads = threads
        profile = run.agent.profile
        note = partial(run.log.append, GuardOverran)
        limit = TimeLimit(profile.guard_seconds, profile.on_overrun, run.seams.clock, note)
        self._theirs = [Guarded(make(), limit, self._wording) for make in factories]
        self._on_answers = [one for one in self._theirs if "answer" in one.at]
        self.bench: Bench | None = self._made_bench() if run.agent.judge is not None else None
        """Who judges calls before they run, if anybody does."""
        self.calls: list[CallGuard] = self._call_guards(limit)
        """In the order in which they are asked."""
        self.heard: Callable[[Preview], Heard] | None = self._asker(heard, "request")
        """What guards say of a request that is about to be made; None: there are none."""
        self.looked: Callable[[Output], Left] | None = self._asker(left_of, "result", wording=self._wording)
        """What guards leave of what a call gave; None: there are none."""
        self.examined = run.agent.examined or bool(self._on_answers)
        """Every answer is looked at, and not only what cites."""

    def attach(self) -> None:
        """From now on they see the facts of the run."""
        for guard in (*self.calls, *(one for one in self._theirs if "call" not in one.at)):
            self._run.log.attach(guard)

    def examiner(self) -> Examiner:
        """Who looks at the answers. Imported when the first answer needs it."""
        from .examiner import examiner_of

        return examiner_of(
            self._run,
            self._on_answers,
            prices=self._prices,
            provider_of=self._provider_of,
            threads=self._threads,
            person=partial(accepts, self._run),
        )

    def _made_bench(self) -> Bench:
        from .opinions.bench import bench_of

        return bench_of(self._run, prices=self._prices, provider_of=self._provider_of, threads=self._threads)

    def _call_guards(self, limit: TimeLimit) -> list[CallGuard]:
        run, agent, wording = self._run, self._run.agent, self._wording
        profile = agent.profile
        policy = Policy(
            wording,
            deny=profile.deny,
            rules=profile.rules,
            otherwise=profile.otherwise,
            function=agent.policy,
            limit=limit,
        )
        guards: list[CallGuard] = []
        if policy.says_anything(agent.tools.values()):
            guards.append(policy)
        guards.append(Blocked(wording))
        scopes = [one.agent.profile.scope for one in run.line() if one.agent.profile.scope != Scope()]
        if scopes:
            guards.append(Scoped(scopes, wording))
        if len(run.within) + 1 >= DEEPEST:
            guards.append(Reentry(run.within, wording))
        if any(tool.checks for tool in agent.tools.values()):
            guards.append(Checks(wording))
        if self.bench is not None:
            guards.append(self.bench.guard)
        if profile.refuse_equal is not None:
            guards.append(RefuseEqual(profile.refuse_equal, profile.show_earlier, wording))
        if profile.rates or profile.interval is not None:
            guards.append(RateLimit(profile.rates, wording, interval=profile.interval))
        if any(tool.stable for tool in agent.tools.values()):
            guards.append(Duplicate(agent.tools, wording))
        if run.unfinished or run.attempt.before is not None or any(tool.side_effect for tool in agent.tools.values()):
            guards.append(SideEffects(wording, run.unfinished, run.attempt.cleared))
        guards += [one for one in self._theirs if "call" in one.at]
        note = partial(run.log.append, WouldRefuse)
        return [Observed(guard, note) if guard.name in profile.observe else guard for guard in guards]

    def _asker(self, ask: Callable[..., T], hook: str, **more: Any) -> Callable[..., T] | None:
        guards = [one for one in self._theirs if hook in one.at]
        note = partial(self._run.log.append, WouldRefuse)
        observed = self._run.agent.profile.observe
        return partial(ask, guards=guards, observed=observed, note=note, **more) if guards else None


def check_observed(agent: Agent, factories: Sequence[GuardFactory]) -> None:
    """Raises :class:`ConfigurationError` if the agent's profile observes what is no guard."""
    observed = set(agent.profile.observe) - plugins.OWN_GUARDS
    unknown = observed and observed - {make().name for make in factories}
    if unknown:
        known = ", ".join(sorted(plugins.OWN_GUARDS))
        raise ConfigurationError(
            f"agent {agent.name!r}: the profile {agent.profile.name!r} observes {', '.join(sorted(unknown))}, "
            f"which is no guard; guards are {known}, and those of third parties"
        )
