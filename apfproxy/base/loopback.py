"""Which addresses and names are those of this machine alone."""

from __future__ import annotations

import ipaddress

LOCALHOST = "localhost"


def is_loopback(address: str) -> bool:
    """Whether a text is an IP address of loopback, also where IPv6 carries IPv4."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def is_local(name: str) -> bool:
    """Whether a host name or address is `localhost` or an address of loopback."""
    return name.lower() == LOCALHOST or is_loopback(name)


def name_in_host(host: str) -> str:
    """The name or address in a `Host` field, which may have a port and brackets, in lower case."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal():
        name = host
    return name.lower().removeprefix("[").removesuffix("]")
