"""The pytest fixture ``cassette``: traffic with a model is recorded once, and played from then on. Loaded by pytest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx2

    from ..cassette.player import Player
    from ..cassette.recorder import Recorder

MODES = ("play", "once", "anew")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("watchkeeper")
    group.addoption(
        "--cassettes",
        choices=MODES,
        default="play",
        help="play: from files alone (default); once: record those that are not there; anew: record all of them",
    )


class Cassette:
    """What the fixture gives: the cassettes of one test, in ``cassettes/MODULE/`` beside it.

    ``client()`` is an ``httpx2.AsyncClient`` for ``OpenAIModel(http_client=…)``; ``seams()`` are for a
    ``Supervisor(seams=…)``, for a whole run. Each test has one file of either kind; they are recorded or played as
    ``--cassettes`` says. Where a run was played, the test fails at its end if anything was not as recorded.
    """

    def __init__(self, path: Path, mode: str) -> None:
        self.path = path
        self.mode = mode
        self._players: list[Player] = []
        self._recorders: list[Recorder] = []

    def client(self, **settings: Any) -> httpx2.AsyncClient:
        """A client that records or plays; the settings are those of ``playing_client``."""
        from ..cassette import playing_client, recording_client

        path = self._file("http")
        return recording_client(path) if self._records(path) else playing_client(path, **settings)

    def seams(self, **settings: Any) -> Player | Recorder:
        """Seams that record or play a whole run; the settings are those of ``Player``."""
        from ..cassette import Player, Recorder

        path = self._file("run")
        if self._records(path):
            self._recorders.append(Recorder(path))
            return self._recorders[-1]
        self._players.append(Player(path, **settings))
        return self._players[-1]

    def close(self) -> None:
        for recorder in self._recorders:
            recorder.close()
        for player in self._players:
            player.check()

    def _file(self, kind: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{kind}.jsonl")

    def _records(self, path: Path) -> bool:
        if self.mode == "anew":
            path.unlink(missing_ok=True)
        records = self.mode != "play" and not path.exists()
        if records:
            path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.exists():
            pytest.fail(f"there is no cassette {path}: record it with --cassettes=once", pytrace=False)
        return records


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """The cassettes of this test: see :class:`Cassette`."""
    module = Path(str(request.node.path))
    name = re.sub(r"[^\w.\[\]=-]+", "_", request.node.name)[:120]
    mode: str = request.config.getoption("--cassettes")
    found = Cassette(module.parent / "cassettes" / module.stem / name, mode)
    yield found
    found.close()
