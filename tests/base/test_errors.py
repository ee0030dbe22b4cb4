"""Errors that are the operator's fault."""

from __future__ import annotations

import errno

import pytest

from apfproxy.base.errors import ListenError
from apfproxy.settings import Address


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
    """What helps depends on what is wrong."""
    address = Address(host="192.0.2.1", port=80)

    assert f"cannot listen on {address}: no; {hint}" == str(
        ListenError(address, "admin", OSError(number, "no"))
    )
