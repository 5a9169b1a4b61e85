"""The OpenAPI document, and answers that agree with it, as schemathesis finds them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import negative_data_rejection, positive_data_acceptance

from service.standing import HOST, Stored, standing
from watchkeeper.service.access import OPEN
from watchkeeper.service.app import ROUTES, document

DOCUMENT = msgspec.json.decode(document())
STREAMS = {"/v1/events", "/v1/runs/{run}/events"}
"""They do not end by themselves; tests of their own look at them."""


class EachAnew:
    """The application of a service with two runs, a new one for each request."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
            async with standing() as stands:
                stands.service.close()  # so that nobody waits for what does not come
                await stands.tcp({**scope, "headers": [*headers, (b"host", HOST.encode())]}, receive, send)


def operations() -> list[Any]:
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    schema.app = EachAnew()
    found = [one.ok() for one in schema.get_all_operations()]
    return [one for one in found if one.path not in STREAMS]


@pytest.mark.parametrize("operation", operations(), ids=lambda one: f"{one.method} {one.path}")
def test_answers_are_as_the_document_says(operation: Any) -> None:
    @hypothesis.given(case=operation.as_strategy())
    @settings(max_examples=3, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def check(case: Any) -> None:
        reply = case.call(headers={"Authorization": f"Bearer {Stored().secrets['admin']}"})
        # What may be said is more than a schema can tell (labels), and numbers may come as texts.
        case.validate_response(reply, excluded_checks=[positive_data_acceptance, negative_data_rejection])

    check()


def test_each_route_is_in_it_with_what_fails() -> None:
    found = {(method, path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert len(found) >= 30
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            assert "application/problem+json" in operation["responses"]["default"]["content"], (method, path)
            assert operation.get("description") or operation.get("summary"), (method, path)
            is_open = operation.get("security") == []
            assert is_open == ((method.upper(), path) in OPEN), (method, path)


def test_unknown_fields_are_said_to_be_refused() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for name in ("RunSpec", "CancelBody", "BulkBody", "StopBody", "Decision", "SteerBody", "SessionBody", "TokenBody"):
        assert schemas[name]["additionalProperties"] is False, name


def test_the_page_on_the_service_names_each_route_with_its_scope() -> None:
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    said = {(method, path): right for method, path, right in re.findall(r"^\| `(\w+) (/\S+)` \| (\w*) ?\|", text, re.M)}
    routes = {
        (method, path): handler.opt["right"] or ""
        for handler in ROUTES
        for path in handler.paths
        for method in handler.http_methods
    }
    assert said == {(method, path.replace(":str", "")): right for (method, path), right in routes.items()}
