"""Prometheus: what is counted, under which labels, and by how many processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sighted import recorded, see_all

from support import of

pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families

from watchkeeper import Event, __version__
from watchkeeper.messages import CallEnded, ModelRequested, Paused, Resumed, RunEnded, RunStarted, Settled
from watchkeeper.observe.metrics import NAMES, Metrics
from watchkeeper.service import metrics as service_metrics
from watchkeeper.service.metrics import FOLDER, begin, end, exposition, place, process_ended

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def told(facts: Iterable[Event]) -> Metrics:
    metrics = Metrics()
    for event in facts:
        metrics.observe(event)
    return metrics


def samples(body: bytes) -> Samples:
    """Each sample by its name and its labels, without when it began."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def of_metrics(metrics: Metrics) -> Samples:
    return samples(exposition(metrics.registry)[1])


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"watchkeeper_{name}", tuple(sorted(labels.items()))]


def sums(found: Samples, name: str, **labels: str) -> float:
    return sum(
        amount
        for (one, theirs), amount in found.items()
        if one == f"watchkeeper_{name}" and labels.items() <= dict(theirs).items()
    )


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_runs_requests_calls_tokens_and_money_are_counted() -> None:
    metrics = Metrics()
    facts = [event for one in (await see_all(metrics.observe)).values() for event in one]
    found = of_metrics(metrics)
    assert sums(found, "runs_started_total") == len(of(facts, RunStarted))
    assert sums(found, "runs_finished_total") == len(of(facts, RunEnded))
    assert sums(found, "runs_active") == 0
    assert value(found, "runs_finished_total", agent="loop", outcome="stopped", reason="loop") == 1
    assert value(found, "runs_finished_total", agent="hang", outcome="cancelled", reason="by_request") == 1
    assert sums(found, "model_calls_total") == len(of(facts, ModelRequested))
    assert value(found, "model_calls_total", model="scripted", outcome="rate_limited") == 1
    assert value(found, "model_calls_total", model="scripted", outcome="bad_request") == 1
    ended = of(facts, CallEnded)
    assert sums(found, "tool_calls_total") == len(ended)
    assert value(found, "tool_calls_total", tool="fail", outcome="failed") == 1
    settled = of(facts, Settled)
    assert sums(found, "tokens_total") == sum(one.amounts.get("tokens", 0) for one in settled)
    money = sum(one.amounts.get("money", 0) for one in settled)
    assert sums(found, "cost_dollars_total") + sums(found, "tool_cost_dollars_total") == pytest.approx(money)
    looked = sum(one.result.tool == "look" and one.result.kind == "finished" and one.ran > 0 for one in ended)
    assert value(found, "tool_cost_dollars_total", tool="look") == pytest.approx(0.25 * looked)
    assert sums(found, "interventions_total", action="stop") == 1
    assert value(found, "cancel_latency_seconds_count") == 1
    assert value(found, "approvals_pending") == 0
    assert value(found, "build_info", version=__version__) == 1


def test_what_is_pending_is_shown_until_it_is_over() -> None:
    facts = recorded()["retry"]
    asked = next(place for place, event in enumerate(facts) if type(event).__name__ == "ApprovalRequested")
    found = of_metrics(told(facts[: asked + 1]))
    assert value(found, "approvals_pending") == 1
    assert value(found, "runs_active", agent="retry", state="running") == 1
    (ended,) = of(facts, RunEnded)
    assert value(of_metrics(told((*facts[: asked + 1], ended))), "approvals_pending") == 0


def test_a_pause_is_a_state_of_its_own() -> None:
    (started, *_) = recorded()["top"]
    paused = Paused(n=2, run=started.run, at=started.at, t=0.0, reason="lunch")
    found = of_metrics(told([started, paused]))
    assert value(found, "runs_active", agent="top", state="paused") == 1
    assert value(found, "runs_active", agent="top", state="running") == 0
    found = of_metrics(told([started, paused, Resumed(n=3, run=started.run, at=started.at, t=0.0)]))
    assert value(found, "runs_active", agent="top", state="running") == 1


def test_a_price_that_nobody_knows_is_counted_and_not_taken_for_nothing() -> None:
    facts = [
        msgspec.structs.replace(event, unknown=("money",), amounts={"tokens": 3, "input_tokens": 3})
        if type(event) is Settled
        else event
        for event in recorded()["loop"]
    ]
    found = of_metrics(told(facts))
    requests = sum(not event.slot for event in of(facts, Settled))
    assert value(found, "cost_unknown_calls_total", model="scripted") == requests
    assert sums(found, "cost_dollars_total") == 0


def test_labels_are_bounded_and_hold_no_ids() -> None:
    (started, *_, ended) = (event for event in recorded()["hang"])
    facts: list[Event] = []
    for number in range(3 * NAMES):
        name = f"made-up-{number}"
        facts.append(msgspec.structs.replace(started, run=name, agent=name))
        facts.append(msgspec.structs.replace(ended, run=name))
        result = of(recorded()["hang"], CallEnded)[0]
        facts.insert(
            -1, msgspec.structs.replace(result, run=name, result=msgspec.structs.replace(result.result, tool=name))
        )
    found = of_metrics(told(facts))
    for metric, label in (("runs_started_total", "agent"), ("tool_calls_total", "tool")):
        values = {dict(labels)[label] for name, labels in found if name == f"watchkeeper_{metric}"}
        assert len(values) == NAMES + 1
        assert "other" in values
        assert sums(found, metric) == 3 * NAMES
    said = {value for _, labels in found for _, value in labels}
    assert not said & {event.run for facts in recorded().values() for event in facts}
    assert "enough of this" not in said


POOL = [event for facts in recorded().values() for event in facts]


@given(st.lists(st.sampled_from(POOL), max_size=40))
def test_whatever_comes_no_run_is_left_that_has_ended(facts: list[Event]) -> None:
    ends = {event.run: event for event in POOL if type(event) is RunEnded}
    metrics = told([*facts, *ends.values()])
    found = of_metrics(metrics)
    assert all(amount == 0 for (name, _), amount in found.items() if name == "watchkeeper_runs_active")
    assert value(found, "approvals_pending") == 0


def test_the_body_is_the_text_format() -> None:
    kind, body = exposition(told(recorded()["top"]).registry)
    assert kind.startswith("text/plain; version=")
    families = {family.name for family in text_string_to_metric_families(body.decode())}
    assert all(name.startswith("watchkeeper_") for name in families)


WORKER = """
import sys
from watchkeeper import decode_event
from watchkeeper.observe.metrics import Metrics
metrics = Metrics()
for line in sys.stdin:
    if line == "\\n":
        break
    metrics.observe(decode_event(line))
print("done", flush=True)
sys.stdin.read()
"""


def test_the_processes_of_a_service_are_counted_together(tmp_path: Path) -> None:
    from watchkeeper import encode_event

    folder = tmp_path / "metrics"
    begin(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    live = recorded()["hang"][:5]
    workers: list[subprocess.Popen[Any]] = []
    try:
        for name in ("top", "loop"):
            worker = subprocess.Popen(
                [sys.executable, "-c", WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {FOLDER: str(folder)},
            )
            workers.append(worker)
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(b"".join(encode_event(event) + b"\n" for event in (*recorded()[name], *live)) + b"\n")
            worker.stdin.flush()
            assert worker.stdout.readline() == b"done\n"
        found = samples(exposition(folder)[1])
        assert sums(found, "runs_active") == 2
        alone = [of_metrics(told((*recorded()[name], *live))) for name in ("top", "loop")]
        for name in ("runs_started_total", "tool_calls_total", "tokens_total", "run_duration_seconds_sum"):
            assert sums(found, name) == sum(sums(one, name) for one in alone)
        workers[0].kill()
        workers[0].wait()
        process_ended(folder, workers[0].pid)
        found = samples(exposition(folder)[1])
        assert sums(found, "runs_active") == 1
        assert sums(found, "runs_started_total") == sum(sums(one, "runs_started_total") for one in alone)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    begin(folder)
    assert not list(folder.iterdir())


def test_a_service_counts_in_memory_where_that_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, memory = tmp_path / "state", tmp_path / "memory"
    state.mkdir()
    monkeypatch.setattr(service_metrics, "MEMORY", memory)
    assert place(state) == state / "metrics"  # there is no such folder
    memory.mkdir()
    folder = place(state)
    assert folder.parent == memory
    assert folder.stat().st_mode & 0o777 == 0o700
    assert place(state) == folder
    folder.chmod(0o777)  # somebody else may have made it
    assert place(state) == state / "metrics"
    folder.chmod(0o700)
    (folder / "counter_1.db").touch()
    end(folder)
    assert not folder.exists()
    monkeypatch.setattr(service_metrics, "ROOM", 1 << 60)
    assert place(state) == state / "metrics"
    (state / "metrics").mkdir()
    end(state / "metrics")
    assert (state / "metrics").exists()
