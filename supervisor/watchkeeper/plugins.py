"""What third parties bring, by entry points: tools, detectors and guards. Two of one name are an error."""

from __future__ import annotations

from collections.abc import Iterable, Set
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .detect.detector import Factory
from .errors import ConfigurationError
from .guards.blocked import Blocked
from .guards.checks import Checks
from .guards.duplicate import Duplicate
from .guards.equal import RefuseEqual
from .guards.guard import GuardFactory
from .guards.policy import Policy
from .guards.rate import RateLimit
from .guards.reentry import Reentry
from .guards.scope import Scoped
from .guards.sideeffects import SideEffects
from .ladder import CEILINGS, steps_of
from .thresholds import Thresholds
from .tools import Tool

OWN_DETECTORS = frozenset({*steps_of(Thresholds()), *CEILINGS})
CALL_GUARDS = frozenset(
    guard.name for guard in (Blocked, Checks, Duplicate, Policy, RateLimit, Reentry, RefuseEqual, Scoped, SideEffects)
) | {"judge"}
ANSWER_GUARDS = frozenset({"evidence", "form", "citations", "validators", "verifier"})
OWN_GUARDS = CALL_GUARDS | ANSWER_GUARDS


def load_tools(*sets: str, **options: Any) -> list[Tool]:
    """The tools of the named sets (entry points of ``watchkeeper.tools``), made with the options, for example ``root``.

    Raises :class:`ConfigurationError` for a set that is not there or cannot be loaded, and for two tools of one name.
    """
    there = _found("watchkeeper.tools")
    tools: dict[str, tuple[str, Tool]] = {}
    for name in sets:
        if name not in there:
            raise ConfigurationError(
                f"there is no tool set {name!r}; installed are {', '.join(sorted(there)) or 'none'}"
            )
        made = _load(there[name])
        if callable(made):
            made = made(**options)
        for tool in [made] if isinstance(made, Tool) else made:
            if not isinstance(tool, Tool):
                raise ConfigurationError(
                    f"the tool set {name!r} ({there[name].value}) holds {tool!r}, which is no tool; make one with @tool"
                )
            if tool.name in tools:
                raise ConfigurationError(
                    f"two tools are named {tool.name!r}: one of the set {tools[tool.name][0]!r}, one of {name!r}"
                )
            tools[tool.name] = (name, tool)
    return [tool for _, tool in tools.values()]


def load_detectors() -> list[Factory]:
    """Detectors of third parties: entry points of ``watchkeeper.detectors`` name their factories.

    A detector may declare at which counts it wants to be heard: ``steps = Steps(nudge=4, block=6, stop=10)``; one that
    does not climbs by the steps of ``equal``. What its findings are called is its own ``name``.

    Raises :class:`ConfigurationError` for one that cannot be loaded, and for two of one name, ours included.
    """
    return _load_all("watchkeeper.detectors", OWN_DETECTORS)


def load_guards() -> list[GuardFactory]:
    """Guards of third parties: entry points of ``watchkeeper.guards`` name a function that makes one, for requests,
    calls, results or answers (:class:`RequestGuard`, :class:`CallGuard`, :class:`ResultGuard`, :class:`AnswerGuard`),
    or for several of them.

    Raises :class:`ConfigurationError` for one that cannot be loaded, and for two of one name, ours included.
    """
    return _load_all("watchkeeper.guards", OWN_GUARDS)


def load_agent(name: str) -> Any:
    """An agent, or a function of a :class:`.RunSpec` that makes one: the entry point of that name of
    ``watchkeeper.agents``. Raises :class:`ConfigurationError` if there is none, or if it cannot be loaded."""
    found = _found("watchkeeper.agents")
    if name not in found:
        known = ", ".join(sorted(found)) or "none are installed"
        raise ConfigurationError(
            f"there is no agent {name!r}: it is not among those that the supervisor was given (agents=), nor an entry "
            f"point of watchkeeper.agents ({known})"
        )
    return _load(found[name])


def _load_all(group: str, own: Set[str]) -> list[Any]:
    found = _found(group)
    for name in found.keys() & own:
        point = found[name]
        raise ConfigurationError(
            f"{group}: {name} ({point.value}, from {_origin(point)}) has the name of one of watchkeeper's own; "
            "give it another"
        )
    loaded = {name: _load(point) for name, point in found.items()}
    for name, thing in loaded.items():
        if getattr(thing, "name", name) in own:  # a "breaker" of somebody else's would stop in every mode
            raise ConfigurationError(
                f"{group}: {name} ({found[name].value}, from {_origin(found[name])}) calls itself {thing.name!r}, "
                "which is the name of one of watchkeeper's own; give it another"
            )
    return list(loaded.values())


def _found(group: str) -> dict[str, EntryPoint]:
    return by_name(group, entry_points(group=group))


def by_name(group: str, points: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in points:
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise ConfigurationError(
                f"two entry points of {group} are named {point.name!r}: {other.value} ({_origin(other)}) and "
                f"{point.value} ({_origin(point)}); uninstall one"
            )
    return found


def _origin(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "unknown origin"


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # a module that ends the program when it is imported cannot be loaded
        raise ConfigurationError(
            f"{point.group}: {point.name} ({point.value}, from {_origin(point)}) cannot be loaded: "
            f"{type(error).__name__}: {error}; repair it, or uninstall what brings it"
        ) from error
