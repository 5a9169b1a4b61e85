"""Agents of a configuration: made of what it says, or refused with the place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from watchkeeper import Agent, ConfigurationError, OpenAIModel, Price, Steps, TextTools
from watchkeeper.configuration import Configuration, ConfigurationProblems, load
from watchkeeper.configuration import agents as made
from watchkeeper.configuration.agents import agent_of, agents_of, detectors_of, prices_of

KEY = {"OPENAI_API_KEY": "sk-none"}


def configuration(folder: Path, text: str) -> Configuration:
    (folder / "config.toml").write_text(text)
    return load([folder / "config.toml"])


def agents(folder: Path, text: str, environ: Mapping[str, str] = KEY) -> dict[str, Agent]:
    return agents_of(configuration(folder, text), environ)


def test_an_agent_is_as_it_is_described(tmp_path: Path) -> None:
    found = agents(
        tmp_path,
        """
        [limits]
        max_turns = 7
        tokens = 100
        [agents.writer]
        model = "m"
        base_url = "http://127.0.0.1:1/v1"
        api_key_env = "MY_KEY"
        context_window = 8192
        first_chunk_timeout = 200
        instructions = "Be brief."
        tools = ["files"]
        require = ["read_file"]
        limits = { tokens = 200 }
        profile = "demo"
        """,
        {"MY_KEY": "secret-key"},
    )["writer"]
    assert found.name == "writer"
    assert isinstance(found.model, OpenAIModel)
    assert (found.model.name, found.model.base_url) == ("m", "http://127.0.0.1:1/v1")
    assert found.model.secrets == ("secret-key",)
    assert (found.model.timeouts.first_chunk, found.model.timeouts.total) == (200.0, 600.0)
    assert found.instructions == "Be brief."
    assert "read_file" in found.tools
    assert found.profile.name == "demo"
    assert (found.limits.max_turns, found.limits.tokens) == (7, 200)
    assert found.limits.finish_turns == 0  # the profile's


def test_the_model_may_be_that_of_the_environment(tmp_path: Path) -> None:
    environ = {"OPENAI_MODEL": "theirs", "OPENAI_BASE_URL": "http://127.0.0.1:2/v1"}
    model = agents(tmp_path, "[agents.a]\ntext_tools = true", environ)["a"].model
    assert isinstance(model, TextTools)
    assert model.name == "theirs"


def test_how_its_server_counts_may_be_said(tmp_path: Path) -> None:
    found = agents(tmp_path, '[agents.a]\nmodel = "m"\ncached_tokens = "beside"\n[agents.b]\nmodel = "m"\n')
    models = [found[name].model for name in "ab"]
    assert [model.cached_tokens for model in models if isinstance(model, OpenAIModel)] == ["beside", "within"]
    with pytest.raises(ConfigurationError, match="'within' or 'beside'"):
        OpenAIModel("m", base_url="http://127.0.0.1:2/v1", cached_tokens="both")  # type: ignore[arg-type]  # a mistake


def test_the_policy_is_for_agents_that_name_none(tmp_path: Path) -> None:
    (tmp_path / "strict.toml").write_text('mode = "nudge"\n')
    found = agents(
        tmp_path,
        '[policy]\nmode = "observe"\n[agents.a]\nmodel = "m"\n[agents.b]\nmodel = "m"\npolicy = "strict.toml"\n'
        '[agents.c]\nmodel = "m"\nprofile = "demo"\n',
    )
    assert {name: agent.profile.mode for name, agent in found.items()} == {"a": "observe", "b": "nudge", "c": "enforce"}
    (tmp_path / "common.toml").write_text('mode = "nudge"\nlimits = { max_turns = 3 }\n')
    found = agents(tmp_path, '[policy]\nfile = "common.toml"\n[limits]\nmax_calls = 5\n[agents.a]\nmodel = "m"\n')
    assert found["a"].profile.mode == "nudge"
    assert (found["a"].limits.max_turns, found["a"].limits.max_calls) == (3, 5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[agents.a]\nplan = true", "2: agents.a.model: no model: give its name, or set OPENAI_MODEL"),
        ("[agents.a]\nmodel = 'm'\nprofile = 'no'", "3: agents.a.profile: there is no profile 'no'"),
        ("[agents.a]\nmodel = 'm'\ntools = ['fils']", "3: agents.a.tools: there is no tool set 'fils'"),
        ("[agents.a]\nmodel = 'm'\ntools = ['files']\nroot = 'gone'", "4: agents.a.root: "),
        ("[agents.a]\nmodel = 'm'\nrequire = ['x']", "2: agents.a: agent 'a': the required tool 'x'"),
        ("[agents.a]\nmodel = 'm'\npolicy = 'gone.toml'", "3: agents.a.policy: "),
        (
            "[agents.a]\nmodel = 'm'\napi_key_env = 'NOT_SET'",
            "3: agents.a.api_key_env: the variable NOT_SET is not set",
        ),
        ("[agents.a]\nmodel = 'm'\nbase_url = 'nonsense'", "3: agents.a.base_url: "),
        ("[policy]\nmode = 'loud'\n[agents.a]\nmodel = 'm'", "2: policy.mode: mode must be one of"),
        ("[policy]\nfile = 'gone.toml'\n[agents.a]\nmodel = 'm'", "2: policy.file: "),
        (
            "[agents.a]\nmodel = 'm'\nprice = { input = 1, output = 1 }\n"
            "[agents.b]\nmodel = 'm'\nprice = { input = 1, output = 2 }",
            "6: agents.b.price: another agent states another price of the model 'm'",
        ),
    ],
)
def test_what_cannot_work_is_named_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationProblems) as caught:
        agents(tmp_path, text)
    (said,) = caught.value.problems
    assert said.startswith(f"{tmp_path / 'config.toml'}:{told}")


def test_what_is_wrong_with_several_agents_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationProblems) as caught:
        agents(tmp_path, "[agents.a]\nmodel = 'm'\nprofile = 'x'\n[agents.b]\nmodel = 'm'\ntools = ['x']\n")
    assert len(caught.value.problems) == 2


def test_without_a_key_of_its_own_a_server_is_not_sent_another_ones(tmp_path: Path) -> None:
    text = "[agents.a]\nmodel = 'm'\nbase_url = 'http://127.0.0.1:1/v1'\napi_key_env = 'THEIR_KEY'"
    with pytest.raises(ConfigurationProblems, match="THEIR_KEY is not set"):
        agents(tmp_path, text, KEY)


def test_an_agent_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationProblems, match="there is no agent 'b' in the configuration; its agents are a"):
        agent_of(configuration(tmp_path, "[agents.a]\n"), "b", KEY)


def test_prices_are_those_that_agents_state(tmp_path: Path) -> None:
    text = "[agents.a]\nmodel = 'm'\nprice = { input = 1, output = 2 }\n[agents.b]\nmodel = 'n'\n"
    assert prices_of(configuration(tmp_path, text)) == {"m": Price(input=1, output=2)}


def test_steps_of_installed_detectors_hold_for_all_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Theirs:
        name = "theirs"
        steps = Steps(1, 2, 3)

        def __init__(self, *given: object) -> None:
            pass

    monkeypatch.setattr(made, "load_detectors", lambda: [Theirs])
    said = "[policy.thresholds]\ntheirs = [4, 5, 6]\n[agents.a]\nmodel = 'm'\n"
    (found,) = detectors_of(configuration(tmp_path, said))
    assert found(None, frozenset()).steps == Steps(4, 5, 6)  # type: ignore[arg-type,attr-defined]  # no thresholds needed
    (tmp_path / "own.toml").write_text("[thresholds]\ntheirs = [4, 5, 6]\n")
    with pytest.raises(ConfigurationProblems, match="hold for all agents; say them in"):
        agents(tmp_path, "[agents.a]\nmodel = 'm'\npolicy = 'own.toml'\n")
