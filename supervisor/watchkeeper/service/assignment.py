"""What the control process gives to a worker on its command line, and where both read the configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from ..configuration import Configuration


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """Where the configuration comes from: files, the environment, and what the command line says."""

    config: tuple[str, ...] = ()
    overrides: dict[str, Any] = {}

    def load(self) -> Configuration:
        """Read it, also anew. Raises :class:`.configuration.ConfigurationProblems`."""
        from ..configuration import load

        return load([Path(path) for path in self.config], os.environ, self.overrides)


class Assignment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One worker: its name, which is that of its file, and how it works."""

    name: str
    folder: str
    given: Given = Given()
    backend: Literal["asyncio", "trio"] = "asyncio"
    max_runs: int = 1000
    drain: float = 30.0
    share: float = 1.0
    """Its part of what all journals together may take of the disk."""
