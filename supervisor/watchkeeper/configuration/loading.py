"""One checked configuration of all sources, and everything that is wrong with them, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ConfigurationError
from ..profiles import COUNTED, Limits
from ..redaction import Redaction
from .given import Wrong, changed, meant, shown
from .schema import PATHS, AgentSettings, Configuration, LogSettings, OtelSettings, ServiceSettings
from .sources import Source, Unreadable, from_command_line, from_environment, from_file

SECTIONS = tuple(name for name in Configuration.__struct_fields__ if name != "origins")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Names of agents, and of shared budgets."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/]+):(\d{1,5})")
_REDACTION = Redaction()


class ConfigurationProblems(ConfigurationError):
    """Raised for a configuration that cannot be taken. ``problems`` has a line for each thing that is wrong: the place
    (``FILE:LINE`` or the variable), the key, and what is allowed. ``rest`` is what is right of it, without agents of
    which anything is wrong: for whoever looks on for more."""

    def __init__(self, problems: Iterable[str], rest: Configuration | None = None) -> None:
        self.rest = rest or Configuration()
        # A key that was put where a name belongs is not repeated in a message.
        self.problems = tuple(_REDACTION.text(problem) for problem in problems)
        super().__init__("\n".join(self.problems))


def load(
    paths: Iterable[Path] = (), environ: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
) -> Configuration:
    """What files, environment and command line say; each has the last word over those before it.

    ``paths``: TOML files (``files_of(environ)`` are those to read where none is named). ``environ``: variables, of
    which those that begin with ``WATCHKEEPER_`` are settings. ``overrides``: values by dotted key, such as
    ``{"service.workers": 4}``; None is not given. Reads the files and nothing else; policies, tool sets and keys are
    looked at where an agent is made (:func:`.agents.agent_of`).

    Raises :class:`ConfigurationProblems` with all that is wrong.
    """
    building = _Building()
    for path in paths:
        try:
            building.take(from_file(path))
        except Unreadable as error:
            building.problems.append(str(error))
    sources, problems = from_environment(environ or {}, building.agents)
    building.problems += problems
    for source in (*sources, *from_command_line(overrides or {})):
        building.take(source)
    return building.done()


class _Building:
    """The settings so far."""

    def __init__(self) -> None:
        self.sections: dict[str, Any] = {"service": ServiceSettings(), "log": LogSettings(), "otel": OtelSettings()}
        self.limits: dict[str, Any] = {}
        self.budgets: dict[str, dict[str, Any]] = {}
        self.agents: dict[str, AgentSettings] = {}
        self.policy: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.problems: list[str] = []
        self.doubtful: set[str] = set()
        """Keys of which something is wrong."""

    def take(self, source: Source) -> None:
        for section, table in source.table.items():
            if section not in SECTIONS:
                self._wrong(
                    source, section, f"{section} is unknown{meant(section, SECTIONS)}; sections are {_listed()}"
                )
            elif not isinstance(table, dict):
                self._wrong(source, section, f"{section} must be a table ([{section}]), not {shown(table)}")
            elif section == "limits":
                self.limits = self._limits(source, section, self.limits, table)
            elif section == "budgets":
                self._budgets(source, table)
            elif section == "agents":
                self._agents(source, table)
            elif section == "policy":
                self._policy(source, table)
            else:
                self.sections[section] = self._struct(source, section, self.sections[section], table)

    def done(self) -> Configuration:
        """Raises :class:`ConfigurationProblems`."""
        self.problems += self._doubts()
        if not self.problems:
            return self._configuration(self.agents)
        wrong = {".".join(key.split(".")[:2]) for key in self.doubtful}
        sound = {name: agent for name, agent in self.agents.items() if f"agents.{name}" not in wrong}
        raise ConfigurationProblems(self.problems, self._configuration(sound))

    def _configuration(self, agents: dict[str, AgentSettings]) -> Configuration:
        return Configuration(
            limits=self.limits,
            budgets=self.budgets,
            agents=agents,
            policy=self.policy,
            origins=self.origins,
            **self.sections,
        )

    def _struct(self, source: Source, path: str, before: Any, table: dict[str, Any]) -> Any:
        for key, value in table.items():
            nested = getattr(before, key, None)
            if isinstance(nested, msgspec.Struct) and isinstance(value, dict):
                nested = self._struct(source, f"{path}.{key}", nested, value)
                before = msgspec.structs.replace(before, **{key: nested})
                continue
            try:
                before = changed(before, {key: value}, path)
            except Wrong as error:
                self._wrong(source, _key_in(error), str(error))
                continue
            self.origins[f"{path}.{key}"] = source.place(f"{path}.{key}")
            if (key if path.startswith("agents.") else f"{path}.{key}") in PATHS and getattr(before, key):
                before = msgspec.structs.replace(before, **{key: _within(source, getattr(before, key))})
        return before

    def _limits(self, source: Source, path: str, before: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
        found = dict(before)
        for key, value in table.items():
            try:
                found[key] = getattr(changed(Limits(), {key: value}, path), key)
            except Wrong as error:
                self._wrong(source, _key_in(error), str(error))
            else:
                self.origins[f"{path}.{key}"] = source.place(f"{path}.{key}")
        return found

    def _is_named_table(self, source: Source, path: str, name: str, said: Any, what: str) -> bool:
        if not _NAME.fullmatch(name):
            rule = f"{what} is named by at most 64 letters, digits, '_' and '-', and does not begin with a sign"
            self._wrong(source, path, f"{path.partition('.')[0]}: {shown(name)} is no name; {rule}")
        elif not isinstance(said, dict):
            self._wrong(source, path, f"{path} must be a table ([{path}]), not {shown(said)}")
        else:
            return True
        return False

    def _budgets(self, source: Source, table: dict[str, Any]) -> None:
        for name, said in table.items():
            path = f"budgets.{name}"
            if self._is_named_table(source, path, name, said, "a budget"):
                for key in said.keys() - {*COUNTED}:
                    told = f"{path}.{key} is nothing that runs can share{meant(key, COUNTED)}; allowed here: "
                    self._wrong(source, f"{path}.{key}", told + ", ".join(COUNTED))
                counted = {key: value for key, value in said.items() if key in COUNTED}
                self.budgets[name] = self._limits(source, path, self.budgets.get(name, {}), counted)

    def _agents(self, source: Source, table: dict[str, Any]) -> None:
        for name, said in table.items():
            path = f"agents.{name}"
            if self._is_named_table(source, path, name, said, "an agent"):
                before = self.agents.get(name) or AgentSettings(root=_within(source, "."))
                own = dict(said)
                if isinstance(limits := own.get("limits"), dict):
                    del own["limits"]
                    limits = self._limits(source, f"{path}.limits", before.limits, limits)
                    before = msgspec.structs.replace(before, limits=limits)
                self.agents[name] = self._struct(source, path, before, own)

    def _policy(self, source: Source, table: dict[str, Any]) -> None:
        for key, value in table.items():
            if key == "file" and not isinstance(value, str):
                self._wrong(source, "policy.file", f"policy.file must be a text, not {shown(value)}")
                continue
            self.policy[key] = _within(source, value) if key == "file" else value
            self.origins[f"policy.{key}"] = source.place(f"policy.{key}")

    def _doubts(self) -> Iterator[str]:
        """What is wrong with settings that are of the right type."""
        for one in self.sections["service"].bind:
            port = _ADDRESS.fullmatch(one)
            if not one.startswith("unix:") and not (port and 0 < int(port[1]) < 1 << 16):
                yield self._doubt(
                    "service.bind", f'{shown(one)} is no address; say "unix:", "unix:PATH" or "HOST:PORT"'
                )
        if not self.sections["service"].bind:
            yield self._doubt("service.bind", 'names no address: nobody could ask the service; say "unix:"')
        if "file" in self.policy and len(self.policy) > 1:
            others = ", ".join(sorted(self.policy.keys() - {"file"}))
            yield self._doubt("policy.file", f"excludes what else [policy] says: {others}; put that into the file")
        for name, agent in self.agents.items():
            if not _VARIABLE.fullmatch(agent.api_key_env):
                told = "must be the name of an environment variable, such as OPENAI_API_KEY, and not the key itself"
                yield self._doubt(f"agents.{name}.api_key_env", told)
            if agent.profile and agent.policy:
                told = 'excludes profile; a policy names its profile: base = "default"'
                yield self._doubt(f"agents.{name}.policy", told)

    def _doubt(self, key: str, told: str) -> str:
        self.doubtful.add(key)
        return f"{self.origins.get(key, 'the defaults')}: {key} {told}"

    def _wrong(self, source: Source, key: str, told: str) -> None:
        self.doubtful.add(key)
        self.problems.append(f"{source.place(key)}: {told}")


def _key_in(error: Wrong) -> str:
    return str(error).split(maxsplit=1)[0].rstrip(":")


def _within(source: Source, path: str) -> str:
    """The path, relative to the folder of its source; ``~`` is the home."""
    given = Path(path).expanduser()
    return str(source.folder / given) if source.folder is not None else str(given)


def _listed() -> str:
    return ", ".join(SECTIONS)
