"""The policy: which of its rules count, how patterns are read, and that nothing a model writes gets round them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from asked import WORDING, Asked, is_guard
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Agent, ConfigurationError, Profile, Tool, tool
from watchkeeper.guards.guard import Ask, Refuse
from watchkeeper.guards.policy import Policy
from watchkeeper.guards.rule import Compiled, Rule, check
from watchkeeper.testing import ScriptedModel


@tool(effect="reads")
def read_file(path: str) -> str:
    """Read."""
    return path


@tool
def write_file(path: str, content: str = "") -> str:
    """Write."""
    return path


@tool(dangerous=True)
def run_command(argv: list[str], cwd: str = ".") -> str:
    """Run."""
    return ""


@tool(irreversible=True)
def pay(amount: float, to: str = "shop") -> str:
    """Pay."""
    return ""


def said(guard: Policy, asked: Tool, **values: Any) -> str:
    """``allow``, ``deny`` or ``ask``."""
    decision = Asked(guard).ask(asked, **values)
    if decision is None:
        return "allow"
    return "deny" if isinstance(decision, Refuse) else "ask"


def by(*rules: Rule, **more: Any) -> Policy:
    return Policy(WORDING, rules=rules, **more)


def allows(pattern: Any, value: Any, name: str = "path") -> bool:
    """The pattern permits the value, in both ways of permitting; they are never apart."""
    allowed = Compiled(Rule("allow", when=({name: pattern},))).fits({name: value})
    assert Compiled(Rule("deny", unless=({name: pattern},))).fits({name: value}) is not allowed
    return allowed


def forbids(pattern: Any, value: Any, name: str = "path") -> bool:
    denied = Compiled(Rule("deny", when=({name: pattern},))).fits({name: value})
    assert Compiled(Rule("ask", when=({name: pattern},))).fits({name: value}) is denied
    assert Compiled(Rule("allow", unless=({name: pattern},))).fits({name: value}) is not denied
    return denied


# -- which rule counts ------------------------------------------------------------------------------------------------


def test_nothing_said_is_allowed_because_the_tool_was_handed_over() -> None:
    guard = by()
    assert is_guard(guard)
    assert [said(guard, one, argv=[]) for one in (read_file, write_file, run_command)] == ["allow"] * 3


@pytest.mark.parametrize("otherwise", ["allow", "ask", "deny"])
def test_what_no_rule_speaks_of_is_as_the_policy_says(otherwise: Any) -> None:
    guard = by(Rule("allow", "read_*"), otherwise=otherwise)
    assert said(guard, read_file, path="a") == "allow"
    assert said(guard, write_file, path="a") == otherwise


ORDERS = [("allow", "ask", "deny"), ("deny", "ask", "allow"), ("ask", "deny", "allow")]


@pytest.mark.parametrize("order", ORDERS)
def test_deny_wins_in_whatever_order(order: Any) -> None:
    assert said(by(*(Rule(ruling, "*") for ruling in order)), read_file, path="a") == "deny"
    assert said(by(*(Rule(ruling) for ruling in order if ruling != "deny")), read_file, path="a") == "ask"


@pytest.mark.parametrize("ruling", ["allow", "ask", None])
def test_a_function_cannot_lift_a_denial(ruling: Any) -> None:
    assert said(by(Rule("deny", "read_file"), function=lambda tool, values: ruling), read_file, path="a") == "deny"


def test_a_function_decides_by_tool_and_arguments_and_gives_its_reason() -> None:
    def working_hours(tool: Tool, values: Any) -> Any:
        return ("deny", "not on a Sunday") if tool.name == "write_file" and values["path"] == "a" else None

    guard = by(function=working_hours)
    assert said(guard, write_file, path="b") == said(guard, read_file, path="a") == "allow"
    decision = Asked(guard).ask(write_file, path="a")
    assert isinstance(decision, Refuse)
    assert "not on a Sunday" in decision.message


def test_a_function_cannot_change_what_will_be_run() -> None:
    def meddling(tool: Tool, values: Any) -> Any:
        values["argv"][:] = ["rm"]

    run = Asked(by(function=meddling))
    proposal = run.propose(run_command, argv=["ls"])
    assert run.guard.call(proposal) is None
    assert proposal.values == {"argv": ["ls"]}


@pytest.mark.parametrize("answer", ["yes", ("deny",), 1, ("maybe", "x"), True])
def test_what_a_function_says_otherwise_lets_nothing_pass(answer: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):  # a guard that raises refuses the call
        Asked(by(function=lambda tool, values: answer)).ask(read_file, path="a")


@pytest.mark.parametrize("rules", [(), (Rule("allow", "*"),), (Rule("allow", "pay", when=({"to": "shop"},)),)])
def test_what_cannot_be_undone_always_asks(rules: Any) -> None:
    assert said(by(*rules, function=lambda tool, values: "allow"), pay, amount=1.0, to="shop") == "ask"


def test_and_is_denied_where_it_is_denied() -> None:
    assert said(by(Rule("deny", "irreversible")), pay, amount=1.0) == "deny"


@pytest.mark.parametrize(
    ("name", "denied"),
    [
        ("read_file", ["read_file"]),
        ("*_file", ["read_file", "write_file"]),
        ("dangerous", ["run_command"]),
        ("irreversible", ["pay"]),
        ("???", ["pay"]),
        ("READ_FILE", []),
        ("read_file.*", []),
        ("", []),
        ("*", ["read_file", "write_file", "run_command", "pay"]),
    ],
)
def test_tools_are_named_by_name_glob_or_mark(name: str, denied: list[str]) -> None:
    guard = by(Rule("deny", name))
    every = (read_file, write_file, run_command, pay)
    assert [one.name for one in every if said(guard, one, path="", argv=[], amount=1) == "deny"] == denied


def test_conditions_are_all_of_one_or_one_of_several() -> None:
    both = Rule("deny", when=({"path": "a", "content": "x"},))
    either = Rule("deny", when=({"path": "a"}, {"content": "x"}))
    for values, denied in (("ax", (True, True)), ("ay", (False, True)), ("bx", (False, True)), ("by", (False, False))):
        call = dict(zip(("path", "content"), values, strict=True))
        assert (Compiled(both).fits(call), Compiled(either).fits(call)) == denied


def test_unless_takes_out_of_when() -> None:
    rule = Compiled(Rule("deny", when=({"path": "notes/*"},), unless=({"path": "notes/open/*"},)))
    assert rule.fits({"path": "notes/a"})
    assert not rule.fits({"path": "notes/open/a"})
    assert not rule.fits({"path": "src/a"})


def test_an_argument_that_is_not_there_fits_nothing() -> None:
    assert not Compiled(Rule("allow", when=({"path": "*"},))).fits({})
    assert Compiled(Rule("deny", unless=({"path": "*"},))).fits({})


# -- what the model reads --------------------------------------------------------------------------------------------


def test_a_denial_by_arguments_says_so_and_why() -> None:
    guard = by(Rule("deny", "write_file", unless=({"path": "notes/*"},), why="only notes may be written"))
    decision = Asked(guard).ask(write_file, path="src/a")
    assert isinstance(decision, Refuse)
    assert (decision.kind, decision.error) == ("denied", "denied")
    happened, known, then = decision.message.split("\n")
    assert happened.startswith("This call of write_file, with these arguments, is not allowed")
    assert "only notes may be written" in known
    assert then.startswith("Do it within the rules")


def test_an_ask_carries_its_reason() -> None:
    assert Asked(by(Rule("ask", "read_file", why="private"))).ask(read_file, path="a") == Ask("private")
    assert Asked(by()).ask(pay, amount=1.0) == Ask("it cannot be undone", once=True)


# -- patterns that permit: nothing a model writes gets past them ------------------------------------------------------


@pytest.mark.parametrize("path", ["notes/a", "notes/a/b.md", "notes/ä b", "notes/a..b", "notes/100%"])
def test_what_is_under_a_folder_is_permitted(path: str) -> None:
    assert allows("notes/*", path)


@pytest.mark.parametrize(
    "path",
    [
        *("notes/../secret", "notes/a/../../secret", "notes/..", "notes\\..\\secret", "notes/..\\secret"),
        *("notes/%2e%2e/secret", "notes/%2E%2e%2fsecret", "notes/.%2e/secret", "notes/..%2f..%2fsecret"),
        *("notes/a\n/etc/passwd", "notes/a\x00.md", "notes/\x1b[2J", "notes/\x9b", "notes/a\r"),
        *("Notes/a", "NOTES/a", "./notes/a", "/notes/a", "//notes/a", " notes/a", "x/notes/a", "notesa", "notes"),
        *("ｎｏｔｅｓ/a", "notes∕a", "notes／a", ""),
        "notes/" + "a" * 5000,
    ],
)
def test_what_only_looks_so_is_not(path: str) -> None:
    assert not allows("notes/*", path)


BYPASSES = [
    *(["git", "status", more] for more in (";", "&&", "|", "--upload-pack=sh", "\n", "")),
    *(["git", word] for word in ("status;id", "status && id", "status|id", "status\n", " status", "status ", "Status")),
    *(["git", "-c", f"core.{key}=id", "status"] for key in ("fsmonitor", "pager", "editor", "sshCommand", "hooksPath")),
    *(
        [program, "status"]
        for program in ("./git", "/tmp/git", "git ", " git", "GIT", "git\n", "git\x00", "gıt", "ɡit")
    ),
    *(["sh", "-c", line] for line in ("git status", "git status; id", "git status || id", "$(git status)", "`id`")),
    *(["env", *more, "git", "status"] for more in ([], ["-i"], ["PATH=/tmp"], ["GIT_DIR=/tmp"], ["-S", "id"])),
    *([word, "git", "status"] for word in ("sudo", "xargs", "nohup", "time", "command", "exec", "eval", "busybox")),
    *(["git", f"{a}status"] for a in ("--exec-path=/tmp ", "-p", "--paginate ", "../", "\t", "\u200b", "\u202e")),
    *([], ["git"], ["status", "git"], ["git status"], ["git", ["status"]], [["git", "status"]], ["git", None]),
    *("git status", "git", None, {"git": "status"}, 7, ["git", "status", "status"], [["git"], "status"]),
]


@pytest.mark.parametrize("argv", BYPASSES, ids=repr)
def test_shel_01_one_command_is_permitted_and_none_that_resembles_it(argv: Any) -> None:
    assert len(BYPASSES) >= 60
    assert allows(("git", "status"), ["git", "status"], "argv")
    assert not allows(("git", "status"), argv, "argv")


def test_a_list_may_go_on_where_the_pattern_says_so() -> None:
    assert allows(("git", "log", "**"), ["git", "log"], "argv")
    assert allows(("git", "log", "**"), ["git", "log", "-p", "src"], "argv")
    assert not allows(("git", "log", "**"), ["git", "push"], "argv")
    assert not allows(("git", "*"), ["git", "log", "-p"], "argv")


def test_of_a_list_every_element_must_fit_to_permit_and_one_is_enough_to_forbid() -> None:
    assert allows("notes/*", ["notes/a", "notes/b"])
    assert not allows("notes/*", ["notes/a", "src/b"])
    assert not allows("notes/*", [])
    assert forbids("notes/*", ["src/b", "notes/a"])
    assert not forbids("notes/*", [])


# -- patterns that forbid: read in every way --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *("secrets/a", "./secrets/a", "secrets//a", "secrets/./a", "notes/../secrets/a", "SECRETS/a", "Secrets/a"),
        *(
            "secrets\\a",
            ".\\secrets\\a",
            "%73ecrets/a",
            "secrets%2fa",
            "ｓｅｃｒｅｔｓ/a",
            " secrets/a",
            "secrets/a\nb",
        ),
        *("secrets/\x00", "secrets/" + "a" * 10_000, "x/y/../../secrets/a"),
    ],
)
def test_what_comes_down_to_it_is_forbidden(path: str) -> None:
    assert forbids("secrets/*", path)


def test_what_does_not_is_not() -> None:
    for path in ("notes/secrets", "secrets", "my-secrets/a", "secrets/../notes/a/"):
        assert not forbids("secrets/?", path), path


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (5, "5"), (2.5, "2.5"), (None, ""), ({"a": 1}, '{"a":1}')])
def test_values_that_are_no_texts_are_read_as_json(value: Any, text: str) -> None:
    assert allows(text, value, "x")
    assert forbids(text, value, "x")


GLOBS = st.text(alphabet="ab/?*", max_size=12)
TEXTS = st.text(alphabet="ab/", max_size=20)


def slow(glob: str, text: str) -> bool:
    """What a glob means, by trying everything."""
    if not glob:
        return not text
    if glob[0] == "*":
        return any(slow(glob[1:], text[n:]) for n in range(len(text) + 1))
    return bool(text) and glob[0] in ("?", text[0]) and slow(glob[1:], text[1:])


@given(GLOBS, TEXTS)
def test_globs_mean_what_globs_mean(glob: str, text: str) -> None:
    assert allows(glob, text) == slow(glob, text)


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*b", "*?" * 12 + "b", "a*" * 20])
def test_no_text_makes_matching_slow(pattern: str) -> None:
    """One that tried every place again would take years for these."""
    began = time.perf_counter()
    for text in ("a" * 200_000, "a/" * 50_000):
        forbids(pattern, text + "c")
    assert time.perf_counter() - began < 5


# -- rules that cannot work ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (Rule("forbid"), "must say one of allow, deny, ask"),  # type: ignore[arg-type]
        (Rule("deny", when=({},)), "has a pattern for each argument"),
        (Rule("deny", when={"path": "a"}), "a tuple of mappings"),  # type: ignore[arg-type]
        (Rule("deny", unless=({"path": 7},)), "a pattern is a text"),  # type: ignore[dict-item]
        (
            Rule("deny", "read_file", when=({"pth": "a"},)),
            "the argument 'pth', which is not there; read_file takes path",
        ),
        (Rule("deny", "*_file", when=({"contents": "a"},)), "read_file, write_file takes content, path"),
    ],
)
def test_they_are_an_error_where_the_agent_is_made(rule: Rule, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Agent(ScriptedModel([]), [read_file, write_file], profile=Profile(rules=(rule,)))
    assert told in str(caught.value)


def test_rules_for_tools_that_are_not_there_are_none() -> None:
    check([Rule("deny", "drop_table", when=({"name": "*"},))], [read_file])
    check([Rule("deny", "*", when=({"content": "*"},))], [read_file, write_file])


def test_a_policy_that_otherwise_says_nonsense() -> None:
    with pytest.raises(ConfigurationError, match="otherwise must be one of allow, deny, ask"):
        by(otherwise="perhaps")  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", [Rule("deny", "read_file"), Rule("deny", "read*"), Rule("deny")])
def test_evidence_that_is_denied_could_never_be_had(rule: Rule) -> None:
    with pytest.raises(ConfigurationError, match="no answer could ever count"):
        Agent(ScriptedModel([]), [read_file], required=["read_file"], profile=Profile(rules=(rule,)))


def test_what_was_approved_for_good_lifts_what_would_only_ask() -> None:
    rules = (
        Rule("ask", "read_file"),
        Rule("deny", "read_file", when=({"path": "secret*"},)),
        Rule("allow", "read_file", when=({"path": "notes/*"}, {"path": "secret*"}), approved=True),
    )
    asked = Asked(by(*rules))
    assert asked.ask(read_file, path="notes/a") is None
    assert asked.ask(read_file, path="other") == Ask("")
    assert isinstance(asked.ask(read_file, path="secret"), Refuse)


def test_a_plain_allow_does_not() -> None:
    assert Asked(by(Rule("ask", "read_file"), Rule("allow", "read_file"))).ask(read_file, path="a") == Ask("")


def test_nothing_lifts_what_cannot_be_undone() -> None:
    rules = (Rule("ask", "pay", why="money"), Rule("allow", "pay", approved=True))
    assert Asked(by(*rules)).ask(pay, amount=1.0) == Ask("it cannot be undone", once=True)
    assert Asked(by(rules[0])).ask(pay, amount=1.0) == Ask("money", once=True)


def test_only_what_allows_can_be_approved() -> None:
    with pytest.raises(ConfigurationError, match="a rule that is approved is one that allows; this one says 'ask'"):
        by(Rule("ask", "pay", approved=True))
