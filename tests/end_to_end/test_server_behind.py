"""The server behind dies, comes back, or is another one: health pages and live state say so."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
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
    UpstreamTlsSettings,
)
from apfproxy.upstream import health
from loadtest.certificates import Authority
from tests.end_to_end.scene import on_uvloop, over_both_protocols
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ANY_PORT = Address(host="127.0.0.1", port=0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the server looked at often, so that nobody waits."""
    monkeypatch.setattr(health, "LOOK_S", 0.01)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request on a connection."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
    writer.close()


@contextlib.asynccontextmanager
async def proxy_before(upstream: UpstreamSettings) -> AsyncIterator[ProxyProcess]:
    """A proxy before a server."""
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
        """Ask for something of the server: the status."""
        url = f"http://127.0.0.1:{self._process.port}/api/v1/namespaces/a/pods"
        async with self._session.get(url) as response:
            return response.status

    async def page(self, path: str) -> tuple[int, str]:
        """Status and text of a page of the admin listener."""
        url = f"http://127.0.0.1:{self._process.admin_port}{path}"
        async with self._session.get(url) as response:
            return response.status, await response.text()

    async def live(self) -> dict[str, Any]:
        """The live page's state."""
        url = f"http://127.0.0.1:{self._process.admin_port}/debug/live"
        async with self._session.get(url) as response:
            state: dict[str, Any] = await response.json()
            return state


@pytest.mark.parametrize("is_needed", [False, True])
@over_both_protocols
@on_uvloop
async def test_server_that_dies_and_comes_back(is_needed: bool) -> None:
    """With requests and without: by its death, and by its return."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    upstream = UpstreamSettings(
        url=Address(host="127.0.0.1", port=port),
        health_check=HealthCheckSettings(interval_s=0.1),
        fails_readiness=is_needed,
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

    failed = "[-]upstream failed" if is_needed else "[!]upstream"
    failed += f": http://127.0.0.1:{port}: connection refused (for "
    assert ((500 if is_needed else 200), True) == (code, failed in text)
    assert (200, not is_needed) == (alive, failed in alive_text)
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


@over_both_protocols
@on_uvloop
async def test_ca_that_does_not_fit(tmp_path: Path) -> None:
    """It is seen from the start, before anybody asks for anything, with the setting."""
    right, wrong = Authority("right"), Authority("wrong")
    certificate, key = right.issue("server", usage="server").write(tmp_path, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        upstream = UpstreamSettings(
            url=Address(host="127.0.0.1", port=port, is_tls=True),
            tls=UpstreamTlsSettings(ca_file=wrong.write(tmp_path, "ca")),
        )
        async with proxy_before(upstream) as process, aiohttp.ClientSession() as session:
            await until(lambda: process.cluster.upstream.state == "failing")
            code, text = await Client(session, process).page("/readyz?verbose")

    assert 200 == code
    assert (
        f"[!]upstream: https://127.0.0.1:{port}: certificate verify failed: unable to get"
        " local issuer certificate; upstream.tls.caFile (for "
    ) in text
