"""What a proxy needs to tell clients apart, and to be known itself."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.authn.authenticator import Authenticator
    from apfproxy.authn.credentials import Peer
    from apfproxy.proxy.tls import ClientTls, ServerTls


class Certificates(Protocol):
    """Judges clients' certificates."""

    def judge(self, leaf_der: bytes, chain: Sequence[bytes] = ()) -> Peer:
        """What a client is by its certificate and those that it sent with it."""


@dataclass(frozen=True, slots=True)
class Identification:
    """The parts, each of which may be missing.

    Attributes:
        authenticator: Finds out who asks; None where everybody is anonymous.
        certificates: Judges clients' certificates; None if none counts.
        server_tls: Has the certificate of the moment; None where clients speak plain HTTP.
        client_tls: How to speak TLS with the origin; None if it speaks plain HTTP.
    """

    authenticator: Authenticator | None = None
    certificates: Certificates | None = None
    server_tls: ServerTls | None = None
    client_tls: ClientTls | None = None


NO_IDENTIFICATION = Identification()


def asker_of(peer: Peer, address: str, forward: bytes) -> str:
    """The address of the client for which others are asked who that is.

    Returns:
        That of the connection; through a front proxy the last that this one names, so that its
        clients are told apart.
    """
    if not peer.is_front_proxy:
        return address
    hops = forward.rpartition(b"\nX-Forwarded-For: ")[2].split(b",")
    # The last is what the connection's own address will complete.
    named = hops[-2].strip().decode("latin-1") if len(hops) > 1 else ""
    try:
        ipaddress.ip_address(named)
    except ValueError:
        return address
    return named
