"""The service as an ASGI application over any engine. It never runs an agent; what it knows of runs it asks the engine.

::

    async with engine, Service(engine, tokens=store) as service:
        app = service.door(Door(hosts=frozenset({"127.0.0.1:8700"})))
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
from litestar import Litestar, Response, Router, get
from litestar.di import Provide
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.response import File
from litestar.serialization import encode_json
from litestar.static_files import create_static_files_router

from .. import engine
from ..engine import Engine
from . import about, approvals, cancels, commands, credentials, runs
from .access import COOKIE, LARGEST_BODY, Door
from .control import Control
from .desk import Desk, Exposition, desk_of, rights
from .document import completed
from .gate import Gate
from .problems import plugin
from .sessions import Sessions
from .streams import PING, SLOW, Streams
from .tokens import Keyring, TokenStore

ROUTES = (
    *runs.ROUTES, *commands.ROUTES, *cancels.ROUTES, *approvals.ROUTES, *credentials.ROUTES, *about.ROUTES,
)  # fmt: skip


class Service:
    """Open it with ``async with``, with an engine that is open; leaving it ends all streams and waits.

    ``control``: the process around it; None: whatever is submitted is executed elsewhere. ``tokens``: None: nobody gets
    in over TCP. ``page``: the folder of the web page. ``exposition``: the body of ``/metrics``. ``ping`` and ``slow``:
    seconds after which a stream shows that it stands, and after which a reader that takes nothing is cut.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        control: Control | None = None,
        tokens: TokenStore | None = None,
        page: Path | None = None,
        exposition: Exposition | None = None,
        ping: float = PING,
        slow: float = SLOW,
        clock: Callable[[], float] = time.time,
    ) -> None:
        keyring = Keyring(tokens)
        self.desk = Desk(
            engine,
            control=control,
            keyring=keyring,
            sessions=Sessions(keyring),
            streams=Streams(ping=ping, slow=slow),
            clock=clock,
            page=page,
            exposition=exposition,
        )

    def door(self, door: Door) -> Gate:
        """The application as it is reached at one listening address."""
        return Gate(application(self.desk.page), door, self.desk)

    async def __aenter__(self) -> Service:
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self.desk.board.run)
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self.close()
        self._group.cancel_scope.cancel()
        # What ended the body goes on as it is, and not in a group of one.
        await self._group.__aexit__(None, None, None)

    def close(self) -> None:
        """End all streams and all waits, now."""
        self.desk.streams.close()


@functools.cache
def application(page: Path | None) -> Litestar:
    """Without the gate, which says who asks and of which service: without it nobody may do anything."""
    return Litestar(
        route_handlers=[*ROUTES, openapi, *_page(page)],
        dependencies={"desk": Provide(desk_of, sync_to_thread=False)},
        guards=[rights],
        plugins=[plugin()],
        openapi_config=OpenAPIConfig(
            title="watchkeeper",
            version=version("watchkeeper"),
            # Its own routes answer unknown paths with a page of their own, so they stand aside; ours is below.
            openapi_router=Router(path="/openapi", route_handlers=[], include_in_schema=False),
            render_plugins=[JsonRenderPlugin()],
            components=Components(
                security_schemes={
                    "token": SecurityScheme(type="http", scheme="bearer"),
                    "session": SecurityScheme(type="apiKey", name=COOKIE, security_scheme_in="cookie"),
                }
            ),
            security=[{"token": []}, {"session": []}],
        ),
        request_max_body_size=LARGEST_BODY,
        logging_config=None,
        debug=False,
    )


@functools.cache
def document() -> bytes:
    """The OpenAPI document, as JSON: the same for each service."""
    found = application(None).openapi_schema.to_schema()
    return encode_json(completed(found, (engine, runs, commands, cancels, approvals, credentials, about)))


@get("/openapi.json", opt={"right": "read"}, include_in_schema=False)
async def openapi() -> Response[bytes]:
    return Response(document(), media_type="application/json")


def _page(folder: Path | None) -> list[Any]:
    if folder is None:
        return []

    @get("/", opt={"right": None}, include_in_schema=False, media_type="text/html")
    async def index() -> File:
        return File(folder / "index.html", media_type="text/html", content_disposition_type="inline")

    static = create_static_files_router(
        path="/static", directories=[folder], opt={"right": None}, include_in_schema=False
    )
    return [index, static]
