"""Tool calls written as text (Thought, Action, Action Input, Observation, Answer), read as they come. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from ..model import CallDelta, Chunk, TextDelta

_LABEL = re.compile(
    r"[\s>*#_`-]{0,8}"
    r"(?P<name>thought|action[ _]?input|action|observation|final[ _]answer|answer)"
    r"(?:[ _]?\d{1,3})?[*_` ]{0,4}[:：][*_`]{0,2}[ \t]*",
    re.IGNORECASE,
)
_LONGEST_LABEL = 48
"""Characters after which a line that is no label is known to be none; a label with its decoration has 36 at most."""
_FENCES = re.compile(r"(?:\s*```[\w-]*)*\s*")
_SAME_LINE_INPUT = re.compile(r"(?:action[ _])?input[*_` ]*[:：][*_`]*\s*", re.IGNORECASE)
_TOOL_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_NAME = re.compile(r"[\w.-]+")
_CONTROL = re.compile(r"[\x00-\x1f]")
_NOTHING = frozenset({"", "none", "null", "n/a", "nil", "no action", "no action needed"})
_lenient = json.JSONDecoder(strict=False)  # small models put raw newlines into strings


class ParsedReply(msgspec.Struct, frozen=True):
    """What a reply says: ``calls`` are pairs of tool and arguments (JSON, or what the model wrote in its place)."""

    text: str
    calls: tuple[tuple[str, str], ...]
    reasoning: str = ""
    invented: bool = False
    """The model went on to write the result of its call itself; that and all after it was cut off."""


def parse_reply(text: str, tools: Mapping[str, str | None]) -> ParsedReply:
    """Read a whole reply. Never raises.

    ``tools`` are the tools there are, each with the name of its parameter if it has just one and that is a string: then
    plain text in the place of arguments is taken for it. With an Action, the text is what was said before it, and an
    Answer beside it is cut off, for it came before the result. Without one, the text is what follows "Answer:" (what
    came before is reasoning), or the whole. ``Action: none`` is none.
    """
    reader = ReplyReader(tools)
    chunks = [*reader.feed(text), *reader.end()]
    texts = [chunk for chunk in chunks if isinstance(chunk, TextDelta)]
    return ParsedReply(
        text="".join(chunk.text for chunk in texts if chunk.channel == "content"),
        calls=tuple((chunk.tool or "", chunk.arguments) for chunk in chunks if isinstance(chunk, CallDelta)),
        reasoning="".join(chunk.text for chunk in texts if chunk.channel == "reasoning"),
        invented=reader.cut,
    )


class ReplyReader:
    """Reads a reply piece by piece; however it is cut, the chunks add up to the same.

    An answer is passed on as it comes. Everything else is held until it is known what it was.
    """

    def __init__(self, tools: Mapping[str, str | None]) -> None:
        self._tools = tools
        self._folded = {_folded(name): name for name in tools}
        self._section = "thought"
        self._head = ""  # of a line that may yet turn out to begin with a label
        self._in_line = False
        self._said: list[str] = []
        self._action: list[str] = []
        self._input: list[str] | None = None
        self._answering = False
        self._answer_begun = False
        self._chunks: list[Chunk] = []
        self.calls = 0
        self.cut = False
        """Reading on is of no use: what follows was made up by the model."""

    def feed(self, text: str) -> list[Chunk]:
        """The chunks that ``text`` completes; often none."""
        for piece in re.split(r"(?<=\n)", text):
            if self.cut:
                break
            if self._in_line:
                self._add(piece)
            else:
                self._head += piece
                if piece.endswith("\n") or self._is_no_label():
                    self._begin_line()
            if piece.endswith("\n"):
                self._in_line = False
        return self._take()

    def end(self) -> list[Chunk]:
        """The reply has ended: the chunks that were still held."""
        if self._head and not self.cut:
            self._begin_line()
        self._end_action()
        if not self.calls and not self._answering:
            self._bare_calls()
        self._tell("reasoning" if self._answering else "content")
        return self._take()

    def _take(self) -> list[Chunk]:
        chunks, self._chunks = self._chunks, []
        return chunks

    def _is_no_label(self) -> bool:
        """The line so far is decided. In an answer, an Action is read to the end of its line: it must name a tool."""
        return len(self._head) >= _LONGEST_LABEL and not (self._section == "answer" and _LABEL.match(self._head))

    def _begin_line(self) -> None:
        line, self._head, self._in_line = self._head, "", True
        label = _LABEL.match(line)
        name = re.sub(r"[ _]|final", "", label["name"].lower()) if label else ""
        rest = line[label.end() :] if label else line
        if not self._is_label(name, rest):
            self._add(line)
        elif name == "actioninput":
            self._section, self._input = "input", [rest]
        else:
            self._end_action()
            self._begin_section(name, rest)

    def _is_label(self, name: str, rest: str) -> bool:
        """Whether a word counts as a label here: an answer may hold lines that look like some."""
        if name == "actioninput":
            return self._section == "action"
        if self._section == "answer":
            return name == "action" and self._read_action(rest, None)[0] in self._tools
        return name != ""

    def _begin_section(self, name: str, rest: str) -> None:
        if name == "observation" or (name == "answer" and self.calls):
            self.cut = True
            return
        self._section = name
        if name == "answer":
            self._tell("reasoning")
            self._answering = True
        self._add(rest)

    def _add(self, text: str) -> None:
        if self._section == "answer":
            text = text if self._answer_begun else text.lstrip()
            if text:
                self._answer_begun = True
                self._chunks.append(TextDelta(text))
        elif self._section == "action":
            self._action.append(text)
        elif self._section == "input" and self._input is not None:
            self._input.append(text)
        else:
            self._said.append(text)

    def _tell(self, channel: Literal["content", "reasoning"]) -> None:
        said, self._said = "".join(self._said).strip(), []
        if said.strip("`"):
            self._chunks.append(TextDelta(said, channel))

    def _end_action(self) -> None:
        if self._section not in ("action", "input"):
            return
        action = "".join(self._action)
        given = None if self._input is None else "".join(self._input)
        self._section, self._action, self._input = "thought", [], None
        if action.strip().lower().strip("`*\"'. ") not in _NOTHING:
            self._call(*self._read_action(action, given))

    def _call(self, tool: str, given: str) -> None:
        self._tell("content")
        self._chunks.append(CallDelta(self.calls, None, tool, _arguments(given, self._tools.get(tool))))
        self.calls += 1

    def _read_action(self, action: str, given: str | None) -> tuple[str, str]:
        """Tool and input of ``name``, ``name(input)``, ``name[input]``, ``name {input}`` or a JSON object of both.

        Words after the name are not taken for input: then there is none.
        """
        action = _unfenced(action)
        named = _named(action)
        if named is not None:
            return self._tool(named[0]), named[1] if given is None else given
        action = action.lstrip("`*\"' ")
        first, _, more = action.partition("\n")
        tool = self._tool(first.rstrip("`*\"'. \r"))
        if tool not in self._tools and (name := _NAME.match(action)):
            tool, more = self._tool(name[0].rstrip(".")), action[name.end() :].lstrip("`*\"'")
        if given is not None:
            return tool, given
        more = _SAME_LINE_INPUT.sub("", more.strip(), count=1)
        if more[:1] + more[-1:] in ("()", "[]"):
            return tool, more[1:-1]
        return tool, more if more.startswith(("{", "```")) else ""

    def _tool(self, name: str) -> str:
        """The known tool of that name, however it is spelt; otherwise the name, bounded."""
        return name if name in self._tools else self._folded.get(_folded(name), name[:64])

    def _bare_calls(self) -> None:
        """Calls of known tools without any label, the way other models are taught to write them."""
        text = "".join(self._said)
        calls = [_named(written) for written in _TOOL_CALL.findall(text) or [_unfenced(text)]]
        known = [(self._tool(call[0]), call[1]) for call in calls if call is not None]
        if known and len(known) == len(calls) and all(tool in self._tools for tool, _ in known):
            self._said = [text[: text.find("<tool_call>")]] if "<tool_call>" in text else []
            for tool, given in known:
                self._call(tool, given)


def _folded(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _unfenced(text: str) -> str:
    """``text`` without the code fence that it stands in, if it stands in one. Backticks within it are its own."""
    fences = _FENCES.match(text)
    start = fences.end() if fences else 0
    inner = text[start:].rstrip()
    return inner.removesuffix("```").rstrip() if "```" in text[:start] else inner


def _objects(text: str) -> list[tuple[str, object]]:
    """The JSON objects that ``text`` begins with, as written and decoded. Raises ``ValueError`` for a broken one."""
    found: list[tuple[str, object]] = []
    text = _unfenced(text)
    while text.startswith("{"):
        try:
            value, end = _lenient.raw_decode(text)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        found.append((text[:end], value))
        text = text[end:]
        fences = _FENCES.match(text)
        text = text[fences.end() :] if fences else text
    return found


def _named(text: str) -> tuple[str, str] | None:
    """Name and arguments of a call that is one JSON object, under any of the names in use."""
    text = text.strip()
    try:
        objects = _objects(text)
    except ValueError:
        return None
    if len(objects) != 1 or objects[0][0] != text or not isinstance(call := objects[0][1], dict):
        return None
    name = next((call[key] for key in ("action", "name", "tool") if isinstance(call.get(key), str)), None)
    if name is None:
        return None
    keys = ("action_input", "arguments", "parameters", "args", "input")
    given: object = next((call[key] for key in keys if key in call), {})
    return name, given if isinstance(given, str) else json.dumps(given)


def _arguments(given: str, parameter: str | None) -> str:
    """One clean JSON object if ``given`` begins with just one, perhaps in a fence; otherwise what it is.

    Two different objects, or one that is cut off, stay as they are, for the executor to refuse.
    """
    text = _unfenced(given)
    if text.lower() in _NOTHING:
        return "{}"
    try:
        objects = _objects(text)
    except ValueError:
        return text
    if objects:
        written, value = objects[0]
        return text if any(other != value for _, other in objects[1:]) else _strict(written, value)
    if parameter is not None and not text.startswith("["):
        return json.dumps({parameter: _unquoted(text)})
    return text


def _strict(written: str, value: object) -> str:
    """``written``, unless there are raw line breaks in its strings, which no strict reader takes."""
    if _CONTROL.search(written) is None:
        return written
    try:
        msgspec.json.decode(written)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return json.dumps(value)
    return written


def _unquoted(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip("`")
    return value if isinstance(value, str) else text
