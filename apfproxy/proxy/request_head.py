"""The head of a request: parsed by llhttp, checked, and made ready to be forwarded.

llhttp judges the syntax: line endings, characters, no continued lines.  The checks here are those
that a proxy owes to what stands behind it (RFC 9112, sections 3.2, 6.1 and 11.2): one framing, one
Host, no field that an origin could take for another one, no identity that the client made up.
A head that fails is never forwarded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httptools

from apfproxy.request.user import (
    ANONYMOUS,
    ANONYMOUS_NAME,
    AUTHENTICATED_GROUP,
    UNAUTHENTICATED_GROUP,
    User,
)

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.flowcontrol.ticket import WorkEstimate
    from apfproxy.request.attributes import RequestAttributes

VIA = b"Via: 1.1 apfproxy\r\n"

_TARGET = re.compile(rb"[\x21-\x7e]+")
_REQUEST_LINE = re.compile(rb"[A-Z][A-Z-]* (\S+) HTTP/1\.[01]")
_HOST = re.compile(rb"(?:[0-9A-Za-z\-._~!$&'()*+,;=%]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_ABSOLUTE = re.compile(rb"https?://([^/?#]+)", re.IGNORECASE)
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
class HeadLimits:
    """What a head may have at most."""

    fields: int
    target_bytes: int


@dataclass(frozen=True, slots=True)
class OriginHosts:
    """The Host field towards the origin.

    Attributes:
        default: For an HTTP/1.0 request that has none.
        always: In place of the client's, or b"" to keep that.
    """

    default: bytes
    always: bytes


class RequestHead:
    """All that is known of a request before its body; kept and used again for equal bytes.

    Attributes:
        method, target: As they stood in the request line.
        forward: The head to forward, up to and including `X-Forwarded-For: ` and earlier hops;
            the connection's `forwarded_suffix` completes it.
        framing: `NO_BODY`, `SIZED` or `CHUNKED`.
        body_bytes: Length of a sized body.
        is_http_10: Whether the client speaks HTTP/1.0.
        keep_alive: Whether the connection may serve another request.
        expects_continue: Whether the client waits for a 100 before it sends the body.
        upgrade: What the client wants to upgrade to, or b"".
        user: Who asks.
        attributes, timeout_ns, fixed_estimate, takes_seats: Set by `Admission.prepare`.
        classification: The last one, of the configuration's generation that it names.
    """

    __slots__ = (
        "attributes",
        "body_bytes",
        "classification",
        "expects_continue",
        "fixed_estimate",
        "forward",
        "framing",
        "is_head",
        "is_http_10",
        "is_watch",
        "keep_alive",
        "method",
        "pf_headers",
        "takes_seats",
        "target",
        "timeout_ns",
        "upgrade",
        "user",
    )

    attributes: RequestAttributes
    classification: Classification | None
    fixed_estimate: WorkEstimate | None
    pf_headers: bytes
    takes_seats: bool
    timeout_ns: int
    is_watch: bool

    def __init__(self, method: str, target: bytes) -> None:
        self.method = method
        self.target = target
        self.is_head = method == "HEAD"
        self.forward = b""
        self.framing = NO_BODY
        self.body_bytes = 0
        self.is_http_10 = False
        self.keep_alive = True
        self.expects_continue = False
        self.upgrade = b""
        self.user = ANONYMOUS
        self.classification = None
        self.pf_headers = b""

    def __repr__(self) -> str:
        return f"<RequestHead {self.method} {self.target!r}>"


class _Collector:
    """Takes what llhttp finds in one head."""

    __slots__ = ("fields", "is_complete", "target")

    def __init__(self) -> None:
        self.target = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.is_complete = True


class HeadProbe:
    """Judges a head that arrives in pieces, so that what cannot become one is refused at once."""

    __slots__ = ("_parser",)

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        """Take the next piece.

        Raises:
            HeadError: It is not HTTP, or not of a version that is served.
        """
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # said of the whole head; the parse that follows will see it too
        except httptools.HttpParserError as error:
            raise _malformed(error) from error


def _malformed(error: Exception) -> HeadError:
    return HeadError(400, f"malformed request: {error}")


def parse_request_head(
    head: bytes, limits: HeadLimits, hosts: OriginHosts, *, trusts_identity: bool
) -> RequestHead:
    """Parse and check one head.

    Args:
        head: From the first byte of the request line to the empty line, that included.
        limits: How many fields, how long a target.
        hosts: What to say in Host where the client does not decide it.
        trusts_identity: Whether the client's address may assert identities.

    Raises:
        HeadError: It is malformed or over a limit.
    """
    found = _Collector()
    parser = httptools.HttpRequestParser(found)
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # looked at below: only a Connection field that nominates Upgrade makes it one
    except httptools.HttpParserError as error:
        raise _malformed(error) from error
    if not found.is_complete:
        raise HeadError(400, "malformed request: the head has no end where it should")
    target = found.target
    line = _REQUEST_LINE.fullmatch(head, 0, head.index(b"\r\n"))
    if line is None or line[1] != target:
        raise HeadError(400, "malformed request: the request line is not METHOD TARGET HTTP/1.1")
    if len(target) > limits.target_bytes:
        raise HeadError(414, f"the request target is longer than {limits.target_bytes} bytes")
    if len(found.fields) > limits.fields:
        raise HeadError(431, f"the request has more than {limits.fields} header fields")
    result = RequestHead(parser.get_method().decode(), target)
    result.is_http_10 = parser.get_http_version() == "1.0"
    return _Reader(result, found.fields, hosts, trusts_identity=trusts_identity).read()


class _Reader:
    """Goes through the fields of one head once."""

    def __init__(
        self,
        head: RequestHead,
        fields: list[tuple[bytes, bytes]],
        hosts: OriginHosts,
        *,
        trusts_identity: bool,
    ) -> None:
        self._head = head
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

    def read(self) -> RequestHead:
        head = self._head
        nominated = self._nominated()
        lines = [b"%b %b HTTP/1.1\r\n" % (head.method.encode(), head.target)]
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
        if b"upgrade" not in nominated or head.is_http_10:
            head.upgrade = b""  # RFC 9110, section 7.8: then the field means nothing
        lines.insert(1, self._host_line())
        self._frame()
        if self._identify():
            lines += identity_lines
        if head.framing == CHUNKED:
            lines.append(b"Transfer-Encoding: chunked\r\n")
        elif head.framing == SIZED or self._lengths:
            lines.append(b"Content-Length: %d\r\n" % head.body_bytes)
        if not self._has_proto:
            lines.append(b"X-Forwarded-Proto: http\r\n")
        lines.append(VIA)
        lines.append(b"X-Forwarded-For: ")
        lines += [value + b", " for value in self._forwarded_for if value]
        head.forward = b"".join(lines)
        self._check_target()
        return head

    def _nominated(self) -> set[bytes]:
        """Field names that Connection lists; also decides whether the connection is kept."""
        head = self._head
        head.keep_alive = not head.is_http_10
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
            head.keep_alive = False
        elif b"keep-alive" in nominated:
            head.keep_alive = True
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
            self._head.upgrade = value or b"?"
        elif lower == b"expect":
            self._take_expect(value)
        elif lower == b"x-forwarded-for":
            self._forwarded_for.append(value)

    def _take_expect(self, value: bytes) -> None:
        if self._head.is_http_10:
            return  # RFC 9110, section 10.1.1: ignored from HTTP/1.0
        if value.lower() != b"100-continue":
            raise HeadError(417, "the only expectation that is served is 100-continue")
        self._head.expects_continue = True

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
        if not self._hosts and self._head.is_http_10:
            return b"Host: %b\r\n" % (self._origin_hosts.always or self._origin_hosts.default)
        if len(self._hosts) != 1 or not _HOST.fullmatch(self._hosts[0]):
            raise HeadError(400, "a request must have exactly one valid Host field")
        return b"Host: %b\r\n" % (self._origin_hosts.always or self._hosts[0])

    def _frame(self) -> None:
        """Decide the framing, RFC 9112, section 6.3, and refuse whatever is ambiguous."""
        head = self._head
        if self._codings:
            if head.is_http_10 or self._lengths:
                raise HeadError(400, "Transfer-Encoding with HTTP/1.0 or with Content-Length")
            if len(self._codings) != 1 or self._codings[0].lower() != b"chunked":
                raise HeadError(400, "the only transfer coding that is served is chunked")
            head.framing = CHUNKED
        elif self._lengths:
            if len(set(self._lengths)) != 1 or not _DIGITS.fullmatch(self._lengths[0]):
                raise HeadError(400, "Content-Length is not one decimal number")
            head.body_bytes = int(self._lengths[0])
            if head.body_bytes:
                head.framing = SIZED
        if head.framing == NO_BODY:
            head.expects_continue = False

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
        self._head.user = User(name, tuple(groups))
        return True

    def _check_target(self) -> None:
        head = self._head
        target = head.target
        if not _TARGET.fullmatch(target) or b"#" in target:
            raise HeadError(400, "the request target has a character that must be escaped")
        if head.method == "CONNECT":
            raise HeadError(405, "CONNECT is not served")
        if head.method == "TRACE":
            raise HeadError(405, "TRACE is not served")
        if target[:1] == b"/" or (target == b"*" and head.method == "OPTIONS"):
            return
        absolute = _ABSOLUTE.match(target)
        if absolute is None:
            raise HeadError(400, "the request target is neither a path nor an http URL")
        if not self._hosts or absolute[1].lower() != self._hosts[0].lower():
            raise HeadError(400, "the authority of the request target is not that of Host")
