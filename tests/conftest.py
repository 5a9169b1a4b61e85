from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import invariance
from watchkeeper.testing import BACKENDS, backend

pytest_plugins = ("plain",)

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
