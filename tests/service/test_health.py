"""When the service is alive, and when it is ready; systemd."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from watchkeeper.service import health
from watchkeeper.service.control import Standing, WorkerStatus
from watchkeeper.service.notify import Notifier


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
