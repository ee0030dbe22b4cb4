"""How the heads of one cluster's requests are read: by its settings, and by kinds of clients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from apfproxy.authn.credential_fields import CredentialRules
from apfproxy.authn.unverified_names import alias_of_address
from apfproxy.flowcontrol.preset import PRESETS, Preset
from apfproxy.http.client_address import address_from, is_among
from apfproxy.http.grammar import HeadError
from apfproxy.http.request_fields import FieldRules, UpstreamHosts
from apfproxy.http.request_head import parse_head
from apfproxy.http.upgrade import UpgradeRules, honoured
from apfproxy.proxy.header_blocks import ClientKind
from apfproxy.proxy.request import Request
from apfproxy.request.attributes import (
    AttributesError,
    DeadlineError,
    RequestAttributes,
    parse_attributes,
    plain_attributes,
    request_timeout_ns,
)
from apfproxy.settings import IMPERSONATE, PASS_THROUGH, AuthenticationSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.authn.authenticator import Authenticator
    from apfproxy.authn.credentials import Peer
    from apfproxy.base.bounded_cache import MemoryBudget
    from apfproxy.flowcontrol.passage import FlowControl
    from apfproxy.http.request_head import RequestHead
    from apfproxy.proxy.header_blocks import HeaderBlock
    from apfproxy.request.rules import RequestRules
    from apfproxy.settings import Settings

MAX_BLOCKS = 16384
"""Header blocks per kind of client: enough for a large cluster's nodes."""
MAX_BLOCKS_OF_ONE = 1024
"""Of one certificate's or one address's clients: mostly of one program."""
MAX_KINDS = 4096
"""Kinds of clients whose header blocks are kept; beyond, all kinds start anew."""


class ClientKinds:
    """Tells clients apart by what decides how their heads are read, and makes requests of those.

    `room` is for the header blocks of all clusters.
    """

    def __init__(
        self,
        settings: Settings,
        flow_control: FlowControl,
        authenticator: Authenticator,
        room: MemoryBudget,
    ) -> None:
        self._flow_control = flow_control
        self._authenticator = authenticator
        self._room = room
        self._kinds: dict[tuple[Peer, bool, bool, bool], ClientKind] = {}
        self._front_proxies = settings.downstream.identity_headers_from
        self._field_rules = field_rules(settings)
        self._default_timeout_ns = round(settings.downstream.request_timeout_s * 1e9)
        self._response_timeout_ns = round(settings.upstream.answer_timeout_s * 1e9)
        preset = preset_of(settings)
        self._is_plain = preset.is_plain
        self._rules = preset.rules
        upgrades = settings.upstream.upgrades
        self._upgrades = UpgradeRules(upgrades.allow, upgrades.deny)

    def request_of(self, head: RequestHead, block: HeaderBlock) -> Request:
        """The request that a head makes; HeadError for a target or an upgrade that is malformed.

        Nothing is kept by targets: to find one of many thousands again costs as much as reading it,
        since neither the table nor what it has is in the caches of the CPU.
        """
        attributes = read_target(head, self._rules, is_plain=self._is_plain)
        timeout_ns = self._default_timeout_ns
        if attributes.query:
            timeout_ns = _timeout_ns(attributes, timeout_ns)
        if head.upgrade is not None:
            offer = honoured(head.upgrade, head.method, attributes, self._upgrades)
            head = head.with_upgrade(offer)
        response_timeout_ns = self._response_timeout_ns
        if timeout_ns < response_timeout_ns and not attributes.long_running_by:
            response_timeout_ns = timeout_ns
        control = self._flow_control
        return Request(
            head,
            block,
            attributes,
            timeout_ns,
            response_timeout_ns,
            control.kinds.kinds[attributes.is_mutating],
            control.estimator.fixed(attributes),
        )

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
            most = MAX_BLOCKS_OF_ONE if is_one else MAX_BLOCKS
            kind = self._kinds[key] = ClientKind(peer, rules, self._room, most)
        return kind

    def forget(self) -> None:
        self._kinds.clear()


def field_rules(settings: Settings) -> FieldRules:
    """How the fields of a client are read of which nothing is known."""
    downstream, upstream = settings.downstream, settings.upstream
    return FieldRules(
        UpstreamHosts(upstream.address.authority.encode(), (upstream.host_header or "").encode()),
        CredentialRules.of(settings.authentication),
        downstream.max_header_fields,
        downstream.max_target_bytes,
        proxies=(*downstream.identity_headers_from, *downstream.trusted_proxies),
        forwards_credentials=upstream.identity == PASS_THROUGH,
        forwards_impersonation=upstream.identity != IMPERSONATE,
    )


def plain_rules(settings: Settings) -> FieldRules:
    """How the fields of requests that are of no cluster are read."""
    downstream = settings.downstream
    return FieldRules(
        UpstreamHosts(b"", b""),
        CredentialRules.of(AuthenticationSettings()),
        downstream.max_header_fields,
        downstream.max_target_bytes,
    )


def preset_of(settings: Settings) -> Preset:
    """The kind of API behind, with the rules of the settings."""
    named = settings.request.long_running
    return PRESETS[settings.preset].with_rules(
        named.verbs, named.subresources, named.path_prefixes, settings.request.path_prefixes
    )


def read_target(
    head: RequestHead, rules: RequestRules, *, is_plain: bool = False
) -> RequestAttributes:
    """What a head asks for; HeadError if Kubernetes would not understand the target."""
    try:
        if is_plain:
            return plain_attributes(head.method, head.target, rules)
        return parse_attributes(head.method, head.target, rules)
    except AttributesError as error:
        raise HeadError(400, f"malformed request target: {error}") from error


def _timeout_ns(attributes: RequestAttributes, default_ns: int) -> int:
    try:
        return request_timeout_ns(attributes, default_ns)
    except DeadlineError as error:
        raise HeadError(400, f"invalid timeout specified in the request URL: {error}") from error


def judged(raw: bytes, rules: FieldRules, settings: Settings) -> RequestHead:
    """A head as it would be forwarded; HeadError if it would be refused."""
    head, preset = parse_head(raw, rules), preset_of(settings)
    attributes = read_target(head, preset.rules, is_plain=preset.is_plain)
    _timeout_ns(attributes, 0)
    if head.upgrade is None:
        return head
    upgrades = settings.upstream.upgrades
    rules_there = UpgradeRules(upgrades.allow, upgrades.deny)
    return head.with_upgrade(honoured(head.upgrade, head.method, attributes, rules_there))
