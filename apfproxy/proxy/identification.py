"""What a proxy needs to tell clients apart, and to be known itself."""

from __future__ import annotations

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
        client_tls: How to speak TLS with the upstream; None if it speaks plain HTTP.
    """

    authenticator: Authenticator | None = None
    certificates: Certificates | None = None
    server_tls: ServerTls | None = None
    client_tls: ClientTls | None = None


NO_IDENTIFICATION = Identification()
