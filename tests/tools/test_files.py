from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from watchkeeper import Tool, ToolError, ToolOutput
from watchkeeper_tools import files, root

Call = Callable[..., ToolOutput]


@pytest.fixture
def made(tmp_path: Path) -> dict[str, Tool]:
    return {each.name: each for each in files.tools(root=tmp_path)}


@pytest.fixture
def read(made: dict[str, Tool]) -> Call:
    return made["read_file"].function


@pytest.fixture
def write(made: dict[str, Tool]) -> Call:
    return made["write_file"].function


@pytest.fixture
def edit(made: dict[str, Tool]) -> Call:
    return made["edit_file"].function


@pytest.fixture
def delete(made: dict[str, Tool]) -> Call:
    return made["delete_file"].function


def test_the_set(made: dict[str, Tool]) -> None:
    assert list(made) == [
        "read_file",
        "list_dir",
        "find_files",
        "search_text",
        "write_file",
        "edit_file",
        "delete_file",
    ]
    assert all(each.description for each in made.values())
    assert [each.name for each in made.values() if each.dangerous] == ["delete_file"]
    assert not any(each.stable for each in made.values())


def test_root_must_exist(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError):
        files.tools(root=tmp_path / "no")


def test_options_of_other_sets_are_ignored(tmp_path: Path) -> None:
    assert files.tools(root=tmp_path, hosts=["example.com"], sandbox=True)


# Effects


def test_effects_name_the_real_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    made = {each.name: each for each in files.tools(root=tmp_path / "link")}
    real = f"shared:{tmp_path.resolve()}/real"
    assert made["read_file"].effect_of({"path": "a//./b.txt"}).reads == (f"{real}/a/b.txt",)
    assert made["write_file"].effect_of({"path": "a/b.txt", "content": ""}).writes == (f"{real}/a/b.txt",)
    assert made["edit_file"].effect_of({"path": "x", "old": "a", "new": "b"}).writes == (f"{real}/x",)
    assert made["delete_file"].effect_of({"path": f"{tmp_path}/link/x"}).writes == (f"{real}/x",)
    assert made["search_text"].effect_of({"pattern": "x"}).reads == (real,)
    assert made["list_dir"].effect_of({"path": "a"}).reads == (f"{real}/a",)


def test_root_of_the_system_has_a_name_without_two_slashes() -> None:
    tree = root.Root("/")
    assert tree.resource("etc/x") == "shared:/etc/x"
    assert tree.resource(".") == "shared:"


# Reading


def test_read_whole(tmp_path: Path, read: Call) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert read(path="a.txt") == ToolOutput("one\ntwo", productive=True)


def test_read_by_absolute_path_inside(tmp_path: Path, read: Call) -> None:
    (tmp_path / "a.txt").write_text("x")
    assert read(path=str(tmp_path / "a.txt")).content == "x"


def test_read_a_piece_says_how_to_go_on(tmp_path: Path, read: Call) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert read(path="a.txt", offset=3, limit=2).content == "line 3\nline 4\n[lines 3 to 4 of 10; go on with offset=5]"
    assert read(path="a.txt", offset=10).content == "line 10\n[lines 10 to 10 of 10]"
    assert read(path="a.txt", offset=11) == ToolOutput("[the file has only 10 lines]", productive=False)


def test_pieces_of_a_long_file_make_the_whole(tmp_path: Path, read: Call) -> None:
    text = "".join(f"{n} " + "x" * 90 + "\n" for n in range(1000))
    (tmp_path / "a.txt").write_text(text)
    pieces, offset = [], 1
    while True:
        content = read(path="a.txt", offset=offset).content
        assert len(content) < files.MAX_TEXT + 200
        piece, _, note = content.rpartition("\n[")
        pieces.append(piece + "\n")
        if "offset=" not in note:
            break
        offset = int(note.rpartition("=")[2].rstrip("]"))
    assert "".join(pieces) == text


def test_a_very_long_line_is_cut_and_said_to_be(tmp_path: Path, read: Call) -> None:
    (tmp_path / "a.txt").write_text("y" * 100_000 + "\nnext\n")
    content = read(path="a.txt").content
    assert len(content) < files.MAX_TEXT + 200
    assert "line 1 is 100,000 characters long and cut" in content
    assert "offset=2" in content


def test_a_huge_file_is_not_read_whole(tmp_path: Path, read: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_READ", 100)
    (tmp_path / "a.txt").write_text("0123456789\n" * 1000)
    assert "the file is 11,000 bytes long; only its first 100 can be read here" in read(path="a.txt").content


@pytest.mark.parametrize(
    ("data", "content", "error"),
    [
        (b"", "[the file is empty]", None),
        (b"\x7fELF\0\0", "a.bin is a binary file of 6 bytes; its content is not shown", "binary_file"),
    ],
)
def test_what_has_no_text_is_no_evidence(
    tmp_path: Path, read: Call, data: bytes, content: str, error: str | None
) -> None:
    (tmp_path / "a.bin").write_bytes(data)
    assert read(path="a.bin") == ToolOutput(content, productive=False, error=error)


def test_bytes_that_are_not_utf8_are_shown_as_such(tmp_path: Path, read: Call) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9")
    assert read(path="a.txt").content == "caf\ufffd\n[bytes that are not UTF-8 are shown as \ufffd]"


def test_a_missing_file_is_a_result_that_names_the_nearest(tmp_path: Path, read: Call) -> None:
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams" / "data.txt").write_text("x")
    assert read(path="teams/dat.txt/") == ToolOutput(
        "there is no teams/dat.txt. Nearest in teams: teams/data.txt", productive=False, error="not_found"
    )
    assert "already its directory team does not exist. Nearest in .: teams" in read(path="team/data.txt").content


def test_names_that_are_no_text_are_shown_escaped(tmp_path: Path, read: Call) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/bad\xff\nname", os.O_CREAT | os.O_WRONLY))
    content = read(path="bad").content
    assert content.encode().decode() == content
    assert "bad\\udcff\\nname" in content


# Writing


def test_write_makes_directories_and_the_file(tmp_path: Path, write: Call) -> None:
    assert write(path="a/b/c.txt", content="hé\n").content == "wrote a/b/c.txt: 4 bytes, 1 lines"
    assert (tmp_path / "a/b/c.txt").read_text("utf-8") == "hé\n"


def test_write_keeps_the_mode_but_not_setuid(tmp_path: Path, write: Call) -> None:
    (tmp_path / "run").write_text("x")
    (tmp_path / "run").chmod(0o4750)
    write(path="run", content="y")
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o750


def test_a_new_file_gets_the_usual_mode(tmp_path: Path, write: Call) -> None:
    (tmp_path / "usual").write_text("x")
    write(path="new", content="x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_write_leaves_a_hard_link_elsewhere_alone(tmp_path: Path, write: Call) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("old")
    os.link(outside, tmp_path / "a")
    write(path="a", content="new")
    assert outside.read_text("utf-8") == "old"


@pytest.mark.parametrize("name", ["write_file", "edit_file", "delete_file"])
def test_read_only_files_stay(tmp_path: Path, made: dict[str, Tool], name: str) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(0o444)
    given = {"write_file": {"content": "y"}, "edit_file": {"old": "x", "new": "y"}}.get(name, {})
    with pytest.raises(ToolError, match="read-only"):
        made[name].function(path="a", **given)
    assert (tmp_path / "a").read_text("utf-8") == "x"


def test_a_write_that_breaks_off_changes_nothing(tmp_path: Path, write: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("old")
    seen: list[str] = []

    def break_off(_: int) -> None:
        seen.append((tmp_path / "a").read_text("utf-8"))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", break_off)
    with pytest.raises(KeyboardInterrupt):
        write(path="a", content="new" * 1_000_000)
    assert seen == ["old"]
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text("utf-8") == "old"


def test_a_reader_that_has_opened_keeps_the_old_bytes(tmp_path: Path, write: Call) -> None:
    (tmp_path / "a").write_text("old" * 1000)
    with (tmp_path / "a").open() as reader:
        assert reader.read(3) == "old"
        write(path="a", content="new")
        assert reader.read() == "old" * 999


def test_too_much_is_not_written(tmp_path: Path, write: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_WRITE", 10)
    with pytest.raises(ToolError, match="10 is the most"):
        write(path="a", content="x" * 11)
    assert not os.listdir(tmp_path)


# Changed since read


def change(path: Path, text: str) -> None:
    """By someone else's hand, and later than any clock's grain."""
    path.write_text(text)
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("name", ["write_file", "edit_file", "delete_file"])
def test_what_changed_since_read_must_be_read_again(tmp_path: Path, made: dict[str, Tool], name: str) -> None:
    (tmp_path / "a").write_text("v1")
    made["read_file"].function(path="a")
    change(tmp_path / "a", "v2")
    given = {"write_file": {"content": "v3"}, "edit_file": {"old": "v2", "new": "v3"}}.get(name, {})
    with pytest.raises(ToolError, match="changed since read; read it again"):
        made[name].function(path="a", **given)
    assert (tmp_path / "a").read_text("utf-8") == "v2"
    made["read_file"].function(path="./a")
    assert made[name].function(path="a", **given).productive


def test_own_writes_are_no_change(tmp_path: Path, read: Call, write: Call, edit: Call) -> None:
    write(path="a", content="v1")
    read(path="a")
    write(path="a", content="v2")
    edit(path="a", old="v2", new="v3")
    write(path="a", content="v4")
    assert (tmp_path / "a").read_text("utf-8") == "v4"


def test_a_file_never_read_may_be_written(tmp_path: Path, write: Call) -> None:
    (tmp_path / "a").write_text("v1")
    write(path="a", content="v2")
    assert (tmp_path / "a").read_text("utf-8") == "v2"


def test_a_change_while_writing_is_seen(tmp_path: Path, edit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("v1")
    fsync = os.fsync

    def meanwhile(handle: int) -> None:
        fsync(handle)
        change(tmp_path / "a", "v1 and more")

    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(ToolError, match="changed by someone else meanwhile"):
        edit(path="a", old="v1", new="v2")
    assert (tmp_path / "a").read_text("utf-8") == "v1 and more"
    assert os.listdir(tmp_path) == ["a"]


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_REMEMBERED", 2)
    kept = files.Files(root.Root(tmp_path))
    for name in "abc":
        (tmp_path / name).write_text(name)
        kept.read_file(name)
    assert list(kept._stamps) == [("b",), ("c",)]


# Editing


def test_edits_of_different_lines_add_up(tmp_path: Path, edit: Call) -> None:
    (tmp_path / "a").write_text("".join(f"line {n};\n" for n in range(100)))
    for n in range(6):
        assert edit(path="a", old=f"line {n};", new=f"LINE {n};").content == f"edited a at line {n + 1}"
    assert (tmp_path / "a").read_text("utf-8").count("LINE") == 6


@pytest.mark.parametrize(
    ("data", "old", "message", "hint"),
    [
        (b"a b a", "a", "found 2 times", "more of the lines around"),
        (b"aaa", "aa", "found 2 times", "more of the lines around"),
        (b"abc", "x", "not found", "exactly"),
        (b"    if x:\n", "\tif x:\n", "not found", "line 1 of the file is like the first line of old but for white"),
        (b"a\r\nb\r\n", "a\nb\n", "not found", r"\\r\\n"),
        (b"abc", "", "old is empty", "write_file"),
        (b"abc", "b", "equal", ""),
    ],
)
def test_edits_that_are_not_exact_and_unique(
    tmp_path: Path, edit: Call, data: bytes, old: str, message: str, hint: str
) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ToolError, match=message) as raised:
        edit(path="a", old=old, new="b")
    assert hint.replace("\\\\", "\\") in (raised.value.hint or "")
    assert (tmp_path / "a").read_bytes() == data


def test_edit_keeps_bytes_that_are_not_utf8(tmp_path: Path, edit: Call) -> None:
    (tmp_path / "a").write_bytes(b"\xff one \xfe\r\n")
    edit(path="a", old="one", new="two")
    assert (tmp_path / "a").read_bytes() == b"\xff two \xfe\r\n"


def test_edit_and_delete_of_what_is_not_there(edit: Call, delete: Call) -> None:
    assert edit(path="a", old="x", new="y").error == "not_found"
    assert delete(path="a").error == "not_found"


def test_delete(tmp_path: Path, delete: Call) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "d").mkdir()
    assert delete(path="a").content == "deleted a"
    with pytest.raises(ToolError, match="is a directory"):
        delete(path="d")
    with pytest.raises(ToolError, match="root"):
        delete(path=".")
    assert os.listdir(tmp_path) == ["d"]


@pytest.mark.parametrize("text", ["\ud800", "a\udcff"])
def test_text_that_cannot_be_encoded(text: str, write: Call, edit: Call) -> None:
    with pytest.raises(ToolError, match="Unicode"):
        write(path="a", content=text)
    with pytest.raises(ToolError, match="Unicode"):
        edit(path="a", old=text, new="")


def test_arguments_are_described(made: dict[str, Tool]) -> None:
    properties: dict[str, Any] = made["read_file"].schema["properties"]
    assert properties["offset"]["minimum"] == 1
    assert "relative to the root" in properties["path"]["description"]
    assert made["write_file"].schema["required"] == ["path", "content"]
