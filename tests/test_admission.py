"""Admission: from what the model wrote to a call that may run, or to its one result; whatever guards and tools do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Effect, Tool, reads, tool, writes
from watchkeeper.admission import Admission, Slot
from watchkeeper.budget import Budget
from watchkeeper.guards.guard import Decision, Proposal, Refuse, Reuse, Wait
from watchkeeper.messages import Call, Result
from watchkeeper.tools import WRITES
from watchkeeper.wording import Wording


@tool(effect=lambda path, page=1: reads(path), loop_key=["path"])
def read(path: str, page: int = 1) -> str:
    """Read."""
    return path


@tool(effect=lambda path: writes(path))
def write(path: str) -> str:
    """Write."""
    return path


def _effect(path: str) -> Effect:
    raise KeyError(path)


@tool(effect=_effect)
def odd(path: str) -> str:
    """Have an effect that nobody can tell."""
    return path


TOOLS: dict[str, Tool] = {one.name: one for one in (read, write, odd)}


class Guard:
    """Answers as it is told, and keeps what it was asked."""

    def __init__(self, answer: Any = None, name: str = "guard") -> None:
        self.name = name
        self.answer = answer
        self.asked: list[Proposal] = []
        self.folds: dict[Any, Any] = {}

    def call(self, proposal: Proposal) -> Decision | None:
        self.asked.append(proposal)
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: Decision | None = self.answer
        return answer


def consider(
    name: str = "read",
    arguments: str = '{"path": "a"}',
    *guards: Guard,
    writers_alone: bool = False,
    tools_off: bool = False,
    budget: Budget | None = None,
) -> tuple[Slot | None, Result | None]:
    admission = Admission(TOOLS, guards, Wording(), budget or Budget(), writers_alone=writers_alone)  # type: ignore[arg-type]
    return admission.consider(Call("c1", name, arguments, 2), 7, 5.0, tools_off=tools_off)


def admitted(*args: Any, **more: Any) -> Slot:
    slot, result = consider(*args, **more)
    assert result is None
    assert slot is not None
    return slot


def answered(*args: Any, **more: Any) -> Result:
    _, result = consider(*args, **more)
    assert result is not None
    assert (result.call_id, result.productive and result.kind != "finished") == ("c1", False)
    return result


def test_a_call_that_may_run() -> None:
    slot = admitted("read", '{"path": "a", "page": "2"}')
    assert (slot.call_id, slot.tool, slot.turn, slot.slot, slot.t) == ("c1", read, 7, 2, 5.0)
    assert slot.values == {"path": "a", "page": 2}
    assert slot.arguments == b'{"path":"a","page":2}'
    assert slot.effect == reads("a")
    assert slot.not_before == 0


def test_the_arguments_can_be_had_untouched() -> None:
    slot = admitted("read", '{"path": "a"}')
    slot.values["path"] = "changed by a guard"
    assert slot.fresh_values() == {"path": "a", "page": 1}
    assert slot.fresh_values() is not slot.fresh_values()


def test_what_detection_compares_is_not_what_stands_for_the_call() -> None:
    one, other = (admitted("read", f'{{"path": "a", "page": {page}}}') for page in (1, 2))
    assert one.key == other.key
    assert one.identity != other.identity
    same = admitted("write")
    assert same.key == same.identity


def test_a_name_that_means_one_tool_is_taken_for_it() -> None:
    """NAME-02"""
    assert admitted("functions.read").tool is read


def test_an_unknown_tool_is_answered_with_the_list() -> None:
    """NAME-01"""
    result = answered("raed")
    assert (result.kind, result.error, result.by) == ("refused", "unknown_tool", "unknown_tool")
    assert "The tools are: read," in result.content
    assert result.tool == "raed"
    assert len(answered("x" * 10_000).tool) == 80


def test_arguments_that_do_not_fit_are_answered_with_the_schema() -> None:
    result = answered("read", '{"page": "x"}')
    assert (result.kind, result.error, result.by, result.tool) == ("refused", "bad_arguments", "arguments", "read")
    assert "path: missing" in result.content
    assert '"page":{"type":"integer","default":1}' in result.content


def test_an_effect_that_nobody_can_tell_is_everything() -> None:
    assert admitted("odd").effect == WRITES


def test_where_writers_run_alone_they_write_everything() -> None:
    assert admitted("write", writers_alone=True).effect == WRITES
    assert admitted("write").effect == writes("a")
    assert admitted("read", writers_alone=True).effect == reads("a")


def test_when_tools_are_off_nothing_is_looked_at() -> None:
    """TCHO-01"""
    guard = Guard()
    result = answered("made up", "{", guard, tools_off=True)
    assert (result.kind, result.error) == ("refused", "tools_off")
    assert guard.asked == []


def test_a_call_over_the_limit_is_not_run_and_named() -> None:
    """PARL-05"""
    budget = Budget(calls=1)
    assert admitted("read", '{"path": "a"}', budget=budget).tool is read
    slot, result = consider("read", '{"path": "a"}', budget=budget)
    assert slot is not None
    assert result is not None
    assert (result.kind, result.error, result.by) == ("not_run", "too_many_calls", "calls")
    assert "the limit of 1 call of the run is reached" in result.content
    assert budget.spent == {"calls": 1}


def test_the_budget_is_asked_last_so_that_what_does_not_run_costs_nothing() -> None:
    budget = Budget(calls=1)
    for guard in (Guard(Refuse("no", "because")), Guard(Reuse("known", "c0", True)), Guard(ValueError("broken"))):
        answered("read", '{"path": "a"}', guard, budget=budget)
    answered("raed", budget=budget)
    answered("read", "{}", budget=budget)
    answered("read", tools_off=True, budget=budget)
    assert budget.spent == {}
    admitted("read", budget=budget)
    used_up = answered("read", '{"path": "a"}', Guard(Reuse("known", "c0", True)), budget=budget)
    assert (used_up.kind, used_up.content) == ("finished", "known")


# -- guards ---------------------------------------------------------------------------------------------------------


def test_guards_are_asked_in_order_and_the_first_that_decides_wins() -> None:
    first, second, third = Guard(), Guard(Refuse("no", "because"), "second"), Guard(Refuse("never", "because"))
    result = answered("read", '{"path": "a"}', first, second, third)
    assert (result.kind, result.content, result.error, result.by) == ("refused", "no", "because", "second")
    assert (len(first.asked), len(second.asked), len(third.asked)) == (1, 1, 0)
    assert first.asked[0].values == {"path": "a", "page": 1}


def test_a_denial_is_a_denial() -> None:
    result = answered("read", '{"path": "a"}', Guard(Refuse("no", "denied", "denied"), "policy"))
    assert (result.kind, result.by) == ("denied", "policy")


@pytest.mark.parametrize("productive", [True, False])
def test_an_answer_from_memory_names_the_call_it_is_from(productive: bool) -> None:
    result = answered("read", '{"path": "a"}', Guard(Reuse("as before", "c0", productive), "duplicate"))
    assert (result.kind, result.content, result.reused_from, result.by) == ("finished", "as before", "c0", "duplicate")
    assert result.productive is productive


def test_a_wait_lets_the_others_decide() -> None:
    last = Guard()
    slot = admitted("read", '{"path": "a"}', Guard(Wait(0.5)), Guard(Wait(0.2)), last)
    assert slot.not_before == 5.5
    assert len(last.asked) == 1
    assert answered("read", '{"path": "a"}', Guard(Wait(0.5)), Guard(Refuse("no", "x"))).content == "no"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (RuntimeError("a defect"), "RuntimeError"),
        (True, "it answered with a bool"),
        (False, "it answered with a bool"),
        ("no", "it answered with a str"),
    ],
)
def test_what_is_broken_lets_nothing_pass(answer: Any, why: str) -> None:
    result = answered("read", '{"path": "a"}', Guard(answer, "mine"), Guard())
    assert (result.kind, result.error, result.by) == ("refused", "guard_failed", "mine")
    assert f"the guard mine failed ({why})" in result.content
    assert "a defect" not in result.content


@given(
    st.text(max_size=90) | st.sampled_from(["read", "functions.write", "odd"]),
    st.text() | st.sampled_from(['{"path": "a"}', '{"path": 1}', "{}", "[", '{"path": "\\ud800"}']),
    st.sampled_from([None, Wait(1), Refuse("no", "x"), Reuse("as before", "c0", True), ValueError("x"), 5]),
    st.booleans(),
    st.none() | st.integers(0, 1),
)
def test_each_call_runs_or_has_its_one_result(
    name: str, arguments: str, answer: Any, tools_off: bool, calls: int | None
) -> None:
    """It never raises, and what the model made up is in bounds."""
    slot, result = consider(name, arguments, Guard(answer), tools_off=tools_off, budget=Budget(calls=calls))
    assert slot is not None or result is not None
    if result is not None:
        assert result.call_id == "c1"
        assert result.content
        assert len(result.tool) <= 80
        assert result.kind in ("refused", "denied", "finished", "not_run")
