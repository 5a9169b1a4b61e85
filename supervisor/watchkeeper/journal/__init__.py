"""Engines behind the port (``engine.py``): where runs outlive the process that executes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOMES = {"MemoryEngine": "memory", "SqliteEngine": "sqlite"}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from .memory import MemoryEngine as MemoryEngine
    from .sqlite import SqliteEngine as SqliteEngine


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value
