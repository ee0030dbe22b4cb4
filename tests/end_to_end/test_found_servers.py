"""Servers found by DNS or a Service, which change under load: no request is lost or doubled."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.app.process import ProxyProcess
from apfproxy.app.reloading import SettingsFile, reload
from apfproxy.base import tasks
from apfproxy.base.tasks import spawn
from apfproxy.settings import (
    HTTP,
    Address,
    DownstreamSettings,
    EndpointSettings,
    HealthCheckSettings,
    ServiceSettings,
    Settings,
    UpstreamSettings,
    UpstreamTlsSettings,
)
from apfproxy.sources import endpoint_source
from apfproxy.upstream import dns_endpoints
from loadtest.certificates import Authority
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
    """What the system resolves."""

    def look_up(self, host: str) -> list[str]:
        """The addresses of a host."""
        if host not in self:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self[host]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """What the system resolves, which a test changes; nobody waits for long."""
    found = Names()
    monkeypatch.setattr(dns_endpoints, "system_addresses", found.look_up)
    monkeypatch.setattr(dns_endpoints, "FIRST_PAUSE_S", 0.01)
    return found


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an API asked again at once."""
    monkeypatch.setattr(tasks, "FIRST_S", 0.01)
    monkeypatch.setattr(tasks.Backoff.__init__, "__defaults__", (0.01, 0.02, lambda: 1.0))


def settings_for(upstream: UpstreamSettings) -> Settings:
    """Settings of a proxy without an admin listener, which asks servers nothing by itself."""
    return Settings(
        downstream=DownstreamSettings(listen=Address(host="127.0.0.1", port=0)),
        upstream=replace(
            upstream, health_check=HealthCheckSettings(interval_s=None), slow_start_s=0.0
        ),
        admin=None,
    )


def by_name(port: int) -> UpstreamSettings:
    """Servers that are found by a name, which is asked for all the time."""
    return UpstreamSettings(dns=Address(host="api.test", port=port), resolve_interval_s=0.01)


@contextlib.asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[ProxyProcess]:
    """A proxy; it has no error of its own."""
    process = ProxyProcess(settings)
    await process.start()
    try:
        yield process
    finally:
        await process.stop()
    assert not any(process.faults.totals.values()), process.faults.totals


def hosts(process: ProxyProcess) -> list[str]:
    """Of the servers that get requests now."""
    return [each.address.address.host for each in process.cluster.served.pool.endpoints]


def problem(process: ProxyProcess) -> str | None:
    """What is wrong with the source."""
    return process.health.problem(endpoint_source.ENDPOINTS)


class Load:
    """Clients that ask all the while.

    Attributes:
        crowd: The clients.
    """

    def __init__(self) -> None:
        self.crowd = Crowd(REQUESTS, PODS)
        self._running: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def servers(self) -> AsyncIterator[int]:
        """Servers at all hosts: their port."""
        port = free_port()
        async with contextlib.AsyncExitStack() as stack:
            for host in HOSTS:
                await stack.enter_async_context(self.crowd.upstream(host, port))
            yield port

    def begin(self, process: ProxyProcess) -> None:
        """Begin to ask."""
        self._running = spawn(self.crowd.run(process.port, CLIENTS), name="clients")

    async def until(self, process: ProxyProcess, *expected: str) -> None:
        """Wait until these get the requests, and have got some."""
        await until(lambda: hosts(process) == list(expected))
        number = len(self.crowd.answered) + 100
        await until(lambda: len(self.crowd.answered) >= min(number, REQUESTS))

    async def end(self) -> None:
        """Wait for all: none was lost or doubled, and nothing else was answered."""
        assert self._running is not None
        await self._running
        self.crowd.assert_all_answered_once()


@on_uvloop
async def dns_under_load(names: Names) -> None:
    """Addresses come and go; while there is no answer, those that are known stay."""
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


def test_dns_under_load(names: Names) -> None:
    """No request is lost or doubled while a name's addresses change."""
    dns_under_load(names)


@on_uvloop
async def service_under_load(folder: Path) -> None:
    """Slices change; the API cuts its watches, forgets, and is gone for a while."""
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
            kubeconfig=kubeconfig(folder, f"http://127.0.0.1:{api_port}"),
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


@pytest.mark.usefixtures("prompt")
def test_service_under_load(tmp_path: Path) -> None:
    """No request is lost or doubled while a Service's servers change, and its API is away."""
    service_under_load(tmp_path)


@on_uvloop
async def other_sources_under_load(folder: Path, names: Names) -> None:
    """From an address to a name, to a Service, to a list and back to the address."""
    load, api = Load(), SlicesApi("team", "api")
    names["api.test"] = [TWO, THREE]
    async with load.servers() as port, api.served() as api_port:
        await api.put("a", port, ONE, THREE)
        config = kubeconfig(folder, f"http://127.0.0.1:{api_port}")
        by_address = settings_for(UpstreamSettings(url=Address(host=ONE, port=port)))
        async with running(by_address) as process:

            async def put(settings: Settings) -> None:
                settings = replace(settings, downstream=by_address.downstream)
                await reload(process, SettingsFile(None, lambda: settings))
                assert settings == process.settings

            load.begin(process)
            await load.until(process, ONE)
            await put(settings_for(by_name(port)))
            await load.until(process, TWO, THREE)
            await put(
                settings_for(
                    UpstreamSettings(
                        service=ServiceSettings(
                            namespace="team", name="api", scheme=HTTP, kubeconfig=config
                        )
                    )
                )
            )
            await load.until(process, ONE, THREE)
            await put(
                settings_for(
                    UpstreamSettings(
                        endpoints=tuple(
                            EndpointSettings(url=Address(host=host, port=port))
                            for host in (TWO, ONE)
                        )
                    )
                )
            )
            await load.until(process, TWO, ONE)
            await put(settings_for(by_name(port)))
            await load.until(process, TWO, THREE)
            await put(by_address)
            await load.until(process, ONE)
            await load.end()


def test_other_sources_under_load(tmp_path: Path, names: Names) -> None:
    """No request is lost or doubled while the settings say otherwise where servers are found."""
    other_sources_under_load(tmp_path, names)


@on_uvloop
async def api_of_its_own(folder: Path, *, is_gone: bool) -> None:
    """The API that is asked for its servers loses the one that is in the kubeconfig."""
    authority, port = Authority("ca"), free_port()
    issued = authority.issue("api", usage="server", hosts=(ONE, "kubernetes.default.svc"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*issued.write(folder, "api"))
    api = SlicesApi("default", "kubernetes")
    await api.put("kubernetes", port, ONE, TWO)
    settings = settings_for(
        UpstreamSettings(
            service=ServiceSettings(
                name="kubernetes",
                kubeconfig=kubeconfig(folder, f"https://{ONE}:{port}", authority.write(folder)),
            ),
            tls=UpstreamTlsSettings(ca_file=authority.write(folder)),
        )
    )
    if not is_gone:
        asked = HealthCheckSettings(path="/readyz", interval_s=0.1, unhealthy_threshold=1)
        settings = replace(settings, upstream=replace(settings.upstream, health_check=asked))
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(contextlib.AsyncExitStack())
        await first.enter_async_context(api.served(ONE, port, tls))
        await stack.enter_async_context(api.served(TWO, port, tls))
        process = await stack.enter_async_context(running(settings))
        await until(lambda: hosts(process) == [ONE, TWO])
        if is_gone:
            await first.aclose()
        else:  # as a server that hangs, whose connections stay
            api.unwell = {ONE}
        await until(lambda: ("watch", TWO) in api.asked)
        await api.put("kubernetes", port, TWO, THREE)
        await until(lambda: hosts(process) == [TWO, THREE])

    assert ("list", ONE) == api.asked[0]


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "unwell"])
@pytest.mark.usefixtures("prompt")
def test_api_of_its_own(tmp_path: Path, *, is_gone: bool) -> None:
    """Where one server of an API dies, or is not well, the next one tells which there are."""
    api_of_its_own(tmp_path, is_gone=is_gone)
