"""Host names that no web page from elsewhere can have."""

from __future__ import annotations

import ipaddress
import socket

from apfproxy.base.address import LOCALHOST, is_loopback, name_in_host


def may_read(own_address: object, host: str) -> bool:
    """Whether a connection to this address may be read under this Host; see `dns_rebinding`."""
    is_local = isinstance(own_address, tuple) and is_loopback(own_address[0])
    return not is_local or is_own_name(host, socket.gethostname())


def is_own_name(host: str, machine: str) -> bool:
    """Whether a Host, with or without a port, is no name of a web page; "" is of old programs."""
    name = name_in_host(host).removesuffix(".")
    if "." not in name or name == machine.lower() or name.endswith(f".{LOCALHOST}"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
