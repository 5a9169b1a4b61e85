"""Record and play back: cassettes of traffic with a server, and of whole runs. Loaded when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazily import loading

_HOMES = {
    "Fault": "fault",
    "MockedTools": "mock",
    "Player": "player",
    "Playing": "transport",
    "Recorder": "recorder",
    "Recording": "transport",
    "Tape": "tape",
    "fault_in": "fault",
    "faults_in": "fault",
    "forbidden_sockets": "sealed",
    "playing_client": "transport",
    "recording_client": "transport",
}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from .fault import Fault as Fault
    from .fault import fault_in as fault_in
    from .fault import faults_in as faults_in
    from .mock import MockedTools as MockedTools
    from .player import Player as Player
    from .recorder import Recorder as Recorder
    from .sealed import forbidden_sockets as forbidden_sockets
    from .tape import Tape as Tape
    from .transport import Playing as Playing
    from .transport import Recording as Recording
    from .transport import playing_client as playing_client
    from .transport import recording_client as recording_client

__getattr__ = loading(__name__, _HOMES)
