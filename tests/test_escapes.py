"""Terminal escapes are taken out of what tools return."""

from __future__ import annotations

import pytest

from watchkeeper.escapes import neutral

FORBIDDEN = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - set("\t\n\r")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred\x9bm", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;cm0gLXJmIC8=\x07", ""),
        ("\x1bP1$q\x1b\\x", "x"),
        ("\x1b[2J\x1b[H", ""),
        ("a\x08b\x07c\x00d\x7f\x85", "a␈b␇c␀d␡\ufffd"),
        ("\x1b", "␛"),
        ("\x1bc", "␛c"),
        ("\x1b]0;never ends", "␛]0;never ends"),
        ("\x1b[" + "1" * 20 + "\n", "␛[" + "1" * 20 + "\n"),
    ],
)
def test_sequences_go_and_what_is_left_is_a_picture(text: str, shown: str) -> None:
    assert neutral(text) == shown


@pytest.mark.parametrize("text", ["", "plain", "a\tb\r\nc\n", "ünïcödé ✓ 日本", "\u202e", "x" * 10_000])
def test_what_holds_none_stays_as_it_is(text: str) -> None:
    assert neutral(text) is text


def test_nothing_that_steers_a_terminal_is_left() -> None:
    every = "".join(map(chr, range(0x100))) * 3
    assert FORBIDDEN.isdisjoint(neutral(every))
    assert FORBIDDEN.isdisjoint(neutral("\x1b[\x1b[31m31m\x1b]\x1b]0;x\x07"))
