"""The splicer: its loops are what they are said to be, where they are said to be, and nothing of ours shaped them."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from watchkeeper.cli.recorded import RecordedRun, Step

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
sys.path.append(str(BENCHMARKS))

from rewording import FAILURES  # noqa: E402
from splices import Seen, figures, interval  # noqa: E402
from splicing import CLASSES, PERIODS, SHARES, Splice, Splicer  # noqa: E402

WORDS = ("flight", "invoice", "session header", "the current address of the customer, in Porto", "src/app/cart.py")


def run(number: int, calls: int = 20) -> RecordedRun:
    steps = [
        Step(
            tool=("look_up", "bash", "search", "edit")[at % 4],
            args={("id", "command", "query", "path")[at % 4]: f"{WORDS[at % 5]} {number} {at}", "page": at},
            call_id=f"c{at}",
            result=(f"row {number} {at}\nsecond row\n", f'{{"id": {at}, "state": "open {number}"}}', "x" * 5000)[
                at % 3
            ][:4096],
            result_len=5000 if at % 3 == 2 else None,
            result_sha256="a" * 64 if at % 3 == 2 else None,
            user_turn=at // 6,
            agent="one" if at < 14 else "two",
        )
        for at in range(calls)
    ]
    return RecordedRun(f"run {number}", tuple(steps), "success")


RUNS = [run(number) for number in range(8)]
EVERY = [
    (kind, period)
    for kind in CLASSES
    for period in PERIODS
    if (kind != "error" or period == 1) and (kind != "shuffled" or period > 1)
]


def made(kind: str, period: int, n: int = 12, seed: int = 1) -> list[Splice]:
    splicer = Splicer("here", RUNS, seed)
    found = [splicer.splice(kind, period, number) for number in range(n)]
    return [splice for splice in found if splice is not None]


def named(call: Step) -> tuple[str, bytes]:
    return call.tool, msgspec.json.encode(call.args, order="sorted")


def original(splice: Splice) -> RecordedRun:
    return next(run for run in RUNS if run.id in splice.run.id)


def loop_of(splice: Splice) -> list[list[Step]]:
    """The laps, without the calls between."""
    laps: dict[int, list[Step]] = {}
    for lap, call in zip(splice.laps, splice.run.calls[splice.onset :], strict=True):
        if lap:
            laps.setdefault(lap, []).append(call)
    assert list(laps) == list(range(1, len(laps) + 1))
    return list(laps.values())


@pytest.mark.parametrize(("kind", "period"), EVERY)
def test_the_loop_begins_at_its_onset_and_ends_the_run(kind: str, period: int) -> None:
    splices = made(kind, period)
    assert splices
    for splice in splices:
        good = original(splice).calls
        assert splice.run.calls[: splice.onset] == good[: splice.onset]
        assert list(splice.body) == good[splice.onset : splice.onset + period]
        assert splice.laps[0] == splice.laps[-1] - (len(loop_of(splice)) - 1) == 1
        assert len(splice.run.calls) == splice.onset + len(splice.laps)
        assert splice.lap_at(splice.onset) == 1
        assert splice.lap_at(len(splice.run.calls) - 1) == splice.laps[-1]


@pytest.mark.parametrize(("kind", "period"), EVERY)
def test_a_loop_has_enough_laps_of_its_period_in_one_context_and_user_turn(kind: str, period: int) -> None:
    for splice in made(kind, period):
        laps = loop_of(splice)
        assert len(laps) >= 6
        assert sum(map(len, laps)) >= 10
        assert {len(lap) for lap in laps} == {period}
        assert {(call.agent, call.user_turn) for call in splice.run.calls[splice.onset :]} == {
            (splice.body[0].agent, splice.body[0].user_turn)
        }
        assert len({named(call) for call in splice.body}) == period
        if splice.onset:
            assert named(splice.run.calls[splice.onset - 1]) not in {named(call) for call in splice.body}


@pytest.mark.parametrize(("kind", "period"), EVERY)
def test_equal_seeds_make_equal_splices(kind: str, period: int) -> None:
    assert made(kind, period) == made(kind, period)
    assert made(kind, period) != made(kind, period, seed=2)


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("kind", ["exact", "noise", "shuffled"])
def test_every_lap_has_the_calls_and_results_of_the_body(kind: str, period: int) -> None:
    if kind == "shuffled" and period == 1:
        return
    orders = set()
    for splice in made(kind, period):
        for lap in loop_of(splice):
            pairs = [(*named(call), call.result) for call in lap]
            body = [(*named(call), call.result) for call in splice.body]
            assert sorted(pairs) == sorted(body)
            assert kind == "shuffled" or pairs == body
            orders.add(pairs == body)
    assert orders == ({True, False} if kind == "shuffled" else {True})


@pytest.mark.parametrize("period", PERIODS)
def test_calls_between_are_fresh_and_as_many_as_said(period: int) -> None:
    shares = set()
    for splice in made("noise", period):
        share = splice.laps.count(0) / len(splice.laps)
        nearest = min(SHARES, key=lambda one: abs(one - share))
        assert share == pytest.approx(nearest, abs=0.04)
        assert splice.variant == f"{nearest:.0%}"
        shares.add(nearest)
        every = Counter(named(call) for call in splice.run.calls)
        between = [
            named(call) for lap, call in zip(splice.laps, splice.run.calls[splice.onset :], strict=True) if not lap
        ]
        assert {every[name] for name in between} == {1}
    assert shares == set(SHARES)


@pytest.mark.parametrize("period", PERIODS)
def test_volatile_results_differ_while_the_calls_are_equal(period: int) -> None:
    for splice in made("volatile_results", period, 40):
        laps = loop_of(splice)
        for slot in range(period):
            assert len({named(lap[slot]) for lap in laps}) == 1
            results = [lap[slot].result for lap in laps]
            assert len(set(results)) > 1, splice.variant
            if not splice.variant.startswith("tool output"):
                first = splice.body[slot].result.split("\n")[0].strip("{}")
                assert all(first[:40] in result or first[:9] in result for result in results)


@pytest.mark.parametrize("period", PERIODS)
def test_volatile_arguments_differ_while_what_is_asked_and_answered_stays(period: int) -> None:
    for splice in made("volatile_arguments", period, 40):
        laps = loop_of(splice)
        for slot in range(period):
            assert {lap[slot].tool for lap in laps} == {splice.body[slot].tool}
            written = {msgspec.json.encode(lap[slot].args) for lap in laps}
            assert len(written) > 1, splice.variant
            if "results" not in splice.variant:
                assert {lap[slot].result for lap in laps} == {splice.body[slot].result}


@pytest.mark.parametrize("period", PERIODS)
def test_near_calls_are_all_different_and_answer_nothing_new(period: int) -> None:
    for splice in made("near", period, 40):
        laps = loop_of(splice)
        for slot in range(period):
            calls = [named(lap[slot]) for lap in laps]
            assert len(set(calls)) > len(calls) * 2 // 3, splice.variant
            assert len({lap[slot].tool for lap in laps}) == 1
            if "same" in splice.variant or "empty" in splice.variant:
                assert len({lap[slot].result for lap in laps}) == 1


def test_a_failure_is_the_same_under_many_arguments() -> None:
    for splice in made("error", 1, 60):
        calls = [call for lap in loop_of(splice) for call in lap]
        assert all(call.error is True for call in calls)
        assert len({named(call) for call in calls}) > len(calls) // 2
        assert len({call.tool for call in calls}) == 1
        form = re.escape(FAILURES[splice.variant].format_map(Anything())).replace("ANYTHING", ".+")
        assert all(re.fullmatch(form, str(call.result)) for call in calls)
        assert len({call.result for call in calls}) > 1 or splice.variant in ("not found", "shell")


class Anything(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "ANYTHING"


def test_a_cut_result_stays_cut_and_its_digest_tells_what_differs() -> None:
    cut = [
        (splice, slot)
        for splice in made("volatile_results", 4, 40)
        if not splice.variant.startswith("tool output")
        for slot, call in enumerate(splice.body)
        if call.result_len
    ]
    assert cut
    for splice, slot in cut:
        calls = [lap[slot] for lap in loop_of(splice)]
        assert all(len(call.result) <= 4096 < (call.result_len or 0) for call in calls)
        assert len({call.result_sha256 for call in calls}) == len({call.result for call in calls})


def test_the_splicer_knows_nothing_of_how_loops_are_found() -> None:
    for name in ("splicing", "volatile", "rewording", "outputs"):
        tree = ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8"))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        ours = {module for module in imported if module.startswith("watchkeeper")}
        assert ours <= {"watchkeeper.cli.recorded"}


def test_the_interval_is_wilsons() -> None:
    assert interval(0, 600) == pytest.approx((0.0, 0.00636), abs=1e-4)
    assert interval(95, 100) == pytest.approx((0.8882, 0.9785), abs=1e-4)


def test_volatile_is_the_sum_of_its_classes_and_a_held_out_source_stands_apart() -> None:
    def seen(kind: str, source: str, caught: bool) -> Seen:
        return Seen(kind, "", source, 1, caught, False, None, 4 if caught else None, None, 5 if caught else None, None)

    every = [seen("volatile_results", "a", True), seen("volatile_arguments", "a", False), seen("exact", "b", True)]
    whole = figures(every)
    assert (whole["caught_volatile"], whole["n_volatile"], whole["caught_exact"]) == (0.5, 2, 1.0)
    apart = figures(every, "b")
    assert "caught_exact" not in apart
    assert apart["caught_exact_holdout"] == 1.0
