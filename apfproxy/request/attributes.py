"""A request's user, and its attributes: what it does to which resource, by its method and target.

Of the target, which is read as Go's net/http server reads it, only escapes are decoded.  Dot
segments, repeated slashes, `;` and case stay as they are: an upstream that serves `/a/../b` as `/b`
may exist, one that must does not, and a proxy that normalises decides on another request than the
one that is forwarded.

Paths of resources (`api` has no groups, `apis` has):

    /api/{version}/{resource}[/{name}[/{subresource}]]
    /api/{version}/namespaces/{namespace}/{resource}[/{name}[/{subresource}]]
    /api/{version}/watch/...     deprecated: a WATCH of what follows
    /api/{version}/proxy/...     deprecated: a proxied request, without subresources
    /apis/{group}/{version}/...  the same

Everything else is a request for a non-resource URL, whose verb is its method in small letters.  So
is every request to an API that is not Kubernetes': its parameters are the server's own business.

Below one of `PathPrefixes` what follows the prefix counts, as if the path began there.  But a path
that is no resource's is matched as a whole by rules: `/clusters/a/healthz` is another one than
`/healthz`, which anybody may ask for without a limit.

Sources: Go 1.26, net/url `ParseRequestURI` and `ParseQuery`, net/http `readRequest`;
kubernetes/apiserver pkg/endpoints/request/requestinfo.go, pkg/storage/cacher/delegator;
of list options kubernetes/apimachinery pkg/apis/meta/v1 and internalversion (conversion of
url.Values).
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from apfproxy.base.records import Record
from apfproxy.objects.additions import MOST_VALUES
from apfproxy.objects.go_text import parse_int64
from apfproxy.objects.selectors import NAME, is_field_selector, is_label_selector, required_value
from apfproxy.request.rules import KUBERNETES, NONE, RequestRules, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Query = Mapping[str, tuple[str, ...]]

ANONYMOUS_NAME: Final = "system:anonymous"
AUTHENTICATED_GROUP: Final = "system:authenticated"
UNAUTHENTICATED_GROUP: Final = "system:unauthenticated"


class User(Record, frozen=True):
    """A user by name, with all the groups that count, virtual ones included.

    Attributes:
        groups: In the order in which the authenticator named them.
        uid: Tells users of one name apart over time; "" if it is not known.
    """

    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_anonymous(self) -> bool:
        return self.name == ANONYMOUS_NAME


ANONYMOUS: Final = User(ANONYMOUS_NAME, (UNAUTHENTICATED_GROUP,))

UNVERIFIED_PREFIXES = ("basic:", "key:", "cookie:", "header:", "address:")
"""Prefixes of unverified names, in the order of precedence."""
BY_BASIC, BY_KEY, BY_COOKIE, BY_HEADER, BY_ADDRESS = UNVERIFIED_PREFIXES


def unverified(prefix: str, name: str) -> User:
    """The user that an anonymous client counts as."""
    return User(prefix + name, (UNAUTHENTICATED_GROUP,))


def supposed_groups(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups of a user whose name is given, and perhaps groups."""
    if not groups and name.startswith(UNVERIFIED_PREFIXES):
        return (UNAUTHENTICATED_GROUP,)
    return groups


def authenticated(user: User) -> User:
    """The user as a member of `system:authenticated`, unless anonymous or in a like group.

    Source: kubernetes/apiserver, authentication/group/authenticated_group_adder.go.
    """
    groups = user.groups
    if AUTHENTICATED_GROUP in groups or UNAUTHENTICATED_GROUP in groups or user.is_anonymous:
        return user
    return User(user.name, (*groups, AUTHENTICATED_GROUP), user.uid, user.extra)


# The target.

MAX_QUERY_PARAMETERS: Final = 10_000
"""With more than these Go sees none at all; its bound against queries made to exhaust memory."""
MOST_SURE_PARAMETERS: Final = 1000
"""More than these PHP, Node's `querystring` and Express do not read."""
KNOWN_PARAMETERS = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeout",
    "timeoutSeconds",
    "watch",
)
"""All of a query that decides anything."""
MAX_KNOWN_QUERIES: Final = 512
MAX_KNOWN_QUERY_BYTES: Final = 64
known_queries: Final[dict[bytes, Query]] = {}
PLAIN_KEYS: Final = {name.encode(): name for name in KNOWN_PARAMETERS}


def _any_of(names: Iterable[str]) -> str:
    """A pattern of names in which any letter may be escaped; what begins alike is tried once."""
    rests: dict[str, list[str]] = {}
    for name in names:
        rests.setdefault(name[:1], []).append(name[1:])
    is_end = rests.pop("", None) is not None
    branches = [f"{spelled(letter)}{_any_of(rest)}" for letter, rest in rests.items()]
    return f"(?:{'|'.join(branches)}){'?' if is_end else ''}" if branches else ""


KNOWN_PAIR: Final = re.compile(
    # The first look costs least, as it is taken at each of thousands of parameters.
    rf"&(?=[^&]{{{min(map(len, KNOWN_PARAMETERS))}}})({_any_of(KNOWN_PARAMETERS)})"
    r"(?:=((?:[^&;%]++|%[0-9A-Fa-f]{2})*+))?+(?![^&])".encode()
)
"""A known parameter that Go does not drop, behind its `&`: name and value, not decoded."""

NO_PARAMETERS: Final[Query] = MappingProxyType({})
CONTROLS: Final = bytes((*range(0x20), 0x7F))
INVALID_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
DOUBTFUL: Final = re.compile(rb"[;#]|%(?![0-9A-Fa-f]{2})")
SCHEME = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):")
PORT = re.compile(rb"(?::[0-9]*)?")
USER_INFO = re.compile(rb"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
HOST = re.compile(rb"(?:[A-Za-z0-9_.~!$&'()*+,;=:\[\]<>\"\x80-\xff-]|%25|%[89A-Fa-f][0-9A-Fa-f])*")
ZONE = re.compile(rb"(?:[A-Za-z0-9_.~!$&'()*+,;=:\[\]<>\"\x80-\xff-]|%[0-9A-Fa-f]{2})*")
ZONE_TEXT = re.compile(rb"[A-Za-z0-9_.~!$&'()*+,;=:\[\]<>\" %\x80-\xff-]*")
LONE_BYTES = dict.fromkeys(range(0xDC80, 0xDD00), "\N{REPLACEMENT CHARACTER}")
TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")
"""A method, or the name of a field."""


class AttributesError(ValueError):
    """The target of a request makes no sense; the client is at fault."""


def split_target(method: str, target: bytes) -> tuple[bytes, bytes]:
    """Split a request target, as received, into its path and its query, of which none is decoded.

    The path is b"" if there is none; the query is without its `?`.  CONNECT has a target of its own
    kind.  An `AttributesError` says that no server of Go's would take it.
    """
    # A regular expression takes twice as long.
    if len(target.translate(None, CONTROLS)) != len(target):
        raise AttributesError("control character in request target")
    if target[:1] == b"/":
        path, _, query = target.partition(b"?")
        return path, query
    if target == b"*":
        return target, b""
    if method == "CONNECT":
        target = b"http://" + target
    scheme = SCHEME.match(target)
    if scheme is None:
        raise AttributesError("request target is neither a path nor an absolute URI")
    rest, _, query = target[scheme.end() :].partition(b"?")
    if not rest.startswith(b"/"):
        return b"", query  # opaque, such as `mailto:x`: a URI without a path
    if rest.startswith(b"//"):
        authority, slash, path = rest[2:].partition(b"/")
        user, _, host = authority.rpartition(b"@")
        if (
            USER_INFO.fullmatch(user) is None
            or INVALID_ESCAPE.search(user) is not None
            or not _is_host(scheme[1].lower(), host)
        ):
            raise AttributesError("invalid authority in request target")
        rest = slash + path
    return rest, query


def _is_host(scheme: bytes, host: bytes) -> bool:
    bracket = host.rfind(b"[")
    if bracket > 0:
        return False
    if bracket == 0:
        literal, closing, port = host[1:].rpartition(b"]")
        return bool(closing and PORT.fullmatch(port)) and _is_ipv6_literal(literal)
    # A second colon is an error where the scheme is known to have ports.
    strict = scheme in {b"http", b"https"}
    colon = host.find(b":") if strict else host.rfind(b":")
    if colon >= 0 and not PORT.fullmatch(host[colon:]):
        return False
    return HOST.fullmatch(host) is not None


def _is_ipv6_literal(literal: bytes) -> bool:
    """Whether this is an IPv6 address, maybe with a `%25zone`."""
    address, percent, zone = literal.partition(b"%25")
    if not HOST.fullmatch(address) or not ZONE.fullmatch(zone) or (percent and not zone):
        return False
    if not ZONE_TEXT.fullmatch(unquote_to_bytes(zone)):
        return False
    try:
        ipaddress.IPv6Address(unquote_to_bytes(address).decode("ascii"))
    except ValueError:
        return False
    return True


def decode_path(path: bytes) -> str:
    """Decode the escapes of a path, or raise `AttributesError`; `+` is a plus."""
    if b"%" in path:
        if INVALID_ESCAPE.search(path):
            raise AttributesError("invalid percent escape in request target")
        path = unescaped(path)
    return decode_text(path)


def unescaped(data: bytes) -> bytes:
    """Decode escapes, all of which are right, at a fifth of the time of `unquote_to_bytes`."""
    as_literal = data.replace(b"\\", b"\\\\").replace(b"%", b"\\x")
    return as_literal.decode("unicode_escape").encode("latin-1")


def decode_text(data: bytes) -> str:
    """Decode UTF-8, with one U+FFFD for every byte that is not part of it, as Go does."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="surrogateescape").translate(LONE_BYTES)


def parse_query(query: bytes) -> Query:
    """Decode a query; parameters that Go drops (with a `;` or an invalid escape) are dropped."""
    if not query or query.count(b"&") >= MAX_QUERY_PARAMETERS:
        return NO_PARAMETERS
    parameters: dict[str, list[str]] = {}
    for pair in query.split(b"&"):
        if not pair or b";" in pair or INVALID_ESCAPE.search(pair):
            continue
        raw_key, _, raw_value = pair.partition(b"=")
        parameters.setdefault(_decode(raw_key), []).append(_decode(raw_value))
    return {key: tuple(values) for key, values in parameters.items()}


def parameter_pattern(name: str) -> re.Pattern[bytes]:
    """A pattern of the values of a parameter with an ASCII name, by which any server divides."""
    return re.compile(rf"[&;]{spelled(name)}(?:=([^&;#]*))?(?![^&;#])".encode())


def parameter_values(pattern: re.Pattern[bytes], query: bytes) -> tuple[list[str], bool]:
    """The values that any server might read of a parameter, and whether one might read none.

    Go drops parameters with a `;` or an invalid escape; others divide at it, or have it in a value.
    No more than `MOST_VALUES` and one are returned.
    """
    most, query = MOST_VALUES + 1, b"&" + query
    found = [*islice(pattern.finditer(query), most)]
    is_doubtful = DOUBTFUL.search(query) is not None
    if is_doubtful:
        whole = query.replace(b";", b"%3B").replace(b"#", b"%23")
        found += islice(pattern.finditer(whole), most)
    values = [_decode(INVALID_ESCAPE.sub(b"%25", each[1] or b"")) for each in found[:most]]
    may_be_dropped = is_doubtful or query.count(b"&") > MOST_SURE_PARAMETERS
    return values, may_be_dropped or not values


def known_parameters(query: bytes) -> Query:
    """Decode the parameters of a query that are known, and of each the first value only.

    Of others nothing is made: a query is anybody's, and may have thousands of them.  What it
    returns is shared.
    """
    known = known_queries.get(query)
    if known is not None:
        return known
    if not query or query.count(b"&") >= MAX_QUERY_PARAMETERS:
        return NO_PARAMETERS
    parameters: dict[str, tuple[str, ...]] = {}
    escaped: dict[bytes, str] = {}
    found: list[tuple[bytes, bytes]] = KNOWN_PAIR.findall(b"&" + query)
    for key, value in found:
        name = PLAIN_KEYS.get(key) or escaped.get(key)
        if name is None:
            name = escaped[key] = PLAIN_KEYS[unescaped(key)]
        if name not in parameters:
            parameters[name] = (_decode(value),)
    if len(query) <= MAX_KNOWN_QUERY_BYTES:
        if len(known_queries) >= MAX_KNOWN_QUERIES:
            known_queries.clear()
        known_queries[query] = parameters
    return parameters


def _decode(part: bytes) -> str:
    if b"+" in part:
        part = part.replace(b"+", b" ")
    if b"%" in part:
        part = unescaped(part)
    return part.decode() if part.isascii() else decode_text(part)


# The attributes.

VERB_OF_METHOD: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
METHOD_OF_VERB: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
LISTING_VERBS: Final = frozenset({"list", "watch"})
READ_ONLY_VERBS: Final = LISTING_VERBS | {"get"}
NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
PATH_VERBS: Final = frozenset({"watch", "proxy"})
"""The beginnings of the deprecated paths."""
OWN_PATHS: Final = ("/api/", "/apis/")
"""Paths below these are below no other prefix."""
PLAIN_READ_ONLY: Final = frozenset({"GET", "HEAD", "OPTIONS"})

MAX_COLLECTIONS: Final = 1024
MAX_COLLECTION_CHARACTERS: Final = 128


class ListOptions(Record, frozen=True):
    """Holds what the cost of a LIST or of a WATCH's initial events depends on.

    Attributes:
        is_decodable: Whether the numbers can be decoded; all else means nothing if not.
        limit: Objects asked for at most; 0 or less for no limit.
        is_from_cache: kube-apiserver serves it from its watch cache.
        sends_initial_events: As a WATCH it begins with all objects that there are.
    """

    is_decodable: bool = True
    limit: int = 0
    is_continuation: bool = False
    is_from_cache: bool = False
    has_selector: bool = False
    sends_initial_events: bool = True


class RequestAttributes:
    """Holds what a request does; immutable once it is made.

    Text is decoded: bytes of the target that are not UTF-8 are U+FFFD each.  A field that does not
    apply is "".

    Attributes:
        path: The whole path, decoded but not normalised.
        path_prefix: What of it stands before the API; "" for nothing.
        prefix_value: The variable part of that; "" if it has none, or the path may lead elsewhere.
        verb: Kubernetes' verb of a resource request; "" for a method that has none.
        name: From the path, or the only name that the field selector of a LIST or WATCH lets
            through.
        long_running_by: Why it may last as long as its client likes, in words; "" if it may not.
        query: Of the decoded query the parameters that are known, each with its first value.
        list_options: Of a LIST or WATCH only.
        is_plain: Whether the API is not Kubernetes'.
    """

    def __init__(  # noqa: PLR0913  one for each that it has
        self,
        *,
        is_resource_request: bool,
        path: str,
        verb: str,
        api_prefix: str = "",
        api_group: str = "",
        api_version: str = "",
        namespace: str = "",
        resource: str = "",
        subresource: str = "",
        name: str = "",
        long_running_by: str = "",
        is_mutating: bool = True,
        query: Query = NO_PARAMETERS,
        list_options: ListOptions | None = None,
        is_plain: bool = False,
    ) -> None:
        self.is_resource_request = is_resource_request
        self.path = path
        self.verb = verb
        self.api_prefix = api_prefix
        self.api_group = api_group
        self.api_version = api_version
        self.namespace = namespace
        self.resource = resource
        self.subresource = subresource
        self.name = name
        self.long_running_by = long_running_by
        self.is_mutating = is_mutating
        self.query = query
        self.list_options = list_options
        self.is_plain = is_plain
        self.path_prefix = ""
        self.prefix_value = ""

    def put_below(self, path: str, prefix: str, value: str) -> None:
        self.path = path
        self.path_prefix = prefix
        self.prefix_value = value

    @property
    def long_running(self) -> bool:
        return self.long_running_by != ""

    @property
    def group_resource(self) -> str:
        """The resource with its group, such as `pods` or `deployments.apps`."""
        return f"{self.resource}.{self.api_group}" if self.api_group else self.resource

    @property
    def stored_as(self) -> str:
        resource = self.group_resource
        return f"{self.path_prefix} {resource}" if self.path_prefix else resource

    def __repr__(self) -> str:
        return f"<RequestAttributes {self.verb} {self.path}>"


_Collection = tuple[str, str, str, str, str]
"""Common to all requests below it: prefix, group, version, namespace and resource."""

_collections: Final[dict[str, _Collection]] = {}
"""Recent collections by their paths, so that most paths are not divided."""


def parse_attributes(
    method: str, target: bytes, rules: RequestRules = KUBERNETES
) -> RequestAttributes:
    """The attributes of a request, from the method and target that are forwarded."""
    raw_path, path, raw_query = _decoded(method, target)
    query = known_parameters(raw_query) if raw_query else NO_PARAMETERS
    if rules.api_prefixes is not None and not path.startswith(OWN_PATHS):
        prefix, value = rules.api_prefixes.find(raw_path, path)
        if prefix:
            found = _attributes(method, path[len(prefix) :] or "/", query, rules)
            found.put_below(path, prefix, value)
            return found
    return _attributes(method, path, query, rules)


def plain_attributes(method: str, target: bytes, rules: RequestRules = NONE) -> RequestAttributes:
    """The attributes of a request to an API that is not Kubernetes'."""
    raw_path, path, _ = _decoded(method, target)
    verb = method.lower()
    found = RequestAttributes(
        is_resource_request=False,
        path=path,
        verb=verb,
        long_running_by=rules.verbs.get(verb, "") or rules.by_path(path),
        is_mutating=method not in PLAIN_READ_ONLY,
        is_plain=True,
    )
    if rules.api_prefixes is not None:
        found.put_below(path, *rules.api_prefixes.find(raw_path, path))
    return found


def _decoded(method: str, target: bytes) -> tuple[bytes, str, bytes]:
    raw_path, raw_query = split_target(method, target)
    return raw_path, decode_path(raw_path), raw_query


def _attributes(method: str, path: str, query: Query, rules: RequestRules) -> RequestAttributes:
    # Of a known collection: an object of it, the collection itself, or a subresource.
    end = path.rfind("/")
    last = path[end + 1 :]
    if last:
        verb = VERB_OF_METHOD.get(method, "")
        if (known := _collections.get(path[:end])) is not None:
            return _of_resource(path, verb, known, last, "", query, rules)
        if (known := _collections.get(path)) is not None:
            return _of_resource(path, verb, known, "", "", query, rules)
        start = path.rfind("/", 0, max(end, 0))
        known = _collections.get(path[: max(start, 0)])
        if known is not None and start + 1 < end:
            return _of_resource(path, verb, known, path[start + 1 : end], last, query, rules)
    parts = path.strip("/").split("/")
    prefix, count = parts[0], len(parts)
    if (prefix == "api" and count > 2) or (prefix == "apis" and count > 3):
        return _of_parts(method, path, parts, query, rules)
    verb = method.lower()
    return RequestAttributes(
        is_resource_request=False,
        path=path,
        verb=verb,
        api_prefix="apis" if prefix == "apis" and count == 3 else "",
        long_running_by=rules.verbs.get(verb, "") or rules.by_path(path),
        is_mutating=verb not in READ_ONLY_VERBS,
        query=query,
        list_options=list_options(query) if verb in LISTING_VERBS else None,
    )


def _of_parts(
    method: str,
    path: str,
    all_parts: list[str],
    query: Query,
    rules: RequestRules,
) -> RequestAttributes:
    prefix = all_parts[0]
    start, group = (3, all_parts[1]) if prefix == "apis" else (2, "")
    version, parts = all_parts[start - 1], all_parts[start:]
    verb = VERB_OF_METHOD.get(method, "")
    has_path_verb = parts[0] in PATH_VERBS  # a deprecated path
    if has_path_verb:
        verb = parts.pop(0)
        if not parts:
            raise AttributesError(f"request target ends after the verb {verb}")
    namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 1 else ""
    own = parts
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in NAMESPACE_SUBRESOURCES:
        own = parts[2:]
    resource, count = own[0], len(own)
    collection = (prefix, group, version, namespace, resource)
    # Of namespaces themselves each has its own name for a namespace.
    if not has_path_verb and resource and (own is not parts or resource != "namespaces"):
        known_by = "/" + "/".join(all_parts[: len(all_parts) - count + 1])
        if len(known_by) <= MAX_COLLECTION_CHARACTERS and path.startswith(known_by):
            if len(_collections) >= MAX_COLLECTIONS:
                _collections.clear()
            _collections[known_by] = collection
    name = own[1] if count > 1 else ""
    subresource = own[2] if count > 2 and verb != "proxy" else ""
    return _of_resource(path, verb, collection, name, subresource, query, rules)


def _of_resource(
    path: str,
    verb: str,
    collection: _Collection,
    name: str,
    subresource: str,
    query: Query,
    rules: RequestRules,
) -> RequestAttributes:
    if not name:
        if verb == "get":
            is_watch, name = watch_and_name(query) if query else (False, "")
            verb = "watch" if is_watch else "list"
        elif verb == "delete":
            verb = "deletecollection"
    prefix, group, version, namespace, resource = collection
    long_running_by = rules.verbs.get(verb, "")
    if subresource and not long_running_by:
        long_running_by = rules.subresources.get(subresource, "")
    if rules.has_resource_paths and not long_running_by:
        long_running_by = rules.by_path(path)
    return RequestAttributes(
        is_resource_request=True,
        path=path,
        verb=verb,
        api_prefix=prefix,
        api_group=group,
        api_version=version,
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
        long_running_by=long_running_by,
        is_mutating=verb not in READ_ONLY_VERBS,
        query=query,
        list_options=list_options(query) if verb in LISTING_VERBS else None,
    )


# The query of a LIST or WATCH, decoded as Kubernetes decodes `ListOptions`.

NO_OPTIONS: Final = ListOptions()
NOT_DECODABLE: Final = ListOptions(is_decodable=False)


def list_options(query: Query) -> ListOptions:
    if not query:
        return NO_OPTIONS
    try:
        limit, _ = _int64(query, "limit"), _int64(query, "timeoutSeconds")
    except ValueError:
        return NOT_DECODABLE
    version = first(query, "resourceVersion")
    sends_initial_events = query.get("sendInitialEvents")
    return ListOptions(
        limit=limit,
        is_continuation=bool(first(query, "continue")),
        is_from_cache=_is_from_cache(query, version, limit),
        has_selector=bool(first(query, "fieldSelector") or first(query, "labelSelector")),
        sends_initial_events=version in {"", "0"}
        or (sends_initial_events is not None and parse_bool(sends_initial_events[0])),
    )


def _is_from_cache(query: Query, version: str, limit: int) -> bool:
    """Whether a LIST is served by the watch cache.

    The most recent state (no version) counts as read from storage: the estimator supposes an etcd
    that cannot say how far its watches are.
    """
    match = first(query, "resourceVersionMatch")
    if match == "":
        is_exact = bool(first(query, "continue")) or (limit > 0 and version != "0")
        return not is_exact and version != ""
    return match == "NotOlderThan"


def watch_and_name(query: Query) -> tuple[bool, str]:
    """Whether a GET of a collection is a WATCH, and the one name it asks for, or ""."""
    watch, selector = query.get("watch"), first(query, "fieldSelector")
    is_watch = is_alone = False
    if watch is not None:
        is_watch = parse_bool(watch[0])
        is_alone = watch[0].lower() not in {"false", "0"}
    has_name = NAME in selector
    if is_watch == is_alone and not has_name:
        return is_watch, ""
    if not _is_decodable(query):
        return is_alone, ""  # `watch` is read by itself then, a little differently
    name = (required_value(selector, NAME) or "") if has_name else ""
    if name in {".", ".."} or "/" in name or "%" in name:
        name = ""  # not a path segment
    return is_watch, name


def required_field(query: Query, field: str) -> str:
    """A field selector's value of a field; "" if none, or if no option can be decoded."""
    selector = first(query, "fieldSelector")
    if field not in selector or not _is_decodable(query):
        return ""
    return required_value(selector, field) or ""


def _is_decodable(query: Query) -> bool:
    try:
        _int64(query, "limit")
        _int64(query, "timeoutSeconds")
    except ValueError:
        return False
    field_selector, label_selector = first(query, "fieldSelector"), first(query, "labelSelector")
    return is_field_selector(field_selector) and is_label_selector(label_selector)


def parse_bool(text: str) -> bool:
    """Decode a boolean: all but `0` and `false` are true, "" too; Unicode has a second small s."""
    return text != "0" and text.replace("\N{LATIN SMALL LETTER LONG S}", "s").lower() != "false"


def first(query: Query, key: str) -> str:
    values = query.get(key)
    return values[0] if values else ""


def _int64(query: Query, key: str) -> int:
    values = query.get(key)
    return parse_int64(values[0]) if values else 0


# How long a request may take.

_UNIT_NS: Final = {
    "ns": 1,
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs"), 1_000),
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_MAX_DURATION_TEXT: Final = 64
_MAX_NS: Final = (1 << 63) - 1


class DeadlineError(ValueError):
    """The `timeout` parameter is not a duration."""


@lru_cache(maxsize=256)  # clients have a few; long ones raise
def parse_duration_ns(text: str) -> int:
    """Nanoseconds of a duration in the notation of Go's `time.ParseDuration`, such as `1m30s`."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total = position = 0
    while position < len(rest) and len(rest) <= _MAX_DURATION_TEXT:
        term = _TERM.match(rest, position)
        if term is None or not (term[1] or term[2]):
            break
        unit, fraction = _UNIT_NS[term[3]], term[2] or ""
        total += int(term[1] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        position = term.end()
    if not rest or position < len(rest) or total > _MAX_NS:
        shown = text[:_MAX_DURATION_TEXT]
        raise DeadlineError(f"{shown!r} is not a duration such as 30s or 1m30s")
    return sign * total


def request_timeout_ns(attributes: RequestAttributes, default_ns: int) -> int:
    """How long a request may take, or wait if long-running, where `timeout` may mean anything.

    It can shorten `default_ns` only; 0 and negative ones are ignored.

    Source: kubernetes/apiserver pkg/endpoints/filters/request_deadline.go.
    """
    values = attributes.query.get("timeout")
    if not values or not values[0] or attributes.long_running:
        return default_ns
    asked = parse_duration_ns(values[0])
    return min(asked, default_ns) if asked > 0 else default_ns
