"""A gateway whose objects are those of the servers behind: from whichever of them answers."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

import aiohttp
import pytest

from apfproxy.app import process
from apfproxy.app.process import ProxyProcess
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    EndpointSettings,
    FlowControlSettings,
    HealthCheckSettings,
    KubernetesSettings,
    OverloadSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.sources import kubernetes_api
from apfproxy.upstream import health
from loadtest.faulty_link import Ending, Fault, FaultyLink
from tests.end_to_end.api_servers import ANY_PORT, api_server, url_of
from tests.end_to_end.scene import on_uvloop
from tests.end_to_end.slices_api import kubeconfig
from tests.support.clocks import until
from tests.support.objects import level

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
FOREVER_S = 3600.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_api, "PATIENCE_S", 0.2)
    monkeypatch.setattr(health, "LOOK_S", 0.05)


def refuse(link: FaultyLink) -> None:
    link.refuse()
    link.strike(Ending.RESET)


def hang(link: FaultyLink) -> None:
    link.choose = lambda: Fault(ending=Ending.STALL, is_towards_origin=True)
    link.strike(Ending.STALL)


def swallow(link: FaultyLink) -> None:
    link.swallow()
    link.strike(Ending.VANISH)


WAYS = [pytest.param(each, id=each.__name__) for each in (refuse, hang, swallow)]


class Scene:
    """Two servers of one API, each behind a link, and a proxy before both."""

    def __init__(self, folder: Path, links: list[FaultyLink]) -> None:
        self.links = links
        path = kubeconfig(folder, url_of(links[0].port))
        self.process = ProxyProcess(
            Settings(
                downstream=DownstreamSettings(
                    listen=ANY_PORT, overload=OverloadSettings(loop_delay_s=None)
                ),
                upstream=UpstreamSettings(
                    endpoints=tuple(
                        EndpointSettings(url=Address(host="127.0.0.1", port=link.port))
                        for link in links
                    ),
                    health_check=HealthCheckSettings(interval_s=0.1, timeout_s=0.2),
                    connect_timeout_s=0.2,
                ),
                flow_control=FlowControlSettings(
                    kubernetes=KubernetesSettings(
                        is_enabled=True, kubeconfig=path, first_sync_timeout_s=FOREVER_S
                    )
                ),
                admin=ANY_PORT,
            )
        )

    @property
    def states(self) -> list[str]:
        return [each.state for each in self.process.cluster.upstream.watches.values()]

    def has(self, name: str) -> bool:
        return name in self.process.cluster.controller.levels

    async def ask(self, session: aiohttp.ClientSession, path: str) -> tuple[int, str, str]:
        async with session.get(f"http://127.0.0.1:{self.process.port}{path}") as response:
            return response.status, response.headers.get("Retry-After", ""), await response.text()

    async def ready(self, session: aiohttp.ClientSession) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.process.admin_port}/readyz?verbose"
        async with session.get(url) as response:
            return response.status, await response.text()


async def make(session: aiohttp.ClientSession, ports: list[int], name: str) -> None:
    for port in ports:
        async with session.post(url_of(port) + LEVELS, json=level(name, 30)) as response:
            assert 201 == response.status


@contextlib.asynccontextmanager
async def scene(
    folder: Path, session: aiohttp.ClientSession
) -> AsyncIterator[tuple[Scene, list[int]]]:
    async with api_server() as one, api_server() as other:
        await make(session, [one, other], "own")
        links = [FaultyLink(port, random.Random(1)) for port in (one, other)]  # noqa: S311
        for link in links:
            await link.listen()
        made = Scene(folder, links)
        try:
            yield made, [one, other]
        finally:
            await made.process.stop()
            for link in links:
                link.stop()


@pytest.mark.parametrize("fail", WAYS)
@on_uvloop
async def test_one_is_away_at_the_start(
    fail: Callable[[FaultyLink], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The objects are those of the other one from the first request on, as are changes of them."""
    monkeypatch.setattr(process, "STARTS_S", FOREVER_S)
    async with (
        aiohttp.ClientSession() as session,
        scene(tmp_path, session) as (made, ports),
    ):
        fail(made.links[0])
        await made.process.start()
        in_force = made.has("own"), made.process.health.problem("kubernetes")
        await until(lambda: made.states == ["failing", "up"])
        status, _, _ = await made.ask(session, "/version")
        await make(session, ports[1:], "later")
        await until(lambda: made.has("later"))

    assert ((True, None), 200) == (in_force, status)


@on_uvloop
async def test_all_are_away_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy listens: 503 until the objects are known, which are never the built-in ones."""
    monkeypatch.setattr(process, "STARTS_S", 0.01)
    async with (
        aiohttp.ClientSession() as session,
        scene(tmp_path, session) as (made, _),
    ):
        for link in made.links:
            swallow(link)
        await made.process.start()
        answer = await made.ask(session, "/version")
        readiness = await made.ready(session)
        async with session.get(f"http://127.0.0.1:{made.process.admin_port}/livez") as response:
            is_alive = response.status == 200
        other = made.links[1]
        other.drop()
        other.choose = Fault
        await other.listen()
        await until(lambda: made.has("own"))
        await until(lambda: made.process.cluster.upstream.state == "up")
        after = await made.ask(session, "/version")  # on the same connection
        async with aiohttp.ClientSession() as another:
            later = await made.ask(another, "/version")
        ready, _ = await made.ready(session)

    assert (503, "1") == answer[:2]
    assert "the proxy is starting: ask again soon" in answer[2]
    assert (500, True) == (readiness[0], is_alive)
    assert "[-]start failed: it is starting\n" in readiness[1]
    assert (200, 200, 200) == (after[0], later[0], ready)
