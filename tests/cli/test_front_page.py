"""The first page of the help is what cyclopts makes of the commands, to the byte."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from watchkeeper.cli import main
from watchkeeper.cli.app import application
from watchkeeper.cli.front import LEAST, UNUSUAL, can_print, lines


def by_cyclopts(width: int, coloured: bool) -> str:
    written = io.StringIO()
    console = Console(
        file=written,
        width=width,
        force_terminal=coloured,
        color_system="standard" if coloured else None,
        no_color=False,
        legacy_windows=False,
    )
    application()(["--help"], console=console)
    return written.getvalue()


@pytest.mark.parametrize("coloured", [False, True])
@pytest.mark.parametrize("width", [LEAST, 61, 64, 70, 79, 80, 81, 97, 100, 120, 133, 200])
def test_it_is_the_page_of_cyclopts(width: int, coloured: bool) -> None:
    page = "".join(f"{line}\n" for line in lines(width, coloured=coloured))
    assert page == by_cyclopts(width, coloured)


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_it_is_printed_as_wide_as_the_terminal(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in UNUSUAL:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for width in (72, 110):
        monkeypatch.setenv("COLUMNS", str(width))
        assert can_print()
        assert main(arguments) == 0
        assert capsys.readouterr().out == by_cyclopts(width, coloured=False)


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), ("FORCE_COLOR", ""), ("TERM", "dumb"), ("COLUMNS", str(LEAST - 1))]
)
def test_cyclopts_prints_it_where_more_is_to_be_known(
    name: str, value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for unset in UNUSUAL:
        monkeypatch.delenv(unset, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    assert can_print()
    monkeypatch.setenv(name, value)
    assert not can_print()
    assert main(["--help"]) == 0
    assert "Runs on this machine" in capsys.readouterr().out


def test_an_encoding_without_frames_is_left_to_cyclopts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert not can_print()
