"""Chanting in a stream: found soon after its onset, however it is cut into deltas; honest repetition passes."""

from __future__ import annotations

import base64
import gzip
import json
import random
import string
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.chant import FINISH, Chant, Chanting, Chants, Kind, few_sentences, kind_of
from watchkeeper.messages import ModelReplied
from watchkeeper.thresholds import Thresholds

SOON = 800
"""Characters after the onset: 200 tokens of about four."""
SAID = "I should verify that the file was written correctly, and then run the whole suite again to see that it holds. "


def words(count: int, seed: int = 0) -> str:
    """Words that nobody has used before."""
    letters = random.Random(seed)
    return " ".join("".join(letters.choices(string.ascii_lowercase, k=letters.randint(2, 9))) for _ in range(count))


def heard(text: str, channel: Any = "content", size: int = 4) -> Chanting | None:
    chant = Chant()
    for at in range(0, len(text), size):
        found = chant.feed(channel, text[at : at + size])
        if found is not None:
            return found
    return None


CHANTS = {
    "a word": "the " * 300,
    "a word that begins a sentence": "The " + "the " * 300,
    "a word a line, CR and LF": "Done\r\n" * 300,
    "a word in bold": "**Wait** " * 500,
    "a stammer": "ha" * 600,
    "exclamation marks": "!" * 1200,
    "a face": "😂" * 600,
    "a word in capitals": "STOP " * 300,
    "a word a line": "Done\n" * 300,
    "a phrase": "on and on, " * 100,
    "a phrase within a phrase": "I think that " * 100,
    "a short sentence": "I am done. " * 100,
    "a short sentence a line": "I am done.\n" * 100,
    "a short sentence a line, CR and LF": "I am done.\r\n" * 100,
    "a face in halves": "\ud83d\ude02" * 600,
    "with code in it": "I ran `ls` again. " * 80,
    "with a number in it": "Step 1 is done. " * 80,
    "a phrase without an end a line": "I am done\n" * 120,
    "two short sentences": "Thinking... Done. " * 60,
    "a long sentence": SAID * 12,
    "a long sentence as a paragraph": (SAID.strip() + "\n\n") * 12,
    "some lines": "I will end the turn.\n  I am done.\n  I will wait for the user.\n" * 20,
    "within one item of a list": "- " + "the " * 300,
    "within a quote": "> " + "so it goes on and on " * 60,
    "within a call written as text": '{"tool_call": {"arguments": {"answer": "' + "very " * 300,
    "French": "Paris, la ville de la ville, le monde en rapait!\n\nBien sûr, " * 20,
    "Russian": "Я сейчас проверю файл. " * 50,
    "Chinese": "让我再检查一次这个文件，看看有没有问题。" * 40,
    "Thai": "ไม่รู้" * 150,
    "sentences in any order": "".join(
        random.Random(1).choices(["Okay. ", "I am done. ", "Finished. ", "That is all. "], k=200)
    ),
    "lines in any order": "".join(random.Random(2).choices(["I end the turn.\n", "I am done.\n", "I wait.\n"], k=200)),
}


@pytest.mark.parametrize("size", [1, 3, 17, 100_000])
@pytest.mark.parametrize("channel", ["content", "reasoning"])
@pytest.mark.parametrize("name", CHANTS)
def test_a_chant_is_heard_soon(name: str, channel: str, size: int) -> None:
    before = words(100) + ". " if size != 17 else ""
    found = heard(before + CHANTS[name], channel, size)
    assert found is not None
    assert found.channel == channel
    assert found.seen - len(before) <= SOON
    assert found.keep <= len(before) + found.seen / 2
    assert found.unit[:4] in CHANTS[name] * 2


def lap(kind: str, length: int) -> str:
    """So many characters that are of this kind and have no shorter period."""
    draw = random.Random(length)
    if kind == "wide":
        return "".join(draw.choices("让我再检查一次这个文件吗看看有没有问题啊就好", k=length - 1)) + " "
    if kind == "data":
        return "".join(draw.choices("0123456789", k=length - 2)) + ",\n"
    text = words(length, length)
    if kind == "prose":
        return text[: length - 3] + "x. "
    return text[: length - 2] + "x\n" if kind == "lines" else "- " + text[: length - 4] + "x\n"


SAYS, WRITES, ASKS = "", "```pythonscript:", '{"the_answer": "'
"""What comes before: nothing, the beginning of a code block, or that of arguments; all of whole looks."""


@pytest.mark.parametrize(
    ("before", "kind", "laps", "characters"),
    [
        *((SAYS, "prose", 4, 480), (SAYS, "wide", 4, 240), (SAYS, "lines", 12, 720), (SAYS, "data", 12, 2400)),
        *((SAYS, "structure", 20, 4000), (WRITES, "prose", 12, 3000), (WRITES, "wide", 12, 1500)),
        *((WRITES, "lines", 12, 3000), (WRITES, "data", 24, 8000), (WRITES, "structure", 24, 8000)),
        *((ASKS, "prose", 5, 800), (ASKS, "wide", 5, 400)),
    ],
)
def test_how_often_and_for_how_long_what_may_be_said(before: str, kind: str, laps: int, characters: int) -> None:
    """Both must be reached: a short lap is heard by its characters, a long one by its number. It is looked for every 16
    characters."""
    channel = "arguments" if before == ASKS else "content"
    short, long = lap(kind, 40), lap(kind, 16 * (characters // laps // 16 + 2))
    into = "#" * (-characters % 16)  # so that a look is where it is enough
    found = heard(before + into + short * (characters // 40 + 20), channel, 1)
    assert found is not None
    assert found.seen == len(before + into) + characters
    assert (found.period, found.laps) == (40, characters // 40)
    assert found.keep == len(before + into) + 2 * 40
    found = heard(before + long * (laps + 2), channel, 1)
    assert found is not None
    assert found.seen == len(before) + laps * len(long)
    assert (found.period, found.laps) == (len(long), laps)


FIGURES, LATIN, HAN = "0123456789", "abcdefghij", "让我再检查一次这个"
KINDS: dict[str, tuple[Kind, str]] = {
    "words": ("prose", "the wind it blows, "),
    "a word with a number in it": ("prose", "I am done with step 1 of this. "),
    "sentences a line": ("prose", "I am done.\nAre you?\n"),
    "as many sentences as other lines": ("prose", "I am done.\nand then\n"),
    "more other lines": ("lines", "I am done.\nand then\nI go on\n"),
    "a stammer": ("prose", "haho"),
    "in capitals": ("data", "HAHO"),
    "one character": ("data", "x"),
    "hex": ("data", "00ff"),
    "letters that are hex": ("data", "beef"),
    "words around a long one": ("data", f"this is what it is: {LATIN * 6}k and so on, "),
    "words around one that is not so long": ("prose", f"this is what it is: {LATIN * 6} and so on, "),
    "words and not too many figures": ("prose", f"{FIGURES[:5]} {'the wind it blows ' * 5}and "[:100]),
    "words and too many figures": ("data", f"{FIGURES}012345 {'the wind it blows ' * 5}"[:100]),
    "two letters of five": ("prose", "I, a! " * 10 + "ab" * 10 + "," * 20),
    "fewer letters": ("data", "I, a! " * 10 + "ab" * 9 + "a!" + "," * 20),
    "words and as many figures": ("data", f"the wind {FIGURES} "),
    "figures, then words": ("data", f"{' '.join([FIGURES] * 40)} {'the wind it blows, ' * 12}"),
    "exclamation marks": ("prose", "! ? "),
    "a face": ("prose", "😂 "),
    "a divider": ("data", "-=-"),
    "hardly said": ("data", "!----"),
    "blanks": ("data", " \n"),
    "another script": ("wide", HAN),
    "more of another script": ("wide", f"{HAN} {LATIN[:8]}"),
    "half of another script": ("prose", f"{HAN[:6]}, {LATIN[:6]}. . . "),
    "an item": ("structure", "- look\n"),
    "a numbered item": ("structure", "12. look at it\n"),
    "a heading": ("structure", "## look\nat it all.\n"),
    "a quote": ("structure", "> look at it.\n"),
    "cells": ("structure", "look | at it "),
    "an item, CR and LF": ("structure", "- look\r\n"),
    "a dash within a line": ("prose", "look - at it. "),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_it_is_that_goes_round_wherever_it_is_cut(name: str) -> None:
    kind, unit = KINDS[name]
    text = unit * (1000 // len(unit) + 3)
    for cut in range(min(len(unit), 40)):
        assert kind_of(text[: len(text) - cut], len(unit)) == kind, cut


def test_text_that_begins_with_a_line_begins_with_a_line() -> None:
    assert kind_of("I go on\nI go on\n", 8) == "lines"
    assert kind_of("\nI go on\nI go on", 8) == "lines"


HONEST = {
    "counting": " ".join(map(str, range(1, 201))),
    "counting lines": "\n".join(map(str, range(1, 1001))),
    "counting sheep": "".join(f"{n} sheep\n" for n in range(1, 301)),
    "counting in sentences": "".join(f"Now I have counted {n} sheep. " for n in range(1, 200)),
    "ninety-nine bottles": "".join(
        f"{n} bottles of beer on the wall, {n} bottles of beer. Take one down and pass it around, {n - 1} bottles of "
        "beer on the wall.\n"
        for n in range(99, 0, -1)
    ),
    "steps": "".join(f"Step {n}: I will now process file number {n} of the batch.\n" for n in range(1, 101)),
    "a refrain": "Row, row, row your boat,\nGently down the stream.\nMerrily, merrily, merrily, merrily!\n" * 3,
    "verses": "".join(f"{words(20, n)}.\nAnd the wind it blows, and the wind it blows.\n\n" for n in range(12)),
    "a log": "".join(f"2024-01-01 10:00:{n:02d} WARNING refused by 10.0.0.1:8080, retrying\n" for n in range(60)),
    "equal lines of a log": "WARNING Connection to the server was refused, retrying\n" * 10,
    "more equal lines of a log": "[WARN] 10.0.0.1:8080 connection refused (errno=111)\n" * 30,
    "records": "".join(json.dumps({"id": n, "name": f"user{n}", "active": True}) + "\n" for n in range(200)),
    "equal records": '{"status": "ok", "value": null},\n' * 60,
    "a matrix": "[0, 0, 0, 0, 0, 0, 0, 0],\n" * 60,
    "a table": "| Name | Status |\n|---|---|\n" + "".join(f"| item {n} | ok |\n" for n in range(200)),
    "a table of equal rows": "| yes | no | yes |\n" * 100,
    "a list of equal items": "- check the file\n" * 60,
    "a table of equal rows, CR and LF": "| yes | no | yes |\r\n" * 100,
    "a list of equal items, CR and LF": "- check the file\r\n" * 60,
    "code in a fence, CR and LF": "```python\r\n" + "    x += 1\r\n" * 200 + "```\r\n",
    "a list of two items in any order": "".join(random.Random(8).choices(["- It is done.\n", "- It is not.\n"], k=60)),
    "a list with a shared beginning": "".join(f"- projects/mine/locations/here/services/{n}\n" for n in range(200)),
    "headings": "".join(f"## Section\n\n{words(15, n)}.\n\n" for n in range(30)),
    "paths": "".join(f"src/a/very/long/path/that/all/of/them/share/file{n}.py\n" for n in range(200)),
    "nothing, in base64": base64.b64encode(bytes(1500)).decode(),
    "noise, in base64": base64.b64encode(random.Random(3).randbytes(6000)).decode(),
    "zeros, in hex": "00" * 900,
    "a dump": "".join(f"{n:08x}  00 00 00 00 00 00 00 00  |........|\n" for n in range(60)),
    "dividers": "-" * 300 + "\n" + "=" * 300 + "\n",
    "a divider after a long text": words(600) + "\n\n" + "-" * 200,
    "a box": "╭─" * 400,
    "a tree": "".join(f"│   ├── file_{n}.py\n" for n in range(150)),
    "code without a fence": "".join(f"    self.assertEqual(result[{n}], expected[{n}])\n" for n in range(100)),
    "code in a fence": "```python\n" + "    x += 1\n" * 200 + "```\n",
    "words in a fence": "```\n" + SAID * 12 + "\n```",
    "answers": "\n".join(random.Random(5).choices(["Yes", "No"], k=300)),
    "choices": " ".join(random.Random(6).choices("ABCD", k=800)),
    "letters of a gene": "".join(random.Random(7).choices("ACGT", k=5000)),
    "padding": "x" * 2000,
    "a third": "0." + "3" * 1000,
    "tests": "".join(f"test_{word} ... ok\n" for word in words(150).split()),
    "a page": words(3000),
    "an apology": "I am sorry, I am sorry, I am so sorry. ",
    "empty lines": "\n" * 200,
    "sums": "\n".join(f"{a} x {b} = {a * b}" for a in range(1, 13) for b in range(1, 13)),
    "one answer to many questions": "".join(f"Q: {words(6, n)}?\nA: I do not know that one.\n" for n in range(40)),
    "readings": "".join(f"It was {n * 37 % 41} degrees in city {n * 17 % 99} today.\n" for n in range(40)),
}


@pytest.mark.parametrize("size", [3, 50, 100_000])
@pytest.mark.parametrize("name", HONEST)
def test_honest_repetition_passes(name: str, size: int) -> None:
    assert heard(HONEST[name], "content", size) is None
    assert heard(words(40) + ":\n" + HONEST[name], "reasoning", size) is None


@pytest.mark.parametrize("seed", range(5))
def test_of_sentences_in_any_order_the_first_two_are_kept(seed: int) -> None:
    said = random.Random(seed).choices(["I am done.", "I am back again.", "Fine.", "All of it is here."], k=100)
    text = " ".join(said)
    found = heard(text, size=1)
    assert found is not None
    start = found.seen - 640
    whole = [f"{one}." for one in text[start : found.seen].split(". ")[1:-1]]  # the first and the last may be parts
    assert (found.period, found.laps, found.unit) == (0, len(whole), whole[-1])
    assert found.keep == start + len(f"{whole[0]} {whole[1]} ")


def turns(first: str, second: str) -> str:
    """Two in an order that never goes round: not even two of them come three times in a row."""
    return "".join(second if n.bit_count() % 2 else first for n in range(60))


@pytest.mark.parametrize(("length", "is_one"), [(70, True), (79, False)])
def test_eight_of_two_sentences_are_few(length: int, is_one: bool) -> None:
    """Which is a quarter of what is said; within less than 200 tokens there may be seven that are longer."""
    first, second = (f"{one} it goes on".ljust(length - 1, "n") + "." for one in ("And so", "And yet"))
    first, second = (one.replace("nnnnn", " and ") for one in (first, second))
    assert (heard(turns(f"{first} ", f"{second} ")) is not None) is is_one


@pytest.mark.parametrize(("between", "is_one"), [(2, True), (8, False)])
def test_few_sentences_are_two_thirds_of_what_is_said(between: int, is_one: bool) -> None:
    gap = "\n" * between
    assert (heard(turns(f"I am done.{gap}", f"I am back.{gap}")) is not None) is is_one


def test_they_are_so_to_the_character() -> None:
    """Those cut off, at the beginning and the end, are none; what is between them counts."""
    text = "I am done.\n" * 12 + "\n" * 33
    assert few_sentences(text) == ["I am done."] * 11
    assert few_sentences(f"{text}\n") == []


def test_a_third_of_few_sentences_words_may_be_different_ones() -> None:
    said = [f"Step {n} is done. " for n in range(9)]
    assert few_sentences("".join(said)) == [one.rstrip() for one in said[1:]]
    assert few_sentences("".join(["Step 0 was done. ", *said[1:]])) == []


def test_few_long_words_in_any_order_are_none() -> None:
    """Less than some thirty words within so much: they are names, or data."""
    assert few_sentences(turns("Rechtsschutzversicherungsgesellschaften. ", "Kraftfahrzeughaftpflicht. ")[:640]) == []
    assert heard(turns("Rechtsschutzversicherungsgesellschaften. ", "Kraftfahrzeughaftpflicht. ")) is None


@pytest.mark.parametrize(("unended", "is_one"), [(1, True), (2, False)])
def test_sentences_in_any_order_end_as_sentences_do(unended: int, is_one: bool) -> None:
    """Else they may be answers, or steps."""
    said = ["I am done", "It is all here", "Now I am back", "All is fine", "I can go on"]
    said = [one if place < unended else f"{one}." for place, one in enumerate(said)]
    text = "\n".join(one for n in range(40) for one in random.Random(n).sample(said, 5))
    assert (heard(text) is not None) is is_one


def test_a_refrain_between_sentences_that_are_new_is_none() -> None:
    """Though they are made of the same few words."""
    draw = random.Random(5)
    names = ["cats", "dogs", "birds", "trees", "houses", "rivers", "hills", "roads"]
    said = (f"{' and '.join(draw.sample(names, 6)).capitalize()}. And so it goes on and on. " for _ in range(80))
    assert heard("".join(said)) is None


def test_many_words_in_any_order_are_no_chant() -> None:
    """Some thirty different ones within so little are not the same few sentences."""
    draw = random.Random(4)
    said = [f"{words(9, n).capitalize()}." for n in range(6)]
    assert heard(" ".join(draw.choices(said, k=60))) is None


def numbered(numbers: Iterable[int]) -> str:
    return "".join(f"There are {n} of them in the deep blue sea. " for n in numbers)


DRAWN = random.Random(1).choices(range(10, 100), k=400)


@pytest.mark.parametrize(
    ("numbers", "characters"), [(DRAWN, 2400), (range(10, 400), 12_000), (range(400, 10, -1), 12_000)]
)
def test_sentences_that_differ_in_a_number_may_go_on_for_longer(numbers: Iterable[int], characters: int) -> None:
    """Counting is a task, up or down."""
    found = heard(numbered(numbers))
    assert found is not None
    assert characters <= found.seen <= characters + SOON
    assert found.period == 0


@pytest.mark.parametrize(
    ("numbers", "characters"), [([n % 700 + 100 for n in (*DRAWN, *DRAWN)], 2400), (range(100, 600), 12_000)]
)
def test_to_the_character(numbers: Iterable[int], characters: int) -> None:
    """It is looked for when 640 have come, and each time when two more sentences have."""
    found = heard("".join(f"There are {n} of them in that deep sea. " for n in numbers), size=80)
    assert found is not None
    assert found.keep == 2 * 40
    assert found.seen == characters


@pytest.mark.parametrize(
    ("times", "more", "characters"),
    [
        (2, "", 12_000),
        (6, "", 2400),
        (3, " and it goes on and on and", 12_000),
        (4, " and it goes on and on and", 2400),
    ],
)
def test_numbers_run_on_if_more_than_one_in_four_is_new(times: int, more: str, characters: int) -> None:
    """Numbers that hardly change do not count anything."""
    said = (f"in the deep blue sea{more}", f"on the hills of home{more}")
    found = heard("".join(f"There are {n // times} of them {said[n.bit_count() % 2]}. " for n in range(60, 396)))
    assert found is not None
    assert characters <= found.seen <= characters + SOON


def test_and_begin_anew_after_something_else() -> None:
    text = "".join(f"{numbered(DRAWN[20 * n : 20 * n + 20])}{words(300, n)}. " for n in range(6))
    assert heard(text) is None


@pytest.mark.parametrize("before", range(30, 60))
def test_a_code_block_is_seen_wherever_it_begins_and_ends(before: int) -> None:
    """Also where a delta, or what is looked at together, ends between its backticks."""
    text = words(60)[:before] + "\n```\n"
    for size in (1, 7, 100_000):
        assert heard(text + SAID * 12, size=size) is None
        found = heard(f"{text}x = 1\n```\n{SAID * 12}", size=size)
        assert found is not None
        assert found.seen <= len(text) + SOON
        # So many backticks as opened it close it, or more.
        assert heard(f"{words(60)[:before]}\n````\n```\n{SAID * 12}", size=size) is None


def test_nothing_is_exempt_for_ever() -> None:
    """A table of equal rows, a code block of one line, a divider: each has an end."""
    for text in ("| yes | no |\n" * 2000, "- a\n" * 5000, "```\n" + "x += 1\n" * 4000, "-" * 20_000, "\n" * 20_000):
        assert heard(text) is not None


ARGUMENTS = {
    "zeros": '{"content": "' + "0, " * 2000 + '"}',
    "blanks": '{"content": "' + " " * 4000 + 'x"}',
    "rows of a table": '{"content": "' + "| yes | no | yes |\\n" * 300 + '"}',
    "rows of figures": '{"content": "' + "0,0,0,0,1\\n" * 500 + '"}',
    "lines of code": json.dumps({"content": "\n".join(["        x = 1"] * 300)}),
    "a long string": '{"content": "' + "a" * 2500 + '"}',
    "paragraphs": json.dumps({"content": (words(60) + ".\n\n") * 6}),
    "lines of words": json.dumps({"content": "A line of the fixture.\n" * 100}),
    "records": json.dumps({"content": "\n".join(json.dumps({"id": n, "v": "the same for all"}) for n in range(500))}),
    "edits": json.dumps({"edits": [{"path": f"f{n}.py", "old": "import a", "new": "import b"} for n in range(300)]}),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_may_be_files(name: str) -> None:
    assert heard(ARGUMENTS[name], "arguments") is None


@pytest.mark.parametrize(
    ("unit", "within"),
    [("the ", 850), (SAID, 850), ("I am done. ", 850), ("i", 8100), ("lamb-", 3100), ("a", 8100), ("0", 8100),
     ("\\n", 8100), (" ", 8100), ("a/b/", 8100)],
)  # fmt: skip
def test_arguments_without_end_are_heard(unit: str, within: int) -> None:
    found = heard('{"answer": "' + unit * (20_000 // len(unit)), "arguments")
    assert found is not None
    assert found.seen <= within


def test_streams_are_apart() -> None:
    """Each channel and each call is a stream of its own: what comes in turns is no chant."""
    chant = Chant()
    for n in range(100):
        for channel in ("content", "reasoning"):
            assert chant.feed(channel, f"{words(3, n)} ") is None
        for index in range(3):
            assert chant.feed("arguments", "the ", index) is None
    found = None
    while found is None:
        found = chant.feed("arguments", "the ", 2)
    assert (found.channel, found.index) == ("arguments", 2)


def test_four_streams_are_followed_at_once() -> None:
    """With a fifth the first of them begins anew, when it goes on."""
    for others, seen in ((3, 800), (4, 400 + 800)):
        chant = Chant()
        text = '{"the_answer": "' + lap("prose", 40) * 40
        fed = 0
        for at in range(0, 400, 16):
            assert chant.feed("arguments", text[at : at + 16]) is None
            fed += 16
        for index in range(1, others + 1):
            assert chant.feed("arguments", words(30, index), index) is None
        found = None
        while found is None:
            found = chant.feed("arguments", text[fed : fed + 16])
            fed += 16
        assert fed == pytest.approx(seen, abs=64)


@pytest.mark.parametrize(("size", "seen"), [(96, 576), (97, 5 * 97 + 48)])
def test_larger_deltas_are_cut(size: int, seen: int) -> None:
    """So it is heard as soon as in small ones: those of up to 96 characters are looked at as they are."""
    found = heard("#" * 40 + "The is: " + lap("prose", 40) * 40, size=size)
    assert found is not None
    assert found.seen == seen


@pytest.mark.parametrize(("length", "is_one"), [(1024, True), (1026, False)])
def test_a_lap_is_half_of_what_is_kept_at_most(length: int, is_one: bool) -> None:
    assert (heard(lap("prose", length) * 8) is not None) is is_one


@pytest.mark.parametrize(("length", "shown"), [(80, ""), (81, "…")])
def test_what_is_shown_of_a_lap_is_bounded(length: int, shown: str) -> None:
    found = heard(lap("prose", length) * 20)
    assert found is not None
    assert len(found.unit) == 80 + len(shown)
    assert found.unit[80:] == shown
    assert found.unit[:80] in lap("prose", length) * 2


@pytest.mark.parametrize("before", range(26))
def test_lines_of_arguments_are_seen_wherever_a_lap_ends(before: int) -> None:
    """Within the two characters that are a line's end, too."""
    assert heard('{"content": "' + "#" * before + "A line of the fixture.\\n" * 100, "arguments") is None


def test_a_chant_that_stops_in_time_is_none() -> None:
    text = "".join(SAID * 3 + words(30, n) + ". " for n in range(20))
    assert heard(text) is None


def test_what_is_kept_ends_with_the_second_lap() -> None:
    before = "Let me see what is in the file that you have named. "
    found = heard(before + SAID * 10)
    assert found is not None
    assert found.period == len(SAID)
    assert abs(found.keep - len(before) - 2 * len(SAID)) <= len(SAID)


@given(st.integers(0, 300), st.integers(30, 500), st.integers(1, 60))
def test_it_ends_there_to_the_character_wherever_it_began(before: int, period: int, size: int) -> None:
    text = f"{words(60, before)[:before]}#"
    found = heard(text + lap("prose", period) * 20, size=size)
    assert found is not None
    assert found.period == period
    assert found.keep == len(text) + 2 * period
    assert found.laps == (found.seen - len(text)) // period


@given(st.lists(st.text(max_size=300), max_size=40), st.sampled_from(["content", "reasoning", "arguments"]))
def test_whatever_comes_in_it_never_raises(parts: list[str], channel: Any) -> None:
    chant = Chant()
    for part in parts:
        chant.feed(channel, part)


@given(
    st.text(st.characters(categories=["Ll"], max_codepoint=0x7F), min_size=1, max_size=60).filter(str.strip),
    st.integers(1, 200),
)
def test_any_few_words_again_and_again_are_heard(unit: str, size: int) -> None:
    found = heard((unit + " ") * (3000 // (len(unit) + 1)), "content", size)
    assert found is not None
    assert found.seen <= SOON + size


@pytest.mark.parametrize("text", ["`" * 200_000, "a" * 200_000, "```" * 60_000, words(30_000), "é😂" * 100_000])
def test_it_keeps_little(text: str) -> None:
    chant = Chant()
    for index in range(50):
        chant.feed("arguments", "{}" * 100, index)
    tracemalloc.start()
    try:
        for at in range(0, len(text), 40):
            chant.feed("content", text[at : at + 40])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 24_000  # two windows of 2,048 characters, four bytes each at most


def recorded(folder: Path) -> Iterator[dict[str, Any]]:
    for name in ("tau", "polybench_iswe", "polybench_codex"):
        with gzip.open(folder / "corpora" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for run in map(json.loads, lines):
                yield from run["steps"]


def test_what_models_said_in_recorded_runs_is_no_chant(shared_data: Path) -> None:
    steps = 0
    for step in recorded(shared_data):
        steps += 1
        assert heard(step.get("text") or "", size=200) is None
        assert heard(json.dumps(step["args"]), "arguments", 200) is None
    assert steps > 13_000


def test_a_runaway_of_a_small_model_is_heard(shared_data: Path) -> None:
    with gzip.open(shared_data / "corpora" / "smollm2_requests.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    said = [
        (row["tag"], row["response"]["choices"][0]["message"].get("content") or "")
        for row in rows
        if "choices" in (row.get("response") or {})
    ]
    assert len(said) > 280
    heard_in = {tag: found for tag, text in said if (found := heard(text)) is not None}
    assert list(heard_in) == ["runaway-no-max-tokens"]  # the others were cut at about 100 tokens
    assert heard_in["runaway-no-max-tokens"].seen <= SOON


# -- replies in a row -------------------------------------------------------------------------------------------------


def test_cut_replies_in_a_row_count_and_any_other_ends_them() -> None:
    chants = Chants(Thresholds(), frozenset())
    replied = chants.folds[ModelReplied]
    counts: list[list[tuple[int, int]]] = []
    assert not chants.round(Any, Any)  # type: ignore[arg-type]  # whatever the calls were
    for n, finish in enumerate([FINISH, FINISH, "stop", FINISH, FINISH, FINISH], 1):
        event = ModelReplied(n=n, run="r", at=0.0, t=0.0, text="x", finish=finish, stored=finish != FINISH)
        counts.append([(finding.count, finding.onset) for finding in replied(event)])
    assert counts == [[(1, 1)], [(2, 1)], [], [(1, 4)], [(2, 4)], [(3, 4)]]
