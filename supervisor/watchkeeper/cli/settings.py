"""How recorded runs are to be judged, from what the command line says."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..errors import ConfigurationError
from ..plugins import load_detectors
from ..profiles import PROFILES, profile_named
from .declared import Declared
from .exits import CommandError, complain
from .options import split
from .policy import Policy, read_policy
from .review import Settings


def settings_of(
    profile: str | None, policy: Path | None, poll: tuple[str, ...] = (), stable: tuple[str, ...] = ()
) -> Settings:
    """Raises :class:`CommandError` for what cannot work, with the remedy."""
    if profile is not None and policy is not None:
        raise CommandError('--profile and --policy exclude each other; a policy names its profile: base = "default"')
    said = read_policy(policy) if policy is not None else Policy(profile=PROFILES["default"])
    if said.untried:
        complain(
            f"--policy {policy}: {', '.join(said.untried)}: not tried; a recording has no turns and times for that"
        )
    declared = dict(said.tools)
    for names, field in ((split(poll), "poll"), (split(stable), "stable")):
        for name in names:
            declared[name] = msgspec.structs.replace(declared.get(name, Declared()), **{field: True})
    try:
        chosen = said.profile if policy is not None else profile_named(profile) if profile is not None else None
        return Settings(profile=chosen, profiles=PROFILES, declared=declared, extra=tuple(load_detectors()))
    except ConfigurationError as error:
        raise CommandError(f"--profile: {error}" if profile is not None else str(error)) from error


def standard_of(settings: Settings) -> Settings:
    """The settings that a policy is compared with: the default profile, for tools of which nothing is said."""
    return Settings(profile=PROFILES["default"], profiles=PROFILES, extra=settings.extra)
