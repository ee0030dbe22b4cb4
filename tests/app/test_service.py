"""The process as a service."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from apfproxy.app import service_manager
from apfproxy.app.given_sockets import Heritage
from apfproxy.app.service import Service
from apfproxy.app.service_manager import ServiceManager
from apfproxy.base.signals import Signals
from tests.app.test_service_manager import told
from tests.app.test_succession import SERVES

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NOTHING = Heritage(descriptors={}, addresses={}, is_of_systemd=False)


async def test_is_told(tmp_path: Path) -> None:
    """It serves, lives while it is well, and ends."""
    name = f"{tmp_path}/notify"
    looks = iter([False, True])
    lived = asyncio.Event()
    environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "2000"}
    with told(name) as manager, Signals() as signals:
        service = Service(ServiceManager(environment))

        def is_well() -> bool:
            found = next(looks, None)
            if found is None:
                lived.set()
            return bool(found)

        service.begin(signals, lambda: NOTHING, is_well)
        await lived.wait()
        service.stop()
        is_succeeded = await service.end(3)
        lines = [manager.recv(100).decode() for _ in range(3)]

    assert not is_succeeded
    assert ["READY=1", "WATCHDOG=1", "STOPPING=1\nEXTEND_TIMEOUT_USEC=3000000"] == lines


async def test_is_succeeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not end then, for whoever runs it; the end of this process begins."""
    monkeypatch.delenv(service_manager.WATCHDOG_PID, raising=False)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", SERVES])
    name = f"{tmp_path}/notify"
    with told(name) as manager, Signals() as signals:
        service = Service(ServiceManager({"NOTIFY_SOCKET": name}))
        service.begin(signals, lambda: NOTHING, lambda: True)
        succession = service._succession  # noqa: SLF001 - a signal would ask, too
        assert succession is not None
        succession.ask()
        await signals.first.wait()
        is_succeeded = await service.end(3)
        service.stop()
        successor = succession.successor
        assert successor is not None
        successor.wait()
        lines = [manager.recv(100).decode() for _ in range(2)]

    assert is_succeeded
    assert ["READY=1", f"MAINPID={successor.pid}\nREADY=1"] == lines


async def test_end_before_it_began() -> None:
    """There is nobody to succeed it."""
    service = Service(ServiceManager({}))
    service.stop()

    assert not await service.end(0)
