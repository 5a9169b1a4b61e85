"""Files, environment and command line: who has the last word, and what is said to what cannot be taken."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watchkeeper
from watchkeeper.configuration import Configuration, ConfigurationProblems, files_of, load
from watchkeeper.configuration.schema import AgentSettings, LogSettings, OtelSettings, Retention, ServiceSettings
from watchkeeper.configuration.sources import OTHERS, known_kinds, variables
from watchkeeper.profiles import Limits, shared_amounts


def write(folder: Path, text: str, name: str = "config.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems(
    path: Path | None = None, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    with pytest.raises(ConfigurationProblems) as caught:
        load([path] if path is not None else [], environ, overrides)
    return caught.value.problems


def test_without_anything_all_is_at_its_default() -> None:
    assert load() == Configuration()
    assert Configuration().service == ServiceSettings()


def test_everything_can_be_said_in_a_file(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [service]
        state = "here"
        bind = ["unix:", "127.0.0.1:8700"]
        hosts = ["watch.example.com"]
        workers = 4
        backend = "trio"
        max_runs = 10
        grace = 2
        drain = 60.5
        [service.retention]
        days = "off"
        megabytes = 5
        [limits]
        max_turns = 7
        money = 0.5
        calls_per_tool = { search = 5 }
        [agents.writer]
        model = "m"
        base_url = "http://127.0.0.1:1/v1"
        api_key_env = "MY_KEY"
        text_tools = true
        cached_tokens = "beside"
        context_window = 8192
        first_chunk_timeout = 200
        price = { input = 1, output = 2.5 }
        instructions = "Be brief."
        tools = ["files"]
        root = "notes"
        allow_hosts = ["example.com"]
        allow_private = true
        require = ["read_file"]
        plan = true
        policy = "strict.toml"
        limits = { tokens = 1000, seconds = "off" }
        [policy]
        base = "production"
        [log]
        format = "json"
        level = "debug"
        file = "~/lines.log"
        [otel]
        enabled = true
        content = true
        """,
    )
    found = load([path])
    said = {name for name in msgspec.structs.asdict(ServiceSettings())} - {"retention"}
    assert {f"service.{name}" for name in said} <= found.origins.keys()
    assert found.service.retention == Retention(days=None, megabytes=5.0)
    assert found.limits == {"max_turns": 7, "money": 0.5, "calls_per_tool": {"search": 5}}
    writer = found.agents["writer"]
    assert {
        name for name in AgentSettings.__struct_fields__ if getattr(writer, name) == getattr(AgentSettings(), name)
    } == {"profile"}
    assert writer.limits == {"tokens": 1000, "seconds": None}
    assert found.policy == {"base": "production"}
    assert found.otel == OtelSettings(enabled=True, content=True)
    assert (found.log.format, found.log.level) == ("json", "debug")


def test_paths_of_a_file_are_relative_to_its_folder(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[service]\nstate = "s"\n[log]\nfile = "~/l"\n[policy]\nfile = "p.toml"\n'
        '[agents.a]\nroot = "r"\npolicy = "/etc/q.toml"\n[agents.b]\nmodel = "m"\n',
    )
    found = load([path])
    assert found.service.state == str(tmp_path / "s")
    assert found.log.file == str(Path("~/l").expanduser())
    assert found.policy == {"file": str(tmp_path / "p.toml")}
    assert found.agents["a"].root == str(tmp_path / "r")
    assert found.agents["a"].policy == "/etc/q.toml"
    assert found.agents["b"].root == str(tmp_path)


def test_the_last_word_counts_and_origins_say_whose_it_was(tmp_path: Path) -> None:
    first = write(tmp_path, '[service]\nworkers = 2\ngrace = 3\n[agents.a]\nmodel = "one"\nplan = true\n', "1.toml")
    second = write(tmp_path, '[service]\nworkers = 3\n[agents.a]\nmodel = "two"\n', "2.toml")
    environ = {"WATCHKEEPER_SERVICE_WORKERS": "4", "WATCHKEEPER_AGENTS_A_LIMITS_MAX_TURNS": "9", "HOME": "/nowhere"}
    found = load([first, second], environ, {"service.workers": 5, "service.backend": None})
    assert (found.service.workers, found.service.grace, found.service.backend) == (5, 3.0, "asyncio")
    assert (found.agents["a"].model, found.agents["a"].plan, found.agents["a"].limits) == (
        "two",
        True,
        {"max_turns": 9},
    )
    assert found.origins == {
        "service.workers": "the command line",
        "service.grace": f"{first}:3",
        "agents.a.model": f"{second}:4",
        "agents.a.plan": f"{first}:6",
        "agents.a.limits.max_turns": "WATCHKEEPER_AGENTS_A_LIMITS_MAX_TURNS",
    }
    assert load([first, second], environ).service.workers == 4
    assert load([first, second]).service.workers == 3
    assert load([first]).service.workers == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[service]\nwokers = 2", "2: service.wokers is unknown (did you mean workers?); allowed here: state, bind,"),
        ("[sevice]\nworkers = 2", "1: sevice is unknown (did you mean service?); sections are service, limits,"),
        ("service = 3", "1: service must be a table ([service]), not 3"),
        ("[service]\n\nworkers = 0", "3: service.workers must be more than 0, not 0"),
        ("[service]\nworkers = 1.5", "2: service.workers must be a whole number, not 1.5"),
        ("[service]\nworkers = true", "2: service.workers must be a whole number, not True"),
        ("[service]\ngrace = -1", "2: service.grace must be at least 0, not -1"),
        ("[service]\ngrace = nan", "2: service.grace must be at least 0, not nan"),
        ("[service]\nbackend = 'uvloop'", '2: service.backend must be one of "asyncio", "trio", not '),
        ("[service]\nbind = '127.0.0.1:1'", "2: service.bind must be a list of names"),
        ("[service]\nbind = ['127.0.0.1']", "2: service.bind '127.0.0.1' is no address; say"),
        ("[service]\nbind = ['h:65536']", "2: service.bind 'h:65536' is no address; say"),
        ("[service]\nbind = []", "2: service.bind names no address"),
        ("[service]\nretention = 3", "2: service.retention must be a table"),
        ("[service.retention]\ndays = 'never'", "2: service.retention.days must be a number or \"off\", not 'never'"),
        ("[limits]\nmax_turn = 3", "2: limits.max_turn is unknown (did you mean max_turns?)"),
        ("[limits]\nmoney = 'much'", "2: limits.money must be a number"),
        ("[agents]\na = 3", "2: agents.a must be a table ([agents.a]), not 3"),
        ("[agents.'a b']\nmodel = 'm'", "1: agents: 'a b' is no name; an agent is named by at most 64"),
        ("[agents.a]\nmodle = 'm'", "2: agents.a.modle is unknown (did you mean model?)"),
        ("[agents.a]\ntools = 'files'", "2: agents.a.tools must be a list of names"),
        ("[agents.a.limits]\nturns = 3", "2: agents.a.limits.turns is unknown (did you mean max_turns?)"),
        ("[agents.a]\nlimits = 3", "2: agents.a.limits must be a table"),
        ("[agents.a]\nprice = 3", "2: agents.a.price must be a table with input, output"),
        ("[agents.a]\nprice = { input = 3 }", "2: agents.a.price: Object missing required field `output`"),
        ("[agents.a]\nprice = { input = 3, output = -1 }", "2: agents.a.price: price: output must be 0 or more"),
        ("[agents.a.price]\ninput = 3\noutputs = 3", "3: agents.a.price.outputs is unknown (did you mean output?)"),
        ("[agents.a]\npolicy = 'p'\nprofile = 'demo'", "2: agents.a.policy excludes profile"),
        ("[policy]\nfile = 3", "2: policy.file must be a text, not 3"),
        ("[policy]\nfile = 'p'\nmode = 'observe'", "2: policy.file excludes what else [policy] says: mode"),
        ("[log]\nlevel = 'loud'", '2: log.level must be one of "debug", "info", "warning", "error"'),
        ("[otel]\nenabled = 'yes'", "2: otel.enabled must be true or false, not 'yes'"),
        ("[service\nworkers = 2", "1: not TOML: "),
        ("workers 2", "1: not TOML: "),
    ],
)
def test_what_cannot_be_taken_is_named_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path, text)
    (said,) = problems(path)
    assert said.startswith(f"{path}:{told}")


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "[service]\nworkers = 0\ngrace = 'x'\n[logs]\n")
    said = problems(path, {"WATCHKEEPER_LOG_LEVEL": "loud"}, {"otel.enabled": 3})
    assert [one.partition(" ")[0] for one in said] == [
        f"{path}:2:",
        f"{path}:3:",
        f"{path}:4:",
        "WATCHKEEPER_LOG_LEVEL:",
        "the",
    ]
    assert said[-1] == "the command line: otel.enabled must be true or false, not 3"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file or directory; name a TOML file that can be read"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"#" * ((1 << 20) + 1), "longer than 1 MB, which is no configuration"),
        (b"a = " + b"[" * 5000, "not TOML"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "config.toml"
    if content is not None:
        path.write_bytes(content)
    (said,) = problems(path)
    assert said.startswith(str(path))
    assert told in said


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("WATCHKEEPER_SERVICE_WORKER", "3", "there is no such setting (did you mean WATCHKEEPER_SERVICE_WORKERS?)"),
        ("WATCHKEEPER_ZZZ", "3", "there is no such setting; unset it"),
        ("WATCHKEEPER_AGENTS_NOBODY_QQQ", "3", "there is no such setting; agents are declared in a file; unset it"),
        ("WATCHKEEPER_SERVICE_WORKERS", "many", "service.workers must be a whole number, not 'many'"),
        ("WATCHKEEPER_OTEL_ENABLED", "1", "otel.enabled must be true or false, not 1"),
        ("WATCHKEEPER_SERVICE_BIND", "", "service.bind names no address"),
    ],
)
def test_a_variable_that_cannot_be_taken_is_named(name: str, value: str, told: str) -> None:
    (said,) = problems(environ={name: value})
    assert said.startswith(f"{name}: {told}")


def test_variables_are_read_as_their_settings_are_typed(tmp_path: Path) -> None:
    path = write(tmp_path, "[agents.my-agent]\n")
    found = load(
        [path],
        {
            "WATCHKEEPER_STATE": "/var/lib/w",
            "WATCHKEEPER_SERVICE_BIND": "unix:, 127.0.0.1:8700",
            "WATCHKEEPER_SERVICE_HOSTS": '["a,b"]',
            "WATCHKEEPER_SERVICE_RETENTION_DAYS": "off",
            "WATCHKEEPER_OTEL_ENABLED": "true",
            "WATCHKEEPER_AGENTS_MY_AGENT_INSTRUCTIONS": "[Say] 3 things",
            "WATCHKEEPER_AGENTS_MY_AGENT_PRICE": "{ input = 1, output = 2 }",
            "WATCHKEEPER_LIMITS_CALLS_PER_TOOL": "{ search = 5 }",
            "WATCHKEEPER_POLICY_FILE": "p.toml",
        },
    )
    assert found.service.state == "/var/lib/w"
    assert found.service.bind == ("unix:", "127.0.0.1:8700")
    assert found.service.hosts == ("a,b",)
    assert found.service.retention.days is None
    assert found.otel.enabled
    assert found.agents["my-agent"].instructions == "[Say] 3 things"
    assert found.agents["my-agent"].price is not None
    assert found.limits == {"calls_per_tool": {"search": 5}}
    assert found.policy == {"file": "p.toml"}


def test_a_variable_that_stands_for_two_settings_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "[agents.a-b]\n[agents.a_b]\n")
    assert load([path]).agents.keys() == {"a-b", "a_b"}
    (said,) = problems(path, {"WATCHKEEPER_AGENTS_A_B_MODEL": "m"})
    assert "stands for agents.a-b.model and agents.a_b.model" in said


def test_variables_of_ours_that_are_no_settings_are_left_alone() -> None:
    assert load((), dict.fromkeys(OTHERS, "x")) == Configuration()


def test_shared_budgets_hold_what_can_be_counted(tmp_path: Path) -> None:
    text = '[budgets.team]\nmax_turns = 9\ncalls_per_tool = { look = 2 }\nmoney = 1.5\ntokens = "off"\n[budgets.all]\n'
    found = load([write(tmp_path, text)])
    assert shared_amounts(found.budgets["team"]) == {"turns": 9, "calls:look": 2, "money": 1.5}
    assert shared_amounts(found.budgets["all"]) == {}
    assert found.origins["budgets.team.money"].endswith("config.toml:4")
    said = problems(write(tmp_path, "[budgets.team]\nseconds = 5\nmoney = -1"))
    assert "budgets.team.seconds is nothing that runs can share" in said[0]
    assert "money must be at least 0" in said[1]
    assert len(problems(write(tmp_path, '[budgets."a b"]\nmoney = 1'))) == 1
    assert "must be a table" in problems(write(tmp_path, "[budgets]\nx = 1"))[0]


def test_every_setting_has_a_variable_and_no_two_the_same() -> None:
    found = variables(["a"])
    assert all(len(settings) == 1 for settings in found.values())
    expected = sum(
        len(kind.__struct_fields__) for kind in (ServiceSettings, Retention, AgentSettings, LogSettings, OtelSettings)
    )
    # Retention and an agent's limits are tables of their own; policy.file is one more.
    assert len(known_kinds()) == expected - 2 + 2 * len(Limits.__struct_fields__) + 1
    assert not found.keys() & OTHERS


def test_every_variable_of_ours_in_the_sources_is_known() -> None:
    named = set()
    for path in Path(watchkeeper.__file__).parent.rglob("*.py"):
        named |= set(re.findall(r"\bWATCHKEEPER_[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8")))
    assert named <= {*OTHERS, *variables(["NAME"])}, "add what is no setting to configuration.sources.OTHERS"


def test_a_key_in_the_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    key = "sk-" + "a1b2c3d4" * 5
    for text in (
        f'[agents.a]\napi_key_env = "{key}"',
        f'[agents.a]\napi_key = "{key}"',
        f'[agents.a]\ntools = "{key}"',
    ):
        said = problems(write(tmp_path, text))
        assert said
        assert key not in "\n".join(said)


def test_files_are_those_of_the_user_and_the_machine_or_the_one_that_is_named(tmp_path: Path) -> None:
    assert files_of({"XDG_CONFIG_HOME": str(tmp_path)})[-1:] != (tmp_path / "watchkeeper" / "config.toml",)
    (tmp_path / "watchkeeper").mkdir()
    mine = write(tmp_path / "watchkeeper", "")
    assert files_of({"XDG_CONFIG_HOME": str(tmp_path)})[-1] == mine
    assert files_of({"XDG_CONFIG_HOME": str(tmp_path), "WATCHKEEPER_CONFIG": "x.toml"}) == (Path("x.toml"),)


keys = st.sampled_from(
    ["service", "limits", "budgets", "agents", "policy", "log", "otel", "workers", "a", "model", "file", "x"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.lists(keys, min_size=1, max_size=4).map(".".join), values, max_size=5))
def test_nothing_but_problems_is_raised(overrides: dict[str, Any]) -> None:
    try:
        found = load((), {}, overrides)
    except ConfigurationProblems:
        return
    assert set(found.origins.values()) <= {"the command line"}
