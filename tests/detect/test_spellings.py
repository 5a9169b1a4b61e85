"""Arguments in one spelling: what is the same call though it is written otherwise, and input that means harm."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watchkeeper.detect.arguments import LONGEST, parts_of, spelled

SAME = [
    ('{"a":1,"b":"x"}', '{ "b": "x", "a": 1.0 }'),
    ('{"a":-0.0}', '{"a":0}'),
    ('{"q":"caf\\u00e9"}', '{"q":"cafe\\u0301"}'),
    ('{"q":"\\uff46ull"}', '{"q":"full"}'),
    ('{"q":"red  shoes "}', '{"q":"red shoes"}'),
    ('{"a":"{\\"b\\": 1, \\"c\\": 2}"}', '{"a":"{\\"c\\":2,\\"b\\":1}"}'),
    ('{"a":{"b":1}}', '{"a":"{\\"b\\":1}"}'),
    ('{"path":"./src//a.py"}', '{"path":"src/a.py"}'),
    ('{"path":"src/./lib/../a.py"}', '{"path":"src/a.py"}'),
    ('{"path":"src/"}', '{"path":"src"}'),
    ('{"cmd":"ls ./src/"}', '{"cmd":"ls src"}'),
    ('{"q":"a","reason":"to see more of it"}', '{"q":"a","reason":"just once more"}'),
    # Where something stood in the last picture of a page, beside what it is; or the number of the picture alone.
    ('{"element":"Log in button","ref":"e12"}', '{"element":"Log in button","ref":"e347"}'),
    ('{"element":"Log in button","ref":"s1e12"}', '{"element":"Log in button","ref":"f2e9"}'),
    (
        '{"startElement":"card","startRef":"e1","endElement":"bin","endRef":"e2"}',
        '{"startElement":"card","startRef":"e7","endElement":"bin","endRef":"e9"}',
    ),
    ('{"ref":"s1e12","text":"a"}', '{"ref":"s7e12","text":"a"}'),
    ('{"uid":"1_12"}', '{"uid":"31_12"}'),
]
OTHER = [
    ('{"a":1}', '{"a":2}'),
    ('{"a":"1"}', '{"b":"1"}'),
    ('{"a":{"b":1}}', '{"a":{"c":1}}'),
    ('{"q":"Red"}', '{"q":"red"}'),
    ('{"path":"/src/a"}', '{"path":"src/a"}'),
    ('{"path":"../a"}', '{"path":"a"}'),
    ('{"path":"../../a"}', '{"path":"a"}'),
    ('{"url":"http://a/b"}', '{"url":"http:/a/b"}'),
    ('{"reason":"fraud"}', '{"reason":"damage"}'),
    ('{"a":true}', '{"a":1}'),
    ('{"a":null}', '{"a":""}'),
    ("one command", "another command"),
    ('{"ref":"e12"}', '{"ref":"e13"}'),
    ('{"element":"7","ref":"e12"}', '{"element":"7","ref":"e13"}'),
    ('{"element":"Log in button","ref":"e12"}', '{"element":"Cancel button","ref":"e12"}'),
    ('{"element":"Branch","ref":"main"}', '{"element":"Branch","ref":"next"}'),
    ('{"ref":"s1e12"}', '{"ref":"s1e13"}'),
    ('{"uid":"1_12"}', '{"uid":"1_13"}'),
    ('{"uid":"1000"}', '{"uid":"1001"}'),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_call_in_two_spellings(one: str, other: str) -> None:
    assert parts_of(one) == parts_of(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_two_calls(one: str, other: str) -> None:
    assert parts_of(one) != parts_of(other)


def test_parts_are_named_by_their_place() -> None:
    assert parts_of('{"b":[1,{"c":"x"}],"a":true}') == ["a: True", "b.c: x", "b: 1"]


def test_why_a_call_is_made_is_no_part_of_it_unless_it_is_all_there_is() -> None:
    assert parts_of('{"thought":"I should look at it","path":"a"}') == ["path: a"]
    assert parts_of('{"thought":"I should look at it"}') == ["thought: I should look at it"]
    assert parts_of('{"reason":"duplicate","id":7}') == ["id: 7", "reason: duplicate"]  # a word is a choice


def test_what_is_no_json_is_one_part() -> None:
    assert parts_of("ls  -l ./src") == ["ls -l src"]
    assert parts_of("") == [""]
    assert parts_of('{"a":') == ['{"a":']


@pytest.mark.parametrize(
    "arguments",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        "x" * 10_000_000,
        '{"a":"' + "x" * 10_000_000 + '"}',
        "{" + ",".join(f'"k{number}":{number}' for number in range(50_000)) + "}",
        '{"a":' + "9" * 10_000 + "}",
        '{"a":1e999}',
        '{"a":"\ud800"}',
        '{"a":"\\ud800"}',
        "\ud800",
        '{"a":"' + "b/../" * 5_000 + '"}',
        '{"a":"' + "./" * 5_000 + '"}',
        '{"a":"' + "/" * 10_000 + '"}',
        '{"a":"\\u0000\\u202e"}',
    ],
    ids=lambda text: f"{text[:10]!r} {len(text)}",
)
def test_whatever_comes_it_is_bounded(arguments: str) -> None:
    found = parts_of(arguments)
    assert 0 < len(found) <= 64
    assert sum(map(len, found)) <= 64 * LONGEST


def test_values_within_values_are_opened_only_so_deep() -> None:
    """JSON in JSON in JSON, each layer in quotes."""
    value = '{"end":1}'
    for _ in range(9):
        value = json.dumps({"a": value})
    (part,) = parts_of(value)
    assert part.startswith("a.a.a")


@pytest.mark.parametrize("depth", [*range(1, 40), *range(900, 1010)])
def test_any_depth(depth: int) -> None:
    """Also where the decoder just bears it, and writing the value out does not."""
    assert parts_of("[" * depth + "1" + "]" * depth)
    assert parts_of('{"a":' * depth + "1" + "}" * depth)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_the_order_of_keys_and_white_space_never_matter(arguments: dict[str, object]) -> None:
    turned = dict(reversed(arguments.items()))
    assert parts_of(json.dumps(arguments)) == parts_of(json.dumps(turned, indent=2, ensure_ascii=False))


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
@example("a/../" * 10)
def test_it_never_raises(text: str) -> None:
    parts_of(text)
    assert spelled(spelled(text)) is not None
