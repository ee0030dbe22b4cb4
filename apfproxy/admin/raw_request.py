"""A request as it stands on the wire, which the proxy's own parser judges.

Line ends may be bare LF, as editors and terminals write them, and the empty line at the end may be
missing; nothing else is forgiven that the proxy would not forgive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.authn.impersonation import effective
from apfproxy.http.grammar import HeadError
from apfproxy.http.request_fields import FieldRules, UpstreamHosts
from apfproxy.objects.additions import SECRET_HEADERS
from apfproxy.proxy.request import judged
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import Settings

if TYPE_CHECKING:
    from apfproxy.http.request_head import RequestHead

Headers = tuple[tuple[str, str], ...]

NAMELESS = (
    "the request has credentials that only a proxy can look into: it is explained as"
    " an anonymous one; name the user with --as"
)
IMPERSONATES = "it is supposed that the client may impersonate {name!r}"
CLAIMS = "it is supposed that the identity fields come from a front proxy that is trusted"


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request's head; `notes` say what was supposed about its user.

    The headers are the forwarded ones without secrets, the first of each name, in lower case.
    """

    method: str
    target: bytes
    user: User
    notes: tuple[str, ...] = ()
    headers: Headers = ()


def read_raw_request(data: bytes, settings: Settings | None = None) -> RawRequest:
    """Read the head of a request.

    ValueError if the proxy would refuse it; says with which status.
    """
    data = data.lstrip(b"\r\n")
    first_line, _, _ = data.partition(b"\n")
    if not first_line.strip():
        raise ValueError("there is no request on standard input; begin with GET /path HTTP/1.1")
    if first_line.endswith(b"\r"):
        head, _, _ = data.partition(b"\r\n\r\n")
    else:
        head, _, _ = data.partition(b"\n\n")
        head = head.rstrip(b"\n").replace(b"\n", b"\r\n")
    parsed = _judged(head.rstrip(b"\r\n") + b"\r\n\r\n", settings)
    credentials = parsed.fields.credentials
    named, notes = credentials.claimed, []
    if named is not None:
        notes.append(CLAIMS)
    if credentials.impersonated is not None:
        named = credentials.impersonated
        notes.append(IMPERSONATES.format(name=named.name))
    if named is None and credentials.token:
        notes.append(NAMELESS)
    user = ANONYMOUS if named is None else effective(named)
    headers: dict[str, str] = {}
    for line in parsed.forwarded_fields.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        lower = name.decode().lower()
        if lower not in SECRET_HEADERS:
            headers.setdefault(lower, value.decode(errors="replace"))
    return RawRequest(parsed.method, parsed.target, user, tuple(notes), tuple(headers.items()))


def request_of_line(method: str, target: bytes, settings: Settings | None = None) -> RawRequest:
    """The request of somebody anonymous that has no fields to speak of.

    ValueError if the proxy would refuse it; says with which status.
    """
    _judged(b"%b %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (method.encode(), target), settings)
    return RawRequest(method, target, ANONYMOUS)


def _judged(head: bytes, settings: Settings | None = None) -> RequestHead:
    """Have the proxy's own code read a head, by its default settings unless there are others.

    ValueError if the proxy would refuse it; says with which status.
    """
    defaults = Settings()
    given = settings or defaults
    downstream = given.downstream
    if len(head) > downstream.max_head_bytes:
        raise ValueError(f"the head is longer than {downstream.max_head_bytes} bytes")
    rules = FieldRules(
        UpstreamHosts(b"", b""),
        defaults.authentication.credential_rules,
        downstream.max_header_fields,
        downstream.max_target_bytes,
        believes_claims=True,
        believes_forwarding=True,
    )
    try:
        return judged(head, rules, given)
    except HeadError as error:
        raise ValueError(f"the proxy would answer {error.code}: {error}") from None
