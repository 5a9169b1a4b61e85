"""What is said of the tools of recorded runs: a record knows them by name alone."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..tools import Tool


class Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The declarations that detection and the guards ask for, as :func:`watchkeeper.tool` takes them."""

    poll: bool = False
    stable: bool = False
    loop_key: tuple[str, ...] | None = None
    result_key: tuple[str, ...] | None = None


class RecordedTool(Tool):
    """The little that a guard asks about a tool, for tools that are known by name alone."""

    def __init__(self, name: str, declared: Declared | None = None) -> None:
        said = declared or Declared()
        self.name = name
        self.stable = said.stable
        self.poll = said.poll
        self.loop_key = said.loop_key
        self.result_key = said.result_key
        self.dangerous = self.irreversible = False
        self.checks = {}


def tools_of(declared: Mapping[str, Declared]) -> dict[str, RecordedTool]:
    return {name: RecordedTool(name, said) for name, said in declared.items()}
