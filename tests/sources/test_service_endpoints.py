"""The endpoints of EndpointSlices, followed, and kept while the API is away."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.base.tasks import spawn
from apfproxy.settings import HTTP, ServiceSettings
from apfproxy.sources.service_endpoints import ServiceEndpoints, endpoints_of
from tests.support.kubernetes_api import SLICES, KubernetesDouble
from tests.support.objects import at, slice_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from apfproxy.settings import EndpointAddress


Json = dict[str, Any]
HTTPS = ServiceSettings(name="kubernetes", port="https")
NOT_READY = {"ready": False}
UNSAID = {"ready": False, "terminating": True}
DRAINING = {"serving": True, **UNSAID}


def found(*slices: Json, service: ServiceSettings = HTTPS) -> list[str]:
    endpoints, problems = endpoints_of(slices, service)
    assert () == problems
    return [str(each.address) for each in endpoints]


def test_endpoint() -> None:
    slices = [slice_of(at("10.0.0.1"))]
    ((secure,), _) = endpoints_of(slices, HTTPS)
    ((plain,), _) = endpoints_of(slices, ServiceSettings(name="kubernetes", scheme=HTTP))

    assert ("https://10.0.0.1:6443", 1, "kubernetes.default.svc") == (
        secure.address.url,
        secure.weight,
        secure.server_name,
    )
    assert "http://10.0.0.1:6443" == plain.address.url


@pytest.mark.parametrize(
    ("conditions", "is_used"),
    [
        pytest.param({}, True, id="unsaid"),
        pytest.param({"ready": None}, True, id="unknown"),
        pytest.param({"ready": True}, True, id="ready"),
        pytest.param({"ready": True, "terminating": True}, True, id="published-though-terminating"),
        pytest.param(NOT_READY, False, id="not-ready"),
        pytest.param({"ready": False, "serving": True}, False, id="serving-but-not-ready"),
        pytest.param(DRAINING, False, id="terminating"),
    ],
)
def test_conditions(conditions: object, *, is_used: bool) -> None:
    """An endpoint counts while it is ready, which is so unless it is said otherwise."""
    well, other = at("10.0.0.1"), at("10.0.0.2", conditions=conditions)

    assert is_used == ("10.0.0.2:6443" in found(slice_of(well, other)))


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param(DRAINING, ["10.0.0.2:6443"], id="serving"),
        pytest.param(UNSAID, ["10.0.0.2:6443"], id="serving-is-unsaid"),
        pytest.param({"serving": False, **UNSAID}, [], id="not-serving"),
        pytest.param(NOT_READY, [], id="not-terminating"),
    ],
)
def test_last_resort(conditions: Json, expected: list[str]) -> None:
    """Where none is ready those count that terminate but still serve."""
    slices = (
        slice_of(at("10.0.0.1", conditions=NOT_READY), name="a"),
        slice_of(at("10.0.0.2", conditions=conditions), name="b"),
    )

    assert expected == found(*slices)


def test_merged() -> None:
    """Endpoints of all slices count, one that is in two of them once, with its first address."""
    slices = (
        slice_of(at("10.0.0.2", "10.9.9.9"), name="b"),
        slice_of(at("10.0.0.1"), at("10.0.0.2"), name="a"),
        slice_of(name="c", endpoints=None),
        slice_of(name="d", ports=[]),
    )

    assert ["10.0.0.1:6443", "10.0.0.2:6443"] == found(*slices)


def test_two_families() -> None:
    """A server with addresses of both families counts once, if it is known to be one."""
    one, two = {"targetRef": {"uid": "u-1"}}, {"targetRef": {"uid": "u-2"}}
    slices = (
        slice_of(at("2001:db8::1", **one), at("2001:db8::2", **two), addressType="IPv6"),
        slice_of(at("10.0.0.1", **one), at("10.0.0.3", targetRef={}), at("10.0.0.4")),
    )

    assert ["10.0.0.1:6443", "10.0.0.3:6443", "10.0.0.4:6443", "[2001:db8::2]:6443"] == found(
        *slices
    )


PORTS = [
    {"name": "dns", "port": 53, "protocol": "UDP"},
    {"name": "metrics", "port": 9090},
    {"name": "https", "port": 6443, "protocol": "TCP"},
]


@pytest.mark.parametrize(
    ("ports", "wanted", "expected"),
    [
        pytest.param(PORTS, "https", 6443, id="name"),
        pytest.param(PORTS, "6443", 6443, id="number"),
        pytest.param(PORTS, None, 9090, id="first-of-tcp"),
        pytest.param([{"name": None, "port": 80}], None, 80, id="unnamed"),
        pytest.param([{"name": "", "port": 80}], "80", 80, id="unnamed-by-number"),
        pytest.param([{"name": "any", "port": None}], "8080", 8080, id="any-number"),
    ],
)
def test_port(ports: object, wanted: str | None, expected: int) -> None:
    service, slice_ = ServiceSettings(name="x", port=wanted), slice_of(at("10.0.0.1"), ports=ports)

    assert [f"10.0.0.1:{expected}"] == found(slice_, service=service)


LEFT_OUT = r"""
{addressType: FQDN} https > addressType: FQDN is not done, want IPv4 or IPv6
{endpoints: [5]} https > Expected `object`, got `int` - at `$.endpoints[0]`
{endpoints: [{addresses: [10.0.0.2]}, {addresses: []}]} - > endpoints[1].addresses: '' is no address
{endpoints: [{addresses: ["node\n1"]}]} https > endpoints[0].addresses: 'node\\n1' is no address
{ports: [{name: m, port: 9}, {name: n, port: 6}]} 443 > ports: no port 443 for TCP (m=9, n=6)
{ports: [{port: null}]} https > ports: no port https for TCP (unnamed=any)
{ports: []} - > ports: no port for TCP (it has none)
{ports: [{name: x, port: 70000}]} - > Expected `int` <= 65535 - at `$.ports[0].port`
"""


@pytest.mark.parametrize("line", LEFT_OUT.strip().splitlines())
def test_left_out(line: str) -> None:
    given, _, expected = line.partition(" > ")
    fields, _, wanted = given.rpartition(" ")
    odd = yaml.safe_load(fields)
    service = ServiceSettings(name="x", port=None if wanted == "-" else wanted)
    bad = {**slice_of(at("10.0.0.1"), name="bad"), **odd}
    good = slice_of(at("10.0.0.9"), name="good", ports=[{"name": "https", "port": 443}])
    endpoints, problems = endpoints_of([bad, good], service)

    assert (f"EndpointSlice bad: {expected}",) == problems
    assert ["10.0.0.9:443"] == [str(each.address) for each in endpoints]


class Service:
    """A Service of an API that a test plays."""

    def __init__(self) -> None:
        self.api = KubernetesDouble()
        self.hosts: list[str] | None = None
        self._changed = asyncio.Event()
        api: Any = self.api
        self.endpoints = ServiceEndpoints(
            api, ServiceSettings(namespace="team", name="api", port="https"), sleep=self._sleep
        )
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


async def test_left_out_is_told(caplog: pytest.LogCaptureFixture) -> None:
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
