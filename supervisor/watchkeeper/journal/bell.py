"""A bell that wakes whoever waits for a change, in one event loop."""

from __future__ import annotations

import anyio


class Bell:
    """``heard`` before looking, ``wait`` after: what is rung in between is not missed."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def heard(self) -> anyio.Event:
        """What is set when the bell rings next."""
        if self._event is None:
            self._event = anyio.Event()
        return self._event

    def ring(self) -> None:
        if self._event is not None:
            self._event.set()
            self._event = None
