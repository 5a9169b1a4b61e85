"""The observers that a configuration asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog
from sighted import recorded

from watchkeeper import ConfigurationError
from watchkeeper.configuration import Configuration, LogSettings, OtelSettings
from watchkeeper.observe.configured import FOLDER, observers_of
from watchkeeper.reports import report


def test_lines_go_where_the_configuration_says_and_reports_too(tmp_path: Path) -> None:
    file = tmp_path / "lines.log"
    before = structlog.get_config()
    with observers_of(Configuration(log=LogSettings(file=str(file))), {}) as observers:
        (lines,) = observers
        for event in recorded()["broken"]:
            lines(event)
        report("run_broken", run="r1", cause="first\nsecond")
    assert structlog.get_config() == before
    said = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [line["event"] for line in said] == ["run_started", "model_failed", "run_ended", "run_broken"]
    assert said[-1]["level"] == "warning"
    assert said[-1]["cause"] == "first second"


def test_the_level_holds_for_reports_too(tmp_path: Path) -> None:
    file = tmp_path / "lines.log"
    with observers_of(Configuration(log=LogSettings(file=str(file), level="error")), {}) as (lines,):
        for event in recorded()["loop"]:
            lines(event)
        report("run_broken", run="r1", cause="x")
    assert file.read_text("utf-8") == ""


def test_without_a_terminal_standard_error_gets_json(capsys: pytest.CaptureFixture[str]) -> None:
    with observers_of(Configuration(), {}) as (lines,):
        lines(recorded()["broken"][0])
    shown = capsys.readouterr()
    assert json.loads(shown.err)["event"] == "run_started"
    assert shown.out == ""


def test_text_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with observers_of(Configuration(log=LogSettings(format="text")), {}) as (lines,):
        lines(recorded()["broken"][0])
    assert "agent='broken'" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    settings = LogSettings(file=str(tmp_path / "gone" / "lines.log"))
    with (
        pytest.raises(ConfigurationError, match=r"log\.file .*: No such file or directory; name a file"),
        observers_of(Configuration(log=settings), {}),
    ):
        pass


def test_opentelemetry_and_metrics_only_where_they_are_asked_for(tmp_path: Path) -> None:
    settings = Configuration(otel=OtelSettings(enabled=True))
    nowhere = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}
    with observers_of(settings, nowhere) as observers:
        assert len(observers) == 2
    with observers_of(settings, nowhere | {FOLDER: str(tmp_path)}) as observers:
        assert len(observers) == 3
        for observe in observers:
            for event in recorded()["top"]:
                observe(event)
