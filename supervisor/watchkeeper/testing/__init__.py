"""What one needs to test agents under supervision: virtual time, a scripted model, a strict server, trajectories."""

from __future__ import annotations

BACKENDS = ("asyncio", "trio")
