"""What a worker and its foreman say to each other: lines of JSON over a socket that the worker inherits."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

LONGEST = 1 << 20
"""Bytes of a line. A longer one is dropped: a stack is cut to a sixteenth of that."""

T = TypeVar("T")


class Sign(msgspec.Struct, frozen=True, tag_field="sign"):
    """From the worker."""


class Hello(Sign, frozen=True, tag="hello"):
    """It has its file and takes runs from now on."""

    backend: str


class Beat(Sign, frozen=True, tag="beat"):
    """It is alive."""

    runs: int = 0
    lag: float | None = None
    """Seconds that its loop took to answer; None: it has no loop yet."""
    stuck: tuple[str, ...] = ()
    """Calls that were given up and have not ended: they swallow their cancellation."""


class Blocked(Sign, frozen=True, tag="blocked"):
    """Its loop has not answered for so many seconds; ``frame`` holds it."""

    seconds: float
    frame: str
    stack: str


class Stack(Sign, frozen=True, tag="stack"):
    text: str


class Reloaded(Sign, frozen=True, tag="reloaded"):
    """It has read its configuration anew; ``problem``: why it keeps the old one."""

    problem: str = ""


class Bye(Sign, frozen=True, tag="bye"):
    """It ends, in good order. ``problem``: why it could not work, for a person."""

    problem: str = ""


AnySign = Hello | Beat | Blocked | Stack | Reloaded | Bye


class Order(msgspec.Struct, frozen=True, tag_field="order"):
    """To the worker."""


class Drain(Order, frozen=True, tag="drain"):
    """Take no more runs; let turns finish for so many seconds, suspend what is left, and end."""

    seconds: float


class Stop(Order, frozen=True, tag="stop"):
    """Suspend all runs at once, and end."""


class ShowStack(Order, frozen=True, tag="show_stack"):
    pass


class Reload(Order, frozen=True, tag="reload"):
    pass


AnyOrder = Drain | Stop | ShowStack | Reload

SIGNS: msgspec.json.Decoder[AnySign] = msgspec.json.Decoder(AnySign)
ORDERS: msgspec.json.Decoder[AnyOrder] = msgspec.json.Decoder(AnyOrder)


def line(said: Sign | Order) -> bytes:
    return msgspec.json.encode(said) + b"\n"


class Lines(Generic[T]):
    """Puts pieces of bytes together to messages. What is none is counted in ``bad`` and dropped."""

    def __init__(self, decoder: msgspec.json.Decoder[T]) -> None:
        self._decoder = decoder
        self._rest = bytearray()
        self._skipping = False
        self.bad = 0

    def feed(self, piece: bytes) -> list[T]:
        found: list[T] = []
        *whole, rest = piece.split(b"\n")
        for part in whole:
            self._rest += part
            if not self._skipping and len(self._rest) <= LONGEST:
                try:
                    found.append(self._decoder.decode(self._rest))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    self.bad += 1
            else:
                self.bad += 1
            self._rest.clear()
            self._skipping = False
        self._rest += rest
        if len(self._rest) > LONGEST:
            self._rest.clear()
            self._skipping = True
        return found
