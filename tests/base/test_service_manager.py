"""Tests of what a service manager is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.service_manager import ServiceManager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def told(address: str) -> Iterator[socket.socket]:
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
        lines = [socket_of_manager.recv(1000).decode() for _ in range(4)]

    assert lines.pop(1).startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert [
        "READY=1",
        "WATCHDOG=1",
        "STOPPING=1\nEXTEND_TIMEOUT_USEC=1500000",
    ] == lines


async def test_signs_of_life(tmp_path: Path) -> None:
    name = f"{tmp_path}/notify"
    looks = iter([False, True])
    lived = asyncio.Event()
    with told(name) as socket_of_manager:
        manager = ServiceManager({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "2000"})
        manager.end()

        def is_well() -> bool:
            found = next(looks, None)
            if found is None:
                lived.set()
            return bool(found)

        manager.begin(is_well)
        await lived.wait()
        manager.end()
        lines = [socket_of_manager.recv(100).decode() for _ in range(2)]

    assert ["READY=1", "WATCHDOG=1"] == lines


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
