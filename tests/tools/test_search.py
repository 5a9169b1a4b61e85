from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from watchkeeper import ToolError, ToolOutput
from watchkeeper_tools import search
from watchkeeper_tools.glob import Glob
from watchkeeper_tools.root import Root
from watchkeeper_tools.search import Search

pytestmark = pytest.mark.anyio


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "README.md": "Hello World\nsecond (line)\n",
        "src/one.py": "def one():\n    return 1\n",
        "src/deep/two.py": "def two():\n    return one() + 1\n",
        "src/deep/notes.txt": "nothing here\n",
        ".git/config": "def hidden\n",
        "node_modules/x/index.js": "def hidden\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "data.bin").write_bytes(b"def\0")
    return tmp_path


@pytest.fixture
def look(tree: Path) -> Search:
    return Search(Root(tree))


def test_list(look: Search) -> None:
    assert look.list_dir().content.split("\n") == [
        ".git/",
        "README.md (26 bytes)",
        "data.bin (4 bytes)",
        "node_modules/",
        "src/",
    ]
    assert look.list_dir("src/none").error == "not_found"
    with pytest.raises(ToolError, match="is a file"):
        look.list_dir("README.md")


def test_list_of_nothing(tmp_path: Path) -> None:
    assert Search(Root(tmp_path)).list_dir() == ToolOutput("[the directory is empty]", productive=False)


def test_long_lists_are_cut_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_LISTED", 3)
    for n in range(5):
        (tmp_path / f"{n}.txt").touch()
    assert Search(Root(tmp_path)).find_files("*.txt").content.endswith("[3 of 5 lines are shown; narrow the search]")


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*.py", ".", ["src/deep/two.py", "src/one.py"]),
        ("src/*.py", ".", ["src/one.py"]),
        ("src/**/*.py", ".", ["src/deep/two.py", "src/one.py"]),
        ("**/deep/**", ".", ["src/deep/notes.txt", "src/deep/two.py"]),
        ("[rR]*.m?", ".", ["README.md"]),
        ("*.py", "src/deep", ["src/deep/two.py"]),
        ("config", ".git", [".git/config"]),
    ],
)
def test_find(look: Search, pattern: str, path: str, found: list[str]) -> None:
    assert look.find_files(pattern, path).content.split("\n") == found


def test_find_nothing_is_no_evidence(look: Search) -> None:
    assert look.find_files("*.rs") == ToolOutput("[no file in . matches *.rs]", productive=False)
    assert look.find_files("*", "none").error == "not_found"


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../../*", "", "/", "*" * 501])
def test_patterns_that_lead_nowhere(look: Search, pattern: str) -> None:
    with pytest.raises(ToolError):
        look.find_files(pattern)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("**", "a", True),
        ("**", "a/b", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/x/y", False),
        ("**/**/x", "x", True),
        ("*", "a/b", True),
        ("./*", "a/b", True),
        ("a/*", "a/b/c", False),
        ("/".join(["**", "*a*"] * 50), "/".join(["a"] * 40), False),
    ],
)
def test_glob(pattern: str, path: str, matches: bool) -> None:
    assert Glob(pattern).matches(path.split("/")) is matches


def test_glob_knows_where_not_to_look() -> None:
    assert Glob("src/**/*.py").may_match_below(["src", "x"])
    assert not Glob("src/*.py").may_match_below(["src", "x"])
    assert not Glob("src/*.py").may_match_below(["lib"])


async def test_search_literal(look: Search) -> None:
    answer = await look.search_text("second (line)")
    assert answer == ToolOutput(
        "README.md:2: second (line)\n[1 binary, large or unreadable files were passed over]", productive=True
    )


async def test_search_regex(look: Search) -> None:
    answer = await look.search_text(r"^def (\w+)\(", path="src", regex=True)
    assert answer.content.split("\n") == ["src/deep/two.py:1: def two():", "src/one.py:1: def one():"]


@pytest.mark.parametrize("regex", [False, True])
async def test_search_options(look: Search, regex: bool) -> None:
    assert not (await look.search_text("hello", regex=regex)).productive
    assert "Hello" in (await look.search_text("hello", regex=regex, ignore_case=True)).content
    assert (await look.search_text("def", glob="src/*.py", regex=regex)).content == "src/one.py:1: def one():"
    assert (await look.search_text("def", path="src/one.py", regex=regex)).content == "src/one.py:1: def one():"
    assert (await look.search_text("x", path="none", regex=regex)).error == "not_found"


async def test_search_of_nothing_says_how_much_was_searched(look: Search) -> None:
    answer = await look.search_text("zebra", path="src")
    assert answer == ToolOutput("[no line matches in 3 files below src]", productive=False)


async def test_hits_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 5000 + "\n" + "hit\n" * 1000)
    look = Search(Root(tmp_path))
    lines = (await look.search_text("hit")).content.split("\n")
    assert len(lines) == search.MAX_HITS + 1
    assert lines[-1] == "[only the first 200 lines are shown; narrow the search]"
    assert len((await look.search_text("x" * 10)).content) < 400


@pytest.mark.parametrize("pattern", ["(", "(?P<x>a)(?P<x>b)", "*a"])
async def test_bad_regex(look: Search, pattern: str) -> None:
    with pytest.raises(ToolError, match="bad regular expression"):
        await look.search_text(pattern, regex=True)


@pytest.mark.parametrize("pattern", ["a\nb", "\ud800"])
async def test_patterns_that_match_no_line(look: Search, pattern: str) -> None:
    with pytest.raises(ToolError):
        await look.search_text(pattern)


async def test_a_regex_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SECONDS", -4.5)  # the bound is five seconds more
    (tmp_path / "a").write_text("a" * 40 + "b\n")
    before = children()
    with pytest.raises(ToolError, match="too long"):
        await Search(Root(tmp_path), clock=lambda: 0.0).search_text("(a+)+$", path="a", regex=True)
    assert children() == before


async def test_cancel_ends_a_regex_that_never_ends(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a" * 40 + "b\n")
    before = children()
    with anyio.move_on_after(0.5) as scope:
        await Search(Root(tmp_path)).search_text("(a+)+$", regex=True)
    assert scope.cancelled_caught
    assert children() == before


async def test_a_search_stops_by_itself_and_says_so(tree: Path) -> None:
    ticks = iter(range(0, 1_000_000, 7))
    answer = await Search(Root(tree), clock=lambda: float(next(ticks))).search_text("def")
    assert "[stopped after 20 seconds; give a smaller path]" in answer.content


def test_a_walk_is_bounded_in_names(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_VISITED", 3)
    assert "[stopped after 3 names; give a smaller path]" in Search(Root(tree)).find_files("*").content


def children() -> set[str]:
    mine = str(os.getpid())
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == mine:
            found.add(name)
    return found
