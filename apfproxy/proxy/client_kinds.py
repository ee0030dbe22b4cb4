"""Kinds of clients, and how the heads of each are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from apfproxy.authn.credential_fields import CredentialRules
from apfproxy.authn.unverified_names import alias_of_address
from apfproxy.base.bounded_cache import MemoryBudget
from apfproxy.http.client_address import address_from, is_among
from apfproxy.http.request_fields import FieldRules, UpstreamHosts
from apfproxy.http.request_head import MAX_KEPT_FIELDS, HeadLimits, HeadParser
from apfproxy.settings import IMPERSONATE, PASS_THROUGH, AuthenticationSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.authn.authenticator import Authenticator
    from apfproxy.authn.credentials import Peer
    from apfproxy.http.header_block import HeaderBlock
    from apfproxy.proxy.request import Request
    from apfproxy.proxy.targets import Targets
    from apfproxy.settings import Settings

MAX_KEPT_FIELDS_OF_ONE = 1024
"""Field sections of one certificate's or one address's clients: mostly of one program."""
MAX_KINDS = 4096
"""Kinds of clients whose fields are kept; beyond, certificates and addresses that have been met
start anew."""
PLAIN_KEPT_BYTES = 1 << 16
"""Of field sections of requests that are of no cluster, and malformed mostly."""


class ClientKind:
    """Clients whose heads are read alike.

    Attributes:
        peer: What is known of such clients.
    """

    __slots__ = ("_parser", "_targets", "peer")

    def __init__(self, peer: Peer, parser: HeadParser, targets: Targets) -> None:
        self.peer = peer
        self._parser = parser
        self._targets = targets

    def read(
        self,
        data: bytes,
        known: list[HeaderBlock],
        block: HeaderBlock | None = None,
        body_bytes: int = 0,
    ) -> Request:
        """Parse, check and prepare one request; all as of `HeadParser.parse`.

        Raises:
            HeadError: It must not be forwarded.
        """
        return self._targets.request_of(self._parser.parse(data, known, block, body_bytes))

    def __repr__(self) -> str:
        return f"<ClientKind of {self.peer!r}>"


class ClientKinds:
    """Tells clients apart by what decides how their heads are read.

    Args:
        settings: The process's.
        targets: Makes requests of heads.
        authenticator: Judges clients' certificates.
        room: For the field sections of all clusters.
    """

    __slots__ = (
        "_authenticator",
        "_field_rules",
        "_front_proxies",
        "_head_limits",
        "_kinds",
        "_room",
        "_targets",
    )

    def __init__(
        self,
        settings: Settings,
        targets: Targets,
        authenticator: Authenticator,
        room: MemoryBudget,
    ) -> None:
        self._targets = targets
        self._authenticator = authenticator
        self._room = room
        self._kinds: dict[tuple[Peer, bool, bool, bool], ClientKind] = {}
        self._head_limits = head_limits(settings)
        self._front_proxies = settings.downstream.identity_headers_from
        self._field_rules = field_rules(settings)

    def names_user(self, name: bytes) -> bool:
        """Whether a field, by its name in lower case, may name the user."""
        return self._field_rules.credentials.names_user(name)

    def kind_of(
        self,
        address: str,
        certificate: bytes | None = None,
        chain: Sequence[bytes] = (),
        *,
        is_tls: bool = False,
        is_http2: bool = False,
    ) -> ClientKind:
        """A client's kind."""
        shared = self._field_rules
        parsed = address_from(address) if shared.proxies else None
        peer = self._authenticator.peer(certificate, chain)
        if is_among(parsed, self._front_proxies):
            peer = replace(peer, is_front_proxy=True)
        if shared.credentials.unverified.is_by_address and peer.user is None:
            # A part of the kind: fields are kept with who sends them.
            peer = replace(peer, alias=alias_of_address(address))
        is_believed = peer.is_front_proxy or is_among(parsed, shared.proxies)
        key = peer, is_tls, is_http2, is_believed
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= MAX_KINDS:
                self._kinds.clear()
            rules = replace(
                shared,
                believes_claims=peer.is_front_proxy,
                believes_forwarding=is_believed,
                is_tls=is_tls,
                is_http2=is_http2,
            )
            is_one = peer.has_certificate or peer.alias is not None
            max_kept = MAX_KEPT_FIELDS_OF_ONE if is_one else MAX_KEPT_FIELDS
            parser = HeadParser(self._head_limits, rules, self._room, max_kept)
            kind = self._kinds[key] = ClientKind(peer, parser, self._targets)
        return kind

    def forget(self) -> None:
        """Read all heads anew, and authenticate whoever sends them again."""
        self._kinds.clear()

    def __repr__(self) -> str:
        return f"<ClientKinds: {len(self._kinds)}>"


def head_limits(settings: Settings) -> HeadLimits:
    """What a head may have at most, by the settings."""
    return HeadLimits(settings.downstream.max_header_fields, settings.downstream.max_target_bytes)


def field_rules(settings: Settings) -> FieldRules:
    """How the fields of a client are read of which nothing is known, by the settings."""
    downstream, upstream = settings.downstream, settings.upstream
    return FieldRules(
        UpstreamHosts(
            upstream.address.authority.encode(),
            (upstream.host_header or "").encode(),
        ),
        CredentialRules.of(settings.authentication),
        proxies=(*downstream.identity_headers_from, *downstream.trusted_proxies),
        forwards_credentials=upstream.identity == PASS_THROUGH,
        forwards_impersonation=upstream.identity != IMPERSONATE,
    )


def plain_parser(settings: Settings) -> HeadParser:
    """One that reads heads by no cluster's rules; it keeps next to nothing."""
    rules = FieldRules(UpstreamHosts(b"", b""), CredentialRules.of(AuthenticationSettings()))
    return HeadParser(head_limits(settings), rules, MemoryBudget(PLAIN_KEPT_BYTES))
