"""The observers that a configuration asks for, for whoever executes runs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from ..configuration import Configuration, LogSettings
from ..errors import ConfigurationError
from ..observers import Observer
from .lines import LEVELS, Lines, logger_to, processors
from .writer import Writer

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which the processes of a service keep their metrics (``service.metrics``)."""


@contextlib.contextmanager
def observers_of(configuration: Configuration, environ: Mapping[str, str]) -> Iterator[list[Observer]]:
    """For ``Supervisor(observers=…)``: log lines, OpenTelemetry where it is on, metrics where the environment names
    their folder. What supervisors report goes where the lines go.

    Raises :class:`ConfigurationError` where something cannot be written or is not installed.
    """
    with contextlib.ExitStack() as stack:
        observers: list[Observer] = [stack.enter_context(lines_of(configuration.log)).observe]
        if configuration.otel.enabled:
            from .exporting import exported

            otel = stack.enter_context(exported(environ, content=configuration.otel.content))
            observers.append(otel.observe)
        if environ.get(FOLDER):
            from .metrics import Metrics

            observers.append(Metrics().observe)
        yield observers


@contextlib.contextmanager
def lines_of(settings: LogSettings) -> Iterator[Lines]:
    """Log lines as ``[log]`` says; until the end also what supervisors report (structlog is configured so)."""
    import structlog

    with contextlib.ExitStack() as stack:
        stream: TextIO = sys.stderr
        if settings.file:
            stream = stack.enter_context(_opened(settings.file))
        terminal = stream.isatty()
        format = settings.format if settings.format != "auto" else "text" if terminal else "json"
        writer = Writer(stream)
        stack.callback(writer.close)
        configured, before = structlog.is_configured(), structlog.get_config()
        stack.callback(lambda: structlog.configure(**before) if configured else structlog.reset_defaults())
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(LEVELS[settings.level]),
            processors=processors(format, colors=terminal),
            logger_factory=lambda *arguments: writer,
        )
        yield Lines(logger_to(writer, format, settings.level, colors=terminal))


@contextlib.contextmanager
def _opened(file: str) -> Iterator[TextIO]:
    try:
        stream = Path(file).open("a", encoding="utf-8", errors="replace")  # noqa: SIM115  (closed below)
    except OSError as error:
        raise ConfigurationError(
            f"log.file {file}: {error.strerror or error}; name a file that can be written"
        ) from error
    with stream:
        yield stream
