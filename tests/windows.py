"""A model that takes so many tokens and no more, for the tests of what happens then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from watchkeeper import ModelError
from watchkeeper.messages import Usage
from watchkeeper.model import Request
from watchkeeper.models.dialect import request_body
from watchkeeper.testing import ScriptedModel, Step, check_request, say
from watchkeeper.testing.turns import tokens
from watchkeeper.wording import Wording

SUMMARISE = Wording().summarise(0)[:40]
"""How the request for a summary begins."""


class Strict(ScriptedModel):
    """A model with a window, as a strict server has it: a token for every four characters of a valid request."""

    def __init__(
        self, script: Callable[[Request, int], Step], window: int, *, told: bool = True, summary: Any = "- a fact"
    ) -> None:
        super().__init__(self._reply)
        self.window = window
        self.context_window = window if told else None
        self.prompts: list[int] = []
        """Tokens of the requests that were accepted."""
        self.summaries: list[Request] = []
        self.refused = 0
        self._script = script
        self._summary = summary
        self._turn = 0

    def _reply(self, request: Request, n: int) -> Step:
        body = request_body("m", request)
        problem = check_request(body)
        assert problem is None, problem
        read = tokens(body)
        if read > self.window:
            self.refused += 1
            text = f"request ({read} tokens) exceeds the available context size ({self.window} tokens)"
            return Step(error=ModelError("context_length", text))
        usage = Usage(read, 20)
        if request.messages[0].content.startswith(SUMMARISE):
            self.summaries.append(request)
            made = self._summary(request) if callable(self._summary) else self._summary
            return made if isinstance(made, Step) else say(made, usage=usage)
        self.prompts.append(read)
        self._turn += 1
        return msgspec.structs.replace(self._script(request, self._turn), usage=usage)
