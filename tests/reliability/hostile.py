"""Hostile input by seed, for everything that parses what a model, a server, a tool, a file or a person has written.

Each parser has texts that it takes, which are bent, cut, spliced and spiked, and a contract that is checked for every
input: what may be raised, what comes back, and in how much time. ``hostile(target, seed)`` is one input.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from watchkeeper import ConfigurationError, ModelError, Tool, tool, writes
from watchkeeper.answers.citations import claims
from watchkeeper.answers.form import Fitted, Form, Misfit
from watchkeeper.arguments import BadArguments, Parsed, parse
from watchkeeper.cassette import tape
from watchkeeper.cli.exits import CommandError
from watchkeeper.cli.policy import read_policy
from watchkeeper.cli.printable import exact, printable
from watchkeeper.cli.recordings import Problem, read
from watchkeeper.continuing import Continuation, decoded, encoded
from watchkeeper.errors import CassetteError
from watchkeeper.escapes import neutral
from watchkeeper.history import repaired, sendable_name, unique
from watchkeeper.messages import Message, decode_event, encode_event
from watchkeeper.models.dialect import EventReader
from watchkeeper.models.failure import reported, retry_after
from watchkeeper.models.transcript import parse_reply
from watchkeeper.naming import resolve
from watchkeeper.plan.reading import Draft, Unread, read_plan
from watchkeeper.redaction import Redaction
from watchkeeper.testing import check_conversation

from .twisted import made

SECONDS = 1.0
"""Processor time that one input may take; every text here is shorter than 100,000 characters."""


@tool(effect=writes("there"))
def write_file(path: str, text: str, mode: int = 0o644, tags: list[str] | None = None) -> None:
    """Write; never called here."""
    raise AssertionError("the fuzz of arguments runs no tool")


class Target(NamedTuple):
    """A parser: texts that it takes, and what takes one and says how it went (``taken`` or ``refused``)."""

    corpus: tuple[str, ...]
    take: Callable[[str], str]


TOOLS: dict[str, Tool] = {"write_file": write_file}
SECRET = "sk-verysecretvalue0123456789"


def _arguments(text: str) -> str:
    found = parse(write_file, text)
    if isinstance(found, BadArguments):
        assert found.problems
        return "refused"
    assert isinstance(found, Parsed)
    values = found.values
    assert isinstance(values["path"], str)
    assert isinstance(values["text"], str)
    assert type(values["mode"]) is int
    again = parse(write_file, found.canonical.decode())
    assert isinstance(again, Parsed)
    assert again.canonical == found.canonical
    return "taken"


def _event(text: str) -> str:
    try:
        event = decode_event(text.encode("utf-8", "surrogatepass"))
    except msgspec.DecodeError:
        return "refused"
    assert encode_event(decode_event(encode_event(event))) == encode_event(event)
    return "taken"


def _stream(text: str) -> str:
    """A piece of a streamed reply, as it stands in a ``data:`` line."""
    reader = EventReader("server")
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return "refused"
    chunks = [*reader.feed(event), *reader.feed(event)]
    try:
        chunks += reader.end()
    except ModelError:
        return "refused"
    assert all(isinstance(chunk, msgspec.Struct) for chunk in chunks)
    return "taken"


def _reply(text: str) -> str:
    found = parse_reply(text, {"write_file": None, "search": "query"})
    for name, arguments in found.calls:
        assert isinstance(name, str)
        assert isinstance(arguments, str)
    return "taken" if found.calls else "refused"


def _name(text: str) -> str:
    found = resolve(text, TOOLS)
    sent = sendable_name(text)
    assert 1 <= len(sent) <= 64
    assert sent.isascii()
    fresh = unique(text, {"a", text}, 3)
    assert fresh not in {"a", text}
    assert found is None or found is write_file
    return "refused" if found is None else "taken"


def _token(text: str) -> str:
    try:
        decoded(text)
    except ConfigurationError:
        return "refused"
    return "taken"


def _plan(text: str) -> str:
    found = read_plan(text)
    assert isinstance(found, Draft | Unread)
    return "taken" if isinstance(found, Draft) else "refused"


class _Answer(msgspec.Struct):
    name: str
    numbers: list[int] = []


FORM = Form(_Answer)


def _answer(text: str) -> str:
    found = FORM.read(text)
    assert isinstance(found, Fitted | Misfit)
    assert all(claim is not None for claim in claims(text))
    return "taken" if isinstance(found, Fitted) else "refused"


REDACTION = Redaction([SECRET])


def _texts(text: str) -> str:
    """What is shown to people: no secret, no escape."""
    shown = REDACTION.text(neutral(text))
    assert SECRET not in shown
    assert "\x1b" not in neutral(text)
    assert "\u202e" not in printable(text)
    assert exact(text).isprintable()
    assert REDACTION.text(shown) == shown
    return "taken" if shown != text else "refused"


def _conversation(text: str) -> str:
    """A conversation that somebody else has kept: whatever of it can be read can be sent."""
    try:
        messages = msgspec.json.decode(text.encode("utf-8", "surrogatepass"), type=list[Message])
    except msgspec.DecodeError:
        return "refused"
    except (RecursionError, UnicodeError):
        return "refused"
    whole = repaired(messages)
    assert not whole or check_conversation(whole) is None, check_conversation(whole)
    return "taken"


def _failure(text: str) -> str:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = text
    error = reported(body, who="server", secret=SECRET)
    assert isinstance(error, ModelError)
    assert SECRET not in str(error)
    wait = retry_after({"retry-after": text, "retry-after-ms": text}, 1.8e9)
    assert wait is None or 0 <= wait < float("inf")
    return "taken" if wait is not None else "refused"


def _named(refusal: Exception, place: str) -> str:
    """Whoever is refused is told where the text stands."""
    assert place in str(refusal)
    return "refused"


def _policy(folder: Path) -> Callable[[str], str]:
    path = folder / "policy.toml"

    def take(text: str) -> str:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            read_policy(path)
        except CommandError as refusal:
            return _named(refusal, str(path))
        return "taken"

    return take


def _tape(text: str) -> str:
    try:
        tape.parse("cassette.jsonl", text.encode("utf-8", "surrogatepass").splitlines(keepends=True))
    except CassetteError as refusal:
        return _named(refusal, "cassette.jsonl")
    return "taken"


def _recording(folder: Path) -> Callable[[str], str]:
    """A recorded run from elsewhere, as ``replay`` reads it."""
    path = folder / "runs.jsonl"

    def take(text: str) -> str:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        found = list(read(path))
        return "refused" if any(isinstance(one, Problem) for one in found) else "taken"

    return take


CALLS = '{"index":0,"id":"c1","function":{"name":"write_file","arguments":"{\\"path\\":"}}'
EVENTS = (
    '{"type":"run_started","n":1,"run":"r1","at":1.0,"t":0.0,"agent":"a","task":"Do it.","limits":{"turns":20}}',
    '{"type":"call_ended","n":9,"run":"r1","at":1.0,"t":3.5,"turn":1,"slot":1,"result":{"call_id":"c","tool":"look",'
    '"kind":"finished","content":"x"},"key":"k","arguments":"{}"}',
    '{"type":"something_new","n":3,"run":"r1","at":1.0,"t":0.5,"field":[1,{"a":null}]}',
)
MESSAGES = (
    '[{"role":"user","content":"Do it."},{"role":"assistant","content":"","calls":[{"id":"c1","tool":"look",'
    '"arguments":"{}","slot":1}]},{"role":"tool","content":"x","call_id":"c1","tool":"look"}]',
    '[{"role":"tool","content":"orphan","call_id":"c9"},{"role":"assistant","content":"hello"}]',
)
POLICY = """base = "default"
refuse_equal = 3
deny = ["run_command"]
[thresholds]
equal = [3, 5, 8]
[limits]
seconds = 60.0
[[rules]]
decision = "ask"
tool = "write_*"
unless = { path = "notes/*" }
[rates.search]
calls = 10
seconds = 60
"""
TAPE = (
    '{"type":"cassette","holds":"run","by":"x"}\n'
    '{"type":"asked","run":"r","ask":1,"request":{"messages":[]}}\n'
    '{"type":"began","i":1,"run":"r","after":0,"all":0,"at":0}\n'
)
RECORDED = (
    '{"id":"a","steps":[{"tool":"look","args":{"at":1},"result":"x"},{"tool":"look","args":{},"error":"no"}]}\n',
    EVENTS[0] + "\n" + EVENTS[1] + "\n",
)
TOKEN = encoded(Continuation(run="r", agent="a", code="c", task="Do it.", status="stopped", reason="turns"))


def targets(folder: Path) -> dict[str, Target]:
    """Every parser, by name; those that read files do so in the folder."""
    return {
        "arguments": Target(
            ('{"path":"a","text":"b"}', '```json\n{"path":"a","text":"b","mode":3,"tags":["x"]}\n```', "{}"), _arguments
        ),
        "events": Target(EVENTS, _event),
        "stream": Target(
            (
                '{"choices":[{"delta":{"content":"hello"},"finish_reason":null}]}',
                f'{{"choices":[{{"delta":{{"tool_calls":[{CALLS}]}},"finish_reason":"tool_calls"}}]}}',
                '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}',
            ),
            _stream,
        ),
        "replies": Target(
            (
                'Thought: so\nAction: write_file\nAction Input: {"path": "a"}\n',
                '<tool_call>{"name": "search", "arguments": {"query": "x"}}</tool_call>',
                "Thought: I know.\nAnswer: 42",
            ),
            _reply,
        ),
        "names": Target(("write_file", "functions.write_file", "Write File", "write-file "), _name),
        "tokens": Target((TOKEN, "wk1.abc.def"), _token),
        "plans": Target(('{"question":"q","steps":[{"goal":"read a","done_when":"known"}]}', "1. one\n2. two"), _plan),
        "answers": Target(('{"name":"a","numbers":[1,2]}', "So it is [call:c1]. And more. [call:c2]"), _answer),
        "texts": Target((f"the key is {SECRET}.", "\x1b[31mred\x1b[0m", "Bearer abcdefghijklmnop"), _texts),
        "conversations": Target(MESSAGES, _conversation),
        "failures": Target(('{"error":{"message":"slow down","code":"rate_limit_exceeded"}}', "12", "0.5"), _failure),
        "policies": Target((POLICY,), _policy(folder)),
        "cassettes": Target((TAPE,), _tape),
        "recordings": Target(RECORDED, _recording(folder)),
    }


def hostile(target: Target, seed: int) -> str:
    """One input against the contract; how it went. Whatever is raised beside what the contract allows goes through."""
    text = made(target.corpus, seed)
    began = time.process_time()
    went = target.take(text)
    took = time.process_time() - began
    assert took < SECONDS, f"{took:.1f} s for {len(text)} characters"
    return went


def barrage(folder: Path, inputs: int, seed: int = 0) -> dict[str, Counter[str]]:
    """So many inputs in all, shared out over the parsers; how they went, by parser.

    Raises ``AssertionError`` that names the parser, the seed and the command that runs it again.
    """
    found = targets(folder)
    went: dict[str, Counter[str]] = {name: Counter() for name in found}
    for number in range(seed, seed + inputs // len(found)):
        for name, target in found.items():
            try:
                went[name][hostile(target, number)] += 1
            except Exception as error:
                again = f"sh scripts/reliability hostile --parser {name} --seeds {number}"
                shown = repr(made(target.corpus, number))[:300]
                raise AssertionError(f"{name} breaks its contract on {shown}: run it again by `{again}`") from error
    return went
