"""Settings of TLS and authentication: what of them goes together."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from apfproxy.app.settings_checks import check_identities, warnings
from apfproxy.errors import OperatorError
from apfproxy.settings import (
    FRONT_PROXY,
    AuthenticationSettings,
    DownstreamSettings,
    DownstreamTlsSettings,
    FrontProxySettings,
    Settings,
    UpstreamSettings,
    UpstreamTlsSettings,
)
from tests.app.test_identities import HTTP, HTTPS, made

CERTIFICATE: dict[str, Any] = {"certificate_file": "a.crt", "key_file": "a.key"}
TLS = DownstreamSettings(tls=DownstreamTlsSettings(**CERTIFICATE))


def front(**names: Any) -> Settings:  # noqa: ANN401 - as the settings are
    """Settings with some of a front proxy."""
    return Settings(authentication=AuthenticationSettings(front_proxy=FrontProxySettings(**names)))


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
                upstream=UpstreamSettings(address=HTTPS, tls=UpstreamTlsSettings(key_file="a.key"))
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
            Settings(upstream=UpstreamSettings(address=HTTP, identity="impersonate")),
            "upstream.identity: impersonate needs upstream.tokenFile"
            " (--upstream-token-file), the proxy's own",
            id="impersonate-as-nobody",
        ),
        pytest.param(
            Settings(upstream=UpstreamSettings(address=HTTPS, identity="frontProxy")),
            "upstream.identity: frontProxy over https needs upstream.tls.certificateFile, by which"
            " the server knows the proxy",
            id="front-proxy-as-nobody",
        ),
        pytest.param(
            Settings(
                upstream=UpstreamSettings(address=HTTP, tls=UpstreamTlsSettings(ca_file="ca.crt"))
            ),
            "upstream.tls: upstream.url is http; write https, or leave upstream.tls out",
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
        upstream=UpstreamSettings(address=HTTPS, identity="frontProxy"),
    )
    with pytest.raises(OperatorError) as caught:
        check_identities(settings)

    assert 3 == len(str(caught.value).splitlines())


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(Settings(), id="defaults"),
        pytest.param(
            Settings(upstream=UpstreamSettings(address=HTTP, identity="frontProxy")),
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
