"""The header fields of a request: checked, and made ready to be forwarded.

llhttp has judged the syntax: line endings, characters, no continued lines.  The checks here are
those that a proxy owes to what stands behind it (RFC 9112, sections 3.2, 6.1 and 11.2): one
framing, one Host, no field that an origin could take for another one, no identity that the client
made up.  Nothing here depends on the request line but for the version, so a client's fields are
read once for all its targets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from apfproxy.request.user import (
    ANONYMOUS,
    ANONYMOUS_NAME,
    AUTHENTICATED_GROUP,
    UNAUTHENTICATED_GROUP,
    User,
)

VIA = b"Via: 1.1 apfproxy\r\n"

_HOST = re.compile(rb"(?:[0-9A-Za-z\-._~!$&'()*+,;=%]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_DIGITS = re.compile(rb"[0-9]{1,18}")
_NOT_ALPHANUMERIC = re.compile(rb"[^0-9a-z]")
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
# What a Connection field may not nominate: taking it out would change what the request means.
_NOT_NOMINABLE = frozenset(
    (b"host", b"content-length", b"authorization", b"content-type", b"cookie")
)
# Fields that say who forwarded the request; only a trusted front may set them.
_FORWARDING = frozenset(
    (b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-uri", b"x-real-ip")
)
# Names that change a request's framing or route.  Servers that fold other characters into the
# hyphen (CGI, WSGI, Apache) take `Content_Length` for `Content-Length`, so no other spelling of
# them is forwarded.
_GUARDED = _HOP_BY_HOP | {b"content-length", b"expect", b"host", b"x-forwarded-for"}
# Their look-alikes are not forwarded, nor are those of these.
_GUARDED_SPELLINGS = _GUARDED | _FORWARDING | {b"authorization", b"forwarded"}
_IDENTITY_NAMES = frozenset((b"x-remote-user", b"x-remote-group", b"x-remote-uid"))
_EXTRA_PREFIX = b"x-remote-extra-"

NO_BODY, SIZED, CHUNKED = 0, 1, 2
"""How a request's body is framed."""


class HeadError(Exception):
    """A request that gets an answer of the proxy's own, after which its connection is closed.

    Attributes:
        code: The status code.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class OriginHosts:
    """The Host field towards the origin.

    Attributes:
        default: For an HTTP/1.0 request that has none.
        always: In place of the client's, or b"" to keep that.
    """

    default: bytes
    always: bytes


class RequestFields:
    """What the fields of a request say; immutable once read.

    Attributes:
        forward: The field lines to forward, up to and including `X-Forwarded-For: ` and earlier
            hops; the connection's `forwarded_suffix` completes them.
        host: The client's Host, or None in HTTP/1.0 without it.
        framing: `NO_BODY`, `SIZED` or `CHUNKED`.
        body_bytes: Length of a sized body.
        is_http_10: Whether the client speaks HTTP/1.0.
        keep_alive: Whether the connection may serve another request.
        expects_continue: Whether the client waits for a 100 before it sends the body.
        upgrade: What the client wants to upgrade to, or b"".
        user: Who asks.
    """

    __slots__ = (
        "body_bytes",
        "expects_continue",
        "forward",
        "framing",
        "host",
        "is_http_10",
        "keep_alive",
        "upgrade",
        "user",
    )

    def __init__(self, *, is_http_10: bool) -> None:
        self.forward = b""
        self.host: bytes | None = None
        self.framing = NO_BODY
        self.body_bytes = 0
        self.is_http_10 = is_http_10
        self.keep_alive = not is_http_10
        self.expects_continue = False
        self.upgrade = b""
        self.user = ANONYMOUS

    def __repr__(self) -> str:
        return f"<RequestFields of {self.user.name!r}, framing {self.framing}>"


def read_fields(
    lines: list[tuple[bytes, bytes]],
    hosts: OriginHosts,
    *,
    is_http_10: bool,
    trusts_identity: bool,
) -> RequestFields:
    """Check the fields of one result.

    Args:
        lines: Names and values, in order.
        hosts: What to say in Host where the client does not decide it.
        is_http_10: Whether the request line says HTTP/1.0.
        trusts_identity: Whether the client's address may assert identities.

    Raises:
        HeadError: They are malformed, ambiguous, or not served.
    """
    return _Reader(
        RequestFields(is_http_10=is_http_10), lines, hosts, trusts_identity=trusts_identity
    ).read()


class _Reader:
    """Goes through the fields of one head once."""

    def __init__(
        self,
        result: RequestFields,
        fields: list[tuple[bytes, bytes]],
        hosts: OriginHosts,
        *,
        trusts_identity: bool,
    ) -> None:
        self._result = result
        self._fields = fields
        self._origin_hosts = hosts
        self._trusts_identity = trusts_identity
        self._hosts: list[bytes] = []
        self._lengths: list[bytes] = []
        self._codings: list[bytes] = []
        self._forwarded_for: list[bytes] = []
        self._users: list[bytes] = []
        self._groups: list[bytes] = []
        self._has_proto = False

    def read(self) -> RequestFields:
        result = self._result
        nominated = self._nominated()
        lines: list[bytes] = []
        identity_lines: list[bytes] = []
        for name, value in self._fields:
            lower = name.lower()
            if lower in _IDENTITY_NAMES or lower.startswith(_EXTRA_PREFIX):
                if lower not in nominated and self._take_identity(lower, value):
                    identity_lines.append(b"%b: %b\r\n" % (name, value))
            elif lower in _GUARDED:
                self._take_guarded(lower, value)
            elif lower in nominated or self._is_look_alike(lower):
                pass
            elif lower not in _FORWARDING:
                lines.append(b"%b: %b\r\n" % (name, value))
            elif self._trusts_identity:
                self._has_proto = self._has_proto or lower == b"x-forwarded-proto"
                lines.append(b"%b: %b\r\n" % (name, value))
        if b"upgrade" not in nominated or result.is_http_10:
            result.upgrade = b""  # RFC 9110, section 7.8: then the field means nothing
        lines.insert(0, self._host_line())
        self._frame()
        if self._identify():
            lines += identity_lines
        if result.framing == CHUNKED:
            lines.append(b"Transfer-Encoding: chunked\r\n")
        elif result.framing == SIZED or self._lengths:
            lines.append(b"Content-Length: %d\r\n" % result.body_bytes)
        if not self._has_proto:
            lines.append(b"X-Forwarded-Proto: http\r\n")
        lines.append(VIA)
        lines.append(b"X-Forwarded-For: ")
        lines += [value + b", " for value in self._forwarded_for if value]
        result.forward = b"".join(lines)
        return result

    def _nominated(self) -> set[bytes]:
        """Field names that Connection lists; also decides whether the connection is kept."""
        result = self._result
        nominated: set[bytes] = set()
        for name, value in self._fields:
            if name.lower() != b"connection":
                continue
            for raw in value.split(b","):
                option = raw.strip(b" \t").lower()
                if option and not _TOKEN.fullmatch(option):
                    raise HeadError(400, "malformed request: Connection lists no tokens")
                nominated.add(option)
        if nominated & _NOT_NOMINABLE:
            raise HeadError(400, "Connection must not name a field that the request depends on")
        if b"close" in nominated:
            result.keep_alive = False
        elif b"keep-alive" in nominated:
            result.keep_alive = True
        return nominated

    def _take_guarded(self, lower: bytes, value: bytes) -> None:
        """Take a field that is not forwarded as it stands."""
        if lower == b"host":
            self._hosts.append(value)
        elif lower == b"content-length":
            self._lengths.append(value)
        elif lower == b"transfer-encoding":
            self._codings.append(value)
        elif lower == b"upgrade":
            self._result.upgrade = value or b"?"
        elif lower == b"expect":
            self._take_expect(value)
        elif lower == b"x-forwarded-for":
            self._forwarded_for.append(value)

    def _take_expect(self, value: bytes) -> None:
        if self._result.is_http_10:
            return  # RFC 9110, section 10.1.1: ignored from HTTP/1.0
        if value.lower() != b"100-continue":
            raise HeadError(417, "the only expectation that is served is 100-continue")
        self._result.expects_continue = True

    def _take_identity(self, lower: bytes, value: bytes) -> bool:
        if not self._trusts_identity:
            return False
        if lower == b"x-remote-user":
            self._users.append(value)
        elif lower == b"x-remote-group":
            self._groups.append(value)
        return True

    @staticmethod
    def _is_look_alike(lower: bytes) -> bool:
        """Whether an origin might read the name as that of a field which is guarded."""
        folded = _NOT_ALPHANUMERIC.sub(b"-", lower)
        return folded != lower and (
            folded in _GUARDED_SPELLINGS
            or folded in _IDENTITY_NAMES
            or folded.startswith(_EXTRA_PREFIX)
        )

    def _host_line(self) -> bytes:
        if not self._hosts and self._result.is_http_10:
            return b"Host: %b\r\n" % (self._origin_hosts.always or self._origin_hosts.default)
        if len(self._hosts) != 1 or not _HOST.fullmatch(self._hosts[0]):
            raise HeadError(400, "a request must have exactly one valid Host field")
        self._result.host = self._hosts[0]
        return b"Host: %b\r\n" % (self._origin_hosts.always or self._hosts[0])

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
            if result.body_bytes:
                result.framing = SIZED
        if result.framing == NO_BODY:
            result.expects_continue = False

    def _identify(self) -> bool:
        """Set the user, and say whether the identity fields go on to the origin."""
        named = next((user for user in self._users if user), None)
        if named is None:
            return False
        try:
            name = named.decode()
            groups = [group.decode() for group in self._groups if group]
        except UnicodeDecodeError as error:
            raise HeadError(400, "an identity header is not UTF-8") from error
        # As Kubernetes' AuthenticatedGroupAdder: once, and not for the anonymous user.
        if name != ANONYMOUS_NAME and not {AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP} & set(
            groups
        ):
            groups.append(AUTHENTICATED_GROUP)
        self._result.user = User(name, tuple(groups))
        return True
