"""Settings of TLS and authentication: what of them goes together."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
from typing import Any

import pytest

from apfproxy.app.settings_checks import (
    NAMES_PER_ADDRESS,
    SECRETS_OF_PLAIN_APIS,
    ConflictError,
    as_preset,
    check_combination,
    check_identities,
    contradictions,
    knows_nobody,
    one_flow,
    warnings,
)
from apfproxy.base.errors import OperatorError
from apfproxy.settings import (
    ANONYMOUS,
    FRONT_PROXY,
    HTTP_API,
    Address,
    ApiKeySettings,
    AuthenticationSettings,
    DownstreamSettings,
    DownstreamTlsSettings,
    EndpointSettings,
    FlowControlSettings,
    FrontProxySettings,
    ImpersonationSettings,
    JwtSettings,
    LimitSettings,
    ReviewSettings,
    Settings,
    UnverifiedSettings,
    UpstreamSettings,
    UpstreamTlsSettings,
)
from tests.app.test_identities import HTTP, HTTPS, made

CERTIFICATE: dict[str, Any] = {"certificate_file": "a.crt", "key_file": "a.key"}
TLS = DownstreamSettings(tls=DownstreamTlsSettings(**CERTIFICATE))


def front(**names: Any) -> Settings:  # noqa: ANN401 - as the settings are
    """Settings with some of a front proxy."""
    return Settings(authentication=AuthenticationSettings(front_proxy=FrontProxySettings(**names)))


def test_limits_that_do_not_go_together() -> None:
    """Seats are of the whole or of each server."""
    flow_control = FlowControlSettings(server_concurrency_limit=3, per_endpoint=4)
    with pytest.raises(ConflictError, match=r"give either flowControl.perEndpoint"):
        check_combination(Settings(flow_control=flow_control))


def test_head_for_which_there_is_never_room() -> None:
    """What a connection may hold is at least one request of the largest size."""
    limits = LimitSettings(max_held_bytes_per_connection=1 << 20)
    for head_bytes, is_wrong in (((1 << 20) - 32768, False), (1 << 20, True)):
        downstream = DownstreamSettings(max_head_bytes=head_bytes, limits=limits)
        settings = Settings(upstream=UpstreamSettings(url=HTTP), downstream=downstream)
        expectation = (
            pytest.raises(ConflictError, match="maxHeldBytesPerConnection is less than")
            if is_wrong
            else contextlib.nullcontext()
        )
        with expectation:
            check_combination(settings)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param(
            Settings(
                downstream=DownstreamSettings(tls=DownstreamTlsSettings(certificate_file="a.crt"))
            ),
            "downstream.tls: certificateFile (--tls-cert-file) and keyFile"
            " (--tls-private-key-file) go together; give both",
            id="certificate-alone",
        ),
        pytest.param(
            Settings(downstream=DownstreamSettings(tls=DownstreamTlsSettings(key_file="a.key"))),
            "downstream.tls: certificateFile (--tls-cert-file) and keyFile"
            " (--tls-private-key-file) go together; give both",
            id="key-alone",
        ),
        pytest.param(
            Settings(
                upstream=UpstreamSettings(url=HTTPS, tls=UpstreamTlsSettings(key_file="a.key"))
            ),
            "upstream.tls: certificateFile and keyFile go together; give both",
            id="own-key-alone",
        ),
        pytest.param(
            Settings(authentication=AuthenticationSettings(client_ca_file="ca.crt")),
            "authentication.clientCaFile (--client-ca-file): needs downstream.tls"
            " (--tls-cert-file), over which clients show their certificates",
            id="client-ca-without-tls",
        ),
        pytest.param(
            front(ca_file="ca.crt"),
            "authentication.frontProxy.caFile: needs downstream.tls (--tls-cert-file), over which"
            " clients show their certificates",
            id="front-ca-without-tls",
        ),
        pytest.param(
            Settings(
                downstream=DownstreamSettings(
                    tls=DownstreamTlsSettings(require_client_certificate=True)
                )
            ),
            "downstream.tls.requireClientCertificate: needs downstream.tls (--tls-cert-file), over"
            " which clients show their certificates",
            id="required-without-tls",
        ),
        pytest.param(
            Settings(
                downstream=DownstreamSettings(
                    tls=DownstreamTlsSettings(require_client_certificate=True, **CERTIFICATE)
                )
            ),
            "downstream.tls.requireClientCertificate: needs authentication.clientCaFile or"
            " authentication.frontProxy.caFile, which say whose certificates count",
            id="required-of-nobody",
        ),
        pytest.param(
            Settings(upstream=UpstreamSettings(url=HTTP, identity="impersonate")),
            "upstream.identity: impersonate needs upstream.tokenFile"
            " (--upstream-token-file), the proxy's own",
            id="impersonate-as-nobody",
        ),
        pytest.param(
            Settings(upstream=UpstreamSettings(url=HTTPS, identity="frontProxy")),
            "upstream.identity: frontProxy over https needs upstream.tls.certificateFile, by which"
            " the server knows the proxy",
            id="front-proxy-as-nobody",
        ),
        pytest.param(
            Settings(
                upstream=UpstreamSettings(url=HTTP, tls=UpstreamTlsSettings(ca_file="ca.crt"))
            ),
            f"upstream.tls: {HTTP.url} is without TLS; write https, or leave upstream.tls out",
            id="tls-towards-http",
        ),
        *(
            pytest.param(
                front(**{f"{kind}_headers": (name,)}),
                f"authentication.frontProxy.{kind}Headers: {name} means something else; choose"
                " another name",
                id=f"{kind}-{name}",
            )
            for kind, name in (
                ("username", "Authorization"),
                ("username", "content-LENGTH"),
                ("uid", "Transfer-Encoding"),
                ("group", "Impersonate-Group"),
                ("group", "Host"),
                ("uid", "X-Forwarded-For"),
                ("username", "Sec-WebSocket-Protocol"),
            )
        ),
        *(
            pytest.param(
                front(extra_header_prefixes=(prefix,)),
                f"authentication.frontProxy.extraHeaderPrefixes: {prefix} is the start of {name}"
                " too, which means something else; choose another prefix",
                id=f"prefix-{prefix}",
            )
            for prefix, name in (
                ("Auth", "authorization"),
                ("X-", "x-forwarded-for"),
                ("Content-", "content-length"),
                ("Imp", "impersonate-user"),
                ("Impersonate-Extra-", "impersonate-user"),
            )
        ),
    ],
)
def test_settings_that_do_not_go_together(settings: Settings, problem: str) -> None:
    """Each combination that cannot be meant has its message, and nothing is read."""
    with pytest.raises(OperatorError) as caught:
        made(settings)

    assert problem == str(caught.value)


def test_all_problems_at_once() -> None:
    """One per line."""
    settings = dataclasses.replace(
        front(ca_file="ca.crt", username_headers=("Host",)),
        upstream=UpstreamSettings(url=HTTPS, identity="frontProxy"),
    )
    with pytest.raises(OperatorError) as caught:
        check_identities(settings)

    assert 3 == len(str(caught.value).splitlines())


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(Settings(), id="defaults"),
        pytest.param(
            Settings(upstream=UpstreamSettings(url=HTTP, identity="frontProxy")),
            id="front-proxy-over-http",
        ),
        pytest.param(
            Settings(
                downstream=TLS, authentication=AuthenticationSettings(client_ca_file="ca.crt")
            ),
            id="client-ca",
        ),
        pytest.param(
            front(
                username_headers=("X-Forwarded-User", "X-Remote-User"),
                extra_header_prefixes=("X-Forwarded-Extra-",),
            ),
            id="own-names",
        ),
    ],
)
def test_settings_that_do(settings: Settings) -> None:
    """Nothing is said against them."""
    check_identities(settings)


def test_warnings() -> None:
    """What works otherwise than one would think is said."""
    tls = UpstreamTlsSettings(certificate_file="c", key_file="k")
    odd = Settings(
        upstream=UpstreamSettings(tls=tls),
        authentication=AuthenticationSettings(client_ca_file="ca"),
    )

    assert ["upstream.tls.certificateFile", "authentication.clientCaFile"] == [
        text.split()[0] for text in warnings(odd)
    ]
    upstream = dataclasses.replace(odd.upstream, identity=FRONT_PROXY)
    assert [] == warnings(dataclasses.replace(odd, upstream=upstream))
    assert [] == warnings(Settings())


def test_warning_of_front_proxies_that_anybody_may_be() -> None:
    """With one CA for all only the names tell users from front proxies."""
    shared = front(ca_file="ca")
    authentication = dataclasses.replace(shared.authentication, client_ca_file="ca")
    found = warnings(
        Settings(upstream=UpstreamSettings(identity=FRONT_PROXY), authentication=authentication)
    )

    assert ["authentication.frontProxy.caFile"] == [text.split()[0] for text in found]


def authenticated(**settings: Any) -> Settings:  # noqa: ANN401 - as the settings are
    """Settings with some of authentication."""
    return Settings(authentication=AuthenticationSettings(**settings))


TOKENS: dict[str, Any] = {"token_file": "tokens"}


def keys(**settings: Any) -> ApiKeySettings:  # noqa: ANN401 - as the settings are
    """API keys."""
    return ApiKeySettings(file="k.csv", **settings)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param(
            authenticated(api_keys=ApiKeySettings(is_basic=True)),
            "authentication.apiKeys: needs file, which has the keys",
            id="no-file",
        ),
        pytest.param(
            authenticated(api_keys=keys(header=None)),
            "authentication.apiKeys: no request can have a key; give header, bearer or basic",
            id="nowhere",
        ),
        pytest.param(
            authenticated(api_keys=keys(header="Host")),
            "authentication.apiKeys.header: Host means something else; choose another name",
            id="reserved",
        ),
        pytest.param(
            authenticated(api_keys=keys(header="X-Remote-User")),
            "authentication.apiKeys.header: X-Remote-User means something else",
            id="front-proxy's",
        ),
        pytest.param(
            authenticated(api_keys=keys(header="Authorization")),
            "authentication.apiKeys.header: bearer and basic are for keys in Authorization",
            id="authorization",
        ),
        pytest.param(
            authenticated(api_keys=keys(unknown=ANONYMOUS), anonymous=False),
            "authentication.apiKeys.unknown: anonymous needs authentication.anonymous",
            id="unknown-without-anonymous",
        ),
        pytest.param(
            authenticated(api_keys=keys(unknown=ANONYMOUS, is_bearer=True), **TOKENS),
            "authentication.apiKeys.unknown: anonymous does not go with bearer and another method",
            id="unknown-bearer",
        ),
        pytest.param(
            authenticated(
                api_keys=keys(unknown=ANONYMOUS, is_bearer=True),
                token_review=ReviewSettings(is_enabled=True),
            ),
            "authentication.apiKeys.unknown: anonymous does not go with bearer and another method",
            id="unknown-bearer-and-reviews",
        ),
        pytest.param(
            authenticated(unverified=UnverifiedSettings(is_by_address=True), anonymous=False),
            "authentication.unverified: needs authentication.anonymous",
            id="unverified-without-anonymous",
        ),
        pytest.param(
            authenticated(unverified=UnverifiedSettings(headers=("X-Forwarded-For",))),
            "authentication.unverified.headers: X-Forwarded-For means something else",
            id="forwarded-for",
        ),
        pytest.param(
            authenticated(unverified=UnverifiedSettings(headers=("Impersonate-User",))),
            "authentication.unverified.headers: Impersonate-User means something else",
            id="impersonation",
        ),
        pytest.param(
            authenticated(unverified=UnverifiedSettings(secret_headers=("Cookie",))),
            "authentication.unverified.secretHeaders: Cookie means something else",
            id="cookie",
        ),
        pytest.param(
            authenticated(unverified=UnverifiedSettings(headers=("x-api-key",))),
            "authentication.unverified.headers: x-api-key has a secret, and names are in logs",
            id="key-as-a-name",
        ),
        pytest.param(
            authenticated(
                api_keys=keys(header="X-Own"), unverified=UnverifiedSettings(headers=("x-own",))
            ),
            "authentication.unverified.headers: x-own has a secret, and names are in logs",
            id="own-key-as-a-name",
        ),
        pytest.param(
            authenticated(unverified=UnverifiedSettings(secret_headers=("X-A",), headers=("X-a",))),
            "authentication.unverified.headers: X-a has a secret, and names are in logs",
            id="secret-and-name",
        ),
        pytest.param(
            authenticated(unverified=UnverifiedSettings(names_per_address=9)),
            "authentication.unverified.namesPerAddress: needs address",
            id="names-without-addresses",
        ),
    ],
)
def test_naming_that_does_not_go_together(settings: Settings, problem: str) -> None:
    """Each says what to do, and is the only one."""
    with pytest.raises(OperatorError) as caught:
        check_identities(settings)

    (line,) = str(caught.value).splitlines()
    assert line.startswith(problem)


@pytest.mark.parametrize(
    ("settings", "is_nobody_known"),
    [
        pytest.param(Settings(), True, id="defaults"),
        pytest.param(authenticated(api_keys=keys()), False, id="keys"),
        pytest.param(authenticated(api_keys=keys(header=None, is_basic=True)), False, id="basic"),
        pytest.param(authenticated(api_keys=keys(is_bearer=True), **TOKENS), False, id="bearer"),
        pytest.param(
            authenticated(api_keys=keys(is_bearer=True, unknown=ANONYMOUS)), False, id="unknown"
        ),
        pytest.param(
            authenticated(
                api_keys=keys(unknown=ANONYMOUS),
                unverified=UnverifiedSettings(secret_headers=("X-API-Key", "Authorization")),
                **TOKENS,
            ),
            False,
            id="unknown-keys-told-apart",
        ),
        pytest.param(
            authenticated(unverified=UnverifiedSettings(is_by_address=True)), False, id="address"
        ),
        pytest.param(
            authenticated(unverified=UnverifiedSettings(is_by_address=False), anonymous=False),
            True,
            id="no-address",
        ),
        pytest.param(authenticated(jwt=(JwtSettings(),)), False, id="jwt"),
        pytest.param(
            authenticated(impersonation=ImpersonationSettings(users=("a",))), True, id="no-method"
        ),
        pytest.param(
            Settings(
                downstream=DownstreamSettings(
                    identity_headers_from=(ipaddress.ip_network("::1"),),
                )
            ),
            False,
            id="front-proxies",
        ),
        pytest.param(
            Settings(downstream=DownstreamSettings(trusted_proxies=(ipaddress.ip_network("::1"),))),
            True,
            id="proxies",
        ),
    ],
)
def test_who_is_known(settings: Settings, is_nobody_known: bool) -> None:
    """Whether all clients are one; and all of this goes together."""
    assert is_nobody_known == knows_nobody(settings)
    if not settings.authentication.jwt:
        check_identities(settings)


PRESET = UnverifiedSettings(
    secret_headers=SECRETS_OF_PLAIN_APIS, is_by_address=True, names_per_address=NAMES_PER_ADDRESS
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, PRESET, id="nothing"),
        pytest.param(
            {"unverified": UnverifiedSettings(names_per_address=9)},
            dataclasses.replace(PRESET, names_per_address=9),
            id="more-or-fewer-names",
        ),
        pytest.param(
            {"unverified": UnverifiedSettings(is_by_address=True)}, PRESET, id="address-said"
        ),
        pytest.param(
            {"unverified": UnverifiedSettings(is_by_address=False)},
            UnverifiedSettings(is_by_address=False),
            id="no-address",
        ),
        pytest.param(
            {"unverified": UnverifiedSettings(secret_headers=())},
            UnverifiedSettings(secret_headers=(), is_by_address=True),
            id="no-secrets",
        ),
        pytest.param(
            {"unverified": UnverifiedSettings(secret_headers=("X-K",))},
            UnverifiedSettings(secret_headers=("X-K",), is_by_address=True),
            id="own-secrets",
        ),
        pytest.param(
            {"unverified": UnverifiedSettings(headers=("X-Client-Id",))},
            UnverifiedSettings(headers=("X-Client-Id",), is_by_address=True),
            id="own-names",
        ),
        pytest.param(
            {"unverified": UnverifiedSettings(is_by_basic=True)},
            UnverifiedSettings(is_by_basic=True, is_by_address=True),
            id="basic",
        ),
        pytest.param(
            {"api_keys": keys(unknown=ANONYMOUS)},
            UnverifiedSettings(is_by_address=True),
            id="verified-keys",
        ),
        pytest.param(
            {**TOKENS, "anonymous": False}, UnverifiedSettings(), id="nobody-is-anonymous"
        ),
    ],
)
def test_what_is_left_to_the_preset(given: dict[str, Any], expected: UnverifiedSettings) -> None:
    """With the preset http, what tells clients apart; with that of Kubernetes, nothing."""
    plain = dataclasses.replace(authenticated(**given), preset=HTTP_API)
    kubernetes = authenticated(**given)

    assert expected == as_preset(plain).authentication.unverified
    assert as_preset(plain) == as_preset(as_preset(plain))
    assert kubernetes == as_preset(kubernetes)
    check_identities(plain)


@pytest.mark.parametrize(
    ("settings", "ends"),
    [
        pytest.param(Settings(), "if the API behind is not Kubernetes", id="kubernetes"),
        pytest.param(as_preset(Settings(preset=HTTP_API)), "", id="http"),
        pytest.param(
            dataclasses.replace(
                authenticated(unverified=UnverifiedSettings(is_by_address=False)), preset=HTTP_API
            ),
            "(docs/identity.md)",
            id="http-without-addresses",
        ),
        pytest.param(authenticated(anonymous=False), "", id="nobody-is-anonymous"),
        pytest.param(authenticated(**TOKENS), "", id="tokens"),
    ],
)
def test_all_clients_as_one_flow(settings: Settings, ends: str) -> None:
    """It says where to change that, and how."""
    text = one_flow(settings)

    assert bool(ends) == text.startswith("authentication: all clients are one flow ")
    assert text.endswith(ends)


def test_warning_of_reviews_without_credentials() -> None:
    """A server lets hardly anybody create reviews without knowing who it is."""
    reviews = ReviewSettings(is_enabled=True)
    both = AuthenticationSettings(
        token_review=reviews, impersonation=ImpersonationSettings(access_review=reviews)
    )

    assert ["authentication.tokenReview", "authentication.impersonation.accessReview"] == [
        text.split()[0] for text in warnings(Settings(authentication=both))
    ]
    for own in (
        UpstreamSettings(**TOKENS),
        UpstreamSettings(
            tls=UpstreamTlsSettings(certificate_file="c", key_file="k"), identity=FRONT_PROXY
        ),
    ):
        assert [] == warnings(Settings(authentication=both, upstream=own))


def test_warning_of_a_proxy_for_nobody() -> None:
    """Without anonymous requests there must be a way to authenticate."""
    assert ["authentication.anonymous is false, and no other way to authenticate"] == [
        text.partition(" is on")[0] for text in warnings(authenticated(anonymous=False))
    ]
    assert [] == warnings(authenticated(anonymous=False, api_keys=keys()))


def test_warning_of_proxies_that_everybody_is() -> None:
    """Then every client can claim any address."""
    everybody = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("10.0.0.0/8"))

    assert ["downstream.trustedProxies has 0.0.0.0/0: every client can claim any address"] == (
        warnings(Settings(downstream=DownstreamSettings(trusted_proxies=everybody)))
    )


@pytest.mark.parametrize(
    ("listen", "loops"),
    [
        (Address(host="127.0.0.1", port=8000), True),
        (Address(host="", port=8000), True),
        (Address(host="127.0.0.1", port=0), False),
        (Address(host="127.0.0.2", port=8000), False),
        (Address.unix("/run/a.sock"), False),
    ],
)
def test_proxy_behind_itself(listen: Address, loops: bool) -> None:
    """An address where the proxy listens itself is no server."""
    servers = (
        UpstreamSettings(url=Address(host="127.0.0.1", port=8000)),
        UpstreamSettings(endpoints=(EndpointSettings(url=Address(host="127.0.0.1", port=8000)),)),
    )

    for upstream in servers:
        settings = Settings(downstream=DownstreamSettings(listen=listen), upstream=upstream)
        found = [each for each in warnings(settings) if "is the proxy itself" in each]
        assert loops == bool(found)


def test_headers_that_nobody_may_send() -> None:
    """The clients of a Unix socket may, by its mode."""
    upstream = UpstreamSettings(url=Address(host="h", port=1))
    alone = DownstreamSettings(proxy_protocol=True)
    behind = dataclasses.replace(alone, trusted_proxies=(ipaddress.ip_network("10.0.0.0/8"),))
    local = dataclasses.replace(alone, listen=Address.unix("/run/a.sock"))

    [problem] = contradictions(Settings(downstream=alone, upstream=upstream))
    assert problem.startswith("downstream.proxyProtocol needs downstream.trustedProxies")
    for downstream in (behind, local):
        assert [] == contradictions(Settings(downstream=downstream, upstream=upstream))
