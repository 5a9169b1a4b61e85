"""What third parties bring: loaded by entry point, and errors that name both sides of a clash."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from watchkeeper import ConfigurationError, Tool, load_tools, plugins, tool
from watchkeeper.plugins import by_name, load_detectors, load_guards


@tool
def look(what: str) -> str:
    """Look."""
    return what


@tool(name="look")
def other_look(what: str) -> str:
    """Look elsewhere."""
    return what


Register = Callable[..., None]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Pretend that packages with such entry points are installed: ``register(group, name=thing)``."""
    found: dict[str, list[EntryPoint]] = {}
    module = types.ModuleType("third_party")
    monkeypatch.setitem(sys.modules, "third_party", module)
    monkeypatch.setattr(plugins, "entry_points", lambda group: found.get(group, []))

    def add(group: str, **things: Any) -> None:
        for name, thing in things.items():
            setattr(module, name, thing)
            found.setdefault(group, []).append(EntryPoint(name, f"third_party:{name}", group))

    return add


# -- tools ----------------------------------------------------------------------------------------------------------


def test_the_ready_made_tools_are_registered_like_a_third_partys(tmp_path: Any) -> None:
    tools = load_tools("files", "clock", "calc", root=tmp_path)
    assert all(isinstance(one, Tool) for one in tools)
    assert {"read_file", "now", "calculate"} <= {one.name for one in tools}
    assert load_tools() == []


def test_a_set_is_a_list_or_what_makes_one(register: Register) -> None:
    made: list[Any] = []

    def make(**options: Any) -> list[Tool]:
        made.append(options)
        return [look]

    register("watchkeeper.tools", a=make)
    assert load_tools("a", root="/x", more=1) == [look]
    assert made == [{"root": "/x", "more": 1}]


def test_or_a_single_tool(register: Register) -> None:
    register("watchkeeper.tools", a=[look], b=tool(name="b")(lambda: ""), c=lambda **_: tool(name="c")(lambda: ""))
    assert [one.name for one in load_tools("a", "b", "c")] == ["look", "b", "c"]


def test_a_set_that_is_not_there(register: Register) -> None:
    register("watchkeeper.tools", zebra=[look], ape=[look])
    with pytest.raises(ConfigurationError, match="there is no tool set 'lion'; installed are ape, zebra"):
        load_tools("lion")


def test_two_tools_of_one_name(register: Register) -> None:
    register("watchkeeper.tools", a=[look], b=[other_look])
    with pytest.raises(ConfigurationError, match="two tools are named 'look': one of the set 'a', one of 'b'"):
        load_tools("a", "b")
    assert load_tools("b") == [other_look]


def test_what_is_no_tool(register: Register) -> None:
    register("watchkeeper.tools", a=["look"])
    with pytest.raises(ConfigurationError, match=r"the tool set 'a' \(third_party:a\) holds 'look', which is no tool"):
        load_tools("a")


def test_what_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("a", "no_such_module_anywhere:tools", "watchkeeper.tools")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    message = "watchkeeper.tools: a .no_such_module_anywhere:tools, from unknown origin. cannot be loaded: Module"
    with pytest.raises(ConfigurationError, match=message):
        load_tools("a")


# -- detectors and guards -------------------------------------------------------------------------------------------


def factory(*arguments: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("load", "group"), [(load_detectors, "watchkeeper.detectors"), (load_guards, "watchkeeper.guards")]
)
def test_factories_are_loaded(load: Callable[[], list[Any]], group: str, register: Register) -> None:
    assert load() == []
    register(group, mine=factory)
    assert load() == [factory]


@pytest.mark.parametrize(
    ("load", "group", "name"),
    [
        *((load_detectors, "watchkeeper.detectors", name) for name in ("equal", "breaker", "silence", "arguments")),
        *(
            (load_guards, "watchkeeper.guards", name)
            for name in ("block", "equal", "policy", "rate", "duplicate", "checks")
        ),
    ],
)
def test_our_own_names_are_taken(load: Callable[[], Any], group: str, name: str, register: Register) -> None:
    """A third party's ``block`` would be believed to repeat what is known, its ``breaker`` would stop at once."""
    register(group, **{name: factory})
    with pytest.raises(ConfigurationError, match=f"{group}: {name} .* has the name of one of watchkeeper's own"):
        load()


@pytest.mark.parametrize(
    ("load", "group", "name"),
    [
        *((load_detectors, "watchkeeper.detectors", name) for name in ("equal", "breaker", "handover", "volume")),
        (load_guards, "watchkeeper.guards", "block"),
    ],
)
def test_nobody_calls_itself_by_a_name_of_ours(
    load: Callable[[], Any], group: str, name: str, register: Register
) -> None:
    """Under whatever name it is registered: findings and refusals go by its own."""
    register(group, mine=type("Mine", (), {"name": name}))
    with pytest.raises(ConfigurationError, match=f"{group}: mine .* calls itself '{name}', which is the name of one"):
        load()


THIRD_PARTY = """
from watchkeeper.messages import Finding
from watchkeeper.thresholds import Steps


class Tireless:
    name = "tireless"
    steps = Steps(nudge=2, stop=4)

    def __init__(self, thresholds, polls):
        self.rounds = 0

    def round(self, round, ring):
        self.rounds += 1
        return [Finding(detector=self.name, pattern="it never rests", count=self.rounds, onset=1)]
"""

PERFORM = """
import anyio, json
from watchkeeper import Agent, Supervisor, tool
from watchkeeper.messages import Nudged
from watchkeeper.testing import ScriptedModel, call


@tool(effect="reads")
async def look(n: int) -> str:
    return "a" * (n * n)


async def main():
    async with Supervisor(monitor=False) as supervisor:
        model = ScriptedModel(lambda request, n: call(("look", {"n": n})))
        run = await supervisor.start(Agent(model, [look]), "task")
        events = [event async for event in run.events()]
        outcome = await run.wait()
    print(json.dumps({
        "reason": outcome.reason,
        "detector": outcome.verdict and outcome.verdict.finding.detector,
        "turns": outcome.turns,
        "nudges": [event.by for event in events if isinstance(event, Nudged)],
    }))


anyio.run(main)
"""


def test_a_detector_of_an_installed_distribution_stops_a_run(tmp_path: Path) -> None:
    """As pip leaves it on the path: a module and its metadata. Its steps are its own, and nothing was registered."""
    (tmp_path / "third_party.py").write_text(THIRD_PARTY)
    metadata = tmp_path / "third_party-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[watchkeeper.detectors]\ntireless = third_party:Tireless\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PERFORM}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"reason": "loop", "detector": "tireless", "turns": 4, "nudges": ["tireless"]}


def test_two_entry_points_of_one_name_are_both_named() -> None:
    points = [EntryPoint("a", value, "watchkeeper.guards") for value in ("one:make", "two:make")]
    message = r"two entry points of watchkeeper.guards are named 'a': one:make .* and two:make .*; uninstall one"
    with pytest.raises(ConfigurationError, match=message):
        by_name("watchkeeper.guards", points)


def test_one_that_is_found_twice_is_one() -> None:
    """As an editable install beside a wheel shows it."""
    point = EntryPoint("a", "one:make", "watchkeeper.guards")
    assert by_name("watchkeeper.guards", [point, point]) == {"a": point}
