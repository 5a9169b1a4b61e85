"""Sessions of browsers: a cookie that stands for a token, so that the page's scripts never hold one."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from .access import COOKIE, Principal, principal
from .tokens import Keyring, hashed, matching

LASTS = 12 * 3600.0
"""Seconds of a session: a working day, and no night."""
MOST = 1_000
"""Sessions at once; the oldest ends when one more begins."""


class Session(msgspec.Struct, frozen=True):
    token: str
    """The hash of the token for which it stands."""
    until: float


class Sessions:
    """Those of this process: a restart ends them all. What is kept of a cookie is its hash."""

    def __init__(self, keyring: Keyring, clock: Callable[[], float] = time.monotonic) -> None:
        self._keyring = keyring
        self._clock = clock
        self._open: OrderedDict[str, Session] = OrderedDict()

    def begin(self, secret: str) -> tuple[str, Principal] | None:
        """The cookie's value for a token, and whose it is; None if the token is not known."""
        token = matching(secret, self._keyring.tokens())
        if token is None:
            return None
        value = secrets.token_urlsafe(32)
        self._open[hashed(value)] = Session(token.hash, self._clock() + LASTS)
        while len(self._open) > MOST:
            self._open.popitem(last=False)
        return value, principal(token.name, token.scopes, "cookie")

    def principal(self, value: str) -> Principal | None:
        """Whose session that is, as long as its token is there."""
        session = self._open.get(hashed(value))
        if session is None:
            return None
        if self._clock() < session.until:
            for token in self._keyring.tokens():
                if token.hash == session.token:
                    return principal(token.name, token.scopes, "cookie")
        del self._open[hashed(value)]
        return None

    def end(self, value: str) -> None:
        """Ending one that is over changes nothing."""
        self._open.pop(hashed(value), None)


def cookie(value: str, *, secure: bool) -> str:
    """The header ``Set-Cookie``; with an empty value the browser forgets it."""
    lasts = int(LASTS) if value else 0
    parts = [f"{COOKIE}={value}", "Path=/", f"Max-Age={lasts}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if secure else parts)
