"""What a service manager is told."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

import pytest

from apfproxy.app import service_manager
from apfproxy.app.service_manager import NO_SERVICE_MANAGER, ServiceManager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def told(address: str) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.setblocking(False)
        yield manager


@pytest.mark.parametrize("is_abstract", [False, True])
def test_is_told(tmp_path: Path, is_abstract: bool) -> None:
    """The words are those of sd_notify(3), to a path or to a name without one."""
    name = f"{tmp_path}/notify"
    with told(f"\0{name}" if is_abstract else name) as socket_of_manager:
        manager = ServiceManager({"NOTIFY_SOCKET": f"@{name}" if is_abstract else name})
        manager.ready()
        manager.reloading()
        manager.alive()
        manager.stopping(1.5)
        manager.succeeded_by(7)
        lines = [socket_of_manager.recv(1000).decode() for _ in range(5)]

    assert lines.pop(1).startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert [
        "READY=1",
        "WATCHDOG=1",
        "STOPPING=1\nEXTEND_TIMEOUT_USEC=1500000",
        "MAINPID=7\nREADY=1",
    ] == lines
    assert f"<ServiceManager {name}>" == repr(manager)


def test_a_busy_manager_learns_of_a_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets a moment to read what it was told before: it would end one that it does not know."""
    monkeypatch.setattr(service_manager, "SUCCESSION_WITHIN_S", 0.01)
    name = f"{tmp_path}/notify"
    with told(name), told(f"{tmp_path}/other") as other:
        with contextlib.suppress(BlockingIOError):
            while True:
                other.sendto(b"READY=1", name)
        ServiceManager({"NOTIFY_SOCKET": name}).ready()
        ServiceManager({"NOTIFY_SOCKET": name}).succeeded_by(7)

    at_once, in_time = caplog.messages
    assert "temporarily unavailable" in at_once
    assert "timed out" in in_time


@pytest.mark.parametrize(
    ("environment", "period_s"),
    [
        ({"WATCHDOG_USEC": "3000000"}, 1.5),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 1.5),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
        ({}, 0.0),
    ],
)
def test_watchdog(environment: dict[str, str], period_s: float) -> None:
    """Signs of life are wanted twice in the time, of the process that is named."""
    assert period_s == ServiceManager({"NOTIFY_SOCKET": "/a", **environment}).ping_period_s
    assert 0.0 == ServiceManager(environment).ping_period_s


def test_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is told to nobody; a manager that cannot be reached is named once."""
    NO_SERVICE_MANAGER.ready()
    lost = ServiceManager({"NOTIFY_SOCKET": f"{tmp_path}/gone"})
    lost.ready()
    lost.alive()

    assert "<ServiceManager nobody>" == repr(NO_SERVICE_MANAGER)
    assert ["NOTIFY_SOCKET cannot be told: [Errno 2] No such file or directory"] == caplog.messages
