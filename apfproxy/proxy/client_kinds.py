"""Kinds of clients, and the heads that each sends again and again."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING

from apfproxy.authn.credential_fields import CredentialRules
from apfproxy.authn.credentials import TRUSTED_PEER, UNKNOWN_PEER
from apfproxy.proxy.bounded_cache import BoundedCache, MemoryBudget
from apfproxy.proxy.cache_sizes import of_head
from apfproxy.proxy.request_fields import FieldRules, OriginHosts
from apfproxy.proxy.request_head import HeadLimits, HeadParser
from apfproxy.settings import IMPERSONATE, PASS_THROUGH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.authn.credentials import Peer
    from apfproxy.proxy.identification import Certificates
    from apfproxy.proxy.request import Request
    from apfproxy.proxy.targets import Targets
    from apfproxy.settings import Settings

MAX_KEPT_HEADS = 4096
"""Heads by their bytes, per kind of client without a certificate."""
MAX_KEPT_HEADS_OF_ONE = 256
"""The same of one certificate's clients: mostly of one program."""
MAX_KINDS = 4096
"""Kinds of clients whose heads are kept; beyond, certificates that have been met start anew."""
MAX_KEPT_HEAD_BYTES = 2048
"""Longer heads are parsed each time: they would take the room of many."""
KEPT_BYTES = 64 << 20
"""Of all heads and field sections, of all kinds of clients together: a typical head takes 3 KiB,
one with the token of a service account 9."""


class Heads:
    """The requests of one kind of client: those that come again are kept.

    Attributes:
        peer: What is known of such clients.
        kept: Requests without a body, whose head stood alone in a read, by its bytes.
    """

    __slots__ = ("_kept", "_parser", "_targets", "kept", "peer")

    def __init__(
        self,
        peer: Peer,
        parser: HeadParser,
        targets: Targets,
        room: MemoryBudget,
        max_kept: int = MAX_KEPT_HEADS,
    ) -> None:
        self.peer = peer
        self._parser = parser
        self._targets = targets
        self._kept: BoundedCache[bytes, Request] = BoundedCache(max_kept, room, _bytes_of)
        self.kept = self._kept.values

    def read(self, data: bytes, *, is_alone: bool) -> Request:
        """Parse, check, prepare and perhaps keep one request.

        Args:
            data: The bytes of its head.
            is_alone: Whether nothing stood behind it, as with most requests without a body.

        Raises:
            HeadError: It must not be forwarded.
        """
        head = self._parser.parse(data)
        request = self._targets.request_of(head)
        if is_alone and not head.framing and len(data) <= MAX_KEPT_HEAD_BYTES:
            self._kept.offer(data, request)
        return request

    def __repr__(self) -> str:
        return f"<Heads, {len(self.kept)} kept>"


class ClientKinds:
    """Tells clients apart by what decides how their heads are read.

    Args:
        settings: The process's.
        targets: Makes requests of heads.
        certificates: Judges clients' certificates; None if none counts.
    """

    __slots__ = (
        "_certificates",
        "_field_rules",
        "_head_limits",
        "_heads",
        "_room",
        "_targets",
        "_trusted_networks",
    )

    def __init__(
        self, settings: Settings, targets: Targets, certificates: Certificates | None
    ) -> None:
        upstream = settings.upstream
        self._field_rules = FieldRules(
            OriginHosts(
                upstream.address.authority.encode(),
                (upstream.host_header or "").encode(),
            ),
            CredentialRules.of(settings.authentication.front_proxy),
            forwards_credentials=upstream.identity == PASS_THROUGH,
            forwards_impersonation=upstream.identity != IMPERSONATE,
        )
        self._targets = targets
        self._certificates = certificates
        self._room = MemoryBudget(KEPT_BYTES)
        self._heads: dict[tuple[Peer, bool], Heads] = {}
        self._head_limits = HeadLimits(0, 0)
        self._trusted_networks = settings.downstream.identity_headers_from
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Put limits in force, and whom to believe; call `forget` with it."""
        downstream = settings.downstream
        self._trusted_networks = downstream.identity_headers_from
        self._head_limits = HeadLimits(downstream.max_header_fields, downstream.max_target_bytes)

    def is_claim(self, name: bytes) -> bool:
        """Whether a field, by its name in lower case, is for front proxies only."""
        return self._field_rules.credentials.is_claim(name)

    def heads_of(
        self,
        address: str,
        certificate: bytes | None = None,
        chain: Sequence[bytes] = (),
        *,
        is_tls: bool = False,
    ) -> Heads:
        """The heads of a client's kind."""
        peer = TRUSTED_PEER if self._is_trusted(address) else UNKNOWN_PEER
        if certificate is not None and self._certificates is not None:
            judged = self._certificates.judge(certificate, chain)
            peer = replace(judged, is_front_proxy=True) if peer.is_front_proxy else judged
        heads = self._heads.get((peer, is_tls))
        if heads is None:
            if len(self._heads) >= MAX_KINDS:
                self._heads.clear()
            rules = replace(self._field_rules, believes_claims=peer.is_front_proxy, is_tls=is_tls)
            max_kept = MAX_KEPT_HEADS_OF_ONE if peer.has_certificate else MAX_KEPT_HEADS
            heads = self._heads[peer, is_tls] = Heads(
                peer,
                HeadParser(self._head_limits, rules, self._room, 4 * max_kept),
                self._targets,
                self._room,
                max_kept,
            )
        return heads

    def forget(self) -> None:
        """Read all heads anew, and authenticate whoever sends them again."""
        self._heads.clear()

    def _is_trusted(self, address: str) -> bool:
        """Whether a client at this address may assert identities."""
        if not self._trusted_networks:
            return False
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = parsed.ipv4_mapped if parsed.version == 6 else None
        return any((mapped or parsed) in network for network in self._trusted_networks)

    def __repr__(self) -> str:
        return f"<ClientKinds: {len(self._heads)}>"


def _bytes_of(data: bytes, request: Request) -> int:
    """The memory that a kept request takes."""
    head = request.head
    texts = (head.target, head.line, head.forward, request.forward)
    return of_head(data, texts, request.attributes, head.fields)
