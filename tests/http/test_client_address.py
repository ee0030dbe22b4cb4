"""Clients' addresses, as proxies name them."""

from __future__ import annotations

import ipaddress

import pytest

from apfproxy.http.client_address import MAX_HOPS, address_from, forwarded_client, is_among

PROXIES = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("values", "client"),
    [
        pytest.param([], "", id="none"),
        pytest.param([b""], "", id="empty"),
        pytest.param([b"192.0.2.1"], "192.0.2.1", id="client"),
        pytest.param([b"192.0.2.1, 192.0.2.2"], "192.0.2.2", id="made-up-before"),
        pytest.param([b"192.0.2.1,10.0.0.2,\t10.0.0.3"], "192.0.2.1", id="behind-proxies"),
        pytest.param([b"192.0.2.1", b"10.0.0.2"], "192.0.2.1", id="fields-in-their-order"),
        pytest.param([b"10.0.0.9, 192.0.2.1, 10.0.0.2"], "192.0.2.1", id="made-up-proxy"),
        pytest.param([b"10.0.0.9, 10.0.0.2"], "10.0.0.9", id="inside"),
        pytest.param([b"192.0.2.1, unknown"], "", id="no-address-last"),
        pytest.param([b"192.0.2.1, unknown, 10.0.0.2"], "10.0.0.2", id="no-address-between"),
        pytest.param([b"192.0.2.1,, 10.0.0.2"], "10.0.0.2", id="empty-between"),
        pytest.param([b"192.0.2.1:4711"], "192.0.2.1", id="port"),
        pytest.param([b"[2001:db8::1]:443"], "2001:db8::1", id="ipv6-port"),
        pytest.param([b"[2001:db8::1]"], "2001:db8::1", id="brackets"),
        pytest.param([b"2001:DB8::0001, fd00::1"], "2001:db8::1", id="ipv6-in-one-form"),
        pytest.param([b"::ffff:192.0.2.1"], "192.0.2.1", id="mapped"),
        pytest.param([b"192.0.2.1, ::ffff:10.0.0.2"], "192.0.2.1", id="mapped-proxy"),
        pytest.param([b"fe80::1%\xff"], "fe80::1", id="zone-of-any-bytes"),
        pytest.param([b"\xff"], "", id="no-text"),
        pytest.param([b'"192.0.2.1"'], "", id="quoted"),
        pytest.param([b"192.0.2.01"], "", id="octal"),
        pytest.param([b"fe80::1%" + b"a" * 60000], "", id="long"),
        pytest.param([b"192.0.2.1" + b",10.0.0.2" * (MAX_HOPS - 1)], "192.0.2.1", id="many"),
        pytest.param([b"192.0.2.1" + b",10.0.0.2" * 7000], "10.0.0.2", id="too-many"),
    ],
)
def test_forwarded_client(values: list[bytes], client: str) -> None:
    """The last address that no trusted proxy has; whatever stands before it does not matter."""
    assert client == forwarded_client(values, PROXIES)


@pytest.mark.parametrize(
    ("text", "is_in"),
    [
        pytest.param("10.1.2.3", True, id="ipv4"),
        pytest.param("::ffff:10.1.2.3", True, id="mapped"),
        pytest.param("11.0.0.1", False, id="outside"),
        pytest.param("fd00::1%eth0", True, id="zone"),
        pytest.param("fe80::1", False, id="ipv6-outside"),
        pytest.param("unknown", False, id="no-address"),
    ],
)
def test_networks(text: str, is_in: bool) -> None:
    """Each form of an address is in the same networks."""
    assert is_in == is_among(address_from(text), PROXIES)
