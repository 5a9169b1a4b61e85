"""The configuration: TOML files, the environment and the command line, put into one checked whole.

``load`` is where to begin; :mod:`.schema` has every key with its default.
"""

from __future__ import annotations

from .loading import ConfigurationProblems, load
from .schema import AgentSettings, Configuration, LogSettings, OtelSettings, Retention, ServiceSettings
from .sources import files_of

__all__ = [
    "AgentSettings",
    "Configuration",
    "ConfigurationProblems",
    "LogSettings",
    "OtelSettings",
    "Retention",
    "ServiceSettings",
    "files_of",
    "load",
]
