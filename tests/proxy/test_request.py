"""Requests: heads with their user, and how they were classified."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.authn.authenticator import Authentication
from apfproxy.request.user import User
from apfproxy.settings import ApiKeySettings, AuthenticationSettings, UnverifiedSettings
from tests.proxy.fakes import GET, Bench

if TYPE_CHECKING:
    from apfproxy.proxy.request import Request


def request_of(bench: Bench, head: bytes) -> Request:
    """The request of a head."""
    return bench.context.client_kinds.kind_of("10.0.0.1").read(head, [])


def test_whoever_asks(bench: Bench) -> None:
    """An identity holds for all requests with the same fields, and is not in the head."""
    first = request_of(bench, GET)
    again = request_of(bench, GET)
    request_of(bench, GET)
    assert "system:anonymous" == first.user.name
    again.take_authentication(Authentication(User("ann", ()), b"X-Remote-User: ann\r\n", 9))
    other = request_of(bench, GET.replace(b"/b ", b"/c "))

    assert ("ann", 9) == (other.user.name, other.authenticated_until_ns)
    assert b"X-Remote-User: ann\r\n" == other.user_lines
    assert b"X-Remote-User" not in other.head.forwarded()
    assert "<Request GET b'/api/v1/namespaces/a/pods/c'>" == repr(other)


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
    """The first value of a field that the upstream gets, too."""
    assert expected == request_of(bench, GET[:-2] + lines + b"\r\n").header(name)


def test_secrets() -> None:
    """Whatever is named by a field that holds a secret is named by its hash."""
    keys = ApiKeySettings(file="keys.csv", header="X-Key")
    unverified = UnverifiedSettings(secret_headers=("X-Old-Key",))
    authentication = AuthenticationSettings(api_keys=keys, unverified=unverified)
    with Bench(authentication=authentication) as bench:
        head = GET[:-2] + b"X-Old-Key: abc\r\nX-Key: abc\r\nX-Team: abc\r\n\r\n"
        request = request_of(bench, head)

        assert "ba7816bf8f01cfea" == request.header("x-old-key") == request.header("X-Key")
        assert "abc" == request.header("x-team")
        assert "" == request_of(bench, GET[:-2] + b"X-Key: \r\n\r\n").header("x-key")


POD = b"/api/v1/namespaces/a/pods/b"


@pytest.mark.parametrize(
    ("line", "fields", "expected"),
    [
        pytest.param(b"GET /", b"", True, id="get"),
        pytest.param(b"HEAD /", b"", True, id="head"),
        pytest.param(b"OPTIONS /", b"", True, id="options"),
        pytest.param(b"GET " + POD + b"/log?follow=1", b"", True, id="log"),
        pytest.param(b"GET /api/v1/pods?watch=1", b"", True, id="watch"),
        pytest.param(b"GET " + POD + b"/proxy/x", b"", True, id="proxy"),
        pytest.param(b"GET /exec", b"", True, id="no-resource"),
        pytest.param(b"GET " + POD + b"/exec", b"", False, id="exec"),
        pytest.param(b"GET " + POD + b"/attach", b"", False, id="attach"),
        pytest.param(b"GET " + POD + b"/portforward", b"", False, id="portforward"),
        pytest.param(b"GET /", b"Content-Length: 1\r\n", False, id="body"),
        pytest.param(b"PUT " + POD, b"", False, id="put"),
        pytest.param(b"PUT " + POD, b"If-Match: 1\r\n", False, id="put-with-a-precondition"),
        pytest.param(b"DELETE " + POD, b"", False, id="delete"),
        pytest.param(b"POST /", b"", False, id="post"),
        pytest.param(b"PATCH /", b"", False, id="patch"),
        pytest.param(b"GET /", b"X-HTTP-Method-Override: PUT\r\n", False, id="override"),
        pytest.param(b"GET /", b"x-http-method: GET\r\n", False, id="another-override"),
        pytest.param(b"GET /", b"X-Method-Override: PUT\r\n", False, id="a-third-override"),
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
    """What is safe by its method, if that is what it means."""
    head = request_of(bench, line + b" HTTP/1.1\r\nHost: h\r\n" + fields + b"\r\n")

    assert expected == head.is_repeatable
