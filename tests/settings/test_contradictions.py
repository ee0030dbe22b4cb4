"""Which settings do not go together, and which are probably meant otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from apfproxy.settings import (
    HTTP_API,
    Address,
    AdminTlsSettings,
    AuthenticationSettings,
    JwtSettings,
    Settings,
    UnverifiedSettings,
)
from apfproxy.settings.contradictions import (
    NAMES_PER_ADDRESS,
    SECRETS_OF_PLAIN_APIS,
    ConflictError,
    access_warning,
    as_preset,
    check,
    checked_clusters,
    contradictions,
    fleet_warnings,
    jwt_problems,
    one_flow,
    warnings,
)
from apfproxy.settings.file import load_settings, parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TLS = "downstream: {tls: {certificateFile: c, keyFile: k}}"


def settings(text: str) -> Settings:
    """The settings of a file."""
    return parse_settings(text.encode(), "f")


CASES = """
upstream: {url: http://a, dns: http://b, service: {name: a}}
> give only one of upstream.url (--upstream) and upstream.dns (--upstream-dns) and
    upstream.service (--upstream-service): each says where to forward

upstream: {url: http://a, endpoints: [{url: http://a}]}
> give only one of upstream.url (--upstream) and upstream.endpoints (--upstream, repeated): each
    says where to forward

upstream: {endpoints: [{url: http://a}, {url: https://b}]}
> upstream.endpoints[1]: https://b:443 is not of the scheme of http://a:80; servers of one API
    have TLS, or none of them has

upstream: {endpoints: [{url: http://a}, {url: 'unix:/a'}, {url: http://a}, {}]}
> upstream.endpoints[2]: http://a:80 is upstream.endpoints[0] already; give a server that takes
    more of the work a larger weight
> upstream.endpoints[3]: needs url

upstream: {service: {namespace: a}}
> upstream.service: needs name, which says whose servers to forward to

upstream: {service: {name: a, context: b}}
> upstream.service.context: needs upstream.service.kubeconfig, which has the contexts

upstream: {ejection: {pause: 2s, maxPause: 1s}}
> upstream.ejection: maxPause is shorter than pause

upstream: {upgrades: {allow: [/a, /b/*], deny: [/b/*]}}
> upstream.upgrades: /b/* is in allow and in deny; keep one

preset: http
request: {longRunning: {subresources: [exec]}}
> request.longRunning.subresources: with the preset http no path has a subresource; name paths
    in pathPrefixes

request: {longRunning: {verbs: [proxy]}}
> request.longRunning.verbs: needs watch, which lasts whatever is said here

request: {pathPrefixes: ['/api/{version}']}
> request.pathPrefixes: /api/{version} is never found, since what is below /api and /apis is an
    API by itself

request: {pathPrefixes: ['/a/{b}', /c, '/a/{d}']}
> request.pathPrefixes: /a/{b} and /a/{d} are the same; remove one of them

flowControl: {serverConcurrencyLimit: 3, perEndpoint: 4, store: a, objects: [b]}
> give either flowControl.perEndpoint (--per-endpoint) or flowControl.serverConcurrencyLimit
    (--server-concurrency-limit): seats are of each server, or of the whole
> give either flowControl.store (--store) or flowControl.objects (--objects): with both, what is
    in force would depend on which changed last; to move files into a store: kubectl --server
    http://ADMIN apply -f PATH

flowControl: {store: a, kubernetes: {enabled: true, context: c}}
admin: ~
> give either flowControl.kubernetes.enabled (--objects-from-kubernetes) or flowControl.store
    (--store): with both, what is in force would depend on which changed last
> flowControl.kubernetes.context (--context) needs flowControl.kubernetes.kubeconfig
    (--kubeconfig), which has the contexts
> flowControl.store (--store) needs an admin listener (--admin): without it nobody could read or
    change the objects

flowControl: {kubernetes: {writeStatus: true}}
> flowControl.kubernetes.writeStatus (--write-status) needs flowControl.kubernetes.enabled
    (--objects-from-kubernetes)

adminTokenFile: a
> adminTokenFile (--admin-token-file) needs flowControl.store (--store)

downstream: {maxHeadBytes: 1MiB, limits: {maxHeldBytesPerConnection: 1MiB}}
> downstream.limits.maxHeldBytesPerConnection is less than downstream.maxHeadBytes and
    downstream.limits.gatheredBodyBytes together: a request of that size could never wait

downstream: {proxyProtocol: true}
> downstream.proxyProtocol needs downstream.trustedProxies: no address may send a PROXY header,
    so every connection would be closed

downstream: {listen: 'localhost:81'}
admin: '127.0.0.1:81'
> downstream.listen (--listen) and admin (--admin): localhost:81 and 127.0.0.1:81 are the same
    place; give each a port or a socket of its own

downstream: {listen: ':8081'}
> downstream.listen (--listen) and admin (--admin): :8081 and 127.0.0.1:8081 are the same place;
    give each a port or a socket of its own

downstream: {listen: '[::1]:81'}
admin: '[::]:81'
> downstream.listen (--listen) and admin (--admin): [::1]:81 and [::]:81 are the same place; give
    each a port or a socket of its own

downstream: {listen: 'unix:/a'}
admin: 'unix:/a'
> downstream.listen (--listen) and admin (--admin): unix:/a and unix:/a are the same place; give
    each a port or a socket of its own

adminTls: {keyFile: a}
> adminTls: certificateFile and keyFile go together; give both

adminTls: {clientCaFile: a}
> adminTls.clientCaFile needs adminTls.certificateFile and adminTls.keyFile

downstream: {tls: {certificateFile: a}}
> downstream.tls: certificateFile (--tls-cert-file) and keyFile (--tls-private-key-file) go
    together; give both

downstream: {tls: {keyFile: a}}
> downstream.tls: certificateFile (--tls-cert-file) and keyFile (--tls-private-key-file) go
    together; give both

upstream: {url: https://a, tls: {keyFile: a}}
> upstream.tls: certificateFile and keyFile go together; give both

authentication: {clientCaFile: a, frontProxy: {caFile: a}}
downstream: {tls: {requireClientCertificate: true}}
> authentication.clientCaFile (--client-ca-file): needs downstream.tls (--tls-cert-file), over
    which clients show their certificates
> authentication.frontProxy.caFile: needs downstream.tls (--tls-cert-file), over which clients
    show their certificates
> downstream.tls.requireClientCertificate: needs downstream.tls (--tls-cert-file), over which
    clients show their certificates

downstream: {tls: {certificateFile: c, keyFile: k, requireClientCertificate: true}}
> downstream.tls.requireClientCertificate: needs authentication.clientCaFile or
    authentication.frontProxy.caFile, which say whose certificates count

upstream: {url: http://a, identity: impersonate}
> upstream.identity: impersonate needs upstream.tokenFile (--upstream-token-file), the proxy's
    own

upstream: {url: https://a, identity: frontProxy}
> upstream.identity: frontProxy over https needs upstream.tls.certificateFile, by which the
    server knows the proxy

upstream: {url: http://a, tls: {caFile: ca}}
> upstream.tls: http://a:80 is without TLS; write https, or leave upstream.tls out

authentication: {frontProxy: {usernameHeaders: [Authorization]}}
> authentication.frontProxy.usernameHeaders: Authorization means something else; choose another
    name

authentication: {frontProxy: {usernameHeaders: [content-LENGTH]}}
> authentication.frontProxy.usernameHeaders: content-LENGTH means something else; choose another
    name

authentication: {frontProxy: {uidHeaders: [Transfer-Encoding]}}
> authentication.frontProxy.uidHeaders: Transfer-Encoding means something else; choose another
    name

authentication: {frontProxy: {groupHeaders: [Impersonate-Group]}}
> authentication.frontProxy.groupHeaders: Impersonate-Group means something else; choose another
    name

authentication: {frontProxy: {groupHeaders: [Host]}}
> authentication.frontProxy.groupHeaders: Host means something else; choose another name

authentication: {frontProxy: {uidHeaders: [X-Forwarded-For]}}
> authentication.frontProxy.uidHeaders: X-Forwarded-For means something else; choose another
    name

authentication: {frontProxy: {usernameHeaders: [Sec-WebSocket-Protocol]}}
> authentication.frontProxy.usernameHeaders: Sec-WebSocket-Protocol means something else; choose
    another name

authentication: {frontProxy: {extraHeaderPrefixes: [Auth]}}
> authentication.frontProxy.extraHeaderPrefixes: Auth is the start of authorization too, which
    means something else; choose another prefix

authentication: {frontProxy: {extraHeaderPrefixes: [X-]}}
> authentication.frontProxy.extraHeaderPrefixes: X- is the start of x-forwarded-for too, which
    means something else; choose another prefix

authentication: {frontProxy: {extraHeaderPrefixes: [Content-]}}
> authentication.frontProxy.extraHeaderPrefixes: Content- is the start of content-length too,
    which means something else; choose another prefix

authentication: {frontProxy: {extraHeaderPrefixes: [Imp]}}
> authentication.frontProxy.extraHeaderPrefixes: Imp is the start of impersonate-user too, which
    means something else; choose another prefix

authentication: {frontProxy: {extraHeaderPrefixes: [Impersonate-Extra-]}}
> authentication.frontProxy.extraHeaderPrefixes: Impersonate-Extra- is the start of
    impersonate-user too, which means something else; choose another prefix

authentication: {apiKeys: {basic: true}}
> authentication.apiKeys: needs file, which has the keys

authentication: {apiKeys: {file: k, header: ~}}
> authentication.apiKeys: no request can have a key; give header, bearer or basic

authentication: {apiKeys: {file: k, header: Host}}
> authentication.apiKeys.header: Host means something else; choose another name

authentication: {apiKeys: {file: k, header: X-Remote-User}}
> authentication.apiKeys.header: X-Remote-User means something else; choose another name

authentication: {apiKeys: {file: k, header: Authorization}}
> authentication.apiKeys.header: bearer and basic are for keys in Authorization

authentication: {apiKeys: {file: k, unknown: anonymous}, anonymous: false}
> authentication.apiKeys.unknown: anonymous needs authentication.anonymous

authentication: {tokenFile: t, apiKeys: {file: k, bearer: true, unknown: anonymous}}
> authentication.apiKeys.unknown: anonymous does not go with bearer and another method for
    tokens: a token that none of them knows is refused

authentication: {tokenReview: {enabled: true}, apiKeys: {file: k, bearer: true, unknown:
    anonymous}}
> authentication.apiKeys.unknown: anonymous does not go with bearer and another method for
    tokens: a token that none of them knows is refused

authentication: {unverified: {address: true}, anonymous: false}
> authentication.unverified: needs authentication.anonymous; whoever names only themselves is
    anonymous

authentication: {unverified: {headers: [X-Forwarded-For]}}
> authentication.unverified.headers: X-Forwarded-For means something else; choose another name

authentication: {unverified: {headers: [Impersonate-User]}}
> authentication.unverified.headers: Impersonate-User means something else; choose another name

authentication: {unverified: {secretHeaders: [Cookie]}}
> authentication.unverified.secretHeaders: Cookie means something else; choose another name

authentication: {apiKeys: {file: k, header: X-Own}, unverified: {headers: [x-api-key]}}
> authentication.unverified.headers: x-api-key has a secret, and names are in logs;
    secretHeaders is for it

authentication: {apiKeys: {file: k, header: X-Own}, unverified: {headers: [x-own]}}
> authentication.unverified.headers: x-own has a secret, and names are in logs; secretHeaders is
    for it

authentication: {apiKeys: {file: k, header: X-Own}, unverified: {secretHeaders: [X-A],
    headers: [X-a]}}
> authentication.unverified.headers: X-a has a secret, and names are in logs; secretHeaders is
    for it

authentication: {unverified: {namesPerAddress: 9}}
> authentication.unverified.namesPerAddress: needs address, by which clients of an address that
    shows more names count

authentication: {jwt: [{issuer: https://a, audiences: [b]}, {issuer: b}]}
> authentication.jwt[1].issuer: no https URL; without keysFile or jwksUrl its discovery is asked
> authentication.jwt[1].audiences: missing: any token of the issuer would do, for whomever

fleet: {lease: 2.9s, replicas: 3}
> fleet.lease: must be at least 3 times fleet.refreshInterval, as a member that misses one look
    at the record has not gone
> fleet.replicas (--fleet-replicas) needs fleet.store (--fleet)

fleet: {store: rediss://a, certificateFile: a}
> fleet: certificateFile and keyFile go together; give both

fleet: {store: 'redis://:b@a', passwordFile: c}
> fleet.passwordFile: fleet.store has a password, too; leave that out

fleet: {store: 'kubernetes:a/b', passwordFile: c}
> fleet.passwordFile: is for a store whose URL begins with redis, not for kubernetes:a/b

fleet: {store: 'redis://a', sentinelPasswordFile: c}
> fleet.sentinelPasswordFile: is for a store whose URL begins with redis+sentinel, not for
    redis://a:6379

fleet: {store: 'redis://a', caFile: c}
> fleet.caFile: is for a store whose URL begins with rediss, not for redis://a:6379

fleet: {store: 'rediss://a', kubeconfig: c}
> fleet.kubeconfig: is for a store whose URL begins with kubernetes, not for rediss://a:6379

fleet: {store: 'kubernetes:a/b', context: c}
> fleet.context: needs fleet.kubeconfig, which has the contexts
"""
"""Settings, and behind `>` what is wrong with them; further lines are indented."""


def cases() -> Iterator[tuple[str, str]]:
    """Settings and all that is wrong with them."""
    for case in re.sub(r"\n    +", " ", CASES.strip()).split("\n\n"):
        text, *problems = case.split("\n> ")
        yield text, "\n".join(problems)
    endpoints = ", ".join(["{url: http://a}"] * 257)
    yield (
        f"upstream: {{endpoints: [{endpoints}]}}",
        "upstream.endpoints (--upstream): more than 256",
    )


@pytest.mark.parametrize(("text", "problems"), [*cases()])
def test_problems(text: str, problems: str) -> None:
    """Each says what to do; all are said at once."""
    assert problems.splitlines() == contradictions(settings(text))
    with pytest.raises(ConflictError) as caught:
        check(settings(text))
    assert problems == str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "upstream: {endpoints: [{url: http://a}, {url: 'unix:/a'}]}",
        "upstream: {url: http://a, identity: frontProxy}",
        "preset: http\nrequest: {pathPrefixes: ['/api/{v}'], longRunning: {verbs: [report]}}",
        f"{TLS}\nauthentication: {{clientCaFile: ca}}",
        (
            "authentication: {frontProxy: {usernameHeaders: [X-Forwarded-User, X-Remote-User],"
            " extraHeaderPrefixes: [X-Forwarded-Extra-]}}"
        ),
        "downstream: {listen: '127.0.0.1:0'}\nadmin: '127.0.0.1:0'",
        "downstream: {listen: '0.0.0.0:81'}\nadmin: '[::1]:81'",
        "downstream: {listen: '10.0.0.1:81'}\nadmin: '127.0.0.1:81'",
        "downstream: {listen: 'unix:/a'}\nadmin: 'unix:/b'",
        "adminTls: {certificateFile: a, keyFile: b, clientCaFile: c}",
        "downstream: {proxyProtocol: true, trustedProxies: [10.0.0.0/8]}",
        "downstream: {proxyProtocol: true, listen: 'unix:/a'}",
        "fleet: {lease: 3s}",
        "fleet: {store: 'redis://a@b', passwordFile: c, replicas: 3}",
        "fleet: {store: rediss://a, caFile: a, certificateFile: b, keyFile: c}",
        "fleet: {store: 'kubernetes:a/b', kubeconfig: a, context: b}",
        "fleet: {store: rediss+sentinel://a/b, sentinelPasswordFile: c, caFile: d}",
        (
            "authentication: {tokenFile: t, apiKeys: {file: k, unknown: anonymous},"
            " unverified: {secretHeaders: [X-API-Key, Authorization]}}"
        ),
    ],
)
def test_settings_that_go_together(text: str) -> None:
    assert [] == contradictions(settings(text))


ISSUER = "https://issuer.example"


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        ({}, []),
        ({"keys_file": "k", "issuer": "x"}, []),
        ({"jwks_url": f"{ISSUER}/k", "issuer": "x"}, []),
        ({"issuer": "http://[::1]:8"}, []),
        ({"issuer": "", "audiences": ()}, ["issuer: missing: what", "audiences: missing"]),
        ({"keys_file": "k", "jwks_url": f"{ISSUER}/k"}, ["keysFile: and jwksUrl"]),
        ({"keys_file": "k", "ca_file": "c"}, ["caFile: of no use"]),
        ({"jwks_url": "http://x.example/"}, ["jwksUrl: not https"]),
        ({"jwks_url": "https://a:b@x.example/"}, ["jwksUrl: has a user or password"]),
        ({"jwks_url": "https://x.example/#a"}, ["jwksUrl: has a fragment"]),
        ({"jwks_url": "https://x.example:x/"}, ["jwksUrl: no URL"]),
        ({"issuer": "http://x.example"}, ["issuer: not https"]),
        ({"issuer": "kubernetes"}, ["issuer: no https URL; without"]),
        ({"issuer": f"{ISSUER}?a"}, ["issuer: has a query"]),
        ({"issuer": "kubernetes/serviceaccount", "keys_file": "k"}, ["serviceAccounts: must"]),
    ],
)
def test_issuers(changed: dict[str, Any], problems: list[str]) -> None:
    """The keys of an issuer of tokens come from one place that nobody else can write to."""
    jwt = JwtSettings(**{"issuer": ISSUER, "audiences": ("a",), **changed})
    found = [f"{name}: {problem}" for name, problem in jwt_problems(jwt)]

    assert len(problems) == len(found)
    assert all(each.startswith(problem) for each, problem in zip(found, problems, strict=True))


LEFT_OUT = (
    "which kube-apiserver takes for long-running: here it takes seats, and its time is limited"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (
            (
                "request: {longRunning: {verbs: [watch, proxy, foo], subresources: [attach,"
                " exec, log,"
                " portforward, proxy, vnc], pathPrefixes: [/debug/pprof/, /a]}}"
            ),
            [],
        ),
        (
            (
                "request: {longRunning: {verbs: [watch, proxi], subresources: [exec, vnc],"
                " pathPrefixes: []}}"
            ),
            [
                f"request.longRunning.verbs leaves out proxy, {LEFT_OUT}",
                (
                    "request.longRunning.subresources leaves out attach, log,"
                    f" portforward, proxy, {LEFT_OUT}"
                ),
                f"request.longRunning.pathPrefixes leaves out /debug/pprof/, {LEFT_OUT}",
                "request.longRunning.verbs has proxi: did you mean proxy?",
            ],
        ),
        (
            (
                "preset: http\nrequest: {longRunning: {verbs: [get]}}\n"
                "upstream: {upgrades: {allow: [/a]}}"
            ),
            [
                (
                    "upstream.upgrades.allow: with the preset http WebSockets are served on"
                    " any path;"
                    " name exceptions in deny"
                ),
                (
                    "request.longRunning.verbs has get: all such requests take no seats, so that"
                    " nothing limits them; name subresources or paths instead"
                ),
            ],
        ),
        (
            "upstream: {tls: {certificateFile: c, keyFile: k}}\nauthentication: {clientCaFile: ca}",
            ["upstream.tls.certificateFile with", "authentication.clientCaFile with upstream."],
        ),
        (
            (
                "upstream: {identity: frontProxy, tls: {certificateFile: c, keyFile: k}}\n"
                "authentication: {clientCaFile: ca}"
            ),
            [],
        ),
        (
            (
                "upstream: {identity: frontProxy}\n"
                "authentication: {clientCaFile: ca, frontProxy: {caFile: ca}}"
            ),
            ["authentication.frontProxy.caFile is authentication.clientCaFile, and allowedNames"],
        ),
        (
            (
                "authentication: {tokenReview: {enabled: true},"
                " impersonation: {accessReview: {enabled: true}}}"
            ),
            [
                "authentication.tokenReview without upstream.tokenFile",
                "authentication.impersonation.accessReview without upstream.tokenFile",
            ],
        ),
        ("upstream: {tokenFile: t}\nauthentication: {tokenReview: {enabled: true}}", []),
        (
            "authentication: {anonymous: false}",
            ["authentication.anonymous is false, and no other way to authenticate is on"],
        ),
        ("authentication: {anonymous: false, apiKeys: {file: k}}", []),
        (
            "downstream: {trustedProxies: [0.0.0.0/0, 10.0.0.0/8]}",
            ["downstream.trustedProxies has 0.0.0.0/0: every client can claim any address"],
        ),
    ],
)
def test_warnings(text: str, expected: list[str]) -> None:
    """What works otherwise than one would think is said."""
    found = warnings(settings(text))

    assert len(expected) == len(found), found
    assert all(each.startswith(start) for each, start in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("listen", "loops"),
    [
        ("127.0.0.1:8000", True),
        (":8000", True),
        ("127.0.0.1:0", False),
        ("127.0.0.2:8000", False),
        ("unix:/run/a.sock", False),
    ],
)
@pytest.mark.parametrize("upstream", ["url: {}", "endpoints: [url: {}]"])
def test_proxy_behind_itself(listen: str, upstream: str, loops: bool) -> None:
    """An address where the proxy listens itself is no server."""
    server = upstream.format("http://127.0.0.1:8000")
    found = warnings(settings(f"downstream: {{listen: '{listen}'}}\nupstream: {{{server}}}"))

    assert loops == any("is the proxy itself" in each for each in found)


def authenticated(**changed: Any) -> Settings:  # noqa: ANN401 - as the settings are
    """Settings with some of authentication."""
    return Settings(authentication=AuthenticationSettings(**changed))


PRESET = UnverifiedSettings(
    secret_headers=SECRETS_OF_PLAIN_APIS, is_by_address=True, names_per_address=NAMES_PER_ADDRESS
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, PRESET),
        (
            {"unverified": UnverifiedSettings(names_per_address=9)},
            structs.replace(PRESET, names_per_address=9),
        ),
        ({"unverified": UnverifiedSettings(is_by_address=True)}, PRESET),
        (
            {"unverified": UnverifiedSettings(is_by_address=False)},
            UnverifiedSettings(is_by_address=False),
        ),
        *(
            (
                {"unverified": UnverifiedSettings(**own)},
                UnverifiedSettings(is_by_address=True, **own),
            )
            for own in (
                {"secret_headers": ()},
                {"secret_headers": ("X-K",)},
                {"headers": ("X-Client-Id",)},
                {"is_by_basic": True},
            )
        ),
        ({"token_file": "t"}, UnverifiedSettings(is_by_address=True)),
        ({"token_file": "t", "anonymous": False}, UnverifiedSettings()),
    ],
)
def test_what_is_left_to_the_preset(given: dict[str, Any], expected: UnverifiedSettings) -> None:
    """With the preset http, what tells clients apart; with that of Kubernetes, nothing."""
    plain = structs.replace(authenticated(**given), preset=HTTP_API)
    kubernetes = authenticated(**given)

    assert expected == as_preset(plain).authentication.unverified
    assert as_preset(plain) == as_preset(as_preset(plain))
    assert kubernetes == as_preset(kubernetes)
    assert [] == contradictions(plain)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("", "if the API behind is not Kubernetes"),
        ("authentication: {impersonation: {users: [a]}}", "if the API behind is not Kubernetes"),
        ("downstream: {trustedProxies: ['::1']}", "if the API behind is not Kubernetes"),
        (
            "preset: http\nauthentication: {unverified: {address: false}}",
            "(docs/identity.md)",
        ),
        ("preset: http", ""),
        ("authentication: {unverified: {address: true}}", ""),
        ("authentication: {anonymous: false}", ""),
        ("authentication: {tokenFile: t}", ""),
        ("authentication: {apiKeys: {file: k}}", ""),
        ("authentication: {jwt: [{issuer: a}]}", ""),
        ("downstream: {identityHeadersFrom: ['::1']}", ""),
    ],
)
def test_all_clients_as_one_flow(text: str, ends: str) -> None:
    """It says where to change that, and how."""
    found = one_flow(as_preset(settings(text)))

    assert bool(ends) == found.startswith("authentication: all clients are one flow ")
    assert found.endswith(ends)


CERTIFICATE = {"certificate_file": "a.crt", "key_file": "a.key"}
OUTSIDE, HERE = Address(host="0.0.0.0", port=1), Address(host="localhost", port=1)  # noqa: S104
NAMES, IN_PLAIN_TEXT = "names of users", "can be read on its way"


@pytest.mark.parametrize(
    ("admin", "tls", "token", "is_here", "warning"),
    [
        (OUTSIDE, {}, None, None, NAMES),
        (OUTSIDE, CERTIFICATE, None, None, NAMES),
        (OUTSIDE, {}, "t", None, IN_PLAIN_TEXT),
        (OUTSIDE, CERTIFICATE, "t", None, ""),
        (OUTSIDE, {**CERTIFICATE, "client_ca_file": "c"}, None, None, ""),
        (HERE, {}, None, None, ""),
        (Address.unix("/a"), {}, None, None, ""),
        (None, {}, None, None, ""),
        (HERE, {}, None, False, NAMES),
        (OUTSIDE, {}, None, True, ""),
    ],
)
def test_admin_listener_that_others_reach(
    admin: Address | None,
    tls: dict[str, str],
    token: str | None,
    is_here: bool | None,
    warning: str,
) -> None:
    """They need credentials, and have them over TLS; a given socket is where it is."""
    found = access_warning(
        Settings(admin=admin, admin_tls=AdminTlsSettings(**tls), admin_read_token_file=token),
        is_here=is_here,
    )

    assert bool(warning) == bool(found)
    assert warning in found


@pytest.mark.parametrize(
    ("text", "workers", "expected"),
    [
        ("flowControl: {serverConcurrencyLimit: 1}", 2, "1 seat for 2 workers"),
        (
            (
                "flowControl: {perEndpoint: 2}\nupstream: {url: http://a}\n"
                "fleet: {store: redis://a, replicas: 3}"
            ),
            1,
            "2 seats for 3 members of the fleet",
        ),
        (
            "flowControl: {serverConcurrencyLimit: 5}\nfleet: {store: redis://a, replicas: 3}",
            2,
            "5 seats for 6 members of the fleet",
        ),
        (
            (
                "flowControl: {serverConcurrencyLimit: 1}\n"
                "clusters:\n- {name: a, hosts: [a]}\n- {name: b, hosts: [b], flowControl:"
                " {serverConcurrencyLimit: 9}}\n- {name: c}"
            ),
            2,
            "clusters[a].flowControl.serverConcurrencyLimit: 1 seat for 2 workers",
        ),
        ("fleet: {store: redis://a, replicas: 1}", 1, "fleet.replicas: 1 counts as 2"),
        ("flowControl: {serverConcurrencyLimit: 1}", 1, ""),
        ("fleet: {store: redis://a, replicas: 3}", 3, ""),
        (
            (
                "flowControl: {perEndpoint: 2}\nupstream: {service: {name: a}}\n"
                "fleet: {store: redis://a, replicas: 3}"
            ),
            1,
            "",
        ),
    ],
)
def test_fleets_with_too_few_seats(text: str, workers: int, expected: str) -> None:
    """There are to be no more members than seats, as far as settings tell."""
    found = list(fleet_warnings(settings(text), workers))

    assert bool(expected) == len(found)
    assert all(expected in each for each in found)


GOOD = "upstream: {url: 'http://all'}\nclusters:\n- {name: good, hosts: [good]}\n"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("- {name: a, hosts: [a]}", []),
        ("- {name: a}", ["clusters[a]: needs hosts"]),
        (
            "- {name: a, hosts: [a], authentication: {clientCaFile: a}}",
            ["clusters[a].authentication.clientCaFile (--client-ca-file): needs downstream.tls"],
        ),
        (
            "- {name: a, hosts: [a], upstream: {url: http://a, dns: http://b}}",
            ["clusters[a]: give only one of upstream.url (--upstream) and upstream.dns"],
        ),
        (
            "- {name: a, hosts: [a], tls: {certificateFile: a}}",
            ["clusters[a].tls: certificateFile (", "clusters[a].tls: needs downstream.tls of the"],
        ),
        (
            "- {name: a, hosts: [a], upstream: {endpoints: [{}]}}",
            ["clusters[a].upstream.endpoints[0]: needs url"],
        ),
        (
            "- {name: a, hosts: [a], flowControl: {objects: [x], store: y}}",
            ["clusters[a]: give either flowControl.store", "clusters[a].flowControl.store: is for"],
        ),
    ],
)
def test_clusters(tmp_path: Path, text: str, problems: list[str]) -> None:
    """What does not go together refuses the cluster alone, with the line."""
    path = tmp_path / "f"
    path.write_text(f"{GOOD}{text}\n")
    good, cluster = checked_clusters(load_settings(path), path).clusters

    assert (cluster.settings is None) == bool(problems)
    assert len(problems) == len(cluster.problems)
    for expected, problem in zip(problems, cluster.problems, strict=True):
        assert problem.startswith(f"{path}:4: {expected}")
    assert good.settings is not None


def test_what_clusters_complete(tmp_path: Path) -> None:
    """The top level may have a part; a cluster that does not complete it is refused."""
    path = tmp_path / "f"
    path.write_text(
        "downstream: {tls: {certificateFile: a, keyFile: b, requireClientCertificate: true}}\n"
        "adminTokenFile: t\n"
        "upstream: {identity: impersonate, service: {namespace: x}}\n"
        "flowControl: {kubernetes: {writeStatus: true}}\n"
        "clusters:\n"
        "- name: a\n"
        "  hosts: [a]\n"
        "  upstream: {tokenFile: t, service: {name: y}}\n"
        "  authentication: {clientCaFile: c}\n"
        "  flowControl: {kubernetes: {enabled: true}}\n"
        "- {name: b, hosts: [b], upstream: {url: http://b}, flowControl: {store: s}}\n"
        "- {name: c, hosts: [c], upstream: {service: {namespace: default}}}\n"
    )
    whole = load_settings(path)
    one, two, three = checked_clusters(whole, path).clusters

    assert [] == contradictions(whole)
    assert one.problems == ()
    assert [
        "clusters[b].flowControl.kubernetes.writeStatus (--write-status) needs flowControl",
        "clusters[b]: downstream.tls.requireClientCertificate: needs authentication",
        "clusters[b].upstream.identity: impersonate needs upstream",
        (
            "clusters[b].flowControl.store: is for one cluster alone; name flowControl.objects or"
            " flowControl.kubernetes"
        ),
    ] == [re.sub(r"(needs \w+).*", r"\1", each).partition(":11: ")[2] for each in two.problems]
    assert f"{path}:12: clusters[c].upstream.url: say where to forward" in three.problems[0]
