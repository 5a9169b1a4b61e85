"""What an attempt at a call gave, as it stands in a cassette, and as it is given again."""

from __future__ import annotations

from typing import Any

import msgspec

from .. import failures, outputs
from ..errors import ToolError, Transient
from ..escapes import neutral
from ..redaction import HELD, Redaction
from ..tools import Tool, ToolOutput
from .chunks import named_error
from .entries import ToolEnded

_encode = msgspec.json.Encoder(order="deterministic", enc_hook=str).encode


def arguments_of(values: dict[str, Any], redaction: Redaction) -> str:
    """The arguments of a call as one text that is equal for equal calls, without secrets."""
    try:
        return redaction.text(_encode(values).decode())
    except (TypeError, ValueError, OverflowError, RecursionError):
        return redaction.text(repr(sorted(values.items(), key=lambda pair: pair[0])))


def value_as_data(value: Any, tool: Tool, redaction: Redaction) -> dict[str, Any]:
    """What a tool returned, such that it is shown to the model in the same way when it is given again. Never raises."""
    shown = outputs.render(value, tool.max_output, redaction)
    found: dict[str, Any] = {"productive": shown.productive, "error": shown.error and redaction.text(shown.error)}
    try:
        whole = outputs.text(value.content if isinstance(value, ToolOutput) else value)
    except failures.HOSTILE:
        return found | {"text": shown.content}
    head, tail = tool.max_output * 3 // 4 + HELD, tool.max_output - tool.max_output * 3 // 4 + HELD
    if len(whole) <= tool.max_output + 2 * HELD:
        return found | {"text": _clean(whole, redaction)}
    return found | {
        "head": _clean(whole[:head], redaction),
        "tail": _clean(whole[-tail:], redaction),
        "length": len(whole),
    }


def failure_as_data(failure: BaseException, redaction: Redaction) -> dict[str, Any]:
    """What is known of a failure of a tool, without its traceback."""
    leaf = failures.leaf(failure)
    code, text, _ = failures.describe(leaf, None, redaction)
    found: dict[str, Any] = {"code": code, "text": text, "type": type(leaf).__name__}
    if isinstance(leaf, ToolError) and leaf.hint:
        found["hint"] = redaction.text(leaf.hint)
    if isinstance(leaf, Transient):
        found["retry_after"] = leaf.retry_after
    if failures.is_timeout(failure):
        found["timeout"] = True
    return found


def again(line: ToolEnded, told: str = "") -> ToolOutput:
    """What the call gave then, or the failure with which it ended, with ``told`` as its whole text."""
    if line.failure is not None:
        failure = _failure(line.failure)
        if told:
            setattr(failure, failures.TOLD, told)
        raise failure
    text = line.text
    if line.length:
        text = line.head + " " * (line.length - len(line.head) - len(line.tail)) + line.tail
    return ToolOutput(text, productive=line.productive, error=line.error)


def _failure(data: dict[str, Any]) -> Exception:
    text = str(data.get("text", ""))
    code = data.get("code")
    if code == "tool_error":
        return ToolError(text, hint=data.get("hint"))
    if code == "transient":
        return Transient(text, retry_after=data.get("retry_after"))
    return named_error(str(data.get("type", "Exception")), text, TimeoutError if data.get("timeout") else Exception)


def _clean(text: str, redaction: Redaction) -> str:
    clean = redaction.text(neutral(text))
    return clean if clean.isascii() else clean.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
