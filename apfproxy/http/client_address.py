"""The address of a client: that of its connection, or what trusted proxies say in X-Forwarded-For.

Each proxy adds the address that it sees to the end of X-Forwarded-For.  From there backwards the
addresses can be believed as long as each is that of a trusted proxy, and the first that is not is
the client's.  What stands before it the client may have made up.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apfproxy.settings import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_HOPS = 16
"""Looked at; more proxies one behind the other there are not, and a client may send thousands."""
MAX_HOP_BYTES = 64


def address_from(text: str) -> Address | None:
    """The address without a zone, that of IPv4 in its own form; None if it is none."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_among(address: Address | None, networks: Iterable[Network]) -> bool:
    """Whether an address is in one of the networks."""
    return address is not None and any(address in network for network in networks)


def forwarded_client(values: Iterable[bytes], proxies: Sequence[Network]) -> str:
    """The address of the client, from all X-Forwarded-For fields of a proxy that is trusted.

    It is the last one that is no trusted proxy's, or the earliest before something that is no
    address; "" if there is none at all.
    """
    found = ""
    for hop in reversed(b",".join(values).rsplit(b",", MAX_HOPS)[-MAX_HOPS:]):
        address = _address_of_hop(hop)
        if address is None:
            break
        found = str(address)
        if not is_among(address, proxies):
            break
    return found


def _address_of_hop(hop: bytes) -> Address | None:
    """The address of an element, which some proxies write with a port."""
    text = hop.strip(b" \t").decode("latin-1")
    if len(text) > MAX_HOP_BYTES:
        return None
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return address_from(text)
