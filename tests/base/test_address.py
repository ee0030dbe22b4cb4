"""Addresses."""

from __future__ import annotations

import pytest

from apfproxy.settings import Address


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
