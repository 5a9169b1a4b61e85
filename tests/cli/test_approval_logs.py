"""Logs of runs whose calls needed approval, judged anew under rules that ask: what was permitted then is let pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from recording import write

from support import perform, scripted
from watchkeeper import Agent, Profile, tool
from watchkeeper.cli import main
from watchkeeper.guards.rule import Rule
from watchkeeper.messages import ApprovalRequested, ApprovalResolved, encode_event
from watchkeeper.testing import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="writes")
async def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


@pytest.mark.parametrize(
    ("answers", "known", "blocked_at", "saved"),
    [
        ([True, True], True, None, 0),
        ([True, False], True, 1, 0),
        ([True, True], False, 0, 2),  # the same, had nobody been there
    ],
)
async def test_what_was_permitted_passes_and_what_was_not_does_not(
    answers: list[bool],
    known: bool,
    blocked_at: int | None,
    saved: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = iter(answers)
    profile = Profile(rules=(Rule("ask", "send"),))
    model = scripted(call(("send", {"to": "a"})), call(("send", {"to": "b"})), say("Done."))
    _, events = await perform(Agent(model, [send], profile=profile), approver=lambda approval: next(said))
    kept = [event for event in events if known or not isinstance(event, ApprovalRequested | ApprovalResolved)]
    numbered = [msgspec.structs.replace(event, n=n) for n, event in enumerate(kept, 1)]
    file = write(tmp_path / "log.jsonl", [encode_event(event) + b"\n" for event in numbered])
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\ndecision = "ask"\ntool = "send"\n')
    capsys.readouterr()
    assert main(["replay", "--json", str(file), "--policy", str(policy)]) == 0
    row: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (row["calls"], row["blocked_at"], row["calls_saved"]) == (2, blocked_at, saved)
