"""A configuration as lines of TOML, each with who has said so; read again they give the same configuration. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..redaction import Redaction
from .given import OFF
from .schema import Configuration

DEFAULT = "default"
_TABLE = re.compile(
    r"service|service\.retention|limits|budgets|budgets\.[^.]+|agents|agents\.[^.]+|agents\.[^.]+\.limits|policy|log|otel"
)
"""Keys that are tables of settings, and no setting."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Row(msgspec.Struct, frozen=True):
    """One setting: its dotted key, its value as plain data (``"off"`` where it has none), and where it comes from."""

    key: str
    value: Any
    origin: str

    def toml(self) -> str:
        return f"{self.key} = {_toml(self.value)}"


def rows_of(configuration: Configuration, environ: Mapping[str, str]) -> list[Row]:
    """Every setting, those at their default too; of limits and policies what is said of them. Values that look secret,
    or are the value of a variable of ``environ`` that holds a secret, are cut out."""
    redaction = Redaction(environment=environ)
    plain = msgspec.to_builtins(configuration)
    del plain["origins"]
    return [
        Row(key, redaction.anything(value), configuration.origins.get(key, DEFAULT))
        for key, value in _settings("", plain)
    ]


def _settings(path: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = f"{path}.{name}" if path else name
        if isinstance(value, dict) and _TABLE.fullmatch(key):
            yield from _settings(key, value)
        else:
            yield key, OFF if value is None else value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        inner = (f"{_key(name)} = {_toml(one)}" for name, one in value.items() if one is not None)
        return f"{{ {', '.join(inner)} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """TOML writes texts as JSON does, and DEL as an escape too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
