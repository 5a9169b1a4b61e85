"""The citation guard: what an answer says it rests on must be calls of this run that succeeded and found something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..answers.citations import CITED, claims, of_value, uncited, unverified
from ..messages import Event, Unverified
from ..wording import Wording
from .answer import Doubt, Draft


class Citing:
    """Sends an answer back that cites what bears out nothing; what stays so is marked.

    Without ``wanted`` an answer need not cite anything, and only ids of calls that are not there are told: they are
    made up. With it the other citations are looked at too, an answer that cites nothing although there is evidence goes
    back, and sentences of a text without a citation are marked ``uncited``. Of a typed answer the texts count that cite
    something.
    """

    name = "citations"
    folds: Mapping[type[Event], Callable[[Any], None]] = {}

    def __init__(self, wording: Wording, *, wanted: bool) -> None:
        self._wording = wording
        self._wanted = wanted

    def answer(self, draft: Draft) -> Doubt | None:
        if CITED not in draft.text and not self._wanted:
            return None
        found = of_value(draft.value) if draft.typed and not isinstance(draft.value, str) else claims(draft.text)
        wrong = unverified(found, draft.calls)
        if not self._wanted:
            wrong = tuple(one for one in wrong if one.why == "no_such_call")
            return Doubt(wrong, self._told(wrong)) if wrong else None
        bare = uncited(found)
        if not any(claim.calls for claim in found) and draft.evidence:
            whole = bare or (Unverified(draft.text[:300], "uncited"),)
            return Doubt(whole, self._wording.cite(draft.evidence))
        if not wrong and not bare:
            return None
        return Doubt((*wrong, *bare), self._told(wrong) if wrong else "")

    def _told(self, wrong: tuple[Unverified, ...]) -> str:
        return self._wording.not_borne_out([(one.call_id, one.why) for one in wrong])
