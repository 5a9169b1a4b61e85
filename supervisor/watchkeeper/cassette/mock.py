"""Tools without their effects: what they gave when a cassette was recorded, again."""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Iterable
from typing import Any

import anyio

from ..redaction import Redaction
from ..tools import Tool
from .entries import ToolEnded
from .outcome import again, arguments_of
from .score import Score, next_result
from .tape import read


class MockedTools:
    """``MockedTools(path).of(tools)``: tools with the same names and schemas that give what was recorded of them.

    Matched by tool, canonical arguments and how many equal calls there were before, over all runs of the file. A call
    that was not recorded raises :class:`CassetteMiss`, which the model reads as a failed call; ``missed`` has its text,
    so that whoever plays can say so. A call that never came to its end waits for its timeout again; one that started a
    sub-agent is run for real.
    """

    def __init__(self, path: str | os.PathLike[str], *, redaction: Redaction | None = None) -> None:
        self._redaction = redaction if redaction is not None else Redaction(environment=os.environ)
        self._results: dict[tuple[str, str], deque[tuple[int, ToolEnded]]] = {}
        self.missed: list[str] = []
        for take in read(path).of("run"):
            for run in Score(take.lines).runs.values():
                for key, results in run.tools.items():
                    self._results.setdefault(key, deque()).extend(results)

    def of(self, tools: Iterable[Tool]) -> list[Tool]:
        return [self._mocked(tool) for tool in tools]

    def _mocked(self, tool: Tool) -> Tool:
        mocked = copy.copy(tool)

        async def played(**values: Any) -> Any:
            try:
                _, line = next_result(self._results, tool.name, arguments_of(values, self._redaction))
            except Exception as error:
                self.missed.append(str(error))
                raise
            if line.real:
                return await real(tool, values)
            if line.hung:
                await anyio.sleep_forever()
            return again(line)

        mocked.function = played
        mocked.is_async = True
        return mocked


async def real(tool: Tool, values: dict[str, Any]) -> Any:
    """The tool itself: in a thread if it is a plain function."""
    if tool.is_async:
        return await tool.function(**values)
    return await anyio.to_thread.run_sync(lambda: tool.function(**values), abandon_on_cancel=True)
