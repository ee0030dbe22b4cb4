"""A server for tests of requests, on a loop whose time is virtual."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.apiserver.site import Site
from tests.support.clocks import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    import pytest


def pytest_asyncio_loop_factories(
    item: pytest.Function,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A loop whose time is virtual for tests of requests, the usual one for all others."""
    is_virtual = "site" in item.fixturenames
    if is_virtual:
        return {"virtual": partial(VirtualLoop, grace_s=0.002)}
    return {"usual": asyncio.new_event_loop}


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    """A server with all kinds, and the namespace `default`."""
    site = Site()
    await site.start()
    try:
        yield site
    finally:
        await site.stop()
