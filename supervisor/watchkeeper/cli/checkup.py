"""What ``watchkeeper doctor`` looks at: this installation, the state folder and what is in it, the service."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import shutil
import sqlite3
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from ..service.places import Folder, Places, is_held
from .asking import ask
from .exits import CommandError

Level = Literal["ok", "warn", "fail"]

EXTRAS = {
    "cli": ("cyclopts", "rich"),
    "server": ("litestar", "uvicorn", "prometheus_client"),
    "otel": ("opentelemetry.sdk",),
    "prices": ("genai_prices",),
}
LEAST, SPARSE = 64 << 20, 1 << 30
"""Free bytes below which nothing works for long, and below which it is worth a word."""
FILES = 1024
"""Open files that a service with many viewers and tools needs at least."""
AHEAD = 60.0
"""Seconds by which a file may be newer than the clock says."""
REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"})
"""File systems over a network: SQLite's write-ahead log needs shared memory, which they do not have."""


class Finding(msgspec.Struct, frozen=True):
    what: str
    level: Level
    detail: str
    remedy: str = ""


def looked_at(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Everything, in order."""
    yield _python()
    yield from map(_extra, EXTRAS)
    yield _files()
    yield from _configuration(environ)
    places = Places.of(environ)
    yield from _state(places.state)
    yield from _service(places.service, environ)
    yield from _foregrounds(places)


def _python() -> Finding:
    version = f"Python {platform.python_version()} on {platform.system()}, SQLite {sqlite3.sqlite_version}"
    if sys.platform != "linux":
        return Finding("python", "warn", version, "worker processes are kept and ended for sure on Linux only")
    return Finding("python", "ok", version)


def _extra(name: str) -> Finding:
    missing = []
    for module in EXTRAS[name]:
        with contextlib.suppress(ModuleNotFoundError):
            if find_spec(module) is not None:
                continue
        missing.append(module)
    if missing:
        return Finding(f"extra {name}", "warn", f"{', '.join(missing)} missing", f"pip install 'watchkeeper[{name}]'")
    return Finding(f"extra {name}", "ok", "installed")


def _files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        return Finding("open files", "warn", f"at most {soft}", f"ulimit -n {4 * FILES}, or LimitNOFILE= of the unit")
    return Finding("open files", "ok", "no limit" if soft == resource.RLIM_INFINITY else f"at most {soft}")


def _configuration(environ: Mapping[str, str]) -> Iterator[Finding]:
    from ..configuration import ConfigurationProblems, files_of, load

    paths = files_of(environ)
    try:
        configuration = load(paths, environ)
    except ConfigurationProblems as error:
        for problem in error.problems:
            yield Finding("configuration", "fail", problem, "repair it (watchkeeper config check)")
        return
    read = ", ".join(map(str, paths)) or "no file"
    yield Finding("configuration", "ok", f"{read}; agents: {', '.join(configuration.agents) or 'none'}")


def _state(state: Path) -> Iterator[Finding]:
    if not state.exists():
        above = next((one for one in state.parents if one.exists()), Path("/"))
        if trouble := _cannot_make_in(above):
            remedy = "make it, or name another (WATCHKEEPER_STATE)"
            told = f"{state} is not there and cannot be made in {above}: {trouble}"
            yield Finding("state folder", "fail", told, remedy)
            return
        yield Finding("state folder", "ok", f"{state} is made when it is needed")
        state = above
    else:
        mode = stat.S_IMODE(state.stat().st_mode)
        if not state.is_dir():
            remedy = "move it away, or name a folder (WATCHKEEPER_STATE)"
            yield Finding("state folder", "fail", f"{state} is no folder", remedy)
            return
        if trouble := _cannot_make_in(state):
            remedy = f"chown {os.getuid()} {state}, or name another (WATCHKEEPER_STATE)"
            yield Finding("state folder", "fail", f"{state} cannot be written: {trouble}", remedy)
            return
        if mode & 0o077:
            yield Finding("state folder", "warn", f"{state} is open to others ({mode:o})", f"chmod 700 {state}")
        else:
            yield Finding("state folder", "ok", f"{state}, for its owner alone")
        newest = max((path.stat().st_mtime for path in state.rglob("*.db*")), default=0.0)
        if newest > time.time() + AHEAD:
            ahead = f"files in {state} are {newest - time.time():.0f} s newer than the clock says"
            yield Finding("clock", "warn", ahead, "the clock went back: set it (timedatectl), for times are compared")
        else:
            yield Finding("clock", "ok", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))
    kind = _file_system(state)
    if kind in REMOTE:
        yield Finding("file system", "fail", f"{state} is on {kind}", "name a local folder (WATCHKEEPER_STATE)")
    free = shutil.disk_usage(state).free
    level: Level = "fail" if free < LEAST else "warn" if free < SPARSE else "ok"
    remedy = "make room, or keep less (service.retention)" if level != "ok" else ""
    yield Finding("disk", level, f"{free >> 20:,} MB free for {state}", remedy)


def _cannot_make_in(folder: Path) -> str:
    """Why no folder can be made there, or empty. It is tried: who may is not all that it takes."""
    try:
        os.rmdir(tempfile.mkdtemp(dir=folder, prefix=".doctor-"))
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def _file_system(path: Path) -> str:
    """Its kind, of the mount with the longest matching path; empty where that cannot be told."""
    best, kind = "", ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
            where, found = line.split(" ")[1:3]
            inside = path == Path(where) or Path(where) in path.parents
            if inside and len(where) >= len(best):
                best, kind = where, found
    return kind


def _service(folder: Folder, environ: Mapping[str, str]) -> Iterator[Finding]:
    lives = is_held(folder.lives)
    if lives and not environ.get("WATCHKEEPER_URL") and not folder.api_socket.exists():
        told = f"it is up (process {folder.owner()}) and has not opened {folder.api_socket}"
        remedy = (
            "it is starting, or reached with WATCHKEEPER_URL and WATCHKEEPER_TOKEN where serve --bind has it listen"
        )
        yield Finding("service", "warn", told, remedy)
    elif environ.get("WATCHKEEPER_URL") or lives:
        yield from _asked()
    elif folder.api_socket.exists():
        yield Finding("service", "warn", f"it has died and left {folder.api_socket}", "start it: watchkeeper serve")
    else:
        yield Finding("service", "ok", "none runs on this machine")
    for lock in sorted(folder.workers.glob("*.lock")) if folder.workers.is_dir() else ():
        if not lives and is_held(lock):
            remedy = f"see who holds it (fuser {lock}) and end that"
            yield Finding("locks", "fail", f"a worker holds {lock} without a control process", remedy)


def _asked() -> Iterator[Finding]:
    from ..service.control import Report

    try:
        status, body = ask("/readyz")
        report = msgspec.json.decode(body, type=Report)
    except CommandError as error:
        yield Finding("service", "fail", str(error), "see its log; restart it")
        return
    except msgspec.DecodeError:
        yield Finding("service", "fail", f"it answers {status}, and not as a service does", "see WATCHKEEPER_URL")
        return
    yield Finding("service", "ok" if report.ok else "fail", "ready" if report.ok else "not ready", "")
    for check in report.checks:
        if not check.ok:
            yield Finding(f"service: {check.name}", "fail", check.detail or "not well", "watchkeeper stack; its log")


def _foregrounds(places: Places) -> Iterator[Finding]:
    dead = [folder for folder in places.foregrounds() if not is_held(folder.lock())]
    if dead:
        size = sum(path.stat().st_size for folder in dead for path in folder.path.rglob("*") if path.is_file())
        yield Finding("foreground runs", "ok", f"{len(dead)} past ones keep {size >> 20} MB (watchkeeper ps -a)")
