"""The commands at a terminal: what is asked, what keys do, how a table fits."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import TIMEOUT, environment

from watchkeeper.cli.columns import GAP, kept
from watchkeeper.cli.ids import SHORT, meant, shortened
from watchkeeper.cli.standing import short_number, span

STAGED = Path(__file__).parent / "staged.py"


class Terminal:
    """The program in the foreground of a pseudo-terminal, and somebody at it."""

    def __init__(self, *arguments: str) -> None:
        self._end, self._its_end = pty.openpty()
        self.before = termios.tcgetattr(self._its_end)
        self.process = subprocess.Popen(
            [sys.executable, str(STAGED), *arguments],
            stdin=self._its_end,
            stdout=self._its_end,
            stderr=self._its_end,
            env=environment(TERM="xterm", COLUMNS="100", LINES="30"),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.shown = ""

    def until(self, text: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while text not in self.shown:
            ready, _, _ = select.select([self._end], [], [], TIMEOUT)
            assert ready, f"{text!r} does not come: {self.shown[-2000:]}"
            assert time.monotonic() < deadline, f"{text!r} does not come: {self.shown[-2000:]}"
            piece = os.read(self._end, 65536)
            self.shown += piece.decode("utf-8", "replace").replace("\r", "")

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def end(self) -> int:
        code = self.process.wait(TIMEOUT)
        os.set_blocking(self._end, False)
        try:
            while piece := os.read(self._end, 65536):
                self.shown += piece.decode("utf-8", "replace").replace("\r", "")
        except OSError:
            pass
        self.after = termios.tcgetattr(self._its_end)
        os.close(self._its_end)
        os.close(self._end)
        return code


@pytest.mark.parametrize(
    ("answer", "code", "said"), [("y", 0, "r00000001: cancelled"), ("n", 1, "nothing was cancelled")]
)
def test_many_runs_are_asked_about(answer: str, code: int, said: str) -> None:
    terminal = Terminal("cancel", "--all", "--wait")
    terminal.until("cancel 2 runs (now)? [y/N] ")
    assert "Sort the letters" in terminal.shown
    terminal.type(f"{answer}\n")
    assert terminal.end() == code
    assert said in terminal.shown


def test_an_approval_is_shown_and_asked_about() -> None:
    terminal = Terminal("approvals", "approve", "a1")
    terminal.until("permit it (once)? [y/N] ")
    assert '{"path":"notes/a","text":"hello"}' in terminal.shown
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "a1 is permitted (once)" in terminal.shown


@pytest.mark.parametrize("how", ["q", "Ctrl-C", "SIGTERM"])
def test_going_away_from_a_tail_stops_nothing_and_says_so(how: str) -> None:
    terminal = Terminal("tail", "-f", "r00000001")
    terminal.until("turn 1")
    if how == "SIGTERM":
        terminal.process.send_signal(signal.SIGTERM)
    else:
        terminal.type("q" if how == "q" else "\x03")
    assert terminal.end() == 0
    assert "detached; the run goes on" in terminal.shown
    assert terminal.after == terminal.before


def test_watching_draws_what_it_does_and_q_leaves() -> None:
    terminal = Terminal("watch", "r00000001")
    terminal.until("turn 1 of 20")
    terminal.type("q")
    assert terminal.end() == 0
    assert terminal.after == terminal.before


def test_the_list_is_drawn_again_until_q() -> None:
    terminal = Terminal("ps", "--watch")
    terminal.until("2 running")
    terminal.until("1 to approve")
    terminal.type("q")
    assert terminal.end() == 0
    assert "\x1b[?1049l" in terminal.shown  # the screen from before is back


def test_ctrl_c_ends_the_waiting_and_no_run() -> None:
    terminal = Terminal("wait", "r00000001", "r00000003")
    terminal.until("completed (answer)")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "nothing was stopped" in terminal.shown


def test_a_table_fits_the_terminal() -> None:
    terminal = Terminal("ps", "-a")
    assert terminal.end() == 0
    lines = [line for line in terminal.shown.split("\n") if "r0000" in line]
    assert len(lines) == 3


# -- what it comes down to ---------------------------------------------------------------------------------------------

CELLS = st.text("abc", max_size=12)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), max_size=5), st.integers(20, 80))
def test_columns_that_are_kept_fit(rows: list[tuple[str, ...]], width: int) -> None:
    heads = ("ID", "B", "C", "LAST")
    places, room = kept(heads, rows, width, ("C", "B"))
    used = [max(len(text) for text in (heads[place], *(row[place] for row in rows))) for place in places[:-1]]
    assert sum(used) + GAP * len(used) + room <= width or room == 1
    assert (places[0], places[-1]) == (0, 3)
    if not any(row[1] for row in rows) and rows:
        assert 1 not in places


@given(st.sets(st.text("ab", min_size=1, max_size=14), min_size=1, max_size=20))
def test_what_is_shown_of_an_id_means_it(ids: set[str]) -> None:
    for one, short in shortened(ids).items():
        assert one.startswith(short)
        assert len(short) >= min(SHORT, len(one))
        assert meant(short, ids) == [one]


def test_words_for_numbers_and_times() -> None:
    assert [short_number(n) for n in (0, 7, 999, 1200, 2_000_000, 5e9)] == ["0", "7", "999", "1.2k", "2M", "5G"]
    assert [span(s) for s in (0, 4.9, 60, 192, 7500, 86_400, 273_600)] == [
        "0s",
        "4s",
        "1m",
        "3m12s",
        "2h5m",
        "1d",
        "3d4h",
    ]
