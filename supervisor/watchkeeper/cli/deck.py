"""What ``watchkeeper run`` records into, or plays from."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..errors import CassetteError, ConfigurationError
from ..model import Model
from ..seams import Seams
from ..tools import Tool
from .exits import CommandError, complain
from .options import Options

if TYPE_CHECKING:
    from ..cassette.fault import Fault
    from ..cassette.mock import MockedTools
    from ..cassette.player import Player
    from ..cassette.recorder import Recorder
    from ..cassette.transport import Playing


class Deck:
    """Nothing is recorded and nothing is played, unless the options say so."""

    def __init__(self) -> None:
        self.seams: Seams | None = None
        self.model: Model | None = None
        """The model that is played, if one is."""
        self.recorder: Recorder | None = None
        self.player: Player | None = None
        self.traffic: Playing | None = None
        self.tools: MockedTools | None = None

    def mocked(self, tools: list[Tool]) -> list[Tool]:
        return self.tools.of(tools) if self.tools is not None else tools

    def backend(self, name: str) -> tuple[str, dict[str, Any]]:
        """The event loop to use: one in virtual time where a whole run is played."""
        if self.player is None:
            return name, {}
        from ..testing.virtual import backend

        return backend(name)

    def trouble(self) -> str | None:
        """What went wrong with recording or playing, for a person to read."""
        if self.recorder is not None and (failed := self.recorder.tape.failed) is not None:
            return f"--record: not all could be recorded: {failed.strerror or failed}"
        for played in (self.player, self.traffic):
            if played is not None and played.missed is not None:
                return f"--from-cassette: {played.missed}"
        if self.tools is not None and self.tools.missed:
            return f"--mock-tools: {self.tools.missed[0]}"
        return None


def deck_of(options: Options, task: str, stack: contextlib.ExitStack) -> Deck:
    """What the options say of cassettes; ``stack`` closes it. Raises :class:`CommandError` for what cannot be."""
    deck = Deck()
    if not (options.record or options.from_cassette or options.mock_tools or options.tools_from):
        _check_alone(options)
        return deck
    if options.record is not None and options.from_cassette is not None:
        raise CommandError("--record and --from-cassette exclude each other: what is played is recorded already")
    if options.continue_from is not None and options.from_cassette is not None:
        raise CommandError("--continue and --from-cassette exclude each other: a cassette has its own beginning")
    try:
        _load(deck, options, task, stack)
    except (CassetteError, ConfigurationError) as error:
        raise CommandError(str(error)) from error
    return deck


def _check_alone(options: Options) -> None:
    for name, given in (("add", options.add), ("real-tools", options.real_tools), ("fault", options.fault)):
        if given:
            raise CommandError(f"--{name} is for {'--record' if name == 'add' else '--from-cassette'} FILE: add that")


def _load(deck: Deck, options: Options, task: str, stack: contextlib.ExitStack) -> None:
    from ..cassette import MockedTools, Recorder

    if options.real_tools and (options.mock_tools or options.tools_from):
        raise CommandError("--real-tools and --mock-tools exclude each other")
    if options.from_cassette is None:
        if options.real_tools or options.fault:
            raise CommandError("--real-tools and --fault are for --from-cassette FILE: add that")
        if options.mock_tools and options.tools_from is None:
            raise CommandError("--mock-tools needs a cassette: --from-cassette FILE, or --tools-from FILE beside it")
    if options.add and options.record is None:
        raise CommandError("--add is for --record FILE: add that")
    if options.tools_from is not None:
        deck.tools = MockedTools(options.tools_from)
    if options.record is not None:
        deck.seams = deck.recorder = Recorder(options.record, adding="add" if options.add else "once")
        stack.callback(deck.recorder.close)
    if options.from_cassette is not None:
        _play(deck, options, task, stack)


def _play(deck: Deck, options: Options, task: str, stack: contextlib.ExitStack) -> None:
    from ..cassette import Player, forbidden_sockets
    from ..cassette.tape import read
    from ..testing.script import ScriptedModel

    assert options.from_cassette is not None
    path = options.from_cassette
    contents = read(path)
    if contents.cut:
        complain(f"--from-cassette {path}: {contents.cut}")
    stack.enter_context(forbidden_sockets())
    faults = _faults(options)
    if any(one.take.holds == "run" for one in contents.takes):
        real = options.real_tools or options.tools_from is not None
        deck.player = Player(path, task=task, tools="real" if real else "played", faults=faults)
        deck.seams = deck.player
        deck.model = ScriptedModel([], name="played")  # its place is taken when the run is played
        return
    if options.mock_tools and options.tools_from is None:
        raise CommandError(f"--mock-tools: {path} holds the traffic with a model alone; name a run with --tools-from")
    deck.traffic, deck.model = _model(options, faults)


def _model(options: Options, faults: list[Fault]) -> tuple[Playing, Model]:
    """What plays the traffic, and a model before it; its name is the recorded one unless it is given."""
    import httpx2

    from ..cassette.entries import HttpRequest
    from ..cassette.tape import read
    from ..cassette.transport import Playing
    from ..models.openai import OpenAIModel

    path = options.from_cassette
    assert path is not None
    bodies = [
        line.body
        for take in read(path).of("http")
        for line in take.lines
        if isinstance(line, HttpRequest) and isinstance(line.body, dict)
    ]
    name = options.model or next((str(body["model"]) for body in bodies if "model" in body), "")
    extra = {name: value for name in ("temperature", "seed") if (value := getattr(options, name)) is not None}
    played = Playing(path, faults=faults)
    model: Model = OpenAIModel(
        name or "played",
        base_url=options.base_url or "http://localhost/v1",
        api_key="none",
        extra=extra,
        http_client=httpx2.AsyncClient(transport=played, timeout=None),
    )
    if options.text_tools:
        from ..models.text import TextTools

        return played, TextTools(model)
    return played, model


def _faults(options: Options) -> list[Fault]:
    from ..cassette.fault import fault_in, faults_in

    found: list[Fault] = []
    for text in options.fault:
        try:
            found += faults_in(text[1:]) if text.startswith("@") else [fault_in(text)]
        except ConfigurationError as error:
            raise CommandError(f"--fault {text}: {error}") from error
    return found
