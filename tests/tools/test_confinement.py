"""Nothing outside the root is reached, by any tool, whatever the name and whoever swaps links meanwhile."""

from __future__ import annotations

import ctypes
import inspect
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from watchkeeper import Tool, ToolError, ToolOutput
from watchkeeper_tools import files
from watchkeeper_tools.root import Root

pytestmark = pytest.mark.anyio

ARGUMENTS: dict[str, dict[str, Any]] = {
    "read_file": {},
    "list_dir": {},
    "find_files": {"pattern": "*"},
    "search_text": {"pattern": "secret"},
    "write_file": {"content": "evil"},
    "edit_file": {"old": "secret", "new": "evil"},
    "delete_file": {},
}


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """A root, its evil neighbour with the longer name, and a secret outside."""
    for name in ("space", "space-evil", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret.txt").write_text("secret")
    (tmp_path / "space" / "secret.txt").unlink()
    (tmp_path / "space" / "in").mkdir()
    (tmp_path / "space" / "in" / "a.txt").write_text("inside")
    return tmp_path / "space"


async def call(made: Tool, **arguments: Any) -> ToolOutput:
    answer = made.function(**arguments)
    result: ToolOutput = await answer if inspect.isawaitable(answer) else answer
    return result


def outside(space: Path) -> dict[str, str]:
    return {
        str(path): path.read_text("utf-8")
        for name in ("outside", "space-evil")
        for path in (space.parent / name).rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "in/../../outside/secret.txt",
        "in/..",
        "..",
        "/etc/passwd",
        "{root}-evil/secret.txt",
        "{root}/../outside/secret.txt",
        "//etc/passwd",
        "/",
        "in\0/../../outside",
        "\ud800",
        "x/" * 100,
        "x" * 5000,
        "x" * 300,
    ],
)
async def test_names_that_lead_outside(space: Path, name: str, path: str) -> None:
    made = {each.name: each for each in files.tools(root=space)}[name]
    before = outside(space)
    with pytest.raises(ToolError):
        await call(made, path=path.format(root=space), **ARGUMENTS[name])
    assert outside(space) == before
    assert sorted(os.listdir(space)) == ["in"]


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("path", ["to_directory/secret.txt", "to_file", "dangling", "to_directory", "to_self", "loop"])
async def test_links_are_refused(space: Path, name: str, path: str) -> None:
    (space / "to_directory").symlink_to(space.parent / "outside")
    (space / "to_file").symlink_to(space.parent / "outside" / "secret.txt")
    (space / "dangling").symlink_to(space.parent / "outside" / "new.txt")
    (space / "to_self").symlink_to("in")
    (space / "loop").symlink_to("loop")
    made = {each.name: each for each in files.tools(root=space)}[name]
    before, names = outside(space), sorted(os.listdir(space))
    with pytest.raises(ToolError, match="symbolic link"):
        await call(made, path=path, **ARGUMENTS[name])
    assert outside(space) == before
    assert sorted(os.listdir(space)) == names


async def test_walks_do_not_follow_links(space: Path) -> None:
    (space / "to_directory").symlink_to(space.parent / "outside")
    (space / "to_file").symlink_to(space.parent / "outside" / "secret.txt")
    (space / "up").symlink_to("..")
    made = {each.name: each for each in files.tools(root=space)}
    assert (await call(made["find_files"], pattern="**")).content == "in/a.txt"
    assert not (await call(made["search_text"], pattern="secret")).productive
    assert "to_file (a link, not followed)" in (await call(made["list_dir"])).content


@pytest.mark.parametrize("kind", ["fifo", "socket"])
async def test_what_is_no_regular_file_is_refused_at_once(
    space: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(space)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "fifo":
            os.mkfifo("odd")
        else:
            listener.bind("odd")
        made = {each.name: each for each in files.tools(root=space)}
        for name in ("read_file", "write_file", "edit_file", "delete_file"):
            with pytest.raises(ToolError):
                await call(made[name], path="odd", **ARGUMENTS[name])
        assert "secret" not in (await call(made["search_text"], pattern="secret")).content


def exchange(one: Path, other: Path) -> None:
    here, rename_exchange = -100, 2  # AT_FDCWD of <fcntl.h>, RENAME_EXCHANGE of <stdio.h>
    assert ctypes.CDLL(None).renameat2(here, bytes(one), here, bytes(other), rename_exchange) == 0


@pytest.fixture
def swapping(space: Path) -> Iterator[None]:
    """Someone exchanges a directory and a file inside for links that lead outside, again and again."""
    stop = threading.Event()
    (space / "d").mkdir()
    (space / "d" / "secret.txt").write_text("mine")
    (space / "link").symlink_to(space.parent / "outside")
    (space / "f").write_text("mine")
    (space / "file_link").symlink_to(space.parent / "outside" / "secret.txt")

    def swap() -> None:
        while not stop.is_set():
            exchange(space / "d", space / "link")
            exchange(space / "f", space / "file_link")

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize("path", ["d/secret.txt", "f"])
def test_links_swapped_in_between_change_nothing(space: Path, path: str) -> None:
    made = {each.name: each for each in files.tools(root=space)}
    before = outside(space)
    for _ in range(100):
        for name in ("read_file", "write_file", "edit_file"):
            try:
                answer = made[name].function(path=path, **ARGUMENTS[name])
            except ToolError:
                continue
            assert answer.content != "secret"
    assert outside(space) == before


def test_handles_are_closed(space: Path) -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    tree = Root(space)
    for _ in range(5):
        with pytest.raises(ToolError), tree.directory(("in", "a.txt")):
            pass
        with pytest.raises(FileNotFoundError), tree.reading(("in", "none")):
            pass
        walk = tree.walk(())
        next(walk)
        next(walk)
        walk.close()  # type: ignore[attr-defined]  # a generator
    assert len(os.listdir("/proc/self/fd")) == open_before
