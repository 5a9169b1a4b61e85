from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.chromium import Browser, chromium, installed


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    executable = installed()
    if executable is None:
        pytest.skip("no Chromium is installed")
    with chromium(executable, tmp_path_factory.mktemp("profile")) as found:
        yield found
