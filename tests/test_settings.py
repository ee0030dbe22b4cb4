"""The records of settings."""

from __future__ import annotations

import pytest

from apfproxy.settings import (
    MAX_SEATS,
    UNSAID,
    Address,
    EndpointAddress,
    EndpointSettings,
    FlowControlSettings,
    ServiceSettings,
    UpstreamSettings,
    UpstreamTlsSettings,
    with_values,
)

ONE, TWO = Address(host="a", port=1), Address(host="b", port=2, is_tls=True)
ENDPOINTS = (EndpointSettings(url=ONE, weight=3), EndpointSettings(url=TWO))


@pytest.mark.parametrize(
    ("host", "written"),
    [
        pytest.param("127.0.0.1", "127.0.0.1:80", id="ipv4"),
        pytest.param("::1", "[::1]:80", id="ipv6-in-brackets"),
        pytest.param("example.org", "example.org:80", id="name"),
    ],
)
def test_address_is_written_as_it_is_read(host: str, written: str) -> None:
    """An address reads like a flag's value."""
    assert written == str(Address(host=host, port=80))


@pytest.mark.parametrize(
    ("address", "url", "authority"),
    [
        (Address(host="::1", port=80), "http://[::1]:80", "[::1]:80"),
        (Address(host="a", port=443, is_tls=True), "https://a:443", "a:443"),
        (Address.unix("/run/a.sock"), "unix:/run/a.sock", "localhost"),
    ],
)
def test_address_as_an_upstream(address: Address, url: str, authority: str) -> None:
    """A Unix socket is written alike everywhere, and is localhost for those who ask for a host."""
    assert (url, authority) == (address.url, address.authority)


@pytest.mark.parametrize(
    ("upstream", "address", "addresses"),
    [
        pytest.param(UpstreamSettings(), UNSAID, (), id="nothing"),
        pytest.param(UpstreamSettings(url=ONE), ONE, (EndpointAddress(address=ONE),), id="url"),
        pytest.param(
            UpstreamSettings(endpoints=ENDPOINTS),
            ONE,
            (EndpointAddress(address=ONE, weight=3), EndpointAddress(address=TWO)),
            id="endpoints",
        ),
        pytest.param(UpstreamSettings(dns=TWO), TWO, (), id="dns"),
        pytest.param(
            UpstreamSettings(service=ServiceSettings(name="kubernetes")),
            Address(host="kubernetes.default.svc", port=443, is_tls=True),
            (),
            id="service",
        ),
        pytest.param(
            UpstreamSettings(service=ServiceSettings(namespace="a", name="b", scheme="http")),
            Address(host="b.a.svc", port=80),
            (),
            id="service-without-tls",
        ),
        pytest.param(
            UpstreamSettings(service=ServiceSettings(name="b", port="https")),
            Address(host="b.default.svc", port=443, is_tls=True),
            (),
            id="named-port",
        ),
        pytest.param(
            UpstreamSettings(service=ServiceSettings(name="b", port="6443")),
            Address(host="b.default.svc", port=6443, is_tls=True),
            (),
            id="numbered-port",
        ),
    ],
)
def test_where_the_servers_are(
    upstream: UpstreamSettings, address: Address, addresses: tuple[EndpointAddress, ...]
) -> None:
    """One address stands for all of them; the endpoints are known where settings name them."""
    assert (address, addresses) == (upstream.address, upstream.addresses)


@pytest.mark.parametrize(
    ("flow_control", "healthy", "seats"),
    [
        (FlowControlSettings(), 3, 600),
        (FlowControlSettings(server_concurrency_limit=7), 0, 7),
        (FlowControlSettings(per_endpoint=200), 3, 600),
        (FlowControlSettings(per_endpoint=200), 1, 200),
        (FlowControlSettings(per_endpoint=200), 0, 200),
        (FlowControlSettings(per_endpoint=MAX_SEATS), 2, MAX_SEATS),
    ],
)
def test_seats(flow_control: FlowControlSettings, healthy: int, seats: int) -> None:
    """They are of the whole, or follow the endpoints that are healthy, at least one."""
    assert seats == flow_control.seats(healthy)


def test_alternatives() -> None:
    """One that is given takes the place of another; its default does not."""
    tls = UpstreamTlsSettings(ca_file="ca")
    upstream = UpstreamSettings(url=ONE, tls=tls)
    both = UpstreamSettings(url=ONE, dns=TWO, tls=tls)

    assert UpstreamSettings(dns=TWO, tls=tls) == with_values(upstream, {"dns": TWO})
    assert UpstreamSettings(endpoints=ENDPOINTS, tls=tls) == with_values(
        both, {"endpoints": ENDPOINTS}
    )
    assert upstream == with_values(upstream, {"dns": UNSAID, "endpoints": ()})
    assert both == with_values(upstream, {"url": ONE, "dns": TWO})
    assert UpstreamSettings(url=ONE) == with_values(upstream, {"tls": UpstreamTlsSettings()})
