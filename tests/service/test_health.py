"""When the service is alive, and when it is ready; systemd; where it listens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from watchkeeper.errors import ConfigurationError
from watchkeeper.service import health
from watchkeeper.service.control import Standing, WorkerStatus
from watchkeeper.service.notify import Notifier
from watchkeeper.service.sockets import bound, described


def worker(state: Standing) -> WorkerStatus:
    return WorkerStatus(name="w1", pid=1, state=state, runs=0, since=0.0, restarts=0, stack="")


def failed(report: health.Report) -> list[str]:
    assert report.ok == all(check.ok for check in report.checks)
    return [check.name for check in report.checks if not check.ok]


def test_it_is_alive_while_workers_are_kept_or_it_ends() -> None:
    assert failed(health.live(working=True, ending=False)) == []
    assert failed(health.live(working=False, ending=True)) == []
    assert failed(health.live(working=False, ending=False)) == ["foreman"]


def test_it_is_ready_if_a_run_would_be_executed() -> None:
    fine = {"admitting": True, "workers": [worker("running")], "engine": "", "free": 1 << 40}
    assert failed(health.ready(**fine)) == []
    assert failed(health.ready(**{**fine, "free": None})) == []
    assert failed(health.ready(**{**fine, "workers": [worker("blocked"), worker("running")]})) == []
    assert failed(health.ready(**{**fine, "admitting": False})) == ["admitting"]
    assert failed(health.ready(**{**fine, "workers": [worker("blocked")]})) == ["workers"]
    assert failed(health.ready(**{**fine, "workers": []})) == ["workers"]
    assert failed(health.ready(**{**fine, "engine": "the disk is full"})) == ["engine"]
    assert failed(health.ready(**{**fine, "free": 1000})) == ["disk"]


def test_systemd_is_told_where_it_asks(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        for address in (str(tmp_path / "notify"), f"@{tmp_path.name}-watchkeeper"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
                systemd.bind(address.replace("@", "\0", 1))
                systemd.settimeout(5)
                notifier = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "3000000"})
                assert notifier.watchdog == 3.0
                notifier.ready("fine")
                notifier.alive()
                said = [systemd.recv(4096).decode() for _ in range(2)]
                assert said[0].startswith("READY=1\nSTATUS=fine\nMAINPID=")
                assert said[1] == "WATCHDOG=1"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"NOTIFY_SOCKET": "/nowhere/at/all"},
        {"NOTIFY_SOCKET": "host:1"},
        {"WATCHDOG_USEC": "x"},
        {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "0"},
    ],
)
def test_nobody_is_told_where_nobody_asks(environ: dict[str, str]) -> None:
    notifier = Notifier(environ)
    assert notifier.watchdog is None
    notifier.ready("fine")
    notifier.stopping("over")


def test_a_socket_of_a_dead_service_is_replaced_and_one_of_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "api.sock"
    with bound("unix:", path) as first:
        assert described(first) == f"unix:{path}"
        assert path.parent.stat().st_mode & 0o777 == 0o700
        with pytest.raises(ConfigurationError, match="somebody listens there already"):
            bound(f"unix:{path}", Path("elsewhere"))
    with bound("unix:", path) as second:
        assert described(second) == f"unix:{path}"


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    path.write_text("precious")
    with pytest.raises(ConfigurationError, match="no socket"):
        bound("unix:", path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize("place", ["127.0.0.1:x", "127.0.0.1:99999", "nohost.invalid:80", "unix:" + "x" * 200])
def test_an_address_that_cannot_be_is_named(place: str) -> None:
    with pytest.raises(ConfigurationError, match="--bind"):
        bound(place, Path("elsewhere"))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_it_says_which_port_it_has(host: str) -> None:
    try:
        listening = bound(f"{host}:0", Path("elsewhere"))
    except ConfigurationError:
        pytest.skip(f"this machine has no {host}")
    with listening:
        name, _, port = described(listening).rpartition(":")
        assert (name, int(port) > 0) == (host, True)
        with pytest.raises(ConfigurationError, match="cannot listen there"):
            bound(f"{host}:{port}", Path("elsewhere"))
