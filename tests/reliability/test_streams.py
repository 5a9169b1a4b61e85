"""Hostile bytes in the place of a streamed reply: some here, many by ``sh scripts/reliability``."""

from __future__ import annotations

import pytest

from .streams import hail

REPLIES = range(150)


@pytest.mark.anyio
async def test_whatever_a_server_sends_is_a_reply_or_a_model_error() -> None:
    went = await hail(REPLIES)
    assert went.total() == len(REPLIES)
    assert went["taken"] > 10
    assert len(went) > 3
