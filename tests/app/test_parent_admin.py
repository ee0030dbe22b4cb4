"""The admin listener of the parent of workers."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import pytest

from apfproxy.admin.access import AdminAccess
from apfproxy.admin.worker_answers import WorkerAdmin
from apfproxy.app.parent_admin import ParentAdmin, workers_of
from apfproxy.base.errors import OperatorError
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.base.listeners import Listeners
from apfproxy.settings import Address, Settings
from tests.admin.several_workers import Machine, served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANY_PORT = Settings(admin=Address(host="127.0.0.1", port=0))


@dataclass(frozen=True)
class Place:
    """What a worker was told."""

    index: int
    admin: str


@dataclass(frozen=True)
class Process:
    """A process of a worker."""

    place: Place
    shown_state: str
    pid: int
    shows_life: bool = True


@dataclass(frozen=True)
class Slot:
    """The place of a worker."""

    index: int
    problem: str
    processes: list[Process]


@contextlib.asynccontextmanager
async def parent() -> AsyncIterator[ParentAdmin]:
    """The listener of a parent of two workers."""
    with tempfile.TemporaryDirectory(prefix="apf") as directory:
        machine = Machine(directory)
        slots = [
            Slot(each.index, "", [Process(Place(each.index, each.path), each.state, each.pid)])
            for each in machine.admins
        ]
        async with contextlib.AsyncExitStack() as stack:
            for worker, told in zip(machine.workers, machine.admins, strict=True):
                await stack.enter_async_context(served(worker.app(), told.path))
            addresses, access = Listeners(), AdminAccess(Settings())
            admin = ParentAdmin(addresses, lambda: slots, lambda: 3, HealthRegistry(), access)
            stack.callback(addresses.give_up)
            stack.push_async_callback(admin.close)
            yield admin


async def test_pages() -> None:
    """The pages are those of the workers, in the order of their indices."""
    async with parent() as admin, aiohttp.ClientSession() as session:
        await admin.open(ANY_PORT)
        await admin.start(lambda: ANY_PORT)
        async with session.get(f"http://127.0.0.1:{admin.port}/metrics") as response:
            text = await response.text()
        workers = admin.workers()
        is_local = admin.is_local()

    assert 'apfproxy_worker_up{worker="2"} 1.0' in text
    assert "apfproxy_worker_restarts_total 3.0" in text
    assert [each.index for each in workers] == [1, 2]
    assert workers[0] == WorkerAdmin(1, workers[0].path, "serving", 101)
    assert is_local


async def test_no_address() -> None:
    """Without an address there is no listener."""
    async with parent() as admin:
        await admin.open(Settings(admin=None))
        await admin.start(lambda: Settings(admin=None))

        assert admin.port is None
        assert not admin.is_local()
        assert repr(admin) == "<ParentAdmin: not started>"


async def test_address_in_use() -> None:
    """An address that somebody else has is an error of the operator."""
    async with parent() as admin, parent() as other:
        await admin.open(ANY_PORT)
        await admin.start(lambda: ANY_PORT)
        taken = Settings(admin=Address(host="127.0.0.1", port=admin.port or 0))
        with pytest.raises(OperatorError):
            await other.open(taken)


def test_workers_of() -> None:
    """A place without a process says why, and so does one whose process starts again or hangs."""
    starting, draining = (Process(Place(2, "path"), each, 7) for each in ("starting", "draining"))

    assert ["it has no process: it ended"] == [
        each.why_not for each in workers_of(Slot(2, "it ended", []))
    ]
    assert ["", "it is starting: it ended"] == [
        each.why_not for each in workers_of(Slot(2, "it ended", [draining, starting]))
    ]
    hanging = Process(Place(2, "path"), "draining", 7, shows_life=False)
    assert ["it shows no life"] == [each.why_not for each in workers_of(Slot(2, "", [hanging]))]
