"""What one needs to test agents under supervision: virtual time, a scripted model, a strict server, trajectories,
faults by seed, and the invariants that every run must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazily import loading

BACKENDS = ("asyncio", "trio")

_HOMES = {
    "CallTools": "turns",
    "Raw": "turns",
    "Received": "server",
    "call_as_text": "turns",
    "context_overflow": "turns",
    "half_call": "turns",
    "no_quota": "turns",
    "rate_limited": "turns",
    "rejected": "turns",
    "ChatServer": "server",
    "Drop": "turns",
    "Fault": "turns",
    "Say": "turns",
    "ScriptedModel": "script",
    "SeededFaults": "faults",
    "Slow": "turns",
    "Stall": "turns",
    "Step": "script",
    "Violation": "invariants",
    "VirtualLoop": "virtual",
    "VirtualSeams": "virtual",
    "backend": "virtual",
    "call": "script",
    "check_conversation": "strict",
    "check_request": "strict",
    "fail": "script",
    "forever": "script",
    "say": "script",
    "violations": "invariants",
    "violations_of": "invariants",
    "write_trajectory": "trajectory",
}

__all__ = ["BACKENDS", *sorted(_HOMES)]

if TYPE_CHECKING:
    from .faults import SeededFaults as SeededFaults
    from .invariants import Violation as Violation
    from .invariants import violations as violations
    from .invariants import violations_of as violations_of
    from .script import ScriptedModel as ScriptedModel
    from .script import Step as Step
    from .script import call as call
    from .script import fail as fail
    from .script import forever as forever
    from .script import say as say
    from .server import ChatServer as ChatServer
    from .server import Received as Received
    from .strict import check_conversation as check_conversation
    from .strict import check_request as check_request
    from .trajectory import write_trajectory as write_trajectory
    from .turns import CallTools as CallTools
    from .turns import Drop as Drop
    from .turns import Fault as Fault
    from .turns import Raw as Raw
    from .turns import Say as Say
    from .turns import Slow as Slow
    from .turns import Stall as Stall
    from .turns import call_as_text as call_as_text
    from .turns import context_overflow as context_overflow
    from .turns import half_call as half_call
    from .turns import no_quota as no_quota
    from .turns import rate_limited as rate_limited
    from .turns import rejected as rejected
    from .virtual import VirtualLoop as VirtualLoop
    from .virtual import VirtualSeams as VirtualSeams
    from .virtual import backend as backend

__getattr__ = loading(__name__, _HOMES)
