"""Asks the person at the terminal about calls that need approval, and says how to permit them where there is none."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

import anyio
import anyio.to_thread

from ..approvals import Answer, Approval, Approver, Scope
from ..errors import ApprovalError
from ..guards.grants import pattern_rule
from ..guards.rule import Pattern
from ..messages import CallEnded, Event
from .printable import duration, exact, one_line
from .view import View

LOOK = 0.1
"""Seconds between two looks whether the question still stands."""
SCOPES: dict[str, Scope] = {"y": "once", "r": "run", "a": "always"}
KEYS = "y: this once   r: for this run   a: always   n: no (n REASON tells the model why)"
KEYS_ONCE = "y: this once   n: no (n REASON tells the model why)"
WHICH = (
    "Which calls? Enter: with exactly these arguments   *: {tool} with any   or patterns, such as {example} "
    "(what they do not name may be anything)"
)


def approver_at(view: View, attended: bool) -> Approver | None:
    """Who is asked about calls of a run: the person at the terminal, if standard input and error are one. Else nobody,
    also where a profile says that somebody is there."""
    if os.name == "posix" and _is_terminal(sys.stdin) and _is_terminal(sys.stderr):
        return Prompt(view, sys.stdin.fileno(), sys.stderr)
    return _no_terminal if attended else None


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # it is closed
        return False


async def _no_terminal(approval: Approval) -> Answer:
    return approval.deny("there is no terminal at which a person could be asked")


class Prompt:
    """An approver: shows the tool and the exact arguments that will be run, and takes a key. One question at a time;
    one that somebody else settles, or whose time is over, ends at once."""

    def __init__(self, view: View, source: int, out: TextIO) -> None:
        self._view = view
        self._source = source
        self._out = out
        self._turn = threading.Lock()

    async def __call__(self, approval: Approval) -> Answer:
        over = threading.Event()
        try:
            return await anyio.to_thread.run_sync(self._ask, approval, over, abandon_on_cancel=True)
        finally:
            over.set()

    def _ask(self, approval: Approval, over: threading.Event) -> Answer:
        while not self._turn.acquire(timeout=LOOK):
            if over.is_set():
                return None
        try:
            if over.is_set():
                return None
            with self._view.aside():
                return self._asked(approval, over)
        finally:
            self._turn.release()

    def _asked(self, approval: Approval, over: threading.Event) -> Answer:
        self._say(*question(approval))
        keys = KEYS_ONCE if approval.once else KEYS
        self._forget_typed()
        while (said := self._line(keys, over)) is not None:
            key, _, rest = said.partition(" ")
            key = key.lower()
            if key in ("n", "no"):
                return approval.deny(rest.strip())
            if key in ("y", "yes") and not rest:
                return approval.allow()
            if key in SCOPES and not rest and not approval.once:
                return self._wider(approval, SCOPES[key], over)
            self._say("That is none of the keys.")
        self._say("")
        return None if over.is_set() else approval.deny()

    def _wider(self, approval: Approval, scope: Scope, over: threading.Event) -> Answer:
        values = json.loads(approval.arguments)
        example = next((f"{name}={_example(value)}" for name, value in values.items()), "NAME=GLOB")
        which = WHICH.format(tool=approval.tool, example=example)
        while (said := self._line(which, over)) is not None:
            try:
                pattern = pattern_of(said)
                if pattern is not None:
                    pattern_rule(approval.tool, values.keys(), values, pattern)
                return approval.allow(scope, pattern)
            except ApprovalError as error:
                self._say(exact(str(error)))
        return None if over.is_set() else approval.deny()

    def _say(self, *lines: str) -> None:
        self._out.write("".join(f"{line}\n" for line in lines))
        self._out.flush()

    def _line(self, keys: str, over: threading.Event) -> str | None:
        """One line of what is typed; None at its end, or once the question is over."""
        self._out.write(f"{keys}\n> ")
        self._out.flush()
        typed = b""
        while not over.is_set():
            ready, _, _ = select.select([self._source], [], [], LOOK)
            if not ready:
                continue
            piece = os.read(self._source, 4096)
            if not piece:
                return None
            typed += piece
            if b"\n" in typed:
                return typed.partition(b"\n")[0].decode("utf-8", "replace").strip()
        return None

    def _forget_typed(self) -> None:
        """What was typed before the question was asked is no answer to it."""
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(self._source, termios.TCIFLUSH)


def question(approval: Approval) -> Iterator[str]:
    """What a person reads who is asked about a call, or about an answer."""
    size, answer = len(approval.arguments.encode()), approval.of_answer
    what = "the answer" if answer else exact(approval.tool)
    yield ""
    yield f"{what} is to {'count' if answer else 'be run'}{f': {one_line(approval.why, 300)}' if approval.why else ''}"
    yield exact(approval.arguments)
    yield (
        f"({what}, {size:,} bytes, SHA-256 {approval.arguments_hash[:16]}…; without an answer within "
        f"{duration(approval.seconds)} it {'does not count' if answer else 'is not run'})"
    )


def pattern_of(said: str) -> Mapping[str, Pattern] | None:
    """Patterns as a person types them, ``path=notes/* mode=a``; None: exactly the arguments; empty: any. Raises
    :class:`ApprovalError` for what is none."""
    if not said:
        return None
    if said == "*":
        return {}
    try:
        parts = [part.partition("=") for part in shlex.split(said)]
    except ValueError as error:
        raise ApprovalError(f"that cannot be read: {error}", "pattern") from error
    if not all(name and equals for name, equals, _ in parts):
        raise ApprovalError("a pattern is NAME=GLOB, such as path=notes/*", "pattern")
    return {name: glob for name, _, glob in parts}


def _example(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return exact(f"{text[:12]}*") if text and " " not in text[:12] else "*"


class Unasked:
    """Follows a run: the tools whose calls were turned away because there was nobody to ask."""

    def __init__(self) -> None:
        self.tools: dict[str, str | None] = {}
        self.folds: dict[type[Event], Callable[[Any], None]] = {CallEnded: self._ended}

    def _ended(self, event: CallEnded) -> None:
        if event.result.error == "no_approval":
            self.tools.setdefault(event.result.tool, event.result.by)

    def told(self, irreversible: Callable[[str], bool]) -> Iterator[str]:
        """How to permit them, a line each."""
        for name in self.tools:
            told = f"{name} needs approval, and there was no terminal to ask at: run this at a terminal"
            if not irreversible(name):
                rule = f'[[rules]] decision = "allow", approved = true, tool = "{name}"'
                told += f", or permit it in a policy (--policy FILE) with {rule}"
            yield told
