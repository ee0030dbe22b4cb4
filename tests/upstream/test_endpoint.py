"""One server behind: what it is asked, and what becomes of its connections."""

from __future__ import annotations

import asyncio

import pytest

from apfproxy.settings import Address, UpstreamSettings
from apfproxy.upstream.counters import PoolCounters
from apfproxy.upstream.pool import Pool


async def test_probe() -> None:
    """It connects as a request would, keeps nothing, and tells what went wrong."""
    is_closed = asyncio.Event()

    async def see_it_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        writer.close()
        is_closed.set()

    async with await asyncio.start_server(see_it_close, "127.0.0.1", 0) as listener:
        address = Address(host="127.0.0.1", port=listener.sockets[0].getsockname()[1])
        pool = Pool(UpstreamSettings(url=address), PoolCounters())
        [endpoint] = pool.endpoints
        await endpoint.probe()
        assert (0, 0) == (pool.open_count, pool.idle_count)
        await is_closed.wait()

    with pytest.raises(ConnectionRefusedError):
        await endpoint.probe()
