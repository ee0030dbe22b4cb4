"""Addresses: where to listen, where to connect, and which are of this machine alone."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address; port 0 lets the system choose.  An empty host is every address."""

    host: str
    port: int
    is_tls: bool = False
    path: str = ""

    @classmethod
    def unix(cls, path: str) -> Address:
        return cls(host="localhost", port=80, path=path)

    @property
    def authority(self) -> str:
        """The host and port of a Host field or a URL; "localhost" for a Unix socket."""
        if self.path:
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def from_here(self) -> Address:
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - listened on
        return replace(self, host=host)

    @property
    def url(self) -> str:
        """The address as an upstream: http://HOST:PORT, https://HOST:PORT or unix:/PATH."""
        return str(self) if self.path else f"{'https' if self.is_tls else 'http'}://{self}"

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else self.authority


UNSAID = Address(host="", port=0)

V6_NETWORK_BITS = 64
"""Hosts choose the rest of their addresses themselves."""

UNIX_MODE = 0o660
"""The mode of a Unix socket's file: who may write to it may connect."""

LOCALHOST = "localhost"


def address_from(text: str) -> IPAddress | None:
    """The IP address without a zone, a mapped one as IPv4; None for any other text."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def share_of(address: str) -> str:
    """The key of the share of clients: an IPv4 address, or a /64 network of IPv6."""
    parsed = address_from(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Address(int(parsed) >> V6_NETWORK_BITS << V6_NETWORK_BITS))
    return address if parsed is None else str(parsed)


def is_loopback(address: str) -> bool:
    found = address_from(address)
    return found is not None and found.is_loopback


def is_local(name: str) -> bool:
    return name.lower() == LOCALHOST or is_loopback(name)


def name_in_host(host: str) -> str:
    """The name or address in a `Host` field, in lower case, without port and brackets."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal():
        name = host
    return name.lower().removeprefix("[").removesuffix("]")
