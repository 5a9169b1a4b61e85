"""What varies from one text to the next and says nothing: times, durations, ids, addresses, counters.

Two texts are compared part by part and word by word, and only words that differ are looked at: masking whole results
would cost ten times as much and hide more than it should. Plain words and numbers are information. A changed word is
volatile if it has a form (a time, a uuid, an address …) or a name ("pid", "request_id", "attempt" …) that says that it
is no information; what has neither is learned by :class:`Drift`.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

PARTS = 16
"""Differing parts that are looked at; numbers beyond are taken to differ in the same way."""
PART = 320
"""Characters of one part that are looked at."""
AT_ONCE = 2
"""Differing parts from which on they are first looked at as one text."""
CHANGES = 12
"""Changes without a known form or name in one text: with more of them it is another text."""

_ESCAPES = re.compile(
    r"(?:\x1b|\\u001b|\\x1b|\\033|\\e)(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,160}(?:\x07|\x1b\\)|[@-Z\\^_])",
    re.IGNORECASE,
)
_OVERWRITTEN = re.compile(r"(?<![^\n])[^\n]*\r(?!\n)")
"""What a terminal would have written over."""
_WORDS = re.compile(r"(?:[^\s,;(){}<>\"'`|?&]+|(?<=\d),(?=\d))+|[(){}<>|]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?%?")
"""Without marks between thousands."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DIGITS = re.compile(r"\d+")
_RUNS_OF = re.compile(r"[^\W_]+")
_SPINNERS = re.compile("[\u2800-\u28ff◐◓◑◒◴◷◶◵▁-▏⣾⣽⣻⢿⡿⣟⣯⣷]")
_KINDS = re.compile(r"[a-z]+|\d+")
_FRACTION = re.compile(r"\d+/\d+")

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:[ap]m)?"
_ZONE = r"(?:z\b|[+-]\d\d:?\d\d)?"
_UNIT = r"(?:ns|µs|μs|us|ms|msecs?|millis|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|days?)"
_EPOCH = r"(?<![\d.])1[4-9]\d{8}(?:\d{9}|\d{6}|\d{3}|\.\d+)?(?![\d.])"
"""Seconds, milli-, micro- and nanoseconds since 1970, in this quarter of the century."""
_STAMP = rf"\d{{4}}[-/.]?\d\d[-/.]?\d\d[t_:-]?\d{{1,2}}[:_-]?\d\d[:_-]?\d\d(?:[.,_]\d+)?{_ZONE}"
_NOW = rf"\d{{4}}[-/.]?\d\d[-/.]?\d\d[t_: -]?\d{{1,2}}:?\d\d:?(?!00|59)\d\d(?:[.,]\d+)?{_ZONE}"
_WRITTEN_NOW = r"\d\d?/\d\d?/\d{4},? \d\d?:\d\d:(?!00|59)\d\d(?: ?[ap]m)?"
_MAILED_NOW = rf"\d\d? {_MONTH} \d{{4}} \d\d?:\d\d:(?!00|59)\d\d"
_LOGGED_NOW = rf"\d\d/{_MONTH}/\d{{4}}:\d\d:\d\d:(?!00|59)\d\d(?: [+-]\d{{4}})?"
_EPOCH_NOW = r"(?<![\d.])1[4-9]\d{6}(?!00(?!\d)|00000(?!\d))\d\d(?:\d{9}|\d{6}|\d{3}|\.\d+)?(?![\d.])"
_PLACE = r"(?:/private)?/(?:var/)?(?:tmp|folders)/[\w./+-]*|(?<![a-z])(?:tmp|temp)[-_.]?\w{4,}|pytest-\d+"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_HANDLES = re.compile(rf"{_UUID}|(?<![a-z0-9])(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{{7,}}(?![a-z0-9])")
"""Ids by their form: long, and hexadecimal with both kinds of character."""
_ADDRESS = re.compile(r"0x[0-9a-f]{1,24}:?")
_HEX = re.compile(r"[0-9a-f]{7,}")
_FORMS = (
    _STAMP,
    rf"\d{{4}}[-/.]\d\d?[-/.]\d\d?(?:[t_:-]?{_CLOCK}{_ZONE})?",
    rf"\d{{1,2}}[-/.](?:{_MONTH}|\d{{1,2}})[-/.](?:\d{{4}}|\d\d)(?:[:t]{_CLOCK}{_ZONE})?(?![\d.])",
    rf"{_CLOCK}{_ZONE}(?![\d:])",
    _EPOCH,
    # Where something lies in memory this time. Shorter ones are places in a program, colours, codes.
    r"0x0*[1-9a-f][0-9a-f]{8,}|(?:(?<=at )|(?<=@)|(?<=address ))0x[0-9a-f]+",
    r"(?<=\w)@[0-9a-f]{6,8}\b",
    rf"(?<![\w.])\d+(?:[.,]\d+)?{_UNIT}(?:\d+(?:\.\d+)?{_UNIT})*\b",
    _PLACE,
    r"\[\d{1,7}\](?=:|$)",
    # The port that a connection happened to get.
    r"(?:(?<=\.\d)|(?<=\.\d\d)|(?<=\.\d\d\d)|(?<=localhost)):\d{4,5}(?!\d)",
)
_UNITS = re.compile(rf"{_UNIT}\b[.:;]?")
_CALENDAR = re.compile(rf"(?:{_MONTH}|(?:mon|tue|wed|thu|fri|sat|sun)(?:\w*day)?|[ap]\.?m)[.:,]*")

_IDS = (
    *("requestid", "reqid", "traceid", "spanid", "correlationid", "transactionid", "invocationid", "sessionid"),
    *("operationid", "executionid", "queryid", "responseid", "connectionid", "clientid", "deliveryid", "receiptid"),
    *("callid", "logid", "requestkey", "idempotencykey", "clienttoken", "requesttoken", "csrftoken", "sessiontoken"),
    *("accesstoken", "handoffid", "nonce", "timestamp", "cachebuster", "cachebust", "clientrequestid"),
    *("attempt", "attempts", "retries", "retrycount", "requestcount", "requestno", "requestnumber", "iteration"),
    *("requestedat", "clienttime", "session"),
)
_STATES = (
    # An id that is another one each time, beside a result that is the same, is that of the answer.
    *("id", "etag", "eventid", "messageid", "processid", "threadid", "jobid", "runid", "instanceid", "cfray"),
    *("caseid", "ticketid", "resourceversion"),
    *("cursor", "pagetoken", "nexttoken", "continuationtoken"),
    *("createdat", "updatedat", "generatedat", "fetchedat", "servedat", "checkedat", "startedat", "finishedat"),
    *("retrievedat", "expiresat", "expiresin", "asof", "generatedon", "servertime", "lastchecked", "lastseen"),
    *("elapsedms", "durationms", "elapsedtime", "responsetime", "tookms", "latencyms", "loadaverage"),
    *("requestsmade", "ratelimitremaining", "quotaremaining", "remainingrequests", "ratelimitreset", "callcount"),
)
_ASKING = "nonce rand random cachebust cachebuster sleep attempt attempts retry retries retrycount"
"""Names of what varies in questions."""
_ONE_TIME = "iter now req salt since t tries try ts until uuid guid timestamp _"
_ANSWERS = (
    "age at call conn connection counter cursor date dur duration elapsed etag since until expires instance"
    " invocation iteration latency pid pids port ports ppid ray receipt ref request retries runtime seed seq"
    " sequence served session sid span started stamp sys t0 took tick tid time uptime real via worker thread"
    " process msgid uid turn turns moves case ticket incident reference confirmation"
    " checksum csrf xcache cwd workdir run cpu mem memavailable memfree rss vsz heap load loadavg"
)


class Kinds(NamedTuple):
    """What counts as volatile: forms of words, names in whole, and how names end."""

    forms: re.Pattern[str]
    names: frozenset[str]
    endings: tuple[str, ...]


RESULTS = Kinds(
    re.compile("|".join(_FORMS), re.MULTILINE),
    frozenset(f"{_ASKING} {_ONE_TIME} {_ANSWERS}".split()),
    (*_IDS, *_STATES),
)
"""What varies in answers: whatever says when it was given, by whom, and how long it took."""
ARGUMENTS = Kinds(
    re.compile(
        rf"{_NOW}|{_WRITTEN_NOW}|{_MAILED_NOW}|{_LOGGED_NOW}|{_EPOCH_NOW}|{_MONTH} \d{{1,2}},? {_CLOCK}"
        r"|(?:(?<=tee )|(?<=> )|(?<=>))/tmp/\S+",
        re.IGNORECASE,
    ),
    frozenset(_ASKING.split()),
    (
        *("requestid", "reqid", "traceid", "spanid", "correlationid", "invocationid", "clientrequestid", "handoffid"),
        *("idempotencykey", "clienttoken", "requesttoken", "csrftoken", "requestkey"),
    ),
)
"""What varies in questions: far less, since an id, a date or a port may be what is asked about. A time to the second is
that of asking; one on the minute, or the last second of one, was chosen."""
_CLEAN = str.maketrans("", "", "_-:=.#\\[]\"' /")

SHARE_OF_NEWS = 3
"""One part in so many may hold news."""
NEWS = -1

LARGE = 1000
SMALL = 0.02
"""A large number that moves by a small share of it is an id that was given out, unless something is counted."""


class Change(NamedTuple):
    """One place at which a text differs, in a form and under a name that are not known to be volatile."""

    place: tuple[int, int]
    """Part and word; ``NEWS`` for the whole part."""
    before: float = 0.0
    after: float = 0.0
    """The numbers there, if it is one that changes; else both 0."""


def says(text: str) -> int:
    """How many words and numbers there are in a text."""
    return sum(map(_has_letter_or_digit, _WORDS.findall(text)))


def _has_letter_or_digit(word: str) -> bool:
    return any(map(str.isalnum, word))


def masked(part: str) -> str:
    """A ``name: value`` part of arguments with what is volatile in it replaced.

    That is what names the request itself, the time of asking, and what is beside the point within a longer text. A
    value that stands alone is what is asked about, whatever it looks like.
    """
    name, _, value = part.partition(": ")
    if _is_one_time(name):
        return f"{name}: #"
    if "=" not in value and _DIGITS.search(value) is None:
        return part
    if " " in value or "?" in value or _is_clock(name):
        value = _ASKED_WITH.sub(_masked_pair, without_times(value))
    return f"{name}: {value}"


def without_times(value: str) -> str:
    """A value without what varies in questions by its form."""
    return value if _MAY_HOLD_TIMES.search(value) is None else ARGUMENTS.forms.sub("#", value)


_MAY_HOLD_TIMES = re.compile(r"\d{4}[-/.]?\d\d[-/.]?\d\d|\d:\d|/tmp/", re.IGNORECASE)
"""What each of those forms has a piece of: it is far sooner looked for."""


@functools.lru_cache(maxsize=512)
def _is_clock(name: str) -> bool:
    """Whether an argument of this name says when it is asked."""
    return name.rpartition(".")[2].lower().translate(_CLEAN) in _ASKED_AT


_ASKED_AT = frozenset(
    (
        *(
            "timestamp",
            "ts",
            "now",
            "since",
            "until",
            "requestedat",
            "clienttime",
            "sentat",
            "askedat",
            "after",
            "before",
        ),
        *("from", "to", "start", "end", "starttime", "endtime", "fromtime", "totime"),
    )
)


@functools.lru_cache(maxsize=512)
def _is_one_time(name: str) -> bool:
    """Whether an argument of this name varies from call to call."""
    return _identifies(name.rpartition(".")[2].lower(), ARGUMENTS)


def _masked_pair(found: re.Match[str]) -> str:
    name = found[1]
    volatile = _identifies(name.lower(), ARGUMENTS) or name.lower() in _IN_COMMANDS
    return f"{name}=#" if volatile else found[0]


_IN_COMMANDS = frozenset(["ts", "t", "sid", "token", "attempt", "try", "retry", "run_id"])
"""Names within an address or a command line, beside what is asked for there."""
_ASKED_WITH = re.compile(r"(?<![\w-])([A-Za-z_-][\w-]*)(?:[=#]| (?=#?\d))[^\s&;\"']+")
"""A name with its value within a value: of an address, or of a remark."""


def plain(text: str) -> str:
    """Without terminal escapes, and without what a terminal would have written over."""
    if "\x1b" in text or ("[" in text and ("1b[" in text or "1B[" in text or "033[" in text)):
        text = _ESCAPES.sub("", text)
    if not text.isascii():
        text = _SPINNERS.sub("", text)
    return _OVERWRITTEN.sub("", text).replace("\r", "") if "\r" in text else text


def changes(
    before: list[str], after: list[str], *, cut: bool = False, backwards: bool = False, news: bool = True
) -> list[Change] | None:
    """Where two texts differ, given as parts; what is volatile is left out. None: they tell other things.

    A changed word is news. A changed number, or an id without a known form, is a :class:`Change`; so is a part with
    news among several without, with ``NEWS`` for its place. ``cut``: the last part goes on beyond what is given
    (``backwards``: begins before it), and need not end in the same place. Without ``news`` none may be: neither a part
    of it nor a whole number that is another one.
    """
    if cut:
        shorter = min(len(before), len(after))
        before, after = before[:shorter], after[:shorter]
    elif len(before) != len(after):
        return None
    differing = [index for index, one in enumerate(before) if one != after[index]]
    last = len(before) - 1 if cut else -1
    if len(differing) > AT_ONCE and _differ_in_times([one for one in differing if one != last], before, after):
        looked_at, differing = len(differing) - 1, [last] if differing[-1] == last else []
    else:
        looked_at = 0
    found: list[Change] = []
    told = 0
    for index in differing:
        one, other = before[index], after[index]
        looked_at += 1
        if looked_at > PARTS and _DIGITS.sub("#", one) == _DIGITS.sub("#", other):
            continue
        edge = (-1 if backwards else 1) if index == last else 0
        here = _changed_words(index, one[:PART].lower(), other[:PART].lower(), edge, news)
        if here is None:
            told += 1
            if not news or told * SHARE_OF_NEWS > len(before):
                return None
            here = [Change((index, NEWS))]
        found += here
        if len(found) > CHANGES:
            return None
    return found


def _differ_in_times(differing: list[int], before: list[str], after: list[str]) -> bool:
    """Whether only digits differ in these parts, and all of them within what has a form: looked at as one text."""
    one = "\n".join([before[index][:PART] for index in differing])
    other = "\n".join([after[index][:PART] for index in differing])
    return len(one) == len(other) and differ_in_forms(one.lower(), other.lower())


def _changed_words(index: int, before: str, after: str, edge: int, news: bool) -> list[Change] | None:
    if not edge and len(before) == len(after) and differ_in_forms(before, after):
        return []
    left, right = _words_of(before), _words_of(after)
    if left == right and not edge and not any(map(str.isalnum, before)):
        return None  # a drawing
    if edge:
        # Cut somewhere: of the words that both have, the one at the cut may be a piece.
        shorter = max(min(len(left), len(right)) - 1, 0)
        left, right = (words[:shorter] if edge > 0 else words[len(words) - shorter :] for words in (left, right))
    elif len(left) != len(right):
        # "1 min 3 s", "59 s": a form may take more than one word.
        return [] if _form(before) == _form(after) else None
    found = []
    for position, (one, other) in enumerate(zip(left, right, strict=True)):
        if one == other or _is_volatile(one, other, left, position):
            continue
        change = _change((index, position), one, other)
        if change is None:
            return None
        large = change.before >= LARGE and abs(change.after - change.before) <= SMALL * change.before
        if large and not one.startswith("0x") and _COUNTED.search(before) is None:
            change = Change(change.place)  # the next process, the next job
        if not news and change.before != change.after and change.before.is_integer() and change.after.is_integer():
            return None
        found.append(change)
    return found


@functools.lru_cache(maxsize=64)
def _words_of(part: str) -> list[str]:
    """The words of a part; each text is compared with a few others. Not to be changed."""
    return _WORDS.findall(part)


def differ_in_forms(before: str, after: str) -> bool:
    """Whether only digits differ, and all of them within what has a form: a shortcut for what is most frequent."""
    bare = in_ones(before)
    if bare != in_ones(after):
        return False
    at = 0
    for start, end in _forms_in(bare):
        if before[at:start] != after[at:start]:
            return False
        at = end
    return before[at:] == after[at:]


@functools.lru_cache(maxsize=256)
def _forms_in(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in RESULTS.forms.finditer(text)]


def _form(text: str) -> str:
    return _RUNS.sub("#", " ".join(RESULTS.forms.sub("#", text).split()))


def _is_volatile(one: str, other: str, words: list[str], position: int) -> bool:
    if _are_numbers(one, other):  # what is most frequent, and too short for any form
        return _is_said_to_be(one, other, words, position)
    alike = in_ones(one)
    if alike == in_ones(other) and _is_form(alike):
        return True
    return _is_said_to_be(one, other, words, position) or _without_forms(one) == _without_forms(other)


def _is_said_to_be(one: str, other: str, words: list[str], position: int) -> bool:
    """Whether a name before or within a changed word, or what stands beside it, says that it is volatile."""
    name, value = _named(one)
    if name:
        other_name, other_value = _named(other)
        if name == other_name and (_names_volatile(name) or (value == other_value)):
            return True
    back = position - 1
    while back > 0 and (words[back] in _FILLERS or _NUMBER.fullmatch(words[back])):
        back -= 1
    before = words[back] if back >= 0 and position else ""
    # A name is followed by an id or a number: "request 17", not "request failed".
    if len(words) == 2 and _JOB.fullmatch(before) is not None and other.isdecimal():
        return True  # a shell says which process it has started
    if before in _WHERE and one.startswith("0x") and other.startswith("0x"):
        return True
    if before and ((_has_digit(one) and _has_digit(other)) or before[-1] in ":=#" or words[position - 1] in ":="):
        if (_names_volatile(before) and not _counts(before, one, other)) or (
            back > 0 and _names_volatile(words[back - 1] + before)
        ):
            return True
        if _is_calendar(before) and max(len(one), len(other)) <= 4 and _has_digit(one) and _has_digit(other):
            return True  # Nov 30
    after = words[position + 1] if position + 1 < len(words) else ""
    if _is_calendar(one) and _is_calendar(other):
        return _is_dated(before) or _is_dated(after)
    if not (_NUMBER.fullmatch(one) and _NUMBER.fullmatch(other)):
        return False
    # How long, how often, and where in a file that is being edited: a line of a traceback.
    return _is_unit(after) or after in _OFTEN or (before == "line" and after == "in")


def _are_numbers(one: str, other: str) -> bool:
    """Whether both are plain whole numbers, shorter than a time in seconds."""
    return max(len(one), len(other)) < PLAIN and (one + other).isdecimal() and (one + other).isascii()


PLAIN = 10
"""Digits of the shortest number that has a form: seconds since 1970."""


@functools.lru_cache(maxsize=256)
def _is_calendar(word: str) -> bool:
    return word[:1].isalpha() and _CALENDAR.fullmatch(word) is not None


@functools.lru_cache(maxsize=256)
def _is_unit(word: str) -> bool:
    return _UNITS.fullmatch(word) is not None


@functools.lru_cache(maxsize=256)
def _without_forms(word: str) -> str:
    return RESULTS.forms.sub("#", word)


@functools.lru_cache(maxsize=256)
def _is_form(word: str) -> bool:
    """Whether all digits of a word are those of a form, whichever they are: a shortcut for what is most frequent."""
    return not _has_digit(RESULTS.forms.sub("#", word))


def in_ones(text: str) -> str:
    """With each digit a one."""
    return text.encode("utf-8", "surrogatepass").translate(_ONES).decode("utf-8", "surrogatepass")


_ONES = bytes.maketrans(b"0123456789", b"1" * 10)
_JOB = re.compile(r"\[\d+\]")
_WHERE = frozenset(("at", "@", "address"))
_OFTEN = frozenset(("times", "attempts", "tries", "retries"))


def _is_dated(word: str) -> bool:
    """Whether a word beside a name of a day or month makes it a date."""
    return word[:1].isdecimal() or _is_calendar(word)


_COUNTED = re.compile(
    r"process(?:ed|ing)|progress|loaded|loading|copied|copying|rows?\b|records?\b|bytes?\b|[kmg]i?b\b|total|done|complete"
    r"|transferr|written|reading|sent\b|received|insert|index(?:ed|ing)|migrat|remaining|left\b|scanned|lines?\b|items?\b"
    r"|files?\b|%|step|epoch|offset|position|balance|price|amount|score|count|used|free|size|length|version"
)
"""Words of things that are counted: there each number is news."""
_RUNS = re.compile(r"#(?: #)+")
_FILLERS = frozenset(("#", "id", "id:", "is", "no", "no.", "number", "w/", "=", ":", "(", "of"))


def _counts(name: str, one: str, other: str) -> bool:
    """Whether a name that ends in "id" may be a count, as "bid" or "paid" are: its values are plain numbers."""
    bare = name.translate(_CLEAN)
    if not bare.endswith("id") or bare in RESULTS.names or bare.endswith(_STATES[1:] + _IDS):
        return False
    return _NUMBER.fullmatch(one) is not None


def _named(word: str) -> tuple[str, str]:
    """``name=value`` in one word."""
    if "=" not in word and ":" not in word and "#" not in word:
        return "", word
    bare = word.rstrip("=:#&?")
    at = max(bare.rfind("="), bare.rfind(":"), bare.rfind("#"))
    return (bare[:at], bare[at + 1 :]) if at > 0 else ("", word)


@functools.lru_cache(maxsize=512)
def _names_volatile(name: str) -> bool:
    """Whether a name in an answer says that what it names is volatile."""
    return _identifies(name, RESULTS)


def _identifies(name: str, kinds: Kinds) -> bool:
    name = name[-40:].translate(_CLEAN)
    return name in kinds.names or name.endswith(kinds.endings)


def _has_digit(word: str) -> bool:
    return _DIGITS.search(word) is not None


def _change(place: tuple[int, int], one: str, other: str) -> Change | None:
    """A change of numbers or ids; None for one of words, which is news. So is a move of one part of a whole (3/24)."""
    if _are_numbers(one, other):
        return Change(place, float(one), float(other))
    if _FRACTION.fullmatch(one.strip("[]().:")) or _FRACTION.fullmatch(other.strip("[]().:")):
        return None
    if _ADDRESS.fullmatch(one) and _ADDRESS.fullmatch(other):
        return Change(place, float(int(one.rstrip(":"), 16)), float(int(other.rstrip(":"), 16)))
    if _HANDLES.sub("#", one) == _HANDLES.sub("#", other) or _are_hex(one, other):
        return Change(place)
    one, other = _THOUSANDS.sub("", one), _THOUSANDS.sub("", other)
    if _NUMBER.fullmatch(one) and _NUMBER.fullmatch(other) and max(len(one), len(other)) < 18:
        return Change(place, float(one.rstrip("%")), float(other.rstrip("%")))
    left, right = _RUNS_OF.findall(one), _RUNS_OF.findall(other)
    if len(left) != len(right) or not left:
        # Ids with signs in them.
        return Change(place) if len(one) >= 12 and len(other) >= 12 and is_random(one) and is_random(other) else None
    numbers: list[tuple[str, str]] = []
    for a, b in zip(left, right, strict=True):
        if a == b or (is_random(a) and is_random(b)):
            continue
        # 52px and 48px, order17 and order18
        if _DIGITS.sub("#", a) != _DIGITS.sub("#", b):
            return None
        numbers += [pair for pair in zip(_DIGITS.findall(a), _DIGITS.findall(b), strict=True) if pair[0] != pair[1]]
    # Several at once are a position, a size, a version, where the first counts; a line and a column are a place.
    if (len(numbers) == 1 or (numbers and ":" not in one)) and max(map(len, numbers[0])) < 16:
        return Change(place, float(numbers[0][0]), float(numbers[0][1]))
    return Change(place)


def _are_hex(one: str, other: str) -> bool:
    """Whether both are of the same length and hexadecimal, though one of them may happen to have digits only."""
    if len(one) != len(other) or _HEX.fullmatch(one) is None or _HEX.fullmatch(other) is None:
        return False
    return not (one.isdecimal() and other.isdecimal()) and not (one.isalpha() and other.isalpha())


@functools.lru_cache(maxsize=512)
def is_random(run: str) -> bool:
    """Whether letters and digits name something and mean nothing: mixed all over, or with hardly any vowels."""
    if len(run) >= 4 and len(_KINDS.findall(run)) > 2:
        return True
    return len(run) >= 6 and run.isalpha() and sum(letter in "aeiouy" for letter in run) * 6 < len(run)
