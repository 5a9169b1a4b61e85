from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

import invariance
from watchkeeper.testing import BACKENDS, backend

# A busy machine is no failure of a property. The reliability suite names another profile: ``brief`` to see whether what
# was put into the source is caught at all, ``thorough`` by night.
settings.register_profile("unhurried", deadline=None)
settings.register_profile(
    "brief", deadline=None, max_examples=30, derandomize=True, phases=(Phase.explicit, Phase.generate)
)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("WATCHKEEPER_PROPERTIES", "unhurried"))

invariance.install()


@pytest.fixture(autouse=True)
def invariants_hold(request: pytest.FixtureRequest) -> Iterator[None]:
    """The runs of every test keep the invariants; one that breaks them on purpose is marked with the reason."""
    invariance.found.clear()
    yield
    if request.node.get_closest_marker("breaks_invariants") is None:
        assert not invariance.found, "\n".join(invariance.found)


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
