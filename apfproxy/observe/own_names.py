"""Host names that no web page from elsewhere can have."""

from __future__ import annotations

import ipaddress

from apfproxy.loopback import LOCALHOST, name_in_host


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
