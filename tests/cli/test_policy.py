"""Policy files: what they may say, and what is said to those that say something else."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from watchkeeper import ContextLimits
from watchkeeper.cli.declared import Declared
from watchkeeper.cli.exits import CommandError
from watchkeeper.cli.policy import Policy, policy_of, read_policy
from watchkeeper.guards.rate import Rate
from watchkeeper.guards.rule import Rule
from watchkeeper.guards.scope import Scope
from watchkeeper.profiles import PROFILES, Profile
from watchkeeper.thresholds import Steps, Thresholds


def policy(text: str) -> Policy:
    return policy_of(tomllib.loads(text))


def test_an_empty_file_is_the_default_profile() -> None:
    assert policy("") == Policy(profile=msgspec.structs.replace(PROFILES["default"], name="policy"))


def test_it_changes_what_it_names_and_keeps_the_rest_of_its_base() -> None:
    found = policy('base = "loopagent"\nmode = "nudge"\ndeny = ["rm"]\n[thresholds]\nbreaker = 50\n').profile
    base = PROFILES["loopagent"]
    assert found == msgspec.structs.replace(
        base,
        name="policy",
        mode="nudge",
        deny=("rm",),
        thresholds=msgspec.structs.replace(base.thresholds, breaker=50),
    )


def test_every_setting_can_be_said() -> None:
    """Whatever a profile gets in future: what cannot be written in TOML could not be tried."""
    for kind, path in ((Profile, ""), (Thresholds, "[thresholds]\n")):
        for field in msgspec.structs.fields(kind):
            if isinstance(field.default, msgspec.Struct) and not isinstance(field.default, Steps):
                continue
            value = "x" if field.default is msgspec.NODEFAULT else field.default
            if field.default_factory is not msgspec.NODEFAULT:
                value = field.default_factory()
            if isinstance(value, Steps):
                said = "[1, 2, 3]"
            elif value is None:
                said = '"off"'
            else:
                said = msgspec.json.encode(value).decode()  # of numbers, texts and lists TOML says the same
            assert policy(f"{path}{field.name} = {said}").profile is not None


@pytest.mark.parametrize(
    ("said", "steps"),
    [
        ("equal = [2, 3, 4]", Steps(2, 3, 4)),
        ('equal = [2, "off", 4]', Steps(2, None, 4)),
        ("equal = { stop = 20 }", Steps(3, 5, 20)),
        ('equal = { block = "off" }', Steps(3, None, 8)),
        ('equal = "off"', Steps(None, None, None)),
    ],
)
def test_steps(said: str, steps: Steps) -> None:
    assert policy(f"[thresholds]\n{said}").profile.thresholds.equal == steps


def test_rules() -> None:
    found = policy(
        """
        otherwise = "ask"
        [[rules]]
        decision = "deny"
        tool = "write_file"
        unless = { path = "notes/*" }
        why = "only notes"
        [[rules]]
        decision = "allow"
        tool = "run_command"
        when = [{ argv = ["git", "status"] }, { argv = ["git", "log", "**"], cwd = "src" }]
        """
    ).profile
    assert found.otherwise == "ask"
    assert found.rules == (
        Rule("deny", "write_file", unless=({"path": "notes/*"},), why="only notes"),
        Rule("allow", "run_command", when=({"argv": ("git", "status")}, {"argv": ("git", "log", "**"), "cwd": "src"})),
    )


def test_scope() -> None:
    found = policy('[scope]\nreads = ["docs"]\nwrites = []\n')
    assert found.profile.scope == Scope(reads=("docs",), writes=())
    assert policy('[scope]\nreads = "off"\n').profile.scope == Scope()
    assert found.untried == ()


def test_the_limits_of_the_context() -> None:
    found = policy("[context]\nwindow = 8192\nstart = 0.7\nsummary = false\n")
    assert found.profile.context == ContextLimits(window=8192, start=0.7, summary=False)
    assert found.untried == ("context",)
    with pytest.raises(ValueError, match="target is a share above 0"):
        policy("[context]\ntarget = 1.5\n")
    with pytest.raises(ValueError, match=r"context\.windows is unknown \(did you mean window\?\)"):
        policy("[context]\nwindows = 3\n")


def test_rates() -> None:
    found = policy('[rates.look]\ninterval = 2\n[rates."http_*"]\ncalls = 10\nseconds = 5\n')
    assert found.profile.rates == {"look": Rate(interval=2), "http_*": Rate(calls=10, seconds=5)}
    assert found.untried == ("rates",)


def test_tools() -> None:
    found = policy('[tools.status]\npoll = true\nloop_key = "job"\n[tools.read]\nstable = true\nresult_key = ["a"]\n')
    assert found.tools == {
        "status": Declared(poll=True, loop_key=("job",)),
        "read": Declared(stable=True, result_key=("a",)),
    }


def test_what_recordings_cannot_show_is_named() -> None:
    assert policy("interval = 2\n[limits]\nmax_turns = 5").untried == ("limits", "interval")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("mod = 1", "mod is unknown (did you mean mode?); allowed here: name, "),
        ('mode = "strict"', 'mode must be one of "observe", "nudge", "enforce", not \'strict\''),
        ('base = "wild"', "base must be one of default, "),
        ("base = 1", "base must be one of default, "),
        ('refuse_equal = "never"', "refuse_equal must be a whole number or \"off\", not 'never'"),
        ("[limits]\ncalls_per_tool = 3", "limits.calls_per_tool must be a table of whole numbers, such as"),
        ("[limits.calls_per_tool]\nsearch = -1", "limits.calls_per_tool.search must be at least 0, not -1"),
        ("[limits]\nunpriced = 3", 'limits.unpriced must be one of "refuse", "allow", not 3'),
        ("refuse_equal = 2.5", "refuse_equal must be a whole number"),
        ("refuse_equal = true", "refuse_equal must be a whole number"),
        ("refuse_equal = 0", "refuse_equal must be more than 0"),
        ("interval = nan", "interval must be more than 0"),
        ("interval = -1", "interval must be more than 0"),
        ("remind_at = 70", "remind_at is a share and must be at most 1, not 70"),
        ('deny = "rm"', 'deny must be a list of names, such as ["one", "two"]'),
        ("deny = [1]", "deny must be a list of names"),
        ("show_earlier = 1", "show_earlier must be true or false, not 1"),
        ("thresholds = 3", "thresholds must be a table ([thresholds]), not 3"),
        ("[thresholds]\nequl = [1, 2, 3]", "thresholds.equl is unknown (did you mean equal?); allowed here: window, "),
        ("[thresholds]\nequal = 3", "thresholds.equal must be the counts for nudge, block, stop"),
        ("[thresholds]\nequal = [1, 2]", "thresholds.equal must be the counts for nudge, block, stop"),
        ("[thresholds]\nequal = [5, 3, 8]", "thresholds.equal: nudge, block, stop must not fall"),
        ("[thresholds]\nequal = { stop = 2 }", "must not fall: they are 3, 5, 2"),
        ("[thresholds]\nequal = [0, 3, 8]", "thresholds.equal: counts begin at 1"),
        ("[thresholds]\nequal = { halt = 3 }", "thresholds.equal.halt is unknown; allowed here: nudge, block, stop"),
        ("[thresholds]\nwindow = 0", "thresholds.window must be more than 0"),
        ("[limits]\nmax_turn = 1", "limits.max_turn is unknown (did you mean max_turns?)"),
        ('otherwise = "maybe"', 'otherwise must be one of "allow", "deny", "ask"'),
        ("rates = 1", "rates must be tables ([rates.NAME])"),
        ("[rates]\nlook = 3", "rates.look must be a table ([rates.look] with interval = 2"),
        ("[rates.look]\nseconds = 3", "rates.look must be a table"),
        ("[rates.look]\ncall = 3", "rates.look must be a table"),
        ("[rates.look]\ncalls = 3\nsecond = 3", "rates.look.second is unknown (did you mean seconds?)"),
        ("[rates.look]\ncalls = 0", "rates.look: a rate's calls must be more than 0, not 0"),
        ("[rates.look]\ncalls = 2.5", "rates.look.calls must be a whole number"),
        ("rules = 1", "rules must be tables ([[rules]])"),
        ("rules = [1]", "rules[0] must be a table ([[rules]])"),
        ('[[rules]]\ntool = "x"', 'rules[0] has no decision; say decision = "deny", "ask" or "allow"'),
        ('[[rules]]\ndecision = "forbid"', 'rules[0].decision must be one of "allow", "deny", "ask"'),
        ('[[rules]]\ndecision = "deny"\nunles = {}', "rules[0].unles is unknown (did you mean unless?)"),
        ('[[rules]]\ndecision = "deny"\nwhen = "x"', "rules[0].when must be a table of patterns by argument"),
        ('[[rules]]\ndecision = "deny"\nwhen = { path = 7 }', "rules[0].when must be a table of patterns by argument"),
        ('[[rules]]\ndecision = "deny"\nwhen = {}', "rules[0]: a condition of a rule has a pattern for each argument"),
        ("tools = 1", "tools must be tables"),
        ("[tools]\nread = true", "tools.read must be a table ([tools.read])"),
        ("[tools.read]\npoll = 1", "tools.read.poll must be true or false, not 1"),
        (
            "[tools.read]\nfrozen = true",
            "tools.read.frozen is unknown; allowed here: poll, stable, loop_key",
        ),
    ],
)
def test_what_cannot_be_taken_is_named_with_what_can(said: str, told: str) -> None:
    with pytest.raises(ValueError) as caught:
        policy(said)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"mode = \n", "not TOML: Invalid value (at line 1"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"a = " + b"[" * 5000, "not TOML"),
        (b"#" * (2 << 20), "longer than 1 MB"),
        (b"mood = 1\n", "mood is unknown"),
    ],
)
def test_broken_files_are_one_line(content: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_bytes(content)
    with pytest.raises(CommandError) as caught:
        read_policy(file)
    assert str(caught.value).startswith(f"--policy {file}:")
    assert told in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        read_policy(tmp_path / "nowhere.toml")


def test_limits_of_single_tools_and_of_money() -> None:
    policy = policy_of({"limits": {"calls_per_tool": {"search": 5}, "money": 0.5, "unpriced": "allow"}})
    limits = policy.profile.limits
    assert (limits.calls_per_tool, limits.money, limits.unpriced) == ({"search": 5}, 0.5, "allow")
