"""Data scopes: what a call may read and write at all, by what its tool declares."""

from __future__ import annotations

from typing import Any

import pytest
from asked import WORDING, Asked, is_guard

from watchkeeper import Effect, reads, tool, writes
from watchkeeper.guards.guard import Refuse
from watchkeeper.guards.scope import Scope, Scoped


@tool(effect=lambda name, **_: reads(name))
def look(name: str) -> str:
    """Look."""
    return name


@tool(effect=lambda name, **_: writes(name))
def save(name: str) -> str:
    """Save."""
    return name


@tool(effect=lambda source, target: Effect((source,), (target,)))
def copy(source: str, target: str) -> str:
    """Copy."""
    return source


@tool
def undeclared() -> str:
    """It may do anything."""
    return ""


@tool(effect="nothing")
def think() -> str:
    """It touches nothing."""
    return ""


def passes(scope: Scope | list[Scope], asked: Any, **values: Any) -> bool:
    decision = Asked(Scoped([scope] if isinstance(scope, Scope) else scope, WORDING)).ask(asked, **values)
    assert decision is None or (isinstance(decision, Refuse) and decision.kind == "denied")
    return decision is None


NOTES = Scope(reads=("docs",), writes=("notes", "shared:/data/out"))


@pytest.mark.parametrize(
    ("name", "read", "written"),
    [
        ("docs", True, False),
        ("docs/a/b", True, False),
        ("notes/a", True, True),
        ("shared:/data/out/x", True, True),
        ("shared:/data", False, False),
        ("data/out", False, False),
        ("documents", False, False),
        ("doc", False, False),
        ("notes/../src", False, False),
        ("", False, False),
        ("src", False, False),
    ],
)
def test_what_is_under_a_name_is_in_it(name: str, read: bool, written: bool) -> None:
    assert passes(NOTES, look, name=name) is read
    assert passes(NOTES, save, name=name) is written


def test_both_sides_of_an_effect_count() -> None:
    assert passes(NOTES, copy, source="docs/a", target="notes/a")
    assert not passes(NOTES, copy, source="src/a", target="notes/a")
    assert not passes(NOTES, copy, source="docs/a", target="docs/b")


def test_what_declares_nothing_goes_beyond_any() -> None:
    assert not passes(NOTES, undeclared)
    assert not passes(Scope(writes=("x",)), undeclared)
    assert passes(NOTES, think)
    assert passes(Scope(reads=("x",)), undeclared)  # nothing is said of writing


def test_none_is_no_limit_and_empty_is_nothing() -> None:
    assert passes(Scope(), undeclared)
    assert passes(Scope(writes=()), look, name="anything")
    assert not passes(Scope(writes=()), save, name="anything")
    assert not passes(Scope(reads=()), look, name="anything")


def test_each_of_several_must_hold() -> None:
    both = [NOTES, Scope(writes=("notes/mine",))]
    assert passes(both, save, name="notes/mine/a")
    assert not passes(both, save, name="notes/a")


def test_the_refusal_names_what_was_beyond() -> None:
    guard = Scoped([NOTES], WORDING)
    assert is_guard(guard)
    refused = Asked(guard).ask(save, name="src/a")
    assert isinstance(refused, Refuse)
    assert refused.error == "out_of_scope"
    assert "would write src/a, which is outside of what this run may write" in refused.message
