"""A bell that wakes whoever waits for a change, in one event loop."""

from __future__ import annotations

from weakref import WeakValueDictionary

import anyio


class Bell:
    """``heard`` before looking, ``wait`` after: what is rung in between is not missed."""

    __slots__ = ("__weakref__", "_event")

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


class Bells:
    """Bells by name, each as long as somebody holds it."""

    def __init__(self) -> None:
        self._bells: WeakValueDictionary[str, Bell] = WeakValueDictionary()

    def of(self, name: str) -> Bell:
        bell = self._bells.get(name)
        if bell is None:
            bell = self._bells[name] = Bell()
        return bell

    def ring(self, name: str) -> None:
        bell = self._bells.get(name)
        if bell is not None:
            bell.ring()

    def ring_all(self) -> None:
        for bell in list(self._bells.values()):
            bell.ring()
