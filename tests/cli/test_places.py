"""A message about a policy names the line of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchkeeper.cli.exits import CommandError
from watchkeeper.cli.places import line_of
from watchkeeper.cli.policy import read_policy

TEXT = """# a policy
deny = ["x"]

[[rules]]
decision = "deny"
[[rules]]
tool = "a"   # the second
unless = [
  { path = "b" },
]
[rates."http_*"]
interval = 2
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("deny", 2),
        ("rules[0].decision", 5),
        ("rules[1]", 6),
        ("rules[1].decision", 6),
        ("rules[1].unless[0].path", 8),
        ("rates.http_*.interval", 12),
        ("rules[2]", None),
        ("den", None),
        ("nothing", None),
    ],
)
def test_the_line_of_a_path(path: str, line: int | None) -> None:
    assert line_of(TEXT, path) == line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'deny = []\n\n[[rules]]\ndecision = "deni"\n',
            r':4: rules\[0\].decision must be one of "allow", ',
        ),
        ("deny = []\nguard_secs = 2\n", r":2: guard_secs is unknown \(did you mean guard_seconds\?\)"),
        ('[rates.look]\ninterval = "soon"\n', r":2: rates.look.interval must be "),
        ('deny = ["x"\n', r": not TOML: "),
    ],
)
def test_an_error_names_file_line_and_remedy(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(CommandError, match=rf"--policy .*p\.toml{said}"):
        read_policy(file)
