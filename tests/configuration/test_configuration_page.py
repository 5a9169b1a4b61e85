"""docs/configuration.md names every key with its default."""

from __future__ import annotations

import re
from pathlib import Path

from watchkeeper.configuration import load
from watchkeeper.configuration.showing import Row, rows_of
from watchkeeper.configuration.sources import variables

PAGE = Path(__file__).parent.parent.parent / "docs" / "configuration.md"
LINE = re.compile(r"^\| `([\w.]+)` \| `(.+?)` \| (.+) \|$", re.MULTILINE)


def settings() -> dict[str, str]:
    """Every key with its default as TOML; limits are Limits' own and have another page."""
    rows = rows_of(load((), {}, {"agents.NAME": {}}), {})
    return {row.key: row.toml().partition(" = ")[2] for row in [*rows, Row("agents.NAME.limits", {}, "")]}


def test_every_key_is_there_with_its_default() -> None:
    said = {key: default for key, default, _ in LINE.findall(PAGE.read_text(encoding="utf-8"))}
    assert said == settings()


def test_every_key_is_explained() -> None:
    assert all(len(told) > 10 for _, _, told in LINE.findall(PAGE.read_text(encoding="utf-8")))


def test_variables_that_are_named_are_settings() -> None:
    known = {*variables(["WRITER"]), "WATCHKEEPER_CONFIG"}
    named = set(re.findall(r"WATCHKEEPER_[A-Z_]+[A-Z]", PAGE.read_text(encoding="utf-8")))
    assert len(named) > 4
    assert named <= known
