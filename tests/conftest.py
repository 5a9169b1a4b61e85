from __future__ import annotations

from typing import Any

import pytest

from watchkeeper.testing import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param
