"""Addresses."""

from __future__ import annotations

import errno

import pytest

from apfproxy.base.address import is_local, is_loopback, name_in_host, share_of
from apfproxy.base.errors import ListenError
from apfproxy.settings import Address


@pytest.mark.parametrize(
    ("address", "url", "authority"),
    [
        (Address(host="example.org", port=80), "http://example.org:80", "example.org:80"),
        (Address(host="::1", port=80), "http://[::1]:80", "[::1]:80"),
        (Address(host="a", port=443, is_tls=True), "https://a:443", "a:443"),
        (Address.unix("/run/a.sock"), "unix:/run/a.sock", "localhost"),
    ],
)
def test_address_as_an_upstream(address: Address, url: str, authority: str) -> None:
    assert (url, authority) == (address.url, address.authority)


@pytest.mark.parametrize(
    ("name", "is_address", "is_name"),
    [
        ("127.0.0.1", True, True),
        ("127.9.9.9", True, True),
        ("::1", True, True),
        ("::1%lo", True, True),
        ("::ffff:127.0.0.1", True, True),
        ("LocalHost", False, True),
        ("::ffff:10.0.0.1", False, False),
        ("fe80::1%eth0", False, False),
        ("10.0.0.1", False, False),
        ("0.0.0.0", False, False),  # noqa: S104  nothing listens
        ("localhost.example.com", False, False),
        ("", False, False),
    ],
)
def test_this_machine(name: str, is_address: bool, is_name: bool) -> None:
    assert (is_address, is_name) == (is_loopback(name), is_local(name))


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("", ""),
        ("A.test", "a.test"),
        ("a.test:80", "a.test"),
        ("a.test:x", "a.test:x"),
        ("[::1]", "::1"),
        ("[::1]:80", "::1"),
    ],
)
def test_name_in_host(host: str, name: str) -> None:
    assert name == name_in_host(host)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EADDRINUSE, "stop what listens there, or choose another address with --admin"),
        (errno.EACCES, "choose another address with --admin: ports below 1024 take a privilege"),
        (
            errno.EADDRNOTAVAIL,
            "choose another address with --admin: one of this machine, such as 0.0.0.0:80",
        ),
    ],
)
def test_address_that_cannot_be_listened_on(number: int, hint: str) -> None:
    address = Address(host="192.0.2.1", port=80)

    assert f"cannot listen on {address}: no; {hint}" == str(
        ListenError(address, "admin", OSError(number, "no"))
    )


@pytest.mark.parametrize(
    ("address", "share"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_share(address: str, share: str) -> None:
    assert share == share_of(address)
