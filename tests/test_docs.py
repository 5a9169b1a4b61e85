"""README.md and docs/ say what is so: their examples run, their commands parse, their names and links are there."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import io
import os
import re
import shlex
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest

import watchkeeper
from cli.serving import served
from watchkeeper import Agent, Supervisor, messages, tool
from watchkeeper.cli import app as cli
from watchkeeper.cli.app import application
from watchkeeper.cli.exits import MEANINGS
from watchkeeper.cli.policy import policy_of
from watchkeeper.configuration import load
from watchkeeper.plugins import ANSWER_GUARDS, CALL_GUARDS
from watchkeeper.testing import BACKENDS, CallTools, Say, ScriptedModel, call, say

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
TITLE = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


class Example(NamedTuple):
    page: str
    line: int
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def examples(language: str) -> list[Example]:
    """The fenced examples of a language, in order."""
    return [
        Example(str(page.relative_to(ROOT)), text[: found.start()].count("\n") + 2, found[2])
        for page in PAGES
        for text in (page.read_text(encoding="utf-8"),)
        for found in FENCE.finditer(text)
        if found[1] == language
    ]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def spans() -> Iterator[tuple[str, str]]:
    """Each page and each piece of code within a sentence of it."""
    for page in PAGES:
        for found in CODE.finditer(prose(page)):
            yield str(page.relative_to(ROOT)), " ".join(found[1].split())


def compiled(example: Example) -> CodeType:
    text = "\n" * (example.line - 1) + example.text
    return compile(text, example.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def is_program(example: Example) -> bool:
    return "anyio.run(" in example.text


COMMANDS = tuple((name,) for name, *_ in cli.COMMANDS) + tuple(
    (group, name) for group, _, _, commands in cli.GROUPS for name, *_ in commands
)


# What a page leaves to its reader: the names that its examples take for granted.


@tool(effect="reads")
async def look(at: str) -> str:
    """Look at something."""
    return f"{at} is there"


async def asks_a_small_model(course: Any) -> bool:
    return False


@contextlib.asynccontextmanager
async def taken_for_granted() -> AsyncIterator[dict[str, Any]]:
    def replies() -> Iterator[Any]:
        yield call(("look", {"at": "it"}))
        yield say("It is there.")

    model = ScriptedModel(replies())
    agent = Agent(model, [look])
    async with Supervisor() as supervisor:
        run = await supervisor.start(agent, "Look at it.")
        yield {name: getattr(watchkeeper, name) for name in watchkeeper.__all__} | {
            "agent": agent,
            "anyio": anyio,
            "asks_a_small_model": asks_a_small_model,
            "model": ScriptedModel(replies()),
            "msgspec": msgspec,
            "my_words": str.split,
            "os": os,
            "pytest": pytest,
            "run": run,
            "supervisor": supervisor,
            "tools": [look],
        }


FRAGMENTS = [example for example in examples("python") if not is_program(example)]
PROGRAMS = [example for example in examples("python") if is_program(example)]


@pytest.mark.anyio
@pytest.mark.virtual_time
@pytest.mark.parametrize("page", sorted({example.page for example in FRAGMENTS}))
async def test_the_fragments_of_a_page_run_one_after_the_other(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    async with taken_for_granted() as names:
        for example in FRAGMENTS:
            if example.page == page:
                await run_in(names, example)


async def run_in(names: dict[str, Any], example: Example) -> None:
    code = compiled(example)
    names.setdefault("__name__", "example")
    found = eval(code, names)
    if code.co_flags & inspect.CO_COROUTINE:
        await found


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("example", PROGRAMS, ids=lambda example: example.place)
def test_programs_run(
    example: Example, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def reply(body: dict[str, Any], n: int) -> Say | CallTools:
        offered = [one["function"]["name"] for one in body.get("tools", ())]
        if "weather" in offered and not any(message["role"] == "tool" for message in body["messages"]):
            return CallTools(("weather", {"city": "Oslo"}))
        return Say("A coat.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("one task\nanother\n"))
    monkeypatch.setattr("anyio.run", functools.partial(anyio.run, backend=name))
    with served(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_MODEL", "any")
        exec(compiled(example), {"__name__": "example"})
    assert server.requests, "no model was asked"
    assert not [one.rejected for one in server.requests if one.rejected]
    if "print(" in example.text:
        assert "completed" in capsys.readouterr().out


def tables() -> list[Example]:
    return [one for one in examples("toml") if "[project" not in one.text]


@pytest.mark.parametrize("example", [one for one in tables() if "# config.toml" not in one.text], ids=str)
def test_policies_are_taken(example: Example) -> None:
    assert policy_of(tomllib.loads(example.text))


@pytest.mark.parametrize("example", [one for one in tables() if "# config.toml" in one.text], ids=str)
def test_configurations_are_taken(example: Example) -> None:
    assert load((), {}, tomllib.loads(example.text)).origins


def commands() -> list[tuple[str, str]]:
    """Every call of the program, in an example or a sentence, without its remark."""
    found = [(one.place, line) for one in examples("sh") for line in one.text.replace("\\\n", "").splitlines()]
    found += [place for place in spans() if "=" not in place[1].partition(" ")[0]]
    return [(place, line.strip()) for place, line in found if line.strip().startswith("watchkeeper ")]


@pytest.mark.parametrize(("place", "line"), commands())
def test_commands_parse(place: str, line: str) -> None:
    words = [word for word in shlex.split(line, comments=True)[1:] if word != "…"]
    assert words[0] in application(), f"{place}: there is no command {words[0]}"
    names = next((names for names in COMMANDS if names == tuple(words[: len(names)])), (words[0],))
    assert names in COMMANDS or words == [*names], f"{place}: {words[0]} has no command {words[1]}"
    known = {flag for one in arguments_of(names) for flag in one.names} if names in COMMANDS else set()
    wrong = [word for word in words if word.startswith("--") and word not in known]
    assert not wrong, f"{place}: {' '.join(names)} has no {', '.join(wrong)}"


def arguments_of(names: tuple[str, ...]) -> Any:
    app = application()
    for name in names:
        app = app[name]
    return app.assemble_argument_collection()


def options() -> set[str]:
    return {flag for names in COMMANDS for one in arguments_of(names) for flag in one.names}


ELSEWHERE = {"--real", "--group", "--help", "--data", "--n", "--seed", "--holdout", "--misses", "--rounds", "--json"}
"""Options of other programs that the pages name: the scripts', the benchmarks', pip's."""


def test_options_that_are_named_are_there() -> None:
    known = options() | ELSEWHERE | {"--cassettes"}
    wrong = [
        f"{page}: {flag}"
        for page, code in spans()
        if "/" not in code and not code.startswith(("pip", "python", "sh "))
        for flag in re.findall(r"(?<!\S)--[a-z][a-z-]+", code)
        if flag not in known
    ]
    assert not wrong


def test_every_option_says_what_it_is_for() -> None:
    silent = [
        f"{' '.join(names)} {one.name}"
        for names in COMMANDS
        for one in arguments_of(names)
        if one.show and one.name.startswith("--") and not one.parameter.help
    ]
    assert not silent


def homes() -> dict[str, Any]:
    from watchkeeper.wording import Wording

    public = {name: getattr(watchkeeper, name) for name in watchkeeper.__all__}
    facts = {name: one for name, one in vars(messages).items() if inspect.isclass(one)}
    return facts | {"Wording": Wording} | public


def test_attributes_that_are_named_are_there() -> None:
    known = homes()
    wrong = []
    for page, code in spans():
        for owner, name in re.findall(r"(?<![\w.])([A-Z]\w+)\.([a-z_]\w*)", code):
            one = known.get(owner)
            if one is None:
                continue
            fields = {field for kind in inspect.getmro(one) for field in getattr(kind, "__annotations__", ())}
            made = inspect.getsource(one) if inspect.isclass(one) else ""
            if not hasattr(one, name) and name not in fields and f"self.{name}" not in made:
                wrong.append(f"{page}: {owner}.{name}")
    assert not wrong


def test_every_public_name_is_said_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES if page.name != "CHANGELOG.md")
    assert [name for name in watchkeeper.__all__ if not re.search(rf"\b{name}\b", text)] == ["__version__"]


def test_guards_that_may_observe_are_all_named() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    said = readme.partition("that let pass and only note")[2].partition("third parties")[0]
    named = set(re.findall(r"`([a-z_]+)`", said)) - {"would_refuse"}
    assert named == CALL_GUARDS | ANSWER_GUARDS


def anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_the_exit_codes_are_those_of_the_program() -> None:
    said = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8").partition("## Exit codes")[2]
    assert dict(re.findall(r"^\| (\d+) \| (.+) \|$", said, re.MULTILINE)) == {
        str(code): meaning for code, meaning in MEANINGS.items()
    }


def test_links_lead_somewhere() -> None:
    wrong = []
    for page in PAGES:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if target.startswith(("http://", "https://")):
                continue
            name, _, place = target.partition("#")
            there = (page.parent / name).resolve() if name else page
            titles = TITLE.findall(prose(there)) if place and there.is_file() else []
            if not there.exists() or (place and place not in map(anchor, titles)):
                wrong.append(f"{page.relative_to(ROOT)}: {target}")
    assert not wrong


def test_every_page_is_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [page.name for page in PAGES if page.parent.name == "docs" and f"(docs/{page.name})" not in readme]
