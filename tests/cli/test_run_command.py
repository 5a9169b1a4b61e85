"""``watchkeeper run`` against a scripted server: what it prints, writes and returns."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from serving import PROGRAM, TIMEOUT, environment, served

from watchkeeper import decode_event
from watchkeeper.cli import main
from watchkeeper.messages import CallEnded, Event, RunEnded, RunStarted
from watchkeeper.testing import BACKENDS
from watchkeeper.testing.server import CallTools, ChatServer, Fault, Say, Script

GIVEN = ["run", "x", "--model", "m", "--base-url", "http://127.0.0.1:1/v1"]
EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202eback"
FORBIDDEN = {"\x1b", "\x07", "\x9b", "\u202e"}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))  # a run that is handed over leaves a folder there
    for name in ("OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def at(server: ChatServer, *more: str) -> list[str]:
    return ["run", "Do it.", "--model", "m", "--base-url", server.base_url, *more]


def run_against(script: Script, *more: str) -> int:
    with served(script) as server:
        return main(at(server, *more))


def events_in(text: str) -> list[Event]:
    return [decode_event(line) for line in text.splitlines()]


TWO_READS = [
    CallTools(("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}), text="I look."),
    Say("Done."),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("apples\n")
    (root / "b.txt").write_text("bananas\n")
    return root


@pytest.mark.parametrize("backend", BACKENDS)
def test_prints_lines_where_there_is_no_terminal(
    backend: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_against(TWO_READS, "--tools", "files", "--root", str(folder), "--backend", backend)
    shown = capsys.readouterr()
    assert code == 0
    assert "read_file ×2" in shown.out
    assert 'read_file path="a.txt"  finished' in shown.out
    assert "up to 2 side by side" in shown.out
    assert "completed (answer)" in shown.out
    assert "    Done." in shown.out
    assert "2 turns, 2 calls, " in shown.out
    assert shown.err == ""


@pytest.mark.parametrize("backend", BACKENDS)
def test_log_lines_are_added_to_a_file(
    backend: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lines.log"
    file.write_text("before\n")
    options = ("--tools", "files", "--root", str(folder), "--backend", backend, "--log-file", str(file))
    assert run_against(TWO_READS, *options) == 0
    assert run_against(TWO_READS, *options, "--log-format", "text") == 0
    assert capsys.readouterr().err == ""
    before, *lines = file.read_text("utf-8").splitlines()
    assert before == "before"
    told = [json.loads(line)["event"] for line in lines[:4]]
    assert told == ["run_started", "call_ended", "call_ended", "run_ended"]
    assert "status='completed'" in lines[-1]


def test_a_log_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = tmp_path / "gone" / "lines.log"
    assert main([*GIVEN, "--log-file", str(gone)]) == 2
    assert f"--log-file {gone}: No such file or directory; name a file that can be written" in capsys.readouterr().err


@pytest.mark.parametrize("backend", BACKENDS)
def test_json_prints_every_event_and_nothing_else(
    backend: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_against(TWO_READS, "--tools", "files", "--root", str(folder), "--json", "--backend", backend)
    shown = capsys.readouterr()
    events = events_in(shown.out)
    assert code == 0
    assert [event.n for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    assert events[-1].outcome.answer == "Done."
    assert "completed (answer)" in shown.err


def test_events_are_written_whole(folder: Path, tmp_path: Path) -> None:
    """Many more than the log keeps for those that need not see all."""
    file = tmp_path / "events.jsonl"
    turns = [
        CallTools(*(("read_file", {"path": "a.txt", "offset": n * 40 + i + 1}) for i in range(40))) for n in range(8)
    ]
    assert run_against([*turns, Say("Done.")], "--tools", "files", "--root", str(folder), "--events", str(file)) == 0
    events = events_in(file.read_text("utf-8"))
    assert len(events) > 1000
    assert [event.n for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[-1], RunEnded)


def test_what_models_and_tools_say_steers_no_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "evil.txt").write_text(EVIL, "utf-8")
    script = [
        CallTools(("read_file", {"path": "evil.txt"}), ("read_file", {"path": EVIL}), (f"no{EVIL}", "{}"), text=EVIL),
        Say(f"{EVIL}\n{EVIL}"),
    ]
    assert run_against(script, "--tools", "files", "--root", str(folder)) == 0
    shown = capsys.readouterr().out
    assert FORBIDDEN.isdisjoint(shown)
    assert "␛[31mred" in shown


def test_a_policy_file_is_taken_as_replay_takes_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text(
        'base = "safe-loop"\ninterval = "off"\n[[rules]]\ndecision = "deny"\ntool = "read_file"\n'
        'when = { path = "b.*" }\nwhy = "not b"\n[tools.x]\npoll = true\n'
    )
    more = ["--tools", "files", "--root", str(folder), "--policy", str(policy), "--json"]
    assert run_against(TWO_READS, *more) == 0
    shown = capsys.readouterr()
    events = events_in(shown.out)
    started, ends = events[0], [event.result for event in events if isinstance(event, CallEnded)]
    assert isinstance(started, RunStarted)
    assert (started.profile, started.limits["turns"]) == ("p", 15)
    assert {end.kind: "not b" in end.content for end in ends} == {"finished": False, "denied": True}
    assert f"--policy {policy}: tools: not used" in shown.err


@pytest.mark.parametrize(
    ("policy", "more", "told"),
    [
        ("", ["--profile", "demo"], "--profile and --policy exclude each other"),
        ("mod = 1", [], "mod is unknown (did you mean mode?)"),
        (
            '[[rules]]\ndecision = "deny"\ntool = "read_file"\nwhen = { pth = "x" }',
            ["--tools", "files"],
            "the argument 'pth', which is not there; read_file takes ",
        ),
    ],
)
def test_a_policy_that_cannot_be_taken_is_one_line(
    policy: str, more: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.toml"
    file.write_text(policy)
    assert main([*GIVEN, "--policy", str(file), *more]) == 2
    errors = capsys.readouterr().err
    assert told in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("script", "more", "code"),
    [
        ([Say("Done.")], [], 0),
        ([Fault(400)], [], 1),
        (lambda body, n: CallTools(("now", {})), ["--tools", "clock", "--max-turns", "2"], 3),
        (lambda body, n: CallTools(("calculate", {"expression": "1 + 1"})), ["--tools", "calc"], 3),
        (
            lambda body, n: CallTools(("calculate", {"expression": f"{n} + 1"})),
            ["--tools", "calc", "--profile", "safe-runner"],
            6,
        ),
    ],
)
def test_exit_codes(script: Any, more: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_against(script, *more) == code
    assert len(list(Path().glob("handover-r*"))) == (code == 6)
    assert "Traceback" not in capsys.readouterr().err


def test_the_epilogue_names_what_was_not_executed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_against(lambda body, n: CallTools(("calculate", {"expression": "1"})), "--tools", "calc") == 3
    shown = capsys.readouterr().out
    assert "▲ nudged (equal)" in shown
    assert "■ blocked (equal)" in shown
    assert "● stopped (equal)" in shown
    assert "not executed: calculate ×3 (refused)" in shown


def test_required_tools(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = [Say("I guess."), CallTools(("read_file", {"path": "a.txt"})), Say("Apples.")]
    assert run_against(script, "--tools", "files", "--root", str(folder), "--require", "read_file") == 0
    assert "◁ sent back" in capsys.readouterr().out


def test_an_answer_of_a_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}')
    with served([Say('{"n": "many"}'), Say('{"n": 3}')]) as server:
        assert main(at(server, "--answer-schema", str(schema))) == 0
        formats = [request.body["response_format"]["type"] for request in server.requests]
    assert formats == ["json_schema", "json_schema"]
    shown = capsys.readouterr().out
    assert "◁ sent back (form): Your answer does not have the form" in shown
    assert '    {"n": 3}' in shown
    assert run_against([Say("no")] * 3, "--answer-schema", str(schema)) == 3
    shown = capsys.readouterr().out
    assert "stopped (answer_invalid)" in shown
    assert "answers that were not accepted:\n" in shown


def test_words_that_the_answer_must_mention(capsys: pytest.CaptureFixture[str]) -> None:
    script = [Say("Apples."), Say("Apples and pears.")]
    assert run_against(script, "--must-mention", "pears,apples") == 0
    shown = capsys.readouterr().out
    assert "sent back (validators)" in shown
    assert "    Apples and pears." in shown


def test_what_nothing_bears_out_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_against([Say("It rains [call:c9].")] * 3) == 0
    assert "– It rains. (no_such_call [call:c9])" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("{", "the JSON is not complete"),
        ("[]", "a JSON schema is an object in braces"),
        ('{"if": {}}', "#/if: it is not checked here"),
        ('{"type": "text"}', "#/type: it takes one or more of"),
    ],
)
def test_a_schema_that_cannot_be_used_is_one_line(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = tmp_path / "schema.json"
    if text is not None:
        schema.write_text(text)
    assert main([*GIVEN, "--answer-schema", str(schema)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"watchkeeper: --answer-schema {schema}: ")
    assert said in shown
    assert shown.count("\n") == 1


def test_tools_in_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = [Say('Thought: look\nAction: read_file\nAction Input: {"path": "a.txt"}'), Say("Answer: Apples.")]
    with served(script) as server:
        code = main(at(server, "--tools", "files", "--root", str(folder), "--text-tools"))
        assert all("tools" not in request.body for request in server.requests)
    assert code == 0
    assert "    Apples." in capsys.readouterr().out


def test_options_reach_the_server() -> None:
    with served([Say("Done.")]) as server:
        more = ["--temperature", "0", "--seed", "7", "--reply-tokens", "99", "--instructions", "Be brief."]
        assert main(at(server, *more)) == 0
        body = server.requests[0].body
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0, 7, 99)
    system, user = body["messages"]
    assert system["role"] == "system"
    assert system["content"].startswith("Be brief.\n\nRules of this run:\n")
    assert user["content"].startswith("Do it.\n\n[watchkeeper] Turn 1 of 20. Left: ")


def test_a_policy_leaves_out_what_is_said_of_rules_and_status(tmp_path: Path) -> None:
    policy = tmp_path / "bare.toml"
    policy.write_text("goal_rules = false\nstatus_line = false\n")
    with served([Say("Done.")]) as server:
        assert main(at(server, "--policy", str(policy))) == 0
        body = server.requests[0].body
    assert body["messages"] == [{"role": "user", "content": "Do it."}]


def test_a_limit_of_thinking_reaches_the_server() -> None:
    with served([Say("Done.")]) as server:
        more = ["--reply-tokens", "99", "--reasoning-tokens", "33", "--reasoning-field", "thinking_budget"]
        assert main(at(server, *more)) == 0
        body = server.requests[0].body
    assert (body["max_tokens"], body["thinking_budget"]) == (99, 33)


@pytest.mark.parametrize(
    ("option", "amount", "reason"),
    [("--input-tokens", "1500", "input_tokens"), ("--output-tokens", "40", "output_tokens")],
)
def test_limits_of_tokens_in_and_out(option: str, amount: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = lambda body, n: CallTools(("calculate", {"expression": f"{n} + 1"}))  # noqa: E731
    assert run_against(script, "--tools", "calc", option, amount, "--json") == 3
    events = events_in(capsys.readouterr().out)
    assert isinstance(events[0], RunStarted)
    assert events[0].limits[reason] == int(amount)
    assert isinstance(events[-1], RunEnded)
    assert events[-1].outcome.reason == reason


def test_a_limit_of_working_time(capsys: pytest.CaptureFixture[str]) -> None:
    script = lambda body, n: CallTools(("sleep", {"seconds": 0.05 + n / 1000}))  # noqa: E731
    assert run_against(script, "--tools", "clock", "--working-seconds", "0.3", "--json") == 3
    events = events_in(capsys.readouterr().out)
    assert isinstance(events[0], RunStarted)
    assert events[0].limits["working_seconds"] == 0.3
    assert isinstance(events[-1], RunEnded)
    assert events[-1].outcome.reason == "working_time"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--policy", "none.toml"], "--policy none.toml: No such file or directory; name a TOML file that can be read"),
        (["--answer-schema", "none"], "--answer-schema none: No such file or directory; name a file with a schema"),
        (["--must-mention", ","], "--must-mention names no word: give one, or leave it out"),
        (["--another-agent"], "--another-agent is for --continue FILE: add that"),
        (["--on-stop", "nope"], "(watchkeeper run --help says more)"),
    ],
)
def test_what_cannot_be_names_the_option_and_the_remedy(
    more: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*GIVEN, *more]) == 2
    assert told in capsys.readouterr().err


def test_a_plan_is_made_and_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = [
        Say('{"question": "which fruit", "steps": ["look into a.txt", "look into b.txt"]}'),
        CallTools(("read_file", {"path": "a.txt"})),
        Say(f"Apples. {EVIL}\nMISSING: how many"),
        Say('{"steps": ["look into b.txt"]}'),
        CallTools(("read_file", {"path": "b.txt"})),
        Say("Bananas."),
        Say("Apples and bananas."),
    ]
    assert run_against(script, "--tools", "files", "--root", str(folder), "--plan") == 0
    shown = capsys.readouterr().out
    assert FORBIDDEN.isdisjoint(shown)
    assert "plan  2 steps\n    “which fruit”\n    · look into a.txt\n    · look into b.txt\n" in shown
    assert "step 1 of 2  look into a.txt  (at most 8 turns)" in shown
    assert "△ step 1 left something open: how many" in shown
    assert "plan  changed: how many" in shown
    assert "step 2 of 2  look into b.txt" in shown
    assert "    Apples and bananas." in shown
    assert "7 turns, 2 calls, " in shown
    assert "reminded (plan" not in shown


def test_a_price_and_a_limit_of_money(capsys: pytest.CaptureFixture[str]) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 500}}
    assert run_against([Say("Done.", usage=usage)], "--price", "2,10,1", "--money", "5") == 0
    assert "cost 0.0025," in capsys.readouterr().out
    kept = usage | {"prompt_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 400}}
    assert run_against([Say("Done.", usage=kept)], "--price", "2,10,1,5") == 0
    assert "cost 0.0037," in capsys.readouterr().out
    assert run_against([Say("Done.")]) == 0
    assert "cost unknown," in capsys.readouterr().out
    with served([]) as server:
        assert main(at(server, "--money", "5")) == 3
        assert server.requests == []
    assert "stopped (unpriced)" in capsys.readouterr().out


@pytest.mark.parametrize("price", ["1", "1,2,3,4,5", "a,b", "1,-2", ""])
def test_a_price_that_is_none(price: str, capsys: pytest.CaptureFixture[str]) -> None:
    with served([]) as server:
        assert main(at(server, "--price", price)) == 2
    assert "it takes money per million tokens, such as 1.25,10" in capsys.readouterr().err


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_is_kept_to(backend: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(12):
        (folder / f"{n}.txt").write_text(f"file {n}\n" * 300)
    read = 0

    def script(body: dict[str, Any], n: int) -> Any:
        nonlocal read
        if "tools" not in body:
            return Say("- files were read")
        read += 1
        return CallTools(("read_file", {"path": f"{read - 1}.txt"})) if read <= 12 else Say("All read.")

    more = ["--tools", "files", "--root", str(folder), "--reply-tokens", "200", "--backend", backend]
    with served(script, context_window=4000) as server:
        code = main(at(server, *more, "--context-window", "4000"))
    assert code == 0
    assert all(received.status == 200 for received in server.requests)
    shown = capsys.readouterr()
    assert "the model reads less of the conversation from here on" in shown.out
    assert "All read." in shown.out
    assert shown.err == ""


def test_a_memory_outlives_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = ["--memory", str(tmp_path / "notes.db")]
    remember = CallTools(("remember", {"text": "The word is plover.", "about": "what to do"}))
    assert run_against([remember, Say("Noted.")], *notes) == 0
    with served([Say("plover")]) as server:
        assert main(["run", "What do I do with the word?", *at(server, *notes)[2:]]) == 0
        asked = server.requests[0].body["messages"]
    assert "The word is plover." in asked[-1]["content"]
    assert "1 note from earlier work shown" in capsys.readouterr().out


def test_the_task_may_come_from_standard_input() -> None:
    with served([Say("Done.")]) as server:
        command = [*PROGRAM, *at(server)]
        command[command.index("Do it.")] = "-"
        done = subprocess.run(
            command, input="From a pipe.\n", capture_output=True, text=True, timeout=TIMEOUT, env=environment()
        )
        assert done.returncode == 0, done.stderr
        assert server.requests[0].body["messages"][-1]["content"].startswith("From a pipe.\n")


class TestExpectedErrors:
    """One clear line with the remedy, no traceback."""

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["run", "x"], ["--model", "OPENAI_MODEL"]),
            (["run", "x", "--model", "m"], ["OPENAI_API_KEY", "--base-url"]),
            (["run", " ", "--model", "m"], ["task is empty"]),
            (["run", "x", "--model", "m", "--base-url", "nonsense"], ["--base-url", "http"]),
            ([*GIVEN, "--profile", "wild"], ["wild", "production"]),
            ([*GIVEN, "--tools", "hammer"], ["hammer", "files"]),
            ([*GIVEN, "--tools", "files", "--root", "/nowhere"], ["--root"]),
            ([*GIVEN, "--allow-host", "a.test"], ["--tools http"]),
            (
                [*GIVEN, "--tools", "http", "--allow-host", "http://a/b"],
                ["--allow-host"],
            ),
            ([*GIVEN, "--require", "sing"], ["sing", "--tools"]),
            ([*GIVEN, "--max-turns", "0"], ["max_turns"]),
            ([*GIVEN, "--plan", "--max-turns", "3"], ["max_turns=3", "no room for a plan"]),
            ([*GIVEN, "--context-window", "0"], ["--context-window must be at least 1"]),
            ([*GIVEN, "--memory", "/nowhere/notes.db"], ["--memory", "/nowhere/notes.db", "name a file"]),
            ([*GIVEN, "--first-chunk-timeout", "0"], ["--first-chunk"]),
            (
                [*GIVEN, "--events", "/nowhere/e.jsonl"],
                ["--events", "No such"],
            ),
        ],
    )
    def test_before_the_run(self, arguments: list[str], said: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert main(arguments) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("watchkeeper: ")
        assert shown.err.count("\n") == 1
        for words in said:
            assert words in shown.err

    def test_nobody_listens(self, capsys: pytest.CaptureFixture[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        assert main(["run", "x", "--model", "m", "--base-url", f"http://127.0.0.1:{port}/v1"]) == 1
        shown = capsys.readouterr()
        assert "failed (model_unavailable)" in shown.out
        assert shown.err.count("\n") == 1
        assert f"http://127.0.0.1:{port} did not answer" in shown.err
        assert "--base-url" in shown.err
        assert "Traceback" not in shown.out + shown.err

    def test_the_disk_is_full(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The run goes on, and its exit code says that not all is as asked."""
        if not Path("/dev/full").exists():
            pytest.skip("there is no /dev/full here")
        assert run_against([Say("Done.")], "--events", "/dev/full") == 1
        shown = capsys.readouterr()
        assert "completed (answer)" in shown.out
        assert shown.err == "watchkeeper: --events: not all events could be written: No space left on device\n"


@pytest.mark.parametrize("form", [["--json"], []])
def test_a_reader_that_leaves_ends_the_run(form: list[str]) -> None:
    """What nobody sees is not paid for: `watchkeeper run … | head -1`."""
    with served(lambda body, n: CallTools(("sleep", {"seconds": 0.01 * n}))) as server:
        command = [*PROGRAM, *at(server, "--tools", "clock", "--max-turns", "1000", *form)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        assert process.stdout is not None
        first = process.stdout.readline()
        process.stdout.close()
        code = process.wait(TIMEOUT)
        assert process.stderr is not None
        errors = process.stderr.read().decode()
        process.stderr.close()
    assert b"run_started" in first if form else first.startswith(b"run r")
    assert code == 4
    assert ("output_closed" in errors) == bool(form)
    assert "Traceback" not in errors


def test_stdin_and_python_are_left_alone() -> None:
    """The command installs signal handlers only for its time."""
    import signal

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert run_against([Say("Done.")]) == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert sys.stdin is not None


@pytest.mark.parametrize("backend", BACKENDS)
def test_on_a_terminal_it_is_shown_in_place(backend: str, folder: Path) -> None:
    main_end, its_end = pty.openpty()
    with served([CallTools(("read_file", {"path": "a.txt"}), text=EVIL), Say(f"Done. {EVIL}")]) as server:
        command = [*PROGRAM, *at(server, "--tools", "files", "--root", str(folder), "--backend", backend)]
        process = subprocess.Popen(
            command, stdin=its_end, stdout=its_end, stderr=its_end, env=environment(TERM="xterm", COLUMNS="100")
        )
        os.close(its_end)
        shown = b""
        try:
            while piece := os.read(main_end, 65536):
                shown += piece
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(main_end)
        assert process.wait(TIMEOUT) == 0
    text = shown.decode()
    assert "turn 1 of 20: asks the model" in text
    assert "\x1b[32mcompleted (answer)" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") > 0  # the cursor is there again
    assert "\x1b]0;title" not in text
    assert "\x1b[31mred" not in text
    assert "Traceback" not in text
