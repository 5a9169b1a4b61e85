"""Tools: what a model may call, with the schema, the effect and the limits of each."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, overload

import msgspec

from .errors import ConfigurationError
from .keyed import is_key, keyed

DEFAULT_TIMEOUT = 60.0
"""Seconds a call may take unless its tool says otherwise: by default no tool is without a deadline."""
DEFAULT_MAX_OUTPUT = 20_000
"""Characters of a result that the model sees; about 5,000 tokens."""

MAX_STATED = 1_000
"""Bounds on lengths above this are checked, but stand in no schema: llama.cpp makes no grammar of more than 2,000
repetitions, and then, without a word, does not hold the model to valid calls at all."""

EVERYTHING = ""
"""The resource name that is a prefix of every other."""

F = TypeVar("F", bound=Callable[..., Any])
Check = Callable[[Any], str | None]
"""Says what is wrong with the value of an argument, for the model to read; None: nothing."""

Happened = Callable[[str], Any]
"""Given the idempotency key of a call, its result, or None if it did not happen; plain or async."""
AfterCrash = Literal["retry", "ask", "fail"] | Happened

Cost = float | Mapping[str, float]
"""A number of ``money``, or amounts by dimension of the budget."""
NO_COST: Mapping[str, float] = {}


class Effect(msgspec.Struct, frozen=True):
    """What a call may touch: names of resources, as paths. A prefix conflicts with what is under it.

    Two calls conflict if one writes what the other reads or writes. Names that begin with ``shared:`` mean the same
    thing in all runs of a supervisor; others only within a run and its sub-agents.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


READS = Effect(reads=(EVERYTHING,))
WRITES = Effect(writes=(EVERYTHING,))
NOTHING = Effect()


def reads(*names: str) -> Effect:
    """An effect that reads the named resources, or everything if none is named."""
    return Effect(reads=names or (EVERYTHING,))


def writes(*names: str) -> Effect:
    """An effect that writes the named resources, or everything if none is named."""
    return Effect(writes=names or (EVERYTHING,))


class ToolOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool may return instead of a plain value.

    ``productive`` says whether the call found something that an answer may rest on; None means: yes, unless
    ``content`` is None or empty. A search without hits is a success, but not evidence.
    ``error`` marks an outcome such as a non-zero exit: a result, not a failure of the tool; it is not productive.
    """

    content: Any
    productive: bool | None = None
    error: str | None = None
    evidence: dict[str, Any] = {}


class Tool:
    """A tool ready to be called. Made by :func:`tool`; all attributes are read-only by convention."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        effect: str | Effect | Callable[..., Effect] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        idempotent: bool = False,
        stable: bool = False,
        poll: bool = False,
        dangerous: bool = False,
        irreversible: bool = False,
        judged: bool = False,
        loop_key: str | Iterable[str] | None = None,
        result_key: Callable[[str], str] | str | Iterable[str] | None = None,
        checks: Mapping[str, Check | Iterable[Check]] | None = None,
        max_output: int = DEFAULT_MAX_OUTPUT,
        hint: str | None = None,
        cost: Cost | Callable[..., Cost] | None = None,
        after_crash: AfterCrash | None = None,
    ) -> None:
        if not callable(function):
            raise ConfigurationError(f"{function!r} cannot be made a tool: @tool takes a function")
        self.function = function
        self.name = name or str(getattr(function, "__name__", ""))
        if not _is_name(self.name):
            raise ConfigurationError(
                f"tool name {self.name!r} cannot be used: servers accept 1 to 64 letters, digits, '_' and '-'; "
                "give another with @tool(name=…)"
            )
        self.description = inspect.cleandoc(description or function.__doc__ or "")
        self.is_async = inspect.iscoroutinefunction(_body(function))
        self.effect, self._effect_of = _effect(effect, self.name)
        self.side_effect = not (effect is None or self.only_reads or idempotent or poll)
        """It is declared to write, and not that writing twice does no harm: to do so again is worth a word."""
        if timeout is not None and not timeout > 0:
            raise ConfigurationError(
                f"tool {self.name!r}: timeout must be more than 0 seconds or None, not {timeout!r}"
            )
        if timeout == math.inf:
            timeout = None
        if max_output < 1:
            raise ConfigurationError(f"tool {self.name!r}: max_output must be at least 1 character, not {max_output!r}")
        self.timeout = timeout
        self.idempotent = idempotent
        self.stable = stable
        self.poll = poll
        self.dangerous = dangerous
        self.irreversible = irreversible
        self.judged = judged
        self.max_output = max_output
        self.hint = hint
        self.after_crash, self.happened = _after_crash(after_crash, self)
        self._cost_of = cost if callable(cost) else None
        try:
            self._cost = NO_COST if cost is None or callable(cost) else _amounts(cost)
        except ValueError as error:
            raise ConfigurationError(f"tool {self.name!r}: {error}") from None
        self.arguments_type, self.fields, key = _arguments_type(function, self.name)
        if key is not None:
            if self.only_reads:
                raise ConfigurationError(
                    f"tool {self.name!r}: its parameter {key!r} takes an idempotency key, and a call that only reads "
                    "has none; declare what it writes with @tool(effect=…), or leave the parameter out"
                )
            self.function = keyed(function, key, self.is_async)
        self.loop_key = _names(loop_key)
        for field in self.loop_key or ():
            if field not in self.fields:
                raise ConfigurationError(
                    f"tool {self.name!r}: loop_key names {field!r}, which is not a parameter; "
                    f"it has {', '.join(self.fields) or 'none'}"
                )
        self.checks = {field: (asked,) if callable(asked) else tuple(asked) for field, asked in (checks or {}).items()}
        for field in self.checks:
            if field not in self.fields:
                raise ConfigurationError(
                    f"tool {self.name!r}: checks names {field!r}, which is not a parameter; "
                    f"it has {', '.join(self.fields) or 'none'}"
                )
        self.result_key = result_key if callable(result_key) else _names(result_key)
        self.schema = _schema(self.arguments_type, self.name)
        self.required = frozenset(name for name, field in self.fields.items() if field.required)

    @property
    def asks_arguments(self) -> bool:
        """The effect or the cost of a call depends on its arguments."""
        return self._effect_of is not None or self._cost_of is not None

    @property
    def only_reads(self) -> bool:
        """True if no call of this tool can write, whatever its arguments."""
        return self._effect_of is None and not self.effect.writes

    def effect_of(self, arguments: Mapping[str, Any]) -> Effect:
        """The effect of one call. An effect function that raises or answers nonsense counts as: writes everything."""
        if self._effect_of is None:
            return self.effect
        try:
            effect = self._effect_of(**arguments)
        except (Exception, SystemExit, GeneratorExit):
            return WRITES
        return effect if isinstance(effect, Effect) else WRITES

    def cost_of(self, arguments: Mapping[str, Any]) -> Mapping[str, float]:
        """What one attempt at a call costs, by dimension. Raises ``ValueError`` if its function raises or answers
        nonsense."""
        if self._cost_of is None:
            return self._cost
        try:
            cost = self._cost_of(**arguments)
        except (Exception, SystemExit, GeneratorExit) as error:
            raise ValueError(f"its cost function raised {type(error).__name__}") from error
        return _amounts(cost)

    def spec(self) -> dict[str, Any]:
        """The tool as the model sees it: ``{"name", "description", "parameters"}``, parameters as a JSON schema."""
        return {"name": self.name, "description": self.description, "parameters": self.schema}

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = ...,
    description: str | None = ...,
    effect: str | Effect | Callable[..., Effect] | None = ...,
    timeout: float | None = ...,
    idempotent: bool = ...,
    stable: bool = ...,
    poll: bool = ...,
    dangerous: bool = ...,
    irreversible: bool = ...,
    judged: bool = ...,
    loop_key: str | Iterable[str] | None = ...,
    result_key: Callable[[str], str] | str | Iterable[str] | None = ...,
    checks: Mapping[str, Check | Iterable[Check]] | None = ...,
    max_output: int = ...,
    hint: str | None = ...,
    cost: Cost | Callable[..., Cost] | None = ...,
    after_crash: AfterCrash | None = ...,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **declarations: Any) -> Any:
    """Make a tool of an async function (runs on the event loop) or a plain one (runs in a thread).

    The schema comes from the signature, the description from the docstring. A parameter that is annotated with
    :class:`IdempotencyKey` is no part of it: it gets the key of the call (see ``current_call``). Declarations:

    - ``effect``: ``"reads"``, ``"writes"``, ``"nothing"``, an :class:`Effect`, or a function of the arguments that
      returns one. Undeclared means: writes everything, so it runs alone.
    - ``timeout``: seconds (default 60; None: only the run's own deadline).
    - ``idempotent``: running it twice does no harm; it may be retried after :class:`Transient`, and come again.
    - ``stable``: the answer to equal arguments does not change and may be remembered within the run.
    - ``poll``: meant to be asked again with equal arguments; gets patience in time.
    - ``dangerous``: a policy may deny all tools that are declared so, in one word.
    - ``irreversible``: what it does cannot be undone: each call needs the approval of a person.
    - ``judged``: the agent's judge sees each call before it may run; an agent without one cannot have the tool.
    - ``loop_key``: name or names of the arguments that make two calls the same for detection (default: all).
    - ``result_key``: a function of the output text, or a name or names of JSON fields, for what makes two results the
      same.
    - ``checks``: by argument, one or several functions that say what is wrong with its value, or None; the call is then
      refused. ``watchkeeper_tools.checks`` has some.
    - ``max_output``: characters that the model sees.
    - ``hint``: what the model should do next when a call fails.
    - ``cost``: what one attempt at a call takes from the budget: a number (of ``money``), amounts by dimension such as
      ``{"money": 0.01, "searches": 1}``, or a function of the arguments that returns one of these. It is held before
      the call and settled after; a call that does not run costs nothing, and one whose cost is not there is not run.
    - ``after_crash``: what becomes of a call that was started when the process died, and may have had its effect:
      ``retry`` (run it again with the same key; the default of ``idempotent`` tools), ``ask`` (a person, and refuse it
      where there is none; the default of others), ``fail``, or a function that is given the idempotency key and returns
      the result of that call, or None if it did not happen: then it is run, with that key. Calls that only read are run
      again.

    Raises :class:`ConfigurationError` if the signature cannot be turned into a schema.
    """
    if function is not None:
        return Tool(function)
    return lambda f: Tool(f, **declarations)


def _after_crash(given: AfterCrash | None, tool: Tool) -> tuple[str, Happened | None]:
    if given is None:
        return ("retry" if tool.idempotent else "ask"), None
    if tool.only_reads:
        raise ConfigurationError(f"tool {tool.name!r}: it only reads, and is run again after a crash; drop after_crash")
    if callable(given):
        return "check", given
    if given not in ("retry", "ask", "fail"):
        raise ConfigurationError(
            f"tool {tool.name!r}: after_crash must be retry, ask, fail or a function of the idempotency key, "
            f"not {given!r}"
        )
    return given, None


def _amounts(cost: object) -> Mapping[str, float]:
    amounts = cost if isinstance(cost, Mapping) else {"money": cost}
    for name, amount in amounts.items():
        real = isinstance(amount, (int, float)) and not isinstance(amount, bool) and 0 <= amount < math.inf
        if not (real and isinstance(name, str)):
            raise ValueError(f"a cost is a number of 0 or more, or such numbers by dimension, not {cost!r}"[:200])
    return dict(amounts)


def _names(names: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    return (names,) if isinstance(names, str) else tuple(names)


def _body(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, or the ``__call__`` of an object."""
    found: Callable[..., Any] = function if inspect.isroutine(function) else type(function).__call__.__get__(function)
    return found


def _is_name(name: str) -> bool:
    return 1 <= len(name) <= 64 and name.isascii() and name.replace("_", "a").replace("-", "a").isalnum()


def _effect(
    effect: str | Effect | Callable[..., Effect] | None, name: str
) -> tuple[Effect, Callable[..., Effect] | None]:
    if effect is None or effect == "writes":
        return WRITES, None
    if effect == "reads":
        return READS, None
    if effect == "nothing":
        return NOTHING, None
    if isinstance(effect, Effect):
        return effect, None
    if callable(effect):
        if effect is reads:
            return READS, None
        if effect is writes:
            return WRITES, None
        return WRITES, effect
    raise ConfigurationError(
        f"tool {name!r}: effect must be 'reads', 'writes', 'nothing', an Effect or a function of the arguments, "
        f"not {effect!r}"
    )


def _arguments_type(function: Callable[..., Any], name: str) -> tuple[type[msgspec.Struct], dict[str, Any], str | None]:
    """The type of the arguments, its fields by name, and the parameter that gets the idempotency key."""
    try:
        hints = typing.get_type_hints(_body(function), include_extras=True)
        parameters = inspect.signature(function).parameters.values()
    except NameError as error:
        raise ConfigurationError(
            f"tool {name!r}: the type of a parameter cannot be looked up ({error}); define it at module level"
        ) from error
    except (TypeError, ValueError, SyntaxError, AttributeError) as error:
        raise ConfigurationError(
            f"tool {name!r}: its signature cannot be read ({error}); wrap it in a function with annotated parameters"
        ) from error
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    keys = [parameter.name for parameter in parameters if is_key(hints.get(parameter.name))]
    if len(keys) > 1:
        raise ConfigurationError(f"tool {name!r}: only one parameter can take the idempotency key, not {keys}")
    for parameter in parameters:
        if parameter.name in keys:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigurationError(
                f"tool {name!r}: parameter {parameter.name!r} is positional-only or variadic; name each parameter"
            )
        hint = _described(hints.get(parameter.name, Any))
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        elif isinstance(parameter.default, (list, dict, set, bytearray)):
            fields.append((parameter.name, hint, msgspec.field(default_factory=_copier(parameter.default))))
        else:
            fields.append((parameter.name, hint, parameter.default))
    try:
        struct = msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True, frozen=False)
        by_name = {field.name: field for field in msgspec.structs.fields(struct)}
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tool {name!r}: its parameters cannot be described ({error}); use other types or defaults"
        ) from error
    return struct, by_name, keys[0] if keys else None


def _copier(default: Any) -> Callable[[], Any]:
    return lambda: type(default)(default)


def _described(hint: Any) -> Any:
    """``Annotated[T, "text"]`` becomes ``Annotated[T, Meta(description="text")]``."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint
    kind, *notes = typing.get_args(hint)
    return typing.Annotated[
        (kind, *(msgspec.Meta(description=note) if isinstance(note, str) else note for note in notes))
    ]


def _schema(struct: type[msgspec.Struct], name: str) -> dict[str, Any]:
    try:
        (top,), components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tool {name!r}: there is no JSON schema for its parameters ({str(error).splitlines()[0]}); "
            "use plain types, Literal, Enum, msgspec structs or dataclasses"
        ) from error
    own = top["$ref"].rsplit("/", 1)[1]
    schema = dict(components.pop(own))
    schema.pop("title", None)
    schema.setdefault("required", [])
    if components:
        schema["$defs"] = components
    _drop_long_bounds(schema)
    return schema


def _drop_long_bounds(schema: Any) -> None:
    if isinstance(schema, dict):
        for name in ("minLength", "maxLength", "minItems", "maxItems"):
            if isinstance(schema.get(name), int) and schema[name] > MAX_STATED:
                del schema[name]
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _drop_long_bounds(part)
