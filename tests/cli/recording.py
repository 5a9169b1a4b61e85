"""What the tests of replay share: recorded runs as they come from elsewhere, and logs of our own."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def step(tool: str = "look", args: Any = None, result: str = "same", **more: Any) -> dict[str, Any]:
    """One step of a recorded run."""
    whole = {"result_sha256": hashlib.sha256(result.encode()).hexdigest(), "result_len": len(result)}
    return {"kind": "call", "tool": tool, "args": args or {}, "result": result, "error": False, **whole, **more}


def recorded(*steps: dict[str, Any], run: str = "run-1", outcome: str = "fail", **more: Any) -> dict[str, Any]:
    steps = tuple({"call_id": f"c{i}", **one} for i, one in enumerate(steps))
    return {"id": run, "outcome": outcome, "task": "t", "model": "m", "label": None, "steps": list(steps), **more}


def write(path: Path, lines: Iterable[dict[str, Any] | str | bytes]) -> Path:
    """A file of JSON Lines, gzipped if its name says so; text and bytes as they are."""
    raw = b"".join(
        one if isinstance(one, bytes) else (one if isinstance(one, str) else json.dumps(one) + "\n").encode()
        for one in lines
    )
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path
