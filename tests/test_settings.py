"""The records of settings."""

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
