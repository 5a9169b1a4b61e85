"""Who said yes or no to what a run asked: written down, and said again in the same place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from ..approvals import REASON, Approval, Pending, Scope
from ..guards.rule import Pattern
from ..messages import How
from .entries import HostDid

if TYPE_CHECKING:
    from ..run import Run
    from .player import Played
    from .recorder import Taken


def record_consent(run: Run, taken: Taken) -> None:
    """Write down each yes and each no, of a person, of an approver, and that there is nobody. That nobody spoke in time
    follows from the clock."""
    asking, clean = run.asking, taken.redaction.anything
    approve, expire, deny = asking.approve, asking.expire, asking.deny

    def approving(
        approval: str,
        arguments_hash: str,
        scope: Scope = "once",
        pattern: Mapping[str, Pattern] | None = None,
        by: str = "person",
    ) -> None:
        place = taken.place()
        approve(approval, arguments_hash, scope, pattern, by)
        plain = None if pattern is None else {name: _plain(one) for name, one in pattern.items()}
        said = {"approval": approval, "hash": arguments_hash, "scope": scope, "by": by, "pattern": clean(plain)}
        taken.write(HostDid(**place, do="approve", **said))

    def denying(approval: str, reason: str = "", by: str = "person") -> None:
        place = taken.place()
        deny(approval, reason, by)
        taken.write(HostDid(**place, do="deny", approval=approval, text=clean(str(reason)[:REASON]), by=by))

    def expiring(pending: Pending, how: How, by: str = "", reason: str = "") -> None:
        place = taken.place() if pending.resolution is None and how == "denied" else None
        expire(pending, how, by, reason)
        if place is not None:
            said = {"approval": pending.approval.id, "text": clean(reason), "by": by}
            taken.write(HostDid(**place, do="deny", **said))

    asking.approve, asking.deny, asking.expire = approving, denying, expiring  # type: ignore[method-assign]  # of this run


def play_consent(run: Run, played: Played) -> None:
    """Ask nobody: the cassette answers. A host that answers itself, as it did then, does not do so twice."""
    asking, score = run.asking, played.score
    asked = any(b'"approval_requested"' in bytes(fact.event) for fact in score.facts)
    asking.somebody = lambda: asked
    run.approver = _nothing_to_say
    known = {line.approval for _, line in score.host if line.approval}
    approve, expire, deny = asking.approve, asking.expire, asking.deny

    def approving(approval: str, *given: Any, **more: Any) -> None:
        if not (played.root.exact and approval in known):
            approve(approval, *given, **more)

    def denying(approval: str, *given: Any, **more: Any) -> None:
        if not (played.root.exact and approval in known):
            deny(approval, *given, **more)

    def saying(line: HostDid) -> None:
        pending = asking.pending.get(line.approval)
        if pending is None:
            return
        if line.do == "deny":
            expire(pending, "denied", line.by, line.text)
        else:
            approve(line.approval, line.hash, line.scope, line.pattern, line.by)

    asking.approve, asking.deny = approving, denying  # type: ignore[method-assign]  # of this run
    played.says = saying


async def _nothing_to_say(approval: Approval) -> None:
    await anyio.sleep_forever()


def _plain(pattern: Pattern) -> Pattern:
    return pattern if isinstance(pattern, str) else tuple(pattern)
