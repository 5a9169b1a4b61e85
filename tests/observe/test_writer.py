"""Lines are written by a thread of their own: a pipe that nobody empties holds nobody up."""

from __future__ import annotations

import contextlib
import io
import os
import threading

import pytest

from watchkeeper.observe import writer as module
from watchkeeper.observe.writer import WAITING, Writer


class Stuck(io.StringIO):
    """A pipe that is full until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.free = threading.Event()

    def write(self, text: str) -> int:
        self.reached.set()
        assert self.free.wait(30)
        return super().write(text)


def test_lines_come_in_order() -> None:
    stream = io.StringIO()
    writer = Writer(stream)
    for number in range(1000):
        writer.write(str(number))
    assert writer.close()
    assert stream.getvalue().splitlines() == [str(number) for number in range(1000)]


def test_what_has_no_room_is_left_out_and_counted() -> None:
    stream = Stuck()
    writer = Writer(stream)
    writer.write("first")
    assert stream.reached.wait(30)
    for number in range(WAITING + 25):
        writer.write(str(number))
    assert writer.left_out == 25
    stream.free.set()
    assert writer.close()
    assert len(stream.getvalue().splitlines()) == WAITING + 1


def test_closing_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stuck()
    writer = Writer(stream)
    writer.write("first")
    assert stream.reached.wait(30)
    monkeypatch.setattr(module, "LAST", 0.01)
    assert not writer.close()
    stream.free.set()
    writer._thread.join(30)


def test_where_nobody_reads_it_stops_writing_and_says_why() -> None:
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    writer = Writer(stream)
    writer.write("x")
    writer.write("y")
    assert writer.close()
    assert isinstance(writer.failed, BrokenPipeError)
    with contextlib.suppress(BrokenPipeError):
        stream.close()
