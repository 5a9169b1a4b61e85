"""Errors as they are told over HTTP: problem details (RFC 9457). What nobody expected is logged and told as 500."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from litestar.exceptions import HTTPException, ValidationException
from litestar.plugins.problem_details import ProblemDetailsConfig, ProblemDetailsException, ProblemDetailsPlugin

from ..engine import EngineError, Unavailable, UnknownBudget, UnknownRun, Unusable

MEDIA_TYPE = "application/problem+json"
LONGEST = 2_000
"""Characters of a detail."""

log = logging.getLogger("watchkeeper.service")


def urn(name: str) -> str:
    """The type of a problem that a client may want to tell from others."""
    return f"urn:watchkeeper:{name}"


class Problem(ProblemDetailsException):
    """``Problem(404, "there is no run r_1", "unknown-run")``: raised by a handler, told as it stands."""

    def __init__(
        self, status: int, detail: str, name: str = "", extra: dict[str, Any] | None = None, **headers: str
    ) -> None:
        super().__init__(
            detail=detail[:LONGEST],
            status_code=status,
            type_=urn(name) if name else "about:blank",
            title=HTTPStatus(status).phrase,
            headers={key.replace("_", "-"): value for key, value in headers.items()} or None,
            extra=extra,
        )


def _of_http(error: HTTPException) -> Problem:
    """What the framework refuses by itself: no such path, no such method, a body or a parameter that does not fit."""
    if isinstance(error, Problem):
        return error
    status = error.status_code
    if status >= 500:
        return _of_anything(error)
    if isinstance(error, ValidationException) and isinstance(error.extra, list):
        places = "; ".join(
            f"{one.get('key') or one.get('source', 'body')}: {one.get('message', '')}"
            for one in error.extra
            if isinstance(one, dict)
        )
        return Problem(400, places or str(error.detail), "invalid")
    told = {404: "there is nothing at this address", 405: "this address does not take that method"}
    found = Problem(status, told.get(status) or str(error.detail))
    found.headers = error.headers
    return found


def _of_engine(error: EngineError) -> Problem:
    """What was asked for cannot be, as things stand."""
    return Problem(409, str(error), "conflict")


def _of_unavailable(error: Unavailable) -> Problem:
    return Problem(503, str(error), "engine", retry_after="1")


def _of_unusable(error: Unusable) -> Problem:
    """Nobody who asks can do anything about it; whoever reads the log can."""
    log.error("the engine is not to be used: %s", error)
    return Problem(500, str(error), "engine")


def _of_unknown_run(error: UnknownRun) -> Problem:
    return Problem(404, str(error), "unknown-run")


def _of_unknown_budget(error: UnknownBudget) -> Problem:
    return Problem(422, str(error), "unknown-budget")


def _of_depth(error: RecursionError) -> Problem:
    return Problem(400, "the body is nested too deeply", "invalid")


def _of_bytes(error: UnicodeDecodeError) -> Problem:
    return Problem(400, "the body is not UTF-8", "invalid")


def _of_anything(error: Exception) -> Problem:
    log.error("a request has failed", exc_info=error)
    return Problem(500, "the service has failed at this request; its log says how")


def plugin() -> ProblemDetailsPlugin:
    return ProblemDetailsPlugin(
        ProblemDetailsConfig(
            exception_to_problem_detail_map={
                HTTPException: _of_http,
                UnknownRun: _of_unknown_run,
                Unavailable: _of_unavailable,
                Unusable: _of_unusable,
                UnknownBudget: _of_unknown_budget,
                EngineError: _of_engine,
                RecursionError: _of_depth,
                UnicodeDecodeError: _of_bytes,  # of msgspec before 0.23, to which it is no error in the JSON
                Exception: _of_anything,
            }
        )
    )
