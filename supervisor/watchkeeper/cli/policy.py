"""A policy: a profile with changes, and what is said of tools, read from a TOML file.

Everything in the file must be known and of the right type; what is not is named with its key and what is allowed.
"""

from __future__ import annotations

import os
import tomllib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..configuration.given import Wrong, changed, shown, steps_given
from ..errors import ConfigurationError
from ..guards.rate import Rate
from ..guards.rule import Compiled, Rule
from ..profiles import PROFILES, Profile
from ..thresholds import Steps, Thresholds
from .declared import Declared
from .exits import CommandError
from .places import line_of

MAX_BYTES = 1 << 20
NO_DETECTORS: Mapping[str, Any] = types.MappingProxyType({})
UNTRIED = (
    "attended",
    "context",
    "limits",
    "writers_alone",
    "interval",
    "rates",
    "guard_seconds",
    "on_overrun",
    "remind_at",
    "finish_at",
    "on_stop",
    "on_limit",
    "goal_rules",
    "status_line",
    "restate_goal",
    "drift",
    "thought_alert",
    "thought_force",
)
"""What recordings cannot show the effect of: they have no turns and times, or none that would be the same."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy file says."""

    profile: Profile
    steps: dict[str, Steps] = {}
    """Of detectors of third parties, by name."""
    tools: dict[str, Declared] = {}
    untried: tuple[str, ...] = ()
    """Settings of the file that judging recordings takes no notice of."""


def read_policy(path: Path, plugged: Mapping[str, Steps | None] = NO_DETECTORS) -> Policy:
    """Read a policy file. Raises :class:`CommandError` that names the key and what is allowed.

    ::

        base = "default"              # the profile that is changed
        mode = "enforce"              # or nudge, observe
        refuse_equal = 3              # every setting of a profile, limits in [limits]
        deny = ["run_command"]

        [thresholds]                  # every threshold
        equal = [3, 5, 8]             # nudge, block and stop; "off" leaves a step out
        cycle = { stop = 6 }          # or some of them
        their_detector = [2, 4, 6]    # the steps of an installed detector, by its name

        [[rules]]                     # of which calls it speaks, and what it says: deny, ask or allow
        decision = "deny"
        tool = "write_file"
        unless = { path = "notes/*" } # or a list of such tables; "when" for calls that it speaks of
        why = "only notes may be written"

        [[rules]]                     # what a person has permitted for good: it lifts what would only ask
        decision = "allow"
        approved = true
        tool = "send_mail"
        when = { to = "*@example.com" }

        [rates.search]                # or a glob of names, in quotes
        interval = 2                  # least seconds between two calls
        calls = 10                    # and at most so many at once, then as many as fit into
        seconds = 60                  # so many seconds

        [scope]                       # what calls may read and write at all, as their effects name it
        writes = ["shared:/home/me/notes"]

        [tools.get_status]            # for recorded runs, whose tools are known by name alone
        poll = true
        loop_key = ["job"]

    ``plugged``: detectors of third parties, with the steps that they declare.
    """
    try:
        return policy_of(read_table(path), path.stem, plugged)
    except ValueError as error:
        line = line_of(path.read_text("utf-8-sig"), str(error).split(maxsplit=1)[0].rstrip(":"))
        raise CommandError(f"--policy {path}:{f'{line}:' if line else ''} {error}") from error


def read_table(path: Path) -> dict[str, Any]:
    """What a TOML file says. Raises :class:`CommandError` for what is none."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise Wrong(f"longer than {MAX_BYTES >> 20} MB, which is no policy")
        return tomllib.loads(text.decode("utf-8-sig"))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        raise CommandError(f"--policy {path}: {why}; name a TOML file that can be read") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"--policy {path}: not text in UTF-8: {error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CommandError(f"--policy {path}: not TOML: {error}") from error
    except (Wrong, ValueError) as error:
        raise CommandError(f"--policy {path}: {error}") from error


def policy_of(
    table: Mapping[str, Any], name: str = "policy", plugged: Mapping[str, Steps | None] = NO_DETECTORS
) -> Policy:
    """The policy that a table says. Raises ``ValueError`` for what cannot be taken."""
    given = dict(table)
    base = given.pop("base", "default")
    if not isinstance(base, str) or base not in PROFILES:
        raise ValueError(f"base must be one of {', '.join(sorted(PROFILES))}, not {shown(base)}")
    tools = given.pop("tools", {})
    rules, rates = given.pop("rules", []), given.pop("rates", {})
    try:
        thresholds, steps = _thresholds(PROFILES[base].thresholds, given.pop("thresholds", {}), plugged)
        profile = changed(PROFILES[base], {"name": name, **given}, "", ("base", "tools"))
        profile = msgspec.structs.replace(
            profile, rules=(*profile.rules, *_rules(rules)), rates={**profile.rates, **_rates(rates)}
        )
        return Policy(
            profile=msgspec.structs.replace(profile, thresholds=thresholds),
            steps=steps,
            tools=_tools(tools),
            untried=tuple(field for field in UNTRIED if field in table),
        )
    except Wrong as error:
        raise ValueError(str(error)) from None


def _thresholds(
    before: Thresholds, given: Any, plugged: Mapping[str, Steps | None]
) -> tuple[Thresholds, dict[str, Steps]]:
    """Ours, and the steps of detectors of third parties. Where one declares none, it climbs by those of ``equal``."""
    if not isinstance(given, dict):
        raise Wrong(f"thresholds must be a table ([thresholds]), not {shown(given)}")
    theirs = [name for name in plugged if name not in Thresholds.__struct_fields__]
    ours = {name: value for name, value in given.items() if name not in theirs}
    found: Thresholds = changed(before, ours, "thresholds", tuple(theirs))
    said = [name for name in theirs if name in given]
    return found, {name: steps_given(plugged[name] or found.equal, given[name], f"thresholds.{name}") for name in said}


def _rules(given: Any) -> list[Rule]:
    if not isinstance(given, list):
        raise Wrong(f"rules must be tables ([[rules]]), not {shown(given)}")
    return [_rule(said, f"rules[{place}]") for place, said in enumerate(given)]


def _rule(given: Any, where: str) -> Rule:
    if not isinstance(given, dict):
        raise Wrong(f"{where} must be a table ([[rules]]), not {shown(given)}")
    if "decision" not in given:
        raise Wrong(f'{where} has no decision; say decision = "deny", "ask" or "allow"')
    said = {
        key: [value] if key in ("when", "unless") and isinstance(value, dict) else value for key, value in given.items()
    }
    try:
        rule: Rule = changed(Rule("deny"), said, where)
        Compiled(rule)
    except ConfigurationError as error:
        raise Wrong(f"{where}: {error}") from None
    return rule


def _rates(given: Any) -> dict[str, Rate]:
    if not isinstance(given, dict):
        raise Wrong(f"rates must be tables ([rates.NAME]), not {shown(given)}")
    found = {}
    for name, said in given.items():
        where = f"rates.{name}"
        if not isinstance(said, dict) or not said.keys() & {"interval", "calls"}:
            example = f"[{where}] with interval = 2, or calls = 10 and seconds = 60"
            raise Wrong(f"{where} must be a table ({example}), not {shown(said)}")
        try:
            rate = changed(Rate(interval=1.0), said, where)
            found[name] = rate if "interval" in said else msgspec.structs.replace(rate, interval=None)
        except ConfigurationError as error:
            raise Wrong(f"{where}: {error}") from None
    return found


def _tools(given: Any) -> dict[str, Declared]:
    if not isinstance(given, dict):
        raise Wrong(f"tools must be tables ([tools.NAME]), not {shown(given)}")
    found = {}
    for name, said in given.items():
        where = f"tools.{name}"
        if not isinstance(said, dict):
            raise Wrong(f"{where} must be a table ([{where}]), not {shown(said)}")
        fields = ("loop_key", "result_key")
        found[name] = changed(
            Declared(),
            {key: [value] if key in fields and isinstance(value, str) else value for key, value in said.items()},
            where,
        )
    return found
