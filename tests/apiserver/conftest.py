"""What tests of requests share: a server, on a loop whose time is virtual."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.apiserver.site import Site, VirtualLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    import pytest


def pytest_asyncio_loop_factories(
    item: pytest.Function,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A loop whose time is virtual for tests of requests, the usual one for all others."""
    is_virtual = "site" in item.fixturenames
    return {"virtual": VirtualLoop} if is_virtual else {"usual": asyncio.new_event_loop}


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    """A server with all kinds, and the namespace `default`."""
    site = Site()
    await site.start()
    try:
        yield site
    finally:
        await site.stop()
