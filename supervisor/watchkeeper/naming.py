"""Which tool a model means by a name."""

from __future__ import annotations

from collections.abc import Mapping

from .tools import Tool


def resolve(name: str, tools: Mapping[str, Tool]) -> Tool | None:
    """The tool of that name. Control tokens and a known prefix are stripped if exactly one tool is left; else None."""
    found = tools.get(name)
    if found is not None:
        return found
    bare = name.partition("<|")[0].strip()
    for prefix in ("functions.", "functions:", "tools.", "tool:", "default_api."):
        bare = bare.removeprefix(prefix)
    if bare in tools:
        return tools[bare]
    ends = [tool for tool in tools.values() if tool.name.endswith((f"__{bare}", f".{bare}"))] if bare else []
    return ends[0] if len(ends) == 1 else None
