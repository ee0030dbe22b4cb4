"""Tests of `apfproxy.base.address`."""

from __future__ import annotations

import pytest

from apfproxy.base.address import is_local, is_loopback, name_in_host


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
    """Addresses of loopback are this machine's in any notation, and so is one name."""
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
    """A port and brackets are no part of the name."""
    assert name == name_in_host(host)
