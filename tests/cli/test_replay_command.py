"""``watchkeeper replay``: what it would have done, in words and as JSON; and files of every kind of brokenness."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from recording import recorded, step, write
from serving import PROGRAM, TIMEOUT, environment, served

from watchkeeper.cli import judging, main, sharing
from watchkeeper.cli import recordings as reading
from watchkeeper.messages import Nudged, RunStarted, Stopped, decode_event, encode_event
from watchkeeper.profiles import PROFILES
from watchkeeper.testing.server import CallTools, Say

LOOP = [step(args={"n": 1}, result="first"), *[step("ask", {"q": "?"})] * 12]
COLUMNS = [
    "id",
    "outcome",
    "label",
    "onset",
    "nudged_at",
    "blocked_at",
    "stopped_at",
    "detector",
    "pattern",
    "calls_saved",
    "calls",
    "source",
    "model",
    "began_at",
    "calls_since",
]


def rows(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> list[dict[str, Any]]:
    """The objects of ``replay --json``; the last is the summary."""
    assert main(["replay", "--json", *map(str, arguments)]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of our own: a run that repeated a call, was nudged, blocked and stopped."""
    file = tmp_path / "own.jsonl"
    with served(lambda body, n: CallTools(("read_file", {"path": "no.txt"}))) as server:
        more = ["--tools", "files", "--root", str(tmp_path), "--events", str(file)]
        assert main(["run", "x", "--model", "m", "--base-url", server.base_url, *more]) == 3
    return file


class TestRecordedRuns:
    def test_one_object_a_run_and_last_a_summary(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = write(tmp_path / "a.jsonl", [recorded(*LOOP), recorded(step(), run="run-2", outcome="success")])
        first, second, summary = rows(capsys, file)
        assert list(first) == COLUMNS
        assert first == {
            "id": "run-1",
            "outcome": "fail",
            "label": None,
            "onset": None,
            "nudged_at": 3,
            "blocked_at": 5,
            "stopped_at": 8,
            "detector": "equal",
            "pattern": "equal call, equal result",
            "calls_saved": 7,
            "calls": 13,
            "source": "a",
            "model": "m",
            "began_at": 1,
            "calls_since": 8,
        }
        assert second["outcome"] == "success"
        assert [second[name] for name in COLUMNS[2:]] == [None] * 7 + [0, 1, "a", "m", None, None]
        assert (summary["runs"], summary["good_runs"], summary["good_stopped"], summary["failed_stopped"]) == (
            2,
            1,
            0,
            1,
        )
        assert (summary["calls"], summary["calls_saved"], summary["calls_saved_share"]) == (14, 7, 0.5)

    def test_in_words(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = write(tmp_path / "a.jsonl", [recorded(*LOOP), recorded(step(), run="run-2", outcome="success")])
        assert main(["replay", str(file)]) == 0
        shown = capsys.readouterr()
        assert shown.out.splitlines() == [
            "run-1  fail, 13 calls: nudged at call 3, blocked at call 5, stopped at call 8 "
            "(equal: equal call, equal result, ask); 7 calls saved",
            "2 runs, 14 calls: 1 nudged, 1 blocked, 1 stopped; 7 calls saved (50.0%)",
            "of 1 good run: 0 nudged, 0 blocked, 0 stopped",
        ]
        assert shown.err == ""
        assert main(["replay", str(file), "--all"]) == 0
        assert "run-2  success, 1 call: nothing" in capsys.readouterr().out

    def test_labels(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        labels = tmp_path / "labels.csv"
        labels.write_text("id,stuck,onset_step,note\nrun-1,yes,1,loop\nrun-2,no,,\nrun-3,ambiguous,0,\n")
        file = write(
            tmp_path / "a.jsonl",
            [
                recorded(*LOOP),
                recorded(step(), run="run-2"),
                recorded(*LOOP, run="run-3"),
                recorded(step(), run="run-4"),
            ],
        )
        *found, summary = rows(capsys, file, "--labels", labels)
        assert [(row["label"], row["onset"]) for row in found] == [
            ("yes", 1),
            ("no", None),
            ("ambiguous", 0),
            (None, None),
        ]
        assert (summary["stuck_labels"], summary["stuck_caught"], summary["median_delay_calls"]) == (1, 1, 7)
        assert (summary["healthy_labels"], summary["healthy_stopped"]) == (1, 0)

    def test_a_stop_before_the_onset_catches_nothing(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        labels = tmp_path / "labels.csv"
        labels.write_text("id,stuck,onset_step\nrun-1,yes,12\n")
        *_, summary = rows(capsys, write(tmp_path / "a.jsonl", [recorded(*LOOP)]), "--labels", labels)
        assert (summary["stuck_caught"], summary["median_delay_calls"]) == (0, None)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("id,stuck\nx,yes\n", "onset_step is missing in line 1"),
            ("id,stuck,onset_step\nx,yes,1\ny,perhaps,2\n", "labels.csv:3: stuck must be"),
            ("id,stuck,onset_step\nx,yes,first\n", "labels.csv:2: onset_step must be"),
            ("id;stuck;onset_step\nx;yes;1\n", "its columns are separated by semicolons; commas are wanted"),
            ("id\tstuck\tonset_step\nx\tyes\t1\n", "its columns are separated by tabs; commas are wanted"),
        ],
    )
    def test_broken_labels(self, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        labels = tmp_path / "labels.csv"
        labels.write_text(text)
        file = write(tmp_path / "a.jsonl", [recorded(step())])
        assert main(["replay", str(file), "--labels", str(labels)]) == 2
        assert said in capsys.readouterr().err

    def test_labels_of_runs_that_are_not_there_are_said(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Of runs that the filters leave out it is known that they are there."""
        labels = tmp_path / "labels.csv"
        labels.write_text("id,stuck,onset_step\nrun-1,yes,1\nrun-2,no,\nrun-3,no,\nrun/3,no,\n")
        file = write(tmp_path / "a.jsonl", [recorded(*LOOP), recorded(step(), run="run-2", source="other")])
        for options in ([], ["--only", "run-1"]):
            assert main(["replay", "--json", str(file), "--labels", str(labels), *options]) == 0
            shown = capsys.readouterr()
            assert shown.err == "watchkeeper: --labels: 2 labels of runs that are not in what was read: run-3, run/3\n"
            assert json.loads(shown.out.splitlines()[-1])["labels_without_run"] == 2

    def test_labels_with_a_mark_of_utf_8(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        labels = tmp_path / "labels.csv"
        labels.write_text("id,stuck,onset_step\nrun-1,yes,1\n", encoding="utf-8-sig")
        *_, summary = rows(capsys, write(tmp_path / "a.jsonl", [recorded(*LOOP)]), "--labels", labels)
        assert summary["stuck_labels"] == 1

    def test_an_id_is_shown_whole(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """It is what ``--only`` and ``--run`` take."""
        name = "task/" + "x" * 300
        runs = [recorded(*LOOP, run=name, outcome="success"), recorded(step(), run="other")]
        file = str(write(tmp_path / "a.jsonl", runs))
        assert main(["replay", file]) == 0
        assert capsys.readouterr().out.startswith(f"{name}  success")
        assert main(["stats", file]) == 0
        assert capsys.readouterr().out.startswith(f"{name}  success")
        assert main(["case", file, "--at", "0"]) == 2
        assert f"name one with --run: {name}, other" in capsys.readouterr().err
        assert main(["replay", file, "--report", str(tmp_path / "page.html")]) == 0
        assert f"<h3>{name}</h3>" in (tmp_path / "page.html").read_text("utf-8")

    @pytest.mark.parametrize(
        "half",
        [b"\\ud83d", b"\\uDC00", b"\xed\xa0\xbd", b"\\ud83d \\ud83d\\ude00"],
        ids=["high", "low", "bytes", "before a whole one"],
    )
    def test_half_a_character_is_read(self, half: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        runs = [json.dumps(recorded(*LOOP[:1], *[step("ask", {"q": "HALF"}, "a HALF one")] * 4)).encode()]
        file = write(tmp_path / "a.jsonl", [run.replace(b"HALF", half) + b"\n" for run in runs])
        row, _ = rows(capsys, file)
        assert (row["id"], row["calls"], row["nudged_at"]) == ("run-1", 5, 3)
        assert main(["case", str(file), "--at", "3"]) == 0
        made = capsys.readouterr().out
        assert "a \\ufffd" in made
        assert ("\\U0001f600" in made) == (b"\\ude00" in half)

    def test_a_profile_to_try(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """``loopagent`` refuses the second proposal of an equal call: the guard of the profile counts as well."""
        file = write(tmp_path / "a.jsonl", [recorded(*LOOP)])
        row, summary = rows(capsys, file, "--profile", "loopagent")
        assert (row["blocked_at"], row["nudged_at"]) == (2, 3)
        assert row["calls_saved"] == 11
        row, summary = rows(capsys, file, "--profile", "production")
        assert row["nudged_at"] > 3
        assert (row["blocked_at"], row["stopped_at"]) == (None, None)
        assert summary["blocked"] == 0
        assert main(["replay", str(file), "--profile", "wild"]) == 2
        assert "--profile" in capsys.readouterr().err

    def test_denied_tools(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = write(tmp_path / "a.jsonl", [recorded(step(), step("run_command"))])
        row, _ = rows(capsys, file, "--profile", "safe-loop")
        assert (row["blocked_at"], row["detector"], row["calls_saved"]) == (1, "guard:policy", 1)

    def test_stable_tools_are_answered_from_memory(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        again = [step("read", {"p": 1}, "a"), step("list", {"p": 1}, "b"), step("read", {"p": 1}, "a")]
        file = write(tmp_path / "a.jsonl", [recorded(*again)])
        row, _ = rows(capsys, file, "--stable", "read,list")
        assert (row["calls_saved"], row["blocked_at"]) == (1, None)
        row, _ = rows(capsys, file, "--stable", "read")
        assert row["calls_saved"] == 0  # list is not known to read only: it may have changed everything

    def test_polls_are_left_alone(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        row, _ = rows(capsys, write(tmp_path / "a.jsonl", [recorded(*LOOP)]), "--poll", "ask")
        assert row["stopped_at"] is None

    def test_a_block_holds_for_calls_that_differ_in_volatile_parts(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As it does in a run: in the record they gave something new after the block, and would never have been run."""
        ids = [f"{n * 0x9E3779B97F4A7C15 % 2**64:016x}" for n in range(1, 13)]
        asked = [step("ask", {"q": "state", "request_id": one}, "closed") for one in ids]
        row, _ = rows(capsys, write(tmp_path / "a.jsonl", [recorded(*asked[:8])]), "--policy", self.mild(tmp_path))
        assert row["blocked_at"] is not None
        fresh = [{**one, **step(result=f"new {n}", tool="ask", args=one["args"])} for n, one in enumerate(asked)]
        after = row["blocked_at"] + 1
        file = write(tmp_path / "b.jsonl", [recorded(*asked[:after], *fresh[after:])])
        row, _ = rows(capsys, file, "--policy", self.mild(tmp_path))
        assert row["calls_saved"] == len(asked) - after

    def mild(self, folder: Path) -> Path:
        """A policy that blocks and never stops."""
        policy = folder / "mild.toml"
        policy.write_text('[thresholds]\nequal = { stop = "off" }\nsimilar = { stop = "off" }\n')
        return policy

    def test_a_blocked_call_goes_on_counting(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """In the record it gave something new after the block; it would never have been run."""
        changed = [*LOOP[:6], *[step("ask", {"q": "?"}, f"new {i}") for i in range(6)]]
        row, _ = rows(capsys, write(tmp_path / "a.jsonl", [recorded(*changed)]))
        assert (row["blocked_at"], row["stopped_at"]) == (5, 8)

    def test_gzip_and_folders(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = tmp_path / "runs"
        (folder / "deep").mkdir(parents=True)
        write(folder / "b.jsonl.gz", [recorded(*LOOP, run="b")])
        write(folder / "deep" / "c.jsonl", [recorded(step(), run="c")])
        (folder / "README.md").write_text("not a recording")
        one = write(tmp_path / "a.gz", [recorded(step(), run="a")])
        assert [row["id"] for row in rows(capsys, one, folder)[:-1]] == ["a", "b", "c"]


class TestFilters:
    RUNS = (
        recorded(*LOOP, run="tau/1", source="tau", model="gpt-9"),
        recorded(step(), run="tau/2", source="tau", outcome="success"),
        recorded(step(), run="code/1", source="code", model="gpt-9", outcome="unknown"),
        recorded(*[step("sing", error=True, args={"n": n}) for n in range(6)], run="code/2", source="code"),
    )

    @pytest.mark.parametrize(
        ("options", "ids"),
        [
            (["--only", "tau/*"], ["tau/1", "tau/2"]),
            (["--only", "*/2"], ["tau/2", "code/2"]),
            (["--only", "tau/1,code/1"], ["tau/1", "code/1"]),
            (["--only", "tau/[1]"], ["tau/1"]),
            (["--source", "code"], ["code/1", "code/2"]),
            (["--model", "gpt-*"], ["tau/1", "code/1"]),
            (["--outcome", "good"], ["tau/2"]),
            (["--outcome", "failed"], ["tau/1", "code/2"]),
            (["--outcome", "good,unknown"], ["tau/2", "code/1"]),
            (["--source", "tau", "--outcome", "failed"], ["tau/1"]),
        ],
    )
    def test_runs_that_do_not_pass_are_not_there(
        self, options: list[str], ids: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        *found, summary = rows(capsys, write(tmp_path / "a.jsonl", self.RUNS), *options)
        assert [row["id"] for row in found] == ids
        assert summary["runs"] == len(ids)

    @pytest.mark.parametrize(
        ("options", "ids"),
        [
            (["--acted"], ["tau/1", "code/2"]),
            (["--detector", "equal"], ["tau/1"]),
            (["--detector", "fail*"], ["code/2"]),
            (["--detector", "guard:*"], []),
        ],
    )
    def test_what_is_named_can_be_less_than_what_counts(
        self, options: list[str], ids: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        *found, summary = rows(capsys, write(tmp_path / "a.jsonl", self.RUNS), *options)
        assert [row["id"] for row in found] == ids
        assert summary["runs"] == 4

    @pytest.mark.parametrize(
        ("pattern", "ids"),
        [
            ("fix[a-b]#1", ["fix[a-b]#1"]),
            ("fix[a-b]*", ["fix[a-b]#1", "fixa", "fixb#2"]),
            ("*[x", ["open[x"]),
            ("open[x", ["open[x"]),
            ("*]#1", ["fix[a-b]#1"]),
        ],
    )
    def test_brackets_stand_for_themselves_too(
        self, pattern: str, ids: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runs = [recorded(step(), run=name) for name in ("fix[a-b]#1", "fixa", "fixb#2", "fixc", "open[x")]
        *found, _ = rows(capsys, write(tmp_path / "a.jsonl", runs), "--only", pattern)
        assert [row["id"] for row in found] == ids

    def test_own_logs_pass_by_their_end(self, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        assert rows(capsys, log, "--outcome", "stopped", "--model", "m")[-1]["runs"] == 1
        assert rows(capsys, log, "--outcome", "good", code=1)[-1]["runs"] == 0

    @pytest.mark.parametrize("command", ["replay", "stats"])
    @pytest.mark.parametrize("jobs", ["1", "2"])
    def test_that_none_passes_is_said(
        self, command: str, jobs: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = write(tmp_path / "a.jsonl", self.RUNS)
        capsys.readouterr()
        assert main([command, str(file), str(log), "--only", "nothing", "--jobs", jobs]) == 1
        assert capsys.readouterr().err == (
            "watchkeeper: none of 5 runs passes --only, --source, --model and --outcome\n"
        )


class TestPolicies:
    def test_what_would_have_stopped_it_when_and_what_it_would_have_saved(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        policy = tmp_path / "strict.toml"
        policy.write_text("[thresholds]\nequal = [2, 3, 4]\n")
        file = write(tmp_path / "a.jsonl", [recorded(*LOOP), recorded(*LOOP[:5], run="run-2", outcome="success")])
        first, second, summary = rows(capsys, file, "--policy", policy)
        assert (first["nudged_at"], first["blocked_at"], first["stopped_at"], first["calls_saved"]) == (2, 3, 4, 9)
        assert first["default"] == {"nudged_at": 3, "blocked_at": 5, "stopped_at": 8, "calls_saved": 7}
        assert (second["stopped_at"], second["default"]["stopped_at"]) == (4, None)
        assert summary["against_default"] == {
            "now_nudged": 0,
            "no_longer_nudged": 0,
            "now_blocked": 1,
            "no_longer_blocked": 0,
            "now_stopped": 1,
            "no_longer_stopped": 0,
            "calls_saved_more": 3,
        }
        assert main(["replay", str(file), "--policy", str(policy)]) == 0
        shown = capsys.readouterr().out
        assert "[by default: nudged at call 3, blocked at call 5, stopped at call 8]" in shown
        assert "against the default profile: 0 more and 0 fewer nudged" in shown

    def test_runs_that_are_no_longer_stopped_are_named(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        policy = tmp_path / "mild.toml"
        policy.write_text('mode = "observe"\n')
        assert main(["replay", str(write(tmp_path / "a.jsonl", [recorded(*LOOP)])), "--policy", str(policy)]) == 0
        shown = capsys.readouterr().out
        assert "run-1  fail, 13 calls: nothing [by default: nudged at call 3" in shown
        assert "0 more and 1 fewer stopped" in shown

    def test_declarations_of_tools(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """With a loop key calls that differ elsewhere are equal: seen, but no guard lets one stand in for another."""
        policy = tmp_path / "keys.toml"
        policy.write_text('refuse_equal = 2\n[tools.look]\nloop_key = "path"\n')
        steps = [step(args={"path": "a", "try": n}) for n in range(9)]
        row, _ = rows(capsys, write(tmp_path / "a.jsonl", [recorded(*steps)]), "--policy", policy)
        assert (row["nudged_at"], row["blocked_at"], row["detector"]) == (2, 4, "equal")

    def test_rules_are_tried_and_what_would_ask_is_denied_because_nobody_was_there(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        policy = tmp_path / "rules.toml"
        policy.write_text(
            '[[rules]]\ndecision = "deny"\ntool = "look"\nunless = { path = "notes/*" }\n'
            '[[rules]]\ndecision = "ask"\ntool = "sing"\n'
        )
        kept, denied, asked = (
            step(args={"path": "notes/a"}),
            step(args={"path": "src/a"}),
            step("sing", args={"path": "notes/b"}),
        )
        file = write(tmp_path / "a.jsonl", [recorded(kept, denied, run="denied"), recorded(kept, asked, run="asked")])
        *found, _ = rows(capsys, file, "--policy", policy)
        assert [(row["blocked_at"], row["detector"], row["calls_saved"]) for row in found] == [
            (1, "guard:policy", 1)
        ] * 2

    def test_a_scope_is_tried_on_logs_which_say_what_calls_touch(
        self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        policy = tmp_path / "scope.toml"
        policy.write_text(f'[scope]\nreads = ["shared:{tmp_path.resolve() / "notes"}"]\n')
        found, _ = rows(capsys, log, "--policy", policy)
        assert (found["blocked_at"], found["detector"]) == (0, "guard:scope")
        policy.write_text(f'[scope]\nreads = ["shared:{tmp_path.resolve()}"]\n')
        found, _ = rows(capsys, log, "--policy", policy)
        assert found["detector"] == "equal"
        other = write(tmp_path / "a.jsonl", [recorded(*LOOP)])
        assert main(["replay", "--json", str(other), "--policy", str(policy)]) == 0
        said = capsys.readouterr()
        assert "scope: tried on logs of runs alone" in said.err
        assert "guard:scope" not in said.out

    def test_what_cannot_be_tried_is_said(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        policy = tmp_path / "p.toml"
        policy.write_text("interval = 2\n")
        file = write(tmp_path / "a.jsonl", [recorded(step())])
        assert main(["replay", str(file), "--policy", str(policy)]) == 0
        assert "interval: not tried" in capsys.readouterr().err

    def test_with_a_profile_it_would_be_said_twice(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        policy = tmp_path / "p.toml"
        policy.touch()
        assert main(["replay", "x.jsonl", "--policy", str(policy), "--profile", "demo"]) == 2
        assert "exclude each other" in capsys.readouterr().err


class TestJobs:
    """Whatever the number of processes: the same output, in the same order."""

    def mixed(self, log: Path, tmp_path: Path) -> list[Path]:
        runs = [recorded(*LOOP, run=f"r{n}", outcome=("success", "fail")[n % 2]) for n in range(150)]
        lines = log.read_bytes().splitlines(keepends=True)
        broken = [*runs[:3], "nonsense\n", *runs[3:6], json.dumps(runs[7])[:50]]
        return [
            write(tmp_path / "a.jsonl", runs),
            write(tmp_path / "b.jsonl.gz", [recorded(step(args={"n": n}), run=f"z{n}") for n in range(20)]),
            log,
            write(tmp_path / "broken.jsonl", broken),
            write(tmp_path / "both.jsonl", [runs[0], *lines[:20], runs[1], *lines[20:]]),
            tmp_path / "nowhere.jsonl",
        ]

    def test_give_equal_output(self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        files = list(map(str, self.mixed(log, tmp_path)))
        capsys.readouterr()
        for options in (["--json"], ["--all"]):
            assert main(["replay", *options, "--jobs", "1", *files]) == 1
            one = capsys.readouterr()
            assert main(["replay", *options, "--jobs", "3", *files]) == 1
            assert capsys.readouterr() == one
            assert "broken.jsonl:4: " in one.err

    def test_small_inputs_are_not_worth_a_process(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = write(tmp_path / "a.jsonl", [recorded(*LOOP)])
        monkeypatch.setattr(sharing, "cores", lambda: 8)
        monkeypatch.delattr(sharing, "Crew")
        assert main(["replay", str(file)]) == 0

    def test_none_is_too_few(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["replay", "x", "--jobs", "0"]) == 2
        assert "--jobs must be at least 1" in capsys.readouterr().err


class TestOwnLogs:
    def test_are_judged_as_they_were(self, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        row, summary = rows(capsys, log)
        assert row["outcome"] == "stopped"
        assert (row["nudged_at"], row["blocked_at"], row["stopped_at"], row["calls_saved"]) == (2, 4, 7, 0)
        assert "differs" not in row
        assert summary["differing"] == 0

    @pytest.mark.parametrize("profile", sorted(PROFILES))
    def test_equal_facts_give_equal_verdicts(
        self, profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Batches of every kind of call, good and bad: judged anew they lead to what the watchdog said then."""
        monkeypatch.chdir(tmp_path)  # a run that is handed over leaves a folder there
        pool: list[tuple[str, dict[str, Any]]] = [
            ("read_file", {"path": "no.txt"}),
            ("read_file", {"path": "../outside"}),
            ("read_file", {"colour": "red"}),
            ("write_file", {"path": "b.txt", "content": "z"}),
            ("calculate", {"expression": "1 / 0"}),
            ("calculate", {"expression": "1 + 1"}),
            ("sing", {}),
        ]
        for seed in range(4):
            chance = random.Random(seed)
            some = chance.sample(pool, chance.randint(1, 3))

            def script(body: Any, n: int, chance: random.Random = chance, some: Any = some) -> CallTools:
                return CallTools(*(chance.choice(some) for _ in range(chance.choice([1, 1, 2, 3]))))

            file = tmp_path / f"{seed}.jsonl"
            with served(script) as server:
                more = ["--tools", "files,calc", "--root", str(tmp_path), "--profile", profile, "--events", str(file)]
                assert main(["run", "x", "--model", "m", "--base-url", server.base_url, *more]) in (3, 6)
            capsys.readouterr()
            row, summary = rows(capsys, file)
            assert "differs" not in row, row
            assert summary["differing"] == 0

    def test_differences_are_named(self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        (row, summary) = rows(capsys, log, "--profile", "production")
        assert summary["differing"] == 1
        assert len(row["differs"]) >= 3
        assert main(["replay", str(log), "--profile", "production"]) == 0
        assert "differs: at event" in capsys.readouterr().out

    def test_a_verdict_that_was_tampered_with_differs(
        self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        events = [decode_event(line) for line in log.read_bytes().splitlines()]
        other = next(i for i, event in enumerate(events) if isinstance(event, Nudged))
        events[other] = msgspec.structs.replace(events[other], cause=1)
        file = write(tmp_path / "other.jsonl", [encode_event(event) + b"\n" for event in events])
        capsys.readouterr()
        row, _ = rows(capsys, file)
        assert row["differs"][0] == "at event 1 (equal): the log has nudge, anew nothing"

    def test_two_runs_in_one_file(self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        lines = log.read_bytes().splitlines(keepends=True)
        name = decode_event(lines[0]).run.encode()
        twin = [line.replace(name, b"twin") for line in lines]
        mixed = [line for pair in zip(lines, twin, strict=True) for line in pair]
        capsys.readouterr()
        found = rows(capsys, write(tmp_path / "mixed.jsonl", mixed))
        assert [row["stopped_at"] for row in found[:-1]] == [7, 7]

    def test_a_log_that_was_stopped_by_silence_keeps_its_verdict(
        self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Its clock is not in the record."""
        lines = log.read_text("utf-8").splitlines(keepends=True)
        stop = next(i for i, line in enumerate(lines) if '"type":"stopped"' in line)
        event = decode_event(lines[stop])
        assert isinstance(event, Stopped)
        finding = msgspec.structs.replace(event.verdict.finding, detector="silence", pattern="nothing for 120 s")
        silent = msgspec.structs.replace(event, verdict=msgspec.structs.replace(event.verdict, finding=finding))
        ended = next(i for i, line in enumerate(lines) if '"type":"call_ended"' in line)
        kept = [*lines[: ended + 1], encode_event(msgspec.structs.replace(silent, n=ended + 2)).decode() + "\n"]
        capsys.readouterr()
        row, _ = rows(capsys, write(tmp_path / "silent.jsonl", kept))
        assert (row["detector"], row["stopped_at"], row["calls_saved"]) == ("silence", 0, 0)


class TestBrokenFiles:
    """A clear error with file and line, the rest still read, exit code 1 at the end."""

    def check(
        self,
        file: Path,
        capsys: pytest.CaptureFixture[str],
        said: str,
        ids: Sequence[str] = ("good-1", "good-2"),
        code: int = 1,
    ) -> str:
        assert main(["replay", "--json", str(file)]) == code
        shown = capsys.readouterr()
        found = [json.loads(line) for line in shown.out.splitlines()]
        assert [row["id"] for row in found[:-1]] == list(ids)
        assert said in shown.err, shown.err
        assert "Traceback" not in shown.err
        return shown.err

    GOOD = (recorded(step(), run="good-1"), recorded(step(), run="good-2"))

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("not json\n", ":2: "),
            ('{"id": "x", "steps": [{"tool": 7}]}\n', "Expected `str`, got `int` - at `$.steps[0].tool`"),
            ('{"id": "x", "steps": 3}\n', "at `$.steps`"),
            ('{"hello": "world"}\n', "neither an event"),
            ("[1, 2, 3]\n", ":2: "),
            ('{"type": "call_ended", "n": 1}\n', ":2: "),
            ('{"type": "run_started", "n": "one", "run": "r", "at": 0, "t": 0, "agent": "a", "task": "t"}\n', "$.n"),
            ('{"a":' * 3000 + "1" + "}" * 3000 + "\n", ":2: "),
            (b'{"id": "\xff\xfe", "steps": []}\n', ":2: "),
            (b"\x00\x01\x02\n", ":2: "),
        ],
    )
    def test_a_line_that_is_not_ours(
        self, line: str | bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = write(tmp_path / "a.jsonl", [self.GOOD[0], line, self.GOOD[1]])
        self.check(file, capsys, said)

    def test_a_foreign_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = write(tmp_path / "a.jsonl", ['{"hello": "world"}\n'] * 500)
        errors = self.check(file, capsys, "and 497 more problems like these", ids=())
        assert errors.count("\n") == 4

    def test_a_file_that_is_cut_off(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = write(tmp_path / "a.jsonl", [*self.GOOD, json.dumps(recorded(*LOOP))[:200]])
        self.check(file, capsys, f"{file}:3: the file ends in the middle of this line")

    def test_gzip_that_is_cut_off(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        noise = [recorded(step(result=str(n) * 50), run=f"r{n}") for n in range(2000)]
        file = write(tmp_path / "a.jsonl.gz", [*self.GOOD, *noise])
        file.write_bytes(file.read_bytes()[:-2000])
        assert main(["replay", "--json", str(file)]) == 1
        shown = capsys.readouterr()
        assert "cut off" in shown.err
        assert f"{file}:" in shown.err
        assert json.loads(shown.out.splitlines()[0])["id"] == "good-1"
        assert json.loads(shown.out.splitlines()[-1])["runs"] > 2

    def test_gzip_that_is_damaged(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "a.gz"
        data = bytearray(gzip.compress(json.dumps(self.GOOD[0]).encode() * 200))
        data[40:60] = b"\xff" * 20
        file.write_bytes(data)
        self.check(file, capsys, "damaged", ids=())

    def test_what_only_looks_like_gzip(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "a.gz"
        file.write_bytes(b"\x1f\x8b and then something else")
        self.check(file, capsys, str(file), ids=())

    def test_a_line_without_end(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reading, "MAX_LINE", 1 << 20)
        huge = '{"id": "huge", "steps": "' + "x" * (3 << 20) + '"}\n'
        file = write(tmp_path / "a.jsonl", [self.GOOD[0], huge, self.GOOD[1]])
        self.check(file, capsys, f"{file}:2: the line is longer than 1 MB")

    def test_a_huge_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """It is read line by line, whatever its size."""
        long = recorded(*[step(args={"n": n}, result=str(n)) for n in range(5000)], run="long")
        file = write(tmp_path / "a.jsonl", [self.GOOD[0], *[long] * 5, self.GOOD[1]])
        *found, summary = rows(capsys, file)
        assert len(found) == 7
        assert summary["calls"] == 25_002

    def test_a_newer_version(self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """What it does not know is passed over, and all the rest is read; but it may not have been understood."""
        lines = log.read_text("utf-8").splitlines(keepends=True)
        started = decode_event(lines[0])
        assert isinstance(started, RunStarted)
        lines[0] = (
            encode_event(msgspec.structs.replace(started, version=99))
            .decode()
            .replace('"version":99', '"version":99,"novelty":{"a":1}')
            + "\n"
        )
        new = {"type": "mood_changed", "n": 2, "run": started.run, "at": 0.0, "t": 0.0, "mood": "better"}
        shifted = []
        for line in lines[1:]:
            event = decode_event(line)
            shifted.append(encode_event(msgspec.structs.replace(event, n=event.n + 1)) + b"\n")
        file = write(tmp_path / "new.jsonl", [lines[0], new, *shifted])
        capsys.readouterr()
        errors = self.check(file, capsys, "written by a newer version (format 99", ids=(started.run,))
        assert f"{file}:2: an event of an unknown kind (mood_changed): passed over" in errors
        assert errors.count("\n") == 2

    @pytest.mark.parametrize("command", ["replay", "stats"])
    @pytest.mark.parametrize("jobs", ["1", "2"])
    def test_events_of_unknown_kinds_are_counted(
        self, command: str, jobs: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run = decode_event(log.read_bytes().splitlines()[0]).run
        last = log.read_bytes().count(b"\n")
        new = [{"type": "mood", "n": last + n, "run": run, "at": 0.0, "t": 0.0} for n in range(1, 6)]
        ended = log.read_bytes().splitlines(keepends=True)
        file = write(tmp_path / "new.jsonl", [*ended[:-1], *[{**one, "n": one["n"] - 1} for one in new]])
        capsys.readouterr()
        assert main([command, "--json", str(file), "--jobs", jobs]) == 1
        shown = capsys.readouterr()
        assert f"{file}:{last}: an event of an unknown kind (mood): passed over" in shown.err
        assert "and 2 more problems like these" in shown.err
        assert json.loads(shown.out.splitlines()[-1])["problems"] == 5

    def test_missing_events(self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        lines = log.read_bytes().splitlines(keepends=True)
        run = decode_event(lines[0]).run
        file = write(tmp_path / "gap.jsonl", [*lines[:10], *lines[14:]])
        capsys.readouterr()
        self.check(file, capsys, f"{file}:11: events 11 to 14 of run {run} are missing", ids=(run,))

    def test_a_log_without_its_end(self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        lines = log.read_bytes().splitlines(keepends=True)
        file = write(tmp_path / "cut.jsonl", [*lines[:-3], lines[-3][:25]])
        capsys.readouterr()
        assert main(["replay", "--json", str(file)]) == 1
        row = json.loads(capsys.readouterr().out.splitlines()[0])
        assert (row["outcome"], row["stopped_at"]) == ("unknown", 7)
        assert "differs" not in row  # it may lack its last verdicts

    def test_another_format_of_runs_is_not_judged(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Steps without our fields would all be equal, and a good run a loop."""
        other = {"id": "theirs", "outcome": "success", "steps": [{"action": "look", "observation": "x"}] * 20}
        file = write(tmp_path / "a.jsonl", [self.GOOD[0], other, self.GOOD[1]])
        self.check(file, capsys, f"{file}:2: run theirs is not in the format of recorded runs: its step 0 has no tool")

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"<!DOCTYPE html>\n<html></html>\n", ":1: this is HTML or XML"),
            (b'[{"id": "x", "steps": []}]\n', ":1: a JSON array, but one object a line is wanted (jq -c '.[]'"),
            (b'{\n  "id": "x"\n}\n', ":1: JSON over several lines"),
            (b"id,tool,result\n1,look,x\n", ":1: this is no JSON; it looks like a table (CSV)"),
            (b"PK\x03\x04" + bytes(200), ":1: the file is a zip archive, which is not read"),
            (bytes(range(256)) * 9, ":1: the file is binary, which is not read"),
        ],
    )
    def test_files_of_other_kinds(
        self, content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = tmp_path / "other.jsonl"
        other.write_bytes(content)
        good = write(tmp_path / "x.jsonl", self.GOOD)
        assert main(["replay", "--json", str(other), str(good)]) == 1
        shown = capsys.readouterr()
        assert f"{other}{said}" in shown.err
        assert [json.loads(line).get("id") for line in shown.out.splitlines()] == ["good-1", "good-2", None]

    def test_a_mark_of_utf_8_is_no_harm(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = write(tmp_path / "a.jsonl", [b"\xef\xbb\xbf" + json.dumps(self.GOOD[0]).encode() + b"\n", self.GOOD[1]])
        self.check(file, capsys, "", code=0)

    def test_runs_that_never_end_are_bounded(
        self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(judging, "MAX_OPEN", 3)
        first = log.read_bytes().splitlines(keepends=True)[0]
        name = decode_event(first).run.encode()
        file = write(tmp_path / "open.jsonl", [first.replace(name, b"run-%d" % n) for n in range(5)])
        capsys.readouterr()
        ids = [f"run-{n}" for n in range(5)]
        self.check(file, capsys, f"{file}:4: more than 3 runs are open at once; run-0 is cut off here", ids)

    def test_no_such_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        good = write(tmp_path / "a.jsonl", [self.GOOD[0]])
        assert main(["replay", str(tmp_path / "nowhere.jsonl"), str(good)]) == 1
        shown = capsys.readouterr()
        assert f"{tmp_path / 'nowhere.jsonl'}: No such file or directory" in shown.err
        assert "1 run, 1 call" in shown.out

    def test_a_folder_without_recordings(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["replay", str(tmp_path)]) == 1
        assert "no recordings in this folder" in capsys.readouterr().err

    def test_an_empty_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "empty.jsonl"
        file.touch()
        self.check(file, capsys, "there is no run in what was read", ids=())
        assert main(["stats", str(file)]) == 1
        assert "there is no run in what was read" in capsys.readouterr().err

    @pytest.mark.parametrize("command", ["replay", "stats"])
    def test_a_file_that_is_given_twice(self, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """By its name, by another one, and through its folder."""
        folder = tmp_path / "runs"
        folder.mkdir()
        file = write(folder / "a.jsonl", self.GOOD)
        (tmp_path / "other.jsonl").symlink_to(file)
        (folder / "b.jsonl").hardlink_to(file)
        given = [file, file, folder, tmp_path / "other.jsonl", folder / ".." / "runs" / "a.jsonl"]
        assert main([command, "--json", *map(str, given)]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out.splitlines()[-1])["runs"] == 2
        assert shown.err == f"watchkeeper: {file} is given more than once, and 4 others too: read once\n"

    def test_twins_of_equal_content_are_two(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for name in ("a", "b"):
            write(tmp_path / f"{name}.jsonl", self.GOOD)
        assert rows(capsys, tmp_path)[-1]["runs"] == 4

    @pytest.mark.parametrize("locked", ["runs", "runs/locked"])
    def test_a_folder_without_permission(
        self, locked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "runs" / "locked").mkdir(parents=True)
        write(tmp_path / "runs" / "locked" / "a.jsonl", self.GOOD)
        good = write(tmp_path / "good.jsonl", self.GOOD[:1])
        scandir = os.scandir

        def denying(path: Any = ".") -> Any:  # root may read everything, so the system would not say it
            if Path(path) == tmp_path / locked:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", denying)
        row, summary = rows(capsys, good, code=0)
        assert (row["id"], summary["problems"]) == ("good-1", 0)
        assert main(["replay", "--json", str(good), str(tmp_path / "runs")]) == 1
        shown = capsys.readouterr()
        assert shown.err == f"watchkeeper: {tmp_path / locked}: the folder cannot be read: Permission denied\n"
        assert json.loads(shown.out.splitlines()[-1])["problems"] == 1
        assert main(["replay", str(good), str(tmp_path / "runs")]) == 1
        assert "not all of it could be read: 1 problem" in capsys.readouterr().out


class TestOutput:
    """Nobody reads it, or there is no room for it: no traceback, whatever the command."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        return str(write(tmp_path / "a.jsonl", [recorded(*LOOP[:5], run=f"r{n}") for n in range(1500)]))

    def run(self, *arguments: str, stdout: IO[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *arguments],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=TIMEOUT,
        )

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
    @pytest.mark.parametrize("options", [["--jobs", "1"], ["--jobs", "2"], ["--json"]])
    def test_no_room(self, file: str, options: list[str]) -> None:
        with open("/dev/full", "w") as full:
            done = self.run("replay", file, *options, stdout=full)
        assert done.returncode == 1
        assert done.stderr.startswith("watchkeeper: the output cannot be written")
        assert done.stderr.count("\n") == 1

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
    @pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["replay", "--help"], ["stats", "nowhere"]])
    def test_no_room_for_a_word(self, arguments: list[str]) -> None:
        with open("/dev/full", "w") as full:
            done = self.run(*arguments, stdout=full)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize("options", [["--jobs", "1"], ["--jobs", "2"], ["--json"]])
    def test_a_reader_that_leaves(self, file: str, options: list[str]) -> None:
        process = subprocess.Popen(
            [*PROGRAM, "replay", file, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(TIMEOUT) == 4

    def test_closed_streams(self, file: str) -> None:
        for closing in (">&-", "2>&-", ">&- 2>&-"):
            done = subprocess.run(
                ["sh", "-c", f'"$@" {closing}', "sh", *PROGRAM, "replay", file, "nowhere"],
                capture_output=True,
                text=True,
                env=environment(),
                timeout=TIMEOUT,
            )
            assert done.returncode == 1
            assert "Traceback" not in done.stderr
            assert "nowhere" not in done.stdout


def test_the_shared_corpora(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real runs of real models: every labelled stuck run is caught, no healthy one is stopped."""
    corpora = shared_data / "corpora"
    files = [corpora / f"{name}.jsonl.gz" for name in ("tau", "polybench_iswe", "polybench_codex")]
    *found, summary = rows(capsys, *files, "--labels", corpora / "labels.csv")
    assert len(found) == summary["runs"] == 985
    assert summary["stuck_caught"] == summary["stuck_labels"] == 7
    assert (summary["healthy_labels"], summary["healthy_stopped"]) == (16, 0)
    assert summary["good_stopped"] == 0
    assert summary["median_delay_calls"] <= 8


def test_answers_are_no_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "events.jsonl"
    with served([Say("Done.")]) as server:
        assert main(["run", "x", "--model", "m", "--base-url", server.base_url, "--events", str(file)]) == 0
    capsys.readouterr()
    row, _ = rows(capsys, file)
    assert (row["outcome"], row["calls_saved"]) == ("completed", 0)
