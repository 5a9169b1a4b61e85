"""The OpenAPI document: what the framework finds in the routes, and what it cannot know. Pure."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import msgspec

from .access import OPEN

PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "properties": {
        "type": {"type": "string", "description": "urn:watchkeeper:NAME, or about:blank."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}


def completed(found: dict[str, Any], modules: tuple[ModuleType, ...]) -> dict[str, Any]:
    """With problems as the answer to whatever fails, without unknown fields where structs of these modules forbid them,
    and without a credential where none is asked for. The framework's own is changed in place."""
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    strict = {
        kind.__name__
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__struct_config__.forbid_unknown_fields
    }
    for name, schema in schemas.items():
        if name in strict:
            schema["additionalProperties"] = False
    schemas["Problem"] = PROBLEM
    failed = {
        "description": "Refused, or failed.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path, item in found["paths"].items():
        for method, operation in item.items():
            responses = operation["responses"]
            responses["default"] = failed
            for status in [status for status in responses if status.startswith(("4", "5"))]:
                problem = "Report" not in str(responses[status].get("content"))
                if status == "400":
                    del responses[status]
                elif problem:
                    responses[status]["content"] = failed["content"]
            responses.get("204", {}).pop("content", None)
            if (method.upper(), path) in OPEN:
                operation["security"] = []
    return found
