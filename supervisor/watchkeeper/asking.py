"""One request to the model: streamed, timed, put together to a reply. One attempt; the retries are around it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from .decisions import THOUGHT
from .detect.chant import FINISH, Chant, Chanting
from .history import unique
from .jsontext import NotJSON, decode
from .messages import (
    Call,
    Channel,
    Finding,
    FindingMade,
    ModelFirstChunk,
    ModelPartialDropped,
    ModelStreamed,
    Usage,
)
from .model import CallDelta, Chunk, Finished, Model, ModelError, Reply, Request, TextDelta, Timeouts, UsageReported
from .redaction import HELD, Stream

if TYPE_CHECKING:
    from .log import Log

EVERY_CHARACTERS = 400
EVERY_SECONDS = 0.5
MAX_REPLY = 2_000_000
"""Characters of one reply at which its stream is cut: a stream without end must not fill the memory."""
WHOLE = 2000
"""Characters of a delta that holds all of a text or an argument: it has come to its end, so there is nothing to cut."""
PER_TOKEN = 8
"""Characters of thinking for each token that it may take at which a reply is cut: twice what a token holds in prose, so
that no server's count is undercut. None are seen of servers that do not show the thinking."""
MAX_CALLS = 100_000
MAX_NAME = 200
SLACK = 0.01
"""Share of the idle limit within which its timer is not set anew for each chunk."""


class _Call:
    __slots__ = ("id", "parts", "tool")

    def __init__(self) -> None:
        self.id: str | None = None
        self.tool = ""
        self.parts: list[str] = []


class Assembly:
    """A reply in the making: chunks in, facts out, in bounds. ``chant`` hears what comes in; None: nobody does."""

    def __init__(
        self, log: Log, taken: set[str], deltas: Callable[[TextDelta | CallDelta], None], chant: Chant | None = None
    ) -> None:
        self._log = log
        self._taken = taken
        self._deltas = deltas
        self._text: dict[Channel, list[str]] = {"content": [], "reasoning": []}
        self._calls: dict[int, _Call] = {}
        self._unnamed: dict[int, _Call] = {}
        """Calls that viewers do not know of yet: not before the name is whole, which it is when the arguments begin."""
        self._safe: dict[tuple[Channel, int], Stream] = {}
        self._pending: dict[Channel, list[str]] = {}
        self._pending_size = 0
        self._flushed = log.seams.clock()
        self._chant = chant
        self._unheard: dict[tuple[Channel, int], str] = {}
        """Long deltas with which a stream began: they are heard if more of it comes."""
        self.chanting: Chanting | None = None
        self.size = 0
        self.thought = 0
        """Characters of thinking."""
        self.finish = ""
        self.usage: Usage | None = None
        self.chunks = 0

    def add(self, chunk: Chunk) -> None:
        self.chunks += 1
        if isinstance(chunk, TextDelta):
            if not chunk.text:
                return
            self._text.setdefault(chunk.channel, []).append(chunk.text)
            if chunk.channel == "reasoning":
                self.thought += len(chunk.text)
            self._hear(chunk.channel, chunk.text)
            if safe := self._stream(chunk.channel, chunk.text):
                self._deltas(TextDelta(safe, chunk.channel))
        elif isinstance(chunk, CallDelta):
            made = self._calls.get(chunk.index)
            if made is None:
                made = self._calls[chunk.index] = self._unnamed[chunk.index] = _Call()
            made.id = made.id or chunk.id
            if chunk.tool:
                made.tool = (made.tool + chunk.tool)[: MAX_NAME + HELD]
                self.size += len(chunk.tool)
            if chunk.arguments:
                made.parts.append(chunk.arguments)
                self._hear("arguments", chunk.arguments, chunk.index)
                safe = self._stream("arguments", chunk.arguments, chunk.index)
                if chunk.index in self._unnamed:
                    self._name(chunk.index, safe)
                elif safe:
                    self._deltas(CallDelta(chunk.index, arguments=safe))
            if len(self._calls) > MAX_CALLS:
                raise ModelError("bad_request", f"the reply holds more than {MAX_CALLS} calls")
        elif isinstance(chunk, Finished):
            self.finish = sys.intern(chunk.reason)  # a default is left out of a fact by identity
        elif isinstance(chunk, UsageReported):
            self.usage = chunk.usage
        else:
            raise ModelError("unknown", f"the model yielded {type(chunk).__name__}, which is not a chunk")
        if self.size > MAX_REPLY:
            raise ModelError("bad_request", f"the reply is longer than {MAX_REPLY} characters; its stream was cut")

    def _name(self, index: int, arguments: str = "") -> None:
        made, redaction = self._unnamed.pop(index), self._log.redaction
        known = made.id if made.id is not None and redaction.clear(made.id) else None
        self._deltas(CallDelta(index, known, redaction.within(made.tool, MAX_NAME), arguments))

    def _hear(self, channel: Channel, text: str, index: int = 0) -> None:
        """Listen, and say once a reply what was heard."""
        if self._chant is None:
            return
        if len(text) >= WHOLE and (channel, index) not in self._unheard:
            self._unheard[channel, index] = text
            return
        if self._unheard:
            text = self._unheard.get((channel, index), "") + text
            self._unheard[channel, index] = ""
        found = self._chant.feed(channel, text, index)
        if found is None:
            return
        self.chanting, self._chant = found, None
        self.flush()
        self._log.append(FindingMade, finding=_finding(found, self._log.n))

    def _stream(self, channel: Channel, text: str, index: int = 0) -> str:
        """What may be seen now of a text that goes on: without what may be the beginning of a secret."""
        self.size += len(text)
        stream = self._safe.get((channel, index))
        if stream is None:
            stream = self._safe[channel, index] = Stream(self._log.redaction)
        safe = stream.feed(text)
        if safe:
            self._put_aside(channel, safe)
        return safe

    def _put_aside(self, channel: Channel, text: str) -> None:
        self._pending.setdefault(channel, []).append(text)
        self._pending_size += len(text)
        if self._pending_size >= EVERY_CHARACTERS or self._log.seams.clock() - self._flushed >= EVERY_SECONDS:
            self.flush()

    def flush(self) -> None:
        for channel, parts in self._pending.items():
            self._log.append_clean(ModelStreamed, channel=channel, text="".join(parts))
        self._pending.clear()
        self._pending_size = 0
        self._flushed = self._log.seams.clock()

    @property
    def _cut(self) -> bool:
        """The reply ends in the middle of something."""
        return self.finish in ("", "length", FINISH) or self.chanting is not None

    def end(self) -> None:
        """The text is at its end, be it in the middle of a secret: what was held back may be seen, redacted."""
        for index in list(self._unnamed):
            self._name(index)
        for (channel, index), stream in self._safe.items():
            if stream.held:
                rest = stream.rest(self._cut)
                self._put_aside(channel, rest)
                arguments = channel == "arguments"
                self._deltas(CallDelta(index, arguments=rest) if arguments else TextDelta(rest, channel))
        self.flush()

    def dropped(self, attempt: int, estimate: int) -> None:
        """The attempt failed: if anything of it had come, say that it counts nowhere."""
        if self.size or self._calls:
            self._log.append(
                ModelPartialDropped, attempt=attempt, characters=self.size, calls=len(self._calls), estimate=estimate
            )

    def cut(self, found: Chanting, input_tokens: int, output_tokens: int) -> None:
        """The reply ends here: with its text up to the second lap and without the calls that are not whole.

        Where the server has not said what it counted, it is the estimate of what went in, and of what came out a token
        for each character, at most what was allowed for. Thoughts that a server does not show are not in it.
        """
        self._cut_short(FINISH, input_tokens, output_tokens)
        if found.channel in self._text:
            whole = self._redacted(found.channel, 0, "".join(self._text[found.channel]))
            self._text[found.channel] = [whole[: found.keep]]
        broken = {found.index} if found.channel == "arguments" else set()
        self._calls = {
            index: made for index, made in self._calls.items() if index not in broken and _is_whole("".join(made.parts))
        }

    def thinks_beyond(self, most: float) -> bool:
        """More than so many characters of thinking have come, and nothing else."""
        return self.thought > most and self.thought == self.size and not self._calls

    def cut_thinking(self, input_tokens: int, output_tokens: int) -> None:
        """The reply ends here: nothing but thoughts has come, and too many. Counted as :meth:`cut` does."""
        self._cut_short(THOUGHT, input_tokens, output_tokens)

    def _cut_short(self, finish: str, input_tokens: int, output_tokens: int) -> None:
        self.finish = finish
        if self.usage is None:
            self.usage = Usage(input_tokens, min(self.size, output_tokens), estimated=True)

    def reply(self) -> Reply:
        calls, shown = self._made()
        return Reply(
            text=self._redacted("content", 0, "".join(self._text["content"])),
            calls=calls,
            shown=shown,
            finish=self._log.redaction.text(self.finish) or ("tool_calls" if calls else "stop"),
            reasoning=self._redacted("reasoning", 0, "".join(self._text["reasoning"])),
            usage=self.usage,
        )

    def _redacted(self, channel: Channel, index: int, text: str) -> str:
        """A whole text. It was looked through as it came in; only where something was cut out it is once more."""
        stream = self._safe.get((channel, index))
        return text if stream is None or not stream.touched else self._log.redaction.ended(text, self._cut)

    def _made(self) -> tuple[tuple[Call, ...], tuple[Call, ...]]:
        """The calls as they are to be run, and as they may be shown. An id that holds a secret is replaced in both."""
        redaction, taken = self._log.redaction, self._taken
        indices = sorted(self._calls)
        written = [self._calls[index] for index in indices]
        ids = [made.id or "" for made in written]
        clear = redaction.clear("\n".join([*ids, *{made.tool for made in written}]))
        calls: list[Call] = []
        for made, wanted in zip(written, ids, strict=True):
            fresh = unique(wanted if clear or redaction.clear(wanted) else None, taken, len(taken) + 1)
            taken.add(fresh)
            calls.append(Call(fresh, made.tool[:MAX_NAME], "".join(made.parts), len(calls) + 1))
        whole = tuple(calls)
        if clear and not any(stream.touched for stream in self._safe.values()):
            return whole, whole
        return whole, tuple(
            Call(
                call.id,
                redaction.within(self._calls[index].tool, MAX_NAME),
                self._redacted("arguments", index, call.arguments),
                call.slot,
            )
            for index, call in zip(indices, whole, strict=True)
        )


async def ask(
    model: Model,
    request: Request,
    log: Log,
    taken: set[str],
    deltas: Callable[[TextDelta | CallDelta], None],
    *,
    on_first_chunk: Callable[[], None],
    attempt: int,
    estimate: int,
    chant: Chant | None = None,
    cut_chant: bool = True,
) -> Reply:
    """Make one attempt. Raises :class:`ModelError` with what went wrong; what had come until then is dropped.

    The model's ``timeouts`` hold for the first chunk, between chunks and in all. On cancellation the model's stream is
    left at once. So it is when ``chant`` hears that the reply goes round and round: what had come is the reply, with
    ``chant`` as its finish reason. Without ``cut_chant`` that is only noted. A reply that begins with thinking far
    beyond the request's limit is cut likewise, with ``reasoning_length``.
    """
    timeouts = getattr(model, "timeouts", None) or Timeouts()
    assembly = Assembly(log, taken, deltas, chant)
    clock = log.seams.clock
    began = clock()
    end = began + timeouts.total
    slack = timeouts.idle * SLACK
    armed = began - timeouts.idle
    most = math.inf if request.reasoning_tokens is None else (request.reasoning_tokens + 1) * PER_TOKEN
    allowed = request.max_tokens if request.max_tokens is not None else 0
    try:
        with anyio.CancelScope(deadline=min(began + timeouts.first_chunk, end)) as scope:
            async with model.stream(request) as chunks:
                async for chunk in chunks:
                    now = clock()
                    if not assembly.chunks:
                        log.append_clean(ModelFirstChunk, seconds=now - began)
                        on_first_chunk()
                    if now - armed > slack:
                        armed = now
                        scope.deadline = min(now + timeouts.idle, end)
                    assembly.add(chunk)
                    if assembly.chanting is not None and cut_chant:
                        break
                    if assembly.thought > most and assembly.thinks_beyond(most):
                        break
            if not assembly.chunks:
                raise ModelError("empty_stream", "the stream ended before anything came")
            assembly.end()
            if assembly.chanting is not None and cut_chant:
                assembly.cut(assembly.chanting, estimate - allowed, allowed)
            elif assembly.thinks_beyond(most):
                assembly.cut_thinking(estimate - allowed, allowed)
            return assembly.reply()
        raise ModelError("timeout", _too_late(timeouts, bool(assembly.chunks), clock() >= end))
    except ModelError:
        assembly.dropped(attempt, estimate)
        raise
    except Exception as error:
        # A model that raises what it should not: its failure, not ours, and never retried blindly.
        assembly.dropped(attempt, estimate)
        raise ModelError("unknown", f"{type(error).__name__}: {error}") from error


def _is_whole(arguments: str) -> bool:
    try:
        decode(arguments or "{}")
    except NotJSON:
        return False
    return True


def _finding(found: Chanting, n: int) -> Finding:
    how = f"the same {found.period} characters" if found.period else "the same few sentences"
    pattern = f"{how} again and again ({found.channel})"
    return Finding(detector="chant", pattern=pattern, count=found.laps, known=found.unit, onset=n)


def _too_late(timeouts: Timeouts, begun: bool, in_all: bool) -> str:
    if in_all:
        return f"the reply took longer than {timeouts.total:g} s in all"
    if begun:
        return f"the next chunk did not come within {timeouts.idle:g} s"
    return f"the first chunk did not come within {timeouts.first_chunk:g} s"
