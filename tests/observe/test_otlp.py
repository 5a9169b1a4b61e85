"""OTLP/JSON: as a collector takes it."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from sighted import recorded

from watchkeeper.messages import RunStarted
from watchkeeper.observe import names
from watchkeeper.observe.otlp import CLIENT, FAILED, otlp

NAMES = sorted(recorded())


def spans(name: str, **settings: Any) -> list[dict[str, Any]]:
    (resource,) = json.loads(otlp(recorded()[name], **settings))["resourceSpans"]
    assert resource["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "watchkeeper"}}]
    (scope,) = resource["scopeSpans"]
    found: list[dict[str, Any]] = scope["spans"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_ids_times_and_parents_are_such_as_a_collector_takes(name: str) -> None:
    found = spans(name)
    ids = {span["spanId"] for span in found}
    assert len(ids) == len(found)
    assert len({span["traceId"] for span in found}) == 1
    for span in found:
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert "parentSpanId" not in span or span["parentSpanId"] in ids
        times = [span["startTimeUnixNano"], *(event["timeUnixNano"] for event in span["events"])]
        assert all(re.fullmatch(r"\d{19}", time) for time in [*times, span["endTimeUnixNano"]])
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        for attribute in span["attributes"]:
            ((kind, value),) = attribute["value"].items()
            assert kind in ("stringValue", "boolValue", "intValue", "doubleValue", "arrayValue")
            assert isinstance(value, str) == (kind in ("stringValue", "intValue"))
    assert sum("parentSpanId" not in span for span in found) == 1


def test_kinds_and_states_are_said() -> None:
    found = {span["name"]: span for span in spans("top")}
    assert found["chat scripted"]["kind"] == CLIENT
    assert found["execute_tool fail"]["status"]["code"] == FAILED
    assert found["execute_tool put"]["status"] == {}
    (run,) = (span for span in spans("hang") if span["name"] == "invoke_agent hang")
    assert run["status"]["code"] == FAILED
    assert {"key": names.ERROR, "value": {"stringValue": "cancelled"}} in run["attributes"]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_facts_give_the_same_bytes(name: str) -> None:
    assert otlp(recorded()[name]) == otlp(recorded()[name])


def test_content_is_there_only_where_it_is_asked_for() -> None:
    assert "is there" not in json.dumps(spans("top"))
    assert "is there" in json.dumps(spans("top", content=True))


def test_half_a_character_does_not_stop_it() -> None:
    (started, *_) = recorded()["broken"]
    assert isinstance(started, RunStarted)
    assert "\ufffd" in otlp([msgspec.structs.replace(started, agent="\ud800")]).decode()
