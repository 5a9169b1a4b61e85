"""The ready-made validators: words that must or must not stand in an answer."""

from __future__ import annotations

import pytest

from watchkeeper import ConfigurationError, must_mention, must_not_mention


@pytest.mark.parametrize(
    ("word", "text", "there"),
    [
        ("rain", "Rain, and more.", True),
        ("rain", "It rained in a train.", False),
        ("C++", "in c++ it is", True),
        ("C++", "in C it is", False),
        ("straße", "Die STRASSE", False),
        ("Straße", "die straße", True),
        ("two words", "Two\n  words.", True),
        ("a.b", "axb", False),
        (" rain ", "rain", True),
    ],
)
def test_whole_words_in_any_case(word: str, text: str, there: bool) -> None:
    assert must_mention(word)(text) == (None if there else f"it must mention {word.strip()!r}")
    assert must_not_mention(word)(text) == (f"it must not mention {word.strip()!r}" if there else None)


def test_all_that_is_wrong_is_named() -> None:
    assert must_mention("a", "b", "c")("b only") == "it must mention 'a', 'c'"
    assert must_not_mention("a", "b", "c")("a or b") == "it must not mention 'a', 'b'"


@pytest.mark.parametrize("words", [(), ("",), ("a", " "), (3,)])
def test_words_that_are_none(words: tuple[str, ...]) -> None:
    for make in (must_mention, must_not_mention):
        with pytest.raises(ConfigurationError, match="name at least one"):
            make(*words)
