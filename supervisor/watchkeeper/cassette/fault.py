"""Faults that are laid over a cassette: what a provider does on a bad day, at the requests where it is wanted."""

from __future__ import annotations

import math
import os
import random
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from ..errors import ConfigurationError

Kind = Literal["rate_limited", "server_error", "cut", "stall", "malformed", "slow", "loss"]
KINDS: tuple[str, ...] = get_args(Kind)
MALFORMED = b'data: {"choices": [{"delta": {"content": "\n\n'
RATE_LIMITED = (
    b'{"error": {"message": "Rate limit reached", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}'
)
BROKEN = b'{"error": {"message": "The server had an error", "type": "server_error", "code": null}}'


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault.

    - ``at``: the request that it happens to, from 1; 0: every one.
    - ``kind``: ``rate_limited`` (429, with ``retry_after`` seconds if given), ``server_error`` (500), ``cut`` (the
      connection breaks after so many ``pieces`` of the reply), ``stall`` (nothing comes any more after these),
      ``malformed`` (what comes after these is no JSON), ``slow`` (``delay`` seconds before each piece) or ``loss`` (no
      connection, with this ``chance`` at each of the requests, drawn with ``seed``).

    The recorded reply is used up by ``slow`` alone: a request that is made again gets it. Raises
    :class:`ConfigurationError` for what makes no sense.
    """

    kind: Kind
    at: int = 0
    retry_after: float | None = None
    pieces: int = 1
    delay: float = 0.1
    chance: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigurationError(f"a fault's kind is one of {', '.join(KINDS)}, not {self.kind!r}")
        for name, least in (("at", 0), ("pieces", 0), ("delay", 0.0), ("chance", 0.0), ("retry_after", 0.0)):
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise ConfigurationError(f"a fault's {name} must be at least {least:g}, not {value!r}")
        if self.chance > 1:
            raise ConfigurationError(f"a fault's chance is from 0 to 1, not {self.chance!r}")


class Faults:
    """Counts the requests and says which fault, if any, happens to each: the first that is meant for it."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = [(fault, random.Random(fault.seed)) for fault in faults]  # noqa: S311  (not for secrets)
        self._count = 0

    def next(self) -> Fault | None:
        """For the next request."""
        self._count += 1
        # All are drawn in any case: whether one hits must not change when another one does.
        hits = [fault for fault, drawn in self._faults if drawn.random() < fault.chance]
        return next((fault for fault in hits if fault.at in (0, self._count)), None)


def fault_in(text: str) -> Fault:
    """A fault as one word: ``2:rate_limited:retry_after=3``, ``cut:pieces=4`` (at every request), ``loss:chance=0.2``.

    Raises :class:`ConfigurationError` that says what is allowed.
    """
    first, *rest = text.split(":")
    given: dict[str, Any] = {}
    if first.isdecimal():
        given["at"] = int(first)
        first, *rest = rest or [""]
    given["kind"] = first
    for part in rest:
        name, _, value = part.partition("=")
        given[name] = value
    return _fault(given, repr(text))


def faults_in(path: str | os.PathLike[str]) -> list[Fault]:
    """The faults of a TOML file: tables ``[[faults]]`` with the fields of :class:`Fault`."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        raise ConfigurationError(f"faults {path}: {why}; name a TOML file that can be read") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"faults {path}: not TOML: {error}") from error
    found = table.get("faults")
    if set(table) != {"faults"} or not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ConfigurationError(f"faults {path}: it holds tables [[faults]] and nothing else")
    return [_fault(one, f"{path}, number {number}") for number, one in enumerate(found, 1)]


def _fault(given: Mapping[str, Any], where: str) -> Fault:
    try:
        return msgspec.convert(given, Fault, strict=False)
    except ConfigurationError:
        raise
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, ConfigurationError):
            raise ConfigurationError(f"fault {where}: {error.__cause__}") from error
        raise ConfigurationError(
            f"fault {where}: {error}; it looks like 2:rate_limited:retry_after=3, and its kinds are {', '.join(KINDS)}"
        ) from error
