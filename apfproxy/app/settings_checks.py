"""Which settings do not go together, and which are probably meant otherwise."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from apfproxy.app.admin_checks import access_problems
from apfproxy.app.fleet_checks import fleet_problems
from apfproxy.app.request_checks import request_problems, request_warnings
from apfproxy.app.server_checks import WITHOUT_UPSTREAM, server_problems, ways_to_servers
from apfproxy.base.errors import OperatorError
from apfproxy.http.credential_fields import CredentialRules, is_impersonation
from apfproxy.http.request_fields import RESERVED_NAMES
from apfproxy.settings import (
    FRONT_PROXY,
    HTTP_API,
    IMPERSONATE,
    PASS_THROUGH,
    REFUSE,
    UNSAID,
    ApiKeySettings,
    FlowControlSettings,
    UnverifiedSettings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.settings import (
        AuthenticationSettings,
        DownstreamSettings,
        FrontProxySettings,
        Settings,
    )

AUTHORIZATION = "authorization"

SECRETS_OF_PLAIN_APIS = ("Authorization", "X-API-Key", "Api-Key", "apikey", "X-Auth-Token")
"""Fields by which clients of HTTP APIs say who they are, by the words of most such APIs."""
NAMES_PER_ADDRESS = 16
"""As many clients as share an address behind most routers; who makes names up has the part of all
of them."""

ONE_FLOW = (
    "authentication: all clients are one flow (system:anonymous), so a greedy one delays the rest;"
    " set how they are told apart, such as by tokenReview or unverified (docs/identity.md)"
)
OR_PLAIN = ", or preset http (--preset http) if the API behind is not Kubernetes"


class ConflictError(OperatorError):
    """Two settings that flags can set do not go together."""


def contradictions(settings: Settings, *, is_cluster: bool = False) -> list[str]:
    """Why settings do not go together, a line for each reason.

    Args:
        settings: Of the whole proxy, or of a cluster.
        is_cluster: Whether of a cluster, whose neighbours may have what it lacks.
    """
    problems = [WITHOUT_UPSTREAM] if lacks_server(settings) else []
    for check in (check_api if is_cluster else check_combination, check_identities):
        try:
            check(settings)
        except OperatorError as error:
            problems += str(error).splitlines()
    return problems


def as_preset(settings: Settings) -> Settings:
    """The settings with what they leave to the preset.

    Where users are not authenticated, clients of plain APIs are told apart by their secrets, within
    the bounds of their addresses, and by these.  A setting that says who clients are leaves
    addresses.
    """
    authentication = settings.authentication
    unverified = authentication.unverified
    if settings.preset != HTTP_API or not authentication.anonymous:
        return settings
    is_said = verifies_users(settings) or unverified.is_by_basic or unverified.headers
    if unverified.is_by_address is None:
        unverified = dataclasses.replace(unverified, is_by_address=True)
    if unverified.secret_headers is None and unverified.is_by_address and not is_said:
        unverified = dataclasses.replace(
            unverified,
            secret_headers=SECRETS_OF_PLAIN_APIS,
            names_per_address=unverified.names_per_address or NAMES_PER_ADDRESS,
        )
    authentication = dataclasses.replace(authentication, unverified=unverified)
    return dataclasses.replace(settings, authentication=authentication)


def lacks_server(settings: Settings) -> bool:
    """Whether nothing says where to forward."""
    return not (settings.clusters or ways_to_servers(settings.upstream))


def check_combination(settings: Settings) -> None:
    """See that settings that flags can set go together; ConflictError if they do not.

    Clusters are checked by themselves (`cluster_checks`): the top level may have a part of what
    they have in common.
    """
    if not settings.clusters:
        check_api(settings)
    problems = [
        *access_problems(settings),
        *fleet_problems(settings.fleet),
        *_held_problems(settings.downstream),
        *_proxy_problems(settings.downstream),
    ]
    if problems:
        raise ConflictError("\n".join(problems))
    of_clusters = (each.settings for each in settings.clusters)
    has_store = any(
        each is not None and each.flow_control.store is not None
        for each in (settings, *of_clusters)
    )
    if settings.admin_token_file is not None and not has_store:
        raise ConflictError("adminTokenFile (--admin-token-file) needs flowControl.store (--store)")


def _held_problems(downstream: DownstreamSettings) -> Iterator[str]:
    limits = downstream.limits
    largest = downstream.max_head_bytes + limits.gathered_body_bytes
    if limits.max_held_bytes_per_connection < largest:
        yield (
            "downstream.limits.maxHeldBytesPerConnection is less than downstream.maxHeadBytes and"
            " downstream.limits.gatheredBodyBytes together: a request of that size could never wait"
        )


def _proxy_problems(downstream: DownstreamSettings) -> Iterator[str]:
    if downstream.proxy_protocol and not (downstream.trusted_proxies or downstream.listen.path):
        yield (
            "downstream.proxyProtocol needs downstream.trustedProxies: no address may send a PROXY"
            " header, so every connection would be closed"
        )


def check_api(settings: Settings) -> None:
    """As `check_combination`, of what each API behind has of its own."""
    problems = [*server_problems(settings.upstream), *request_problems(settings)]
    if problems:
        raise ConflictError("\n".join(problems))
    flow_control, whole = settings.flow_control, FlowControlSettings().server_concurrency_limit
    if flow_control.per_endpoint is not None and flow_control.server_concurrency_limit != whole:
        raise ConflictError(
            "give either flowControl.perEndpoint (--per-endpoint) or"
            " flowControl.serverConcurrencyLimit (--server-concurrency-limit): seats are of each"
            " server, or of the whole"
        )
    store, objects = settings.flow_control.store, settings.flow_control.objects
    kubernetes = settings.flow_control.kubernetes
    if store is not None and objects:
        raise ConflictError(
            "give either flowControl.store (--store) or flowControl.objects (--objects): with both,"
            " what is in force would depend on which changed last; to move files into"
            " a store: kubectl --server http://ADMIN apply -f PATH"
        )
    if kubernetes.is_enabled and (store is not None or objects):
        other = "store" if store is not None else "objects"
        raise ConflictError(
            "give either flowControl.kubernetes.enabled (--objects-from-kubernetes) or"
            f" flowControl.{other} (--{other}): with both, what is in force would depend on which"
            " changed last"
        )
    if not kubernetes.is_enabled:
        given = {
            "kubeconfig (--kubeconfig)": kubernetes.kubeconfig,
            "context (--context)": kubernetes.context,
            "writeStatus (--write-status)": kubernetes.write_status or None,
        }
        for name in (name for name, value in given.items() if value is not None):
            raise ConflictError(
                f"flowControl.kubernetes.{name} needs flowControl.kubernetes.enabled"
                " (--objects-from-kubernetes)"
            )
    elif kubernetes.context is not None and kubernetes.kubeconfig is None:
        raise ConflictError(
            "flowControl.kubernetes.context (--context) needs flowControl.kubernetes.kubeconfig"
            " (--kubeconfig), which has the contexts"
        )
    if store is not None and settings.admin is None:
        raise ConflictError(
            "flowControl.store (--store) needs an admin listener (--admin): without it nobody could"
            " read or change the objects"
        )


def check_identities(settings: Settings) -> None:
    """See that the settings of TLS and authentication go together; OperatorError if they do not.

    Clusters are checked by themselves, as above.
    """
    tls = settings.downstream.tls
    problems = []
    if (tls.certificate_file is None) != (tls.key_file is None):
        problems.append(
            "downstream.tls: certificateFile (--tls-cert-file) and keyFile"
            " (--tls-private-key-file) go together; give both"
        )
    if not settings.clusters:
        problems += _identity_problems(settings)
    if problems:
        raise OperatorError("\n".join(problems))


def _identity_problems(settings: Settings) -> list[str]:
    """What does not go together of what each API behind has of its own."""
    downstream, upstream = settings.downstream, settings.upstream
    authentication = settings.authentication
    problems = []
    if (upstream.tls.certificate_file is None) != (upstream.tls.key_file is None):
        problems.append("upstream.tls: certificateFile and keyFile go together; give both")
    if downstream.tls.certificate_file is None:
        problems += [
            f"{name}: needs downstream.tls (--tls-cert-file), over which clients show their"
            " certificates"
            for name, value in (
                ("authentication.clientCaFile (--client-ca-file)", authentication.client_ca_file),
                ("authentication.frontProxy.caFile", authentication.front_proxy.ca_file),
                (
                    "downstream.tls.requireClientCertificate",
                    downstream.tls.require_client_certificate or None,
                ),
            )
            if value is not None
        ]
    elif downstream.tls.require_client_certificate and not (
        authentication.client_ca_file or authentication.front_proxy.ca_file
    ):
        problems.append(
            "downstream.tls.requireClientCertificate: needs authentication.clientCaFile or"
            " authentication.frontProxy.caFile, which say whose certificates count"
        )
    if upstream.identity == IMPERSONATE and upstream.token_file is None:
        problems.append(
            "upstream.identity: impersonate needs upstream.tokenFile (--upstream-token-file), the"
            " proxy's own"
        )
    is_unknown = upstream.address.is_tls and upstream.tls.certificate_file is None
    if upstream.identity == FRONT_PROXY and is_unknown:
        problems.append(
            "upstream.identity: frontProxy over https needs upstream.tls.certificateFile, by which"
            " the server knows the proxy"
        )
    is_plain = upstream.address != UNSAID and not upstream.address.is_tls
    if is_plain and any(
        (upstream.tls.ca_file, upstream.tls.server_name, upstream.tls.certificate_file)
    ):
        problems.append(
            f"upstream.tls: {upstream.address.url} is without TLS; write https, or leave"
            " upstream.tls out"
        )
    problems += _name_problems(authentication.front_proxy)
    problems += _key_problems(authentication)
    problems += _unverified_problems(as_preset(settings).authentication)
    for index, jwt in enumerate(authentication.jwt):
        from apfproxy.authn import json_web_tokens  # noqa: PLC0415 - imports cryptography

        try:
            json_web_tokens.check_settings(jwt)
        except json_web_tokens.JwtSettingsError as error:
            section = f"authentication.jwt[{index}]"
            problems += [f"{section}.{name}: {problem}" for name, problem in error.problems]
    return problems


def _name_problems(front_proxy: FrontProxySettings) -> list[str]:
    """What is wrong with the names of front proxies' fields.

    A field whose name means something else already would lose that meaning: without Content-Length,
    for one, a body would be taken for requests.
    """
    kinds = (
        ("usernameHeaders", front_proxy.username_headers),
        ("uidHeaders", front_proxy.uid_headers),
        ("groupHeaders", front_proxy.group_headers),
    )
    problems = [
        f"authentication.frontProxy.{kind}: {name} means something else; choose another name"
        for kind, names in kinds
        for name in names
        if name.lower().encode() in RESERVED_NAMES or is_impersonation(name.lower().encode())
    ]
    for name in front_proxy.extra_header_prefixes:
        prefix = name.lower().encode()
        taken = min((each for each in RESERVED_NAMES if each.startswith(prefix)), default=b"")
        if not taken and (is_impersonation(prefix) or b"impersonate-".startswith(prefix)):
            taken = b"impersonate-user"
        if taken:
            problems.append(
                f"authentication.frontProxy.extraHeaderPrefixes: {name} is the start of"
                f" {taken.decode()} too, which means something else; choose another prefix"
            )
    return problems


def _key_problems(authentication: AuthenticationSettings) -> list[str]:
    """What is wrong with the settings of API keys."""
    keys, section = authentication.api_keys, "authentication.apiKeys"
    if keys.file is None:
        return [f"{section}: needs file, which has the keys"] if keys != ApiKeySettings() else []
    problems = []
    if keys.header is None and not keys.is_bearer and not keys.is_basic:
        problems.append(f"{section}: no request can have a key; give header, bearer or basic")
    if keys.header is not None and keys.header.lower() == AUTHORIZATION:
        problems.append(f"{section}.header: bearer and basic are for keys in Authorization")
    elif keys.header is not None:
        problems += _naming_problems(f"{section}.header", (keys.header,), authentication)
    if keys.unknown == REFUSE:
        return problems
    if not authentication.anonymous:
        problems.append(f"{section}.unknown: anonymous needs authentication.anonymous")
    others = (authentication.token_file, *authentication.jwt)
    if keys.is_bearer and (any(others) or authentication.token_review.is_enabled):
        problems.append(
            f"{section}.unknown: anonymous does not go with bearer and another method for tokens:"
            " a token that none of them knows is refused"
        )
    return problems


def _unverified_problems(authentication: AuthenticationSettings) -> list[str]:
    """What is wrong with what tells anonymous clients apart."""
    unverified, section = authentication.unverified, "authentication.unverified"
    problems = []
    if tells_apart(unverified) and not authentication.anonymous:
        problems.append(
            f"{section}: needs authentication.anonymous; whoever names only themselves is anonymous"
        )
    if unverified.names_per_address is not None and not unverified.is_by_address:
        problems.append(
            f"{section}.namesPerAddress: needs address, by which clients of an address that shows"
            " more names count"
        )
    keys, secret_headers = authentication.api_keys, unverified.secret_headers or ()
    secret = {AUTHORIZATION, "x-api-key", *(name.lower() for name in secret_headers)}
    if keys.file is not None and keys.header is not None:
        secret.add(keys.header.lower())
    problems += [
        f"{section}.headers: {name} has a secret, and names are in logs; secretHeaders is for it"
        for name in unverified.headers
        if name.lower() in secret
    ]
    plain = tuple(name for name in unverified.headers if name.lower() not in secret)
    secrets = tuple(name for name in secret_headers if name.lower() != AUTHORIZATION)
    problems += _naming_problems(f"{section}.headers", plain, authentication)
    problems += _naming_problems(f"{section}.secretHeaders", secrets, authentication)
    return problems


def _naming_problems(
    where: str, names: tuple[str, ...], authentication: AuthenticationSettings
) -> list[str]:
    """Names of fields that mean something else already."""
    rules = CredentialRules.of(authentication)
    return [
        f"{where}: {name} means something else; choose another name"
        for name in names
        if (lower := name.lower().encode()) in RESERVED_NAMES
        or is_impersonation(lower)
        or rules.is_claim(lower)
    ]


def tells_apart(unverified: UnverifiedSettings) -> bool:
    """Whether anything is on that tells anonymous clients apart."""
    return bool(
        unverified.is_by_basic
        or unverified.secret_headers
        or unverified.headers
        or unverified.is_by_address
    )


def verifies_users(settings: Settings) -> bool:
    """Whether anything verifies who a client is."""
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


def knows_nobody(settings: Settings) -> bool:
    """Whether nothing tells clients apart, so that all share one flow of each FlowSchema."""
    return not (verifies_users(settings) or tells_apart(settings.authentication.unverified))


def one_flow(settings: Settings) -> str:
    """What it means that all clients are one flow; "" if they are not."""
    if not settings.authentication.anonymous or not knows_nobody(settings):
        return ""
    return ONE_FLOW if settings.preset == HTTP_API else ONE_FLOW + OR_PLAIN


def warnings(settings: Settings) -> list[str]:
    """What may be meant otherwise than it will work."""
    found = list(request_warnings(settings))
    authentication = settings.authentication
    upstream = settings.upstream
    if not authentication.anonymous and knows_nobody(settings):
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
                " upstream.tls.certificateFile: the proxy asks the server as nobody, and most"
                " servers refuse that; give the proxy a token that may create such reviews"
            )
    found += [
        f"downstream.trustedProxies has {network}: every client can claim any address"
        for network in settings.downstream.trusted_proxies
        if network.prefixlen == 0
    ]
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
    if settings.upstream.identity != PASS_THROUGH:
        return found
    if settings.upstream.tls.certificate_file is not None:
        found.append(
            "upstream.tls.certificateFile with upstream.identity passThrough: a server that takes"
            " the certificate for a user's lets every request run as that user; frontProxy is"
            " probably meant"
        )
    if settings.authentication.client_ca_file is not None:
        found.append(
            "authentication.clientCaFile with upstream.identity passThrough: users with"
            " certificates are classified, but the server does not know them, since a"
            " certificate ends at the proxy; use frontProxy or impersonate"
        )
    return found
