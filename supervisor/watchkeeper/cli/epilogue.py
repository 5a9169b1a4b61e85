"""The last lines about a run: how it ended, its answer, what it cost, and what was not done. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..messages import Outcome
from .narrator import INDENT, Line, Style, line
from .printable import count, duration, one_line, printable

_STYLES: dict[str, Style] = {"completed": "good", "failed": "bad", "stopped": "warn", "cancelled": "warn"}
NOT_EXECUTED = ("refused", "denied", "not_run")


def epilogue(outcome: Outcome) -> Iterator[Line]:
    """The outcome in lines, the answer last but for the costs."""
    style = _STYLES.get(outcome.status, "warn")
    yield Line(
        ((f"{outcome.status} ({one_line(outcome.reason, 60)}) ", style), (one_line(outcome.message, 700), "plain")),
        wrap=True,
    )
    if outcome.cause:
        yield line(f"{INDENT}cause: {one_line(outcome.cause.rstrip().rpartition(chr(10))[2], 300)}", "bad", wrap=True)
    if outcome.answer is not None:
        yield line("forced answer, because a limit was near:" if outcome.forced else "answer:", "head")
        yield from _block(outcome.answer)
        if outcome.unverified:
            yield line("statements of it that nothing bears out:", "warn")
        for one in outcome.unverified:
            cited = f" [call:{one_line(one.call_id, 60)}]" if one.call_id else ""
            yield line(f"{INDENT}– {one_line(one.claim, 160)} ({one.why}{cited})", "warn")
    elif outcome.partial:
        yield line("what the model said last:", "head")
        yield from _block(outcome.partial)
    if outcome.rejected and outcome.answer is None:
        why = ", because nothing they rest on was found in this run" if outcome.reason == "no_evidence" else ""
        yield line(f"answers that were not accepted{why}:", "head")
        for text in outcome.rejected:
            yield line(f"{INDENT}– {one_line(text, 160)}", "dim")
    yield line(spend(outcome), "dim", wrap=True)
    skipped = Counter((call.tool, call.kind) for call in outcome.calls if call.kind in NOT_EXECUTED)
    if skipped:
        named = ", ".join(f"{one_line(tool, 40)} ×{n} ({kind})" for (tool, kind), n in skipped.most_common(8))
        yield line(f"not executed: {named}", "warn", wrap=True)
    for call in outcome.calls:
        if call.kind == "abandoned" and call.frame:
            yield line(f"left behind: {one_line(call.tool, 40)} at {one_line(call.frame, 160)}", "bad")
        elif call.kind == "abandoned":
            unknown = "nobody knows whether it was done; a person has to check"
            yield line(f"outcome unknown: {one_line(call.tool, 40)}: {unknown}", "bad", wrap=True)
    if outcome.after_cancel:
        yield line(
            f"{count(len(outcome.after_cancel), 'writing call')} finished after the cancel was asked for", "warn"
        )


def spend(outcome: Outcome) -> str:
    """What a run cost, in one line."""
    usage, kinds = outcome.usage, Counter(call.kind for call in outcome.calls)
    refused = kinds["refused"] + kinds["denied"]
    calls = count(len(outcome.calls), "call") + (f" ({refused} refused)" if refused else "")
    about = "about " if usage.estimated else ""
    tokens = f"{about}{usage.total:,} tokens ({usage.input_tokens:,} in, {usage.output_tokens:,} out)"
    tokens += money(outcome)
    cancel = f", cancelled in {duration(outcome.cancel_seconds)}" if outcome.cancel_seconds is not None else ""
    return f"{count(outcome.turns, 'turn')}, {calls}, {tokens}, {duration(outcome.seconds)}{cancel}"


def money(outcome: Outcome) -> str:
    """What it cost in money, as far as anybody knows."""
    known, unknown = outcome.spent.get("money"), outcome.unknown.get("money", 0)
    if known is None:
        return ", cost unknown" if unknown else ""
    return f", cost {known:.4g}" + (f" and what {count(unknown, 'request')} cost, which is unknown" if unknown else "")


def _block(text: str) -> Iterator[Line]:
    for one in printable(text).strip("\n").split("\n"):
        yield line(f"{INDENT}{one}", wrap=True)
