"""What is made up around the runs: workers, the rules of agents, and tokens that can be made and taken back."""

from __future__ import annotations

from typing import Any

import msgspec

from service.made_up import HOSTILE
from watchkeeper.engine import BudgetStanding
from watchkeeper.guards.rate import Rate
from watchkeeper.guards.rule import Rule
from watchkeeper.guards.scope import Scope
from watchkeeper.profiles import PROFILES, Limits
from watchkeeper.service.control import WorkerStatus
from watchkeeper.service.rulebook import AgentRules, settings_of

STRICT = msgspec.structs.replace(
    PROFILES["production"],
    name="strict",
    mode="nudge",
    limits=Limits(max_turns=40, money=2.5, calls_per_tool={"search": 12}),
    deny=("run_command",),
    otherwise="ask",
    observe=("rate",),
    interval=1.0,
    refuse_equal=3,
    scope=Scope(reads=("shared:/srv/notes",), writes=("shared:/srv/notes/drafts",)),
    rates={"search": Rate(interval=2.0, calls=10)},
    rules=(
        Rule("allow", "read_*"),
        Rule("ask", "send_mail", unless=({"to": "*@example.com"},), why="mail to strangers is looked at first"),
        Rule("deny", "write_file", when=({"path": "*.env"}, {"path": "secrets/*"}), why="no secrets in files"),
        Rule("allow", "git", when=({"argv": ("git", "log", "**")},), approved=True),
    ),
)
MADE = "wk_" + "m" * 43


def workers(now: float) -> dict[str, Any]:
    stack = 'File "app/tools.py", line 41, in parse\n    re.match(pattern, text)'
    return {
        "workers": [
            WorkerStatus(name="w1", pid=4120, state="running", runs=7, since=now - 8000, restarts=0, stack=""),
            WorkerStatus(name="w2", pid=4121, state="blocked", runs=2, since=now - 300, restarts=2, stack=stack),
        ]
    }


def policies() -> dict[str, Any]:
    strict, plain = settings_of(STRICT), settings_of(PROFILES["default"])
    broken = "the rules of auditor cannot be read; watchkeeper config check says what is wrong, and where"
    hostile = settings_of(msgspec.structs.replace(PROFILES["default"], rules=(Rule("deny", HOSTILE, why=HOSTILE),)))
    return {
        "agents": [
            AgentRules(agent="auditor", source="file", profile="", problem=broken),
            AgentRules(agent="coder", source="file", profile="production", tools=("files", "http"),
                       require=("read_file",), settings=strict, detectors={"off_topic": [2, 4, 6]}),
            AgentRules(agent="researcher", source="profile", profile="default", tools=("http",), settings=plain),
            AgentRules(agent=HOSTILE, source="policy", profile="default", settings=hostile),
        ],
        "policies": {name: settings_of(profile) for name, profile in PROFILES.items()},
    }  # fmt: skip


BUDGETS = [
    BudgetStanding("night", {"money": 50.0, "calls": 10_000.0}, {"money": 12.5, "calls": 9_000.0}),
    BudgetStanding(HOSTILE, {HOSTILE: 3.0}, {HOSTILE: -1.0}),
]


class Tokens:
    """By name: the scopes of each."""

    def __init__(self) -> None:
        self.kept = {"ci": ["run"], "dashboard": ["read"], "desk": ["admin"], "on-call": ["run", "approve"]}

    def listed(self) -> dict[str, Any]:
        made = 1_790_000_000.0
        return {"tokens": [{"name": name, "scopes": scopes, "created": made} for name, scopes in self.kept.items()]}

    def make(self, name: str, scopes: list[str]) -> dict[str, Any] | None:
        """None if there is one of that name."""
        if name in self.kept:
            return None
        self.kept[name] = scopes
        return {"name": name, "scopes": scopes, "created": 1_790_000_000.0, "token": MADE}
