from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from watchkeeper.testing import BACKENDS, backend

# A busy machine is no failure of a property.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Every async test runs on both back ends; in virtual time where it is marked ``virtual_time``."""
    if request.node.get_closest_marker("virtual_time"):
        return backend(request.param)
    return request.param


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs of the tests are no runs of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WATCHKEEPER_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with shared scenarios and corpora: skip if it is not named, fail if it is and is not there."""
    named = os.environ.get("WATCHKEEPER_DATA")
    if not named:
        pytest.skip("WATCHKEEPER_DATA does not name the folder with the shared data")
    folder = Path(named)
    assert folder.is_dir(), f"WATCHKEEPER_DATA names {folder}, which is not a folder"
    return folder
