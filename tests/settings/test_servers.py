"""Where the servers behind are."""

from __future__ import annotations

import pytest

from apfproxy.settings import (
    UNSAID,
    Address,
    EndpointAddress,
    EndpointSettings,
    ServiceSettings,
    UpstreamSettings,
)

ONE, TWO = Address(host="a", port=1), Address(host="b", port=2, is_tls=True)
ENDPOINTS = (EndpointSettings(url=ONE, weight=3), EndpointSettings(url=TWO))


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
