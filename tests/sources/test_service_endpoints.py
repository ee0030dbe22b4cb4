"""A Service's servers: followed, kept while the API cannot be asked."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from apfproxy.base.tasks import spawn
from apfproxy.sources.service_endpoints import ServiceEndpoints, ServicePort
from tests.support.kubernetes_api import SLICES, KubernetesDouble
from tests.support.objects import at, slice_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import pytest

    from apfproxy.settings import EndpointAddress

HTTPS = ServicePort(port="https", is_tls=True, server_name="api.team.svc")


class Service:
    """A Service of an API that a test plays."""

    def __init__(self) -> None:
        self.api = KubernetesDouble()
        self.hosts: list[str] | None = None
        self._changed = asyncio.Event()
        self._asleep = asyncio.Event()
        api: Any = self.api
        self.endpoints = ServiceEndpoints(api, "team", "api", HTTPS, sleep=self._sleep)
        self.endpoints.found.tell(self._take)

    def _take(self, endpoints: tuple[EndpointAddress, ...]) -> None:
        self.hosts = [each.address.host for each in endpoints]
        self._changed.set()

    async def _sleep(self, _: float) -> None:
        self._changed.set()
        await asyncio.sleep(0)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[Service]:
        running = spawn(self.endpoints.run(), name="following")
        try:
            yield self
        finally:
            running.cancel()
            await asyncio.wait((running,))


async def test_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Known endpoints stay while the API refuses, and the problem says what to do."""
    caplog.set_level("INFO")
    service = Service()
    service.api.put(SLICES, slice_of(at("10.0.0.1")))
    async with service.followed():
        await service.until(lambda: service.hosts == ["10.0.0.1"])
        service.api.refused.add(SLICES)
        service.api.cut()
        await service.until(lambda: "403" in str(service.endpoints.problem()))
        during = (service.hosts, service.endpoints.problem())
        service.api.put(SLICES, slice_of(at("10.0.0.2")))
        service.api.refused.clear()
        await service.until(lambda: service.hosts == ["10.0.0.2"])
        after = service.endpoints.problem()

    text = (
        "Service team/api: https://api: endpointslices: answered 403; give the proxy's user the"
        " role of config/kubernetes/rbac/endpoints.yaml; the last known endpoint (1) stays in use"
    )
    assert (["10.0.0.1"], text) == during
    assert after is None


async def test_left_out(caplog: pytest.LogCaptureFixture) -> None:
    service = Service()
    for name in "abcd":
        service.api.put(SLICES, slice_of(at("x.example"), name=name, addressType="FQDN"))
    service.api.put(SLICES, slice_of(at("10.0.0.1"), name="good"))
    service.api.problem = "a certificate is not in use"
    async with service.followed():
        await service.until(lambda: service.hosts == ["10.0.0.1"])
        service.api.put(SLICES, slice_of(at("10.0.0.2"), name="good"))
        await service.until(lambda: service.hosts == ["10.0.0.2"])

    left_out = [
        f"EndpointSlice {name}: addressType: FQDN is not done, want IPv4 or IPv6" for name in "abc"
    ]
    assert (
        f"Service team/api: a certificate is not in use; {'; '.join(left_out)}"
        == service.endpoints.problem()
    )
    assert [f"Service team/api: left out: {each}" for each in left_out] == [
        record.getMessage() for record in caplog.records
    ]
