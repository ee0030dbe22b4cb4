"""That the process has no descriptor left is noticed."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

from apfproxy.app.metrics_page import descriptor_families
from apfproxy.base import sockets
from apfproxy.base.rare_log import PERIOD_S
from apfproxy.base.sockets import DescriptorWatch
from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def opening(monkeypatch: pytest.MonkeyPatch, open_one: Callable[[], socket.socket]) -> None:
    """Have the watch open sockets so."""
    monkeypatch.setattr(sockets, "socket", SimpleNamespace(socket=open_one))


def test_shortage(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Each look without one counts, and once a minute it is said."""
    now_ns = [5]

    def full() -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    opening(monkeypatch, full)
    watch = DescriptorWatch(lambda: now_ns[0])
    for now_ns[0] in (5, 6, 5 + round(PERIOD_S * 1e9)):
        watch.look()
    (family,) = descriptor_families(watch)

    assert 3 == watch.shortages
    assert [3] == [sample.value for sample in family.samples]
    assert 2 == len(caplog.messages)
    assert "no connection can be accepted or made: Too many open files" in caplog.messages[0]


async def test_goes_on(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It looks again and again, whatever goes wrong with a look."""
    monkeypatch.setattr(sockets, "LOOK_S", 0)
    looks = asyncio.Event()
    errors = [OSError(errno.EACCES, "not allowed")]

    def open_one() -> socket.socket:
        if errors:
            raise errors.pop()
        looks.set()
        return socket.socket()

    opening(monkeypatch, open_one)
    watch = DescriptorWatch(time.monotonic_ns)
    task = spawn(watch.run(), name="looking")
    await looks.wait()
    task.cancel()

    assert 0 == watch.shortages
    assert ["whether there are descriptors left cannot be told"] == caplog.messages
