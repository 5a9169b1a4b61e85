"""What a call does within a tool that can do many things: the word that says so, or the program of a command."""

from __future__ import annotations

import re
from functools import lru_cache

SHOWN = 400
"""Characters of arguments in which it is looked for."""

_VERB = re.compile(r'"(?:command|action|operation|op|method|mode)":"([a-z][a-z_]{1,24})"')
_COMMAND = re.compile(r'"(?:command|cmd|script)":"((?:[^"\\]|\\.)*)')
_SETTING = re.compile(r"(?:\s*(?:\w+=\S*|sudo|time|timeout \S+|env|nohup)\s+)*")
_NEXT = re.compile(r"&&|\|\||[;|]|\\n")
_LEADING = frozenset({"cd", "sleep", "export", "set", "source", "pushd", "popd", "true", "."})
"""Programs that stand before what a command is for."""
_WRITES = re.compile(r"(?<![0-9&])>(?!&|\s*/dev/null)|\btee\b")
_SHOWS = frozenset(
    (
        *("view", "read", "get", "list", "find", "search", "show", "open", "lookup", "inspect", "describe", "think"),
        *("snapshot", "screenshot", "scroll", "ls", "cat", "head", "tail", "grep", "glob"),
    )
)
"""Words by which tools that show something are named, or are told to."""
_PROGRAMS = _SHOWS | frozenset(
    (
        *("less", "rg", "ag", "ps", "pgrep", "top", "pwd", "which", "whereis", "type", "wc", "stat", "file", "env"),
        *("printenv", "id", "whoami", "date", "df", "du", "tree", "nl", "diff", "echo", "sort", "uniq", "cut", "awk"),
        *("xxd", "jq", "lsof", "ss", "netstat", "uptime", "free", "man", "history"),
    )
)
"""Programs that show something."""
_ACTS = frozenset(
    (
        *("write", "edit", "create", "update", "delete", "remove", "set", "send", "post", "put", "add", "replace"),
        *("insert", "click", "press", "fill", "run", "execute", "exec", "move", "rename", "copy", "apply", "save"),
        *("start", "stop", "restart", "install", "submit", "book", "cancel", "pay", "transfer", "push", "commit"),
    )
)
"""Words in the name of a tool that does something, whatever else it shows."""
_WORD = re.compile(r"[A-Z]?[a-z]+")
_LOOKING_AT = re.compile(
    r"sed -n|git (?:log|status|diff|show|blame|branch)\b|pip (?:list|show)\b|kubectl (?:get|logs|describe)\b"
)


def doing(tool: str, arguments: str) -> str | None:
    """The word by which a tool is told what to do, or the program that a command runs first, beside those that only
    prepare it. None: the tool does one thing, for all that can be told. ``arguments``: canonical JSON, perhaps cut."""
    shown = arguments[:SHOWN]
    if shown.count('":') > 1 and (verb := _VERB.search(shown)) is not None:
        return verb[1]
    command = _COMMAND.search(shown)
    programs = _programs(command[1]) if command is not None else ()
    return next((name.split(" ", 1)[0] for name in programs), None)


def only_looks(tool: str, arguments: str) -> bool:
    """Whether a call changes nothing, by the names of tools and programs alone: then what it shows is no reason why
    something else should fail no longer."""
    shown = arguments[:SHOWN]
    if shown.count('":') > 1 and (verb := _VERB.search(shown)) is not None:
        return _is_named_so(verb[1])
    command = _COMMAND.search(shown)
    if command is None:
        return _is_named_so(tool[:SHOWN])
    programs = _programs(command[1])
    return bool(programs) and all(_is_look(one) for one in programs) and _WRITES.search(command[1]) is None


@lru_cache(maxsize=256)
def _is_named_so(name: str) -> bool:
    words = {word.lower() for word in _WORD.findall(name)}
    return not words.isdisjoint(_SHOWS) and words.isdisjoint(_ACTS)


def _is_look(command: str) -> bool:
    return _LOOKING_AT.match(command) is not None or command.split(" ", 1)[0] in _PROGRAMS


@lru_cache(maxsize=64)
def _programs(command: str) -> tuple[str, ...]:
    """Each simple command of one line, from its program on; those that only prepare are left out."""
    found = []
    for part in _NEXT.split(command):
        words = _SETTING.sub("", part, count=1).strip().split(None, 2)
        if not words:
            continue
        program = words[0].rpartition("/")[2]
        if program not in _LEADING:
            found.append(f"{program} {words[1]}" if len(words) > 1 else program)
    return tuple(found)
