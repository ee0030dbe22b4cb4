"""`/debug/explain`: how flow control would treat a request, by current configuration and queues.

    /debug/explain?method=GET&target=/api/v1/pods&user=alice&group=dev&group=ops

The request need not exist: a reader of the page may ask about any user.  The proxy's own parser
judges what is asked, as `apfproxy explain` has it judge a request that stands on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import msgspec

from apfproxy.authn.impersonation import effective
from apfproxy.flowcontrol.classifier import MODEL, QUERY, raw_query
from apfproxy.flowcontrol.explanation import explain
from apfproxy.http.grammar import HeadError
from apfproxy.http.request_fields import FieldRules
from apfproxy.objects.additions import SECRET_HEADERS
from apfproxy.proxy.request import judged, preset_of
from apfproxy.request.attributes import ANONYMOUS, TOKEN, RequestAttributes, User, supposed_groups
from apfproxy.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.explanation import Explanation
    from apfproxy.flowcontrol.learned_costs import LearnedCosts
    from apfproxy.http.request_head import RequestHead

Headers = tuple[tuple[str, str], ...]

PATH = "/debug/explain"
NOT_ENFORCED = (
    "this proxy only observes: whatever is said here to wait or to be rejected executes at once"
)
TOLD_APART = (
    "unverified clients are told apart: --as key:HASH or --as address:192.0.2.7 explains"
    " the flow of one, by its name in apfproxy top"
)
NAMELESS = (
    "the request has credentials that only a proxy can look into: it is explained as"
    " an anonymous one; name the user with --as"
)
IMPERSONATES = "it is supposed that the client may impersonate {name!r}"
CLAIMS = "it is supposed that the identity fields come from a front proxy that is trusted"
PARAMETERS = ("method", "target", "user", "group", "header", "model")
OF_ALL_PAGES = frozenset({"cluster", "worker"})
MAX_PARAMETERS = 200
USAGE = f"""\
Ask what would happen to a request:

  {PATH}?method=GET&target=/api/v1/namespaces/x/pods&user=alice&group=dev

  method  of the request; GET if left out
  target  path and query, escaped
  user    who asks; anonymous if left out
  group   of the user; may be repeated
  header  of the request, as name:value, where a FlowSchema tells its flows apart by one
  model   that the body of a completion names

The answer is JSON; apfproxy explain shows it as text.
"""


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
    """Read a request's head as it stands on the wire; ValueError if the proxy would refuse it.

    Line ends may be bare LF, as editors and terminals write them, and the empty line at the end may
    be missing; nothing else is forgiven that the proxy would not forgive.
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
    """An anonymous request without fields; ValueError if the proxy would refuse it."""
    _judged(b"%b %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (method.encode(), target), settings)
    return RawRequest(method, target, ANONYMOUS)


def _judged(head: bytes, settings: Settings | None = None) -> RequestHead:
    """Have the proxy's own code read a head; ValueError with the status if it would refuse it."""
    defaults = Settings()
    given = settings or defaults
    downstream = given.downstream
    if len(head) > downstream.max_head_bytes:
        raise ValueError(f"the head is longer than {downstream.max_head_bytes} bytes")
    rules = FieldRules(
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


def explained(
    query: str,
    controller: Controller,
    costs: LearnedCosts,
    settings: Settings,
    notes: Callable[[User], Iterable[str]] = lambda _: (),
) -> Explanation:
    """Explain a request by the page's query, with notes about this proxy; ValueError."""
    user, attributes, headers = question(query, settings)
    most, header_of = settings.flow_control.max_list_seats, partial(header_in, headers)
    found = explain(controller, costs, user, attributes, header_of, most)
    return msgspec.structs.replace(found, notes=(*found.notes, *notes(user)))


def question(query: str, settings: Settings) -> tuple[User, RequestAttributes, Headers]:
    """Read who asks for what, with which headers, by the page's query as it stands in the URL.

    ValueError, which says what would make sense, if the proxy would refuse it.
    """
    try:
        # Names and targets are bytes to others, so none may be lost.
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="surrogateescape", max_num_fields=MAX_PARAMETERS
        )
    except ValueError:
        raise ValueError(f"there are more than {MAX_PARAMETERS} parameters") from None
    given: dict[str, list[str]] = {name: [] for name in PARAMETERS}
    for name, value in pairs:
        if name in OF_ALL_PAGES:
            continue  # has been looked at already
        if name not in given:
            raise ValueError(f"expected the parameters {', '.join(given)}, not {name!r}")
        given[name].append(value)
    for name in ("method", "target", "user", "model"):
        if len(given[name]) > 1:
            raise ValueError(f"{name} is given twice; keep one")
    target = "".join(given["target"])
    if not target:
        raise ValueError("say what is asked for: target=/path")
    method = "".join(given["method"]) or "GET"
    if TOKEN.fullmatch(method) is None:
        raise ValueError(f"expected a method such as GET, not {method!r}")
    asked = target.encode(errors="surrogateescape")
    request_of_line(method, asked, settings)
    attributes = preset_of(settings).attributes_of(method, asked)
    name, groups = "".join(given["user"]), tuple(given["group"])
    if not name and groups:
        raise ValueError("group needs user")
    user = effective(User(name, supposed_groups(name, groups))) if name else ANONYMOUS
    headers = [*map(parse_header, given["header"]), *((MODEL, each) for each in given["model"])]
    return user, attributes, ((QUERY, raw_query(asked)), *headers)


def parse_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or TOKEN.fullmatch(name.strip()) is None:
        raise ValueError(f"expected a header such as X-Team:red, not {text!r}")
    return name.strip().lower(), value.strip(" \t")


def header_in(headers: Headers, name: str) -> str:
    """The first value of a header, by its name in lower case; "" if there is none."""
    return next((value for each, value in headers if each == name), "")
