"""The admin listener of the parent of workers."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.admin.access import AdminAccess
from apfproxy.app.parent_admin import ParentAdmin
from apfproxy.base.errors import OperatorError
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.base.listeners import Listeners
from apfproxy.settings import Address, Settings
from tests.admin.scene import Scene
from tests.admin.test_admin import Process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANY_PORT = Settings(admin=Address(host="127.0.0.1", port=0))


@contextlib.asynccontextmanager
async def parent() -> AsyncIterator[ParentAdmin]:
    workers: Any = SimpleNamespace(slots=[Process({"": Scene(())}).told(2)], restarts=3)
    async with contextlib.AsyncExitStack() as stack:
        listeners = Listeners()
        admin = ParentAdmin(listeners, workers, HealthRegistry(), AdminAccess(Settings()))
        stack.callback(listeners.give_up)
        stack.push_async_callback(admin.close)
        yield admin


async def test_no_address() -> None:
    async with parent() as admin:
        await admin.open(Settings(admin=None))
        await admin.start()

        assert admin.port is None
        assert not admin.is_local()


async def test_address_in_use() -> None:
    """An address that somebody else has is an error of the operator."""
    async with parent() as admin, parent() as other:
        await admin.open(ANY_PORT)
        await admin.start()
        taken = Settings(admin=Address(host="127.0.0.1", port=admin.port or 0))
        with pytest.raises(OperatorError):
            await other.open(taken)
