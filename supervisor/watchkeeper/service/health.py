"""Whether the service is alive and ready: pure judgements on what was looked at."""

from __future__ import annotations

from collections.abc import Sequence

from .control import Check, Report, WorkerStatus

LEAST_FREE = 64 << 20
"""Bytes that have to be free where the journals are; a worker's write-ahead log alone may take some of them."""


def live(*, working: bool, ending: bool) -> Report:
    """``working``: the foreman keeps workers; ``ending``: it is on its way to the end, which is no fault."""
    fine = working or ending
    return Report.of(Check("foreman", fine, "" if fine else "it has ended and keeps no workers any more"))


def ready(
    *, admitting: bool, workers: Sequence[WorkerStatus], engine: str, free: int | None, least: int = LEAST_FREE
) -> Report:
    """``engine``: what is wrong with it, or empty; ``free``: bytes on its disk, None where that cannot be told."""
    working = [worker.name for worker in workers if worker.state == "running"]
    others = ", ".join(f"{worker.name} is {worker.state}" for worker in workers if worker.state != "running")
    return Report.of(
        Check("admitting", admitting, "" if admitting else "the service drains and takes no more runs"),
        Check("workers", bool(working), others),
        Check("engine", not engine, engine),
        Check("disk", free is None or free >= least, "" if free is None else f"{free >> 20} MB are free"),
    )
