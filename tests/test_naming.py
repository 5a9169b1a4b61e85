"""Which tool a model means by a name: one unambiguous match, or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Tool, tool
from watchkeeper.naming import resolve


def named(*names: str) -> dict[str, Tool]:
    return {name: tool(name=name)(lambda: "") for name in names}


TOOLS = named("bash", "srv__render_html", "a__open", "b__open", "tools_list")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("bash", "bash"),
        ("functions.bash", "bash"),
        ("functions:bash", "bash"),
        ("tools.bash", "bash"),
        ("tool:bash", "bash"),
        ("default_api.bash", "bash"),
        ("bash<|channel|>commentary", "bash"),
        ("functions.bash<|channel|>json", "bash"),
        (" bash ", "bash"),
        ("render_html", "srv__render_html"),
        ("functions.render_html", "srv__render_html"),
        ("a__open", "a__open"),
        ("tools_list", "tools_list"),
        ("open", None),
        ("html", None),
        ("Bash", None),
        ("execute_python", None),
        ("", None),
        ("functions.", None),
        ("<|channel|>", None),
        ("srv__", None),
        ("bash.bash", None),
    ],
)
def test_what_a_name_means(name: str, found: str | None) -> None:
    """NAME-01, NAME-02, NAME-04"""
    resolved = resolve(name, TOOLS)
    assert (resolved.name if resolved else None) == found


def test_the_exact_name_comes_first() -> None:
    tools = named("open", "a__open")
    assert resolve("open", tools) is tools["open"]
    assert resolve("functions.open", tools) is tools["open"]


@given(st.text())
def test_it_never_raises(name: str) -> None:
    assert resolve(name, TOOLS) is None or name
    assert resolve(name, {}) is None
