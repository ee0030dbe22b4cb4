"""The header fields of a request: checked, and made ready to be forwarded.

llhttp has judged the syntax.  The checks here are those that a proxy owes to what stands behind it
(RFC 9112, sections 3.2, 6.1 and 11.2): one framing, one Host, no field that an upstream could take
for another one, no identity that the client made up.  Nothing here depends on the request line but
for the version, so a client's fields are read once for all its targets.

The address of a client is that of its connection, or what trusted proxies say in X-Forwarded-For,
to the end of which each adds the address that it sees.  From there backwards the first that is not
a trusted proxy's is the client's; what stands before it the client may have made up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from apfproxy.base.address import address_from
from apfproxy.http.credential_fields import (
    NO_CREDENTIALS,
    CredentialsError,
    is_impersonation,
    read_credentials,
)
from apfproxy.http.grammar import HOST, TOKEN, GrpcError, HeadError, elements, hyphenated
from apfproxy.http.upgrade import bearer_token, offered, without_bearer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apfproxy.base.address import IPAddress, Network
    from apfproxy.http.credential_fields import CredentialRules, Lines
    from apfproxy.http.upgrade import Offer

HTTP_1_0: Final = "HTTP/1.0"
HTTP_1_1: Final = "HTTP/1.1"
HTTP_2: Final = "HTTP/2.0"
"""The protocols of clients, as Go and kube-apiserver write them."""

VIA: Final = b"Via: 1.1 apfproxy\r\n"  # in responses: servers speak HTTP/1.1
_FOR: Final = b"X-Forwarded-For: "
_VIAS_FOR: Final = {
    HTTP_1_0: b"Via: 1.0 apfproxy\r\n" + _FOR,
    HTTP_1_1: VIA + _FOR,
    HTTP_2: b"Via: 2.0 apfproxy\r\n" + _FOR,
}
"""By the protocol in which the request came; RFC 9110, section 7.6.3."""
_PROTOS: Final = (b"X-Forwarded-Proto: http\r\n", b"X-Forwarded-Proto: https\r\n")
_VERBATIM_ENDS: Final = tuple(proto + via for proto in _PROTOS for via in _VIAS_FOR.values())

_DIGITS: Final = re.compile(rb"[0-9]{1,18}")
_GRPC: Final = re.compile(rb"application/grpc(?![0-9A-Za-z-])", re.IGNORECASE)
"""Not gRPC-Web, which any HTTP carries."""

_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)
# What a Connection field may not nominate: taking it out would change what the request means.
_NOT_NOMINABLE = frozenset(b"host content-length authorization content-type cookie".split())
# Fields that say who forwarded the request, and what it was before; only a trusted front may set
# them, or any other field that begins with X-Forwarded-.
_FORWARDING = frozenset(
    b"forwarded x-forwarded-host x-forwarded-proto x-forwarded-uri x-original-url x-real-ip"
    b" x-rewrite-url".split()
)
_FORWARDED_PREFIX = b"x-forwarded-"
# Only prefixes: keys of extra values may have any character, so they are no spelling of others.
_GUARDED_PREFIXES = (_FORWARDED_PREFIX, b"impersonate-", b"impersonate-extra-")
# Fields by which many frameworks take another method for the request's, whatever it is.
_METHOD_OVERRIDES = frozenset((b"x-http-method", b"x-http-method-override", b"x-method-override"))
# Names that change a request's framing or route.  Servers that fold other characters into the
# hyphen (CGI, WSGI, Apache) take `Content_Length` for `Content-Length`, so no other spelling of
# them is forwarded.
_GUARDED = _HOP_BY_HOP | {b"content-length", b"expect", b"host", b"x-forwarded-for"}
# Their look-alikes are not forwarded, nor are those of these.
_GUARDED_SPELLINGS = _GUARDED | _FORWARDING | {b"authorization", b"sec-websocket-protocol"}

RESERVED_NAMES = (
    _GUARDED_SPELLINGS | _NOT_NOMINABLE | {b"sec-websocket-key", b"sec-websocket-version"}
)
"""Names, in lower case, to which no setting may give another meaning."""

_CLAIM: Final = 1
_GUARDED_FIELD: Final = 2
_LOOK_ALIKE: Final = 3
_PLAIN: Final = 4
_AUTHORIZATION: Final = 5
_IMPERSONATION: Final = 6
_SUBPROTOCOLS: Final = 7
_FORWARDING_FIELD: Final = 8
_NAMING: Final = 9
_OVERRIDE: Final = 10
MAX_KNOWN_NAMES = 512
"""Names of fields that are known; a few dozen are in use, and others must not fill the memory."""
MAX_KNOWN_NAME_BYTES = 64

MAX_LISTED: Final = 1000
"""Elements of Connection, Upgrade and Sec-WebSocket-Protocol, of a handful that anybody uses: each
takes a hundred times the work of another byte of the head."""

MAX_HOPS = 16
"""Looked at; more proxies one behind the other there are not, and a client may send thousands."""
MAX_HOP_BYTES = 64

NO_BODY: Final = 0
SIZED: Final = 1
CHUNKED: Final = 2
"""How a request's body is framed."""


@dataclass(frozen=True, slots=True)
class FieldRules:
    """How the fields of one kind of client are read.

    Attributes:
        believes_claims: Whether such clients are front proxies.
        believes_forwarding: Whether they are believed when they say for whom they forward.
        forwards_credentials: Whether the client's own credentials go on to the upstream.
        forwards_impersonation: Whether the upstream is to judge whom the client may impersonate.
        default_host: Towards the upstream, of an HTTP/1.0 request that has none.
        host: Stands in place of the client's; b"" to keep that.
        kinds: Of names of fields, in lower case; few are ever used, so one look-up does for most.
    """

    credentials: CredentialRules
    max_fields: int
    max_target_bytes: int
    default_host: bytes = b""
    host: bytes = b""
    believes_claims: bool = False
    believes_forwarding: bool = False
    proxies: tuple[Network, ...] = ()
    forwards_credentials: bool = True
    forwards_impersonation: bool = True
    is_tls: bool = False
    is_http2: bool = False
    kinds: dict[bytes, int] = field(default_factory=dict, compare=False, repr=False)


class RequestFields:
    """The meaning of the fields of a request; immutable once read.

    Attributes:
        forward: The field lines to forward but for Content-Length, up to and including
            `X-Forwarded-For: ` and earlier hops; the connection's `forwarded_suffix` completes
            them.  If the fields are forwarded verbatim, those lines that follow them.
        host: The client's Host, or None in HTTP/1.0 without it.
        body_bytes: Length of a sized body; other heads with these fields have other lengths.
        has_one_length: Whether one Content-Length says it, not two that agree.
        upgrade: What the client offers to switch to, of what is served anywhere.
        overrides_method: Whether the server may take another method for the request's.
        address: The client's, as proxies name it that are believed; "" if none does.
    """

    def __init__(self, protocol: str, secret_names: frozenset[str] = frozenset()) -> None:
        self.protocol = protocol
        self.is_http_10 = protocol == HTTP_1_0
        self.secret_names = secret_names
        self.keep_alive = not self.is_http_10
        self.forward = b""
        self.is_verbatim = False
        self.host: bytes | None = None
        self.framing = NO_BODY
        self.body_bytes = 0
        self.has_one_length = False
        self.expects_continue = False
        self.upgrade: Offer | None = None
        self.overrides_method = False
        self.credentials = NO_CREDENTIALS
        self.address = ""


def read_fields(
    lines: Lines, rules: FieldRules, section: bytes = b"", *, is_http_10: bool
) -> RequestFields:
    """Check the fields of one head; HeadError if they are malformed, ambiguous, or not served.

    `section` has their bytes, up to the empty line; b"" if they are not to be forwarded verbatim.
    """
    protocol = HTTP_2 if rules.is_http2 else HTTP_1_0 if is_http_10 else HTTP_1_1
    if rules.is_http2 and any(
        name.lower() == b"content-type" and _GRPC.match(value) for name, value in lines
    ):
        raise GrpcError
    result = RequestFields(protocol, rules.credentials.secret_names)
    return _Reader(result, lines, rules).read(section)


class _Reader:
    def __init__(self, result: RequestFields, fields: Lines, rules: FieldRules) -> None:
        self._result = result
        self._fields = fields
        self._rules = rules
        self._hosts: list[bytes] = []
        self._lengths: list[bytes] = []
        self._codings: list[bytes] = []
        self._forwarded_for: list[bytes] = []
        self._upgrades: list[bytes] = []
        self._claims: Lines = []
        self._authorizations: list[bytes] = []
        self._impersonations: Lines = []
        self._namings: Lines = []
        self._has_proto = False
        self._is_changed = False  # whether any of them is not forwarded as it stands
        self._listed = 0  # elements of lists so far

    def read(self, section: bytes) -> RequestFields:
        result, rules = self._result, self._rules
        nominated = self._nominated()
        lines: list[bytes] = []
        kinds = rules.kinds
        for name, value in self._fields:
            lower = name.lower()
            kind = kinds.get(lower) or _kind_of(lower, rules)
            if kind == _CLAIM:
                self._is_changed = True
                self._take_claim(lower, value, nominated)
            elif kind == _GUARDED_FIELD:
                self._take_guarded(lower, value)
            elif lower in nominated or kind == _LOOK_ALIKE:
                self._is_changed = True
            elif kind == _PLAIN:
                lines.append(b"%b: %b\r\n" % (name, value))
            elif self._goes_on(kind, lower, value):
                if kind == _SUBPROTOCOLS and not rules.forwards_credentials:
                    self._is_changed = True
                    kept = b", ".join(without_bearer(elements([value])))
                    lines += [b"%b: %b\r\n" % (name, kept)] if kept else []
                else:
                    lines.append(b"%b: %b\r\n" % (name, value))
            else:
                self._is_changed = True
        if b"upgrade" in nominated and not result.is_http_10:
            # RFC 9110, section 7.8: otherwise the field means nothing.
            result.upgrade = offered(self._upgrades, self._fields, nominated)
        lines.insert(0, self._host_line())
        self._frame()
        if self._forwarded_for and rules.believes_forwarding:
            result.address = forwarded_client(self._forwarded_for, rules.proxies)
        self._read_credentials()
        result.is_verbatim = not self._is_changed and section == b"".join(
            [b"%b: %b\r\n" % each for each in self._fields]
        )
        if result.is_verbatim:
            lines.clear()
        elif result.framing == CHUNKED:
            lines.append(b"Transfer-Encoding: chunked\r\n")
        elif self._lengths and result.framing != SIZED:
            lines.append(b"Content-Length: 0\r\n")
        if not self._has_proto:
            lines.append(_PROTOS[rules.is_tls])
        lines.append(_VIAS_FOR[result.protocol])
        lines += [value + b", " for value in self._forwarded_for if value]
        forward = b"".join(lines)
        # One object for the many whose fields go on verbatim.
        result.forward = next((end for end in _VERBATIM_ENDS if end == forward), forward)
        return result

    def _nominated(self) -> set[bytes]:
        """Field names that Connection lists; also decides whether the connection is kept."""
        result = self._result
        nominated: set[bytes] = set()
        for name, value in self._fields:
            if name.lower() != b"connection":
                continue
            self._count_elements(value)
            for raw in value.split(b","):
                option = raw.strip(b" \t").lower()
                if option and not TOKEN.fullmatch(option):
                    raise HeadError(400, "malformed request: Connection lists no tokens")
                nominated.add(option)
        if (
            nominated & _NOT_NOMINABLE
            or nominated & self._rules.credentials.naming
            or any(map(is_impersonation, nominated))
        ):
            raise HeadError(400, "Connection must not name a field that the request depends on")
        if b"close" in nominated:
            result.keep_alive = False
        elif b"keep-alive" in nominated:
            result.keep_alive = True
        return nominated

    def _count_elements(self, value: bytes) -> None:
        self._listed += value.count(b",") + 1
        if self._listed > MAX_LISTED:
            raise HeadError(
                431, f"Connection, Upgrade and Sec-WebSocket-Protocol list over {MAX_LISTED} things"
            )

    def _take_guarded(self, lower: bytes, value: bytes) -> None:
        if lower == b"host":
            self._hosts.append(value)
            return
        if lower == b"content-length":
            self._lengths.append(value)
            return
        self._is_changed = True
        if lower == b"transfer-encoding":
            self._codings.append(value)
        elif lower == b"upgrade":
            self._count_elements(value)
            self._upgrades.append(value)
        elif lower == b"expect" and not self._result.is_http_10:  # RFC 9110, section 10.1.1
            if value.lower() != b"100-continue":
                raise HeadError(417, "the only expectation that is served is 100-continue")
            self._result.expects_continue = True
        elif lower == b"x-forwarded-for":
            self._forwarded_for.append(value)

    def _take_claim(self, lower: bytes, value: bytes, nominated: set[bytes]) -> None:
        if not self._rules.believes_claims:
            return
        if lower in nominated:
            # Without it the rest would mean another user, or one with less to restrain them.
            raise HeadError(400, "Connection must not name a field that has the user")
        self._claims.append((lower, value))

    def _goes_on(self, kind: int, lower: bytes, value: bytes) -> bool:
        rules = self._rules
        if kind == _AUTHORIZATION:
            self._authorizations.append(value)
            return rules.forwards_credentials
        if kind == _IMPERSONATION:
            self._impersonations.append((lower, value))
            return rules.forwards_impersonation
        if kind == _NAMING:
            self._namings.append((lower, value))
            return rules.forwards_credentials or lower != rules.credentials.key_name
        if kind == _OVERRIDE:
            self._result.overrides_method = True
            return True
        if kind == _FORWARDING_FIELD:
            is_believed = rules.believes_forwarding
            self._has_proto = self._has_proto or (is_believed and lower == b"x-forwarded-proto")
            return is_believed
        self._count_elements(value)  # of subprotocols
        return True

    def _host_line(self) -> bytes:
        rules = self._rules
        host = rules.default_host
        if self._hosts or not self._result.is_http_10:
            if len(self._hosts) != 1 or not HOST.fullmatch(self._hosts[0]):
                raise HeadError(400, "a request must have exactly one valid Host field")
            host = self._result.host = self._hosts[0]
        if rules.host or not self._hosts:
            self._is_changed = True
        return b"Host: %b\r\n" % (rules.host or host)

    def _frame(self) -> None:
        """Decide the framing, RFC 9112, section 6.3, and refuse whatever is ambiguous."""
        result = self._result
        if self._codings:
            if result.is_http_10 or self._lengths:
                raise HeadError(400, "Transfer-Encoding with HTTP/1.0 or with Content-Length")
            if len(self._codings) != 1 or self._codings[0].lower() != b"chunked":
                raise HeadError(400, "the only transfer coding that is served is chunked")
            result.framing = CHUNKED
        elif self._lengths:
            if len(set(self._lengths)) != 1 or not _DIGITS.fullmatch(self._lengths[0]):
                raise HeadError(400, "Content-Length is not one decimal number")
            result.body_bytes = int(self._lengths[0])
            result.has_one_length = len(self._lengths) == 1
            if not result.has_one_length or self._lengths[0] != b"%d" % result.body_bytes:
                self._is_changed = True
            if result.body_bytes:
                result.framing = SIZED
        if result.framing == NO_BODY:
            result.expects_continue = False

    def _read_credentials(self) -> None:
        result, offer, token = self._result, self._result.upgrade, b""
        if offer is not None and offer.is_websocket:
            token = bearer_token(offer.subprotocols)
        if not (
            self._authorizations
            or self._claims
            or self._impersonations
            or self._namings
            or token
            or result.address
        ):
            return
        try:
            result.credentials = read_credentials(
                self._rules.credentials,
                self._claims,
                self._authorizations,
                self._impersonations,
                self._namings,
                websocket_token=token,
                address=result.address,
            )
        except CredentialsError as error:
            raise HeadError(400, str(error)) from error


def _kind_of(lower: bytes, rules: FieldRules) -> int:
    kind = _PLAIN
    if rules.credentials.is_claim(lower):
        kind = _CLAIM
    elif lower in _GUARDED:
        kind = _GUARDED_FIELD
    elif _is_look_alike(lower, rules.credentials):
        kind = _LOOK_ALIKE
    elif lower == b"authorization":
        kind = _AUTHORIZATION
    elif is_impersonation(lower):
        kind = _IMPERSONATION
    elif lower in rules.credentials.naming:
        kind = _NAMING
    elif lower == b"sec-websocket-protocol":
        kind = _SUBPROTOCOLS
    elif lower in _FORWARDING or lower.startswith(_FORWARDED_PREFIX):
        kind = _FORWARDING_FIELD
    elif hyphenated(lower) in _METHOD_OVERRIDES:
        kind = _OVERRIDE
    if len(lower) <= MAX_KNOWN_NAME_BYTES:
        if len(rules.kinds) >= MAX_KNOWN_NAMES:
            rules.kinds.clear()
        rules.kinds[lower] = kind
    return kind


def _is_look_alike(lower: bytes, credentials: CredentialRules) -> bool:
    folded = hyphenated(lower)
    return folded != lower and (
        folded in _GUARDED_SPELLINGS
        or any(folded.startswith(each) and not lower.startswith(each) for each in _GUARDED_PREFIXES)
        or credentials.names_user(folded)
    )


def is_among(address: IPAddress | None, networks: Iterable[Network]) -> bool:
    return address is not None and any(address in network for network in networks)


def forwarded_client(values: Iterable[bytes], proxies: Sequence[Network]) -> str:
    """The client by all X-Forwarded-For fields of a trusted proxy; "" if there is none."""
    found = ""
    for hop in reversed(b",".join(values).rsplit(b",", MAX_HOPS)[-MAX_HOPS:]):
        address = _address_of_hop(hop)
        if address is None:
            break
        found = str(address)
        if not is_among(address, proxies):
            break
    return found


def _address_of_hop(hop: bytes) -> IPAddress | None:
    text = hop.strip(b" \t").decode("latin-1")
    if len(text) > MAX_HOP_BYTES:
        return None
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return address_from(text)
