"""Published rules of other agents against loops, stated anew: what each would have done to a run, call by call. Pure.

These are our own statements of rules that are described in the sources named with each: written from descriptions,
none of the code is theirs, and simplified where a rule needs what a record lacks (time, screens, a second model). Read
a row as "this rule on these data", not as a verdict on a product. Where a rule is off by default it is taken as if it
was on; where a first finding only leads to a word to the model it is a ``warn``, as a nudge of ours is.

What a rule sees of a run is all that a record has: :class:`Seen`. One instance follows one agent context.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

Act = Literal["warn", "block", "stop"]
STRENGTH = {None: 0, "warn": 1, "block": 2, "stop": 3}


class Seen(msgspec.Struct, dict=True):
    """A call with its result, as a rule sees it."""

    tool: str
    args: Any
    result: str
    error: bool = False
    text: str = ""
    """What the model said before it."""

    @cached_property
    def written(self) -> str:
        """The arguments as the model wrote them: keys in its order."""
        return f"{self.tool}:{json.dumps(self.args, ensure_ascii=False, default=str)}"

    @cached_property
    def key(self) -> str:
        """Tool and canonical arguments: keys sorted."""
        return f"{self.tool}:{json.dumps(self.args, ensure_ascii=False, sort_keys=True, default=str)}"

    @cached_property
    def outcome(self) -> str:
        return hashlib.sha256(self.result.encode("utf-8", "replace")).hexdigest()

    @property
    def command(self) -> str | None:
        args = self.args if isinstance(self.args, dict) else {}
        return next((args[name] for name in ("command", "cmd") if isinstance(args.get(name), str)), None)


class Rule:
    """Follows one agent context. ``polls``: tools that are declared to be asked again, for rules that know of such."""

    source = ""

    def __init__(self, polls: Sequence[str] = ()) -> None:
        self.polls = frozenset(polls)
        self.begin()

    def begin(self) -> None:
        """Forget everything."""

    def call(self, seen: Seen) -> Act | None:
        """The call has ended (a rule that blocks has let it pass before)."""
        return None

    def round(self, calls: Sequence[Seen]) -> Act | None:
        """All calls of one reply have ended."""
        return max((self.call(seen) for seen in calls), key=STRENGTH.__getitem__, default=None)

    def user(self) -> None:
        """The user has spoken."""
        self.begin()

    def said(self, text: str) -> Act | None:
        """The model has replied with text alone."""
        return None

    def streamed(self, text: str) -> Act | None:
        """A piece of text came in."""
        return None

    def compacted(self) -> Act | None:
        """The conversation was condensed."""
        return None


def run_length(items: Iterable[Hashable]) -> int:
    """How many equal ones stand at the end."""
    backwards = list(items)[::-1]
    return next((at for at, item in enumerate(backwards) if item != backwards[0]), len(backwards))


def laps(items: Iterable[Hashable], period: int) -> int:
    """How often the last so many repeat back to back at the end."""
    known = list(items)
    body, count = known[-period:], 0
    while len(known) >= (end := (count + 1) * period) and known[len(known) - end :][:period] == body:
        count += 1
    return count


# -- what anyone would write first -----------------------------------------------------------------------------------


class ThirdEqualCall(Rule):
    source = "the rule that everybody writes first: the third equal call in a row"

    def begin(self) -> None:
        self._calls: deque[str] = deque(maxlen=3)

    def call(self, seen: Seen) -> Act | None:
        self._calls.append(seen.key)
        return "stop" if run_length(self._calls) >= 3 else None


class TwentySteps(Rule):
    source = "a plain cap of 20 calls a user turn"

    def begin(self) -> None:
        self._count = 0

    def call(self, seen: Seen) -> Act | None:
        self._count += 1
        return "stop" if self._count > 20 else None


# -- coding agents ---------------------------------------------------------------------------------------------------


class Gemini(Rule):
    source = "google-gemini/gemini-cli packages/core/src/services/loopDetectionService.ts @5411f11"

    def begin(self) -> None:
        self._keys: deque[str] = deque(maxlen=25)
        self._found = 0
        self._text, self._fenced = "", False

    def call(self, seen: Seen) -> Act | None:
        """A cycle of period 1 to 5 five times; arguments as written, results do not count. The first time the model
        gets a word, the second time its turn ends (the history is kept: the generous reading)."""
        self._text = ""
        self._keys.append(hashlib.sha256(seen.written.encode("utf-8", "replace")).hexdigest())
        return self._caught() if any(laps(self._keys, period) >= 5 for period in range(1, 6)) else None

    def streamed(self, text: str) -> Act | None:
        """A chunk of 50 characters ten times, on average at most 250 characters apart."""
        if re.search(r"^(```|\s*[*+-] |#|\||>|\s*\d+\. )", text, re.MULTILINE):
            self._text, self._fenced = "", self._fenced ^ (text.count("```") % 2 == 1)
            return None
        if self._fenced:
            return None
        self._text = (self._text + text)[-5000:]
        places: defaultdict[str, list[int]] = defaultdict(list)
        for at in range(len(self._text) - 49):
            places[self._text[at : at + 50]].append(at)
        for found in places.values():
            if len(found) >= 10 and (found[-1] - found[-10]) / 9 <= 250:
                self._text = ""
                return self._caught()
        return None

    def _caught(self) -> Act:
        self._found += 1
        return "stop" if self._found > 1 else "warn"


class OpenHandsOld(Rule):
    source = "OpenHands/OpenHands openhands/controller/stuck.py @331a1a4"

    def begin(self) -> None:
        self._pairs: list[tuple[str, str, bool]] = []
        self._messages: list[str] = []
        self._condensed = 0

    def call(self, seen: Seen) -> Act | None:
        """Four equal pairs, three equal calls that fail, or three laps of two. Of a command's result only whether it
        failed counts."""
        self._messages.clear()
        self._condensed = 0
        outcome = str(seen.error) if seen.command is not None else seen.outcome
        self._pairs.append((seen.key, outcome, seen.error))
        pairs = self._pairs[-6:]
        if run_length([pair[:2] for pair in pairs]) >= 4:
            return "stop"
        if len(pairs) >= 3 and len({pair[0] for pair in pairs[-3:]}) == 1 and all(pair[2] for pair in pairs[-3:]):
            return "stop"
        if len(pairs) == 6 and len({pair[:2] for pair in pairs[::2]}) == len({pair[:2] for pair in pairs[1::2]}) == 1:
            return "stop"
        return None

    def said(self, text: str) -> Act | None:
        self._messages.append(text)
        return "stop" if run_length(self._messages[-3:]) >= 3 else None

    def compacted(self) -> Act | None:
        """Ten times in a row."""
        self._condensed += 1
        return "stop" if self._condensed >= 10 else None


class OpenHandsSDK(Rule):
    source = "OpenHands/software-agent-sdk openhands-sdk/.../conversation/stuck_detector.py @611629e"

    def begin(self) -> None:
        self._pairs: deque[tuple[tuple[str, str], str, bool]] = deque(maxlen=10)  # 20 events are 10 pairs
        self._messages = 0

    def call(self, seen: Seen) -> Act | None:
        """As the old one, within the last twenty events; calls are equal only if the thought before them is; the
        third equal failing call is told, the fourth stops."""
        self._messages = 0
        self._pairs.append(((seen.key, seen.text), seen.outcome, seen.error))
        pairs = list(self._pairs)
        if run_length([pair[:2] for pair in pairs]) >= 4:
            return "stop"
        last = pairs[-6:]
        if len(last) == 6 and len({pair[:2] for pair in last[::2]}) == len({pair[:2] for pair in last[1::2]}) == 1:
            return "stop"
        failing = 0
        for action, _, error in reversed(pairs):
            if not error or action != pairs[-1][0]:
                break
            failing += 1
        return None if failing < 3 else "warn" if failing == 3 else "stop"

    def said(self, text: str) -> Act | None:
        """Any three messages in a row."""
        self._messages += 1
        return "stop" if self._messages >= 3 else None


class OpenClaw(Rule):
    source = "openclaw/openclaw src/agents/tool-loop-detection.ts, tool-loop-argument-churn.ts (as if enabled)"
    _VOLATILE = frozenset(
        (
            "messageid",
            "message_id",
            "ts",
            "timestamp",
            "receipt",
            "runid",
            "run_id",
            "pid",
            "cwd",
            "duration",
            "durationms",
        )
    )
    _SENDING = re.compile(r"send|reply|upload|message|broadcast", re.IGNORECASE)
    _POLLING = re.compile(r"command_status|process|poll", re.IGNORECASE)
    _WRAPPER = re.compile(r'<<<(?:END_)?EXTERNAL_UNTRUSTED_CONTENT id="[0-9a-f]+">>>')

    def begin(self) -> None:
        self._calls: deque[tuple[str, str]] = deque(maxlen=30)
        self._unknown = 0
        self._watched: list[tuple[str, str]] | None = None

    def user(self) -> None:
        """History is kept by run."""

    def call(self, seen: Seen) -> Act | None:
        """Needs equal results throughout: 30 equal pairs, 20 of a poll, of two that alternate, of anything; ten words
        at 10; ten calls of unknown tools."""
        outcome = hashlib.sha256(self._projected(seen).encode("utf-8", "replace")).hexdigest()
        self._unknown = self._unknown + 1 if seen.error and "unknown tool" in seen.result.lower() else 0
        pair = (seen.key, outcome)
        self._calls.append(pair)
        if self._watched is not None:
            self._watched.append(pair)
            if len(self._watched) >= 3:
                looped, self._watched = len(set(self._watched)) == 1, None
                if looped:
                    return "stop"
        if self._unknown >= 10 or self._calls.count(pair) >= 20:
            return "block"
        tail = list(self._calls)
        alternating = laps(tail, 2) * 2 if len(set(tail[-2:])) == 2 else 0
        if alternating >= 20:
            return "block"
        same_call = sum(1 for key, _ in self._calls if key == seen.key)
        return "warn" if same_call >= 10 or alternating >= 10 else None

    def compacted(self) -> Act | None:
        self._watched = []
        return None

    def _projected(self, seen: Seen) -> str:
        """What of a result counts: without ids and times where something was sent."""
        text = self._WRAPPER.sub("", seen.result)
        if seen.command is None and not self._SENDING.search(seen.tool):
            return text
        try:
            return json.dumps(self._without(json.loads(text)), sort_keys=True)
        except ValueError:
            return text

    def _without(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._without(part) for name, part in value.items() if name.lower() not in self._VOLATILE}
        return [self._without(part) for part in value] if isinstance(value, list) else value


class OpenCode(Rule):
    source = "anomalyco/opencode packages/opencode/src/session/processor.ts (Kilo-Org/kilocode has the same)"

    def begin(self) -> None:
        self._parts: deque[str] = deque(maxlen=3)

    def call(self, seen: Seen) -> Act | None:
        """Three equal parts at the end of a message; text between breaks it. Calls without text between count as one
        message (the generous reading: a new reply is a new message)."""
        if seen.text:
            self._parts.clear()
        self._parts.append(seen.written)
        return "block" if run_length(self._parts) >= 3 else None

    def said(self, text: str) -> Act | None:
        self._parts.clear()
        return None


class Roo(Rule):
    source = "RooCodeInc/Roo-Code src/core/tools/ToolRepetitionDetector.ts @cb83656"

    def begin(self) -> None:
        self._last, self._count = "", 0

    def call(self, seen: Seen) -> Act | None:
        """The fourth equal call in a row is not run; the person is asked, and the count begins anew."""
        self._count = self._count + 1 if seen.key == self._last else 1
        self._last = seen.key
        if self._count > 3:
            self._count = 0
            return "block"
        return None


class Cline(Rule):
    source = "cline/cline sdk/packages/core/src/runtime/safety/loop-detection.ts, mistake-tracker.ts @21cb8d2"

    def begin(self) -> None:
        self._last, self._count, self._mistakes = "", 0, 0

    def round(self, calls: Sequence[Seen]) -> Act | None:
        """Equal calls in a row: told at 3, stopped at 5; three turns in a row in which every call failed stop too."""
        found: Act | None = None
        for seen in calls:
            self._count = self._count + 1 if seen.key == self._last else 1
            self._last = seen.key
            found = "stop" if self._count >= 5 else found or ("warn" if self._count >= 3 else None)
        self._mistakes = self._mistakes + 1 if all(seen.error for seen in calls) else 0
        return "stop" if self._mistakes >= 3 else found


class Crush(Rule):
    source = "charmbracelet/crush internal/agent/loop_detection.go"

    def begin(self) -> None:
        self._steps: deque[Hashable] = deque(maxlen=10)

    def round(self, calls: Sequence[Seen]) -> Act | None:
        """One step (its calls with their results, as written) more than five times in the last ten."""
        step = tuple((seen.written, seen.outcome) for seen in calls)
        self._steps.append(step)
        return "stop" if self._steps.count(step) > 5 else None


class Qwen(Rule):
    source = (
        "QwenLM/qwen-code packages/core/src/services/loopDetectionService.ts, utils/tool-call-repeat-key.ts (always on)"
    )
    _LOOKING = re.compile(r"^git (status|log|diff|show|branch)\b")

    def begin(self) -> None:
        self._keys: list[str] = []
        self._counts: Counter[str] = Counter()
        self._looking = 0

    def call(self, seen: Seen) -> Act | None:
        """Five equal calls in a row; eight looks at git; from 100 calls on if some call was made six times; 1,000."""
        key = f"{seen.key} {seen.outcome}" if seen.tool == "task_list" else seen.key
        self._keys.append(key)
        self._counts[key] += 1
        command = (seen.command or "").strip()
        self._looking = self._looking + 1 if self._LOOKING.match(command) else 0
        if run_length(self._keys[-5:]) >= 5 or self._looking >= 8:
            return "stop"
        many = max(self._counts.values())
        return "stop" if len(self._keys) >= 1000 or (len(self._keys) >= 100 and many >= 6) else None


class QwenHeuristics(Qwen):
    source = "the same with its opt-in heuristics"
    _READING = re.compile(r"read|view|get|list|ls|glob|grep|search|find|cat", re.IGNORECASE)

    def begin(self) -> None:
        super().begin()
        self._tools: list[str] = []
        self._thoughts: list[str] = []
        self._read: list[bool] = []

    def call(self, seen: Seen) -> Act | None:
        """Besides: one call six times in a user turn, three laps of two, eight of the last fifteen only reading once
        something else was done, one tool eight times in a row, one thought three times."""
        found = super().call(seen)
        self._tools.append(seen.tool)
        self._read.append(bool(self._READING.search(seen.tool)))
        if seen.text:
            self._thoughts.append(seen.text)
        reading = sum(self._read[-15:]) >= 8 and len(self._read) >= 15 and not all(self._read)
        alternating = len(set(self._keys[-2:])) == 2 and laps(self._keys[-6:], 2) >= 3
        often = self._counts[self._keys[-1]] >= 6
        named, thought = run_length(self._tools[-8:]) >= 8, len(self._thoughts) >= 3 and run_length(self._thoughts) >= 3
        return "stop" if found or often or alternating or reading or named or thought else None


class Goose(Rule):
    source = "aaif-goose/goose crates/goose/src/tool_monitor.rs"

    def begin(self) -> None:
        self._failed: tuple[str, str] | None = None
        self._count = 0

    def call(self, seen: Seen) -> Act | None:
        """One tool failing three times with the same first 100 characters of error, whatever the arguments. (Its
        limit for equal calls has no default.)"""
        if not seen.error:
            if self._failed is not None and self._failed[0] == seen.tool:
                self._failed, self._count = None, 0
            return None
        failed = (seen.tool, seen.result[:100])
        self._count = self._count + 1 if failed == self._failed else 1
        self._failed = failed
        if self._count >= 3:
            self._count = 0
            return "block"
        return None


class Hermes(Rule):
    source = "NousResearch/hermes-agent agent/tool_guardrails.py (unattended: hard stops on)"
    _READING = re.compile(r"^(read|view|get|list|ls|glob|grep|search|find|fetch|look|query|show)", re.IGNORECASE)
    _POLLING = re.compile(r"poll|wait|status|process", re.IGNORECASE)
    _WIDE = re.compile(r"terminal|bash|shell|command|browser", re.IGNORECASE)

    def begin(self) -> None:
        self._failing_calls: Counter[str] = Counter()
        self._failing_tools: Counter[str] = Counter()
        self._reads: dict[str, tuple[str, int]] = {}
        self._pairs: list[tuple[str, str]] = []

    def call(self, seen: Seen) -> Act | None:
        """One failing call 5 times, one failing tool 8 (not shells and browsers), a read with one result 5, equal
        pairs 5 in a row, cycles of 2 to 4 five laps. What changes something clears the failures; pollers are exempt."""
        if seen.tool in self.polls or self._POLLING.search(seen.tool):
            return None
        pair = (seen.key, seen.outcome)
        self._pairs.append(pair)
        found: Act | None = None
        reading = bool(self._READING.search(seen.tool))
        if seen.error:
            self._failing_calls[seen.key] += 1
            self._failing_tools[seen.tool] += 1
            if self._failing_calls[seen.key] >= 5:
                found = "block"
            if self._failing_tools[seen.tool] >= 8 and not self._WIDE.search(seen.tool):
                return "stop"
        elif not reading:
            self._failing_calls.clear()
            self._failing_tools.clear()
        else:
            before, count = self._reads.get(seen.key, ("", 0))
            count = count + 1 if before == seen.outcome else 1
            self._reads[seen.key] = (seen.outcome, count)
            if count >= 5:
                found = "block"
        tail = self._pairs[-20:]
        if run_length(tail[-5:]) >= 5 or any(laps(tail, period) >= 5 for period in (2, 3, 4)):
            return "stop"
        return found


# -- frameworks ------------------------------------------------------------------------------------------------------


class CrewAI(Rule):
    source = "crewai 1.15.30 utilities/agent_utils.py"

    def begin(self) -> None:
        self._pairs: Counter[tuple[str, str]] = Counter()

    def user(self) -> None:
        """A run goes on."""

    def call(self, seen: Seen) -> Act | None:
        """One call with one result five times in a run."""
        pair = (seen.key, seen.outcome)
        self._pairs[pair] += 1
        return "stop" if self._pairs[pair] >= 5 else None


class OpenRouter(Rule):
    source = "OpenRouterTeam/typescript-agent packages/agent/src/lib/doom-loop.ts @5a7ed03"

    def begin(self) -> None:
        self._streaks: dict[str, tuple[frozenset[str], int]] = {}
        self._said, self._repeated = "", 0

    def user(self) -> None:
        """The verdict is cleared, the streak is kept."""

    def round(self, calls: Sequence[Seen]) -> Act | None:
        """By tool: the same set of calls in one reply after another, whatever other tools do between: blocked at 3,
        stopped at 6. Results do not count."""
        by_tool: defaultdict[str, set[str]] = defaultdict(set)
        for seen in calls:
            by_tool[seen.tool].add(seen.key)
        found: Act | None = None
        for tool, keys in by_tool.items():
            before, count = self._streaks.get(tool, (frozenset(), 0))
            count = count + 1 if before == keys else 1
            self._streaks[tool] = (frozenset(keys), count)
            act: Act | None = "stop" if count >= 6 else "block" if count >= 3 else "warn" if count == 2 else None
            found = max(found, act, key=STRENGTH.__getitem__)
        return found

    def said(self, text: str) -> Act | None:
        self._repeated = self._repeated + 1 if text == self._said else 1
        self._said = text
        return "stop" if self._repeated >= 6 else "block" if self._repeated >= 3 else None


class DeerFlow(Rule):
    source = "bytedance/deer-flow backend/packages/harness/deerflow/agents/middlewares/loop_detection_middleware.py"
    _SALIENT = ("path", "url", "query", "command", "pattern", "glob", "cmd")

    def begin(self) -> None:
        self._rounds: deque[Hashable] = deque(maxlen=20)

    def user(self) -> None:
        """A thread goes on."""

    def round(self, calls: Sequence[Seen]) -> Act | None:
        """The same calls (by their salient fields, reads in steps of 200 lines) in three of the last twenty replies are
        told, in five the tools are taken away."""
        hashed = frozenset(Counter(self._salient(seen) for seen in calls).items())
        self._rounds.append(hashed)
        count = self._rounds.count(hashed)
        return "stop" if count >= 5 else "warn" if count >= 3 else None

    def _salient(self, seen: Seen) -> str:
        args = seen.args if isinstance(seen.args, dict) else {"input": seen.args}
        if re.search(r"write|edit|replace|create", seen.tool, re.IGNORECASE):
            return seen.key
        kept = {name: args[name] for name in self._SALIENT if name in args}
        if not kept:
            return seen.key
        lines = {name: value // 200 for name, value in args.items() if "line" in name and type(value) is int}
        return f"{seen.tool}:{json.dumps([kept, lines], sort_keys=True, default=str)}"


RULES: dict[str, Callable[[Sequence[str]], Rule]] = {
    "third equal call": ThirdEqualCall,
    "20 steps": TwentySteps,
    "gemini-cli": Gemini,
    "OpenHands (old)": OpenHandsOld,
    "OpenHands SDK": OpenHandsSDK,
    "OpenClaw (enabled)": OpenClaw,
    "opencode": OpenCode,
    "Roo": Roo,
    "Cline": Cline,
    "Crush": Crush,
    "qwen-code": Qwen,
    "qwen-code (heuristics)": QwenHeuristics,
    "Goose": Goose,
    "Hermes (unattended)": Hermes,
    "CrewAI": CrewAI,
    "OpenRouter": OpenRouter,
    "DeerFlow": DeerFlow,
}
