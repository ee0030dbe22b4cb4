"""Servers found by DNS or a Service, which change under load: no request is lost or doubled."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.app.process import ProxyProcess
from apfproxy.base import tasks
from apfproxy.base.tasks import spawn
from apfproxy.settings import (
    HTTP,
    Address,
    DownstreamSettings,
    HealthCheckSettings,
    ServiceSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.sources import endpoint_source
from apfproxy.upstream import dns_endpoints
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.programs import free_port
from tests.end_to_end.scene import on_uvloop
from tests.end_to_end.slices_api import SlicesApi, kubeconfig
from tests.support.clocks import until

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator
    from pathlib import Path

REQUESTS = 6_000
CLIENTS = 20
HOSTS = tuple(f"127.0.0.{number}" for number in range(1, 4))
ONE, TWO, THREE = HOSTS
PODS = b"/api/v1/namespaces/default/pods/"


class Names(dict[str, list[str]]):
    """Holds what the system resolves."""

    def look_up(self, host: str) -> list[str]:
        if host not in self:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self[host]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    found = Names()
    monkeypatch.setattr(dns_endpoints, "system_addresses", found.look_up)
    monkeypatch.setattr(dns_endpoints, "FIRST_PAUSE_S", 0.01)
    return found


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "FIRST_S", 0.01)
    monkeypatch.setattr(tasks.Backoff.__init__, "__defaults__", (0.01, 0.02, lambda: 1.0))


def settings_for(upstream: UpstreamSettings) -> Settings:
    return Settings(
        downstream=DownstreamSettings(listen=Address(host="127.0.0.1", port=0)),
        upstream=replace(
            upstream, health_check=HealthCheckSettings(interval_s=None), slow_start_s=0.0
        ),
        admin=None,
    )


def by_name(port: int) -> UpstreamSettings:
    return UpstreamSettings(dns=Address(host="api.test", port=port), resolve_interval_s=0.01)


@contextlib.asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[ProxyProcess]:
    process = ProxyProcess(settings)
    await process.start()
    try:
        yield process
    finally:
        await process.stop()
    assert not any(process.faults.totals.values()), process.faults.totals


def hosts(process: ProxyProcess) -> list[str]:
    return [each.address.address.host for each in process.cluster.served.pool.endpoints]


def problem(process: ProxyProcess) -> str | None:
    return process.health.problem(endpoint_source.ENDPOINTS)


class Load:
    """Clients that ask all the while."""

    def __init__(self) -> None:
        self.crowd = Crowd(REQUESTS, PODS)
        self._running: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def servers(self) -> AsyncIterator[int]:
        port = free_port()
        async with contextlib.AsyncExitStack() as stack:
            for host in HOSTS:
                await stack.enter_async_context(self.crowd.upstream(host, port))
            yield port

    def begin(self, process: ProxyProcess) -> None:
        self._running = spawn(self.crowd.run(process.port, CLIENTS), name="clients")

    async def until(self, process: ProxyProcess, *expected: str) -> None:
        await until(lambda: hosts(process) == list(expected))
        number = len(self.crowd.answered) + 100
        await until(lambda: len(self.crowd.answered) >= min(number, REQUESTS))

    async def end(self) -> None:
        assert self._running is not None
        await self._running
        self.crowd.assert_all_answered_once()


@on_uvloop
async def test_dns_under_load(names: Names) -> None:
    load = Load()
    names["api.test"] = [ONE]
    async with (
        load.servers() as port,
        running(settings_for(by_name(port))) as process,
    ):
        load.begin(process)
        await load.until(process, ONE)
        for known in ([ONE, TWO], [TWO], [THREE, TWO]):
            names["api.test"] = known
            await load.until(process, *sorted(known))
        del names["api.test"]
        await until(lambda: "Name or service not known" in str(problem(process)))
        await load.until(process, TWO, THREE)
        names["api.test"] = []
        await until(lambda: "the name has no address" in str(problem(process)))
        await load.until(process, TWO, THREE)
        names["api.test"] = list(HOSTS)
        await load.until(process, *HOSTS)
        assert problem(process) is None
        await load.end()


@pytest.mark.usefixtures("prompt")
@on_uvloop
async def test_service_under_load(tmp_path: Path) -> None:
    load, api = Load(), SlicesApi("team", "api")
    async with contextlib.AsyncExitStack() as stack:
        port = await stack.enter_async_context(load.servers())
        api_stack = await stack.enter_async_context(contextlib.AsyncExitStack())
        api_port = await api_stack.enter_async_context(api.served())
        await api.put("a", port, ONE)
        service = ServiceSettings(
            namespace="team",
            name="api",
            port="web",
            scheme=HTTP,
            kubeconfig=kubeconfig(tmp_path, f"http://127.0.0.1:{api_port}"),
        )
        process = await stack.enter_async_context(
            running(settings_for(UpstreamSettings(service=service)))
        )
        load.begin(process)
        await load.until(process, ONE)
        await api.put("b", port, TWO, THREE)
        await load.until(process, *HOSTS)
        await api.put("a", port, ONE, draining=(ONE,))
        await load.until(process, TWO, THREE)
        await api.delete("a")
        await api.bookmark()
        api.cut()
        await api.put("b", port, TWO)
        await load.until(process, TWO)
        await api.forget()
        await api.put("b", port, ONE, TWO)
        await load.until(process, ONE, TWO)
        await api_stack.aclose()
        await until(lambda: "cannot connect" in str(problem(process)))
        await load.until(process, ONE, TWO)
        await stack.enter_async_context(api.served(port=api_port))
        await api.put("b", port, *HOSTS)
        await load.until(process, *HOSTS)
        assert problem(process) is None
        await load.end()
