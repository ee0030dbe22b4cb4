"""Settings that do not go together, or are probably meant otherwise; a line for each."""

from __future__ import annotations

import math
import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from msgspec import structs

from apfproxy.base.address import LOCALHOST, is_local
from apfproxy.base.errors import OperatorError
from apfproxy.flowcontrol.limits import MAX_SEATS_FRACTION
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.http.credential_fields import COOKIE, is_impersonation
from apfproxy.http.request_fields import RESERVED_NAMES
from apfproxy.objects.field_errors import closest, counted
from apfproxy.request.attributes import OWN_PATHS
from apfproxy.request.rules import APISERVER, SETTING
from apfproxy.settings import (
    ANONYMOUS,
    FRONT_PROXY,
    LLM_API,
    MAX_ENDPOINTS,
    OF_A_CLUSTER,
    PASS_THROUGH,
    REFUSE,
    UNSAID,
    ServiceSettings,
    Settings,
    wire_name,
    with_values,
)
from apfproxy.settings.file import SettingsLines, field_path
from apfproxy.settings.store_address import Kind, store_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from apfproxy.settings import (
        Address,
        AuthenticationSettings,
        AutoLimitSettings,
        ClusterSettings,
        EndpointSettings,
        FleetSettings,
        JwtSettings,
        UpstreamSettings,
    )


class Rule(NamedTuple):
    """A message, and what has to be so for it; see `rules`."""

    text: str
    kind: str
    one: attrgetter[Any]
    value: str | None
    other: attrgetter[Any]


RULE = re.compile(
    r"(?:give either )?(?:(?P<section>\S+): )?(?P<one>[\w.]+)(?: (?P<value>\w+))?(?: \(\S+\))?"
    r" (?P<kind>needs|and|or) (?P<other>[\w.]+)"
)


def rules(lines: str) -> tuple[Rule, ...]:
    """Read rules that stand in the words of their messages.

    `A needs B`: B is unset though A is set, or has the value that stands behind it.  `S: A and B`:
    only one of these in a section is set.  `either A or B`: both are.
    """
    found = []
    for text in re.sub(r"\n +", " ", lines.strip()).splitlines():
        parts = RULE.match(text)
        assert parts is not None, text
        section = f"{parts['section']}." if parts["section"] else ""
        one, other = (attrgetter(field_path(section + parts[each])) for each in ("one", "other"))
        found.append(Rule(text, parts["kind"], one, parts["value"], other))
    return tuple(found)


OWN_CERTIFICATE = rules("""
downstream.tls: certificateFile (--tls-cert-file) and keyFile (--tls-private-key-file) go together;
  give both
""")
OF_THE_WHOLE = OWN_CERTIFICATE + rules("""
adminTls: certificateFile and keyFile go together; give both
adminTls.clientCaFile needs adminTls.certificateFile and adminTls.keyFile
fleet: certificateFile and keyFile go together; give both
fleet.replicas (--fleet-replicas) needs fleet.store (--fleet)
fleet.context needs fleet.kubeconfig, which has the contexts
""")
OF_AN_API = rules("""
upstream.service needs upstream.service.name, which says whose servers to forward to
upstream.service.context needs upstream.service.kubeconfig, which has the contexts
give either flowControl.perEndpoint (--per-endpoint) or flowControl.serverConcurrencyLimit
  (--server-concurrency-limit): seats are of each server, or of the whole
give either flowControl.store (--store) or flowControl.objects (--objects): with both, what is in
  force would depend on which changed last; to move files into a store: kubectl --server
  http://ADMIN apply -f PATH
give either flowControl.kubernetes.enabled (--objects-from-kubernetes) or flowControl.store
  (--store): with both, what is in force would depend on which changed last
give either flowControl.kubernetes.enabled (--objects-from-kubernetes) or flowControl.objects
  (--objects): with both, what is in force would depend on which changed last
flowControl.kubernetes.kubeconfig (--kubeconfig) needs flowControl.kubernetes.enabled
  (--objects-from-kubernetes)
flowControl.kubernetes.context (--context) needs flowControl.kubernetes.enabled
  (--objects-from-kubernetes)
flowControl.kubernetes.writeStatus (--write-status) needs flowControl.kubernetes.enabled
  (--objects-from-kubernetes)
flowControl.kubernetes.context (--context) needs flowControl.kubernetes.kubeconfig (--kubeconfig),
  which has the contexts
flowControl.store (--store) needs admin (--admin), the listener by which objects are read and
  changed
upstream.tls: certificateFile and keyFile go together; give both
authentication.clientCaFile (--client-ca-file) needs downstream.tls.certificateFile
  (--tls-cert-file): clients show their certificates over TLS
authentication.frontProxy.caFile needs downstream.tls.certificateFile (--tls-cert-file): front
  proxies show their certificates over TLS
downstream.tls.requireClientCertificate needs downstream.tls.certificateFile (--tls-cert-file):
  clients show their certificates over TLS
upstream.identity impersonate needs upstream.tokenFile (--upstream-token-file), the proxy's own
authentication.apiKeys needs authentication.apiKeys.file, which has the keys
authentication.apiKeys.unknown anonymous needs authentication.anonymous
authentication.unverified.namesPerAddress needs authentication.unverified.address, by which
  clients of an address that shows more names count
""")
AUTHORIZATION = "authorization"
SECRETS_OF_PLAIN_APIS = ("Authorization", "X-API-Key", "Api-Key", "apikey", "X-Auth-Token")
NAMES_PER_ADDRESS = 16
"""As many clients share an address behind most routers."""

WITHOUT_UPSTREAM = (
    "upstream.url: say where to forward, here or by --upstream URL; or by upstream.endpoints,"
    " upstream.dns or upstream.service"
)
ONE_FLOW = (
    "authentication: all clients are one flow (system:anonymous), so a greedy one delays the rest;"
    " set how they are told apart, such as by tokenReview or unverified (docs/identity.md)"
)
OR_PLAIN = ", or preset http (--preset http) if the API behind is not Kubernetes"

LEGACY_ISSUER = "kubernetes/serviceaccount"
"""The issuer of tokens in secrets, which never expire and name no audience."""
REFRESHES_PER_LEASE = 3
FEWEST_MEMBERS = 2

DEFAULTS: Final = Settings()
LOOPBACK: Final = "127.0.0.1"
PREFIX_VARIABLE: Final = re.compile(r"{[^}]*}")
ORDINARY: Final = (
    *("get", "head", "post", "put", "patch", "delete", "options"),
    *("list", "create", "update", "deletecollection"),
)
LASTING: Final = ("watch", "proxy")

OWN_TLS = re.compile(r"downstream\.tls(?:\.certificateFile|\.keyFile)?(?:: |$)")
"""A cluster's own certificate is `tls` in the file."""
SECTIONS = frozenset(map(wire_name, OF_A_CLUSTER))


class ConflictError(OperatorError):
    """Settings do not go together; a line for each reason."""


def check(settings: Settings) -> None:
    if problems := contradictions(settings):
        raise ConflictError("\n".join(problems))


def contradictions(settings: Settings) -> list[str]:
    """Why the settings of a process do not go together.

    Clusters are checked by themselves: the top level may have a part of what they have in common.
    """
    problems = [*_broken(OF_THE_WHOLE, settings), *_of_fleet(settings.fleet)]
    downstream, limits = settings.downstream, settings.downstream.limits
    largest = downstream.max_head_bytes + limits.gathered_body_bytes
    if limits.max_held_bytes_per_connection < largest:
        problems.append(
            "downstream.limits.maxHeldBytesPerConnection is less than downstream.maxHeadBytes and"
            " downstream.limits.gatheredBodyBytes together: a request of that size could never wait"
        )
    if downstream.proxy_protocol and not (downstream.trusted_proxies or downstream.listen.path):
        problems.append(
            "downstream.proxyProtocol needs downstream.trustedProxies: no address may send a PROXY"
            " header, so every connection would be closed"
        )
    if settings.admin is not None and _overlap(downstream.listen, settings.admin):
        problems.append(
            f"downstream.listen (--listen) and admin (--admin): {downstream.listen} and"
            f" {settings.admin} are the same place; give each a port or a socket of its own"
        )
    all_settings = (settings, *(each.settings for each in settings.clusters))
    has_store = any(each and each.flow_control.store is not None for each in all_settings)
    if settings.admin_token_file is not None and not has_store:
        problems.append("adminTokenFile (--admin-token-file) needs flowControl.store (--store)")
    return problems if settings.clusters else [*problems, *_of_an_api(settings)]


def _overlap(one: Address, other: Address) -> bool:
    if one.path or other.path:
        return one.path == other.path
    a, b = (LOOPBACK if each.host == LOCALHOST else each.host for each in (one, other))
    ports = {one.port, other.port}
    return len(ports) == 1 and 0 not in ports and (a == b or _covers(a, b) or _covers(b, a))


def _covers(host: str, other: str) -> bool:
    return host in {"", "::" if ":" in other else "0.0.0.0"}  # noqa: S104 - a question


def _broken(rules: tuple[Rule, ...], settings: Settings) -> Iterator[str]:
    for rule in rules:
        one, other = rule.one(settings), rule.other(settings)
        has_one = one == rule.value if rule.value else one != rule.one(DEFAULTS)
        is_broken = {
            "needs": has_one and not other,
            "and": has_one != bool(other),
            "or": has_one and other != rule.other(DEFAULTS),
        }
        if is_broken[rule.kind]:
            yield rule.text


def _of_an_api(settings: Settings) -> list[str]:
    settings = as_preset(settings)
    return [
        *_broken(OF_AN_API, settings),
        *_of_upstream(settings.upstream),
        *_of_auto_limit(settings.flow_control.auto_limit),
        *_of_requests(settings),
        *_of_identities(settings),
    ]


def lacks_server(settings: Settings) -> bool:
    return not (settings.clusters or ways_to_servers(settings.upstream))


def ways_to_servers(upstream: UpstreamSettings) -> list[str]:
    given = {
        "upstream.url (--upstream)": upstream.url != UNSAID,
        "upstream.endpoints (--upstream, repeated)": upstream.endpoints != (),
        "upstream.dns (--upstream-dns)": upstream.dns != UNSAID,
        "upstream.service (--upstream-service)": upstream.service != ServiceSettings(),
    }
    return [way for way, is_given in given.items() if is_given]


def _of_upstream(upstream: UpstreamSettings) -> Iterator[str]:
    if len(ways := ways_to_servers(upstream)) > 1:
        yield f"give only one of {' and '.join(ways)}: each says where to forward"
    if upstream.ejection.max_pause_s < upstream.ejection.pause_s:
        yield "upstream.ejection: maxPause is shorter than pause"
    if len(upstream.endpoints) > MAX_ENDPOINTS:
        yield f"upstream.endpoints (--upstream): more than {MAX_ENDPOINTS}"
    else:
        yield from _of_endpoints(upstream.endpoints)
    for path in dict.fromkeys(upstream.upgrades.allow):
        if path in upstream.upgrades.deny:
            yield f"upstream.upgrades: {path} is in allow and in deny; keep one"


def _of_endpoints(endpoints: tuple[EndpointSettings, ...]) -> Iterator[str]:
    seen: dict[Address, str] = {}
    for index, each in enumerate(endpoints):
        where, first = f"upstream.endpoints[{index}]", next(iter(seen), each.url)
        if each.url == UNSAID:
            yield f"{where}: needs url"
            continue
        if each.url in seen:
            yield (
                f"{where}: {each.url.url} is {seen[each.url]} already; give a server that takes"
                " more of the work a larger weight"
            )
        elif each.url.is_tls != first.is_tls:
            yield (
                f"{where}: {each.url.url} is not of the scheme of {first.url}; servers of one API"
                " have TLS, or none of them has"
            )
        seen.setdefault(each.url, where)


def _of_auto_limit(auto: AutoLimitSettings) -> Iterator[str]:
    section = "flowControl.autoLimit"
    if auto.min > auto.max:
        yield f"{section}: min is more than max"
    elif auto.initial not in {auto.first, DEFAULTS.flow_control.auto_limit.initial}:
        yield (
            f"{section}: initial is not within min and max; leave it out, or have it from"
            f" {auto.min} to {auto.max}"
        )


def _of_requests(settings: Settings) -> Iterator[str]:
    named, is_plain = settings.request.long_running, PRESETS[settings.preset].is_plain
    alike: dict[str, str] = {}
    for pattern in settings.request.path_prefixes:
        if not is_plain and f"{pattern}/".startswith(OWN_PATHS):
            yield (
                f"request.pathPrefixes: {pattern} is never found, since what is below /api and"
                " /apis is an API by itself"
            )
        other = alike.setdefault(PREFIX_VARIABLE.sub("{}", pattern), pattern)
        if other is not pattern:
            yield (f"request.pathPrefixes: {other} and {pattern} are the same; remove one of them")
    if is_plain and named.subresources:
        yield (
            f"{SETTING}.subresources: with the preset http no path has a subresource; name"
            " paths in pathPrefixes"
        )
    elif not is_plain and named.verbs is not None and "watch" not in named.verbs:
        yield f"{SETTING}.verbs: needs watch, which lasts whatever is said here"


def _doubtful_requests(settings: Settings) -> Iterator[str]:
    is_plain, named = PRESETS[settings.preset].is_plain, settings.request.long_running
    if is_plain and settings.upstream.upgrades.allow:
        yield (
            "upstream.upgrades.allow: with the preset http WebSockets are served on any path; name"
            " exceptions in deny"
        )
    if not is_plain:
        yield from _left_out("verbs", named.verbs, APISERVER.verbs)
        yield from _left_out("subresources", named.subresources, APISERVER.subresources)
        yield from _left_out("pathPrefixes", named.path_prefixes, APISERVER.path_prefixes)
    for verb in named.verbs or ():
        if verb in ORDINARY:
            yield (
                f"{SETTING}.verbs has {verb}: all such requests take no seats, so that nothing"
                " limits them; name subresources or paths instead"
            )
        elif not is_plain and (meant := closest(verb, LASTING)) not in ("", verb):
            yield f"{SETTING}.verbs has {verb}: did you mean {meant}?"


def _left_out(key: str, given: tuple[str, ...] | None, own: Iterable[str]) -> Iterator[str]:
    missing = [] if given is None else [each for each in own if each not in given]
    if missing:
        yield (
            f"{SETTING}.{key} leaves out {', '.join(missing)}, which kube-apiserver takes for"
            " long-running: here it takes seats, and its time is limited"
        )


def _of_identities(settings: Settings) -> Iterator[str]:
    downstream, upstream = settings.downstream, settings.upstream
    authentication = settings.authentication
    tls = downstream.tls
    client_cas = (authentication.client_ca_file, authentication.front_proxy.ca_file)
    if tls.certificate_file and tls.require_client_certificate and not any(client_cas):
        yield (
            "downstream.tls.requireClientCertificate: needs authentication.clientCaFile or"
            " authentication.frontProxy.caFile, which say whose certificates count"
        )
    is_unknown = upstream.address.is_tls and upstream.tls.certificate_file is None
    if (
        upstream.identity == FRONT_PROXY
        and is_unknown
        and not upstream.identity_without_certificate
    ):
        yield (
            "upstream.identity: frontProxy over https needs upstream.tls.certificateFile, by which"
            " the server knows the proxy; or, where only the proxy reaches the server,"
            " upstream.identityWithoutCertificate"
        )
    is_plain = upstream.address != UNSAID and not upstream.address.is_tls
    own = upstream.tls
    if is_plain and (own.ca_file or own.server_name or own.certificate_file):
        yield (
            f"upstream.tls: {upstream.address.url} is without TLS; write https, or leave"
            " upstream.tls out"
        )
    yield from _of_front_proxy(authentication)
    yield from _of_api_keys(authentication)
    yield from _of_unverified(authentication)
    for index, jwt in enumerate(authentication.jwt):
        for name, problem in jwt_problems(jwt):
            yield f"authentication.jwt[{index}].{name}: {problem}"
        if jwt.unnamed == ANONYMOUS and not authentication.anonymous:
            yield f"authentication.jwt[{index}].unnamed: anonymous needs authentication.anonymous"


def _of_front_proxy(authentication: AuthenticationSettings) -> Iterator[str]:
    """Names of fields that mean something else, such as Content-Length, which would be lost."""
    front_proxy, section = authentication.front_proxy, "authentication.frontProxy"
    for kind, names in (
        ("usernameHeaders", front_proxy.username_headers),
        ("uidHeaders", front_proxy.uid_headers),
        ("groupHeaders", front_proxy.group_headers),
    ):
        yield from _taken(f"{section}.{kind}", names)
    for name in front_proxy.extra_header_prefixes:
        prefix = name.lower().encode()
        taken = min((each for each in RESERVED_NAMES if each.startswith(prefix)), default=b"")
        if not taken and (is_impersonation(prefix) or b"impersonate-".startswith(prefix)):
            taken = b"impersonate-user"
        if taken:
            yield (
                f"{section}.extraHeaderPrefixes: {name} is the start of"
                f" {taken.decode()} too, which means something else; choose another prefix"
            )


def _taken(
    where: str, names: Iterable[str], authentication: AuthenticationSettings | None = None
) -> Iterator[str]:
    """Names of fields that mean something else already, such as the user of a front proxy."""
    rules = None if authentication is None else authentication.credential_rules
    for name in names:
        lower = name.lower().encode()
        is_claim = rules is not None and rules.is_claim(lower)
        if lower in RESERVED_NAMES or is_impersonation(lower) or is_claim:
            instead = "unverified.cookies is for it" if lower == COOKIE else "choose another name"
            yield f"{where}: {name} means something else; {instead}"


def _of_api_keys(authentication: AuthenticationSettings) -> Iterator[str]:
    keys, section = authentication.api_keys, "authentication.apiKeys"
    if keys.file is None:
        return
    if keys.header is None and not keys.is_bearer and not keys.is_basic:
        yield f"{section}: no request can have a key; give header, bearer or basic"
    if keys.header is not None and keys.header.lower() == AUTHORIZATION:
        yield f"{section}.header: bearer and basic are for keys in Authorization"
    elif keys.header is not None:
        yield from _taken(f"{section}.header", (keys.header,), authentication)
    others = authentication.token_file, authentication.jwt, authentication.token_review.is_enabled
    if keys.unknown != REFUSE and keys.is_bearer and any(others):
        yield (
            f"{section}.unknown: anonymous does not go with bearer and another method for tokens:"
            " a token that none of them knows is refused"
        )


def _of_unverified(authentication: AuthenticationSettings) -> Iterator[str]:
    unverified, section = authentication.unverified, "authentication.unverified"
    if unverified.is_any and not authentication.anonymous:
        yield (
            f"{section}: needs authentication.anonymous; a client that names itself is anonymous"
        )
    keys, secret_headers = authentication.api_keys, unverified.secret_headers or ()
    secret = {AUTHORIZATION, "x-api-key", *(name.lower() for name in secret_headers)}
    if keys.file is not None and keys.header is not None:
        secret.add(keys.header.lower())
    for name in unverified.headers:
        if name.lower() in secret:
            yield (
                f"{section}.headers: {name} has a secret, and names are in logs; secretHeaders is"
                " for it"
            )
    plain = (name for name in unverified.headers if name.lower() not in secret)
    secrets = (name for name in secret_headers if name.lower() != AUTHORIZATION)
    yield from _taken(f"{section}.headers", plain, authentication)
    yield from _taken(f"{section}.secretHeaders", secrets, authentication)


def jwt_problems(jwt: JwtSettings) -> Iterator[tuple[str, str]]:
    files = {"keysFile": jwt.keys_file, "jwksUrl": jwt.jwks_url, "secretFile": jwt.secret_file}
    given = [name for name, value in files.items() if value is not None]
    has_secret = jwt.secret_file is not None
    if not jwt.issuer and not has_secret:
        yield "issuer", "missing: what the tokens have as iss; or give secretFile"
    elif not given:
        if problem := url_problem(jwt.issuer):
            yield "issuer", f"{problem}; without keysFile or jwksUrl its discovery is asked"
        elif "?" in jwt.issuer:
            yield "issuer", "has a query, so that discovery has no URL"
    if len(given) > 1:
        yield given[0], f"and {' and '.join(given[1:])}: give one of them"
    if jwt.jwks_url is not None and (problem := url_problem(jwt.jwks_url)):
        yield "jwksUrl", problem
    if jwt.ca_file is not None and (jwt.keys_file is not None or has_secret):
        yield "caFile", f"of no use with {given[0]}"
    if jwt.secret_is_base64 and not has_secret:
        yield "secretIsBase64", "needs secretFile"
    if has_secret and jwt.is_service_account_issuer:
        yield "serviceAccounts", "their tokens are signed with a private key; give keysFile"
    prefixes = (("usernamePrefix", jwt.username_prefix), ("groupsPrefix", jwt.groups_prefix))
    for name, prefix in prefixes:
        if has_secret and prefix is not None and prefix.startswith("system:"):
            yield name, "no token of a secret may name what begins with system:"
    if not (jwt.audiences or has_secret or jwt.is_service_account_issuer):
        yield "audiences", "missing: any token of the issuer would do, for whomever"
    if jwt.issuer == LEGACY_ISSUER and not jwt.is_service_account_issuer:
        yield "serviceAccounts", "must be true for this issuer"


def url_problem(url: str) -> str:
    """Why keys of tokens cannot be fetched from a URL safely; "" if they can."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        return "no URL"
    if parts.scheme not in {"http", "https"} or not host:
        return "no https URL"
    if parts.username is not None or parts.password is not None:
        return "has a user or password, which would be shown in logs"
    if parts.fragment:
        return "has a fragment"
    if parts.scheme == "http" and not is_local(host):
        return "not https: others on the way could sign tokens"
    return ""


def as_preset(settings: Settings) -> Settings:
    """The settings with what they leave to the preset.

    Where users are not authenticated, clients of plain APIs are told apart by their secrets, within
    the bounds of their addresses.  A setting that says who clients are leaves only addresses.
    """
    unverified = settings.authentication.unverified
    if not PRESETS[settings.preset].is_plain or not settings.authentication.anonymous:
        return settings
    is_said = verifies_users(settings) or unverified.is_by_basic or unverified.headers
    values: dict[str, object] = {}
    if unverified.is_by_address is None:
        values["is_by_address"] = True
    if unverified.secret_headers is None and unverified.is_by_address is not False and not is_said:
        values["secret_headers"] = SECRETS_OF_PLAIN_APIS
        values["names_per_address"] = unverified.names_per_address or NAMES_PER_ADDRESS
    return with_values(settings, {"authentication": {"unverified": values}})


def verifies_users(settings: Settings) -> bool:
    authentication = settings.authentication
    return bool(
        settings.downstream.identity_headers_from
        or authentication.client_ca_file
        or authentication.front_proxy.ca_file
        or authentication.token_file
        or authentication.jwt
        or authentication.token_review.is_enabled
        or authentication.api_keys.file
    )


def one_flow(settings: Settings) -> str:
    """The warning that all clients share one flow; "" if something tells them apart."""
    if not settings.authentication.anonymous or _knows_users(settings):
        return ""
    return ONE_FLOW if PRESETS[settings.preset].is_plain else ONE_FLOW + OR_PLAIN


def _knows_users(settings: Settings) -> bool:
    return verifies_users(settings) or settings.authentication.unverified.is_any


def warnings(settings: Settings) -> list[str]:
    found = list(_doubtful_requests(settings))
    authentication, upstream = settings.authentication, settings.upstream
    if not authentication.anonymous and not _knows_users(settings):
        found.append(
            "authentication.anonymous is false, and no other way to authenticate is on: every"
            " request gets 401"
        )
    for name, review in (
        ("tokenReview", authentication.token_review),
        ("impersonation.accessReview", authentication.impersonation.access_review),
    ):
        if review.is_enabled and not upstream.token_file and not upstream.tls.certificate_file:
            found.append(
                f"authentication.{name} without upstream.tokenFile and"
                " upstream.tls.certificateFile: the proxy asks the server without a user, and most"
                " servers refuse that; give the proxy a token that may create such reviews"
            )
    found += [
        f"downstream.trustedProxies has {network}: every client can claim any address"
        for network in settings.downstream.trusted_proxies
        if network.prefixlen == 0
    ]
    flow_control = settings.flow_control
    if flow_control.auto_limit != DEFAULTS.flow_control.auto_limit and not flow_control.is_auto:
        found.append(
            "flowControl.autoLimit is of no use, since the limit is fixed; set"
            " flowControl.serverConcurrencyLimit (--server-concurrency-limit) to auto"
        )
    found += _doubtful_lists(settings)
    limit = flow_control.server_concurrency_limit
    is_default = flow_control.per_endpoint is None and (
        limit == DEFAULTS.flow_control.server_concurrency_limit
    )
    if settings.preset == LLM_API and is_default:
        found.append(
            f"flowControl.serverConcurrencyLimit (--server-concurrency-limit) is {limit}, the"
            " default: a model server has fewer slots, so requests wait in it, where they have no"
            " turns; set it to the number of slots"
        )
    own = settings.downstream.listen.from_here
    found += [
        f"the server behind, {each.url}, is the proxy itself (downstream.listen, --listen):"
        " requests go round until they are given up"
        for each in (upstream.url, *(endpoint.url for endpoint in upstream.endpoints))
        if each.port and (each.host, each.port, each.path) == (own.host, own.port, own.path)
    ]
    front_proxy, client_ca = authentication.front_proxy, authentication.client_ca_file
    if client_ca is not None and client_ca == front_proxy.ca_file and not front_proxy.allowed_names:
        found.append(
            "authentication.frontProxy.caFile is authentication.clientCaFile, and allowedNames is"
            " empty: every user with a certificate can claim to be anybody; name the front proxies"
        )
    if upstream.identity_without_certificate and upstream.identity != FRONT_PROXY:
        found.append(
            "upstream.identityWithoutCertificate is for upstream.identity frontProxy alone"
        )
    if upstream.identity != PASS_THROUGH:
        return found
    if upstream.tls.certificate_file is not None:
        found.append(
            "upstream.tls.certificateFile with upstream.identity passThrough: a server that takes"
            " the certificate for a user's lets every request run as that user; frontProxy is"
            " probably meant"
        )
    if client_ca is not None:
        found.append(
            "authentication.clientCaFile with upstream.identity passThrough: users with"
            " certificates are classified, but the server does not know them, since a"
            " certificate ends at the proxy; use frontProxy or impersonate"
        )
    return found


def _doubtful_lists(settings: Settings) -> Iterator[str]:
    flow_control, setting = settings.flow_control, "flowControl.maxListSeats"
    seats = flow_control.max_list_seats
    if seats == DEFAULTS.flow_control.max_list_seats:
        return
    if PRESETS[settings.preset].is_plain:
        yield f"{setting} is of no use: with the preset {settings.preset} no request is a LIST"
    limit = flow_control.auto_limit.max if flow_control.is_auto else flow_control.seats(1)
    most = math.ceil(limit * MAX_SEATS_FRACTION)
    if flow_control.per_endpoint is None and seats > most:
        yield (
            f"{setting} is {seats}: a request may take 15 % of the seats of a level with queues,"
            f" which are {most} even if it has all {limit}; set a number below, or a larger limit"
        )


def access_warning(settings: Settings, *, is_here: bool | None = None) -> str:
    """The warning that others can read what they should not; "" if they cannot.

    `is_here`: whether only this machine reaches the listener, if known better than by the setting.
    """
    admin, tls = settings.admin, settings.admin_tls
    if admin is None or (bool(admin.path) or is_local(admin.host) if is_here is None else is_here):
        return ""
    if settings.admin_read_token_file is None and tls.client_ca_file is None:
        return (
            f"admin: others than this machine reach it ({admin}), and can then read the"
            " names of users: set adminReadTokenFile or adminTls.clientCaFile, or see that a"
            " firewall or a NetworkPolicy keeps others away"
        )
    if tls.certificate_file is None:
        return (
            f"adminReadTokenFile: others than this machine reach the admin listener ({admin})"
            " without TLS, so the token can be read on its way: set adminTls.certificateFile and"
            " adminTls.keyFile"
        )
    return ""


def _of_fleet(fleet: FleetSettings) -> Iterator[str]:
    if fleet.lease_s < REFRESHES_PER_LEASE * fleet.refresh_interval_s:
        yield (
            f"fleet.lease: must be at least {REFRESHES_PER_LEASE} times fleet.refreshInterval, as a"
            " member that misses one look at the record has not gone"
        )
    if fleet.store is None:
        return
    address = store_address(fleet.store)
    if address.password and fleet.password_file is not None:
        yield "fleet.passwordFile: fleet.store has a password, too; leave that out"
    for key, value, kind, is_so in (
        ("passwordFile", fleet.password_file, "redis", address.kind.is_redis),
        ("sentinelPasswordFile", fleet.sentinel_password_file, "redis+sentinel",
         address.kind is Kind.SENTINEL),
        ("caFile", fleet.ca_file, "rediss", address.is_tls),
        ("certificateFile", fleet.certificate_file, "rediss", address.is_tls),
        ("kubeconfig", fleet.kubeconfig, "kubernetes", address.kind is Kind.KUBERNETES),
        ("context", fleet.context, "kubernetes", address.kind is Kind.KUBERNETES),
    ):  # fmt: skip
        if value is not None and not is_so:
            yield f"fleet.{key}: is for a store whose URL begins with {kind}, not for {address}"


def fleet_warnings(settings: Settings, workers: int) -> Iterator[str]:
    fleet = settings.fleet
    members = (fleet.replicas or 1) * workers
    if fleet.replicas is not None and members < FEWEST_MEMBERS:
        yield (
            f"fleet.replicas: {members} counts as {FEWEST_MEMBERS}, since no member knows that it"
            " is alone: while the store is away it uses half of the seats; a proxy by itself needs"
            " no fleet.store"
        )
    if not settings.clusters:
        yield from _too_few_seats(settings, members)
    for cluster in settings.clusters:
        if cluster.settings is not None:
            for text in _too_few_seats(cluster.settings, members):
                yield f"clusters[{cluster.name}].{text}"


def _too_few_seats(settings: Settings, members: int) -> Iterator[str]:
    flow_control, servers = settings.flow_control, len(settings.upstream.addresses)
    is_each = flow_control.per_endpoint is not None
    seats = flow_control.seats(servers)
    if seats >= members or (is_each and not servers):
        return
    name = "perEndpoint" if is_each else "serverConcurrencyLimit"
    noun, of, away = "worker", "", ""
    if settings.fleet.store is not None:
        noun, of = "member", " of the fleet"
        away = ", and while the store is away each uses one"
    yield (
        f"flowControl.{name}: {counted(seats, 'seat')} for {members} {noun}s{of}: a {noun}"
        f" without one rejects requests that wait for it{away}; have at least {members} seats, or"
        f" at most {counted(seats, noun)}"
    )


def checked_clusters(settings: Settings, path: Path) -> Settings:
    """The settings, in which clusters whose own do not go together are refused."""
    wrong = {each.name: _of_cluster(each, settings) for each in settings.clusters}
    if not any(wrong.values()):
        return settings
    lines = SettingsLines(path)

    def checked(cluster: ClusterSettings) -> ClusterSettings:
        if not wrong[cluster.name]:
            return cluster
        problems = (lines.located(path_in(cluster.name, each)) for each in wrong[cluster.name])
        return structs.replace(cluster, settings=None, problems=tuple(problems))

    return structs.replace(settings, clusters=tuple(map(checked, settings.clusters)))


def path_in(name: str, problem: str) -> str:
    """A problem with settings, said of those of a cluster."""
    if OWN_TLS.match(problem) is not None:
        return f"clusters[{name}].{problem.removeprefix('downstream.')}"
    return f"clusters[{name}]{'.' if begins_with_setting(problem) else ': '}{problem}"


def begins_with_setting(problem: str) -> bool:
    if OWN_TLS.match(problem) is not None:
        return True
    first = re.match(r"[A-Za-z]+", problem)
    return first is not None and first[0] in SECTIONS


def _of_cluster(cluster: ClusterSettings, whole: Settings) -> list[str]:
    settings = cluster.settings
    if settings is None:
        return []
    tls = settings.downstream.tls
    problems = [WITHOUT_UPSTREAM] if lacks_server(settings) else []
    problems += _of_an_api(settings)
    problems += _broken(OWN_CERTIFICATE, settings)
    if whole.downstream.tls.certificate_file is None and tls.certificate_file is not None:
        problems.append(
            "downstream.tls: needs downstream.tls of the whole proxy, the certificate for clients"
            " that name no host"
        )
    if settings.flow_control.store is not None:
        # No one could edit it: the admin listener has the API of one store.
        problems.append(
            "flowControl.store: is for one cluster alone; name flowControl.objects or"
            " flowControl.kubernetes"
        )
    return problems
