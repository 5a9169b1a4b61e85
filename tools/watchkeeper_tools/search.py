"""Looking around in a directory tree: what is there, by name and by content."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from typing import Annotated, Any

import anyio
import anyio.to_thread
from msgspec import Meta

from watchkeeper import Effect, ToolError, ToolOutput, reads

from . import matcher
from .glob import Glob
from .root import Found, Parts, Root, entries, open_regular, shown, told

MAX_LISTED = 1_000
"""Names that list_dir and find_files show."""
MAX_HITS = 200
MAX_TEXT = 20_000
"""Characters of one answer."""
MAX_VISITED = 100_000
"""Names that one search looks at."""
MAX_FILE = 5_000_000
"""Bytes of a file above which search_text passes it over."""
BATCH = 4_000_000
"""Bytes of files that are matched at once."""
SLICE = 0.1
"""Seconds of walking between two chances to be cancelled."""
SECONDS = 20.0
"""A search stops by itself after so long and gives what it has."""
SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})
"""Directories that searches do not go into, unless they begin there."""

Directory = Annotated[str, Meta(max_length=4096, description="a directory, relative to the root directory")]
Where = Annotated[str, Meta(max_length=4096, description="a directory or a file, relative to the root directory")]
Names = Annotated[str, Meta(min_length=1, max_length=500, description="such as '*.py' or 'src/**/test_*.py'")]
Pattern = Annotated[str, Meta(min_length=1, max_length=1000, description="what to look for within one line")]


class Search:
    """The tools that look at many files of a root. They only read, and each is bounded in time, names and output.

    ``search_text`` runs on the event loop: a cancel is obeyed within :data:`SLICE`, and a child process that matches
    is killed. The others are plain functions.
    """

    def __init__(self, root: Root, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock

    def effect(self, path: str = ".", **_: Any) -> Effect:
        """Reads what ``path`` names, with all that is in it."""
        return reads(self._root.resource(path))

    def list_dir(self, path: Directory = ".") -> ToolOutput:
        """List a directory: names with sizes in bytes; directories end in '/'; links are marked, and never followed."""
        parts = self._root.parts(path)
        try:
            with self._root.directory(parts) as handle, told(parts):
                lines = [_line(entry) for entry in entries(handle)]
        except FileNotFoundError:
            return self._root.missing(parts)
        return _listed(lines, "the directory is empty", [])

    def find_files(self, pattern: Names, path: Directory = ".") -> ToolOutput:
        """Find files by name. '*' stays within a name, '**' crosses directories; a pattern without '/' is looked for
        at any depth. Version control, caches and installed packages are passed over."""
        parts = self._root.parts(path)
        survey = Survey(self._root, parts, Glob(pattern), self._clock)
        try:
            lines = [shown((*parts, *found.parts)) for found in survey.files() if found is not None]
        except FileNotFoundError:
            return self._root.missing(parts)
        return _listed(lines, f"no file in {shown(parts)} matches {shown(pattern)}", survey.notes())

    async def search_text(
        self, pattern: Pattern, path: Where = ".", glob: Names = "**", regex: bool = False, ignore_case: bool = False
    ) -> ToolOutput:
        """Search the text of files, line by line, for literal text, or for a Python regular expression if `regex` is
        true. Answers with path:line: text. Binary and very large files are passed over."""
        _refuse_unsearchable(pattern)
        parts = self._root.parts(path)
        survey = Survey(self._root, parts, Glob(glob), self._clock)
        match = _match_in_child if regex else _match_here
        batches = survey.batches()
        hits: list[matcher.Hit] = []
        try:
            with anyio.fail_after(SECONDS + 5):
                while len(hits) < MAX_HITS:
                    batch = await anyio.to_thread.run_sync(next, batches, None)
                    if batch is None:
                        break
                    if batch:
                        hits += await match(pattern, ignore_case, batch, MAX_HITS - len(hits))
        except FileNotFoundError:
            return self._root.missing(parts)
        except TimeoutError:
            raise ToolError("the search took too long", hint="look for literal text or in a smaller place") from None
        finally:
            batches.close()
        notes = survey.notes()
        if len(hits) == MAX_HITS:
            notes.append(f"only the first {MAX_HITS} lines are shown; narrow the search")
        lines = [f"{name}:{number}: {text}" for name, number, text in hits]
        return _listed(lines, f"no line matches in {survey.searched:,} files below {shown(parts)}", notes)


class Survey:
    """One walk through a directory that stops at its bounds, and what it has to say about them afterwards."""

    def __init__(self, root: Root, parts: Parts, glob: Glob, clock: Callable[[], float]) -> None:
        self._root = root
        self._parts = parts
        self._glob = glob
        self._clock = clock
        self._began = clock()
        self._passed_over = 0
        self._stopped: str | None = None
        self.searched = 0

    def files(self) -> Iterator[Found | None]:
        """Regular files that match; None for what does not, so that a caller gets to breathe."""
        for visited, found in enumerate(self._root.walk(self._parts, self._worth_entering)):
            if visited == MAX_VISITED:
                self._stopped = f"stopped after {visited:,} names"
            elif self._clock() - self._began > SECONDS:
                self._stopped = f"stopped after {SECONDS:g} seconds"
            if self._stopped:
                return
            wanted = found.entry.is_file(follow_symlinks=False) and self._glob.matches(found.parts)
            yield found if wanted else None

    def batches(self) -> Generator[list[matcher.File]]:
        """Text files that match, some megabytes or some moments at a time."""
        if self._root.is_file(self._parts):
            with self._root.reading(self._parts) as (file, _):
                data = file.read(MAX_FILE + 1)
            yield self._as_text(self._parts, data)
            return
        batch: list[matcher.File] = []
        size, began = 0, self._clock()
        for found in self.files():
            if found is not None:
                text = self._as_text((*self._parts, *found.parts), _content(found))
                batch += text
                size += sum(len(data) for _, data in text)
            if size > BATCH or self._clock() - began > SLICE:
                yield batch
                batch, size, began = [], 0, self._clock()
        yield batch

    def notes(self) -> list[str]:
        """What a reader of the answer has to know about its limits."""
        notes = [f"{self._stopped}; give a smaller path"] if self._stopped else []
        if self._passed_over:
            notes.append(f"{self._passed_over:,} binary, large or unreadable files were passed over")
        return notes

    def _as_text(self, parts: Parts, data: bytes | None) -> list[matcher.File]:
        if data is None or len(data) > MAX_FILE or b"\0" in data[:8192]:
            self._passed_over += 1
            return []
        self.searched += 1
        return [(shown(parts), data)]

    def _worth_entering(self, parts: Parts) -> bool:
        return parts[-1] not in SKIPPED and self._glob.may_match_below(parts)


def _content(found: Found) -> bytes | None:
    """The first bytes of a file that was met on a walk; None if it cannot be read (any more)."""
    try:
        file, _ = open_regular(found.directory, found.parts[-1])
        with file:
            return file.read(MAX_FILE + 1)
    except (OSError, ToolError):
        return None


async def _match_here(pattern: str, ignore_case: bool, batch: list[matcher.File], limit: int) -> list[matcher.Hit]:
    compiled = re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else 0)
    return await anyio.to_thread.run_sync(matcher.find, compiled, batch, limit)


async def _match_in_child(pattern: str, ignore_case: bool, batch: list[matcher.File], limit: int) -> list[matcher.Hit]:
    if not sys.executable:
        raise ToolError("regular expressions cannot be used here", hint="search literal text with regex=false")
    with tempfile.TemporaryFile() as request:
        await anyio.to_thread.run_sync(_fill, request, matcher.pack(pattern, ignore_case, batch, limit))
        command = [sys.executable, "-I", "-S", matcher.__file__]
        done = await anyio.run_process(command, stdin=request, stderr=subprocess.DEVNULL, check=False, env={})
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise ToolError("the regular expression cannot be matched", hint="use a simpler one") from None
    if isinstance(answer, dict):
        raise ToolError(f"bad regular expression: {answer['error']}", hint="mend it, or search with regex=false")
    return [(str(name), int(number), str(text)) for name, number, text in answer]


def _fill(file: Any, data: bytes) -> None:
    file.write(data)
    file.flush()
    file.seek(0)


def _listed(lines: list[str], none: str, notes: list[str]) -> ToolOutput:
    """Lines as one text within the bounds; without any it is a result, but nothing that was found."""
    if not lines:
        return ToolOutput("".join(f"[{note}]" for note in (none, *notes)), productive=False)
    taken: list[str] = []
    room = MAX_TEXT
    for line in lines[:MAX_LISTED]:
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    if len(taken) < len(lines):
        notes = [*notes, f"{len(taken):,} of {len(lines):,} lines are shown; narrow the search"]
    return ToolOutput("\n".join([*taken, *(f"[{note}]" for note in notes)]), productive=True)


def _line(entry: os.DirEntry[str]) -> str:
    name = shown(entry.name)
    if entry.is_symlink():
        return f"{name} (a link, not followed)"
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    try:
        return f"{name} ({entry.stat(follow_symlinks=False).st_size:,} bytes)"
    except FileNotFoundError:
        return f"{name} (just deleted)"


def _refuse_unsearchable(pattern: str) -> None:
    if "\n" in pattern:
        raise ToolError("the pattern has more than one line", hint="look for one of its lines")
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise ToolError("the pattern is not valid Unicode text") from None
