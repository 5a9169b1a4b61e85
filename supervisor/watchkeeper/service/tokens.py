"""Tokens: what lets a program in over TCP. Only their hashes are kept; the secret is shown once, when it is made."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from ..engine import EngineError
from .access import Principal, Right, principal

PREFIX = "wk_"
BYTES = 32
"""Random bytes of a secret: nobody guesses 256 bits, so tries need no counting, and a plain SHA-256 is hash enough."""
SECRET = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")
LONGEST_NAME = 64
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._@-]{{0,{LONGEST_NAME - 1}}}")
LIKE_A_SECRET = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{20}}", re.IGNORECASE)
KNOWN_FOR = 1.0
"""Seconds after which the store is asked again: a token that is taken back is known for no longer."""


class NameTaken(EngineError):
    """Raised when there is a token of that name already."""


class Token(msgspec.Struct, frozen=True):
    """A token as it is stored. ``hash`` is the SHA-256 of the secret, 64 hexadecimal characters."""

    name: str
    hash: str
    scopes: tuple[Right, ...]
    created: float
    """UTC, seconds since the epoch."""


class TokenStore(Protocol):
    """Where tokens are kept; the journal's control file is one. All methods raise :class:`.EngineError`. ``tokens`` is
    asked in the service's loop, the other two in threads, which may wait."""

    def tokens(self) -> Sequence[Token]: ...

    def add_token(self, token: Token) -> None:
        """Raises :class:`NameTaken` if there is one of that name."""
        ...

    def remove_token(self, name: str) -> bool:
        """False if there was none."""
        ...


def mint(name: str, scopes: Iterable[Right], random: bytes, now: float) -> tuple[str, Token]:
    """A new secret, to be shown once, and the token to store. ``random``: 32 bytes of the system's randomness.

    Raises ``ValueError`` if the name or the scopes cannot be.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"a token's name has up to 64 letters, digits and . _ @ -, and {name!r} is none")
    if LIKE_A_SECRET.search(name):
        raise ValueError("a token's name is shown in lists and logs, and this one looks like a secret; give another")
    found = tuple(dict.fromkeys(scopes))
    if not found:
        raise ValueError(f"the token {name} would have no scope; give it one of read, run, approve, admin")
    if len(random) != BYTES:
        raise ValueError(f"a secret is made of {BYTES} random bytes, not {len(random)}")
    secret = PREFIX + urlsafe_b64encode(random).rstrip(b"=").decode()
    return secret, Token(name, hashed(secret), found, now)


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def matching(secret: str, tokens: Iterable[Token]) -> Token | None:
    """The token of that secret. All are compared, each in constant time, whichever it is."""
    if not SECRET.fullmatch(secret):
        return None
    given = hashed(secret)
    found = None
    for token in tokens:
        if hmac.compare_digest(given, token.hash):
            found = token
    return found


class Keyring:
    """The tokens of a store, looked at anew when what is known of them is a second old. Without a store: none."""

    def __init__(self, store: TokenStore | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self._clock = clock
        self._tokens: Sequence[Token] = ()
        self._until = -1.0

    def tokens(self) -> Sequence[Token]:
        if self.store is not None and self._clock() >= self._until:
            self._tokens = self.store.tokens()
            self._until = self._clock() + KNOWN_FOR
        return self._tokens

    def forget(self) -> None:
        """Ask the store anew next time: it has been changed here."""
        self._until = -1.0

    def principal(self, secret: str) -> Principal | None:
        token = matching(secret, self.tokens())
        return None if token is None else principal(token.name, token.scopes, "token")
