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
    RebalanceSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.upstream import health, rebalance
from loadtest.gateway_servers import Servers
from tests.end_to_end.scene import on_uvloop
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

ANY_PORT = Address(host="127.0.0.1", port=0)
SEATS = 200
"""Of an endpoint."""


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have servers looked at often, so that nobody waits."""
    monkeypatch.setattr(health, "LOOK_S", 0.05)
    monkeypatch.setattr(health, "LINE_S", 0.0)


class Gateway:
    """A proxy before several servers, and a client that asks it all the time.

    Attributes:
        wrong: Answers other than 200, and errors, so far.
        good: Answers 200.
    """

    def __init__(self, process: ProxyProcess, session: aiohttp.ClientSession) -> None:
        self.process = process
        self._session = session
        self.good = 0
        self.wrong: list[str] = []

    @property
    def states(self) -> list[str]:
        """Of the servers."""
        return [each.state for each in self.process.cluster.upstream.watches.values()]

    @property
    def limit(self) -> int:
        """The seats of the whole."""
        return self.process.cluster.controller.server_concurrency_limit

    async def ask(self) -> None:
        """Ask for something small, again and again."""
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
        """Wait until the servers are in these states, and the limit is theirs."""
        await until(lambda: list(states) == self.states)
        await until(lambda: self.limit == SEATS * max(1, states.count("up")))

    async def serve(self, count: int = 50) -> None:
        """Let so many further requests be answered."""
        enough = self.good + count
        await until(lambda: self.good >= enough)

    async def page(self, path: str) -> tuple[int, str]:
        """Status and text of a page of the admin listener."""
        url = f"http://127.0.0.1:{self.process.admin_port}{path}"
        async with self._session.get(url) as response:
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def gateway(
    servers: Servers, *, clients: int = 4, check: HealthCheckSettings, percent: int = 0
) -> AsyncIterator[Gateway]:
    """Start a proxy before servers."""
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
                rebalance=RebalanceSettings(percent_per_minute=percent),
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
    """Requests that have not begun go elsewhere; pages say which one is out."""
    with Servers(tmp_path, 3) as servers:
        async with gateway(servers, check=CHECK) as scene:
            await scene.see("up", "up", "up")
            await scene.serve()
            await servers.kill(1)
            await scene.see("up", "failing", "up")
            await scene.serve()
            readiness = await scene.page("/readyz?verbose")
            await servers.be_well(1)
            await scene.see("up", "up", "up")
            await scene.serve()
            events = [each.message for each in scene.process.configuration_events]

    assert [] == [each for each in scene.wrong if each != "502"]
    assert len(scene.wrong) <= 4  # what was under way, one a client
    code, text = readiness
    assert 200 == code
    assert "[+]upstream ok\n" in text
    url = f"http://127.0.0.1:{servers.ports[1]}"
    assert f"[!]servers: 1 of 3 is out: {url}: connection refused\n" in text
    assert "400 seats, since 2 of 3 servers are well" in events
    assert "600 seats, since 3 of 3 servers are well" in events[-1]


@on_uvloop
async def test_all_servers_are_killed(tmp_path: Path) -> None:
    """Only then the proxy is not ready; requests are sent, so that the first one back serves."""
    with Servers(tmp_path, 2) as servers:
        async with gateway(servers, check=CHECK) as scene:
            await scene.see("up", "up")
            for at in range(2):
                await servers.kill(at)
            await scene.see("failing", "failing")
            assert SEATS == scene.limit
            code, text = await scene.page("/readyz?verbose")
            await servers.be_well(0)
            await scene.see("up", "failing")
            ready, _ = await scene.page("/readyz")
            await scene.serve()

    assert (500, 200) == (code, ready)
    assert "[-]upstream failed: all 2 fail: http://127.0.0.1:" in text


@on_uvloop
async def test_server_that_hangs(tmp_path: Path) -> None:
    """It accepts connections, but no check is answered; what it has fails, and nothing else."""
    with Servers(tmp_path, 3) as servers:
        async with gateway(servers, check=CHECK) as scene:
            await scene.see("up", "up", "up")
            await scene.serve()
            servers.hang(0)
            await scene.see("failing", "up", "up")
            await servers.be_well(0)
            await scene.see("up", "up", "up")
            await scene.serve()

    assert [] == scene.wrong


@on_uvloop
async def test_server_that_starts(tmp_path: Path) -> None:
    """It refuses all by 403 until it has loaded its roles: nobody gets that for an answer."""
    with Servers(tmp_path, 2) as servers:
        async with gateway(servers, check=CHECK) as scene:
            await scene.see("up", "up")
            await servers.kill(1)
            await scene.see("up", "failing")
            await servers.start(1, "starting")
            watch = list(scene.process.cluster.upstream.watches.values())[1]
            await until(lambda: "403" in (watch.problem or ""))
            await scene.serve()
            starting = scene.states
            await servers.be_well(1)
            await scene.see("up", "up")
            await scene.serve()

    assert ["up", "failing"] == starting
    assert [] == [each for each in scene.wrong if each != "502"]


@on_uvloop
async def test_start_beside_a_server_that_starts(tmp_path: Path) -> None:
    """What another server answers tells that the check is right, whichever answers first."""
    with Servers(tmp_path, 2) as servers:
        await servers.be(0, "starting")
        async with gateway(servers, check=CHECK) as scene:
            await scene.see("failing", "up")
            await scene.serve()  # and what was under way then
            scene.wrong.clear()  # before the first checks nothing is known
            await scene.serve()
            await servers.be_well(0)
            await scene.see("up", "up")

    assert [] == scene.wrong


@on_uvloop
async def test_restart_between_two_checks(tmp_path: Path) -> None:
    """Requests notice it: the server is checked at once, and is out until a check is good."""
    check = HealthCheckSettings(interval_s=3600.0, timeout_s=0.5)
    with Servers(tmp_path, 2) as servers:
        async with gateway(servers, check=check) as scene:
            await scene.see("up", "up")
            await scene.serve()
            await servers.kill(1)
            await scene.see("up", "failing")
            await servers.start(1, "starting")
            await scene.serve()

    assert [] == [each for each in scene.wrong if each != "502"]


@on_uvloop
async def test_start_beside_a_server_that_hangs(tmp_path: Path) -> None:
    """Once another one is known to be well, requests do not wait for it to be known, too."""
    check = HealthCheckSettings(interval_s=0.1, timeout_s=3600.0)
    with Servers(tmp_path, 2) as servers:
        servers.hang(0)
        async with gateway(servers, clients=0, check=check) as scene:
            await until(lambda: scene.states == ["unknown", "up"])
            asking = asyncio.create_task(scene.ask())
            await scene.serve()
            asking.cancel()
            states = scene.states

    assert (["unknown", "up"], []) == (states, scene.wrong)


@pytest.mark.parametrize(("manner", "state"), [("failing", "ejected"), ("unready", "failing")])
@on_uvloop
async def test_server_that_says_so(tmp_path: Path, manner: str, state: str) -> None:
    """By 503 to requests, or to checks; a check alone costs nobody an answer."""
    check = CHECK if state == "failing" else HealthCheckSettings(interval_s=None)
    with Servers(tmp_path, 3) as servers:
        async with gateway(servers, check=check) as scene:
            await scene.serve()
            await servers.be(2, manner)
            await until(lambda: scene.states[2] == state)
            await until(lambda: scene.limit == 2 * SEATS)
            await servers.be_well(2)
            await until(lambda: scene.states == ["up"] * 3)
            await scene.serve()

    assert {"503"} >= set(scene.wrong)
    assert bool(scene.wrong) is (state == "ejected")


class Watcher:
    """Watches for ever: asks again when a watch ends.

    Attributes:
        port: Of the server that the watch of now is at; 0 while there is none.
        broken: Ends that were not those of a whole answer.
        ends: All ends.
    """

    def __init__(self) -> None:
        self.port = 0
        self.broken = 0
        self.ends = 0

    async def watch(self, session: aiohttp.ClientSession, port: int) -> None:
        """Watch through the proxy that listens on a port."""
        url = f"http://127.0.0.1:{port}/api/v1/pods?watch=true"
        while True:
            try:
                async with session.get(url) as response:
                    assert 200 == response.status
                    self.port = 1
                    async for _ in response.content:
                        pass
            except aiohttp.ClientError:
                self.broken += 1
            self.port = 0
            self.ends += 1


@on_uvloop
async def test_watches_come_back_into_balance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a server is back that was away: some end in order, and their clients go there."""
    monkeypatch.setattr(rebalance, "MINUTE_S", 1.0)
    monkeypatch.setattr(rebalance, "PERIOD_S", 0.05)
    monkeypatch.setattr(rebalance, "OLD_S", 0.1)
    with Servers(tmp_path, 3) as servers:
        await servers.kill(2)
        async with (
            gateway(servers, check=CHECK, clients=0, percent=100) as scene,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        ):
            pool = scene.process.cluster.served.pool
            await scene.see("up", "up", "failing")
            watchers = [Watcher() for _ in range(30)]
            tasks = [
                asyncio.create_task(each.watch(session, scene.process.port)) for each in watchers
            ]
            counts = counter_of(scene)
            await until(lambda: sum(counts()) == 30)
            assert 0 == counts()[2]
            assert max(counts()) <= 17
            await servers.be_well(2)
            await until(lambda: min(counts()) >= 8 and sum(counts()) == 30)
            moved = scene.process.cluster.counters.pool.rebalanced
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await until(lambda: all(not each.busy_count for each in pool.endpoints))

    assert 0 == sum(each.broken for each in watchers)
    assert 8 <= moved <= sum(each.ends for each in watchers) + 1


def counter_of(scene: Gateway) -> Callable[[], list[int]]:
    """What counts the watches of each server."""
    pool = scene.process.cluster.served.pool
    return lambda: [len(rebalance.watches_of(each)) for each in pool.endpoints]
