"""Checks of arguments, ready-made: ``@tool(checks={"query": read_only_sql, "path": inside(root)})``.

A check takes the value of an argument and says what is wrong with it, or None. What it is given is written by a model,
and hostile. None of them is the only line: give a database a user who may only read, and open files by handles.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from typing import Any

Check = Callable[[Any], str | None]

MAX_SQL = 100_000
"""Characters of a statement; longer ones are refused unread."""
_FIRST = frozenset(("select", "with", "values", "explain", "show", "describe", "desc"))
_WRITING = frozenset(
    ("insert", "update", "delete", "merge", "into", "create", "alter", "drop", "truncate", "grant", "revoke", "attach")
) | frozenset(("detach", "execute", "exec", "call", "copy", "vacuum", "pragma", "prepare", "handler", "lock"))
_FUNCTIONS = re.compile(
    r"load_(?:extension|file)|readfile|writefile|edit|fts3_tokenizer|sleep|benchmark|get_lock|setval|nextval|set_config"
    r"|pg_(?:read|write|ls|stat_file|sleep|terminate|cancel|reload|rotate|advisory|try_advisory|logical|create|drop|switch"
    r"|promote|notify|file).*|lo_.*|dblink.*|query_to_xml.*|cursor_to_xml.*|xp_.*|sp_.*|open(?:rowset|datasource|query)"
    r"|utl_.*|dbms_.*"
)
"""Functions of the usual databases that read files, run other statements, wait, or change something."""
_TOKEN = re.compile(
    r"""
      (?P<space> \s+ | --(?=\s|\Z)[^\r\n]* | /\*(?!M?!)(?:(?!/\*).)*?\*/ )
    | (?P<text> '(?:[^'\\]|'')*' | "(?:[^"\\]|"")*" | `(?:[^`\\]|``)*` )
    | (?P<name> \[[^\[\]'"`\\]*\] )
    | (?P<word> [^\W\d]\w* )
    | (?P<end> ; )
    | (?P<other> \d\w* | \$\d+ | -(?!-) | /(?!\*) | [(),.*+<>=!%|&^~:@?{}] )
    """,
    re.VERBOSE | re.DOTALL,
)


def non_empty(value: Any) -> str | None:
    """A text of more than blanks and invisible characters; a list or a table with something in it."""
    if isinstance(value, str):
        if any(not character.isspace() and unicodedata.category(character)[0] != "C" for character in value):
            return None
    elif value is not None and (not hasattr(value, "__len__") or len(value)):
        return None
    return "it must not be empty"


def read_only_sql(value: Any) -> str | None:
    """One statement of SQL that only reads, in whatever dialect.

    What dialects read in different ways (a backslash in a text, ``#``, dollar quotes, nested and executable comments,
    quotes in brackets) is refused: it could be read as a text here and as a statement there.
    """
    if not isinstance(value, str):
        return "it must be a text with one SQL statement"
    if len(value) > MAX_SQL:
        return f"it is longer than {MAX_SQL} characters"
    words: list[str] = []
    place, over = 0, False
    while place < len(value):
        found = _TOKEN.match(value, place)
        if found is None or "\r" in found[0].replace("\r\n", ""):
            return f"it holds something that databases read in different ways, at {value[place : place + 12]!r}"
        place, kind = found.end(), found.lastgroup
        if kind == "space":
            continue
        if over:
            return "only one statement is allowed"
        if kind == "end":
            over = True
        elif kind == "word":
            word = found[0].lower()
            if word in ("q", "nq") and value[place : place + 1] == "'":
                return "texts in q'…' are not allowed"
            words.append(word)
            if problem := _word(word, value, place, first=len(words) == 1):
                return problem
        elif kind != "other" and not words:
            return _NOT_READING
    return None if words else _NOT_READING


_NOT_READING = f"only reading is allowed: it must begin with one of {', '.join(sorted(_FIRST)).upper()}"


def _word(word: str, value: str, place: int, *, first: bool) -> str | None:
    if first:
        return None if word in _FIRST else _NOT_READING
    if word in _WRITING:
        return f"only reading is allowed, and {word.upper()} is more than that (a column of that name goes in quotes)"
    if _FUNCTIONS.fullmatch(word) and value[place:].lstrip()[:1] == "(":
        return f"the function {word[:40]} is not allowed"
    return None


def inside(root: str | os.PathLike[str]) -> Check:
    """A path that leads to a place below ``root``, links followed; a relative one is taken from there.

    That is how it is when it is asked: whoever can change links meanwhile can get past it.
    """
    top = os.path.realpath(root)

    def check(value: Any) -> str | None:
        if not isinstance(value, str) or not value or "\0" in value or len(value) > 4096:
            return "it must be a path"
        try:
            real = os.path.realpath(os.path.join(top, value))
        except (OSError, ValueError):
            return "it must be a path"
        if real == top or real.startswith(top.rstrip("/") + "/"):
            return None
        return f"it leads outside of the root directory ({top})"

    return check
