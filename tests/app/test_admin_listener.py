"""The admin listener: what it answers at once, and what aiohttp is started for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp

from apfproxy.app.process import ProxyProcess
from apfproxy.app.service_manager import ServiceManager
from tests.app.test_process import page, settings_for

if TYPE_CHECKING:
    import pytest


async def test_pages_that_are_wanted_later() -> None:
    """Health is answered at once, other pages from then on; the listener ends with both."""
    process = ProxyProcess(settings_for(9))
    await process.start()
    async with aiohttp.ClientSession() as session:
        port = process.admin_port
        ready = await page(session, port, "/readyz")
        pages = await asyncio.gather(
            *(page(session, port, path) for path in ("/", "/debug/live", "/debug/limits"))
        )
        again = await page(session, port, "/livez")
        missing = await page(session, port, "/nothing")
    await process.stop()

    assert (200, "ok") == ready == again
    assert [200, 200, 200] == [status for status, _ in pages]
    assert (404, "404 page not found; / lists what there is\n") == missing


async def test_counts_that_cannot_be_left(caplog: pytest.LogCaptureFixture) -> None:
    """It is said, and the process ends in order."""
    process = ProxyProcess(settings_for(9))
    process.service.manager = ServiceManager({})
    process.service.manager.counts = "/nowhere/counts"
    await process.start()
    await process.stop()

    assert "since the last scrape is lost: No such file or directory" in caplog.text
