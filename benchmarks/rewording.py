"""Loops that do not look equal: calls reworded, requoted or resliced, and one failure under many arguments.

Pure and seeded. What is said stays the same; so does the result, or its emptiness, but for an echo of the question.
"""

# ruff: noqa: E501 - what the tools print is kept line by line

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import msgspec

from watchkeeper.cli.recorded import Step

SYNONYMS = (
    ("find", "search for", "look for", "locate", "look up", "show me"),
    ("get", "retrieve", "fetch", "obtain"),
    ("check", "verify", "confirm", "make sure of"),
    ("customer", "user", "client", "member"),
    ("order", "purchase"),
    ("flight", "plane", "trip"),
    ("cancel", "call off", "revoke"),
    ("policy", "rules", "guidelines"),
    ("refund", "reimbursement", "money back"),
    ("wants", "would like", "asks", "requests"),
    ("change", "modify", "update", "alter"),
    ("error", "failure", "problem", "issue"),
    ("function", "method", "routine"),
    ("how to", "ways to", "steps to", "guide to"),
    ("documentation", "docs", "reference", "manual"),
    ("defined", "declared", "implemented"),
    ("list", "enumerate", "show"),
    ("all", "every", "any"),
    ("current", "latest", "present", "most recent"),
    ("company", "firm", "business"),
    ("price", "cost", "fee"),
    ("because", "since", "as"),
    ("need to", "have to", "must", "should"),
)
_OTHERS = {word: tuple(other for other in group if other != word) for group in SYNONYMS for word in group}
_WORDS = re.compile(r"\b(" + "|".join(sorted(map(re.escape, _OTHERS), key=len, reverse=True)) + r")\b", re.IGNORECASE)
POLITE = ("please ", "Please ", "Could you ", "I would like to ", "Now, ", "Let me ", "OK, ", "again: ", "Next, ")
TAILS = ("", ".", "!", "?", " please", ", thanks", " (again)", " now", " for me", " once more", " in detail")

SENTENCES = (
    "find the refund policy for a cancelled order of a gold customer",
    "how to configure the retry timeout in the http adapter of the payments service",
    "get all open issues about the login error, sorted by date",
    "check where the function parse_header is defined and list every call of it",
    "latest annual revenue of the company Acme Robotics, current fiscal year",
    "documentation of the flag strict_mode because the build shows an error",
    "look for the customer named Ana Souza in Porto and get the current address",
    "price of a direct flight from Lisbon to Oslo, need to change it on Friday",
    "who wrote the paper on sparse evidence in agent runs and where was it published",
    "flag hidden in the firmware image, check strings and all base64 parts",
)
SEARCHES = (("web_search", "query"), ("search_docs", "q"), ("kb_search", "question"), ("ask_expert", "prompt"))
NOTES = ("explanation", "reason", "note", "thought", "justification", "description")
EMPTIES = ("", "[]", "No results found.", "null", '{"results": [], "total": 0}', "(no output)", "None", "0 matches")
HITS = (
    "1. Getting started - https://docs.example.com/start\n2. FAQ - https://docs.example.com/faq\n3. Changelog",
    '{"results": [{"title": "Getting started", "url": "https://docs.example.com/start"}], "total": 1}',
    'I could not find anything specific. The closest article is "Returns and exchanges" (kb-104).',
)

Once = Callable[[], tuple[Step, str]]
"""A call of the next lap, and its result."""


def near(body: list[Step], rng: random.Random) -> tuple[str, list[Once]]:
    """For each call of the body a maker of near-equal calls, all of one style where the calls allow it."""
    result = rng.choice(("same", "same", "same", "empty", "empty", "echo", "scores"))
    wish = rng.choice(("own", "own", "search", "note"))
    made = [_near(call, wish, result, rng) for call in body]
    styles = sorted({style for style, _ in made})
    return f"{' and '.join(styles)}; {result} result", [once for _, once in made]


def _near(call: Step, wish: str, result: str, rng: random.Random) -> tuple[str, Once]:
    args = call.args if isinstance(call.args, dict) else {"input": call.args}
    style, change = _style(call, args, wish, rng)
    if style == "search":
        tool, name = rng.choice(SEARCHES)
        sentence = rng.choice(SENTENCES)
        call, args = msgspec.structs.replace(call, tool=tool, args={name: sentence}, error=False), {name: sentence}
        change = _texts(args, rng, [name])
        own = rng.choice(HITS)
    else:
        own = call.result if isinstance(call.result, str) else json.dumps(call.result)
    empty = rng.choice(EMPTIES)
    shown = empty if result == "empty" else own
    seen: set[str] = set()

    def once() -> tuple[Step, str]:
        for _ in range(20):
            new = change(args)
            written = json.dumps(new, sort_keys=True)
            if written not in seen:
                break
        seen.add(written)
        said = next((value for value in new.values() if isinstance(value, str)), "")
        text = shown
        if result == "echo":
            text = f"Results for {json.dumps(said[:120])}:\n{shown}"
        elif result == "scores":
            text = f"{shown}\nscore: {rng.uniform(0.3, 0.9):.4f}"
        return msgspec.structs.replace(call, args=new), text

    return style, once


ChangeArguments = Callable[[dict[str, Any]], dict[str, Any]]


def _style(call: Step, args: dict[str, Any], wish: str, rng: random.Random) -> tuple[str, ChangeArguments]:
    if wish == "search":
        return "search", lambda args: args
    texts = [name for name, value in args.items() if isinstance(value, str)]
    command = next((name for name in ("command", "cmd") if name in texts), None)
    if wish == "own":
        if command is not None:
            return "command", _commands(command, args[command], rng)
        free = [name for name in texts if _is_prose(args[name])]
        if free:
            return "prose", _texts(args, rng, free)
        code = [name for name in texts if "(" in args[name] or "\n" in args[name]]
        if code:
            return "code", _codes(code[0], rng)
        short = [name for name in texts if name in ("q", "query", "pattern", "search", "name", "sql")]
        if short:
            return "term", _terms(short[0], rng)
    note = rng.choice(NOTES)
    sentence = rng.choice(SENTENCES)
    return "note", lambda args: {**args, note: reworded(sentence, rng)}


def _is_prose(text: str) -> bool:
    words = text.split()
    return len(words) >= 4 and sum(word.strip(".,?!'\"").isalpha() for word in words) >= 0.7 * len(words)


def reworded(text: str, rng: random.Random) -> str:
    """The text in other words: clauses in another order, synonyms, courtesies, case, marks and quotes."""
    clauses = re.split(r",\s+", text.rstrip(".!?"))
    if len(clauses) > 1 and rng.random() < 0.4:
        rng.shuffle(clauses)
    joined = ", ".join(clauses)
    joined = _WORDS.sub(lambda found: rng.choice((found[0], *_OTHERS.get(found[0].lower(), ()))), joined)
    head, preposition, tail = _last_phrase(joined)
    if preposition and rng.random() < 0.3:
        joined = f"{preposition} {tail}, {head}"
    if rng.random() < 0.2:
        joined = joined.replace(" the ", " ").replace(" a ", " ")
    if rng.random() < 0.25:
        longest = max(joined.split(), key=len)
        joined = joined.replace(longest, rng.choice(('"{}"', "'{}'", "“{}”")).format(longest), 1)
    joined = rng.choice(("", "", "", rng.choice(POLITE))) + joined + rng.choice(TAILS)
    return rng.choice((str, str, str.capitalize, str.lower))(joined)


def _last_phrase(text: str) -> tuple[str, str, str]:
    """What stands before the last preposition, that, and what comes after it."""
    found = [*re.finditer(r" (of|in|for|from|on|about|because) ", text)]
    return (text[: found[-1].start()], found[-1][1], text[found[-1].end() :]) if found else (text, "", "")


def _texts(args: dict[str, Any], rng: random.Random, names: list[str]) -> ChangeArguments:
    return lambda args: {**args, **{name: reworded(args[name], rng) for name in names}}


def _terms(name: str, rng: random.Random) -> ChangeArguments:
    """A search term, as a model tries it again: quotes, case, stars, parts, options."""

    def change(args: dict[str, Any]) -> dict[str, Any]:
        term = str(args[name])
        forms = (
            *(f'"{term}"', f"{term}*", f"*{term}*", term.lower(), term.upper(), f"{term}(", f" {term}", f"{term}$"),
            *(f"^{term}", f"\\b{term}\\b", f"{term} ", f"def {term}", f"class {term}", f"{term}.*", f"({term})"),
        )
        new = {**args, name: rng.choice(forms)}
        if rng.random() < 0.4:
            option, values = rng.choice(
                (("limit", (10, 20, 50)), ("case_sensitive", (True, False)), ("regex", (True, False)))
            )
            new[option] = rng.choice(values)
        return new

    return change


def _codes(name: str, rng: random.Random) -> ChangeArguments:
    """A call or a change written as code: quotes, blanks, comments, names of parameters."""

    def change(args: dict[str, Any]) -> dict[str, Any]:
        text = str(args[name])
        rows = text.split("\n")
        if len(rows) > 2:
            at = rng.randrange(1, len(rows))
            rows[at] = rows[at] + rng.choice(
                (" ", "  ", "\t", f"  # {reworded('check the current value', rng)}", "  // fixed")
            )
            text = "\n".join(rows)
        if rng.random() < 0.4:
            text = text.replace('"', "'") if rng.random() < 0.5 else text.replace("'", '"')
        if rng.random() < 0.5:
            text = text.replace("=", " = ", 1) if rng.random() < 0.5 else text.replace("(", "( ", 1)
        if rng.random() < 0.3:
            text = re.sub(r"\((\w+) ?= ?", "(", text, count=1)
        return {**args, name: text + " " * rng.randrange(0, 4) + rng.choice(("", ";", "\n"))}

    return change


def _commands(name: str, command: str, rng: random.Random) -> ChangeArguments:
    """A command as a model tries it again: other slices, flags in another order, quotes, pipes that do not matter."""
    end = command[-1] if command[-1:] in "'\"" else ""
    inner = command[: -len(end)] if end else command

    def slice_(text: str) -> str:
        first = rng.randrange(1, 90)
        return text + rng.choice(
            (
                f" | head -n {rng.randrange(5, 400)}",
                f" | head -{rng.randrange(5, 400)}",
                f" | tail -n {rng.randrange(5, 400)}",
                f" | sed -n {first},{first + rng.randrange(20, 300)}p",
                f" 2>&1 | head -{rng.randrange(5, 400)}",
                " 2>/dev/null",
                " 2>&1 | cat",
                " || true",
                " | sort",
                " ; echo $?",
            )
        )

    def flags(text: str) -> str:
        found = re.search(r" -([A-Za-z]{2,6})\b", text)
        if found is None:
            return text
        letters = list(found[1])
        rng.shuffle(letters)
        new = "".join(letters) if rng.random() < 0.5 else " -".join(letters)
        return text.replace(found[0], f" -{new}", 1)

    def sliced(text: str) -> str:
        """The slice that the command has already, moved."""
        number = rng.randrange(20, 400)
        if re.search(r"\d+,\d+p", text):
            return re.sub(r"\d+,\d+p", f"{number},{number + rng.randrange(40, 300)}p", text, count=1)
        return re.sub(r"(head|tail) (-n ?|-)\d+", lambda found: f"{found[1]} {found[2]}{number}", text, count=1)

    def change(args: dict[str, Any]) -> dict[str, Any]:
        text = flags(inner) if rng.random() < 0.4 else inner
        text = sliced(text) if rng.random() < 0.5 else text
        if text == inner or rng.random() < 0.5:
            text = slice_(text)
        return {**args, name: text + end}

    return change


# -- one failure under many arguments --------------------------------------------------------------------------------

FAILURES: dict[str, str] = {
    "python traceback": (
        'Traceback (most recent call last):\n  File "{path}", line {line}, in <module>\n    main()\n'
        '  File "{path}", line {number}, in main\n    return open(name)\n'
        "FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    ),
    "key error": "Traceback (most recent call last):\n  File \"app.py\", line {line}, in load\nKeyError: '{word}'",
    "not found": "Error: {word} {id} not found",
    "not found json": '{{"error": {{"code": 404, "message": "{word} {id} does not exist", "requestId": "{hex}"}}}}',
    "grep": "grep: {path}: No such file or directory",
    "sed": "sed: can't read {path}: No such file or directory",
    "shell": "/bin/bash: line {line}: {word}: command not found",
    "syntax": '  File "{path}", line {line}\n    {word} = = {number}\n        ^\nSyntaxError: invalid syntax',
    "rust": "error[E0425]: cannot find value `{word}` in this scope\n --> {path}:{line}:{number}",
    "compiler": "{path}:{line}:{number}: error: '{word}' undeclared (first use in this function)\nmake: *** [Makefile:{line}: all] Error 1",
    "java": (
        'Exception in thread "main" java.lang.NullPointerException: Cannot invoke "{word}.size()"\n'
        "\tat com.example.Main.run(Main.java:{line})\n\tat com.example.Main.main(Main.java:{number})"
    ),
    "sql": 'ERROR:  relation "{word}" does not exist\nLINE {line}: SELECT * FROM {word} WHERE id = {number}\n                      ^',
    "refused": "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', {port})",
    "timeout": "Error: request to https://api.example.com/{word}/{number} timed out after {number}.{line} s",
    "status": "HTTP 500 Internal Server Error (request id {hex}, {number} ms)",
    "rate": '{{"error": "rate_limit_exceeded", "message": "Try again in {number} ms", "request_id": "{hex}"}}',
    "validation": "Error: 1 validation error for Arguments\n{word}\n  Input should be a valid integer [type=int_parsing, input_value='{id}']",
    "edit": "Error: old_string not found in {path} (searched {number} lines)",
    "access": "PermissionError: [Errno 13] Permission denied: '{path}'",
    "tool server": "MCP error -32602: Tool call failed: invalid params at /{word}/{line}: expected string, got {number}",
}
WORDS = ("total", "invoice", "cart", "session", "header", "account", "shipment", "config", "worker", "token", "index")


class Failing:
    """One tool that fails in one way, whatever it is asked: what it names is what it was asked for."""

    def __init__(self, call: Step, rng: random.Random) -> None:
        self._rng = rng
        self._call = call
        self.variant = rng.choice(sorted(FAILURES))
        self._text = FAILURES[self.variant]
        args = call.args if isinstance(call.args, dict) else {"input": call.args}
        self._args = args if args else {"name": "x"}
        self._which = rng.choice(list(self._args))
        self._word = rng.choice(WORDS)
        self._asked = next((slot for slot in ("path", "id", "number") if f"{{{slot}" in self._text), "path")

    def once(self) -> tuple[Step, str]:
        rng = self._rng
        path = "/".join(rng.choices(WORDS, k=rng.randrange(1, 4))) + rng.choice((".py", ".json", ".ts", ".md"))
        ids = (f"#W{rng.randrange(10**6, 10**7)}", f"{rng.randrange(10**5)}", f"usr_{rng.getrandbits(32):08x}")
        values: dict[str, Any] = {
            "path": rng.choice(("/app/", "", "src/", "/testbed/")) + path,
            "line": rng.randrange(2, 400),
            "number": rng.randrange(2, 900),
            "word": self._word,
            "id": rng.choice(ids),
            "hex": f"{rng.getrandbits(64):016x}",
            "port": rng.randrange(32768, 60999),
        }
        old, value = self._args[self._which], values[self._asked]
        if isinstance(old, str) and " " in old:
            end = old[-1] if old[-1] in "'\"" else ""
            value = f"{old.rsplit(' ', 1)[0]} {value}{end}"
        call = msgspec.structs.replace(self._call, args={**self._args, self._which: value}, error=True)
        return call, self._text.format(**values)
