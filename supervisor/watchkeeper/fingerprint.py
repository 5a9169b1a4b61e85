"""What makes two calls, two results or two errors the same, as short digests."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from typing import Any

import msgspec

from .tools import Tool

_encode = msgspec.json.Encoder(order="deterministic").encode
_VARIES = re.compile(
    r"""'[^']*'|"[^"]*"|`[^`]*`|‘[^’]*’|“[^”]*”|https?://\S+|(?:~|\.{1,2})?(?:/[\w.@~+-]+)+/?|\b[\w-]+(?:/[\w.@~+-]+)+"""
    r"""|\b[\w-]+\.[a-z]{1,4}\b(?!\.)|[#@]?\b\w*\d\w*\b|[\w.+-]+(?=: command not found)"""
)
_TELLING = re.compile(
    r"error|exception|fail|denied|not found|no such|not exist|no match|invalid|illegal|cannot|can't|could not|unable"
    r"|refused|timed? ?out|time-?out|undeclared|undefined|expected|missing|unknown|unsupported|not allowed|must\b"
    r"|required|conflict|exceeded|unavailable|forbidden|unauthori[sz]ed|too many|reset by|fatal|panic",
    re.IGNORECASE,
)
_FRAME = " \t\r|+-=_"
"""Drawn around the tracebacks of exception groups."""
_MASKED = "#`'\"’” "
"""What is left at the beginning of a line of something that is masked, in part of it on the line before."""
_QUOTES = ("`", "'", '"', "‘", "“")
_TAIL = 4000
_ASKED = 4000
_ECHO = 8
"""Characters of what may be the arguments again; less is found in too many of them."""
_VALUES = re.compile(r'"((?:[^"\\]|\\.){8,400})"(?!\s*:)')
_VALUES_LOOKED_AT = 8
_VALUES_LINES = 40
_LINE = 400
_SHORT_LINE = 64
_JSON = re.compile(r"\s*(?:\{\s*\"|\[\s*[{\"\[])")
_FIELDS = re.compile(r'"\s*:\s*"((?:[^"\\]|\\.)*)')
"""Texts that are values in JSON, also where its beginning or its end is missing."""
_EXIT = re.compile(
    r"\W*(?:the )?(?:process |command )?(?:exit(?:ed)?|returned|failed|finished)?(?: with)?(?: non-zero)?(?: exit)?"
    r"[ _-]?(?:code|status)?\W*\d+\W*",
    re.IGNORECASE,
)
SHORT = 64
"""Up to so many bytes a text is its own key: hashing it would cost more and tell less."""
_LONG = 512
"""Above this sha256 is the faster digest on processors with SHA instructions (1.4 µs at 1 KB, 58 at 100 KB; blake2b 3.1
and 139)."""


def digest(data: bytes) -> str:
    """Short text as it is, else sixteen bytes as 32 hexadecimal characters."""
    if len(data) <= SHORT:
        return data.decode("utf-8", "replace")
    if len(data) > _LONG:
        return hashlib.sha256(data).hexdigest()[:32]
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def call_key(name: str, canonical: bytes) -> str:
    """The key of a call: equal tools with equal canonical arguments have equal keys."""
    return f"{name} {digest(canonical)}"


def arguments_hash(canonical: bytes) -> str:
    """SHA-256 of the arguments as they are to be run: 64 hexadecimal characters."""
    return hashlib.sha256(canonical).hexdigest()


def idempotency_key(run: str, identity: str, occurrence: int) -> str:
    """What tells the n-th equal call (tool and all arguments) of a run from every other: 32 hexadecimal characters."""
    text = f"{run}\n{occurrence}\n{identity}"
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def loop_key(tool: Tool, values: dict[str, Any], key: str) -> str:
    """The key by which detection compares calls: the call's own, or that of the fields the tool declares."""
    if tool.loop_key is None:
        return key
    return call_key(tool.name, _encode({name: values.get(name) for name in tool.loop_key}))


def result_key(content: str, tool: Tool | None = None) -> str:
    """The key of a result; a tool's ``result_key`` says which part of it counts. Never raises."""
    declared = tool.result_key if tool is not None else None
    if declared is not None:
        with contextlib.suppress(Exception):  # a declaration that does not fit the output: the whole output counts
            if callable(declared):
                content = str(declared(content))
            else:
                value = json.loads(content)
                content = json.dumps({name: value.get(name) for name in declared}, sort_keys=True)
    return digest(content.encode("utf-8", "replace"))


def error_signature(code: str, text: str, arguments: str = "") -> str | None:
    """The signature of an error: its code and its last line that tells something, with what varies masked. None if it
    says no more than with which status a command came to its end.

    Masked are words with digits, names of files, paths, addresses, what is quoted, and what it repeats of the
    ``arguments`` (JSON): two failures of one kind need not be equal. Lines that tell nothing are rulers, carets, advice
    that follows on the error itself, and what was asked, shown again. Of an error in JSON its texts count.
    """
    lines = [bare for line in _lines(text) if (bare := line.strip(_FRAME)) and not _is_exit(bare)]
    if not lines:
        return None
    if arguments:
        lines = _without_echoes(lines, arguments[:_ASKED])
    telling = (line for line in reversed(lines) if _TELLING.search(line[:_LINE]))
    line = next(telling, "") or next((line for line in reversed(lines) if any(map(str.isalpha, line))), lines[-1])
    named = "" if _JSON.match(code) else _without_echo(code, arguments[:_ASKED]) if " " in code else code
    return f"{_VARIES.sub('#', named[:_LINE])}: {_VARIES.sub('#', line[:_LINE]).lstrip(_MASKED)}"


def _lines(text: str) -> list[str]:
    """The lines of an error; of one in JSON those of its texts, single words only if it has no more."""
    end = text.rstrip()[-_TAIL:]
    if _JSON.match(text) is None:
        return end.split("\n")
    texts = [line for value in _FIELDS.findall(end) for line in _unescaped(value).split("\n")]
    return [line for line in texts if " " in line.strip()] or texts


def _is_exit(line: str) -> bool:
    return len(line) < _SHORT_LINE and _EXIT.fullmatch(line) is not None


def _without_echoes(lines: list[str], arguments: str) -> list[str]:
    """What an error says itself: lines that only repeat what was asked are left out, unless all do; what others repeat
    of it is masked."""
    told = [line for line in lines if len(line) < _ECHO or json.dumps(line, ensure_ascii=False)[1:-1] not in arguments]
    values = [_unescaped(value) for value in _VALUES.findall(arguments)[:_VALUES_LOOKED_AT]]
    values += [line.strip(_FRAME) for value in values if "\n" in value for line in value.split("\n")[:_VALUES_LINES]]
    for value in sorted(values, key=len, reverse=True):  # what is part of another value comes after that
        if len(value) < _ECHO:  # longer only as it is spelled
            break
        told = [line.replace(value, "#") if value in line else line for line in told]
    return told or lines


def _without_echo(code: str, arguments: str) -> str:
    """The name of an error, which may be the beginning of its text: up to where it quotes what was asked."""
    name = _without_echoes([code], arguments)[0].partition("#")[0].rstrip()
    return name.rstrip(_MASKED) if name.endswith(_QUOTES) and code.startswith(name) else code


def _unescaped(value: str) -> str:
    """A JSON string without its quotes, as it is meant; one that is none, as it is."""
    if "\\" not in value:
        return value
    try:
        return str(json.loads(f'"{value}"'))
    except ValueError:
        return value
