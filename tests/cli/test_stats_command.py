"""``watchkeeper stats``: what runs did, counted by hand here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recording import recorded, step, write
from serving import served

from watchkeeper.cli import main
from watchkeeper.messages import Settled, decode_event, encode_event
from watchkeeper.testing.server import CallTools


def stats(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> list[dict[str, Any]]:
    assert main(["stats", "--json", *map(str, arguments)]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def fails(text: str, **args: Any) -> dict[str, Any]:
    return step("sing", args, text, error=True)


RUN = [
    step("look", {"n": 1}, "a"),
    step("look", {"n": 1}, "a"),
    step("look", {"n": 1}, "b"),
    fails("Error: 503", n=1),
    fails("Error: 503", n=2),
    fails("Error: other", n=3),
    step("look", {"n": 2}, "c"),
    fails("Error: 503", n=4),
    step("look", {"n": 2}, "c", user_turn=1),
]


def test_calls_repeats_and_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row, total = stats(capsys, write(tmp_path / "a.jsonl", [recorded(*RUN)]))
    assert (row["id"], row["calls"], row["by_tool"]) == ("run-1", 9, {"look": 5, "sing": 4})
    assert (row["equal_calls"], row["equal_pairs"]) == (2, 1)  # the last one comes after the user spoke
    assert (row["equal_call_share"], row["equal_pair_share"]) == (0.2222, 0.1111)
    assert (row["longest_equal_calls"], row["longest_equal_pairs"]) == (3, 2)
    assert row["failed"] == 4
    assert row["failures"] == {
        "Error: 503": {"count": 3, "at": [3, 4, 7]},
        "Error: other": {"count": 1, "at": [5]},
    }
    assert (row["error_streaks"], row["longest_errors"]) == ({"3": 1}, 3)
    assert (row["tokens"], row["spend"]) == (None, None)
    assert (total["id"], total["runs"], total["calls"], total["equal_pairs"]) == ("all runs", 1, 9, 1)


def test_contexts_are_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [step(agent=agent) for agent in ("a", "b", "a", "b")]
    row, _ = stats(capsys, write(tmp_path / "a.jsonl", [recorded(*steps)]))
    assert (row["longest_equal_pairs"], row["equal_pairs"]) == (2, 2)


def test_rules_are_asked_and_do_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The ninth call is not spared by a stop at the eighth, nor by a block at the fifth."""
    row, total = stats(capsys, write(tmp_path / "a.jsonl", [recorded(*[step()] * 12)]))
    assert row["observe"]["equal"] == {
        "nudge": {"count": 1, "first": 2},
        "block": {"count": 1, "first": 4},
        "stop": {"count": 1, "first": 7},
    }
    assert row["observe"]["guard:block"] == {"refuse": {"count": 7, "first": 5}}
    assert total["observe"]["equal"]["stop"] == {"count": 1, "runs": 1}


def test_rules_of_a_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text('refuse_equal = 3\ndeny = ["sing"]\nmode = "observe"\n')
    row, _ = stats(capsys, write(tmp_path / "a.jsonl", [recorded(*RUN)]), "--policy", policy)
    assert row["observe"]["guard:policy"]["refuse"] == {"count": 4, "first": 3}
    assert row["observe"]["guard:equal"]["refuse"] == {"count": 1, "first": 2}


def test_stable_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row, _ = stats(capsys, write(tmp_path / "a.jsonl", [recorded(step(), step())]), "--stable", "look")
    assert row["observe"]["guard:duplicate"]["reuse"] == {"count": 1, "first": 1}


def test_own_logs_have_times_tokens_and_spend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.jsonl"
    with served(lambda body, n: CallTools(("read_file", {"path": "no.txt"}))) as server:
        more = ["--tools", "files", "--root", str(tmp_path), "--events", str(file)]
        assert main(["run", "x", "--model", "m", "--base-url", server.base_url, *more]) == 3
    capsys.readouterr()
    row, total = stats(capsys, file)
    settled = [event for line in file.read_bytes().splitlines() if isinstance(event := decode_event(line), Settled)]
    names = ("tokens", "input_tokens", "output_tokens")
    assert row["spend"] == total["spend"] == {name: sum(event.amounts[name] for event in settled) for name in names}
    assert row["tokens"] > 1000
    assert (row["model"], row["outcome"]) == ("m", "stopped")
    assert row["by_tool"] == {"read_file": row["calls"]}
    times = row["failures"]["blocked"]["t"]
    assert times == sorted(times)
    assert 0 < times[0] < 60
    assert row["observe"]["equal"]["stop"]["first"] == 7


def test_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", str(write(tmp_path / "a.jsonl", [recorded(*RUN)]))]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:6] == [
        "run-1  fail, 9 calls",
        "    tools: look 5, sing 4",
        "    repeats: 22.2% of calls equal to one before, 11.1% with the same result; in a row at most 3 and 2",
        "    failed: 4 calls, at most 3 in a row",
        "        3 × Error: 503 at 3, 4, 7",
        "        1 × Error: other at 5",
    ]
    assert any(line.startswith("all runs  1 run, 9 calls") for line in shown)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_filters_problems_and_processes(jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [recorded(*RUN, run=f"r{n}", outcome=("success", "fail")[n % 2]) for n in range(6)]
    file = write(tmp_path / "a.jsonl", [*runs[:3], "nonsense\n", *runs[3:]])
    *found, total = stats(capsys, file, "--outcome", "good", "--jobs", jobs, code=1)
    assert [row["id"] for row in found] == ["r0", "r2", "r4"]
    assert total["runs"] == 3


def test_the_failures_of_one_run_are_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [fails(f"Error: {n // 30}", n=n) for n in range(6000)]
    row, _ = stats(capsys, write(tmp_path / "a.jsonl", [recorded(*steps)]))
    assert len(row["failures"]) == 101
    assert row["failures"]["other"]["count"] == 6000 - 100 * 30
    assert len(row["failures"]["Error: 0"]["at"]) == 20


class TestStepLines:
    def runs(self, *counts: int, source: str = "lab", outcome: str = "success") -> list[dict[str, Any]]:
        return [
            recorded(*[step(args={"n": k}) for k in range(n)], run=f"{source}{n}", source=source, outcome=outcome)
            for n in counts
        ]

    def test_one_a_source_from_good_runs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        runs = [*self.runs(*range(1, 20)), *self.runs(90, outcome="fail"), *self.runs(3, 4, source="few")]
        file = write(tmp_path / "a.jsonl", runs)
        assert stats(capsys, file, "--step-line", "0.1") == [
            {"source": "few", "good_runs": 2, "alpha": 0.1, "step_line": None},
            {"source": "lab", "good_runs": 19, "alpha": 0.1, "step_line": 18},
        ]
        assert main(["stats", str(file), "--step-line", "0.1"]) == 0
        shown = capsys.readouterr().out
        assert "few: 2 good runs, at most 4 calls: too few for a line at 0.1" in shown
        assert "lab: 19 good runs, at most 19 calls: a good run takes more than 18 calls" in shown

    @pytest.mark.parametrize("alpha", ["0", "1", "-0.5", "nan"])
    def test_no_such_share(self, alpha: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["stats", "x.jsonl", f"--step-line={alpha}"]) == 2
        assert "a share between 0 and 1" in capsys.readouterr().err


def test_settled_facts_are_summed_by_dimension(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        Settled(n=n, run="r", at=0.0, t=0.0, amounts={"tokens": 10.0, "dollars": 0.25}, held="h") for n in range(1, 4)
    ]
    row, _ = stats(capsys, write(tmp_path / "a.jsonl", [encode_event(event) + b"\n" for event in events]))
    assert row["spend"] == {"tokens": 30.0, "dollars": 0.75}
    assert main(["stats", str(tmp_path / "a.jsonl")]) == 0
    assert "r  unknown, 0 calls, tokens 30, dollars 0.75" in capsys.readouterr().out
