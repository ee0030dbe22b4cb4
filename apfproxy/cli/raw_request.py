"""A request as it stands on the wire, read from standard input: the proxy's own parser judges it.

Line ends may be bare LF, as editors and terminals write them, and the empty line at the end may be
missing; nothing else is forgiven that the proxy would not forgive.
"""

from __future__ import annotations

from dataclasses import dataclass

from apfproxy.authn.credential_fields import CredentialRules
from apfproxy.authn.impersonation import effective
from apfproxy.observe.explain_page import parse_header
from apfproxy.proxy.request_fields import FieldRules, HeadError, OriginHosts
from apfproxy.proxy.request_head import HeadLimits, HeadParser
from apfproxy.request.user import ANONYMOUS, User
from apfproxy.settings import Settings

Headers = tuple[tuple[str, str], ...]

SECRET = frozenset({"authorization", "cookie", "proxy-authorization"})
NAMELESS = (
    "the request has credentials that only a proxy can look into: it is explained as"
    " an anonymous one; say who asks with --as"
)
IMPERSONATES = "it is supposed that the client may impersonate {name!r}"
CLAIMS = "it is supposed that the identity fields come from a front proxy that is trusted"


@dataclass(frozen=True, slots=True)
class RawRequest:
    """What a request's head says.

    Attributes:
        method, target: Of the request line.
        user: Whom the fields name, with all groups that count; anonymous if they name nobody.
        notes: What was supposed about that.
        headers: Names in lower case and values; those that hold secrets are left out.
    """

    method: str
    target: bytes
    user: User
    notes: tuple[str, ...] = ()
    headers: Headers = ()


def read_raw_request(data: bytes) -> RawRequest:
    """Read the head of a request.

    Raises:
        ValueError: The proxy would refuse it; says with which status.
    """
    downstream = Settings().downstream
    head, _, _ = data.partition(b"\r\n\r\n") if b"\r\n" in data else data.partition(b"\n\n")
    if not head.strip():
        raise ValueError("there is no request on standard input; begin with GET /path HTTP/1.1")
    if b"\r\n" not in head:
        head = head.strip(b"\n").replace(b"\n", b"\r\n")
    head = head.rstrip(b"\r\n") + b"\r\n\r\n"
    if len(head) > downstream.max_head_bytes:
        raise ValueError(f"the head is longer than {downstream.max_head_bytes} bytes")
    rules = FieldRules(
        OriginHosts(b"", b""),
        CredentialRules.of(Settings().authentication.front_proxy),
        believes_claims=True,
    )
    limits = HeadLimits(downstream.max_header_fields, downstream.max_target_bytes)
    try:
        parsed = HeadParser(limits, rules).parse(head)
    except HeadError as error:
        raise ValueError(f"the proxy would answer {error.code}: {error}") from None
    credentials = parsed.credentials
    named, notes = credentials.claimed, []
    if named is not None:
        notes.append(CLAIMS)
    if credentials.impersonated is not None:
        named = credentials.impersonated
        notes.append(IMPERSONATES.format(name=named.name))
    if named is None and credentials.token:
        notes.append(NAMELESS)
    user = ANONYMOUS if named is None else effective(named)
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:] if line]
    headers = tuple(parse_header(f"{_text(name)}:{_text(value)}") for name, _, value in lines)
    return RawRequest(
        parsed.method,
        parsed.target,
        user,
        tuple(notes),
        tuple((name, value) for name, value in headers if name not in SECRET),
    )


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
