"""Which runs there are, and how each is reached: those of the service, and those in the foreground of a terminal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..engine import EngineError, Query, UnknownRun
from ..errors import ConfigurationError
from .exits import CONFIGURATION, FAILED, UNREACHABLE, USAGE, CommandError, complain
from .ids import meant, shortened
from .listed import FOREGROUND, SERVICE, Listed, Source
from .printable import count, identifier, one_line

if TYPE_CHECKING:
    from ..service.places import Folder

URL = "WATCHKEEPER_URL"
"""Where the service is, if it is not this machine's own."""
TOKEN = "WATCHKEEPER_TOKEN"  # noqa: S105  (the name of a variable)
LAST = "@last"
"""Stands for the run that was submitted last."""
PAGE = 1000
SCANNED = 10_000
"""Runs of one engine that are listed, or looked at for the beginning of an id: the newest."""
DEAD = 100
"""Foreground folders without a living process that are looked into: the newest."""
CANDIDATES = 8
"""Runs that are named where it is not clear which is meant."""
BACKEND = "asyncio"
"""The event loop that commands run on; anyio loads it in any case, and the other is not loaded."""
PATIENCE = 15.0
"""Seconds that an engine gets to answer a question."""


class Sources:
    """All engines that can be reached, as one. ``lost``: what is wrong with those that cannot, by where they are."""

    def __init__(self, resting: Folder | None = None) -> None:
        self.opened: list[Source] = []
        self.lost: dict[str, Exception] = {}
        self.resting = resting
        """The files of this machine's service, while it is not up."""
        self._closed: dict[str, Callable[[], Awaitable[Source]]] = {}

    def later(self, name: str, opened: Callable[[], Awaitable[Source]]) -> None:
        """The engine of a foreground run whose process has died: it is opened when it is asked for."""
        self._closed[name] = opened

    async def open(self, where: str, opened: Callable[[], Awaitable[Source]]) -> None:
        try:
            self.opened.append(await opened())
        except EngineError as error:
            self.lost[where] = error

    async def open_dead(self, beginning: str = "", most: int = DEAD) -> None:
        """Open the newest of those that are not open yet, and whose names begin so."""
        for name in [one for one in self._closed if one.startswith(beginning)][:most]:
            await self.open(f"{FOREGROUND} {name}", self._closed.pop(name))

    async def runs(self, query: Query, most: int = SCANNED) -> list[Listed]:
        """The newest ``most`` runs of all engines, the newest first. An engine that fails is noted as lost."""
        import anyio

        found: list[Listed] = []
        for source in self.opened:
            try:
                with anyio.fail_after(PATIENCE):
                    found += await listed(source, query, most)
            except EngineError as error:
                self.lost[source.where] = error
            except TimeoutError:
                self.lost[source.where] = TimeoutError(f"{source.where}: no answer within {PATIENCE:g} s")
        found.sort(key=lambda one: (one.status.submitted, one.run), reverse=True)
        return found[:most]

    async def suspended(self, query: Query) -> int:
        """How many runs that the query means lie in the files of a service that is not up."""
        if self.resting is None:
            return 0
        from ..journal import SqliteEngine

        try:
            async with SqliteEngine(self.resting.path) as engine:
                return len(await listed(Source(SERVICE, engine, False), query, SCANNED))
        except EngineError as error:
            self.lost.setdefault(SERVICE, error)
            return 0

    async def find(self, given: str) -> Listed:
        """The one run that an id means, or the beginning of one, or ``@last``. Raises :class:`CommandError`."""
        if given == LAST:
            await self.open_dead(most=1)
            newest = await self.runs(Query(limit=1), 1)
            if self.code():
                raise self._unknown("nobody knows which run is the last")
            if newest:
                return newest[0]
            raise self._unknown("there is no run yet")
        if not given:
            raise CommandError("an empty id names no run (watchkeeper ps -a lists those that there are)")
        await self.open_dead(given, CANDIDATES)
        for source in self.opened:
            with contextlib.suppress(EngineError):  # of those that are lost the list says why
                return Listed(await source.engine.get(given), source)
        runs = {one.run: one for one in await self.runs(Query(parent="", limit=PAGE))}
        wanted = meant(given, runs)
        if len(wanted) == 1:
            return runs[wanted[0]]
        if not wanted:
            raise self._unknown(f"there is no run {one_line(given, 80)}")
        raise CommandError(_ambiguous(given, [runs[name] for name in wanted]))

    async def find_all(self, given: Iterable[str]) -> list[Listed]:
        """Each run that is meant, once. Raises :class:`CommandError` if one of them is not there."""
        found = [await self.find(name) for name in given]
        return list({one.run: one for one in found}.values())

    def complain(self) -> int:
        """Say what cannot be reached; the exit code for that."""
        for error in self.lost.values():
            complain(one_line(str(error), 400))
        return self.code()

    def _unknown(self, told: str) -> CommandError:
        lost = one_line("; ".join(map(str, self.lost.values())), 400)
        why = f", and not all can be reached: {lost}" if lost else ""
        return CommandError(f"{told}{why} (watchkeeper ps -a lists those that there are)", self.code(USAGE))

    def code(self, otherwise: int = 0) -> int:
        """As :func:`code_of` has it for the worst of them; what a dead process has left behind is no reason."""
        lost = [error for where, error in self.lost.items() if not where.startswith(FOREGROUND)]
        return max(map(code_of, lost), default=otherwise)


def code_of(error: Exception) -> int:
    """69 where nobody answers, 1 where the answer is an error."""
    from ..service.client import Unreachable

    return UNREACHABLE if isinstance(error, Unreachable | TimeoutError) else FAILED


def _of_an_engine(group: ExceptionGroup[Exception]) -> EngineError | None:
    """The first error in it, if all of them are of engines: they come out of task groups in groups."""
    engines, others = group.split(EngineError)
    if engines is None or others is not None:
        return None
    first: Exception = engines
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first if isinstance(first, EngineError) else None


async def listed(source: Source, query: Query, most: int) -> list[Listed]:
    """The newest ``most`` runs of one engine that the query means, page by page."""
    import msgspec

    found: list[Listed] = []
    before = query.before
    while len(found) < most:
        limit = min(query.limit, most - len(found), PAGE)
        page = await source.engine.list(msgspec.structs.replace(query, before=before, limit=limit))
        found += [Listed(status, source) for status in page.runs]
        if not page.more or not page.runs:
            break
        before = page.runs[-1].run
    return found


def _ambiguous(given: str, runs: list[Listed]) -> str:
    short = shortened(one.run for one in runs)
    named = ", ".join(
        f"{identifier(short[one.run])} ({one.state}, {one_line(one.status.spec.agent, 30)})"
        for one in runs[:CANDIDATES]
    )
    more = f" and {count(len(runs) - CANDIDATES, 'other')}" if len(runs) > CANDIDATES else ""
    return f"{one_line(given, 80)} may be any of {named}{more}: give more of the id"


class Reach(NamedTuple):
    """Whose engines there are to open: those of the service and those of each run in the foreground."""

    url: str
    """Of the service elsewhere that is to be asked instead of this machine's."""
    service: Folder | None
    """This machine's, if it is up."""
    resting: Folder | None
    """This machine's, if it is not."""
    unheard: Folder | None
    """This machine's, if it is up without its own socket."""
    living: tuple[Folder, ...]
    dead: tuple[Folder, ...]
    """The newest of those whose process has died."""

    def nobody(self, *, dead_too: bool) -> bool:
        """There is nobody to ask."""
        up = self.url or self.service or self.resting or self.unheard
        return not (up or self.living or (dead_too and self.dead))


def look(*, foreground: bool = True) -> Reach:
    """The service that ``WATCHKEEPER_URL`` names, else this machine's if there is one, and each run in the
    ``foreground``. It looks at files alone."""
    from ..service.places import Places, is_held

    places = Places.of()
    url = os.environ.get(URL, "").strip()
    up = not url and places.service.api_socket.exists()
    held = not url and is_held(places.service.lives)
    resting = not url and places.service.control.exists() and not held
    living: list[Folder] = []
    dead: list[Folder] = []
    for folder in places.foregrounds() if foreground else ():
        if is_held(folder.lock()):
            living.append(folder)
        elif len(dead) < DEAD:
            dead.append(folder)
    service = places.service
    unheard = service if held and not up else None
    return Reach(url, service if up else None, service if resting else None, unheard, tuple(living), tuple(dead))


@contextlib.asynccontextmanager
async def all_sources(*, foreground: bool = True) -> AsyncIterator[Sources]:
    """Open the engines of all that :func:`look` finds. Those of dead runs are opened later, if they are asked for."""
    there = look(foreground=foreground)
    async with contextlib.AsyncExitStack() as stack:
        found = Sources(there.resting)
        if there.url:
            await found.open(there.url, partial(_service, stack, there.url, there.url, os.environ.get(TOKEN, "")))
        elif there.service:
            await found.open(SERVICE, partial(_service, stack, SERVICE, f"unix:{there.service.api_socket}", ""))
        elif there.unheard:
            found.lost[SERVICE] = _unheard(there.unheard)
        for folder in there.living:
            await found.open(f"{FOREGROUND} {folder.name}", partial(_foreground, stack, folder, True))
        for folder in there.dead:
            found.later(folder.name, partial(_foreground, stack, folder, False))
        yield found


def _unheard(folder: Folder) -> EngineError:
    from ..service.client import Unreachable

    return Unreachable(
        f"a service is up (process {folder.owner()}) and has not opened {folder.api_socket}: it is still starting, or "
        f"serve --bind has it listen elsewhere only; {URL} and {TOKEN} reach it there"
    )


async def _service(stack: contextlib.AsyncExitStack, where: str, address: str, token: str) -> Source:
    from ..service.client import HttpEngine

    try:
        engine = HttpEngine(address, token=token)
    except ConfigurationError as error:
        raise CommandError(f"{URL}: {error}", CONFIGURATION) from error
    return Source(where, await stack.enter_async_context(engine))


async def _foreground(stack: contextlib.AsyncExitStack, folder: Folder, alive: bool) -> Source:
    from ..journal import SqliteEngine

    return Source(FOREGROUND, await stack.enter_async_context(SqliteEngine(folder.path)), alive)


def through(body: Callable[[Sources], Awaitable[int]], *, foreground: bool = True) -> int:
    """Run the body of a command with all that can be reached; its exit code. What an engine cannot do is told as a
    :class:`CommandError`, once all engines are closed."""

    async def main() -> int | CommandError:
        async with all_sources(foreground=foreground) as sources:
            try:
                return await body(sources)
            except CommandError as error:
                return error
            except UnknownRun as error:
                return CommandError(f"{error} (it was there a moment ago)")
            except EngineError as error:
                return CommandError(str(error), code_of(error))
            except ExceptionGroup as group:
                cause = _of_an_engine(group)
                if cause is None:
                    raise
                return CommandError(str(cause), code_of(cause))

    import anyio

    ended = anyio.run(main, backend=BACKEND)
    if isinstance(ended, CommandError):
        raise ended
    return ended
