"""A directory tree that nothing leaves: every name is opened component by component, relative to a directory handle."""

from __future__ import annotations

import difflib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple

from watchkeeper import ToolError, ToolOutput

if not hasattr(os, "O_DIRECTORY"):  # pragma: no cover
    raise ImportError("the file tools need a POSIX system: they open files relative to directory handles")

MAX_DEPTH = 64
"""Components of a path, and levels of a walk (each level holds one open directory)."""
MAX_NAMES = 20_000
"""Names looked at in one directory."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK = 1 << 20
_LINK_HINT = "symbolic links are never followed; use the real path of what you want, inside the root"

Parts = tuple[str, ...]


class Stamp(NamedTuple):
    """What tells two states of a file apart without reading it."""

    mtime_ns: int
    size: int
    inode: int


class Found(NamedTuple):
    """One name met by :meth:`Root.walk`: its path below the walk's start, and the open directory that holds it."""

    parts: Parts
    entry: os.DirEntry[str]
    directory: int


class Root:
    """The tree below ``path``, which must be an existing directory (else ``NotADirectoryError``).

    Paths are relative to it, with ``/`` between names; absolute paths inside it are accepted. All methods refuse
    (:class:`ToolError`) names that lead outside and symbolic links anywhere below the root, by the way the files are
    opened and not by a check before it. A missing name raises ``FileNotFoundError``; other failures of the system
    are a :class:`ToolError`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.realpath(path)
        if not os.path.isdir(self.path):
            raise NotADirectoryError(errno.ENOTDIR, "the root of the tools is not a directory", self.path)
        self._given = os.path.abspath(path)

    def parts(self, path: str) -> Parts:
        """The names of ``path`` below the root; ``()`` is the root. Pure: looks at the text only."""
        _refuse_unusable(path)
        if path.startswith("/"):
            path = self._below(path)
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        if ".." in parts:
            raise ToolError("'..' is not allowed in a path", hint="give the path relative to the root directory")
        if len(parts) > MAX_DEPTH:
            raise ToolError(f"the path has {len(parts)} names; {MAX_DEPTH} is the most")
        return parts

    def _below(self, path: str) -> str:
        for root in (self.path, self._given):
            prefix = root.rstrip("/") + "/"
            if (path.rstrip("/") + "/").startswith(prefix):
                return path[len(prefix) :]
        raise ToolError(f"{shown(path)} is outside the root directory", hint=f"use paths relative to {self.path}")

    def resource(self, path: str) -> str:
        """The name of ``path`` for effects, equal for all tool sets and runs: ``shared:/real/path``."""
        return "shared:" + "/".join((self.path.rstrip("/"), *self.parts(path)))

    @contextmanager
    def directory(self, parts: Parts, *, create: bool = False) -> Iterator[int]:
        """An open handle of a directory; missing ones are made if ``create``. Closed on leaving."""
        with told(parts):
            handle = os.open(self.path, _DIRECTORY)
        try:
            for name in parts:
                with told(parts):
                    below = _enter(handle, name, create=create)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def reading(self, parts: Parts) -> Iterator[tuple[BinaryIO, Stamp]]:
        """A regular file open for reading, and its stamp from before the first byte was read."""
        if not parts:
            raise ToolError("that is the root directory, not a file", hint="list_dir shows what is in a directory")
        with self.directory(parts[:-1]) as above, told(parts):
            file, stamp = open_regular(above, parts[-1])
            with file:
                yield file, stamp

    def replace(self, parts: Parts, data: bytes, allow: Callable[[Stamp | None], None]) -> Stamp:
        """Put ``data`` in the place of a file, all at once: a reader sees the old bytes or the new ones.

        Missing directories are made; permissions of an old file are kept (without setuid and the like). ``allow`` is
        given the stamp of the old file (None: there is none) and may raise. On any error, and on an exception thrown
        into it, the old file stands as it was and no temporary file is left. Returns the new stamp.
        """
        if not parts:
            raise ToolError("that is the root directory, not a file")
        with self.directory(parts[:-1], create=True) as above, told(parts):
            old = _regular_or_none(above, parts[-1])
            _refuse_read_only(old, parts[-1])
            allow(_stamp(old))
            temporary = f".watchkeeper-{secrets.token_hex(8)}.tmp"
            try:
                stamp = _write_new(above, temporary, data, old)
                if _stamp(_regular_or_none(above, parts[-1])) != _stamp(old):
                    raise ToolError("the file was changed by someone else meanwhile", hint="read it again")
                os.rename(temporary, parts[-1], src_dir_fd=above, dst_dir_fd=above)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=above)
                raise
            os.fsync(above)
            return stamp

    def remove(self, parts: Parts, allow: Callable[[Stamp | None], None]) -> None:
        """Delete a regular file; ``allow`` as for :meth:`replace`."""
        if not parts:
            raise ToolError("the root directory cannot be deleted")
        with self.directory(parts[:-1]) as above, told(parts):
            old = _regular_or_none(above, parts[-1])
            if old is None:
                raise FileNotFoundError(errno.ENOENT, "no such file", parts[-1])
            _refuse_read_only(old, parts[-1])
            allow(_stamp(old))
            os.unlink(parts[-1], dir_fd=above)

    def walk(self, parts: Parts, enter: Callable[[Parts], bool] = lambda _: True) -> Iterator[Found]:
        """Everything below a directory, sorted by name, depth first; ``enter`` says whether to go into a directory.

        Links are met and not followed. Directories that cannot be opened are passed over. Close the generator to
        let go of its open directories.
        """
        with self.directory(parts) as handle:
            yield from _walk(handle, (), enter)

    def is_file(self, parts: Parts) -> bool:
        """True for a regular file, to choose the way of reading; whoever opens it is refused anew if it changes."""
        if not parts:
            return False
        with self.directory(parts[:-1]) as above:
            try:
                return stat.S_ISREG(os.stat(parts[-1], dir_fd=above, follow_symlinks=False).st_mode)
            except OSError:
                return False

    def missing(self, parts: Parts) -> ToolOutput:
        """What to tell about a path that does not exist: a result that names what comes nearest, not a failure."""
        where, names = self._deepest(parts)
        absent = parts[: len(where) + 1]
        text = f"there is no {shown(parts)}"
        if absent != parts:
            text += f"; already its directory {shown(absent)} does not exist"
        near = difflib.get_close_matches(absent[-1] if absent else "", names[:1_000], n=5, cutoff=0.5) or names[:10]
        listed = ", ".join(shown((*where, name)) for name in near) or "nothing"
        return ToolOutput(f"{text}. Nearest in {shown(where)}: {listed}", productive=False, error="not_found")

    def _deepest(self, parts: Parts) -> tuple[Parts, list[str]]:
        """The deepest directory on the way to ``parts`` that exists, and the names in it."""
        for length in range(len(parts) - 1, -1, -1):
            with suppress(OSError, ToolError), self.directory(parts[:length]) as handle:
                return parts[:length], [entry.name for entry in entries(handle)]
        return (), []


def entries(directory: int) -> list[os.DirEntry[str]]:
    """What is in an open directory, sorted by name; the first :data:`MAX_NAMES` that the system gives."""
    found: list[os.DirEntry[str]] = []
    with os.scandir(directory) as scan:
        for entry in scan:
            found.append(entry)
            if len(found) == MAX_NAMES:
                break
    return sorted(found, key=lambda entry: entry.name)


def open_regular(directory: int, name: str) -> tuple[BinaryIO, Stamp]:
    """Open ``name`` in an open directory for reading, if it is a regular file (else :class:`ToolError`)."""
    handle = os.open(name, _FILE, dir_fd=directory)
    try:
        status = os.fstat(handle)
        _refuse_irregular(status, name)
        return open(handle, "rb"), Stamp(status.st_mtime_ns, status.st_size, status.st_ino)
    except BaseException:
        os.close(handle)
        raise


def shown(name: str | Sequence[str]) -> str:
    """A name as text that is safe to print and to encode: what cannot be printed is escaped."""
    text = name if isinstance(name, str) else "/".join(name) or "."
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


@contextmanager
def told(parts: Parts) -> Iterator[None]:
    """Turn errors of the system into a :class:`ToolError` that names the path; a missing name stays what it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ToolError(f"{shown(parts)} is a symbolic link", hint=_LINK_HINT) from error
        reason = os.strerror(error.errno) if error.errno else "it cannot be used"
        raise ToolError(f"{shown(parts)}: {reason.lower()}") from error


def _walk(handle: int, above: Parts, enter: Callable[[Parts], bool]) -> Iterator[Found]:
    for entry in entries(handle):
        parts = (*above, entry.name)
        yield Found(parts, entry, handle)
        if len(parts) >= MAX_DEPTH or not entry.is_dir(follow_symlinks=False) or not enter(parts):
            continue
        try:
            below = os.open(entry.name, _DIRECTORY, dir_fd=handle)
        except OSError:
            continue
        try:
            yield from _walk(below, parts, enter)
        finally:
            os.close(below)


def _enter(handle: int, name: str, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=handle)
    try:
        return os.open(name, _DIRECTORY, dir_fd=handle)
    except NotADirectoryError:
        # Linux says "not a directory" for a link too. The look is for the message only: the open has failed already.
        if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
            raise ToolError(f"{shown(name)} is a symbolic link", hint=_LINK_HINT) from None
        raise ToolError(f"{shown(name)} is a file, not a directory") from None


def _regular_or_none(directory: int, name: str) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _refuse_irregular(status, name)
    return status


def _refuse_irregular(status: os.stat_result, name: str) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{shown(name)} is a directory", hint="list_dir shows what is in a directory")
    if stat.S_ISLNK(status.st_mode):
        raise ToolError(f"{shown(name)} is a symbolic link", hint=_LINK_HINT)
    raise ToolError(f"{shown(name)} is not a regular file (a device, a pipe or a socket)")


def _refuse_read_only(status: os.stat_result | None, name: str) -> None:
    # The directory's permissions alone decide over a rename and an unlink, so the file's own wish is asked here.
    if status is not None and not status.st_mode & 0o222:
        raise ToolError(f"{shown(name)} is read-only", hint="its owner marked it so; leave it, or ask")


def _refuse_unusable(path: str) -> None:
    if "\0" in path:
        raise ToolError("the path contains a NUL character")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise ToolError("the path is not valid Unicode text") from None
    if size > 4096:
        raise ToolError(f"the path is {size:,} bytes long; 4,096 is the most")


def _stamp(status: os.stat_result | None) -> Stamp | None:
    return status and Stamp(status.st_mtime_ns, status.st_size, status.st_ino)


def _write_new(directory: int, name: str, data: bytes, old: os.stat_result | None) -> Stamp:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(name, flags, 0o666 if old is None else 0o600, dir_fd=directory)
    try:
        if old is not None:
            with suppress(PermissionError):
                os.fchown(handle, old.st_uid, old.st_gid)
            os.fchmod(handle, stat.S_IMODE(old.st_mode) & 0o777)
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view[:_CHUNK]) :]
        os.fsync(handle)
        status = os.fstat(handle)
        return Stamp(status.st_mtime_ns, status.st_size, status.st_ino)
    finally:
        os.close(handle)
