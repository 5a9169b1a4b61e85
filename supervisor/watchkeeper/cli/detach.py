"""``watchkeeper run --detach``: give a task to an agent of the service, and go away."""

from __future__ import annotations

import dataclasses

from ..engine import RunSpec, UnknownBudget
from ..errors import ConfigurationError
from ..profiles import limits_with
from .exits import COMPLETED, UNREACHABLE, CommandError, complain
from .finding import Sources, through
from .listed import FOREGROUND, Listed
from .listing import labels_of
from .objects import print_object
from .options import Options, limits_given
from .printable import identifier
from .sending import whoever

TAKEN = {
    *(
        "detach",
        "agent",
        "attended",
        "shared_budget",
        "label",
        "json",
        "max_turns",
        "max_calls",
        "tokens",
        "input_tokens",
    ),
    *("output_tokens", "seconds", "working_seconds", "money", "reply_tokens", "reasoning_tokens"),
}
"""The options of ``run`` that can be told to a service; all else is said where its agents are configured."""


def detach(options: Options, task: str) -> int:
    """Submit the task; its id on standard output. Raises :class:`CommandError` where there is no service, or where the
    options say what only a run in the foreground can be told."""
    if not options.agent:
        raise CommandError("--detach needs --agent NAME: one that the service has (its configuration says which)")
    for field in dataclasses.fields(options):
        if field.name not in TAKEN and getattr(options, field.name) != field.default:
            name = field.name.replace("_", "-").replace("continue-from", "continue")
            raise CommandError(f"--{name} is not for --detach: the agent {options.agent} is configured at the service")
    limits = limits_given(options)
    try:
        limits_with(limits)
    except ConfigurationError as error:
        raise CommandError(str(error)) from error
    spec = RunSpec(
        agent=options.agent,
        task=task,
        limits=limits,
        labels=labels_of(options.label),
        attended=options.attended or None,
        by=whoever(),
        budget=options.shared_budget,
    )

    async def body(sources: Sources) -> int:
        service = next((one for one in sources.opened if one.where != FOREGROUND), None)
        if service is None:
            why = "; ".join(map(str, sources.lost.values())) or "none is running here"
            raise CommandError(
                f"--detach needs a service, and there is none to be reached ({why}): watchkeeper serve starts one, "
                "WATCHKEEPER_URL says where another is",
                UNREACHABLE,
            )
        try:
            status = await service.engine.submit(spec)
        except UnknownBudget as error:
            raise CommandError(f"--shared-budget: {error}") from error
        if options.json:
            print_object(Listed(status, service).plain())
        else:
            print(identifier(status.run))
            complain(f"submitted: watchkeeper tail -f {identifier(status.run)} shows it, wait waits for it")
        return COMPLETED

    return through(body, foreground=False)
