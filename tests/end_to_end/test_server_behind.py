"""The server behind dies, comes back, or is another one: health pages and live state say so."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from apfproxy.app.process import ProxyProcess
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    HealthCheckSettings,
    OverloadSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.upstream import health
from tests.end_to_end.scene import on_uvloop
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANY_PORT = Address(host="127.0.0.1", port=0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOOK_S", 0.01)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
    writer.close()


@contextlib.asynccontextmanager
async def proxy_before(upstream: UpstreamSettings) -> AsyncIterator[ProxyProcess]:
    process = ProxyProcess(
        Settings(
            downstream=DownstreamSettings(
                listen=ANY_PORT, overload=OverloadSettings(loop_delay_s=None)
            ),
            upstream=upstream,
            admin=ANY_PORT,
        )
    )
    await process.start()
    try:
        yield process
    finally:
        await process.stop()


class Client:
    """Asks a proxy for its pages, and for what is behind it."""

    def __init__(self, session: aiohttp.ClientSession, process: ProxyProcess) -> None:
        self._session = session
        self._process = process

    async def request(self) -> int:
        url = f"http://127.0.0.1:{self._process.port}/api/v1/namespaces/a/pods"
        async with self._session.get(url) as response:
            return response.status

    async def page(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self._process.admin_port}{path}"
        async with self._session.get(url) as response:
            return response.status, await response.text()

    async def live(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._process.admin_port}/debug/live"
        async with self._session.get(url) as response:
            state: dict[str, Any] = await response.json()
            return state


@on_uvloop
async def test_server_that_dies_and_comes_back() -> None:
    """With requests and without: by its death, and by its return."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    upstream = UpstreamSettings(
        url=Address(host="127.0.0.1", port=port),
        health_check=HealthCheckSettings(interval_s=0.1),
    )
    async with proxy_before(upstream) as process, aiohttp.ClientSession() as session:
        client, watch = Client(session, process), process.cluster.upstream
        await until(lambda: watch.state == "up")
        assert 200 == await client.request()
        server.close()
        process.cluster.served.pool.renew()  # its connections have died with it
        assert 502 == await client.request()
        await until(lambda: watch.state == "failing")
        code, text = await client.page("/readyz?verbose")
        alive, alive_text = await client.page("/livez?verbose")
        state = await client.live()
        _, metrics = await client.page("/metrics")
        server = await asyncio.start_server(answer, "127.0.0.1", port)
        await until(lambda: watch.state == "up")
        ready, _ = await client.page("/readyz")
        server.close()

    failed = f"[!]upstream: http://127.0.0.1:{port}: connection refused (for "
    assert (200, True) == (code, failed in text)
    assert (200, True) == (alive, failed in alive_text)
    assert 200 == ready
    assert ("failing", "connection refused") == (
        state["upstream"]["state"],
        state["upstream"]["problem"],
    )
    assert (1, 1) == (
        state["upstream"]["answers"]["2xx"],
        state["upstream"]["failures"]["connect"],
    )
    assert [1] == [level["failed"] for level in state["levels"] if level["dispatched"]]
    assert "the server behind" in state["verdict"][0]["text"]
    assert "\napfproxy_upstream_up 0.0\n" in metrics
    assert '\napfproxy_upstream_answers_total{code="200"} 1.0\n' in metrics
    assert '\napfproxy_upstream_failures_total{reason="connect"} 1.0\n' in metrics
