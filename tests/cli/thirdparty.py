"""What the tests of third parties' detectors share: detectors, and how they are installed for one test."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from watchkeeper import plugins
from watchkeeper.detect.round import Ring, Round
from watchkeeper.messages import Finding
from watchkeeper.thresholds import Steps, Thresholds


class EveryCall:
    """Every round counts, whatever it holds. Nothing else can be set on it."""

    name = "every_call"
    steps = Steps(2, None, 4)
    __slots__ = ("count",)

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self.count = 0

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        self.count += 1
        first = round.first
        return [
            Finding(
                detector=self.name,
                pattern="a call",
                count=self.count,
                keys=(first.key,),
                tool=first.tool,
                onset=1,
                subject="calls",
            )
        ]


class Failing:
    """Fails whenever it is asked."""

    name = "unwell"

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        pass

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        raise ValueError("it is unwell")


def unmade(thresholds: Thresholds, polls: frozenset[str]) -> EveryCall:
    raise RuntimeError("no such luck")


class Quitting(Failing):
    """Ends the program whenever it is asked."""

    name = "quitting"

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        raise SystemExit(0)


def install(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Let entry points of ``watchkeeper.detectors`` have these values, by name, and no others."""
    points = [EntryPoint(name, value, "watchkeeper.detectors") for name, value in values.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == "watchkeeper.detectors" else [])


def distribution(
    folder: Path, module: str, text: str, name: str, value: str, group: str = "watchkeeper.detectors"
) -> str:
    """A new distribution in a folder, which brings a module of this text with a detector in it; the value of PYTHONPATH
    with which it is installed."""
    about = folder / f"{module}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    (folder / f"{module}.py").write_text(text)
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
