"""Which rules hold for each configured agent, as the control process tells them, beside what workers make of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from watchkeeper.configuration import Configuration, load
from watchkeeper.configuration.agents import agents_of
from watchkeeper.service.rulebook import AgentRules, rulebook, settings_of

SECRET = "sk-proj-" + "a1B2" * 12
STRICT = """
base = "production"
mode = "nudge"
deny = ["run_command"]
observe = ["rate"]

[[rules]]
decision = "ask"
tool = "write_file"
unless = { path = "notes/*" }
why = "only notes may be written"

[rates.search]
interval = 2

[thresholds]
equal = [4, 6, "off"]
"""
AGENTS = f"""
[limits]
max_turns = 40

[agents.plain]
model = "m"

[agents.named]
model = "m"
profile = "safe-loop"
base_url = "http://me:{SECRET}@127.0.0.1/v1"
instructions = "The password is {SECRET}"
limits = {{ tokens = 5_000, money = 0.5 }}

[agents.strict]
model = "m"
policy = "strict.toml"
tools = ["files"]
require = ["read_file"]
"""


def configured(folder: Path, text: str, strict: str = STRICT) -> Configuration:
    (folder / "strict.toml").write_text(strict)
    path = folder / "config.toml"
    path.write_text(text)
    return load([path], {})


def rules_of(configuration: Configuration) -> dict[str, AgentRules]:
    return {one.agent: one for one in rulebook(configuration, {"API_KEY": SECRET})}


@pytest.mark.parametrize("common", ["", '[policy]\nbase = "demo"\ninterval = 3\n', '[policy]\nfile = "strict.toml"\n'])
def test_they_are_those_that_workers_hold_their_agents_to(tmp_path: Path, common: str) -> None:
    configuration = configured(tmp_path, AGENTS + common)
    told = rules_of(configuration)
    agents = agents_of(configuration, {"OPENAI_API_KEY": "sk-none"})
    assert told.keys() == agents.keys()
    for name, agent in agents.items():
        assert told[name].settings == settings_of(msgspec.structs.replace(agent.profile, limits=agent.limits)), name
        assert not told[name].problem


def test_it_is_said_where_they_come_from(tmp_path: Path) -> None:
    told = rules_of(configured(tmp_path, AGENTS))
    assert [(one.source, one.profile) for one in told.values()] == [
        ("profile", "safe-loop"),
        ("policy", "default"),
        ("file", "production"),
    ]
    strict = told["strict"]
    assert (strict.tools, strict.require) == (("files",), ("read_file",))
    assert strict.settings["limits"]["max_turns"] == 40
    assert strict.settings["thresholds"]["equal"] == {"nudge": 4, "block": 6, "stop": None}
    (rule,) = strict.settings["rules"]
    assert (rule["decision"], rule["unless"]) == ("ask", ({"path": "notes/*"},))


def test_nothing_secret_is_told(tmp_path: Path) -> None:
    strict = STRICT.replace("only notes may be written", f"say {SECRET}").replace("notes/*", f"*{SECRET}*")
    told = msgspec.json.encode(rulebook(configured(tmp_path, AGENTS, strict), {"API_KEY": SECRET}))
    assert b"may be written" not in told
    assert SECRET.encode() not in told
    assert b"password" not in told
    assert b"127.0.0.1" not in told


def test_a_detector_of_a_third_party_is_told_as_it_is_set_without_loading_it(tmp_path: Path) -> None:
    told = rules_of(configured(tmp_path, AGENTS + "[policy.thresholds]\ntheirs = [2, 4, 6]\n"))["plain"]
    assert (told.detectors, told.problem) == ({"theirs": [2, 4, 6]}, "")


@pytest.mark.parametrize("strict", ["", "mode = 7", "x = [", 'base = "nobody"', "\x00"])
def test_what_cannot_be_read_is_a_problem_of_that_agent_alone(tmp_path: Path, strict: str) -> None:
    configuration = configured(tmp_path, AGENTS, strict)
    if not strict:
        (tmp_path / "strict.toml").unlink()
    told = rules_of(configuration)
    assert told["strict"].settings == {}
    assert "watchkeeper config check" in told["strict"].problem
    assert not told["plain"].problem
