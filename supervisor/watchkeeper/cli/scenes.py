"""The four runs of ``watchkeeper demo``: what the model is scripted to say, and the facts that each run must show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..messages import (
    Blocked,
    CallEnded,
    CallStarted,
    Event,
    ModelPartialDropped,
    ModelRetried,
    Nudged,
    Outcome,
    Stopped,
)
from ..testing.server import CallTools, Drop, Received, Say, Script, rate_limited

E = TypeVar("E", bound=Event)

RETRY_AFTER = 1.0
LOST = "I looked into it, and what I found out is that the"
PROMPT = "You work on the files of a small project. Use the tools; answer when you have checked the result."


@dataclass(frozen=True, kw_only=True)
class Played:
    """A run that has ended, with everything that is known about it."""

    outcome: Outcome
    events: Sequence[Event]
    folder: Path
    requests: Sequence[Received]
    """What the model's server was asked for this run."""
    latency: float | None
    """Seconds from the cancel, in another thread, to the outcome."""

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if type(event) is kind]

    def ended(self, tool: str, kind: str = "finished") -> int:
        return sum(1 for event in self.of(CallEnded) if event.result.tool == tool and event.result.kind == kind)

    def side_by_side(self, *tools: str) -> int:
        """How many calls of these tools ran at the same time, at most."""
        running = most = 0
        for event in self.events:
            if isinstance(event, CallStarted) and event.tool in tools:
                running += 1
                most = max(most, running)
            elif isinstance(event, CallEnded) and event.result.tool in tools and event.result.kind != "refused":
                running -= 1
        return most

    def verdicts(self) -> list[tuple[str, int]]:
        """Nudges, blocks and the stop, each with the number of calls that had ended by then."""
        ended, found, blocked = 0, list[tuple[str, int]](), False
        for event in self.events:
            if isinstance(event, CallEnded):
                ended += 1
            elif isinstance(event, Blocked):
                found.append(("block", ended))
                blocked = True
            elif isinstance(event, Nudged):
                if not blocked:  # a block comes with a word to the model; that is no nudge of its own
                    found.append(("nudge", ended))
                blocked = False
            elif isinstance(event, Stopped):
                found.append(("stop", ended))
        return found


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One run: ``check`` names what did not come as expected, ``happened`` says what did, both from the facts."""

    name: str
    about: str
    task: str
    script: Script
    check: Callable[[Played], Iterable[str]]
    happened: Callable[[Played], str]
    tools: tuple[str, ...] = ("files",)
    files: dict[str, str] = field(default_factory=dict)
    agent: dict[str, Any] = field(default_factory=dict)
    cancel_at: int | None = None
    """Cancel from outside as soon as so many calls are at work."""


def _how(played: Played) -> str:
    return "answered" if played.outcome.status == "completed" else played.outcome.status


def _unless(true: bool, problem: str) -> list[str]:
    return [] if true else [problem]


# -- healthy ---------------------------------------------------------------------------------------------------------

_SERVICES = ("api", "mail")
_READ = [("read_file", {"path": f"{name}.toml"}) for name in _SERVICES]
_EDIT = [("edit_file", {"path": f"{name}.toml", "old": "timeout = 10", "new": "timeout = 30"}) for name in _SERVICES]


def _check_healthy(played: Played) -> Iterable[str]:
    yield from _unless(played.outcome.status == "completed", "it did not complete")
    for name in _SERVICES:
        says = (played.folder / f"{name}.toml").read_text("utf-8")
        yield from _unless("timeout = 30\n" in says, f"{name} is not edited")
    yield from _unless(played.side_by_side("read_file", "list_dir") > 1, "no two reads ran side by side")
    yield from _unless(played.side_by_side("edit_file") == len(_EDIT), "the edits did not run side by side")
    yield from _unless(bool(played.outcome.evidence), "the answer rests on nothing")
    yield from _unless(not played.verdicts(), "the watchdog spoke")


def _healthy(played: Played) -> str:
    reads, edits = played.side_by_side("read_file", "list_dir"), played.side_by_side("edit_file")
    return f"{reads} reads, then {edits} edits side by side; {_how(played)}"


# -- repeats ---------------------------------------------------------------------------------------------------------


def _check_repeats(played: Played) -> Iterable[str]:
    expected = [("nudge", 3), ("block", 5), ("stop", 8)]
    yield from _unless(played.verdicts() == expected, f"the verdicts are {played.verdicts()}, not {expected}")
    yield from _unless((played.outcome.status, played.outcome.reason) == ("stopped", "loop"), "it was not stopped")
    ran, refused = played.ended("read_file"), played.ended("read_file", "refused")
    yield from _unless((ran, refused) == (5, 3), f"{ran} calls ran and {refused} were refused, not 5 and 3")


def _repeats(played: Played) -> str:
    same = Counter((event.result.tool, event.arguments) for event in played.of(CallEnded)).most_common(1)
    return f"the same call {same[0][1]} times" if same else "no call"


# -- endless ---------------------------------------------------------------------------------------------------------

_SLEEPERS = 3


def _check_endless(played: Played) -> Iterable[str]:
    outcome, latency = played.outcome, played.latency
    yield from _unless(outcome.status == "cancelled", "it was not cancelled")
    yield from _unless(latency is not None and latency < 1, f"the cancel took {latency} s")
    yield from _unless(played.ended("sleep", "cancelled") == _SLEEPERS, "not all calls were cancelled")
    yield from _unless(played.ended("list_dir") == 1, "finished work was lost")
    yield from _unless(len(played.requests) == 2, "the model was asked again after the cancel")


def _endless(played: Played) -> str:
    kinds = Counter(call.kind for call in played.outcome.calls)
    return f"cut off in {kinds['cancelled']} calls by another thread, {kinds['finished']} finished one kept"


# -- rough -----------------------------------------------------------------------------------------------------------


def _check_rough(played: Played) -> Iterable[str]:
    tries = played.of(ModelRetried)
    kinds = [event.error for event in tries]
    expected = ["rate_limited", "connection", "rate_limited"]
    yield from _unless(kinds == expected, f"the failed tries are {kinds}, not {expected}")
    yield from _unless(bool(tries) and tries[0].wait >= RETRY_AFTER, "Retry-After was not honoured")
    yield from _unless(len(played.of(ModelPartialDropped)) == 1, "no broken reply was dropped")
    kept = any(LOST in message.content for message in played.outcome.history)
    yield from _unless(not kept, "the broken reply came into the conversation")
    yield from _unless(played.outcome.status == "completed", "it did not complete")


def _rough(played: Played) -> str:
    kinds = Counter(event.error for event in played.of(ModelRetried))
    broken, waited = len(played.of(ModelPartialDropped)), sum(event.wait for event in played.of(ModelRetried))
    return f"{kinds['rate_limited']} × 429, {broken} broken reply, {waited:.1f} s of waiting; {_how(played)}"


SCENES = (
    Scene(
        name="healthy",
        about="reads, edits and verifies files, as far as possible side by side; its answer must rest on a fresh read",
        task="Raise the timeout of both services to 30 seconds and check the result.",
        files={
            "README.md": "Every service has a file of its own. Timeouts are in seconds.\n",
            **{f"{name}.toml": f'name = "{name}"\ntimeout = 10\nretries = 3\n' for name in _SERVICES},
        },
        script=[
            CallTools(("list_dir", {}), ("read_file", {"path": "README.md"}), *_READ, text="I look at what is there."),
            CallTools(*_EDIT, text="Two files, two edits: they do not touch each other."),
            CallTools(*_READ, text="I check what the files say now."),
            Say("Both services now have a timeout of 30 seconds; I have read both files again."),
        ],
        agent={"required": ("edit_file", "read_file"), "fresh": ("read_file",), "instructions": PROMPT},
        check=_check_healthy,
        happened=_healthy,
    ),
    Scene(
        name="repeats",
        about="reads a file that is not there, again and again, whatever it is told",
        task="Tell me what release-notes.txt says.",
        files={"notes.txt": "The release is on Monday.\n"},
        script=lambda body, n: CallTools(("read_file", {"path": "release-notes.txt"})),
        agent={"instructions": PROMPT},
        check=_check_repeats,
        happened=_repeats,
    ),
    Scene(
        name="endless",
        about="waits for something that never comes; after a moment somebody outside has had enough",
        task="Wait until report.txt is there, then summarise it.",
        tools=("files", "clock"),
        script=lambda body, n: CallTools(
            *([("list_dir", {})] if n == 1 else [("sleep", {"seconds": 300 - i}) for i in range(_SLEEPERS)])
        ),
        agent={"instructions": PROMPT},
        cancel_at=_SLEEPERS,
        check=_check_endless,
        happened=_endless,
    ),
    Scene(
        name="rough",
        about="meets a server that is overloaded (429 with Retry-After) and breaks off in the middle of a reply",
        task="What does notes.txt say?",
        files={"notes.txt": "The release is on Monday.\n"},
        script=[
            rate_limited(RETRY_AFTER),
            Drop(after_text=LOST),
            CallTools(("read_file", {"path": "notes.txt"})),
            rate_limited(0.3),
            Say("It says that the release is on Monday."),
        ],
        agent={"required": ("read_file",), "instructions": PROMPT},
        check=_check_rough,
        happened=_rough,
    ),
)
