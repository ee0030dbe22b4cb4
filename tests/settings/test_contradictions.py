"""Which settings do not go together, and which are probably meant otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from apfproxy.settings import HTTP_API, Settings, UnverifiedSettings
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
    one_flow,
    warnings,
)
from apfproxy.settings.file import load_settings, parse_settings
from tests.settings.cases import cases, shortened

if TYPE_CHECKING:
    from pathlib import Path

TLS = "downstream: {tls: {certificateFile: c, keyFile: k}}"


def settings(text: str) -> Settings:
    return parse_settings(text.encode(), "f")


PROBLEMS = """
upstream: {url: http://a, dns: http://b, service: {name: a}}
> give only one of upstream.url (--upstream) and upstream.dns (--upstream-dns) and...
upstream: {url: http://a, endpoints: [{url: http://a}]}
> give only one of upstream.url (--upstream) and upstream.endpoints (--upstream, repeated)...
upstream: {endpoints: [{url: http://a}, {url: https://b}]}
> upstream.endpoints[1]: https://b:443 is not of the scheme of http://a:80; servers of one API...
upstream: {endpoints: [{url: http://a}, {url: 'unix:/a'}, {url: http://a}, {}]}
> upstream.endpoints[2]: http://a:80 is upstream.endpoints[0] already; give a server that...
> upstream.endpoints[3]: needs url
upstream: {service: {namespace: a}}
> upstream.service needs upstream.service.name, which says whose servers to forward to
upstream: {service: {name: a, context: b}}
> upstream.service.context needs upstream.service.kubeconfig, which has the contexts
upstream: {ejection: {pause: 2s, maxPause: 1s}}
> upstream.ejection: maxPause is shorter than pause
flowControl: {serverConcurrencyLimit: auto, autoLimit: {min: 9, max: 8}}
> flowControl.autoLimit: min is more than max
flowControl: {serverConcurrencyLimit: auto, autoLimit: {min: 4, max: 8, initial: 9}}
> flowControl.autoLimit: initial is not within min and max; leave it out, or have it from 4 to 8
flowControl: {serverConcurrencyLimit: auto, perEndpoint: 4}
> give either flowControl.perEndpoint (--per-endpoint) or flowControl.serverConcurrencyLimit...
upstream: {upgrades: {allow: [/a, /b/*], deny: [/b/*]}}
> upstream.upgrades: /b/* is in allow and in deny; keep one
preset: http
request: {longRunning: {subresources: [exec]}}
> request.longRunning.subresources: with the preset http no path has a subresource; name paths...
request: {longRunning: {verbs: [proxy]}}
> request.longRunning.verbs: needs watch, which lasts whatever is said here
request: {pathPrefixes: ['/api/{version}']}
> request.pathPrefixes: /api/{version} is never found, since what is below /api and /apis is...
request: {pathPrefixes: ['/a/{b}', /c, '/a/{d}']}
> request.pathPrefixes: /a/{b} and /a/{d} are the same; remove one of them
flowControl: {serverConcurrencyLimit: 3, perEndpoint: 4, store: a, objects: [b]}
> give either flowControl.perEndpoint (--per-endpoint) or flowControl.serverConcurrencyLimit...
> give either flowControl.store (--store) or flowControl.objects (--objects): with both, what...
flowControl: {store: a, kubernetes: {enabled: true, context: c}}
admin: ~
> give either flowControl.kubernetes.enabled (--objects-from-kubernetes) or flowControl.store...
> flowControl.kubernetes.context (--context) needs flowControl.kubernetes.kubeconfig...
> flowControl.store (--store) needs admin (--admin), the listener by which objects are read...
flowControl: {kubernetes: {writeStatus: true}}
> flowControl.kubernetes.writeStatus (--write-status) needs flowControl.kubernetes.enabled...
adminTokenFile: a
> adminTokenFile (--admin-token-file) needs flowControl.store (--store)
downstream: {maxHeadBytes: 1MiB, limits: {maxHeldBytesPerConnection: 1MiB}}
> downstream.limits.maxHeldBytesPerConnection is less than downstream.maxHeadBytes and...
downstream: {proxyProtocol: true}
> downstream.proxyProtocol needs downstream.trustedProxies: no address may send a PROXY...
downstream: {listen: 'localhost:81'}
admin: '127.0.0.1:81'
> downstream.listen (--listen) and admin (--admin): localhost:81 and 127.0.0.1:81 are the same...
downstream: {listen: ':8081'}
> downstream.listen (--listen) and admin (--admin): :8081 and 127.0.0.1:8081 are the same...
downstream: {listen: '[::1]:81'}
admin: '[::]:81'
> downstream.listen (--listen) and admin (--admin): [::1]:81 and [::]:81 are the same place...
downstream: {listen: 'unix:/a'}
admin: 'unix:/a'
> downstream.listen (--listen) and admin (--admin): unix:/a and unix:/a are the same place...
adminTls: {keyFile: a}
> adminTls: certificateFile and keyFile go together; give both
adminTls: {clientCaFile: a}
> adminTls.clientCaFile needs adminTls.certificateFile and adminTls.keyFile
downstream: {tls: {certificateFile: a}}
> downstream.tls: certificateFile (--tls-cert-file) and keyFile (--tls-private-key-file) go...
downstream: {tls: {keyFile: a}}
> downstream.tls: certificateFile (--tls-cert-file) and keyFile (--tls-private-key-file) go...
upstream: {url: https://a, tls: {keyFile: a}}
> upstream.tls: certificateFile and keyFile go together; give both
authentication: {clientCaFile: a, frontProxy: {caFile: a}}
downstream: {tls: {requireClientCertificate: true}}
> authentication.clientCaFile (--client-ca-file) needs downstream.tls.certificateFile...
> authentication.frontProxy.caFile needs downstream.tls.certificateFile (--tls-cert-file)...
> downstream.tls.requireClientCertificate needs downstream.tls.certificateFile...
downstream: {tls: {certificateFile: c, keyFile: k, requireClientCertificate: true}}
> downstream.tls.requireClientCertificate: needs authentication.clientCaFile or...
upstream: {url: http://a, identity: impersonate}
> upstream.identity impersonate needs upstream.tokenFile (--upstream-token-file), the proxy's own
upstream: {url: https://a, identity: frontProxy}
> upstream.identity: frontProxy over https needs upstream.tls.certificateFile, by which the...
upstream: {url: http://a, tls: {caFile: ca}}
> upstream.tls: http://a:80 is without TLS; write https, or leave upstream.tls out
authentication:
  frontProxy:
    usernameHeaders: [Authorization, content-LENGTH, Sec-WebSocket-Protocol]
    uidHeaders: [Transfer-Encoding, X-Forwarded-For]
    groupHeaders: [Impersonate-Group, Host]
    extraHeaderPrefixes: [Auth, X-, Content-, Imp, Impersonate-Extra-]
> authentication.frontProxy.usernameHeaders: Authorization means something else; choose...
> authentication.frontProxy.usernameHeaders: content-LENGTH means something else; choose...
> authentication.frontProxy.usernameHeaders: Sec-WebSocket-Protocol means something else...
> authentication.frontProxy.uidHeaders: Transfer-Encoding means something else; choose another...
> authentication.frontProxy.uidHeaders: X-Forwarded-For means something else; choose another name
> authentication.frontProxy.groupHeaders: Impersonate-Group means something else; choose...
> authentication.frontProxy.groupHeaders: Host means something else; choose another name
> authentication.frontProxy.extraHeaderPrefixes: Auth is the start of authorization too, which...
> authentication.frontProxy.extraHeaderPrefixes: X- is the start of x-forwarded-for too, which...
> authentication.frontProxy.extraHeaderPrefixes: Content- is the start of content-length too...
> authentication.frontProxy.extraHeaderPrefixes: Imp is the start of impersonate-user too...
> authentication.frontProxy.extraHeaderPrefixes: Impersonate-Extra- is the start of...
authentication: {apiKeys: {basic: true}}
> authentication.apiKeys needs authentication.apiKeys.file, which has the keys
authentication: {apiKeys: {file: k, header: ~}}
> authentication.apiKeys: no request can have a key; give header, bearer or basic
authentication: {apiKeys: {file: k, header: Host}}
> authentication.apiKeys.header: Host means something else; choose another name
authentication: {apiKeys: {file: k, header: X-Remote-User}}
> authentication.apiKeys.header: X-Remote-User means something else; choose another name
authentication: {apiKeys: {file: k, header: Authorization}}
> authentication.apiKeys.header: bearer and basic are for keys in Authorization
authentication: {apiKeys: {file: k, unknown: anonymous}, anonymous: false}
> authentication.apiKeys.unknown anonymous needs authentication.anonymous
authentication: {tokenFile: t, apiKeys: {file: k, bearer: true, unknown: anonymous}}
> authentication.apiKeys.unknown: anonymous does not go with bearer and another method for...
authentication: {tokenReview: {enabled: true}, apiKeys: {file: k, bearer: true, unknown:
  anonymous}}
> authentication.apiKeys.unknown: anonymous does not go with bearer and another method for...
authentication: {unverified: {address: true}, anonymous: false}
> authentication.unverified: needs authentication.anonymous; a client that names itself is...
authentication: {unverified: {headers: [X-Forwarded-For]}}
> authentication.unverified.headers: X-Forwarded-For means something else; choose another name
authentication: {unverified: {headers: [Impersonate-User]}}
> authentication.unverified.headers: Impersonate-User means something else; choose another name
authentication: {unverified: {secretHeaders: [Cookie]}}
> authentication.unverified.secretHeaders: Cookie means something else; unverified.cookies is...
authentication: {apiKeys: {file: k, header: X-Own}, unverified: {headers: [x-api-key]}}
> authentication.unverified.headers: x-api-key has a secret, and names are in logs...
authentication: {apiKeys: {file: k, header: X-Own}, unverified: {headers: [x-own]}}
> authentication.unverified.headers: x-own has a secret, and names are in logs; secretHeaders...
authentication: {apiKeys: {file: k, header: X-Own}, unverified: {secretHeaders: [X-A], headers:
  [X-a]}}
> authentication.unverified.headers: X-a has a secret, and names are in logs; secretHeaders is...
authentication: {unverified: {namesPerAddress: 9}}
> authentication.unverified.namesPerAddress needs authentication.unverified.address, by which...
authentication: {jwt: [{issuer: https://a, audiences: [b]}, {issuer: b}]}
> authentication.jwt[1].issuer: no https URL; without keysFile or jwksUrl its discovery is asked
> authentication.jwt[1].audiences: missing: any token of the issuer would do, for whomever
fleet: {lease: 2.9s, replicas: 3}
> fleet.replicas (--fleet-replicas) needs fleet.store (--fleet)
> fleet.lease: must be at least 3 times fleet.refreshInterval, as a member that misses one...
fleet: {store: rediss://a, certificateFile: a}
> fleet: certificateFile and keyFile go together; give both
fleet: {store: 'redis://:b@a', passwordFile: c}
> fleet.passwordFile: fleet.store has a password, too; leave that out
fleet: {store: 'kubernetes:a/b', passwordFile: c}
> fleet.passwordFile: is for a store whose URL begins with redis, not for kubernetes:a/b
fleet: {store: 'redis://a', sentinelPasswordFile: c}
> fleet.sentinelPasswordFile: is for a store whose URL begins with redis+sentinel, not for...
fleet: {store: 'redis://a', caFile: c}
> fleet.caFile: is for a store whose URL begins with rediss, not for redis://a:6379
fleet: {store: 'rediss://a', kubeconfig: c}
> fleet.kubeconfig: is for a store whose URL begins with kubernetes, not for rediss://a:6379
fleet: {store: 'kubernetes:a/b', context: c}
> fleet.context needs fleet.kubeconfig, which has the contexts
authentication: {jwt: [{audiences: []}]}
> authentication.jwt[0].issuer: missing: what the tokens have as iss; or give secretFile
> authentication.jwt[0].audiences: missing: any token of the issuer would do, for whomever
authentication: {jwt: [{issuer: https://i, audiences: [a], keysFile: k, jwksUrl: https://i/k}]}
> authentication.jwt[0].keysFile: and jwksUrl: give one of them
authentication: {jwt: [{issuer: https://i, audiences: [a], keysFile: k, caFile: c}]}
> authentication.jwt[0].caFile: of no use with keysFile
authentication: {jwt: [{secretFile: s, usernamePrefix: "system:", groupsPrefix: "system:a"}]}
> authentication.jwt[0].usernamePrefix: no token of a secret may name what begins with system:
> authentication.jwt[0].groupsPrefix: no token of a secret may name what begins with system:
authentication: {jwt: [{secretFile: s, caFile: c, serviceAccounts: true}]}
> authentication.jwt[0].caFile: of no use with secretFile
> authentication.jwt[0].serviceAccounts: their tokens are signed with a private key; give keysFile
authentication: {jwt: [{keysFile: k, jwksUrl: https://i, secretFile: s}]}
> authentication.jwt[0].keysFile: and jwksUrl and secretFile: give one of them
authentication: {anonymous: false, jwt: [{issuer: https://i, audiences: [a], secretIsBase64: true,
  unnamed: anonymous}]}
> authentication.jwt[0].secretIsBase64: needs secretFile
> authentication.jwt[0].unnamed: anonymous needs authentication.anonymous
authentication: {jwt: [{issuer: https://i, audiences: [a], jwksUrl: http://x.example/}]}
> authentication.jwt[0].jwksUrl: not https: others on the way could sign tokens
authentication: {jwt: [{issuer: https://i, audiences: [a], jwksUrl: https://a:b@x.example/}]}
> authentication.jwt[0].jwksUrl: has a user or password, which would be shown in logs
authentication: {jwt: [{issuer: https://i, audiences: [a], jwksUrl: 'https://x.example/#a'}]}
> authentication.jwt[0].jwksUrl: has a fragment
authentication: {jwt: [{issuer: https://x.example:x/, audiences: [a]}]}
> authentication.jwt[0].issuer: no URL; without keysFile or jwksUrl its discovery is asked
authentication: {jwt: [{issuer: http://x.example, audiences: [a]}]}
> authentication.jwt[0].issuer: not https: others on the way could sign tokens; without...
authentication: {jwt: [{issuer: kubernetes, audiences: [a]}]}
> authentication.jwt[0].issuer: no https URL; without keysFile or jwksUrl its discovery is asked
authentication: {jwt: [{issuer: 'https://i?a', audiences: [a]}]}
> authentication.jwt[0].issuer: has a query, so that discovery has no URL
authentication: {jwt: [{issuer: kubernetes/serviceaccount, audiences: [a], keysFile: k}]}
> authentication.jwt[0].serviceAccounts: must be true for this issuer
"""
"""Settings, and behind `>` the begin of each thing that is wrong with them."""
RIGHT = """
{upstream: {endpoints: [{url: http://a}, {url: 'unix:/a'}]}}
{upstream: {url: http://a, identity: frontProxy}}
{upstream: {url: https://a, identity: frontProxy, identityWithoutCertificate: true}}
{preset: http, request: {pathPrefixes: ['/api/{v}'], longRunning: {verbs: [report]}}}
{downstream: {tls: {certificateFile: c, keyFile: k}}, authentication: {clientCaFile: ca}}
{authentication: {frontProxy: {usernameHeaders: [X-Forwarded-User, X-Remote-User], extraHeaderPrefixes: [X-Forwarded-Extra-]}}}
{downstream: {listen: '127.0.0.1:0'}, admin: '127.0.0.1:0'}
{downstream: {listen: '0.0.0.0:81'}, admin: '[::1]:81'}
{downstream: {listen: '10.0.0.1:81'}, admin: '127.0.0.1:81'}
{downstream: {listen: 'unix:/a'}, admin: 'unix:/b'}
{adminTls: {certificateFile: a, keyFile: b, clientCaFile: c}}
{downstream: {proxyProtocol: true, trustedProxies: [10.0.0.0/8]}}
{downstream: {proxyProtocol: true, listen: 'unix:/a'}}
{fleet: {lease: 3s}}
{fleet: {store: 'redis://a@b', passwordFile: c, replicas: 3}}
{fleet: {store: rediss://a, caFile: a, certificateFile: b, keyFile: c}}
{fleet: {store: 'kubernetes:a/b', kubeconfig: a, context: b}}
{fleet: {store: rediss+sentinel://a/b, sentinelPasswordFile: c, caFile: d}}
{authentication: {tokenFile: t, apiKeys: {file: k, unknown: anonymous}, unverified: {secretHeaders: [X-API-Key, Authorization]}}}
{authentication: {jwt: [{issuer: https://i, audiences: [a]}]}}
{authentication: {jwt: [{issuer: x, audiences: [a], keysFile: k}]}}
{authentication: {jwt: [{secretFile: s, secretIsBase64: true, unnamed: anonymous}]}}
{authentication: {jwt: [{issuer: x, audiences: [a], jwksUrl: https://i/k}]}}
{authentication: {jwt: [{issuer: 'http://[::1]:8', audiences: [a]}]}}
"""  # noqa: E501  a case a line
"""Settings that go together, a case a line."""
WARNINGS = """
request: {longRunning: {verbs: [watch, proxy, foo], subresources: [attach, exec, log, portforward,
  proxy, vnc], pathPrefixes: [/debug/pprof/, /a]}}
>
request: {longRunning: {verbs: [watch, proxi], subresources: [exec, vnc], pathPrefixes: []}}
> request.longRunning.verbs leaves out proxy, which kube-apiserver takes for long-running...
> request.longRunning.subresources leaves out attach, log, portforward, proxy, which...
> request.longRunning.pathPrefixes leaves out /debug/pprof/, which kube-apiserver takes for...
> request.longRunning.verbs has proxi: did you mean proxy?
upstream: {identityWithoutCertificate: true}
> upstream.identityWithoutCertificate is for upstream.identity frontProxy alone
flowControl: {autoLimit: {min: 4}}
> flowControl.autoLimit is of no use, since the limit is fixed; set...
flowControl: {serverConcurrencyLimit: auto, autoLimit: {min: 4}}
>
flowControl: {maxListSeats: 90}
>
flowControl: {perEndpoint: 8, maxListSeats: 200}
>
flowControl: {serverConcurrencyLimit: auto, maxListSeats: 301}
> flowControl.maxListSeats is 301: a request may take 15 % of the seats of a level with queues...
preset: http
flowControl: {maxListSeats: 20}
> flowControl.maxListSeats is of no use: with the preset http no request is a LIST
preset: llm
> flowControl.serverConcurrencyLimit (--server-concurrency-limit) is 600, the default: a model...
preset: llm
flowControl: {serverConcurrencyLimit: 8}
>
preset: llm
flowControl: {perEndpoint: 8}
upstream: {endpoints: [{url: http://a}, {url: http://b}]}
>
preset: http
request: {longRunning: {verbs: [get]}}
upstream: {upgrades: {allow: [/a]}}
> upstream.upgrades.allow: with the preset http WebSockets are served on any path; name...
> request.longRunning.verbs has get: all such requests take no seats, so that nothing limits...
upstream: {tls: {certificateFile: c, keyFile: k}}
authentication: {clientCaFile: ca}
> upstream.tls.certificateFile with upstream.identity passThrough: a server that takes the...
> authentication.clientCaFile with upstream.identity passThrough: users with certificates are...
upstream: {identity: frontProxy, tls: {certificateFile: c, keyFile: k}}
authentication: {clientCaFile: ca}
>
upstream: {identity: frontProxy}
authentication: {clientCaFile: ca, frontProxy: {caFile: ca}}
> authentication.frontProxy.caFile is authentication.clientCaFile, and allowedNames is empty...
authentication: {tokenReview: {enabled: true}, impersonation: {accessReview: {enabled: true}}}
> authentication.tokenReview without upstream.tokenFile and upstream.tls.certificateFile: the...
> authentication.impersonation.accessReview without upstream.tokenFile and...
upstream: {tokenFile: t}
authentication: {tokenReview: {enabled: true}}
>
authentication: {anonymous: false}
> authentication.anonymous is false, and no other way to authenticate is on: every request...
authentication: {anonymous: false, apiKeys: {file: k}}
>
downstream: {trustedProxies: [0.0.0.0/0, 10.0.0.0/8]}
> downstream.trustedProxies has 0.0.0.0/0: every client can claim any address
downstream: {listen: ':8000'}
upstream: {url: http://127.0.0.1:8000}
> the server behind, http://127.0.0.1:8000, is the proxy itself (downstream.listen, --listen)...
downstream: {listen: '127.0.0.1:8000'}
upstream: {endpoints: [url: http://127.0.0.1:8000]}
> the server behind, http://127.0.0.1:8000, is the proxy itself (downstream.listen, --listen)...
downstream: {listen: '127.0.0.2:8000'}
upstream: {url: http://127.0.0.1:8000}
>
downstream: {listen: 'unix:/run/a.sock'}
upstream: {url: http://127.0.0.1:8000}
>
"""
MANY = ", ".join(["{url: http://a}"] * 257)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        *cases(PROBLEMS),
        *((text, []) for text in RIGHT.strip().splitlines()),
        (f"upstream: {{endpoints: [{MANY}]}}", ["upstream.endpoints (--upstream): more than 256"]),
    ],
)
def test_problems(text: str, problems: list[str]) -> None:
    found = contradictions(settings(text))
    assert problems == shortened(found, problems)


def test_a_line_for_each_problem() -> None:
    with pytest.raises(ConflictError, match=r"adminTls: .*\nfleet: .*both\Z"):
        check(settings("adminTls: {keyFile: a}\nfleet: {keyFile: a}"))


@pytest.mark.parametrize(("text", "expected"), [*cases(WARNINGS)])
def test_warnings(text: str, expected: list[str]) -> None:
    found = warnings(settings(text))
    assert expected == shortened(found, expected)


PRESET = UnverifiedSettings(
    secret_headers=SECRETS_OF_PLAIN_APIS, is_by_address=True, names_per_address=NAMES_PER_ADDRESS
)
ADDRESS = UnverifiedSettings(is_by_address=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", PRESET),
        ("unverified: {namesPerAddress: 9}", structs.replace(PRESET, names_per_address=9)),
        ("unverified: {address: true}", PRESET),
        ("unverified: {address: false}", UnverifiedSettings(is_by_address=False)),
        ("unverified: {cookies: [s]}", structs.replace(PRESET, cookies=("s",))),
        ("unverified: {secretHeaders: []}", structs.replace(ADDRESS, secret_headers=())),
        ("unverified: {secretHeaders: [X-K]}", structs.replace(ADDRESS, secret_headers=("X-K",))),
        ("unverified: {headers: [X-Id]}", structs.replace(ADDRESS, headers=("X-Id",))),
        ("unverified: {basic: true}", structs.replace(ADDRESS, is_by_basic=True)),
        ("tokenFile: t", ADDRESS),
        ("tokenFile: t, anonymous: false", UnverifiedSettings()),
    ],
)
def test_what_is_left_to_the_preset(text: str, expected: UnverifiedSettings) -> None:
    """With the preset http, what tells clients apart; with that of Kubernetes, nothing."""
    kubernetes = settings(f"authentication: {{{text}}}")
    plain = structs.replace(kubernetes, preset=HTTP_API)
    assert expected == as_preset(plain).authentication.unverified
    assert as_preset(plain) == as_preset(as_preset(plain))
    assert kubernetes == as_preset(kubernetes)
    assert [] == contradictions(plain)


ONE_FLOW = """
downstream: {trustedProxies: ['::1']}
authentication: {impersonation: {users: [a]}}
> authentication: all clients are one flow (system:anonymous), so a greedy one delays the rest...
preset: http
authentication: {unverified: {address: false}}
> authentication: all clients are one flow (system:anonymous), so a greedy one delays the rest...
preset: http
>
authentication: {unverified: {address: true}}
>
authentication: {anonymous: false}
>
authentication: {tokenFile: t}
>
authentication: {apiKeys: {file: k}}
>
authentication: {jwt: [{issuer: a}]}
>
downstream: {identityHeadersFrom: ['::1']}
>
"""


@pytest.mark.parametrize(("text", "expected"), [*cases(ONE_FLOW)])
def test_all_clients_as_one_flow(text: str, expected: list[str]) -> None:
    """It says where to change that, and how: by another preset, too."""
    found = [*filter(None, [one_flow(as_preset(settings(text)))])]
    assert expected == shortened(found, expected)
    assert all(("or preset http" in each) == ("preset" not in text) for each in found)


TLS = ", certificateFile: c, keyFile: k"
NAMES, IN_PLAIN_TEXT = "names of users", "can be read on its way"


@pytest.mark.parametrize(
    ("text", "is_here", "warning"),
    [
        ("admin: 0.0.0.0:1", None, NAMES),
        (f"admin: 0.0.0.0:1\nadminTls: {{{TLS[2:]}}}", None, NAMES),
        ("admin: 0.0.0.0:1\nadminReadTokenFile: t", None, IN_PLAIN_TEXT),
        (f"admin: 0.0.0.0:1\nadminReadTokenFile: t\nadminTls: {{{TLS[2:]}}}", None, ""),
        (f"admin: 0.0.0.0:1\nadminTls: {{clientCaFile: c{TLS}}}", None, ""),
        ("admin: localhost:1", None, ""),
        ("admin: unix:/a", None, ""),
        ("admin: ~", None, ""),
        ("admin: localhost:1", False, NAMES),
        ("admin: 0.0.0.0:1", True, ""),
    ],
)
def test_admin_listener_that_others_reach(text: str, is_here: bool | None, warning: str) -> None:
    """They need credentials, and have them over TLS; a given socket is where it is."""
    found = access_warning(settings(text), is_here=is_here)
    assert bool(warning) == bool(found)
    assert warning in found


FLEETS = """
flowControl: {serverConcurrencyLimit: 1}
> flowControl.serverConcurrencyLimit: 1 seat for 2 workers: a worker without one rejects...
flowControl: {perEndpoint: 5}
upstream: {url: http://a}
fleet: {store: redis://a, replicas: 3}
> flowControl.perEndpoint: 5 seats for 6 members of the fleet: a member without one rejects...
flowControl: {serverConcurrencyLimit: 1}
clusters: [{name: a, hosts: [a]}, {name: b, hosts: [b], flowControl: {perEndpoint: 9}}, {name: c}]
> clusters[a].flowControl.serverConcurrencyLimit: 1 seat for 2 workers: a worker without one...
flowControl: {serverConcurrencyLimit: 2}
>
fleet: {store: redis://a, replicas: 300}
>
flowControl: {perEndpoint: 2}
upstream: {service: {name: a}}
fleet: {store: redis://a, replicas: 3}
>
"""


@pytest.mark.parametrize(("text", "expected"), [*cases(FLEETS)])
def test_fleets_with_too_few_seats(text: str, expected: list[str]) -> None:
    assert expected == shortened([*fleet_warnings(settings(text), 2)], expected)


def test_fleet_of_one() -> None:
    (found,) = fleet_warnings(settings("fleet: {store: redis://a, replicas: 1}"), 1)
    assert found.startswith("fleet.replicas: 1 counts as 2")


GOOD = "upstream: {url: 'http://all'}\nclusters:\n- {name: good, hosts: [good]}\n"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("- {name: a, hosts: [a]}", []),
        ("- {name: a}", ["clusters[a]: needs hosts"]),
        (
            "- {name: a, hosts: [a], authentication: {clientCaFile: a}}",
            ["clusters[a].authentication.clientCaFile (--client-ca-file) needs downstream.tls"],
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
        "clusters[b].upstream.identity impersonate needs upstream",
        "clusters[b]: downstream.tls.requireClientCertificate: needs authentication",
        (
            "clusters[b].flowControl.store: is for one cluster alone; name flowControl.objects or"
            " flowControl.kubernetes"
        ),
    ] == [re.sub(r"(needs \w+).*", r"\1", each).partition(":11: ")[2] for each in two.problems]
    assert f"{path}:12: clusters[c].upstream.url: say where to forward" in three.problems[0]
