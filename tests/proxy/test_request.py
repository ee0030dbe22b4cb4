"""Requests: what heads ask for, with who asks and how that was classified; kinds of clients."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.authn.authenticator import Authentication, Authenticator
from apfproxy.authn.certificates import ClientCertificates
from apfproxy.authn.credentials import UNKNOWN_PEER, Peer
from apfproxy.http.grammar import HeadError
from apfproxy.proxy import request as request_module
from apfproxy.proxy.request import ClientKinds
from apfproxy.request.attributes import User
from apfproxy.settings import (
    Address,
    ApiKeySettings,
    AuthenticationSettings,
    DownstreamSettings,
    UnverifiedSettings,
    UpstreamSettings,
)
from tests.proxy.fakes import GET, OK, Bench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.proxy.request import ClientKind, Request
    from tests.support.clocks import VirtualClock


def prepare(bench: Bench, line: bytes) -> Request:
    return bench.request_of(line + b" HTTP/1.1\r\nHost: h\r\n\r\n")


def test_equal_fields_are_of_one_user(bench: Bench) -> None:
    first = bench.request_of(GET)
    again = bench.request_of(GET)
    bench.request_of(GET)
    assert "system:anonymous" == first.user.name
    again.take_authentication(Authentication(User("ann", ()), b"X-Remote-User: ann\r\n", 9))
    other = bench.request_of(GET.replace(b"/b ", b"/c "))

    assert ("ann", 9) == (other.user.name, other.authenticated_until_ns)
    assert b"X-Remote-User: ann\r\n" == other.user_lines
    assert b"X-Remote-User" not in other.head.forwarded()


@pytest.mark.parametrize(
    ("lines", "name", "expected"),
    [
        pytest.param(b"X-Tenant: blue\r\n", "x-tenant", "blue", id="one"),
        pytest.param(b"x-tenant:blue\r\nX-Tenant: red\r\n", "X-Tenant", "blue", id="first"),
        pytest.param(b"X-Tenant:  \r\n", "x-tenant", "", id="empty"),
        pytest.param(b"A-X-Tenant: red\r\n", "x-tenant", "", id="none"),
        pytest.param(b"Other: x-tenant: red\r\n", "x-tenant", "", id="in-another"),
        pytest.param(b"X-Tenant: \xc3\xa4\xff\r\n", "x-tenant", "\u00e4\ufffd", id="no-text"),
        pytest.param(b"X-Remote-User: root\r\n", "x-remote-user", "", id="not-forwarded"),
    ],
)
def test_header(bench: Bench, lines: bytes, name: str, expected: str) -> None:
    assert expected == bench.request_of(GET[:-2] + lines + b"\r\n").header(name)


def test_secrets() -> None:
    keys = ApiKeySettings(file="keys.csv", header="X-Key")
    unverified = UnverifiedSettings(secret_headers=("X-Old-Key",))
    authentication = AuthenticationSettings(api_keys=keys, unverified=unverified)
    with Bench(authentication=authentication) as bench:
        head = GET[:-2] + b"X-Old-Key: abc\r\nX-Key: abc\r\nX-Team: abc\r\n\r\n"
        request = bench.request_of(head)

        assert "ba7816bf8f01cfea" == request.header("x-old-key") == request.header("X-Key")
        assert "abc" == request.header("x-team")
        assert "" == bench.request_of(GET[:-2] + b"X-Key: \r\n\r\n").header("x-key")


POD = b"/api/v1/namespaces/a/pods/b"


@pytest.mark.parametrize(
    ("line", "fields", "expected"),
    [
        pytest.param(b"GET /", b"", True, id="get"),
        pytest.param(b"HEAD /", b"", True, id="head"),
        pytest.param(b"GET /api/v1/pods?watch=1", b"", True, id="watch"),
        pytest.param(b"GET " + POD + b"/proxy/x", b"", True, id="proxy"),
        pytest.param(b"GET /exec", b"", True, id="no-resource"),
        pytest.param(b"GET " + POD + b"/exec", b"", False, id="exec"),
        pytest.param(b"GET " + POD + b"/portforward", b"", False, id="portforward"),
        pytest.param(b"GET /", b"Content-Length: 1\r\n", False, id="body"),
        pytest.param(b"PUT " + POD, b"If-Match: 1\r\n", False, id="put-with-a-precondition"),
        pytest.param(b"DELETE " + POD, b"", False, id="delete"),
        pytest.param(b"POST /", b"", False, id="post"),
        pytest.param(b"GET /", b"X-HTTP-Method-Override: PUT\r\n", False, id="override"),
        pytest.param(b"GET /", b"x-http-method: GET\r\n", False, id="another-override"),
        pytest.param(b"GET /", b"X_HTTP_Method_Override: PUT\r\n", False, id="as-wsgi-reads-it"),
        pytest.param(
            b"GET /",
            b"Connection: X-HTTP-Method\r\nX-HTTP-Method: PUT\r\n",
            True,
            id="not-forwarded",
        ),
        pytest.param(
            b"GET " + POD + b"/proxy",
            b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n",
            False,
            id="upgrade",
        ),
    ],
)
def test_what_a_second_server_may_get(
    bench: Bench, line: bytes, fields: bytes, *, expected: bool
) -> None:
    head = bench.request_of(line + b" HTTP/1.1\r\nHost: h\r\n" + fields + b"\r\n")

    assert expected == head.is_repeatable


@pytest.mark.parametrize(
    ("line", "verb", "is_watch", "takes_seats", "is_fixed"),
    [
        pytest.param(b"GET /api/v1/pods/a", "get", False, True, True, id="get"),
        pytest.param(b"GET /api/v1/pods", "list", False, True, False, id="list"),
        pytest.param(b"POST /api/v1/namespaces/a/pods", "create", False, True, False, id="create"),
        pytest.param(
            b"GET /api/v1/pods?watch=1&resourceVersion=5", "watch", True, True, True, id="watch"
        ),
        pytest.param(
            b"GET /api/v1/pods?watch=1&sendInitialEvents=1", "watch", True, True, False, id="stream"
        ),
        pytest.param(b"GET /api/v1/watch/pods", "watch", True, True, False, id="deprecated-watch"),
        pytest.param(b"GET /api/v1/namespaces/a/pods/b/log", "get", False, False, True, id="log"),
        pytest.param(
            b"POST /api/v1/namespaces/a/pods/b/exec", "create", False, False, False, id="exec"
        ),
        pytest.param(b"GET /healthz", "get", False, True, True, id="other-path"),
        pytest.param(b"GET /debug/pprof/profile", "get", False, False, True, id="profile"),
    ],
)
def test_prepares(
    bench: Bench, line: bytes, verb: str, is_watch: bool, takes_seats: bool, is_fixed: bool
) -> None:
    request = prepare(bench, line)

    assert verb == request.attributes.verb
    assert (is_watch, takes_seats) == (request.is_watch, request.takes_seats)
    assert is_fixed == (request.fixed_estimate is not None)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"GET /%zz", id="escape"),
        pytest.param(b"GET /api/v1/watch", id="nothing-to-watch"),
        pytest.param(b"GET /api/v1/watch/", id="nothing-to-watch-before-a-slash"),
        pytest.param(b"DELETE /apis/apps/v1/proxy", id="nothing-to-proxy"),
        pytest.param(b"GET /api/v1/pods?timeout=x", id="timeout"),
    ],
)
def test_refuses(bench: Bench, line: bytes) -> None:
    for _ in range(2):
        with pytest.raises(HeadError) as refused:
            prepare(bench, line)
        assert 400 == refused.value.code


@pytest.mark.parametrize(
    ("line", "has_headers"),
    [
        pytest.param(b"GET /api/v1/namespaces/a/pods/b", True, id="get"),
        pytest.param(b"GET /api/v1/pods?watch=1", True, id="watch"),
        pytest.param(b"POST /api/v1/namespaces/a/pods/b/exec", False, id="exec"),
        pytest.param(b"GET /api/v1/namespaces/a/pods/b/attach", False, id="attach"),
        pytest.param(b"POST /api/v1/namespaces/a/pods/b/portforward", False, id="port-forward"),
        pytest.param(b"GET /api/v1/nodes/a/proxy/metrics", False, id="proxy"),
        pytest.param(b"GET /api/v1/namespaces/a/pods/b/log?follow=1", False, id="log"),
    ],
)
def test_long_running_requests_name_no_class(bench: Bench, line: bytes, has_headers: bool) -> None:
    request = prepare(bench, line)
    lines = request.class_lines(bench.flow_control.classify(request))

    assert has_headers == (b"X-Kubernetes-PF-" in lines)


def test_classifies_once_per_configuration(bench: Bench) -> None:
    request = prepare(bench, b"GET /refusing")
    found = bench.flow_control.classify(request)
    assert found is bench.flow_control.classify(request)
    assert "refusing" == found.level.name
    uid = found.priority_level_uid.encode()
    expected = (
        b"X-Kubernetes-PF-FlowSchema-UID: schema-uid\r\n"
        b"X-Kubernetes-PF-PriorityLevel-UID: " + uid + b"\r\n"
    )
    assert expected == request.class_lines(found)
    bench.controller.commit(bench.controller.digest([]))

    other = bench.flow_control.classify(request)
    assert "catch-all" == other.level.name
    assert other.priority_level_uid.encode() in request.class_lines(other)


def test_no_uid_ends_a_header_line(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    request = prepare(bench, b"GET /refusing")
    found = bench.controller.classify(request.user, request.attributes, request.header)
    found.flow_schema_uid, found.priority_level_uid = "a\r\nX-Evil: 1", "\ud800\0\u00fc \x85z"
    monkeypatch.setattr(type(bench.controller), "classify", lambda *_: found)
    assert request.class_lines(bench.flow_control.classify(request)) == (
        b"X-Kubernetes-PF-FlowSchema-UID: a__X-Evil:_1\r\n"
        b"X-Kubernetes-PF-PriorityLevel-UID: _____z\r\n"
    )


GET_10 = b"GET / HTTP/1.0\r\n\r\n"


@pytest.mark.parametrize(
    ("upstream", "host"),
    [
        pytest.param(
            UpstreamSettings(url=Address(host="127.0.0.1", port=80)),
            b"127.0.0.1:80",
            id="address",
        ),
        pytest.param(UpstreamSettings(url=Address(host="::1", port=8)), b"[::1]:8", id="ipv6"),
        pytest.param(UpstreamSettings(host_header="api"), b"api", id="set"),
    ],
)
def test_host_of_the_upstream(upstream: UpstreamSettings, host: bytes) -> None:
    with Bench(upstream=upstream) as bench:
        client = bench.ask(GET_10)
        assert b"\r\nHost: " + host + b"\r\n" in bench.upstreams[0].take()
        bench.end(client)


class Certificates(ClientCertificates):
    def judge(self, leaf_der: bytes, chain: Sequence[bytes] = ()) -> Peer:  # noqa: ARG002  the protocol's signature
        return Peer(User(leaf_der.decode(), ()), has_certificate=True)


def authenticator(clock: VirtualClock) -> Authenticator:
    result = Authenticator(clock)
    result.certificates = Certificates(None, None)
    return result


def authenticating() -> Bench:
    """A data plane for which certificates name users, and 10.1.0.0/16 is trusted."""
    return Bench(
        downstream=DownstreamSettings(identity_headers_from=(ipaddress.ip_network("10.1.0.0/16"),)),
        authenticator=authenticator,
    )


@pytest.mark.parametrize(
    ("address", "certificate", "expected"),
    [
        pytest.param("10.0.0.1", None, UNKNOWN_PEER, id="nobody"),
        pytest.param("10.1.0.1", None, Peer(is_front_proxy=True), id="trusted-address"),
        pytest.param("::ffff:10.1.0.1", None, Peer(is_front_proxy=True), id="mapped"),
        pytest.param("unknown", None, UNKNOWN_PEER, id="no-address"),
        pytest.param("10.0.0.1", b"a", Peer(User("a", ()), has_certificate=True), id="certificate"),
        pytest.param(
            "10.1.0.1",
            b"a",
            Peer(User("a", ()), is_front_proxy=True, has_certificate=True),
            id="certificate-at-a-trusted-address",
        ),
    ],
)
def test_kinds_of_clients(address: str, certificate: bytes | None, expected: Peer) -> None:
    with authenticating() as bench:
        kind = bench.context.client_kinds.kind_of(address, certificate)
        assert expected == kind.peer
        assert kind is bench.context.client_kinds.kind_of(address, certificate)


def test_clients_of_different_kinds_share_nothing() -> None:
    with authenticating() as bench:
        kinds = [
            bench.context.client_kinds.kind_of(
                address, certificate, is_tls=is_tls, is_http2=is_http2
            )
            for address in ("10.0.0.1", "10.1.0.1")
            for certificate in (None, b"alice", b"bob")
            for is_tls in (False, True)
            for is_http2 in (False, True)
        ]

    assert len(kinds) == len({id(kind.blocks) for kind in kinds})


def test_kinds_of_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_module, "MAX_KINDS", 3)
    with authenticating() as bench:
        kinds = bench.context.client_kinds
        first = kinds.kind_of("10.0.0.1", b"first")
        for number in range(3):
            kinds.kind_of("10.0.0.1", b"%d" % number)

        assert first is not kinds.kind_of("10.0.0.1", b"first")


@pytest.mark.interpreted
def test_clients_are_looked_at_when_they_ask(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [bench.client() for _ in range(3)]
    looks: list[str] = []
    kind_of = ClientKinds.kind_of

    def looking(kinds: ClientKinds, address: str, *args: Any, **names: Any) -> ClientKind:  # noqa: ANN401
        looks.append(address)
        return kind_of(kinds, address, *args, **names)

    monkeypatch.setattr(ClientKinds, "kind_of", looking)
    bench.context.forget_authentications()
    assert [] == looks
    for _ in range(2):
        bench.send(clients[0], GET)
        bench.send(bench.upstreams[0], OK)

    assert ["10.0.0.1"] == looks
