"""The text of a test that holds a recorded run as data. Pure."""

from __future__ import annotations

import pprint
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from .. import __version__
from ..messages import Event, encode_event
from .recorded import RecordedRun, Step

SHALLOW = 40
"""Levels of nesting up to which a step is written as a literal: Python reads at most 200 brackets in each other."""
DEEPEST = 500
"""Levels of nesting that a test can hold: each takes room on the stack, of which a test runner has used some."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a test is made of: steps of a run recorded elsewhere, or events of a log."""

    run: str
    at: int
    expect: Literal["nudge", "block", "stop", "nothing"]
    steps: list[dict[str, Any] | str] = []
    events: list[Event] = []
    profile: str | None = None
    policy: Mapping[str, Any] | None = None
    poll: tuple[str, ...] = ()
    stable: tuple[str, ...] = ()


def steps_in(run: RecordedRun, at: int) -> list[dict[str, Any] | str]:
    """The calls up to that index, each with what it has beside defaults. Nothing is left out that is judged.

    One that is nested so deeply that Python would not read it is a text in JSON. Raises ``ValueError`` where even that
    could not be read.
    """
    found: list[dict[str, Any] | str] = []
    for position, step in enumerate(run.calls[: at + 1]):
        data = _data(step)
        depth = depth_of(data)
        if depth > DEEPEST:
            raise ValueError(f"call {position} is nested {depth} levels deep, and a test can hold {DEEPEST}")
        found.append(data if depth <= SHALLOW else msgspec.json.encode(data).decode())
    return found


def depth_of(value: Any) -> int:
    """How many lists and objects lie in each other."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list | tuple)]:
        depth += 1
        level = [item for one in level for item in (one.values() if isinstance(one, dict) else one)]
    return depth


def source_of(case: Case) -> str:
    """A file for pytest, ASCII only; what was recorded stands in it as literals and is never code."""
    kind, data = ("of_log", "EVENTS") if case.events else ("of_steps", "STEPS")
    values: list[Any] = [encode_event(event).decode() for event in case.events] if case.events else case.steps
    more = "".join(
        f", {name}={value!a}"
        for name, value in (("profile", case.profile), ("poll", case.poll), ("stable", case.stable))
        if value
    )
    policy = ""
    if case.policy is not None:
        policy, more = f"POLICY = {_literal(dict(case.policy))}\n", f", policy=POLICY{more}"
    return (
        f'"""Made by watchkeeper {__version__} of a recorded run: what should be done at one of its calls."""\n\n'
        f"from watchkeeper.cli import verdicts\n\n"
        f"RUN = {case.run!a}\n"
        f"AT = {case.at}\n"
        f"{policy}"
        f"{data} = {_literal(values)}\n\n\n"
        f"def test_{_name(case.run)}_at_call_{case.at}() -> None:\n"
        f"    done = verdicts.{kind}({data}{more})\n"
        f'    told = "; ".join(f"{{one.action}} at call {{one.position}} by {{one.detector}}" for one in done)\n'
        f"{_assertions(case.expect)}"
    )


def _assertions(expect: str) -> str:
    if expect == "nothing":
        return (
            "    at = [one for one in done if one.position == AT]\n"
            '    assert not at, f"{RUN}: nothing should be done at call {AT}, but there is: {told}"\n'
            '    early = [one for one in done if one.action == "stop" and one.position < AT]\n'
            '    assert not early, f"{RUN}: it should not be stopped before call {AT} either, but there is: {told}"\n'
        )
    rungs = ("nudge", "block", "stop")
    strong = rungs[rungs.index(expect) :]
    wanted = ", ".join(f'"{rung}"' for rung in strong) + ("," if len(strong) == 1 else "")
    return (
        f"    strong = [one for one in done if one.action in ({wanted}) and one.position <= AT]\n"
        f'    assert strong, f"{{RUN}}: at least a {expect} is due by call {{AT}}, '
        "but there is: {told or 'nothing'}\"\n"
    )


def _data(step: Step) -> dict[str, Any]:
    whole = {name: value for name, value in msgspec.structs.asdict(step).items() if value is not msgspec.UNSET}
    if not isinstance(step.result, str) or (step.result_len or 0) <= len(step.result):
        whole.pop("result_sha256", None)  # the digest says something of cut results only
        whole.pop("result_len", None)
    defaults = {"kind": "call", "error": False, "text": "", "args_partial": False, "call_id": step.call_id}
    return {name: value for name, value in whole.items() if value is not None and defaults.get(name, whole) != value}


def _literal(value: Any) -> str:
    text = pprint.pformat(value, indent=1, width=110, sort_dicts=False)
    return text.encode("ascii", "backslashreplace").decode()


def _name(run: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", run.lower()[-60:]).strip("_") or "run"
