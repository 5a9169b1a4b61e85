"""Engines behind the port (``engine.py``): where runs outlive the process that executes them."""

from __future__ import annotations

from .memory import MemoryEngine as MemoryEngine

__all__ = ["MemoryEngine"]
