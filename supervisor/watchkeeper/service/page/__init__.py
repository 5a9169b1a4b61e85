"""The web page: static files over the public API, and the headers they are to be served with. Nothing is built."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FILES = Path(__file__).parent

HEADERS = {
    "Content-Security-Policy": "; ".join((
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}  # fmt: skip
"""Of every file of the page. Nothing is loaded from elsewhere, no script or style stands in the document, and text never
becomes HTML: with trusted types and no policy for them the browser itself refuses it."""

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
"""Media types by suffix. Files of other kinds (licences, Python) are not served."""


@cache
def assets() -> dict[str, Path]:
    """The files that are served, by their path below ``/static/``; the page itself also as the empty path."""
    found = {path.relative_to(FILES).as_posix(): path for path in FILES.rglob("*") if path.suffix in TYPES}
    return {**found, "": found["index.html"]}


def asset(path: str) -> tuple[bytes, str] | None:
    """A file's content and media type; None for what is no file of the page. Reads the file; never one outside."""
    found = assets().get(path)
    return None if found is None else (found.read_bytes(), TYPES[found.suffix])
