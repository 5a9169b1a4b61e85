"""Which tool a model means by a name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .tools import Tool


def resolve(name: str, tools: Mapping[str, Tool]) -> Tool | None:
    """The tool of that name, as :func:`meant` finds it."""
    found = meant(name, tools)
    return None if found is None else tools[found]


def meant(name: str, names: Collection[str]) -> str | None:
    """Which of these names it is. Control tokens and a known prefix are stripped if exactly one is left; else None."""
    if name in names:
        return name
    bare = name.partition("<|")[0].strip()
    for prefix in ("functions.", "functions:", "tools.", "tool:", "default_api."):
        bare = bare.removeprefix(prefix)
    if bare in names:
        return bare
    ends = [one for one in names if one.endswith((f"__{bare}", f".{bare}"))] if bare else []
    return ends[0] if len(ends) == 1 else None
