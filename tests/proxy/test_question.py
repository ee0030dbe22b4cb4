"""Whether an origin answers."""

from __future__ import annotations

import asyncio

import pytest

from apfproxy.proxy.counters import ProxyCounters
from apfproxy.proxy.pool import Pool
from apfproxy.settings import Address, UpstreamSettings
from tests.end_to_end.scene import on_uvloop


@pytest.mark.parametrize(
    ("behaviour", "expected"), [("answers", True), ("hangs", False), ("closes", False)]
)
def test_origin(behaviour: str, *, expected: bool) -> None:
    """Any answer will do; an origin that hangs, or closes, gives none."""
    asked: list[bytes] = []

    @on_uvloop
    async def run() -> None:
        is_over = asyncio.Event()

        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            if behaviour == "answers":
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            elif behaviour == "hangs":
                await is_over.wait()
            writer.close()

        async with await asyncio.start_server(behave, "127.0.0.1", 0) as listener:
            address = Address(host="127.0.0.1", port=listener.sockets[0].getsockname()[1])
            limit_s = 0.05 if behaviour == "hangs" else 60.0
            settings = UpstreamSettings(url=address, connect_timeout_s=limit_s)
            pool = Pool(settings, ProxyCounters())
            assert expected is await pool.endpoints[0].probe(asks=True)
            assert (0, 0) == (pool.open_count, pool.idle_count)
            is_over.set()

    run()

    assert asked[0].startswith(b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
