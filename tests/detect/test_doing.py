"""What a call does within a tool that can do many things, and whether it only looks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.doing import doing, only_looks


def spelled(**fields: Any) -> str:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True)


@pytest.mark.parametrize(
    ("arguments", "done", "looks"),
    [
        (spelled(command="view", path="/a", view_range=[1, 9]), "view", True),
        (spelled(command="str_replace", path="/a", old_str="b"), "str_replace", False),
        (spelled(action="click", ref="e12"), "click", False),
        (spelled(action="snapshot", page=1), "snapshot", True),
        (spelled(command="cd /repo && grep -rn name src | head -5"), "grep", True),
        (spelled(command="cd /repo && FOO=1 timeout 60 python -m pytest -x"), "python", False),
        (spelled(command="sleep 5; curl -s http://localhost:8000"), "curl", False),
        (spelled(command="sed -n 1,20p a.py"), "sed", True),
        (spelled(command="sed -i s/a/b/ a.py"), "sed", False),
        (spelled(command="git log --oneline -3"), "git", True),
        (spelled(command="git commit -m x"), "git", False),
        (spelled(command="cat a.py 2>/dev/null"), "cat", True),
        (spelled(command="cat > a.py << EOF\nx\nEOF"), "cat", False),
        (spelled(command="/usr/bin/node --version"), "node", False),
        (spelled(command="cd /repo"), None, False),
    ],
)
def test_what_a_call_does(arguments: str, done: str | None, looks: bool) -> None:
    assert doing("bash", arguments) == done
    assert only_looks("bash", arguments) is looks


@pytest.mark.parametrize(
    ("tool", "looks"),
    [
        *(("read_file", True), ("search", True), ("Grep", True), ("browser.snapshot", True), ("list_dir", True)),
        *(
            ("write_file", False),
            ("upload_file", False),
            ("transfer", False),
            ("getaway", False),
            ("browser_click", False),
        ),
    ],
)
def test_a_tool_without_a_word_for_it_is_known_by_its_name(tool: str, looks: bool) -> None:
    assert doing(tool, spelled(path="/a", query="b")) is None
    assert only_looks(tool, spelled(path="/a", query="b")) is looks


@given(tool=st.text(max_size=100), arguments=st.text(max_size=600))
def test_whatever_it_is_given_it_gives_an_answer(tool: str, arguments: str) -> None:
    done = doing(tool, arguments)
    assert done is None or done
    assert only_looks(tool, arguments) in (True, False)
