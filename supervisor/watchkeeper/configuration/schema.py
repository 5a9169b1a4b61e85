"""What can be configured, with the default of each key. Frozen data.

Where a key may be left without a value (None), ``"off"`` says so in a file and in the environment.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..price import Price

PATHS = frozenset({"service.state", "log.file", "policy.file", "root", "policy"})
"""Keys whose value is the path of a file or folder; in a file it is relative to the folder of that file. Those without
a section are an agent's."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """``[service.retention]``: how long ended runs are kept. What comes first counts; the oldest go first."""

    days: float | None = 30.0
    """Days after the end of a run."""
    megabytes: float | None = 1024.0
    """Size of all journals together, in units of 1,000,000 bytes."""


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[service]``: the control process and its workers."""

    state: str = ""
    """The state folder. Empty: ``$XDG_STATE_HOME/watchkeeper``, or ``~/.local/state/watchkeeper``."""
    bind: tuple[str, ...] = ("unix:",)
    """Where it listens: ``unix:`` (the socket in the state folder), ``unix:PATH``, or ``HOST:PORT`` (access by token
    only)."""
    hosts: tuple[str, ...] = ()
    """Names under which browsers may call it, beside those that it is bound to."""
    workers: int = 2
    """Worker processes."""
    backend: Literal["asyncio", "trio"] = "asyncio"
    """Event loop of the workers."""
    max_runs: int = 1000
    """Runs side by side in each worker; further ones wait in the queue."""
    grace: float = 5.0
    """Seconds that a worker which is blocked, or was told to stop, gets before it is killed."""
    drain: float = 30.0
    """Seconds that turns get to end when the service drains; then their runs are suspended."""
    retention: Retention = Retention()


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[agents.NAME]``: an agent that runs may name."""

    model: str = ""
    """Name of the model. Empty: that of ``OPENAI_MODEL``."""
    base_url: str = ""
    """Its server. Empty: that of ``OPENAI_BASE_URL``, else api.openai.com."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; the key itself has no place in a file."""
    text_tools: bool = False
    """The server knows no tool calls: do them in text."""
    context_window: int | None = None
    """Tokens that the model takes, prompt and reply together."""
    cached_tokens: Literal["within", "beside"] = "within"
    """Whether the server counts cached tokens within those of the prompt, or beside them."""
    first_chunk_timeout: float | None = None
    """Seconds to the first piece of a reply; None: 90."""
    price: Price | None = None
    """Money per million tokens (``{ input = 0.3, output = 1.2 }``); None: the listed one."""
    instructions: str = ""
    """The system prompt."""
    tools: tuple[str, ...] = ()
    """Tool sets by name, such as ``["files", "http"]``."""
    root: str = "."
    """The folder that tools work in."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that the http tools may ask."""
    allow_private: bool = False
    """Such hosts may have private addresses."""
    require: tuple[str, ...] = ()
    """Tools that must have found something before an answer counts."""
    plan: bool = False
    """Plan the work first and do it step by step."""
    profile: str = ""
    """Settings of all guards by name. Empty: those of the policy, else ``default``."""
    policy: str = ""
    """A policy file of its own, in the place of ``[policy]``."""
    limits: dict[str, Any] = {}
    """What its limits are otherwise than ``[limits]`` says."""


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[log]``: log lines, one for each fact worth one."""

    format: Literal["auto", "json", "text"] = "auto"
    """``auto``: text on a terminal, else JSON."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is written."""
    file: str = ""
    """Empty: standard error."""


class OtelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[otel]``: spans and metrics by OpenTelemetry. Where they go is said by its own variables (``OTEL_…``)."""

    enabled: bool = False
    content: bool = False
    """Put what was said to and by models and tools into spans. Secrets are cut out all the same."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, checked. ``origins`` says of each key that is not at its default who has said so."""

    service: ServiceSettings = ServiceSettings()
    limits: dict[str, Any] = {}
    """``[limits]``: what the limits of all agents are otherwise than their profile or policy says; fields of
    :class:`.Limits`."""
    budgets: dict[str, dict[str, Any]] = {}
    """``[budgets.NAME]``: what a budget holds that runs share which name it; fields of :class:`.Limits` that count
    something (``profiles.COUNTED``). ``"off"`` is no limit."""
    agents: dict[str, AgentSettings] = {}
    policy: dict[str, Any] = {}
    """``[policy]``: what a policy file says, or ``file`` with the path of one; for agents that name neither a profile
    nor a policy."""
    log: LogSettings = LogSettings()
    otel: OtelSettings = OtelSettings()
    origins: dict[str, str] = {}
    """By dotted key: ``FILE:LINE``, the name of an environment variable, or ``the command line``."""
