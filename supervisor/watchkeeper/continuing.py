"""The token with which a run that has ended is continued: what it carries, how it is checked, what is left. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from .errors import ConfigurationError
from .messages import Message, Status, mended
from .profiles import Limits

if TYPE_CHECKING:
    from .agent import Agent
    from .run import Run

FORMAT = 1
"""Version of the token; another one is refused."""
PLAIN, SIGNED = f"wk{FORMAT}d", f"wk{FORMAT}s"
"""How a token begins that has a digest only, and one that is signed with a key."""
LEAST_KEY = 16
"""Bytes of a key: with fewer it could be guessed."""
HISTORY = 4_000_000
"""Characters of the conversation that a token carries: more than any model reads at once."""
SHORTENED = 200
"""Characters that are left of the oldest outputs of tools where the conversation is longer."""
TASK = 100_000
"""Characters of the task that it carries beside the conversation."""
MAX_TOKEN = 64 << 20
MAX_PAYLOAD = 128 << 20
"""Characters of a token, and bytes of what it unpacks to, that are looked at: each is above what one can come to."""
CALLS = 1000
"""Ids of calls that count as evidence, the latest."""
RUNS = 16
"""Ids of the runs before, the latest."""
FIELDS = {
    "turns": "max_turns",
    "calls": "max_calls",
    "tokens": "tokens",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "money": "money",
    "time": "seconds",
    "working_time": "working_seconds",
}
"""The limits that end a run: the reason of the outcome, and the field of :class:`Limits`."""
WHOLE = ("max_turns", "max_calls", "tokens", "input_tokens", "output_tokens")
"""Those that are whole numbers."""
LEFT_OUT = "… (the rest of this output was left out when the run was continued)"


class Continuation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token carries. Secrets are cut out of it as they are of the log."""

    run: str
    """The run that it continues."""
    agent: str
    code: str
    """Digest of the agent: its name, instructions and tools."""
    version: str = ""
    """The version of watchkeeper that has made it."""
    runs: tuple[str, ...] = ()
    """The runs before that one, oldest first."""
    task: str
    status: Status
    reason: str
    history: tuple[Message, ...] = ()
    given: dict[str, float | None] = {}
    """The limits that the agent had, by field of :class:`Limits`; of single tools as ``calls:NAME``."""
    left: dict[str, float] = {}
    """What was left of them at the end."""
    spent: dict[str, float] = {}
    """What this run and those before it have drawn, by dimension of the budget."""
    evidence: tuple[str, ...] = ()
    """Ids of the productive calls."""
    found: dict[str, bool] = {}
    """The tools that have found something; false where that is older than the last change."""


def continuation_of(run: Run, version: str = "") -> Continuation:
    """What it takes to continue a run that has ended."""
    outcome, before = run.outcome, run.continues
    assert outcome is not None
    used = dict(outcome.spent)
    if run.actor is not None:  # else it never left the queue
        used |= {"seconds": run.took, "working_seconds": outcome.working_seconds}
    found, stale = run.evidence.standing()
    spent = dict(outcome.spent)
    for name, amount in (before.spent if before is not None else {}).items():
        spent[name] = spent.get(name, 0.0) + amount
    return Continuation(
        run=run.id,
        agent=run.agent.name,
        code=code_of(run.agent),
        version=version,
        runs=(*before.runs, before.run)[-RUNS:] if before is not None else (),
        task=run.task[:TASK],
        status=outcome.status,
        reason=outcome.reason,
        history=fitted(outcome.history, HISTORY),
        given=by_name(run.limits_given),
        left={
            name: max(limit - used.get(_dimension(name), 0.0), 0.0)
            for name, limit in by_name(run.agent.limits).items()
            if limit is not None
        },
        spent=spent,
        evidence=tuple(run.evidence.calls[-CALLS:]),
        found={tool: tool not in stale for tool in found},
    )


def code_of(agent: Agent) -> str:
    """What tells one agent from another: a digest of its name, its instructions and its tools with their schemas."""
    parts = [agent.name, agent.instructions, [tool.spec() for tool in agent.tools.values()]]
    return hashlib.sha256(msgspec.json.encode(mended(msgspec.to_builtins(parts, enc_hook=str)))).hexdigest()[:32]


def by_name(limits: Limits) -> dict[str, float | None]:
    """Limits by field; those of single tools as ``calls:NAME``. An endless one is none."""
    found: dict[str, float | None] = {name: getattr(limits, name) for name in FIELDS.values()}
    found |= {f"calls:{tool}": limit for tool, limit in limits.calls_per_tool.items()}
    return {name: None if limit == math.inf else limit for name, limit in found.items()}


def limits_left(before: Continuation, given: Limits) -> Limits:
    """The limits of a run that continues another: what was left, and what they have been raised by since.

    They hold for the work as a whole, save for one that would end the run at once: the limit that the earlier run was
    ended by, or of which nothing is left, is granted anew, in full, unless it was raised: who continues a run that was
    stopped by a limit grants it that much more. Whatever a token says, none is above the one that is given.
    """
    left = {name: _left(before, name, limit) for name, limit in by_name(given).items()}
    fields: dict[str, Any] = {name: left[name] for name in FIELDS.values()}
    fields |= {name: int(value) for name in WHOLE if (value := fields[name]) is not None}
    fields["calls_per_tool"] = {tool: int(left[f"calls:{tool}"] or 0) for tool in given.calls_per_tool}
    return msgspec.structs.replace(given, **fields)


def _left(before: Continuation, name: str, limit: float | None) -> float | None:
    if limit is None:
        return None
    old = before.given.get(name)
    # Without an earlier limit of its own what was spent counts all the same, save time.
    left = limit - before.spent.get(_dimension(name), 0.0) if old is None else before.left.get(name, old) + limit - old
    ends = not name.startswith("calls:")
    least = 1 if name in WHOLE else 0
    used_up = FIELDS.get(before.reason) == name or left <= 0 or left < least
    if ends and used_up and (old is None or limit <= old):
        return limit
    return min(max(left, least if ends else 0), limit)


def _dimension(name: str) -> str:
    return {"max_turns": "turns", "max_calls": "calls"}.get(name, name)


def fitted(history: Sequence[Message], limit: int) -> tuple[Message, ...]:
    """The conversation in at most ``limit`` characters: first the oldest outputs of tools are shortened, then whole
    messages go, from the second one on; what is left is made valid where it is read."""
    size = sum(map(_size, history))
    if size <= limit:
        return tuple(history)
    kept = list(history)
    for place, message in enumerate(kept):
        if size <= limit:
            break
        if message.role == "tool" and len(message.content) > SHORTENED + len(LEFT_OUT):
            short = msgspec.structs.replace(message, content=f"{message.content[:SHORTENED]}{LEFT_OUT}")
            size += _size(short) - _size(message)
            kept[place] = short
    going = 1
    while size > limit and going < len(kept):
        size -= _size(kept[going])
        going += 1
    if size > limit:  # one message alone is too long
        return (msgspec.structs.replace(kept[0], content=kept[0].content[:limit]),)
    return (*kept[:1], *kept[going:])


def _size(message: Message) -> int:
    return len(message.content) + sum(len(call.arguments) + len(call.tool) for call in message.calls)


# -- the token as text -------------------------------------------------------------------------------------------------


def key_of(key: str | bytes | None) -> bytes | None:
    """A key for tokens as bytes. Raises :class:`ConfigurationError` for one that is too short."""
    if key is None:
        return None
    raw = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else bytes(key)
    if len(raw) < LEAST_KEY:
        raise ConfigurationError(f"token_key must have at least {LEAST_KEY} bytes, not {len(raw)}; make a random one")
    return raw


def encoded(continuation: Continuation, key: bytes | None = None) -> str:
    """The token: opaque text in one line, of letters, digits, ``-``, ``_`` and dots.

    Without a key it holds a digest, which shows damage and careless edits, and nothing to somebody who means it: the
    digest can be made anew. With one it is signed (HMAC-SHA256): who has no key cannot make or change one. It is not
    encrypted: it holds the conversation.
    """
    plain = msgspec.json.encode(mended(msgspec.to_builtins(continuation)))
    body = base64.urlsafe_b64encode(zlib.compress(plain, 6)).decode().rstrip("=")
    head = PLAIN if key is None else SIGNED
    return f"{head}.{_seal(head, body, key)}.{body}"


def decoded(token: str, key: bytes | None = None) -> Continuation:
    """What a token carries. Raises :class:`ConfigurationError` for one that is damaged, changed, too long, of another
    version, signed with another key, or not signed where there is a key."""
    if not isinstance(token, str) or len(token) > MAX_TOKEN:
        raise _refused("it is no text of at most 64 MiB")
    head, _, rest = token.strip().partition(".")
    seal, _, body = rest.partition(".")
    if not head.startswith("wk") or not body:
        raise _refused("it is not one that watchkeeper has made")
    if head not in (PLAIN, SIGNED):
        raise _refused("it was made by another version of watchkeeper; start anew from the history in its events")
    if head == SIGNED and key is None:
        raise _refused("it is signed, and there is no key to check it with: Supervisor(token_key=…)")
    if head == PLAIN and key is not None:
        raise _refused("it is not signed, and this supervisor takes only those that are signed with its key")
    try:
        whole = hmac.compare_digest(_seal(head, body, key if head == SIGNED else None), seal)
    except (TypeError, UnicodeError):  # what is no ASCII
        whole = False
    if not whole:
        raise _refused("it was changed, cut off or damaged, or signed with another key; take it as it was made")
    try:
        packed = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        unpacking = zlib.decompressobj()
        plain = unpacking.decompress(packed, MAX_PAYLOAD)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise _refused("it is too long, or breaks off")
        return msgspec.json.decode(plain, type=Continuation)
    except (binascii.Error, zlib.error, msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise _refused(f"what it holds is no run ({type(error).__name__})") from error


def check_agent(continuation: Continuation, agent: Agent) -> None:
    """Raises :class:`ConfigurationError` if the token is another agent's, or its tools or instructions have changed."""
    if continuation.agent != agent.name:
        what = f"it is for the agent {continuation.agent[:80]!r}, and this one is {agent.name!r}"
    elif continuation.code != code_of(agent):
        what = f"the instructions or tools of the agent {agent.name!r} are not what they were when it was made"
    else:
        return
    raise _refused(f"{what}; another_agent=True (--another-agent) lets it go on all the same")


def _seal(head: str, body: str, key: bytes | None) -> str:
    data = f"{head}.{body}".encode()
    if key is None:
        return hashlib.sha256(data).hexdigest()
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def _refused(why: str) -> ConfigurationError:
    return ConfigurationError(f"the run cannot be continued from this token: {why}")
