"""The source of endpoints: followed, waited for, and replaced when settings change."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.base.health_checks import READYZ, HealthRegistry
from apfproxy.settings import Address, EndpointSettings, ServiceSettings, Settings, UpstreamSettings
from apfproxy.sources import endpoint_source, kubernetes_api
from apfproxy.sources.endpoint_source import ENDPOINTS, EndpointSource, source_of
from apfproxy.sources.servers_behind import ServersBehind
from apfproxy.upstream import dns_endpoints
from apfproxy.upstream.dns_endpoints import Resolver
from tests.support.clocks import until
from tests.support.kubernetes_api import KubernetesDouble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from apfproxy.settings import EndpointAddress


STATIC = Settings(upstream=UpstreamSettings(url=Address(host="127.0.0.1", port=1)))


def by_dns(host: str, interval_s: float = 30.0) -> Settings:
    return Settings(
        upstream=UpstreamSettings(dns=Address(host=host, port=80), resolve_interval_s=interval_s)
    )


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    known: dict[str, list[str]] = {}

    def look_up(host: str) -> list[str]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known[host]

    monkeypatch.setattr(dns_endpoints, "system_addresses", look_up)
    return known


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_source, "FIRST_ANSWER_S", 0.0)


NONE_BEHIND = ServersBehind(UpstreamSettings, dict)


class Told:
    def __init__(self, settings: Settings) -> None:
        self.hosts: list[list[str]] = []
        self.health = HealthRegistry()
        self.source = EndpointSource(settings, self.health, self._take, NONE_BEHIND)

    def _take(self, endpoints: tuple[EndpointAddress, ...]) -> None:
        self.hosts.append([each.address.host for each in endpoints])

    @property
    def checks(self) -> str:
        page = self.health.page(READYZ, verbose=True)
        assert page.is_healthy
        return "".join(line for line in page.text.splitlines() if ENDPOINTS in line)

    async def change(self, settings: Settings) -> None:
        (await self.source.prepare(settings)).commit()


@asynccontextmanager
async def started(settings: Settings) -> AsyncIterator[Told]:
    told = Told(settings)
    told.source.start()
    try:
        await told.source.wait()
        yield told
    finally:
        await told.source.close()
        await told.source.close()


@pytest.mark.usefixtures("hasty")
async def test_unknown_at_the_start(
    names: dict[str, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    async with started(by_dns("a")) as told:
        await until(lambda: "[!]" in told.checks)
        checks = told.checks

    text = "http://a:80: cannot be resolved: Name or service not known; no endpoint is known"
    assert {} == names
    assert [] == told.hosts
    assert f"[!]endpoints: {text}" == checks
    assert "requests get 503 until a server behind is known: http://a:80" in caplog.text


async def test_changes(names: dict[str, list[str]]) -> None:
    """Other settings have other endpoints, which are found before they come into force."""
    names.update(a=["10.0.0.1"], b=["10.0.0.2"])
    async with started(STATIC) as told:
        await told.change(by_dns("a"))
        await told.change(by_dns("a"))
        await told.change(by_dns("a", 60.0))
        await told.change(by_dns("b"))
        checks = [told.checks]
        await told.change(STATIC)
        checks.append(told.checks)

    assert [["10.0.0.1"], ["10.0.0.1"], ["10.0.0.2"]] == told.hosts
    assert ["[+]endpoints ok", ""] == checks


async def test_change_that_fails(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    names["a"] = ["10.0.0.1"]
    async with started(by_dns("a")) as told:
        monkeypatch.setattr(endpoint_source, "FIRST_ANSWER_S", 0.0)
        with pytest.raises(OperatorError, match="upstream: http://b:80"):
            await told.change(by_dns("b"))
        checks = told.checks

    assert ([["10.0.0.1"]], "[+]endpoints ok") == (told.hosts, checks)


def test_service(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def open_api(*arguments: object) -> KubernetesDouble:
        asked.append(arguments)
        return KubernetesDouble()

    monkeypatch.setattr(kubernetes_api, "open_api", open_api)
    service = ServiceSettings(name="api", namespace="team", kubeconfig="k", context="two")
    source = source_of(UpstreamSettings(service=service), Resolver(), NONE_BEHIND)

    assert source is not None
    assert "Service team/api" == source.name
    named = "where requests go", "upstream.service.kubeconfig"
    assert [("k", "two", *named, NONE_BEHIND)] == asked


URLS: dict[str, str | None] = {"https://10.0.0.1:6443": None, "https://10.0.0.2:6443": None}


def tls(host: str, port: int = 6443) -> Address:
    return Address(host=host, port=port, is_tls=True)


TWO = UpstreamSettings(endpoints=tuple(EndpointSettings(url=tls(f"10.0.0.{n}")) for n in (1, 2)))
ONE = UpstreamSettings(url=tls("Api.example", 443))
DNS = UpstreamSettings(dns=tls("api.example"))
SERVICE = UpstreamSettings(service=ServiceSettings(name="kubernetes"))
LOCAL = UpstreamSettings(url=Address.unix("/run/api.sock"))


@pytest.mark.parametrize(
    ("upstream", "server", "kubeconfig", "expected"),
    [
        pytest.param(TWO, "https://10.0.0.2:6443", "k", True, id="one-of-them"),
        pytest.param(TWO, "https://10.0.0.2:6443/", "k", True, id="slash"),
        pytest.param(TWO, "https://10.0.0.2:6443/k8s/clusters/c", "k", False, id="below-a-path"),
        pytest.param(TWO, "https://10.0.0.3:6443", "k", False, id="another-host"),
        pytest.param(TWO, "https://10.0.0.2:443", "k", False, id="another-port"),
        pytest.param(TWO, "http://10.0.0.2:6443", "k", False, id="another-scheme"),
        pytest.param(TWO, "https://10.0.0.2:x", "k", False, id="no-port"),
        pytest.param(TWO, "unix:/run/api.sock", "k", False, id="no-host"),
        pytest.param(ONE, "https://api.example", "k", True, id="default-port"),
        pytest.param(DNS, "https://API.example:6443", "k", True, id="name"),
        pytest.param(LOCAL, "http://localhost", "k", False, id="unix-socket"),
        pytest.param(SERVICE, "https://10.96.0.1:443", None, True, id="service-of-the-api"),
        pytest.param(SERVICE, "https://10.96.0.1:443", "k", False, id="kubeconfig-of-another"),
        pytest.param(SERVICE, "http://10.96.0.1:80", None, False, id="without-tls"),
        pytest.param(
            UpstreamSettings(service=ServiceSettings(name="web")),
            *("https://10.96.0.1:443", None, False),
            id="another-service",
        ),
        pytest.param(
            UpstreamSettings(service=ServiceSettings(name="kubernetes", scheme="http")),
            *("https://10.96.0.1:443", None, False),
            id="service-without-tls",
        ),
    ],
)
def test_api(
    upstream: UpstreamSettings, server: str, kubeconfig: str | None, *, expected: bool
) -> None:
    """Only servers of the API itself get its credentials."""
    behind = ServersBehind(lambda: upstream, lambda: URLS)

    assert (URLS if expected else {}) == behind.of_api(server, kubeconfig, None)


def test_page() -> None:
    """A page is that of one of the servers, whatever its path; one of a Service has no URL."""
    behind = ServersBehind(lambda: TWO, lambda: URLS)
    assert URLS == behind.like("https://u:p@10.0.0.1:6443/metrics?x")
    assert {} == behind.like("https://10.0.0.9:6443/metrics")

    assert {} == ServersBehind(lambda: SERVICE, lambda: URLS).like("https://10.0.0.1:6443/metrics")
