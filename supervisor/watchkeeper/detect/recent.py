"""The recent calls of an agent context: a call or a result may be an earlier one but for volatile parts."""

from __future__ import annotations

import re
from functools import lru_cache

from .arguments import parts_of, spelling
from .drift import Drift
from .inside import EDGE, NOTHING, WIDER, inside_of, is_inside_same, is_mostly_same
from .question import question
from .saying import is_acknowledgement, is_fruitless, is_nothing, is_telling
from .volatile import CHANGES, NEWS, Change, changes, differ_in_forms, masked, plain, says

KEPT = 10
"""Calls that are kept: more than the longest period. The texts are most of what the watchdog holds of a run."""
LONGER = 40
SHARE = 0.03
"""By how much the lengths of results may differ that are the same: characters, and share of the length."""
ARGUMENTS_KEPT = 400
"""Characters of arguments up to which they are kept and compared; longer ones are the same only if they are equal."""
BESIDE = 3
"""Words of a result that stay, if what changes in it was only learned to be volatile."""
LOOK = 8
"""Characters at the beginning or at the end that two results have in common if they are worth a closer look."""
TOOLS = 16
"""Tools of which it is known whether they have more than one answer."""
LOOKS = 3
"""Close looks at results that are not equal to a new one."""
EQUAL_LOOKS = 4
"""Earlier calls with an equal result that a new one is compared with."""
SHOWN = 160
"""Characters of a result that messages show."""


class Seen:
    """A call with its last result, as far as it is kept."""

    __slots__ = (
        "arguments", "digest", "drift", "drifted", "family", "head", "inside", "key", "masked", "moved", "near",
        "result", "spelled", "tail", "tool", "varied",
    )  # fmt: skip

    def __init__(self, tool: str, key: str) -> None:
        self.tool = tool
        self.key = key
        """What the call is known by: the key of the first one like it."""
        self.arguments = ""
        self.digest = ""
        """The result itself, as a digest."""
        self.result = ""
        """What the result is known by: the digest of the first of a row of equal ones."""
        self.family = ""
        """What the result is known by among calls of this tool that are put differently."""
        self.drifted = False
        """Whether its result changed in ways that were only learned to be volatile."""
        self.masked = False
        """Whether its result is the one before but for ids, or for what was learned to be volatile."""
        self.moved = False
        """Whether its result is another one than the last time."""
        self.near = False
        """Whether the call is an earlier one put differently: alike, and with the same result."""
        self.inside = NOTHING
        """What lies between the edges of its last result."""
        self.spelled = 0
        self.varied = False
        """Whether it came with other arguments too."""
        self.head = self.tail = ""
        self.drift: Drift | None = None

    @property
    def end(self) -> str:
        return (self.tail or self.head)[-LOOK:]


class Recent:
    """The last calls that ran, the latest last."""

    __slots__ = ("_answers", "_seen", "_spelled")

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        """By the key that a call is known by."""
        self._spelled: dict[int, str] = {}
        """By tool and arguments, in one spelling and without volatile parts: that key."""
        self._answers: dict[str, int | None] = {}
        """By tool: the hash of its one answer so far, or None if it had several."""

    def shown(self, key: str) -> str | None:
        """The beginning of the last result of a call, if it is kept."""
        seen = self._seen.get(key)
        return None if seen is None else seen.head[:SHOWN]

    def result(self, key: str) -> str | None:
        """What the last result of a call is known by, if it is kept."""
        seen = self._seen.get(key)
        return None if seen is None else seen.result

    def spelled(self, key: str) -> str | None:
        """What the calls that are known by a key have in common, if they are not all equal."""
        seen = self._seen.get(key)
        return spelling(seen.tool, seen.arguments) if seen is not None and seen.varied and seen.arguments else None

    def known(self, tool: str, key: str, arguments: str) -> str:
        """What a call that did not run is known by."""
        if key in self._seen or len(arguments) > ARGUMENTS_KEPT or not self._seen:
            return key
        return self._spelled.get(hash((tool, *map(masked, parts_of(arguments)))), key)

    def recognise(self, tool: str, key: str, arguments: str, digest: str, content: str, failed: bool = False) -> Seen:
        """Note a call with its result; its ``key`` and ``result`` are those of an earlier one that is the same."""
        seen = self._seen.pop(key, None) or self._spelled_otherwise(tool, key, arguments)
        seen.near = seen.drifted = seen.moved = seen.masked = False
        if seen.digest != digest or seen.inside is NOTHING:
            if not failed and self._answers.setdefault(tool, hash(digest)) != hash(digest):
                self._answers[tool] = None
            if len(self._answers) > TOOLS:
                del self._answers[next(iter(self._answers))]
            self._take(seen, arguments, digest, plain(content) if "\x1b" in content or "\r" in content else content)
        self._seen.pop(seen.key, None)  # merged: the latest comes last
        self._seen[seen.key] = seen
        if len(self._seen) > KEPT:
            self._forget(self._seen.pop(next(iter(self._seen))))
        while len(self._spelled) > 4 * KEPT:
            del self._spelled[next(iter(self._spelled))]
        return seen

    def _forget(self, gone: Seen) -> None:
        if gone.varied:
            for spelled in [spelled for spelled, key in self._spelled.items() if key == gone.key]:
                del self._spelled[spelled]
        elif self._spelled.get(gone.spelled) == gone.key:
            del self._spelled[gone.spelled]

    def _spelled_otherwise(self, tool: str, key: str, arguments: str) -> Seen:
        """The call that is this one but for volatile parts and its spelling, or a new one."""
        short = len(arguments) <= ARGUMENTS_KEPT
        spelled = hash((tool, *map(masked, parts_of(arguments)))) if short else hash(key)
        known = self._spelled.get(spelled)
        seen = self._seen.pop(known, None) if known is not None else None
        if seen is None:
            seen = Seen(tool, key)
            self._spelled[spelled] = key
            seen.spelled = spelled
        else:
            seen.varied = True
        seen.arguments = arguments if short else ""
        return seen

    def _take(self, seen: Seen, arguments: str, digest: str, content: str) -> None:
        """Note another result of a call, and whether it is the same but for volatile parts."""
        before, edge = seen.inside, seen.inside.edge
        fresh = before is NOTHING
        head, tail = _edges(content, arguments, edge)
        about = not fresh and _are_about(len(content), before.length)
        # Of calls that are put differently each may have the result of the last one.
        last = next(reversed(self._seen.values()), seen) if fresh else seen
        inside = inside_of(content, edge, last.inside)
        equal = fresh or (about and is_inside_same(before, content, inside))
        # Whatever differs inside, it may be the same for once; then more is kept to tell whether it says something.
        same = equal or (about and edge == EDGE and is_mostly_same(before, inside))
        if fresh or not same or not _same(seen, head, tail):
            seen.result = seen.family = digest
            seen.moved = not fresh
        if not equal and edge == EDGE:
            head, tail = _edges(content, arguments, WIDER)
            inside = inside_of(content, WIDER)
        seen.digest, seen.head, seen.tail, seen.inside = digest, head, tail, inside
        if fresh:
            self._relate(seen, content)

    def _relate(self, seen: Seen, content: str) -> None:
        """Look whether a new call is an earlier one of the tool, put differently."""
        tool, slack = seen.tool, LONGER + seen.inside.length * SHARE
        least, most, head, end = seen.inside.length - slack, seen.inside.length + slack, seen.head[:LOOK], seen.end
        equal: list[Seen] = []
        about: list[Seen] = []
        for other in reversed(self._seen.values()):
            if not least <= other.inside.length <= most or other.tool != tool:
                continue
            if other.digest == seen.digest:
                equal.append(other)
            elif other.end == end or other.head.startswith(head):
                about.append(other)
        if not equal and not about:
            return
        asks: _Asks | None = None
        for other in (*equal[:EQUAL_LOOKS], *about[:LOOKS]):
            same = other.digest == seen.digest
            if not same and not is_inside_same(other.inside, content):
                continue
            tells_the_same = same or (other.inside.edge == EDGE and _is_same_news(other, seen))
            # Without arguments they were too long to be kept: it is another call, for all that is known.
            if asks is None and seen.arguments:
                asks = _Asks(seen, content, self._answers.get(tool) is None)
            if asks is not None and other.arguments and asks.is_the_same(other, tells_the_same):
                self._merge(other, seen, tells_the_same)
                return
            if tells_the_same:
                if seen.family == seen.digest:  # not related yet
                    seen.family = other.family
                if not seen.near and asks is not None and other.arguments and asks.is_near(other):
                    seen.near = True

    def _merge(self, other: Seen, seen: Seen, same: bool) -> None:
        """A call asks what an earlier one asked: it is that one. ``same``: it was told the same, but for scores."""
        self._spelled[seen.spelled] = other.key
        seen.key, seen.spelled, seen.varied = other.key, other.spelled, True
        other.drifted = other.masked = False
        if same or _same(other, seen.head, seen.tail):
            seen.result, seen.family, seen.near = other.result, other.family, True
        else:
            seen.moved = True
        seen.drift, seen.drifted, seen.masked = other.drift, other.drifted, other.masked


class _Asks:
    """What a new call asks, to compare it with earlier ones that had the same result."""

    def __init__(self, seen: Seen, content: str, several: bool) -> None:
        """``several``: its tool had other answers too. One that has but one, whatever it is told, acknowledges."""
        self._question = question(seen.arguments)
        self._several = several
        nothing, acknowledges = is_nothing(content), is_acknowledgement(content)
        self._acknowledges = acknowledges and not nothing
        self._tells = not acknowledges and not nothing
        self._says_much = self._tells and is_telling(content)

    def is_the_same(self, other: Seen, same: bool) -> bool:
        """Whether it is the very question that was asked before, and the answer tells something. Ids that mean nothing
        are no part of the question only if the answer is the ``same``."""
        mine, its = self._question, question(other.arguments)
        if self._tells and mine.asked == its.asked:
            return True
        return same and self._says_much and mine.bare == its.bare

    def is_near(self, other: Seen) -> bool:
        """Whether it asks the same in other words."""
        mine, its = self._question, question(other.arguments)
        if self._acknowledges:
            return self._several and bool(mine.asked) and mine.asked == its.asked
        return mine.asked == its.asked or its.is_like(mine, self._several and self._says_much)


def _is_same_news(one: Seen, other: Seen) -> bool:
    """Whether two calls had the same result, but for volatile parts and scores."""
    # Ids, and scores: numbers with a fraction.
    return _changed(one, other.head, other.tail, news=False) is not None


def _edges(content: str, arguments: str, edge: int) -> tuple[str, str]:
    """The beginning and the end of a result, without terminal escapes and without what it repeats of the arguments."""
    wide = 4 * edge
    if len(content) > 2 * wide:
        head, tail = content[:wide], content[-wide:]
    else:
        head, tail = content, ""
    values = _VALUES.findall(arguments[:ARGUMENTS_KEPT])[:4]
    values += [_unquoted(value) for value in values if "\\" in value]
    head, tail = plain(head), plain(tail)
    for value in values:
        head = head.replace(value, "…", 2)
        tail = tail.replace(value, "…", 2) if tail else ""
    return head[:edge], (tail or head[edge:])[-edge:]


def _unquoted(value: str) -> str:
    return value.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")


_VALUES = re.compile(r'"([^"\\]{12,300}|(?=[^"]*\\)(?:[^"\\]|\\[^u]){12,300})"(?!:)')


def _are_about(one: int, other: int) -> bool:
    """Whether results of these lengths may be the same."""
    return abs(one - other) <= LONGER + one * SHARE


def _same(seen: Seen, head: str, tail: str) -> bool:
    """Whether the edges of a result are those of the one before it but for volatile parts."""
    changed = _changed(seen, head, tail)
    if changed is None:
        seen.drift = None
        return False
    if not changed:
        return True
    seen.masked = True
    news = {place for (place, word), _, _ in changed if word == NEWS}
    if news and not _says_no(head, tail, news):
        seen.drift = None
        return False
    if seen.drift is None:
        seen.drift = Drift()
    seen.drifted = bool(news) or any(one.before != one.after for one in changed)
    # A gauge beside something else; alone it is what was asked for.
    return seen.drift.is_volatile(changed) and (not seen.drifted or says(head) - len(changed) >= BESIDE)


def _says_no(head: str, tail: str, news: set[int]) -> bool:
    """Whether what stays of a result says that it brought nothing: then other words beside it may be a matter of
    course, a hint or a handle. Beside anything else they may be what was asked for: a log, a chat."""
    parts = [part for index, part in enumerate(_parts(head)) if index not in news]
    parts += [part for index, part in enumerate(_parts(tail)[::-1]) if -1 - index not in news]
    return is_fruitless("\n".join(parts))


def _changed(seen: Seen, head: str, tail: str, *, news: bool = True) -> list[Change] | None:
    cut = bool(tail and seen.tail)
    changed = _changes(seen.head, head, cut, news)
    if not cut or changed is None:
        return changed
    more = _changes(seen.tail, tail, cut, news, backwards=True)
    if more is None or len(more) + len(changed) > CHANGES:
        return None
    return changed + [Change((-1 - place, word), a, b) for (place, word), a, b in more]


def _changes(before: str, after: str, cut: bool, news: bool, backwards: bool = False) -> list[Change] | None:
    """Where an edge differs. Most frequent are times and counters that keep their length: these are seen at once."""
    if before == after or (len(before) == len(after) and differ_in_forms(before.lower(), after.lower())):
        return []
    step = -1 if backwards else 1
    return changes(_parts(before)[::step], _parts(after)[::step], cut=cut, backwards=backwards, news=news)


@lru_cache(maxsize=32)
def _parts(text: str) -> list[str]:
    """The lines of an edge, or the fields; each is compared with the next one too. Not to be changed."""
    if '":' in text:  # JSON on one line
        text = text.replace(',"', '\n"').replace(', "', '\n"')
    return text.split("\n")
