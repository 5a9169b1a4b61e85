"""A parameter of a tool that the model does not see: the idempotency key of the call, filled in when it runs."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any, NewType

from .current import HERE

IdempotencyKey = NewType("IdempotencyKey", str)
"""The type of a parameter that gets ``current_call().idempotency_key``. It is in no schema: no model can give it."""


def is_key(hint: Any) -> bool:
    return hint is IdempotencyKey or (
        typing.get_origin(hint) is typing.Annotated and typing.get_args(hint)[0] is IdempotencyKey
    )


def keyed(function: Callable[..., Any], parameter: str, is_async: bool) -> Callable[..., Any]:
    """The function with this parameter filled in; outside of a call it is empty."""

    def with_key(values: dict[str, Any]) -> dict[str, Any]:
        here = HERE.get(None)
        return {**values, parameter: "" if here is None else here.idempotency_key}

    if is_async:

        @functools.wraps(function)
        async def run(**values: Any) -> Any:
            return await function(**with_key(values))

        return run

    @functools.wraps(function)
    def run_in_thread(**values: Any) -> Any:
        return function(**with_key(values))

    return run_in_thread
