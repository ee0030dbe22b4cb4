"""Several servers that die, hang, fail and return: who gets requests, and how many seats."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import aiohttp
import pytest

from apfproxy.app.process import ProxyProcess
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    EjectionSettings,
    EndpointSettings,
    FlowControlSettings,
    HealthCheckSettings,
    OverloadSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.upstream import health
from loadtest.gateway import Servers
from tests.end_to_end.scene import on_uvloop
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ANY_PORT = Address(host="127.0.0.1", port=0)
SEATS = 200
"""For an endpoint."""


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOOK_S", 0.05)
    monkeypatch.setattr(health, "LINE_S", 0.0)


class Gateway:
    """A proxy before several servers, and a client that asks it all the time."""

    def __init__(self, process: ProxyProcess, session: aiohttp.ClientSession) -> None:
        self.process = process
        self._session = session
        self.good = 0
        self.wrong: list[str] = []

    @property
    def states(self) -> list[str]:
        return [each.state for each in self.process.cluster.upstream.watches.values()]

    @property
    def limit(self) -> int:
        return self.process.cluster.controller.server_concurrency_limit

    async def ask(self) -> None:
        url = f"http://127.0.0.1:{self.process.port}/api/v1/namespaces/a/pods/b"
        while True:
            try:
                async with self._session.get(url) as response:
                    await response.read()
                    if response.status == 200:
                        self.good += 1
                    else:
                        self.wrong.append(str(response.status))
            except (aiohttp.ClientError, ConnectionError) as error:
                self.wrong.append(repr(error))
            await asyncio.sleep(0.002)

    async def see(self, *states: str) -> None:
        await until(lambda: list(states) == self.states)
        await until(lambda: self.limit == SEATS * max(1, states.count("up")))

    async def serve(self, count: int = 50) -> None:
        enough = self.good + count
        await until(lambda: self.good >= enough)

    async def page(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.process.admin_port}{path}"
        async with self._session.get(url) as response:
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def gateway(
    servers: Servers, *, clients: int = 4, check: HealthCheckSettings
) -> AsyncIterator[Gateway]:
    process = ProxyProcess(
        Settings(
            downstream=DownstreamSettings(
                listen=ANY_PORT, overload=OverloadSettings(loop_delay_s=None)
            ),
            upstream=UpstreamSettings(
                endpoints=tuple(
                    EndpointSettings(url=Address(host="127.0.0.1", port=port))
                    for port in servers.ports
                ),
                health_check=check,
                ejection=EjectionSettings(failures=3, pause_s=0.2, max_pause_s=0.2),
                slow_start_s=0.2,
                fails_readiness=True,
            ),
            flow_control=FlowControlSettings(per_endpoint=SEATS),
            admin=ANY_PORT,
        )
    )
    await process.start()
    async with aiohttp.ClientSession() as session:
        made = Gateway(process, session)
        tasks = [asyncio.create_task(made.ask()) for _ in range(clients)]
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await process.stop()


CHECK = HealthCheckSettings(interval_s=0.1, timeout_s=0.5)


@on_uvloop
async def test_server_that_is_killed(tmp_path: Path) -> None:
    """Requests that have not begun go elsewhere; pages say which one is out.

    One that hangs costs nothing but its place.  Without any the proxy is not ready, but sends
    requests, so that the first one back serves.
    """
    with Servers(tmp_path, 3) as servers:
        async with gateway(servers, check=CHECK) as scene:
            await scene.see("up", "up", "up")
            await scene.serve()
            await servers.each[1].kill()
            await scene.see("up", "failing", "up")
            await scene.serve()
            readiness = await scene.page("/readyz?verbose")
            await servers.be_well(1)
            await scene.see("up", "up", "up")
            events = [each.message for each in scene.process.configuration_events]
            wrong = list(scene.wrong)
            servers.each[0].hang()
            await scene.see("failing", "up", "up")
            await servers.be_well(0)
            await scene.see("up", "up", "up")
            await scene.serve()
            assert wrong == scene.wrong
            for at in range(3):
                await servers.each[at].kill()
            await scene.see("failing", "failing", "failing")
            assert SEATS == scene.limit
            without_any = await scene.page("/readyz?verbose")
            await servers.be_well(0)
            await scene.see("up", "failing", "failing")
            ready, _ = await scene.page("/readyz")
            await scene.serve()

    assert ["502"] * len(wrong) == wrong
    assert len(wrong) <= 4  # what was under way, one a client
    code, text = readiness
    assert 200 == code
    assert "[+]upstream ok\n" in text
    url = f"http://127.0.0.1:{servers.ports[1]}"
    assert f"[!]servers: 1 of 3 is out: {url}: connection refused\n" in text
    assert "400 seats, since 2 of 3 servers are well" in events
    assert "600 seats, since 3 of 3 servers are well" in events[-1]
    assert (500, 200) == (without_any[0], ready)
    assert "[-]upstream failed: all 3 fail: http://127.0.0.1:" in without_any[1]
