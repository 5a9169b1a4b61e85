"""One tool that keeps failing in one way, whatever its arguments."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import Ring, Round


class Failing:
    """Rounds in a row in which every call of a tool failed with one error signature.

    "Not found" and a non-zero exit are results, not failures. A round without the tool changes nothing; a success or
    another error of it ends the streak. Calls that a block of ours refuses go on counting.
    """

    name = "failing"

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._streaks: dict[str, tuple[str, int, int, tuple[str, ...], tuple[str, ...], str]] = {}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        tools: dict[str, list[int]] = {}
        for index, pair in enumerate(round.pairs):
            if pair.signature is not None or pair.tool in self._streaks:
                tools.setdefault(pair.tool, []).append(index)
        findings = []
        for tool, places in tools.items():
            pairs = [round.pairs[place] for place in places]
            signature, count, onset, calls, keys, known = self._streaks.get(tool, ("", 0, pairs[0].n, (), (), ""))
            signatures = {pair.signature for pair in pairs if not pair.refused}
            if not signatures and count:
                pass  # all refused by us: the streak goes on
            elif len(signatures) == 1 and (only := next(iter(signatures))) is not None:
                if only != signature:
                    signature, count, onset, calls, keys = only, 0, pairs[0].n, (), ()
                known = next(pair.content for pair in pairs if pair.signature == only)
            else:
                self._streaks.pop(tool, None)
                continue
            count += 1
            calls = (*calls[-7:], pairs[0].call_id)
            keys = tuple(dict.fromkeys((*keys[-7:], *(pair.key for pair in pairs))))
            self._streaks[tool] = (signature, count, onset, calls, keys, known)
            if count > 1:
                findings.append(
                    Finding(
                        detector=self.name,
                        pattern=f"one error: {signature[:120]}",
                        count=count,
                        calls=calls,
                        # One call that fails is blocked by its key; a tool that fails whatever it gets, by its name.
                        keys=(f"tool:{tool}",) if len(keys) > 1 else keys,
                        tool=tool,
                        onset=onset,
                        known=known,
                    )
                )
        while len(self._streaks) > 64:
            self._streaks.pop(next(iter(self._streaks)))
        return findings
