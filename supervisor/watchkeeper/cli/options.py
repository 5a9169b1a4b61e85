"""What ``watchkeeper run`` can be told, and the agent that comes of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from cyclopts import Group, Parameter

from ..agent import Agent
from ..answers.form import Form
from ..answers.validators import must_mention
from ..errors import ConfigurationError, ToolError
from ..jsontext import decode
from ..memory.store import Store
from ..model import Model, Timeouts
from ..models.openai import DEFAULT_BASE_URL, OpenAIModel
from ..plugins import load_detectors, load_tools
from ..price import Price
from ..profiles import Limits, Profile, profile_named
from ..tools import Tool
from .exits import CommandError, complain
from .plugged import steps_declared
from .policy import Policy, read_policy

T = TypeVar("T")

MODEL = Group("The model", sort_key=1)
AGENT = Group("The agent", sort_key=2)
LIMITS = Group("Limits (the profile's, unless given)", sort_key=3)
CASSETTE = Group("Recording and playing back", sort_key=4)
SERVICE = Group("Given to the service", sort_key=6)
OUTPUT = Group("Output", sort_key=5)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options:
    """What ``watchkeeper run`` can be told beside the task."""

    model: Annotated[str | None, Parameter(group=MODEL, help="Name of the model, or OPENAI_MODEL.")] = None
    base_url: Annotated[
        str | None,
        Parameter(group=MODEL, help="Its server, such as http://127.0.0.1:8080/v1, or OPENAI_BASE_URL."),
    ] = None
    text_tools: Annotated[bool, Parameter(group=MODEL, help="The server knows no tool calls: do them in text.")] = False
    first_chunk_timeout: Annotated[
        float | None, Parameter(group=MODEL, help="Seconds to the first piece of a reply (90); more for slow machines.")
    ] = None
    temperature: Annotated[
        float | None, Parameter(group=MODEL, help="How freely it chooses its words (the server's).")
    ] = None
    seed: Annotated[
        int | None, Parameter(group=MODEL, help="Its chances begin from this, where the server knows that.")
    ] = None
    context_window: Annotated[
        int | None,
        Parameter(group=MODEL, help="Tokens it takes, prompt and reply together; a long conversation is cut to that."),
    ] = None
    reply_tokens: Annotated[
        int | None, Parameter(group=LIMITS, help="Tokens of one reply (4096); less for small contexts.")
    ] = None

    reasoning_tokens: Annotated[int | None, Parameter(group=LIMITS, help="Of these, how many may be thinking.")] = None
    reasoning_field: Annotated[
        str | None,
        Parameter(group=MODEL, help="The server's name for --reasoning-tokens, such as thinking_token_budget (vLLM)."),
    ] = None

    tools: Annotated[
        tuple[str, ...], Parameter(group=AGENT, help="Tool sets by name, such as files,shell,http,clock,calc.")
    ] = ()
    root: Annotated[Path, Parameter(group=AGENT, help="The directory that tools work in (the current one).")] = Path()
    allow_host: Annotated[
        tuple[str, ...], Parameter(group=AGENT, help="A host that the http tools may ask, such as example.com:8080.")
    ] = ()
    allow_private: Annotated[
        bool, Parameter(group=AGENT, help="Allowed hosts may have private addresses, this machine's among them.")
    ] = False
    instructions: Annotated[str, Parameter(group=AGENT, help="The system prompt.")] = ""
    require: Annotated[
        tuple[str, ...], Parameter(group=AGENT, help="Tools that must have found something before an answer counts.")
    ] = ()
    plan: Annotated[
        bool, Parameter(group=AGENT, help="Plan the work first and do it step by step; for long tasks (--max-turns).")
    ] = False
    memory: Annotated[
        Path | None, Parameter(group=AGENT, help="A file of notes that outlive the run: tools recall and remember.")
    ] = None
    answer_schema: Annotated[
        Path | None, Parameter(group=AGENT, help="A file with the JSON schema that the answer must fit.")
    ] = None
    must_mention: Annotated[
        tuple[str, ...], Parameter(group=AGENT, help="Words that must stand in the answer, one by one or with commas.")
    ] = ()
    profile: Annotated[str | None, Parameter(group=AGENT, help="Settings of all guards by name (default).")] = None
    policy: Annotated[
        Path | None, Parameter(group=AGENT, help="A TOML file: a profile with changes, and rules for tools.")
    ] = None
    on_stop: Annotated[
        Literal["stop", "hand-over"] | None,
        Parameter(group=AGENT, help="What becomes of a run that is stopped: stop, or hand-over to a person."),
    ] = None
    continue_from: Annotated[
        Path | None,
        Parameter(name="--continue", group=AGENT, help="Continue a run from its token (a file); the task is optional."),
    ] = None
    another_agent: Annotated[
        bool, Parameter(group=AGENT, help="The token may be of other tools or instructions than those given here.")
    ] = False
    backend: Annotated[Literal["asyncio", "trio"], Parameter(group=AGENT, help="Event loop: asyncio or trio.")] = (
        "asyncio"
    )

    max_turns: Annotated[int | None, Parameter(group=LIMITS, help="Replies of the model.")] = None
    max_calls: Annotated[int | None, Parameter(group=LIMITS, help="Calls of tools.")] = None
    tokens: Annotated[int | None, Parameter(group=LIMITS, help="Tokens of the whole run, prompts and replies.")] = None
    input_tokens: Annotated[int | None, Parameter(group=LIMITS, help="Tokens of all its prompts.")] = None
    output_tokens: Annotated[int | None, Parameter(group=LIMITS, help="Tokens of all its replies.")] = None
    seconds: Annotated[float | None, Parameter(group=LIMITS, help="Wall-clock time of the run.")] = None
    working_seconds: Annotated[
        float | None, Parameter(group=LIMITS, help="The same without waits for the model's provider (rate limits).")
    ] = None
    money: Annotated[
        float | None, Parameter(group=LIMITS, help="What the run may cost; needs a known price (see --price).")
    ] = None
    price: Annotated[
        str | None,
        Parameter(
            group=MODEL, help="Its price per million tokens, INPUT,OUTPUT[,CACHED[,CACHE_WRITE]] (else the listed one)."
        ),
    ] = None

    record: Annotated[
        Path | None, Parameter(group=CASSETTE, help="Record the run into this file, which must not be there yet.")
    ] = None
    add: Annotated[bool, Parameter(group=CASSETTE, help="With --record: add to the file if it is there.")] = False
    from_cassette: Annotated[
        Path | None,
        Parameter(
            group=CASSETTE, help="Play the model, and a recorded run's tools, from this file; without any socket."
        ),
    ] = None
    mock_tools: Annotated[
        bool, Parameter(group=CASSETTE, help="Tools give what was recorded (the default where a run is played).")
    ] = False
    tools_from: Annotated[
        Path | None, Parameter(group=CASSETTE, help="The cassette for --mock-tools, if not that of --from-cassette.")
    ] = None
    real_tools: Annotated[
        bool, Parameter(group=CASSETTE, help="With --from-cassette: run the tools, and play the model alone.")
    ] = False
    fault: Annotated[
        tuple[str, ...],
        Parameter(
            group=CASSETTE,
            help="A fault over what is played, such as 2:rate_limited:retry_after=3, or @FILE for a TOML file of them.",
        ),
    ] = ()

    json: Annotated[bool, Parameter(group=OUTPUT, help="Print events as JSON Lines; the rest goes to stderr.")] = False
    events: Annotated[Path | None, Parameter(group=OUTPUT, help="Write all events to this file, as JSON Lines.")] = None
    log_file: Annotated[
        Path | None, Parameter(group=OUTPUT, help="Add log lines to this file, one for each fact worth one.")
    ] = None
    log_format: Annotated[Literal["json", "text"], Parameter(group=OUTPUT, help="Of these lines: json or text.")] = (
        "json"
    )
    report: Annotated[
        Path | None,
        Parameter(group=OUTPUT, help="Write a report, the events and a token to continue with into this folder."),
    ] = None

    detach: Annotated[
        bool, Parameter(group=SERVICE, help="Give it to the service, print its id, and go away; with --agent.")
    ] = False
    agent: Annotated[str, Parameter(group=SERVICE, help="The agent's name, as the service has it.")] = ""
    attended: Annotated[
        bool, Parameter(group=SERVICE, help="Somebody looks after it: what needs a yes is asked (approvals ls).")
    ] = False
    shared_budget: Annotated[
        str, Parameter(group=SERVICE, help="A budget of the service ([budgets.NAME]) that it draws from with others.")
    ] = ""
    label: Annotated[
        tuple[str, ...], Parameter(group=SERVICE, help="NAME=VALUE, by which runs can be listed and cancelled.")
    ] = ()


def policy_in(options: Options) -> Policy:
    """What the options say of guards: the policy file, or a profile alone. Raises :class:`CommandError`."""
    if options.policy is None:
        return Policy(profile=_checked("--profile", lambda: profile_named(options.profile or "default")))
    if options.profile is not None:
        raise CommandError('--profile and --policy exclude each other; a policy names its profile: base = "default"')
    found = read_policy(options.policy, steps_declared(_checked("--policy", load_detectors)))
    if found.tools:
        complain(f"--policy {options.policy}: tools: not used; what is said there of tools is for recorded runs")
    return found


def agent_of(
    options: Options,
    policy: Policy,
    *,
    model: Model | None = None,
    mocked: Callable[[list[Tool]], list[Tool]] | None = None,
) -> Agent:
    """The agent as the options describe it; ``model`` and ``mocked`` (what becomes of its tools) are those of a
    cassette. Raises :class:`CommandError` for what cannot work, with the remedy."""
    profile = policy.profile
    if options.on_stop is not None:
        profile = msgspec.structs.replace(profile, on_stop=options.on_stop.replace("-", "_"))
    tools = _tools(options)
    if mocked is not None:
        tools = mocked(tools)
    names = {tool.name for tool in tools}
    required = split(options.require)
    for name in required:
        if name not in names:
            raise CommandError(f"--require {name}: there is no such tool; the tools are {_listed(names)} (see --tools)")
    schema = _schema(options.answer_schema)
    words = split(options.must_mention)
    if options.must_mention and not words:
        raise CommandError("--must-mention names no word: give one, or leave it out")
    return _checked(
        "the agent",
        lambda: Agent(
            model or _model(options),
            tools,
            instructions=options.instructions,
            required=required,
            answer_type=schema,
            validators=[must_mention(*words)] if words else (),
            profile=profile,
            limits=_limits(options, profile),
            plan=options.plan,
            memory=_memory(options),
        ),
    )


def _memory(options: Options) -> Store | None:
    """Its file is closed when the program ends."""
    if options.memory is None:
        return None
    from ..memory.sqlite import SQLiteStore

    path = options.memory
    return _checked("--memory", lambda: SQLiteStore(path))


def _schema(path: Path | None) -> dict[str, Any] | None:
    """The JSON schema in a file, if one is named. Raises :class:`CommandError` if there is none to be used in it."""
    if path is None:
        return None
    try:
        schema = decode(path.read_text(encoding="utf-8"))
        if not isinstance(schema, dict):
            raise CommandError(f"--answer-schema {path}: a JSON schema is an object in braces")
        Form(schema)
    except OSError as error:
        raise CommandError(f"--answer-schema {path}: {error.strerror or error}; name a file with a schema") from error
    except ValueError as error:  # no JSON, no text, or a schema that would not be checked whole
        raise CommandError(f"--answer-schema {path}: {error}") from error
    return schema


def _limits(options: Options, profile: Profile) -> Limits:
    return msgspec.structs.replace(profile.limits, **limits_given(options))


def limits_given(options: Options) -> dict[str, Any]:
    """What is said of limits, by fields of :class:`.Limits`."""
    given = {
        "max_turns": options.max_turns,
        "max_calls": options.max_calls,
        "tokens": options.tokens,
        "input_tokens": options.input_tokens,
        "output_tokens": options.output_tokens,
        "seconds": options.seconds,
        "working_seconds": options.working_seconds,
        "money": options.money,
        "reply_tokens": options.reply_tokens,
        "reasoning_tokens": options.reasoning_tokens,
    }
    return {name: value for name, value in given.items() if value is not None}


def price_of(options: Options) -> Price | None:
    """The price that was given. Raises :class:`CommandError` for what is none."""
    if options.price is None:
        return None
    try:
        read, written, *more = map(float, options.price.split(","))
        if len(more) > 2:
            raise ValueError("too many")
        cached, cache_write, *_ = (*more, None, None)
        return Price(input=read, output=written, cached=cached, cache_write=cache_write)
    except ValueError:
        raise CommandError(
            f"--price {options.price}: it takes money per million tokens, such as 1.25,10 or 1.25,10,0.125"
        ) from None


def _model(options: Options) -> Model:
    name = options.model or os.environ.get("OPENAI_MODEL")
    if not name:
        raise CommandError("no model: give --model NAME, or set OPENAI_MODEL")
    base_url = options.base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
    if "//api.openai.com" in base_url and not os.environ.get("OPENAI_API_KEY"):
        raise CommandError(
            "no API key for api.openai.com: set OPENAI_API_KEY, or give --base-url for a server of your own"
        )
    if options.context_window is not None and options.context_window < 1:
        raise CommandError(f"--context-window must be at least 1 token, not {options.context_window}")
    timeouts = Timeouts()
    if options.first_chunk_timeout is not None:
        if not options.first_chunk_timeout > 0:
            raise CommandError(f"--first-chunk-timeout must be more than 0, not {options.first_chunk_timeout:g}")
        first = options.first_chunk_timeout
        timeouts = Timeouts(first_chunk=first, total=max(timeouts.total, 2 * first))
    extra = {"temperature": options.temperature, "seed": options.seed}
    model = _checked(
        "--base-url",
        lambda: OpenAIModel(
            name,
            base_url=base_url,
            timeouts=timeouts,
            reasoning_field=options.reasoning_field,
            context_window=options.context_window,
            extra={field: value for field, value in extra.items() if value is not None},
        ),
    )
    if options.text_tools:
        from ..models.text import TextTools

        return TextTools(model)
    return model


def _tools(options: Options) -> list[Tool]:
    sets = split(options.tools)
    hosts = split(options.allow_host)
    if hosts and "http" not in sets:
        raise CommandError("--allow-host is for the http tools: add --tools http")
    try:
        return load_tools(*sets, root=options.root, hosts=hosts, allow_private=options.allow_private)
    except NotADirectoryError as error:
        raise CommandError(f"--root {options.root} is not a directory; name one that exists") from error
    except OSError as error:
        raise CommandError(f"--root {options.root}: {error.strerror or error}") from error
    except ToolError as error:
        raise CommandError(f"--tools: {error}" + (f"; {error.hint}" if error.hint else "")) from error
    except ConfigurationError as error:
        raise CommandError(f"--tools: {error}") from error
    except ValueError as error:
        raise CommandError(f"--allow-host: {error}") from error


def _checked(what: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except (ConfigurationError, ValueError) as error:
        raise CommandError(f"{what}: {error}") from error


def split(given: Iterable[str]) -> tuple[str, ...]:
    """Names that were given one by one, or several in one with commas."""
    return tuple(dict.fromkeys(name.strip() for one in given for name in one.split(",") if name.strip()))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
