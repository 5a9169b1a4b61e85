"""What tests of pure modules need, and all others too: how many examples a property has, and the shared data.

It is a plugin of its own because it loads nothing of the package: tests against a mutant have this and no conftest.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# A busy machine is no failure of a property. The reliability suite names another profile: ``brief`` to see whether what
# was put into the source is caught at all, ``thorough`` by night.
settings.register_profile("unhurried", deadline=None)
settings.register_profile(
    "brief", deadline=None, max_examples=30, derandomize=True, phases=(Phase.explicit, Phase.generate)
)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("WATCHKEEPER_PROPERTIES", "unhurried"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with shared scenarios and corpora: skip if it is not named, fail if it is and is not there."""
    named = os.environ.get("WATCHKEEPER_DATA")
    if not named:
        pytest.skip("WATCHKEEPER_DATA does not name the folder with the shared data")
    folder = Path(named)
    assert folder.is_dir(), f"WATCHKEEPER_DATA names {folder}, which is not a folder"
    return folder
