"""A limit that two proxies share, while flow control only observes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace

from apfproxy.app.process import ProxyProcess
from apfproxy.settings import OBSERVE, FleetSettings, FlowControlSettings
from apfproxy.workers.place import STORE
from tests.end_to_end.scene import on_uvloop
from tests.fleet.memory_store import MemoryRecord
from tests.support.clocks import until
from tests.support.processes import settings_for

LIMIT = 20
REQUEST = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.e2e
@on_uvloop
async def test_seats_follow_what_is_observed() -> None:
    """The proxy to which all requests come has more than its equal part, as if it enforced."""
    asked: set[asyncio.StreamWriter] = set()
    ending = AsyncExitStack()

    async def keep_waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.add(writer)
        ending.callback(writer.close)

    record = MemoryRecord()
    upstream = await asyncio.start_server(keep_waiting, "127.0.0.1", 0)
    flow_control = FlowControlSettings(
        enforcement=OBSERVE, server_concurrency_limit=LIMIT, suggested_objects=False
    )
    settings = settings_for(upstream.sockets[0].getsockname()[1], flow_control)
    async with ending:
        ending.callback(upstream.close)
        memberships = []
        for name in ("one", "two"):
            fleet = FleetSettings(store=STORE, member=name)
            process = ProxyProcess(replace(settings, fleet=fleet), open_store=record.open_store)
            await process.start()
            ending.push_async_callback(process.stop)
            assert process.clusters.only is not None
            memberships.append((process.port, process.clusters.only.membership))
        (port, one), (_, two) = memberships
        assert one is not None
        assert two is not None
        for _ in range(2 * LIMIT):
            _, client = await asyncio.open_connection("127.0.0.1", port)
            ending.callback(client.close)
            client.write(REQUEST)
        await until(lambda: len(asked) == 2 * LIMIT and one.view().in_force > LIMIT // 2)

        assert one.view().in_force + two.view().in_force <= LIMIT
