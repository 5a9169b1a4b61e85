"""How recorded runs are to be judged, from what the command line says."""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigurationError
from ..guards.scope import Scope
from ..plugins import load_detectors
from ..profiles import PROFILES, profile_named
from .exits import CommandError, complain
from .options import split
from .plugged import as_declared, steps_declared
from .policy import read_policy
from .review import Settings
from .verdicts import settings_with


def settings_of(
    profile: str | None, policy: Path | None, poll: tuple[str, ...] = (), stable: tuple[str, ...] = ()
) -> Settings:
    """Raises :class:`CommandError` for what cannot work, with the remedy."""
    if profile is not None and policy is not None:
        raise CommandError('--profile and --policy exclude each other; a policy names its profile: base = "default"')
    try:
        detectors = load_detectors()
    except ConfigurationError as error:
        raise CommandError(str(error)) from error
    said = read_policy(policy, steps_declared(detectors)) if policy is not None else None
    if said is not None and said.untried:
        complain(
            f"--policy {policy}: {', '.join(said.untried)}: not tried; a recording has no turns and times for that"
        )
    if said is not None and said.profile.scope != Scope():
        complain(f"--policy {policy}: scope: tried on logs of runs alone; other recordings do not say what calls touch")
    try:
        chosen = profile_named(profile) if profile is not None else None
    except ConfigurationError as error:
        raise CommandError(f"--profile: {error}") from error
    return settings_with(detectors, chosen, said, split(poll), split(stable))


def standard_of(settings: Settings) -> Settings:
    """The settings that a policy is compared with: the default profile, for tools of which nothing is said."""
    return Settings(profile=PROFILES["default"], profiles=PROFILES, extra=as_declared(settings.extra))
