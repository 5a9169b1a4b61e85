"""Chanting: the same words again and again inside one stream, found while it comes in."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from ..messages import Channel, Event, Finding, ModelReplied
from ..thresholds import Thresholds
from .detector import When
from .round import Ring, Round

STEP = 48
"""Characters between two looks at a stream."""
CLOSE = 16
"""The same while a period goes on."""
PROBE = 24
"""Characters at the end of a stream whose earlier places say which periods are worth a look."""
TRIES = 4
"""Such places that are tried: within a lap there may be some that are no period."""
REACH = 2048
"""Characters that are kept of a stream, so periods up to half of it are seen."""
WORD = 60
"""Characters from which a word is none: data."""
SAMPLE = 200
"""Characters by which short laps are told to be prose or data."""
DRIFT = 640
"""Characters in which the same few sentences in any order are looked for: less than 200 tokens."""
STREAMS = 4
"""Streams of one reply that are followed at once (each call's arguments are one); the latest count."""
SHOWN = 80
"""Characters of a lap that are shown."""

Kind = Literal["prose", "wide", "lines", "data", "structure"]


class Bar(msgspec.Struct, frozen=True):
    """How often and over how many characters something must have come to be a chant."""

    laps: int
    characters: int


BARS: dict[Kind, Bar] = {
    # A refrain comes two or three times, and 480 characters are about 120 tokens.
    "prose": Bar(4, 480),
    # Scripts in which a character is a token or more.
    "wide": Bar(4, 240),
    # Whole lines that do not end as sentences do: an excerpt of a log has some of them.
    "lines": Bar(12, 720),
    # Numbers, code, records, hex, base64, dividers, blanks.
    "data": Bar(12, 2400),
    # Lists, tables, headings, quotes: they repeat by their nature, and yet none has equal rows for ever.
    "structure": Bar(20, 4000),
}
FILE: dict[Kind, Bar] = {
    "prose": Bar(12, 3000),
    "wide": Bar(12, 1500),
    "lines": Bar(12, 3000),
    "data": Bar(24, 8000),
    "structure": Bar(24, 8000),
}
"""Arguments may be whole files, a code block may be one as well: tables of zeros, indentation and fixtures are fine."""
SAID: dict[Kind, Bar] = {"prose": Bar(5, 800), "wide": Bar(5, 400)}
"""Words in arguments that go round within one line: that is no file."""
COUNTED = 2400
"""Characters of sentences that differ in numbers alone, which do not run on."""
COUNTING = 12_000
"""The same, where the numbers do run on: counting is a task, and even a hundred verses of a song come to an end."""
NOVELTY = 4
"""One part in so many of what was said last is new: more is not a chant."""


class Chanting(msgspec.Struct, frozen=True):
    """A stream goes round and round."""

    channel: Channel
    unit: str
    """What is repeated, bounded."""
    laps: int
    period: int
    """Characters of a lap; 0 where a few sentences come in any order."""
    keep: int
    """Characters of the channel up to the end of the second lap: worth keeping."""
    seen: int
    """Characters of the channel until it was found."""
    index: int
    """Of the call, for arguments."""


class Chant:
    """Hears the streams of one reply. Feed it each delta; what it finds it says at once.

    Constant work a character: text is put aside until there are 48 new ones. Then the stream's end is looked up in
    what came before, and where it stands the distance is a period; as long as that goes on only the new characters are
    compared. What repeats decides how much of it is too much: four laps of prose, far more of lines, numbers, tables,
    lists and whatever a file or a code block may hold. A few sentences in any order are a chant as well; sentences
    that differ in a number are one only if they go on for very long.
    """

    def __init__(self) -> None:
        self._streams: dict[int | Channel, _Stream] = {}

    def feed(self, channel: Channel, text: str, index: int = 0) -> Chanting | None:
        """Take a delta; ``index`` is the call's, for arguments."""
        name = index if channel == "arguments" else channel
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream(channel, index)
            if len(self._streams) > STREAMS:
                self._streams.pop(next(iter(self._streams)))
        stream.pending.append(text)
        stream.size += len(text)
        return stream.look() if stream.size >= stream.wait else None


class _Stream:
    __slots__ = (
        "bar", "channel", "drifting", "fence", "index", "pending", "period", "size", "start", "ticks", "total", "wait",
        "window",
    )  # fmt: skip

    def __init__(self, channel: Channel, index: int) -> None:
        self.channel = channel
        self.index = index
        self.pending: list[str] = []
        self.size = 0
        self.wait = STEP
        self.window = ""
        self.total = 0
        self.period = 0
        self.start: int
        """Where the laps of the period began, in characters from the beginning."""
        self.bar: Bar | None = None
        """Of the period that goes on, once it was worth asking."""
        self.fence = 0
        """Backticks that opened the code block that the stream is in; 0: it is in none."""
        self.ticks = ""
        """Backticks at the very end, which may go on."""
        self.drifting: int | None = None
        """Since when only a few sentences come, in characters from the beginning; None: they do not."""

    def look(self) -> Chanting | None:
        text = "".join(self.pending)
        self.pending.clear()
        self.size = 0
        if len(text) <= 2 * STEP:
            return self._take(text)
        for at in range(0, len(text), STEP):
            found = self._take(text[at : at + STEP])
            if found is not None:
                return found
        return None

    def _take(self, chunk: str) -> Chanting | None:
        window = self.window = (self.window + chunk)[-REACH:]
        self.total += len(chunk)
        if "`" in chunk or self.ticks:
            self._count_ticks(chunk)
        again = self._goes_on(window, len(chunk)) or self._find_period(window)
        if self.period:
            self.wait = CLOSE
            return self._judge(window, self.period)
        self.wait = STEP
        if again and not self.fence and self.channel != "arguments" and self.total >= DRIFT:
            return self._drift(window[-DRIFT:])
        return None

    def _goes_on(self, window: str, size: int) -> bool:
        period = self.period
        return period > 0 and window[-size:] == window[-size - period : -period]

    def _find_period(self, window: str) -> bool:
        """Whether the end of the window has come before, not long ago; where all between comes again is a period."""
        self.period, self.bar = 0, None
        probe, length = window[-PROBE:], len(window)
        again, end = False, length - 1
        for _ in range(TRIES):
            at = window.rfind(probe, 0, end)
            if at < 0:
                break
            period = length - PROBE - at
            again = again or period < DRIFT
            if window[-period:] == window[-2 * period : -period]:
                self.period = period
                self.start = self.total - period - _matching(window, period)
                break
            end = at + PROBE - 1
        return again

    def _judge(self, window: str, period: int) -> Chanting | None:
        covered = self.total - self.start
        if covered < LEAST or covered < 4 * period:
            return None
        bar = self.bar
        if bar is None:
            bar = self.bar = self._bar(window, period)
        if covered < bar.characters or covered < bar.laps * period:
            return None
        return self._found(window[-period:], covered // period, period, self.start + 2 * period)

    def _bar(self, window: str, period: int) -> Bar:
        if self.channel != "arguments":
            kind = kind_of(window, period)
            return FILE[kind] if self.fence else BARS[kind]
        lap = window[-period:]
        breaks = (lap + lap[0]).count("\\n")  # raw JSON: a line's end is two characters, which two laps may share
        kind = kind_of(window.replace("\\n", "\n"), period - breaks)
        stammer = not any(map(str.isspace, lap))
        return FILE[kind] if breaks or stammer or kind not in SAID else SAID[kind]

    def _found(self, unit: str, laps: int, period: int, keep: int) -> Chanting:
        shown = unit if len(unit) <= SHOWN else f"{unit[:SHOWN]}…"
        return Chanting(self.channel, shown, laps, period, keep, self.total, self.index)

    def _count_ticks(self, chunk: str) -> None:
        """Follow code blocks: three backticks or more open one, as many close it, wherever they stand."""
        text = self.ticks + chunk
        whole = text.rstrip("`")
        self.ticks = text[len(whole) : len(whole) + 16]  # may go on; of endless ones a few will do
        for run in _TICKS.findall(whole):
            if not self.fence:
                self.fence, self.bar = len(run), None
            elif len(run) >= self.fence:
                self.fence, self.bar = 0, None

    def _drift(self, text: str) -> Chanting | None:
        sentences = few_sentences(text)
        if not sentences:
            self.drifting = None
            return None
        if self.drifting is None:
            self.drifting = self.total - DRIFT
        if _differ_in_numbers(sentences):
            enough = COUNTING if _run_on(sentences) else COUNTED
            if self.total - self.drifting < enough:
                return None
        return self._found(sentences[-1], len(sentences), 0, self.drifting + len(sentences[0]) + len(sentences[1]) + 2)


LEAST = min(bar.characters for bar in BARS.values())
ENDS = frozenset(".!?…。！？")
_TICKS = re.compile("`{3,}")
_SENTENCES = re.compile(r"(?<=[.!?…])[ \t]+|\s*\n\s*|(?<=[。！？])")
_NUMBERS = re.compile(r"\d+")
_CELLS = re.compile(r"\||```")
_MARKED = re.compile(r"(?m)^[ \t]*(?:[-*+•] |\d{1,4}[.)] |#{1,6} |>)")


def _matching(window: str, period: int) -> int:
    """How many characters at the end equal those a period before: a period at least."""
    more = range(period + 1, len(window))
    return period + bisect(more, False, key=lambda size: window[-size:] != window[-size - period : -period])


def kind_of(window: str, period: int) -> Kind:
    """What it is that repeats at the end of a text with this period."""
    lap = window[-period:]
    if "\n" in lap:  # from the beginning of a line, so that what begins its lines is seen
        at = window.rfind("\n", 0, len(window) - period)
        lap = window[at + 1 : at + 1 + period]
    return _kind(lap, window[-max(period, SAMPLE) :])


def _kind(lap: str, sample: str) -> Kind:
    """``lap`` is whole lines if it has any; ``sample`` is as much as it takes to count letters."""
    if not any(map(str.isalnum, lap)):
        # Dividers, boxes and blanks are data; exclamation marks and faces are said.
        spoken = sum(one in "!?" or ord(one) > 0x2FFF for one in lap)
        return "prose" if spoken * 2 >= len(lap.replace(" ", "")) > 0 else "data"
    if _CELLS.search(lap) or ("\n" in lap and _MARKED.search(lap)):
        return "structure"
    letters = sum(map(str.isalpha, sample))
    wide = sum(one >= "\u0e00" and one.isalpha() for one in sample)
    if wide * 2 > letters:
        return "wide"
    plain = letters + sum(map(sample.count, " ,.'’\r\n!?…:;-*_"))
    if plain * 100 < len(sample) * 85 or letters * 5 < len(sample) * 2:
        return "data"
    longest = max(map(len, sample.split()))
    if longest == len(sample):
        # One endless word: hex, base64 and padding look like that, stammering is all in small letters.
        return "prose" if sample.islower() and len(lap) > 1 and not _HEX.fullmatch(sample) else "data"
    if longest > WORD:
        return "data"
    lines = [line for line in map(str.strip, lap.split("\n")[:-1]) if line] if "\n" in lap else []
    return "lines" if lines and sum(line[-1] in ENDS for line in lines) * 2 < len(lines) else "prose"


_HEX = re.compile("[0-9a-f]+")


def few_sentences(text: str) -> list[str]:
    """The whole sentences of a text if they are the same few in any order, but for their numbers; else none.

    They must be most of it, and most must end as sentences do: else they may be answers, or steps.
    """
    words = text.split()
    if len(words) < NOVELTY * 8 or len(set(words)) * 3 > len(words):
        return []
    sentences = [one for one in _SENTENCES.split(text)[1:-1] if one]
    length = sum(map(len, sentences))
    ended = sum(one[-1] in ENDS for one in sentences)
    if (
        len(sentences) < 8
        or sum(map(len, _masked(sentences))) * NOVELTY > length
        or ended * 4 < len(sentences) * 3
        or length * 3 < len(text) * 2
        or _kind(text, text) not in ("prose", "wide")
    ):
        return []
    return sentences


def _masked(sentences: list[str]) -> set[str]:
    """The different ones, whatever their numbers are."""
    return {_NUMBERS.sub("0", one).casefold() for one in sentences}


def _differ_in_numbers(sentences: list[str]) -> bool:
    return len({one.casefold() for one in sentences}) > len(_masked(sentences))


def _run_on(sentences: list[str]) -> bool:
    """The first numbers of the sentences only rise or only fall, and not just once in a while."""
    first = [int(found[0][:18]) for one in sentences if (found := _NUMBERS.search(one))]
    ordered = first == sorted(first) or first == sorted(first, reverse=True)
    return ordered and len(set(first)) * NOVELTY > len(first)


class Chants:
    """Replies in a row that were cut because they chanted. Any other reply ends the streak."""

    name = "chant"
    when: When = "never"
    __slots__ = ("_count", "_onset")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._count = 0
        self._onset: int

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], Iterable[Finding]]]:
        return {ModelReplied: self._replied}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        return ()

    def _replied(self, event: ModelReplied) -> Iterable[Finding]:
        if event.finish != FINISH:
            self._count = 0
            return ()
        self._count += 1
        if self._count == 1:
            self._onset = event.n
        return (Finding(detector=self.name, pattern=IN_A_ROW, count=self._count, subject=self.name, onset=self._onset),)


FINISH = "chant"
"""Finish reason of a reply that was cut because it chanted."""
IN_A_ROW = "replies that were cut because they chanted"
