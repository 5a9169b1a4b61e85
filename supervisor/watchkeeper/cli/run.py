"""``watchkeeper run``: give a task to an agent and supervise it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated

import anyio
import anyio.to_thread
from cyclopts import Parameter

from ..agent import Agent
from ..engine import Engine
from ..errors import ConfigurationError, RunEndedError
from ..log import KEEP as LOG_KEEPS
from ..messages import Outcome
from ..model import Model
from ..plugins import load_detectors, load_guards
from ..run import Run
from ..seams import Seams
from ..supervisor import Supervisor
from ..thresholds import Steps
from .approving import Unasked, approver_at
from .bundling import KEEP, KEY, check_report, token_in, write_bundle
from .deck import Deck, deck_of
from .epilogue import epilogue
from .exits import FAILED, CommandError, HardExit, complain, exit_code, forget_stdout
from .interrupts import Interrupts
from .jsonlines import JsonLines, open_events
from .loglines import lines_into
from .narrator import Line
from .options import Options, agent_of, policy_in, price_of
from .plugged import with_steps
from .view import Careful, Plain, View, show, view_on

OUTPUT_CLOSED = "output_closed"
"""The reason of a cancel because nobody reads standard output any more: a run that nobody sees is not paid for."""

NOTHING_GIVEN = Options()


def run(
    task: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None, /, *, options: Options = NOTHING_GIVEN
) -> int:
    """Give a task to an agent and supervise it.

    Ctrl-C ends the run after the current turn; again: now; a third time: without waiting for anything. What is handed
    over to a person leaves a folder with a report, the events and a token with which to continue.

    Calls that need approval, because a policy asks or because they cannot be undone, are asked about at the terminal,
    with the exact arguments that will be run. Without a terminal they are denied.

    Parameters
    ----------
    task:
        What is to be done, in words; - reads it from standard input. With --continue: a word to go on with, or nothing.
    """
    text = _task(task, options)
    if options.another_agent and options.continue_from is None:
        raise CommandError("--another-agent is for --continue FILE: add that")
    check_report(options.report)
    if options.detach:
        from .detach import detach

        if text is None:
            raise CommandError("--continue is not for --detach")
        return detach(options, text)
    for name in ("agent", "label", "attended", "shared_budget"):
        if getattr(options, name):
            raise CommandError(f"--{name.replace('_', '-')} is for --detach: add that")
    policy = policy_in(options)
    interrupts = Interrupts()
    with contextlib.ExitStack() as stack:
        deck = deck_of(options, text or "", stack)
        agent = agent_of(options, policy, model=deck.model, mocked=deck.mocked)
        if isinstance(agent.memory, contextlib.AbstractContextManager):
            stack.enter_context(agent.memory)
        performance = Performance(options, policy.steps, interrupts, stack, deck)
        stack.enter_context(quiet_reports())
        stack.enter_context(interrupts.installed())
        backend, settings = deck.backend(options.backend)
        code: int = anyio.run(performance.perform, agent, text, backend=backend, backend_options=settings)
    return code


def _task(task: str | None, options: Options) -> str | None:
    """What the user says. Raises :class:`CommandError` where that is missing."""
    if task is None and options.continue_from is not None:
        return None
    if task is None:
        raise CommandError('the task is missing: watchkeeper run "What is to be done"')
    if task.startswith("-") and task != "-":
        raise CommandError(f"unknown option {task}, or a task that begins with a hyphen (watchkeeper run --help)")
    text = (sys.stdin.read() if task == "-" else task).strip()
    if not text:
        raise CommandError('the task is empty: watchkeeper run "What is to be done"')
    return text


class Performance:
    """One supervised run with what watches it: the view, the events, the signals."""

    def __init__(
        self,
        options: Options,
        steps: Mapping[str, Steps],
        interrupts: Interrupts,
        stack: contextlib.ExitStack,
        deck: Deck,
    ) -> None:
        self._stack = stack
        self._deck = deck
        self._steps = steps
        """Of detectors of third parties, by name."""
        self._interrupts = interrupts
        self._json = options.json
        self._options = options
        self._token = token_in(options.continue_from) if options.continue_from is not None else None
        self._price = price_of(options)
        self._file = open_events(options.events, stack) if options.events is not None else None
        self._observers = lines_into(options.log_file, options.log_format, stack)
        self._view = View() if options.json else Careful(view_on(sys.stdout), self._stdout_failed)
        self._lost = False
        self._run: Run | None = None
        self._unasked = Unasked()

    async def perform(self, agent: Agent, task: str | None) -> int:
        """Start the run and see it through to its end; the exit code. Leaves nothing behind that could hold up the
        process: what does not stop is left to a hard exit."""
        seams = self._deck.seams or Seams()
        run_id = seams.new_id("r")
        async with self._seen(run_id) as engine:
            return await self._perform(agent, task, run_id, seams, engine)

    def _seen(self, run_id: str) -> AbstractAsyncContextManager[Engine | None]:
        """What makes it seen by other terminals. One that is played back is over at once, and in a time of its own."""
        if self._deck.player is not None:
            return contextlib.nullcontext()
        from .foreground import foreground

        return foreground(run_id)

    async def _perform(self, agent: Agent, task: str | None, run_id: str, seams: Seams, engine: Engine | None) -> int:
        try:
            opened = Supervisor(
                detectors=with_steps(load_detectors(), self._steps),
                guards=load_guards(),
                prices={agent.model.name: self._price} if self._price is not None else None,
                approver=approver_at(self._view, agent.profile.attended),
                plugged=False,
                token_key=os.environ.get(KEY) or None,
                keep=KEEP if self._options.report is not None or agent.profile.on_stop == "hand_over" else LOG_KEEPS,
                seams=seams,
                engine=engine,
                observers=self._observers,
            )
        except ConfigurationError as error:  # a third party's detector or guard cannot be loaded; a key is too short
            raise CommandError(str(error)) from error
        async with opened as supervisor:
            run = self._run = await self._start(supervisor, agent, task, run_id)
            run.log.attach(self._unasked)
            self._interrupts.watch(run)
            async with anyio.create_task_group() as tasks:
                for writer in self._writers(run):
                    tasks.start_soon(writer.follow)
                tasks.start_soon(show, run, self._view)
                outcome = await run.wait()
            code = self._tell(agent, outcome)
            for told in self._unasked.told(lambda name: agent.tools[name].irreversible):
                complain(told)
            if always := supervisor.approved.toml(agent.name):
                complain(f"permitted always; to keep it, put this into a policy (--policy FILE):\n{always}")
            if self._options.report is not None or outcome.status == "handed_over":
                code = await anyio.to_thread.run_sync(self._bundle, run, code)
            hard_exit = HardExit(code)
            hard_exit.arm()
            self._stack.callback(hard_exit.disarm)
        return code

    async def _start(self, supervisor: Supervisor, agent: Agent, task: str | None, run_id: str) -> Run:
        if self._token is None:
            return await supervisor.start(agent, task, run_id=run_id)
        try:
            return await supervisor.start(
                agent,
                task,
                continue_from=self._token,
                another_agent=self._options.another_agent,
                run_id=run_id,
            )
        except ConfigurationError as error:
            raise CommandError(f"--continue {self._options.continue_from}: {error}") from error

    def _bundle(self, run: Run, code: int) -> int:
        """Write what a person needs to look at the run and to continue it; the exit code."""
        try:
            self._print(write_bundle(run, self._options.report))
        except CommandError as error:
            complain(str(error))
            return code or FAILED
        return code

    def _print(self, lines: Iterable[Line]) -> None:
        (Careful(Plain(sys.stderr), lambda error: None) if self._json else self._view).print(lines)

    def _writers(self, run: Run) -> Iterator[JsonLines]:
        if self._file is not None:
            yield JsonLines(run, "events", self._file, self._file_failed)
        if self._json:
            yield JsonLines(run, "stdout", sys.stdout.buffer, self._stdout_failed, safe=sys.stdout.isatty())

    def _tell(self, agent: Agent, outcome: Outcome) -> int:
        self._print(epilogue(outcome))
        if (told := self._deck.trouble()) is not None:
            complain(told)
            return FAILED
        if outcome.reason in ("model_unavailable", "model_refused"):
            complain(_remedy(agent.model, outcome))
        return FAILED if self._lost and not exit_code(outcome) else exit_code(outcome)

    def _stdout_failed(self, error: OSError) -> None:
        forget_stdout()
        if self._run is not None:
            with contextlib.suppress(RunEndedError):
                self._run.threadsafe.cancel(OUTPUT_CLOSED)

    def _file_failed(self, error: OSError) -> None:
        self._lost = True
        complain(f"--events: not all events could be written: {error.strerror or error}")


def _remedy(model: Model, outcome: Outcome) -> str:
    where = getattr(model, "provider", None) or "the server"
    if outcome.reason == "model_unavailable":
        return f"{where} did not answer: check that it runs, and --base-url (it usually ends in /v1)"
    return f"{where} refused the request: check --model, --base-url and the key (OPENAI_API_KEY)"


@contextlib.contextmanager
def quiet_reports() -> Iterator[None]:
    """What a supervisor reports to its operator stands in the view, the epilogue and the events already."""
    import structlog

    configured, before = structlog.is_configured(), structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        if configured:
            structlog.configure(**before)
        else:  # what is put back would count as configured, and go to standard output
            structlog.reset_defaults()
