"""Engines behind the port (``engine.py``): where runs outlive the process that executes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazily import loading

_HOMES = {"MemoryEngine": "memory", "SqliteEngine": "sqlite"}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from .memory import MemoryEngine as MemoryEngine
    from .sqlite import SqliteEngine as SqliteEngine

__getattr__ = loading(__name__, _HOMES)
