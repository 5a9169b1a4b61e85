"""The file of a cassette: written whole line by whole line, read with what is wrong told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.cassette.chunks import error_as_data, error_in
from watchkeeper.cassette.entries import Drawn, Take
from watchkeeper.cassette.tape import Tape, parse, read
from watchkeeper.errors import CassetteError, ConfigurationError
from watchkeeper.model import ModelError
from watchkeeper.redaction import Redaction

HEAD = b'{"type":"cassette","holds":"run","by":"x"}\n'


def drawn(value: str) -> Drawn:
    return Drawn(what="id", prefix="r", value=value)


def recorded(path: Path, *values: str, adding: str = "once") -> Path:
    tape = Tape(path, "run", adding=adding)  # type: ignore[arg-type]
    tape.write(*map(drawn, values))
    tape.close()
    return path


def values_in(path: Path) -> list[list[str]]:
    return [[line.value for line in take.lines if isinstance(line, Drawn)] for take in read(path).takes]  # type: ignore[misc]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "r1", "r2")
    assert values_in(path) == [["r1", "r2"]]
    assert isinstance(read(path).takes[0].take, Take)
    assert read(path).cut == ""


def test_once_refuses_a_file_that_is_there(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "r1")
    before = path.read_bytes()
    with pytest.raises(CassetteError, match="is there already: add to it, remove it, or name another file"):
        Tape(path, "run")
    assert path.read_bytes() == before


def test_adding_begins_another_recording(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "r1", adding="add")
    recorded(path, "r2", adding="add")
    assert values_in(path) == [["r1"], ["r2"]]


def test_a_recording_of_nothing_leaves_nothing_behind(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a")
    assert not path.exists()
    recorded(path, "r1")
    before = path.read_bytes()
    recorded(path, adding="add")
    assert path.read_bytes() == before


def test_a_file_in_the_place_of_an_empty_recording_is_not_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "a"
    tape = Tape(path, "run")
    path.rename(tmp_path / "b")
    path.write_text("of somebody else")
    tape.close()
    tape.close()
    assert path.read_text("utf-8") == "of somebody else"


def test_adding_takes_a_cut_line_away_first(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "r1")
    with path.open("ab") as file:
        file.write(b'{"type":"drawn","wh')
    assert read(path).cut == "line 3 was cut off and is left out (19 bytes)"
    recorded(path, "r2", adding="add")
    assert values_in(path) == [["r1"], ["r2"]]
    assert read(path).cut == ""


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "r1")
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    recorded(path, "r2", adding="add")
    assert values_in(path) == [["r1"], ["r2"]]


@given(st.integers(0, 200))
def test_wherever_a_crash_cuts_all_whole_lines_are_read(place: int) -> None:
    whole = HEAD + b"".join(
        b'{"type":"drawn","what":"id","prefix":"r","value":"r%d"}\n' % number for number in range(3)
    )
    data = whole[: len(HEAD) + place]
    contents = parse("x", data.splitlines(keepends=True))
    whole_lines = data.count(b"\n") - 1
    assert whole_lines <= len(contents.takes[0].lines) <= whole_lines + 1
    assert bool(contents.cut) == (len(contents.takes[0].lines) == whole_lines and not data.endswith(b"\n"))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty: record the cassette anew"),
        (b"no\n", "line 1: not a line of a cassette"),
        (b'{"type":"drawn","what":"id","value":"r"}\n', "line 1: a cassette begins with a line of the type cassette"),
        (HEAD + b"no\n" + HEAD, "line 2: not a line of a cassette"),
        (HEAD + b'{"type":"drawn"', "cut"),
        (b'{"type":"cassette","holds":"run","version":99}\n', "format 99; this version reads 1: record it anew"),
        (HEAD + b"[" * 100_000 + b"\n", "line 2: not a line of a cassette"),
    ],
)
def test_what_is_no_cassette_is_told_with_its_line(data: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    if told == "cut":
        assert "line 2 was cut off" in read(path).cut
        return
    with pytest.raises(CassetteError, match=told):
        read(path)


def test_a_file_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("my notes")
    with pytest.raises(CassetteError, match="line 1"):
        Tape(path, "run", adding="add")
    assert path.read_text("utf-8") == "my notes"


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="No such file"):
        read(tmp_path / "none")
    with pytest.raises(CassetteError, match="cannot be written: No such file"):
        Tape(tmp_path / "none" / "a", "run")
    with pytest.raises(ConfigurationError, match="'once' or by 'add'"):
        Tape(tmp_path / "b", "run", adding="twice")  # type: ignore[arg-type]


def test_a_full_disk_ends_the_recording_and_nothing_else() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    tape = Tape("/dev/full", "run", adding="add")
    tape.write(drawn("r1"))
    assert tape.failed is not None
    assert "No space" in str(tape.failed)
    tape.close()


@pytest.mark.parametrize("sent", [True, False])
def test_an_error_of_a_model_stays_what_it_was(sent: bool) -> None:
    error = ModelError("rate_limited", "later", retry_after=3.0, status=429, sent=sent)
    again = error_in(error_as_data(error, Redaction()))
    assert isinstance(again, ModelError)
    assert (str(again), vars(again)) == (str(error), vars(error))
