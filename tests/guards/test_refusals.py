"""The guards that refuse: blocked by a verdict, denied by a policy, equal by count, too soon."""

from __future__ import annotations

import math
from typing import Any

import pytest
from asked import WORDING, Asked, is_guard

from watchkeeper import ConfigurationError, tool
from watchkeeper.guards.blocked import Blocked
from watchkeeper.guards.equal import REMEMBERED, RefuseEqual
from watchkeeper.guards.guard import Refuse, Wait
from watchkeeper.guards.policy import Policy
from watchkeeper.guards.rate import Rate, RateLimit
from watchkeeper.messages import Blocked as BlockedEvent


@tool(effect="reads", loop_key=["what"])
def look(what: str = "a", page: int = 1) -> str:
    """Look."""
    return what


@tool(effect="reads")
def read(what: str = "a") -> str:
    """Read."""
    return what


@tool(dangerous=True)
def remove(what: str = "a") -> str:
    """Remove."""
    return what


def refusal(run: Asked, *args: object, **values: object) -> Refuse:
    decision = run.ask(*args, **values)  # type: ignore[arg-type]
    assert isinstance(decision, Refuse)
    return decision


# -- blocked --------------------------------------------------------------------------------------------------------


def blocked(*keys: str, known: str | None = None) -> Asked:
    run = Asked(Blocked(WORDING))
    run.tell(BlockedEvent, keys=keys, by="equal", known=known)
    return run


def test_a_blocked_call_is_refused_with_what_is_known() -> None:
    run = Asked(Blocked(WORDING))
    assert is_guard(run.guard)
    assert run.ask(look) is None
    run.tell(BlockedEvent, keys=(run.propose(look).key,), by="equal", known="the answer")
    refused = refusal(run, look)
    assert (refused.error, refused.kind) == ("blocked", "refused")
    assert "This call of look is blocked" in refused.message
    assert "The outcome was: the answer" in refused.message
    assert run.ask(look, what="b") is None
    assert run.ask(read) is None


def test_a_block_is_by_what_the_tool_declares_for_detection() -> None:
    run = Asked(Blocked(WORDING))
    run.tell(BlockedEvent, keys=(run.propose(look, what="a", page=1).key,), by="equal")
    assert refusal(run, look, what="a", page=2)


def test_a_blocked_tool_is_refused_whatever_it_gets() -> None:
    run = blocked("tool:look")
    for what in "ab":
        assert "look is blocked for now" in refusal(run, look, what=what).message
    assert run.ask(remove) is None


def test_a_tool_is_free_again_when_another_one_has_found_something() -> None:
    run = blocked("tool:look")
    refusal(run, look)
    call = run.pass_by(read)
    run.end(call, productive=False)
    refusal(run, look)
    run.end(run.propose(look))  # its own success does not count: it cannot have had any
    refusal(run, look)
    run.ask(read)
    assert run.ask(look) is None


def test_a_single_call_stays_blocked_until_the_user_speaks() -> None:
    run = Asked(Blocked(WORDING))
    run.tell(BlockedEvent, keys=(run.propose(look).key, "tool:remove"), by="equal")
    run.ask(read)
    refusal(run, look)
    assert run.ask(remove) is None
    run.user()
    assert run.ask(look) is None


def test_several_keys_at_once() -> None:
    run = Asked(Blocked(WORDING))
    keys = tuple(run.propose(look, what=what).key for what in "ab")
    run.tell(BlockedEvent, keys=keys, by="cycle")
    refusal(run, look, what="a")
    refusal(run, look, what="b")
    assert run.ask(look, what="c") is None


# -- denied ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "denied"),
    [
        ((), []),
        (("look",), ["look"]),
        (("dangerous",), ["remove"]),
        (("dangerous", "read"), ["read", "remove"]),
        (("made_up",), []),
    ],
)
def test_a_policy_denies_by_name_or_by_danger(names: tuple[str, ...], denied: list[str]) -> None:
    run = Asked(Policy(WORDING, deny=names))
    assert is_guard(run.guard)
    found = [one.name for one in (look, read, remove) if run.ask(one) is not None]
    assert found == denied


def test_a_denial_is_one_and_says_that_asking_again_is_useless() -> None:
    refused = refusal(Asked(Policy(WORDING, deny=["look"])), look)
    assert (refused.kind, refused.error) == ("denied", "denied")
    assert "asking again will not change it" in refused.message


# -- equal by count -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_the_nth_proposal_is_refused_and_all_after_it(at: int) -> None:
    run = Asked(RefuseEqual(at, True, WORDING))
    assert is_guard(run.guard)
    refused = [run.ask(look) is not None for _ in range(at + 3)]
    assert refused == [False] * (at - 1) + [True] * 4


def test_the_refusal_counts_and_shows_the_earlier_result() -> None:
    run = Asked(RefuseEqual(2, True, WORDING))
    run.ask(look)
    second, third = refusal(run, look), refusal(run, look)
    assert second.error == "equal_call"
    assert "This is proposal number 2 of the very same call of look" in second.message
    assert "proposal number 3" in third.message
    assert "The earlier result was: found" in third.message


def test_or_it_does_not() -> None:
    run = Asked(RefuseEqual(2, False, WORDING))
    run.ask(look)
    message = refusal(run, look).message
    assert "found" not in message
    assert "Change your approach" in message


def test_a_failure_is_an_earlier_result_too_and_a_refusal_is_none() -> None:
    run = Asked(RefuseEqual(3, True, WORDING))
    run.end(run.pass_by(look), "it broke", kind="failed")
    run.end(run.pass_by(look), "another guard said no", kind="refused")
    assert "The earlier result was: it broke" in refusal(run, look).message


def test_all_arguments_count_and_the_tool() -> None:
    run = Asked(RefuseEqual(2, True, WORDING))
    assert [run.ask(look, what="a", page=page) for page in (1, 2, 3)] == [None] * 3
    assert run.ask(read) is None
    assert run.ask(read, what="b") is None
    refusal(run, look, what="a", page=2)


def test_a_user_message_begins_anew() -> None:
    run = Asked(RefuseEqual(2, True, WORDING))
    run.ask(look)
    refusal(run, look)
    run.user()
    assert run.ask(look) is None
    refusal(run, look)


def test_its_memory_is_bounded_and_keeps_what_is_in_use() -> None:
    run = Asked(RefuseEqual(1000, True, WORDING))
    for number in range(REMEMBERED * 3):
        run.ask(look)
        run.ask(read, what=str(number))
    assert len(run.guard._seen) == REMEMBERED
    assert run.guard._open == {}
    for _ in range(1000 - REMEMBERED * 3 - 1):
        assert run.ask(look) is None
    refusal(run, look)


# -- too soon -------------------------------------------------------------------------------------------------------


def spaced(seconds: float = 5.0) -> Asked:
    return Asked(RateLimit({}, WORDING, interval=seconds))


def test_the_first_call_waits_for_nothing() -> None:
    run = spaced()
    assert is_guard(run.guard)
    assert run.ask(look) is None
    assert run.ask(read) is None


@pytest.mark.parametrize(
    ("after", "left"), [(0, "5.0"), (1, "4.0"), (3.9, "1.1"), (4, None), (4.5, None), (5, None), (100, None)]
)
def test_a_short_wait_is_waited_and_a_long_one_refused(after: float, left: str | None) -> None:
    run = spaced()
    run.ask(look)
    run.t = after
    decision = run.ask(look)
    if left is not None:
        assert isinstance(decision, Refuse)
        assert decision.error == "too_soon"
        assert f"It may be called again in {left} seconds." in decision.message
    elif after < 5:
        assert decision == Wait(pytest.approx(5 - after))
    else:
        assert decision is None


def test_a_refused_call_uses_up_no_slot() -> None:
    run = spaced()
    run.ask(look)
    for second in (1, 2, 3):
        run.t = second
        refusal(run, look)
    run.t = 5
    assert run.ask(look) is None


def test_neither_does_one_that_another_guard_refuses_or_answers() -> None:
    run = spaced()
    for _ in range(3):
        run.end(run.pass_by(look), kind="refused", by="another")
        run.end(run.pass_by(look), by="duplicate", reused_from="c0")
    assert run.guard._at == {}
    assert run.ask(look) is None


def test_a_call_that_waits_has_its_slot() -> None:
    """The one after it waits from the time at which it will start."""
    run = spaced(0.5)
    first = run.pass_by(look)
    run.admit(first)
    second = run.propose(look)
    assert run.guard.call(second) == Wait(0.5)
    run.admit(second)
    third = run.propose(look)
    assert run.guard.call(third) == Wait(1.0)
    run.admit(third)
    assert isinstance(run.guard.call(run.propose(look)), Refuse)
    run.t = 1.5
    assert run.guard.call(run.propose(look)) is None


# -- rates by tool ---------------------------------------------------------------------------------------------------


def rated(**rates: Rate) -> Asked:
    return Asked(RateLimit(rates, WORDING, interval=None))


def starts(run: Asked, seconds: float, step: float = 0.25) -> list[float]:
    """When calls of ``look`` would start, if it is asked for one all the time."""
    found = []
    for n in range(int(seconds / step)):
        run.t = n * step
        proposal = run.propose(look)
        decision = run.guard.call(proposal)
        if isinstance(decision, Refuse):
            run.end(proposal, kind="refused", by="rate")
        else:
            run.admit(proposal)
            found.append(run.t + (decision.seconds if isinstance(decision, Wait) else 0.0))
    return found


def test_a_bucket_is_spent_at_once_and_fills_up_evenly() -> None:
    found = starts(rated(look=Rate(calls=3, seconds=30)), 60)
    assert found[:3] == [0, 0.25, 0.5]
    assert found[3:] == pytest.approx([10, 20, 30, 40, 50, 60], abs=0.01)


def test_after_a_rest_the_bucket_is_full_and_no_fuller() -> None:
    run = rated(look=Rate(calls=2, seconds=20))
    assert starts(run, 1) == [0, 0.25]
    run.t = 10_000
    assert run.ask(look) is None
    assert run.ask(look) is None
    assert "again in 10.0 seconds" in refusal(run, look).message


def test_interval_and_bucket_hold_both() -> None:
    found = starts(rated(look=Rate(interval=2, calls=3, seconds=60)), 70)
    assert found == pytest.approx([0, 2, 4, 20, 40, 60], abs=0.01)


@pytest.mark.parametrize(
    "rate", [Rate(interval=0.3), Rate(calls=4, seconds=10), Rate(interval=1.5, calls=7, seconds=9)]
)
@pytest.mark.parametrize("step", [0.1, 0.3, 0.7])
def test_no_more_than_a_rate_allows_in_any_stretch(rate: Rate, step: float) -> None:
    found = starts(rated(look=rate), 60, step)
    assert len(found) > 10
    for n, begin in enumerate(found):
        for more, end in enumerate(found[n:]):
            if rate.interval is not None:
                assert end - begin >= more * rate.interval - 1e-6
            if rate.calls is not None:
                assert more + 1 <= rate.calls + (end - begin) * rate.calls / rate.seconds + 1e-6


def test_a_name_comes_before_a_glob_and_both_before_the_interval_of_all() -> None:
    rates = {"lo*": Rate(interval=10), "look": Rate(interval=20)}
    run = Asked(RateLimit(rates, WORDING, interval=5))
    for one, left in ((look, "20.0"), (read, "5.0")):
        run.ask(one)
        assert f"again in {left} seconds" in refusal(run, one).message
    run = Asked(RateLimit({"*": Rate(interval=10)}, WORDING))
    run.ask(look)
    assert run.ask(read) is None  # a rate each
    assert "again in 10.0 seconds" in refusal(run, look).message


def test_a_tool_without_a_rate_is_free() -> None:
    run = rated(look=Rate(interval=10))
    assert [run.ask(read) for _ in range(100)] == [None] * 100
    assert run.guard._at == {}


@pytest.mark.parametrize(
    "wrong",
    [{}, {"seconds": 3.0}, {"interval": 0}, {"calls": 0}, {"calls": 1, "seconds": -1.0}, {"interval": math.inf}],
)
def test_rates_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="a rate"):
        Rate(**wrong)


def test_tools_are_apart_and_arguments_are_not() -> None:
    run = spaced()
    run.ask(look, what="a")
    assert run.ask(read) is None
    refusal(run, look, what="b")
