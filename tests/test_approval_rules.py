"""The core of approvals: what resolves one, what a grant covers, and grants as rules of a policy file."""

from __future__ import annotations

import hashlib
import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import ApprovalError, Redaction, tool
from watchkeeper.approvals import REMEMBERED, Approvals, Pending
from watchkeeper.arguments import Parsed, parse
from watchkeeper.cli.policy import policy_of
from watchkeeper.guards.grants import KEPT, Grant, Grants, exact_rule, toml_of
from watchkeeper.guards.guard import Ask
from watchkeeper.guards.rule import Compiled
from watchkeeper.messages import ApprovalRequested, ApprovalResolved


@tool
def act(path: str, lines: list[str] = [], n: int | None = None, deep: dict[str, int] = {}) -> str:  # noqa: B006
    """Act."""
    return path


class Desk:
    """The approvals of a run, and the facts that they write."""

    def __init__(self, always: Grants | None = None) -> None:
        self.facts: list[tuple[type[Any], dict[str, Any]]] = []
        self.always = always if always is not None else Grants()
        self.ids = 0
        self.approvals = Approvals(
            "r1",
            "agent",
            "task",
            lambda kind, **fields: self.facts.append((kind, fields)),
            always=self.always,
            seconds=60.0,
            clock=lambda: 5.0,
            new_id=self._new_id,
            somebody=lambda: True,
        )

    def _new_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}{self.ids}"

    def ask(self, once: bool = False, why: str = "why", **values: Any) -> Pending | None:
        """Ask about a call, unless it has been permitted before."""
        parsed = parsed_of(values)
        asked = self.approvals.considered(act, parsed.canonical, parsed.values, [("policy", Ask(why, once))])
        if not asked.left:
            return None
        return self.approvals.request("c1", act, parsed.canonical, parsed.values, asked.left, 1)

    def asked(self, **values: Any) -> Pending:
        pending = self.ask(**values)
        assert pending is not None
        return pending

    def of(self, kind: type[Any]) -> list[dict[str, Any]]:
        return [fields for fact, fields in self.facts if fact is kind]


def parsed_of(values: dict[str, Any]) -> Parsed:
    parsed = parse(act, msgspec.json.encode(values).decode())
    assert isinstance(parsed, Parsed)
    return parsed


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "yes", "wrong", "no", "expire", "cancel", "again"]),
        st.sampled_from(["once", "run", "always"]),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_is_resolved_once_and_runs_only_on_a_yes_to_its_own_bytes(steps: list[tuple[str, Any, int]]) -> None:
    desk = Desk()
    made: list[Pending] = []
    said_yes: set[str] = set()
    granted: set[str] = set()
    for what, scope, number in steps:
        pending = made[number % len(made)] if made else None
        if what == "ask":
            found = desk.ask(path=f"p{number}")
            key = hashlib.sha256(parsed_of({"path": f"p{number}"}).canonical).hexdigest()
            assert (found is None) == (key in granted)
            if found is not None:
                made.append(found)
        elif what == "cancel":
            desk.approvals.cancel("enough")
        elif pending is not None:
            one, is_open = pending.approval, pending.resolution is None
            hash_ = one.arguments_hash if what in ("yes", "again") else hashlib.sha256(b"{}").hexdigest()
            try:
                if what == "no":
                    desk.approvals.deny(one.id)
                elif what == "expire":
                    desk.approvals.expire(pending, "timed_out")
                    continue
                else:
                    desk.approvals.approve(one.id, hash_, scope)
                    said_yes.add(one.id)
                    if scope != "once":
                        granted.add(one.arguments_hash)
                assert is_open
                assert what != "wrong"
            except ApprovalError:
                assert not is_open or what == "wrong"
    asked, resolved = desk.of(ApprovalRequested), desk.of(ApprovalResolved)
    assert len({fact["approval"] for fact in resolved}) == len(resolved)
    assert {fact["approval"] for fact in resolved} == {fact["approval"] for fact in asked} - set(desk.approvals.pending)
    for pending in made:
        resolution = pending.resolution
        assert (resolution is None) == (pending.approval.id in desk.approvals.pending)
        if resolution is not None and resolution.permits:
            assert pending.approval.id in said_yes or pending.approval.arguments_hash in granted


def test_an_earlier_yes_is_said_of_what_runs_on_it() -> None:
    desk = Desk()
    pending = desk.asked(path="a")
    desk.approvals.approve(pending.approval.id, pending.approval.arguments_hash, "run")
    parsed = parsed_of({"path": "a"})
    asked = desk.approvals.considered(act, parsed.canonical, parsed.values, [("policy", Ask("why"))])
    assert asked.left == []
    desk.approvals.lifted(asked, "c2", "act", 4)
    last = desk.of(ApprovalResolved)[-1]
    assert (last["approval"], last["call_id"], last["slot"], last["how"], last["by"]) == (
        pending.approval.id,
        "c2",
        4,
        "run",
        "earlier",
    )


def test_another_guard_or_another_reason_is_asked_all_the_same() -> None:
    desk = Desk()
    pending = desk.asked(path="a")
    desk.approvals.approve(pending.approval.id, pending.approval.arguments_hash, "always", {})
    parsed = parsed_of({"path": "b"})
    asks = [("policy", Ask("why")), ("policy", Ask("other")), ("judge", Ask("why")), ("policy", Ask("why", once=True))]
    asked = desk.approvals.considered(act, parsed.canonical, parsed.values, asks)
    assert asked.left == asks[1:]


def test_what_is_remembered_is_bounded() -> None:
    desk = Desk()
    for n in range(REMEMBERED + 10):
        desk.approvals.deny(desk.asked(path=f"{n}").approval.id)
    assert "a1" not in desk.approvals
    assert f"a{REMEMBERED + 10}" in desk.approvals
    grants = Grants()
    for n in range(KEPT + 5):
        grants.add("agent", Grant(f"a{n}", "act", "x", frozenset(), "0"))
    assert len(grants.of("agent")) == KEPT
    assert grants.of("agent")[-1].approval == f"a{KEPT + 4}"


def test_a_reason_is_bounded() -> None:
    desk = Desk()
    desk.approvals.deny(desk.asked(path="a").approval.id, "x" * 10_000)
    assert len(desk.of(ApprovalResolved)[0]["reason"]) == 500


def test_what_it_shows_of_itself_has_no_arguments() -> None:
    approval = Desk().asked(path="sk-secret").approval
    assert "sk-secret" in approval.arguments
    assert "sk-secret" not in repr(approval)
    assert Redaction().text(repr(approval)) == repr(approval)


# -- as rules ---------------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=12)
VALUES = st.fixed_dictionaries(
    {"path": TEXTS},
    optional={
        "lines": st.lists(TEXTS, max_size=3),
        "n": st.integers(-5, 5) | st.none(),
        "deep": st.dictionaries(st.text("ab", min_size=1, max_size=2), st.integers(0, 3), max_size=2),
    },
)


@given(VALUES, VALUES)
def test_a_rule_for_equal_arguments_permits_no_others(given_: dict[str, Any], other: dict[str, Any]) -> None:
    values, others = parsed_of(given_).values, parsed_of(other).values
    rule = exact_rule(act, values)
    if rule is not None:
        compiled = Compiled(rule)
        assert compiled.fits(values)
        assert compiled.fits(others) == (others == values)


@given(VALUES)
def test_it_comes_back_from_a_policy_file(given_: dict[str, Any]) -> None:
    values = parsed_of(given_).values
    rule = exact_rule(act, values)
    text = toml_of([Grant("a1", "act", "x", frozenset(), "0" * 64, rule)])
    profile = policy_of(tomllib.loads(text)).profile
    if rule is None:
        assert profile.rules == ()
        assert text.startswith("# ")
    else:
        (read,) = profile.rules
        assert (read.decision, read.approved, read.tool) == ("allow", True, "act")
        assert Compiled(read).fits(values)


@pytest.mark.parametrize("path", ["a*", "what?", "a/../b", "x" * 5000])
def test_what_no_pattern_can_say_is_a_remark(path: str) -> None:
    desk = Desk()
    pending = desk.asked(path=path)
    desk.approvals.approve(pending.approval.id, pending.approval.arguments_hash, "always")
    assert desk.always.rules("agent") == ()
    assert tomllib.loads(desk.always.toml("agent")) == {}
    assert "no pattern of a rule can say" in desk.always.toml("agent")
    assert desk.ask(path=path) is None  # in memory it holds all the same
    assert desk.ask(path=path + "x") is not None


def test_grants_are_an_agents_own() -> None:
    grants = Grants()
    desk = Desk(grants)
    pending = desk.asked(path="a")
    desk.approvals.approve(pending.approval.id, pending.approval.arguments_hash, "always", {"path": "a*"})
    assert [rule.when for rule in grants.rules("agent")] == [({"path": "a*"},)]
    assert grants.toml("agent") == (
        '[[rules]]\ndecision = "allow"\napproved = true\ntool = "act"\nwhen = { "path" = "a*" }\n'
    )
    assert grants.of("another") == ()
    assert grants.toml("another") == ""
    grants.forget("agent")
    assert grants.of("agent") == ()
