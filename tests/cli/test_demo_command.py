"""``watchkeeper demo``: four runs that end as they should, and a demonstration that notices if one does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watchkeeper.cli import demo, main
from watchkeeper.testing import BACKENDS
from watchkeeper.testing.server import Say


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_four_end_as_expected(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--backend", backend]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    for words in (
        " reads, then 2 edits",
        "nudge at 3, block at 5, stop at 8",
        "5 + 3 refused",
        "2 × 429, 1 broken reply",
        "stopped (loop)",
        "up to 2 side by side",
        "✂ a reply broke off after",
    ):
        assert words in shown.out, words
    table = shown.out[shown.out.rindex("what happened") :]
    for name in ("healthy", "repeats", "endless", "rough"):
        assert f" {name} " in table
    assert " ms " in table  # the measured latency


def test_a_run_that_does_not_end_as_expected_fails_the_demonstration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    healthy = replace(demo.SCENES[0], script=[Say("I did not look.")] * 5)
    monkeypatch.setattr(demo, "SCENES", (healthy,))
    assert main(["demo"]) == 1
    shown = capsys.readouterr()
    assert "watchkeeper: demo: healthy: it did not complete" in shown.err
    assert "watchkeeper: demo: healthy: api is not edited" in shown.err
    assert "NOT as expected" in " ".join(shown.out.split())
