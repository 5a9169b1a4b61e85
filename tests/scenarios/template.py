"""Placeholders in the texts of scenarios: what a real tool makes anew each time, the same in every run of the tests.

Each value is drawn from the scenario's name and the call's number; there is no clock and no shared chance.
"""

from __future__ import annotations

import datetime
import random
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

_TEXT = """
    amber anchor apple arrow autumn bakery basket beacon birch border bottle branch bridge bronze bucket button cabin
    candle canyon carbon castle cedar chapel cherry circle clover cobalt copper coral cotton cradle crystal dagger
    desert dragon eagle ember engine falcon feather fender forest fossil garden garnet ginger glacier granite harbor
    hazel helmet hollow indigo island ivory jacket jasper jungle kernel kettle ladder lagoon lantern laurel lemon
    linen lotus magnet maple marble meadow mirror mosaic mustard nectar needle nickel nutmeg oasis olive onyx opal
    orchid oxygen paddle panther parcel pebble pepper pewter pillow pine plasma pocket pollen prairie prism quartz
    quiver rabbit raven ribbon river rocket saddle saffron salmon sapphire scarlet shadow silver socket spruce
    stone sugar summit sunset tango temple thistle thunder timber topaz tulip tunnel turbine umber valley vanilla
    velvet violet walnut whisper willow window winter yellow zephyr zinc
"""
WORDS = _TEXT.split()

START = datetime.datetime(2026, 3, 2, 9, 14, 3, tzinfo=datetime.UTC)
"""When the first call of each scenario is made; each further call is some seconds later."""

NUMBERS = frozenset({"sum", "epoch", "ms", "pid", "port", "num"})
"""What is a number where nothing else stands in the text."""

TOKEN = re.compile(
    r"\{(?:(?P<sum>[0-9+*/%-]*[ijn][ijn0-9+*/%-]*)(?::0(?P<pad>\d))?"
    r"|(?P<name>uuid|hex8|hex12|hex40|iso|time|epoch|ms|sec|pid|port|word|words|num|pick|fill|fresh|it)"
    r"(?P<field>\.\w+)?(?::(?P<of>[^{}]*?))?(?:#(?P<tag>\w+))?)\}"
)


class BadTemplate(ValueError):
    """Raised when a placeholder makes no sense."""


class Filler:
    """Fills in the placeholders of one call.

    ``{i}`` the lap of the block from 1, ``{j}`` that of the block around it, ``{n}`` the number of the call, and sums
    of these (``{i*40+1}``, ``{i:03}``); ``{it}`` and ``{it.field}`` the item of an ``each`` block; ``{pick:a|b}``,
    ``{num:1-9}``, ``{word}``, ``{words:5}``; ``{fresh:300}`` that many characters of text, new in each call, and
    ``{fill:300}`` equal ones. With a tag (``{uuid#a}``) a value is the same all over the call.
    """

    def __init__(self, scenario: str, n: int, laps: Mapping[str, int], item: Any = None) -> None:
        self._scenario = scenario
        self._n = n
        self._laps = {"i": 1, "j": 1, **laps, "n": n}
        self._item = item
        self._drawn = 0

    def fill(self, value: Any) -> Any:
        """The value with the placeholders of all its texts filled in, also those of keys."""
        if isinstance(value, dict):
            return {self._text(key): self.fill(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.fill(inner) for inner in value]
        return self._whole(value) if isinstance(value, str) else value

    def _whole(self, text: str) -> Any:
        """A placeholder that stands alone keeps its kind: a number stays one."""
        found = TOKEN.fullmatch(text)
        if found is not None and found["name"] == "it":
            return self.fill(self._of_item(found["field"]))
        filled = self._text(text)
        alone = found is not None and found["pad"] is None and ("sum" if found["sum"] else found["name"]) in NUMBERS
        return int(filled) if alone else filled

    def _text(self, text: str) -> str:
        return TOKEN.sub(self._value, text) if "{" in text else text

    def _value(self, found: re.Match[str]) -> str:
        if found["sum"]:
            return f"{self._sum(found['sum']):0{found['pad'] or 1}d}"
        name, of = found["name"], found["of"] or ""
        if name == "it":
            return self._text(str(self._of_item(found["field"])))
        self._drawn += 1
        call = "" if name == "fill" else self._n
        chance = random.Random(f"{self._scenario}|{call}|{name}|{found['tag'] or self._drawn}")
        return _DRAW[name](chance, of, self._n)

    def _sum(self, text: str) -> int:
        """Products before sums; whole numbers only."""
        try:
            return int(eval(text.replace("/", "//"), {"__builtins__": {}}, self._laps))
        except (SyntaxError, TypeError, ZeroDivisionError) as error:
            raise BadTemplate(f"{{{text}}}: {error}") from None

    def _of_item(self, field: str | None) -> Any:
        if self._item is None:
            raise BadTemplate("{it} stands outside of an each block")
        try:
            return self._item if field is None else self._item[field[1:]]
        except (KeyError, TypeError):
            raise BadTemplate(f"the items of this each block have no field {field!r}") from None


def _moment(chance: random.Random, n: int) -> datetime.datetime:
    return START + datetime.timedelta(seconds=17 * n, milliseconds=chance.randrange(1000))


def _words(chance: random.Random, of: str, n: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(int(of or 1)))


def _text(chance: random.Random, of: str, n: int) -> str:
    """Lines of six words with a number, as long as asked for."""
    size, lines, length = int(of or 200), [], 0
    while length < size:
        lines.append(f"{_words(chance, '6', n)} {chance.randrange(10_000)}")
        length += len(lines[-1]) + 1
    return "\n".join(lines)[:size]


def _between(chance: random.Random, of: str, n: int) -> str:
    low, _, high = of.partition("-")
    return str(chance.randint(int(low), int(high)))


_DRAW: dict[str, Callable[[random.Random, str, int], str]] = {
    "uuid": lambda chance, of, n: str(uuid.UUID(int=chance.getrandbits(128), version=4)),
    "hex8": lambda chance, of, n: f"{chance.getrandbits(32):08x}",
    "hex12": lambda chance, of, n: f"7f{chance.getrandbits(40):010x}",
    "hex40": lambda chance, of, n: f"{chance.getrandbits(160):040x}",
    "iso": lambda chance, of, n: _moment(chance, n).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    "time": lambda chance, of, n: _moment(chance, n).strftime("%H:%M:%S"),
    "epoch": lambda chance, of, n: str(int(_moment(chance, n).timestamp())),
    "ms": lambda chance, of, n: str(chance.randint(12, 4800)),
    "sec": lambda chance, of, n: f"{chance.uniform(0.02, 9):.2f}",
    "pid": lambda chance, of, n: str(chance.randint(1000, 65_000)),
    "port": lambda chance, of, n: str(chance.randint(32_768, 60_999)),
    "word": lambda chance, of, n: chance.choice(WORDS),
    "words": _words,
    "num": _between,
    "pick": lambda chance, of, n: chance.choice(of.split("|")),
    "fill": _text,
    "fresh": _text,
}
