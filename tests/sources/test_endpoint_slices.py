"""Which endpoints EndpointSlices have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.settings import HTTP, Address, EndpointAddress, ServiceSettings
from apfproxy.sources import service_endpoints as module
from apfproxy.sources.kubeconfig import ApiAccess
from apfproxy.sources.service_endpoints import ServicePort, endpoints_of, service_endpoints
from tests.support.objects import at, slice_of

if TYPE_CHECKING:
    from pathlib import Path


Json = dict[str, Any]
HTTPS = ServicePort(port="https", is_tls=True, server_name="kubernetes.default.svc")
NOT_READY = {"ready": False}
DRAINING = {"ready": False, "serving": True, "terminating": True}


def found(*slices: Json, wanted: ServicePort = HTTPS) -> list[str]:
    result = endpoints_of(slices, wanted)
    assert () == result.problems
    return [str(each.address) for each in result.endpoints]


def test_endpoint() -> None:
    (secure,) = endpoints_of([slice_of(at("10.0.0.1"))], HTTPS).endpoints
    (plain,) = endpoints_of(
        [slice_of(at("10.0.0.1"))], ServicePort(port=None, is_tls=False, server_name="x")
    ).endpoints

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
        pytest.param(
            {"ready": False, "terminating": True}, ["10.0.0.2:6443"], id="serving-is-unsaid"
        ),
        pytest.param({"ready": False, "serving": False, "terminating": True}, [], id="not-serving"),
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
    port = ServicePort(port=wanted, is_tls=True, server_name="x")

    assert [f"10.0.0.1:{expected}"] == found(slice_of(at("10.0.0.1"), ports=ports), wanted=port)


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
    port = ServicePort(port=None if wanted == "-" else wanted, is_tls=True, server_name="x")
    bad = {**slice_of(at("10.0.0.1"), name="bad"), **odd}
    good = slice_of(at("10.0.0.9"), name="good", ports=[{"name": "https", "port": 443}])
    result = endpoints_of([bad, good], port)

    assert (f"EndpointSlice bad: {expected}",) == result.problems
    assert ["10.0.0.9:443"] == [str(each.address) for each in result.endpoints]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    names = ("one", "two")
    content = {
        "current-context": "one",
        "contexts": [{"name": name, "context": {"cluster": name}} for name in names],
        "clusters": [
            {"name": name, "cluster": {"server": f"http://{name}.example"}} for name in names
        ],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    ("server", "service", "expected"),
    [
        pytest.param(
            "https://one.example",
            ServiceSettings(name="kubernetes"),
            ["https://10.0.0.1:6443", "https://10.0.0.2:6443"],
            id="the-api-itself",
        ),
        pytest.param(
            "https://one.example",
            ServiceSettings(name="kubernetes", scheme=HTTP),
            [],
            id="without-tls",
        ),
        pytest.param(
            "http://127.0.0.1:8001", ServiceSettings(name="kubernetes"), [], id="by-a-plain-proxy"
        ),
        pytest.param(
            "https://one.example",
            ServiceSettings(name="kubernetes", namespace="team"),
            [],
            id="another-namespace",
        ),
        pytest.param("https://one.example", ServiceSettings(name="api"), [], id="another-service"),
    ],
)
async def test_servers_of_the_api(
    server: str, service: ServiceSettings, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only servers of the API itself are asked where the one of the kubeconfig fails.

    Others must not get the credentials.
    """
    monkeypatch.setattr(module, "access_of", lambda *_: ApiAccess(server=server))
    endpoints = service_endpoints(service)
    endpoints.found.put(
        [
            EndpointAddress(address=Address(host=host, port=6443, is_tls=True))
            for host in ("10.0.0.1", "10.0.0.2")
        ]
    )
    others = endpoints.reflector._api._others  # noqa: SLF001 - it is used after a failure only

    assert expected == list(others())


async def test_service(kubeconfig: str) -> None:
    settings = ServiceSettings(
        name="api", namespace="team", port="web", kubeconfig=kubeconfig, context="two"
    )
    endpoints = service_endpoints(settings)

    assert "Service team/api" == endpoints.name
    assert "http://two.example" in (endpoints.problem() or "")
    assert ServicePort(port="web", is_tls=True, server_name="api.team.svc") == endpoints._wanted  # noqa: SLF001 - known by certificates only
