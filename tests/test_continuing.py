"""The token with which a run is continued: what it carries, what it takes no harm from, what is left of limits."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Agent, Call, ConfigurationError, Limits, Message, Tool, tool
from watchkeeper.continuing import (
    FIELDS,
    LEFT_OUT,
    SHORTENED,
    Continuation,
    by_name,
    check_agent,
    code_of,
    decoded,
    encoded,
    fitted,
    key_of,
    limits_left,
)
from watchkeeper.testing import check_conversation, say
from watchkeeper.testing.script import ScriptedModel

KEY = b"sixteen bytes and more"
OTHER = b"another key of sixteen bytes"


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return what


@tool(name="look", effect="reads")
async def look_closer(what: str, closely: bool) -> str:
    """Look at something."""
    return what


def an_agent(name: str = "one", tools: tuple[Tool, ...] = (look,), instructions: str = "") -> Agent:
    return Agent(ScriptedModel([say("x")]), tools, name=name, instructions=instructions)


def continuation(**more: Any) -> Continuation:
    given: dict[str, Any] = {
        "run": "r1",
        "agent": "one",
        "code": "c",
        "task": "t",
        "status": "stopped",
        "reason": "loop",
    }
    return Continuation(**given | more)


WHOLE = continuation(
    history=(
        Message("user", "Do it."),
        Message("assistant", "", calls=(Call("c1", "look", '{"what": "a"}', 1),)),
        Message("tool", "saw a", call_id="c1", tool="look"),
    ),
    given={"max_turns": 20, "money": None},
    left={"max_turns": 3.0},
    spent={"turns": 17.0, "money": 0.25},
    evidence=("c1",),
    found={"look": True},
    runs=("r0",),
)

texts = st.text(alphabet=st.characters(), max_size=40)


# -- the text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, KEY])
def test_it_comes_back_as_it_was(key: bytes | None) -> None:
    token = encoded(WHOLE, key)
    assert decoded(token, key) == WHOLE
    assert decoded(f"  {token}\n", key) == WHOLE
    assert token.isascii()
    assert not any(letter.isspace() for letter in token)


@given(texts, st.lists(texts, max_size=4), st.sampled_from([None, KEY]))
def test_any_text_survives_save_for_halves_of_characters(task: str, said: list[str], key: bytes | None) -> None:
    whole = continuation(task=task, history=tuple(Message("user", text) for text in said))
    back = decoded(encoded(whole, key), key)
    assert [message.content for message in back.history] == [mend(text) for text in said]
    assert back.task == mend(task)


def mend(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@given(st.data(), st.sampled_from([None, KEY]))
def test_whatever_is_changed_in_it_is_refused(data: st.DataObject, key: bytes | None) -> None:
    token = encoded(WHOLE, key)
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.characters(min_codepoint=33, max_codepoint=126).filter(lambda one: one != token[place]))
    with pytest.raises(ConfigurationError, match="cannot be continued from this token"):
        decoded(token[:place] + letter + token[place + 1 :], key)
    with pytest.raises(ConfigurationError, match="cannot be continued from this token"):
        decoded(token[:place], key)


@given(st.text(max_size=80) | st.text("wk1ds.0aF-_", max_size=80))
def test_whatever_is_no_token_is_refused(text: str) -> None:
    for key in (None, KEY):
        with pytest.raises(ConfigurationError, match="cannot be continued from this token"):
            decoded(text, key)


def sealed_anew(plain: bytes) -> str:
    """What somebody makes who knows the format and has no key."""
    import hashlib

    body = base64.urlsafe_b64encode(zlib.compress(plain)).decode().rstrip("=")
    return f"wk1d.{hashlib.sha256(f'wk1d.{body}'.encode()).hexdigest()}.{body}"


def test_a_digest_shows_damage_and_only_a_key_shows_ill_will() -> None:
    forged = msgspec.structs.replace(WHOLE, left={"max_turns": 1e6})
    token = sealed_anew(msgspec.json.encode(forged))
    assert decoded(token).left == {"max_turns": 1e6}
    with pytest.raises(ConfigurationError, match="not signed"):
        decoded(token, KEY)
    with pytest.raises(ConfigurationError, match="signed with another key"):
        decoded(encoded(WHOLE, OTHER), KEY)
    with pytest.raises(ConfigurationError, match=r"no key to check it with: Supervisor\(token_key=…\)"):
        decoded(encoded(WHOLE, KEY))
    _, seal, body = encoded(WHOLE, KEY).split(".")
    with pytest.raises(ConfigurationError, match="changed"):  # the seal of the one kind under the name of the other
        decoded(f"wk1d.{seal}.{body}")


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"run": 1}',
        msgspec.json.encode({**msgspec.to_builtins(WHOLE), "history": [{"role": "root", "content": ""}]}),
        msgspec.json.encode({**msgspec.to_builtins(WHOLE), "left": {"max_turns": "all"}}),
        msgspec.json.encode({**msgspec.to_builtins(WHOLE), "status": "won"}),
        b'{"run": "\\ud800"}',
    ],
)
def test_a_digest_alone_makes_no_run(plain: bytes) -> None:
    with pytest.raises(ConfigurationError, match="holds is no run"):
        decoded(sealed_anew(plain))


def test_what_unpacks_to_more_than_it_may_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchkeeper.continuing.MAX_PAYLOAD", 1000)
    with pytest.raises(ConfigurationError, match="too long"):
        decoded(sealed_anew(json.dumps({"run": "x" * 2000}).encode()))
    monkeypatch.setattr("watchkeeper.continuing.MAX_TOKEN", 10)
    with pytest.raises(ConfigurationError, match="64 MiB"):
        decoded(encoded(WHOLE))


def test_another_version_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="another version"):
        decoded(encoded(WHOLE).replace("wk1d", "wk2d", 1))


def test_a_key_has_to_be_long_enough() -> None:
    assert key_of(None) is None
    assert key_of("sixteen letters!") == b"sixteen letters!"
    with pytest.raises(ConfigurationError, match="at least 16 bytes, not 15"):
        key_of("fifteen letters")


# -- whose it is ---------------------------------------------------------------------------------------------------


def test_it_is_for_one_agent_as_it_was() -> None:
    agent = an_agent()
    token = continuation(code=code_of(agent))
    check_agent(token, an_agent())
    with pytest.raises(ConfigurationError, match="for the agent 'one', and this one is 'two'"):
        check_agent(token, an_agent("two"))
    for other in (an_agent(tools=(look_closer,)), an_agent(tools=()), an_agent(instructions="Lie.")):
        with pytest.raises(ConfigurationError, match="another_agent=True"):
            check_agent(token, other)


# -- what is left --------------------------------------------------------------------------------------------------


def left_of(given: Limits, reason: str = "loop", now: Limits | None = None, **left: float) -> Limits:
    before = continuation(reason=reason, given=by_name(given), left=left)
    return limits_left(before, now or given)


LIMITS = Limits(max_turns=20, max_calls=100, tokens=1000, money=2.0, seconds=60.0, calls_per_tool={"look": 5})


def test_what_is_left_is_left() -> None:
    left = left_of(LIMITS, max_turns=8, max_calls=90, tokens=400, money=0.5, seconds=12.5, **{"calls:look": 2})
    assert (left.max_turns, left.max_calls, left.tokens, left.money, left.seconds) == (8, 90, 400, 0.5, 12.5)
    assert left.calls_per_tool == {"look": 2}
    assert (left.input_tokens, left.working_seconds) == (None, None)
    assert (left.finish_turns, left.reply_tokens) == (LIMITS.finish_turns, LIMITS.reply_tokens)


@pytest.mark.parametrize("reason", FIELDS)
def test_the_limit_that_ended_it_is_granted_anew_and_no_other(reason: str) -> None:
    limits = Limits(
        max_turns=20,
        max_calls=20,
        tokens=20,
        input_tokens=20,
        output_tokens=20,
        money=20,
        seconds=20,
        working_seconds=20,
    )
    left = by_name(left_of(limits, reason, **dict.fromkeys(FIELDS.values(), 2.0)))
    assert left == {**dict.fromkeys(FIELDS.values(), 2), FIELDS[reason]: 20}


def test_an_endless_limit_is_none() -> None:
    endless = Limits(seconds=float("inf"), money=float("inf"))
    left = left_of(endless, "time", money=1.0)
    assert (left.seconds, left.money, left.max_turns) == (None, None, 20)
    before = continuation(given=by_name(endless))
    assert decoded(encoded(before)) == before


def test_what_is_raised_is_in_all_and_what_is_used_up_with_it_is_granted() -> None:
    raised = msgspec.structs.replace(LIMITS, max_turns=30, money=2.5, calls_per_tool={"look": 6})
    left = left_of(LIMITS, "turns", raised, max_turns=0, max_calls=0, money=0.5, **{"calls:look": 0})
    assert (left.max_turns, left.max_calls, left.money) == (10, 100, 1.0)
    assert left.calls_per_tool == {"look": 1}
    assert left_of(LIMITS, "turns", max_turns=0, **{"calls:look": 0}).calls_per_tool == {"look": 0}


def test_a_limit_that_is_new_counts_what_was_spent() -> None:
    before = continuation(spent={"tokens": 700.0, "money": 3.0})
    left = limits_left(before, Limits(tokens=1000, money=2.0))
    assert (left.tokens, left.money) == (300, 2.0)


amounts = st.none() | st.integers(0, 10**7)


@given(amounts, amounts, st.floats(0, 1e7), st.sampled_from([*FIELDS, "loop", "answer"]))
def test_no_limit_is_lost_and_none_ends_the_run_at_once(
    old: int | None, new: int | None, spent: float, reason: str
) -> None:
    limits = [Limits(tokens=limit, money=limit, max_calls=limit, max_turns=max(limit or 1, 1)) for limit in (old, new)]
    used = dict.fromkeys(("max_turns", "tokens", "money", "max_calls"), spent)
    left = {name: max(limit - used.get(name, 0), 0) for name, limit in by_name(limits[0]).items() if limit is not None}
    before = continuation(reason=reason, given=by_name(limits[0]), left=left, spent={"tokens": spent, "money": spent})
    after = limits_left(before, limits[1])
    an_agent().within(after)
    for name in ("tokens", "money", "max_calls"):
        limit, given_now = getattr(after, name), getattr(limits[1], name)
        assert (limit is None) == (given_now is None)
        if given_now:
            assert 0 < limit <= given_now
    assert 1 <= after.max_turns <= limits[1].max_turns


anything = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**12), 10**12)


@given(st.dictionaries(st.sampled_from([*FIELDS.values(), "calls:look"]), anything), anything, anything)
def test_no_token_raises_a_limit(left: dict[str, float], old: float, spent: float) -> None:
    """Whoever can write a token that is not signed writes what he likes into it."""
    given_then = dict.fromkeys([*by_name(LIMITS)][::2], float(old))
    dimensions = ("turns", "calls", "tokens", "money", "seconds", "calls:look")
    before = continuation(given=given_then, left=left, spent=dict.fromkeys(dimensions, float(spent)))
    after = by_name(limits_left(before, LIMITS))
    for name, limit in by_name(LIMITS).items():
        now = after[name]
        assert now is limit is None or (now is not None and limit is not None and 0 <= now <= limit)


# -- the conversation ------------------------------------------------------------------------------------------------


def a_history(turns: int, size: int) -> list[Message]:
    found = [Message("user", "The task.")]
    for n in range(turns):
        found.append(Message("assistant", f"I look at {n}.", calls=(Call(f"c{n}", "look", "{}", 1),)))
        found.append(Message("tool", str(n % 10) * size, call_id=f"c{n}", tool="look"))
    return found


def test_a_conversation_that_fits_is_kept_whole() -> None:
    history = a_history(3, 100)
    assert fitted(history, 10_000) == tuple(history)


def test_the_oldest_outputs_are_shortened_first() -> None:
    kept = fitted(a_history(10, 1000), 6_000)
    outputs = [message.content for message in kept if message.role == "tool"]
    assert len(outputs) == 10
    assert outputs[0] == "0" * SHORTENED + LEFT_OUT
    assert outputs[-1] == "9" * 1000
    assert sum(len(message.content) for message in kept) <= 6_000


@given(st.integers(0, 30), st.integers(0, 600), st.integers(20, 5_000))
def test_it_never_is_longer_and_stays_valid(turns: int, size: int, limit: int) -> None:
    from watchkeeper.history import repaired

    kept = fitted(a_history(turns, size), limit)
    assert sum(len(message.content) for message in kept) <= limit
    assert kept[0].content == "The task."
    assert check_conversation(repaired(kept)) is None
