"""What a strict server of the chat-completions protocol rejects. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ..messages import Message
from ..models import dialect

MAX_TOOLS = 128
"""As many as the strictest servers accept in one request."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ROLES = ("system", "developer", "user", "assistant", "tool")
_CHOICES = ("auto", "none", "required")


def check_request(body: Any) -> str | None:
    """Say what is wrong with the body of a ``POST /v1/chat/completions``, or None if a strict server accepts it.

    ``body`` is the decoded JSON. Never raises. Rejected are: tool messages without their call, calls without exactly
    one result each directly after them, call ids that come twice in the conversation, assistant turns with neither text
    nor calls, call arguments that are not a JSON object, a conversation that ends on an assistant turn, more than 128
    tools, ``tool_choice`` or ``parallel_tool_calls`` without tools, and lone surrogates anywhere.
    """
    return next(_problems(body), None)


def check_conversation(conversation: Iterable[Message]) -> str | None:
    """Say what a strict server would find wrong with a conversation that is continued, such as ``outcome.history``."""
    messages = [*dialect.messages(conversation), {"role": "user", "content": "go on"}]
    return check_request({"model": "any", "messages": messages})


def _problems(body: Any) -> Iterator[str]:
    if not isinstance(body, dict):
        yield "the body must be a JSON object"
        return
    if not _sendable(body):
        yield "the body contains a lone surrogate"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "'model' must be a string"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "'messages' must be a list with at least one message"
        return
    yield from _tools(body)
    if "stream_options" in body and not body.get("stream"):
        yield "'stream_options' is only allowed when 'stream' is true"
    for i, message in enumerate(messages):
        yield from _message(f"messages[{i}]", message)
    yield from _order(messages)


def _sendable(value: Any) -> bool:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
        return True
    if isinstance(value, dict):
        return all(_sendable(key) and _sendable(item) for key, item in value.items())
    return all(map(_sendable, value)) if isinstance(value, list) else True


def _tools(body: dict[str, Any]) -> Iterator[str]:
    tools, names = body.get("tools"), []
    if tools is not None:
        if not isinstance(tools, list) or not 1 <= len(tools) <= MAX_TOOLS:
            yield f"'tools' must be a list of 1 to {MAX_TOOLS} tools"
            return
        names = [_tool_name(tool) for tool in tools]
        if None in names:
            yield f"tools[{names.index(None)}] must be a function with a name and an object of parameters"
        if len(set(names)) < len(names):
            yield "two tools have the same name"
    choice = body.get("tool_choice")
    for field in ("tool_choice", "parallel_tool_calls"):
        if field in body and not tools:
            yield f"'{field}' is only allowed when 'tools' are specified"
    if isinstance(choice, str) and choice not in _CHOICES:
        yield f"'tool_choice' must be one of {', '.join(_CHOICES)} or name a function"
    if isinstance(choice, dict) and _name(choice.get("function")) not in names:
        yield "'tool_choice' names a function that is not among the tools"


def _tool_name(tool: Any) -> str | None:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return None
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("parameters", {}), dict):
        return None
    return _name(function)


def _name(function: Any) -> str | None:
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) and _NAME.match(name) else None


def _message(where: str, message: Any) -> Iterator[str]:
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        yield f"{where} must be an object with a role of {', '.join(_ROLES)}"
        return
    content, calls = message.get("content"), message.get("tool_calls")
    if not isinstance(content, (str, list, type(None))):
        yield f"{where}.content must be a string, a list of parts or null"
    if message["role"] != "assistant":
        if content is None:
            yield f"{where}.content is missing"
        if calls is not None:
            yield f"{where}.tool_calls: only assistant messages have them"
        return
    if calls is not None and (not isinstance(calls, list) or not calls):
        yield f"{where}.tool_calls must be a list with at least one call"
    elif not content and not calls:
        yield f"{where}: an assistant message must have either content or tool_calls"
    for j, call in enumerate(calls if isinstance(calls, list) else ()):
        yield from _call(f"{where}.tool_calls[{j}]", call)


def _call(where: str, call: Any) -> Iterator[str]:
    if not isinstance(call, dict) or call.get("type") != "function" or _name(call.get("function")) is None:
        yield f"{where} must be a function call with a name"
        return
    if not isinstance(call.get("id"), str) or not call["id"]:
        yield f"{where}.id must be a string"
    arguments = call["function"].get("arguments")
    try:
        decoded = msgspec.json.decode(arguments) if isinstance(arguments, str) else None
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        decoded = None
    if not isinstance(decoded, dict):
        yield f"{where}.function.arguments must be a JSON object in a string"


def _order(messages: list[Any]) -> Iterator[str]:
    seen: set[str] = set()
    due: dict[str, int] = {}
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            return
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if not isinstance(call_id, str) or due.pop(call_id, None) is None:
                yield f"messages[{i}]: a tool message must follow the call that it answers; {call_id!r} is none"
            continue
        if due:
            yield f"messages[{i}]: the calls {sorted(due)} have no result directly after them"
            due = {}
        for call_id in _call_ids(message):
            if call_id in seen:
                yield f"messages[{i}]: the call id {call_id!r} comes twice in the conversation"
            seen.add(call_id)
            due[call_id] = i
    if due:
        yield f"the calls {sorted(due)} have no result"
    if messages[-1].get("role") == "assistant":
        yield "the conversation ends on an assistant message: there is nothing to reply to"


def _call_ids(message: dict[str, Any]) -> list[str]:
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return []
    return [call["id"] for call in calls if isinstance(call, dict) and isinstance(call.get("id"), str)]
