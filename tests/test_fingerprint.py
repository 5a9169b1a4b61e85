"""What makes two calls, two results or two errors the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Tool, tool
from watchkeeper.arguments import Parsed, parse
from watchkeeper.failures import full_text
from watchkeeper.fingerprint import SHORT, call_key, digest, error_signature, loop_key, result_key


def _search(query: str, page: int = 1) -> str:
    """Search."""
    return query


def key(tool: Tool, **values: Any) -> str:
    parsed = parse(tool, json.dumps(values))
    assert isinstance(parsed, Parsed)
    return loop_key(tool, parsed.values, call_key(tool.name, parsed.canonical))


LONG = st.text(max_size=5, min_size=1).map(lambda text: text * 1000)


@given(st.text() | LONG, st.text() | LONG)
def test_digests_are_short_and_tell_texts_apart(one: str, other: str) -> None:
    assert len(digest(one.encode())) <= SHORT
    assert (digest(one.encode()) == digest(other.encode())) == (one == other)


@pytest.mark.parametrize("size", [0, 1, SHORT - 1, SHORT, SHORT + 1, 4096, 4097, 100_000])
def test_digests_of_any_length_are_short(size: int) -> None:
    assert len(digest(b"x" * size)) <= SHORT
    assert digest(b"x" * size) != digest(b"x" * (size + 1))


def test_the_key_of_a_call_is_tool_and_arguments() -> None:
    search = tool(_search)
    assert key(search, query="a") == key(search, query="a", page="1")
    assert key(search, query="a") != key(search, query="a", page=2)
    assert key(search, query="a") != key(tool(name="find")(_search), query="a")
    assert call_key("a", b"bc") != call_key("ab", b"c")


def test_a_name_that_no_text_can_hold_has_a_key_too() -> None:
    assert call_key("\ud800", b"{}") != call_key("look", b"{}")


def test_a_tool_says_which_arguments_count() -> None:
    by_query = tool(loop_key="query")(_search)
    assert key(by_query, query="a", page=1) == key(by_query, query="a", page=2)
    assert key(by_query, query="a") != key(by_query, query="b")
    assert key(tool(loop_key=())(_search), query="a") == key(tool(loop_key=())(_search), query="b")


def test_a_tool_says_which_part_of_a_result_counts() -> None:
    one, other = '{"status": "busy", "at": 1}', '{"at": 2, "status": "busy"}'
    assert result_key(one) != result_key(other)
    for declared in ("status", ["status"], lambda text: json.loads(text)["status"]):
        made = tool(result_key=declared)(_search)
        assert result_key(one, made) == result_key(other, made)
        assert result_key(one, made) != result_key('{"status": "done"}', made)


@pytest.mark.parametrize("declared", ["status", len, lambda text: text["x"], lambda text: 1 / 0])
@pytest.mark.parametrize("content", ["", "plain text", "[1]", "{", "\ud800", "null"])
def test_a_declaration_that_does_not_fit_means_all_of_it(declared: Any, content: str) -> None:
    made = tool(result_key=declared)(_search)
    assert result_key(content, made) == result_key(str(len(content)) if declared is len else content)


def test_a_field_that_is_not_there_is_compared_as_none() -> None:
    made = tool(result_key=["status"])(_search)
    assert result_key('{"a": 1}', made) == result_key('{"a": 2}', made) != result_key('{"status": 1}', made)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("File 12 is locked", "File 7 is locked"),
        ("at 0x7f3a", "at 0x1b"),
        ("request req_8f3ac9 failed", "request req_77bd01 failed"),
        ("no such file: /tmp/a/b.txt", "no such file: /var/c.txt"),
        ("unknown key 'alpha'", "unknown key 'beta'"),
        ('unknown key "alpha"', 'unknown key "beta gamma"'),
        ("Traceback …\n  line 3\nValueError: busy", "Traceback …\n  line 9\nmore\nValueError: busy"),
        ("  | ValueError: busy\n  +------------------------------------", "ValueError: busy"),
        ("busy\n", "busy"),
        (
            '{"stdout": "", "stderr": "disk full\\n", "exit_code": 1}',
            '{"stderr": "disk full", "exit_code": 4, "ms": 7}',
        ),
        ('{"output": "line 3\\nValueError: busy", "metadata": {"exit_code": 1}}', "ValueError: busy"),
        ('{"status": "failed", "reason": "disk is full"}', '{"reason": "disk is full", "status": "error"}'),
        ('[{"message": "disk is full"}]', '{"message": "disk is full"}'),
        ('{"message": "' + "x" * 5000 + ' disk is full"}', '{"message": "' + "x" * 5001 + ' disk is full"}'),
    ],
)
def test_errors_that_are_the_same(one: str, other: str) -> None:
    assert error_signature("E", one) == error_signature("E", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("disk full", "disk busy"),
        ("connection refused by host", "connection reset by peer"),
        ("Traceback …\nValueError: busy", "Traceback …\nKeyError: busy"),
        ('{"error": "disk full"}', '{"error": "disk busy"}'),
        ('{"stderr": "disk full", "exit_code": 1}', '{"stderr": "no such user", "exit_code": 1}'),
        ("{'error': 'disk full'} happened", "{'error': 'disk full'} vanished"),
    ],
)
def test_errors_that_are_not(one: str, other: str) -> None:
    assert error_signature("E", one) != error_signature("E", other)
    assert error_signature("E", one) != error_signature("F", one)


def test_the_signature_of_a_group_is_that_of_what_failed() -> None:
    def text(message: str) -> str:
        try:
            raise ExceptionGroup("several", [ValueError(message)])
        except ExceptionGroup as group:
            return full_text(group)

    assert error_signature("E", text("busy")) == error_signature("E", "ValueError: busy")
    assert error_signature("E", text("busy")) != error_signature("E", text("gone"))


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_signature_is_one_short_line(code: str, text: str) -> None:
    signature = error_signature("code", text)
    assert signature is None or (signature.startswith("code: ") and "\n" not in signature)
    assert len(error_signature("code", text * 50) or "") < 500


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("git push --force", "Permission to run git push --force was denied."),
         ("rm -r build", "Permission to run rm -r build was denied.")),
        (("if missing: pass", "no match for\n if missing: pass"), ("return error", "no match for\n return error")),
        (('say "hello there"', 'not found: say "hello there"'), ('ask "anyone else"', 'not found: ask "anyone else"')),
    ],
)  # fmt: skip
def test_what_was_asked_is_no_part_of_an_error(one: tuple[str, str], other: tuple[str, str]) -> None:
    first, second = (error_signature("E", text, json.dumps({"command": asked})) for asked, text in (one, other))
    assert first == second
    assert error_signature("E", one[1]) != error_signature("E", other[1])


def test_an_error_that_is_nothing_but_what_was_asked_keeps_it() -> None:
    assert error_signature("E", "rebuild everything", '{"task":"rebuild everything"}') == "E: rebuild everything"
    assert error_signature("E", "error", '{"word":"error"}') == "E: error", "too short to be told from chance"
    spelled = r'{"word":"\u0065\u0072"}'
    assert error_signature("E", "error", spelled) == "E: error", "nor does it get longer by its spelling"


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_signature_with_arguments_is_one_short_line_too(text: str, asked: str) -> None:
    signature = error_signature("code", text, json.dumps({"asked": asked}))
    assert signature is None or (signature.startswith("code: ") and "\n" not in signature and len(signature) < 500)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n \n",
        "Exit code: 1",
        "exit status 2",
        "Process exited with code 1.\n",
        "Command failed with non-zero exit code 3\n\n",
        '{"stdout": "", "stderr": "", "exit_code": 1, "elapsed_ms": 1134}',
        '{"output": "\\n", "metadata": {"exit_code": 1}}',
    ],
)
def test_that_a_command_ended_so_is_no_error_of_its_own(text: str) -> None:
    assert error_signature("E", text) is None
    assert error_signature("E", f"{text}\nit broke") == "E: it broke" or text.startswith("{")


def test_what_looks_like_json_is_bounded_and_harmless() -> None:
    for text in (
        "{" * 9000,
        '{"' * 9000,
        '[" \\' * 9000,
        '{"a": "' + "\\" * 9001,
        "{" + " " * 9000,
        "-" * 9000,
        '{"a": "\\ud800"}',
    ):
        assert len(error_signature("E", text) or "") < 500


def test_an_error_is_the_same_whichever_lines_it_repeats_of_what_was_asked() -> None:
    def signature(old: str) -> str | None:
        asked = json.dumps({"command": "str_replace", "old_str": old, "path": "/a/b.py"})
        text = f"No replacement was performed, old_str `{old}` did not appear verbatim in /a/b.py."
        return error_signature(text.split("\n")[0], text, asked)

    assert signature("def first_name():\n    return 1  # one") == signature("class OtherName:\n    value = None\n    ")


def test_which_command_is_not_there_is_no_part_of_an_error() -> None:
    found = {error_signature("failed", f"bash: line 1: {name}: command not found", "{}") for name in ("npm", "yarn")}
    assert len(found) == 1
