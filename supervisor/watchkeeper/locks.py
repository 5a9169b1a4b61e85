"""Who touches what right now, over all runs of a supervisor. Within one batch the plan has settled it already."""

from __future__ import annotations

import anyio

from .planner import conflict, is_shared
from .tools import Effect


class Grip:
    """A call's hold on what it touches, from just before it starts until it has really ended."""

    __slots__ = ("above", "batch", "effect", "event", "in_thread", "name", "shared", "tree")

    def __init__(self, tree: str, batch: object, above: frozenset[Grip], effect: Effect, name: str) -> None:
        self.tree = tree
        self.batch = batch
        self.above = above
        """Grips of the calls that this one was made within: it never waits for them."""
        self.effect = effect
        self.name = name
        self.in_thread = False
        """It is abandoned in a thread, which cannot be told to stop."""
        self.shared = any(map(is_shared, effect.writes)) or any(map(is_shared, effect.reads))
        self.event: anyio.Event | None = None


NOTHING_ABOVE: frozenset[Grip] = frozenset()


class Locks:
    """Grants grips in the order in which they are asked for, as soon as nothing that they conflict with is held.

    Names mean the same thing within a run tree; those that begin with ``shared:`` in the whole supervisor. A call made
    within another never waits for that one, nor behind those who do.
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[int, set[Grip]]] = {}
        """By run tree and batch: the calls of one batch keep out of each other's way by their plan."""
        self._shared: set[Grip] = set()
        self._waiting: list[Grip] = []
        self._abandoned: dict[str, set[Grip]] = {}
        self._abandoned_shared: set[Grip] = set()

    def try_take(self, grip: Grip) -> bool:
        """Take it if that can be done at once; never waits."""
        if (self._waiting and self._comes_after(grip, self._waiting)) or not self._free(grip):
            return False
        self.add(grip)
        return True

    async def take(self, grip: Grip) -> None:
        """Wait for it. On cancellation it is not held and others may go on."""
        grip.event = anyio.Event()
        self._waiting.append(grip)
        self._grant()
        try:
            await grip.event.wait()
        except BaseException:
            if grip in self._waiting:
                self._waiting.remove(grip)
                self._grant()
            else:
                self.release(grip)
            raise

    def release(self, grip: Grip) -> None:
        """Let go. Does nothing if it is not held."""
        batches = self._held.get(grip.tree)
        held = batches.get(id(grip.batch)) if batches is not None else None
        if batches is not None and held is not None:
            held.discard(grip)
            if not held:
                del batches[id(grip.batch)]
                if not batches:
                    del self._held[grip.tree]
        if grip.shared:
            self._shared.discard(grip)
        abandoned = self._abandoned.get(grip.tree)
        if abandoned is not None:
            abandoned.discard(grip)
            if not abandoned:
                del self._abandoned[grip.tree]
        self._abandoned_shared.discard(grip)
        if self._waiting:
            self._grant()

    def abandon(self, grip: Grip) -> None:
        """The call was given up and may still be at work: what conflicts with it is refused, not made to wait."""
        self.release(grip)
        self._abandoned.setdefault(grip.tree, set()).add(grip)
        if grip.shared:
            self._abandoned_shared.add(grip)

    @property
    def any_abandoned(self) -> bool:
        return bool(self._abandoned)

    def stuck(self) -> list[str]:
        """Names of the tools whose abandoned calls swallow their cancel."""
        return sorted(grip.name for grips in self._abandoned.values() for grip in grips if not grip.in_thread)

    def in_the_way(self, grip: Grip) -> Grip | None:
        """An abandoned call that this one conflicts with."""
        for other in self._abandoned.get(grip.tree, ()):
            if conflict(grip.effect, other.effect):
                return other
        if grip.shared:
            for other in self._abandoned_shared:
                if other.tree != grip.tree and conflict(grip.effect, other.effect, shared_only=True):
                    return other
        return None

    def add(self, grip: Grip) -> None:
        """Hold it without asking: the call runs already."""
        self._held.setdefault(grip.tree, {}).setdefault(id(grip.batch), set()).add(grip)
        if grip.shared:
            self._shared.add(grip)

    def _free(self, grip: Grip) -> bool:
        for batch, held in self._held.get(grip.tree, {}).items():
            if batch != id(grip.batch) and any(self._conflict(grip, other) for other in held):
                return False
        return not (grip.shared and any(self._conflict(grip, other) for other in self._shared))

    def _conflict(self, grip: Grip, other: Grip) -> bool:
        if grip.batch is other.batch or other in grip.above:
            return False
        if grip.tree == other.tree:
            return conflict(grip.effect, other.effect)
        return grip.shared and other.shared and conflict(grip.effect, other.effect, shared_only=True)

    def _comes_after(self, grip: Grip, waiting: list[Grip]) -> bool:
        """It conflicts with one that asked earlier and waits.

        Not counted is who waits, himself or behind others, for a call that this one was made within: that call would
        wait for this one in turn, for ever.
        """
        if grip.above:
            stuck = [one for held in self._held.get(grip.tree, {}).values() for one in held if one in grip.above]
            free: list[Grip] = []
            for other in waiting:
                behind = any(self._conflict(other, one) for one in stuck)
                (stuck if behind else free).append(other)
            waiting = free
        return any(self._conflict(grip, other) for other in waiting)

    def _grant(self) -> None:
        passed: list[Grip] = []
        for grip in list(self._waiting):
            if self._comes_after(grip, passed) or not self._free(grip):
                passed.append(grip)
                continue
            self._waiting.remove(grip)
            self.add(grip)
            assert grip.event is not None
            grip.event.set()
