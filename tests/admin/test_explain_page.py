"""Requests to explain: questions to `/debug/explain`, and heads as they stand on the wire."""

from __future__ import annotations

import pytest

from apfproxy.admin.explain_page import (
    CLAIMS,
    IMPERSONATES,
    MAX_PARAMETERS,
    NAMELESS,
    question,
    read_raw_request,
    request_of_line,
)
from apfproxy.flowcontrol.classifier import MODEL, QUERY
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import DownstreamSettings, Settings

HANDSHAKE = (
    b"GET /api/v1/namespaces/x/pods/y/exec HTTP/1.1\nHost: a\nConnection: Upgrade\n"
    b"Upgrade: websocket\nSec-WebSocket-Version: 12\n"
)
START = b"POST /api/v1/namespaces?dryRun=All HTTP/1.1\r\nHost: a.test\r\n"


@pytest.mark.parametrize(
    "data",
    [
        START + b"Content-Length: 3\r\n\r\nabc",
        START,
        b"\n" + START.replace(b"\r\n", b"\n") + b"\nx\n",
        START.replace(b"\r\n", b"\n") + b"Content-Length: 4\n\na\r\nb",
        b"\r\n\r\n" + START + b"\r\n",
        START + b"X" * 70 + b": 1\r\n\r\n",
    ],
    ids=["body", "no-end", "bare-lf-and-body", "lf-then-crlf", "empty-lines-first", "long-name"],
)
def test_request(data: bytes) -> None:
    found = read_raw_request(data)

    assert ("POST", b"/api/v1/namespaces?dryRun=All") == (found.method, found.target)
    assert (ANONYMOUS, ()) == (found.user, found.notes)


@pytest.mark.parametrize(
    ("fields", "user", "notes"),
    [
        pytest.param(b"Authorization: Bearer abc\r\n", ANONYMOUS, (NAMELESS,), id="token"),
        pytest.param(
            b"X-Remote-User: ann\r\nX-Remote-Group: dev\r\n",
            User("ann", ("dev", "system:authenticated")),
            (CLAIMS,),
            id="front-proxy",
        ),
        pytest.param(
            b"Authorization: Bearer abc\r\nImpersonate-User: bob\r\n",
            User("bob", ("system:authenticated",)),
            (IMPERSONATES.format(name="bob"),),
            id="impersonation",
        ),
    ],
)
def test_who_asks(fields: bytes, user: User, notes: tuple[str, ...]) -> None:
    """Fields that name a user are believed, with a note; tokens name no one here."""
    found = read_raw_request(START + fields + b"\r\n")

    assert (user, notes) == (found.user, found.notes)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(b"", {}, id="none"),
        pytest.param(b"X-Team:  red \r\nx-team: blue\r\n", {"x-team": "red"}, id="first"),
        pytest.param(b"X-Team: \xff\xc3\xa9\r\n", {"x-team": "\ufffd\xe9"}, id="no-unicode"),
        pytest.param(b"X-Forwarded-For: b, c\r\n", {"x-forwarded-for": "b, c, "}, id="completed"),
        pytest.param(b"Connection: x-team\r\nX-Team: red\r\n", {}, id="not-forwarded"),
        pytest.param(
            b"Cookie: a=b\r\nAuthorization: Basic x\r\nProxy-Authorization: Basic x\r\n"
            b"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.eA\r\n",
            {},
            id="secrets",
        ),
    ],
)
def test_headers(fields: bytes, expected: dict[str, str]) -> None:
    found = dict(read_raw_request(START + fields).headers)
    added = {"host": "a.test", "via": "1.1 apfproxy", "x-forwarded-proto": "http"}

    assert {**added, "x-forwarded-for": "", **expected} == found


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\r\n\r\n", "there is no request on standard input"),
        (b"hello\n", "the proxy would answer 400: malformed request"),
        (b"GET / HTTP/1.1\n", "answer 400: a request must have exactly one valid Host field"),
        (START + b"a: b\r\n" * 256, "the proxy would answer 431"),
        (START + b"a: " + b"b" * 70_000, "longer than 65536 bytes"),
        (
            HANDSHAKE,
            "the proxy would answer 426: the only version of WebSocket that is served is 13",
        ),
    ],
    ids=["empty-lines", "no-request", "no-host", "many-fields", "long", "handshake"],
)
def test_refused(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_raw_request(data)


def test_other_limits() -> None:
    settings = Settings(downstream=DownstreamSettings(max_target_bytes=64))
    target = b"/" + b"a" * 64

    assert target == request_of_line("GET", target).target
    with pytest.raises(ValueError, match="the proxy would answer 414"):
        request_of_line("GET", target, settings)


# Questions to the page.


@pytest.mark.parametrize(
    ("query", "name", "groups", "verb", "path"),
    [
        ("target=/a?a=b%2Bc", *("system:anonymous", "system:unauthenticated"), *("get", "/a")),
        (
            "target=%2Fa%2520b&method=POST&user=a%FF",
            *("a\udcff", "system:authenticated", "post", "/a b"),
        ),
        (
            "target=/a&user=system:serviceaccount:x:y",
            "system:serviceaccount:x:y",
            "system:serviceaccounts system:serviceaccounts:x system:authenticated",
            *("get", "/a"),
        ),
        ("target=/a&user=header:al", *("header:al", "system:unauthenticated"), *("get", "/a")),
    ],
    ids=["anonymous", "bytes", "service-account", "unverified-name"],
)
def test_question(query: str, name: str, groups: str, verb: str, path: str) -> None:
    found, attributes, headers = question(query, Settings())

    assert (name, tuple(groups.split())) == (found.name, found.groups)
    sent = (QUERY, "a=b+c" if "?" in query else "")
    assert (verb, path, (sent,)) == (attributes.verb, attributes.path, headers)
    asked = sent, ("x-a", "b"), (MODEL, "llama3:8b")
    assert asked == question(f"{query}&model=llama3:8b&header=X-A:b", Settings())[2]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("method=GET", "say what is asked for: target=/path", id="no-target"),
        pytest.param("target=/a&target=/b", "target is given twice; keep one", id="twice"),
        pytest.param("target=/a&method=G%20T", "expected a method such as GET", id="method"),
        pytest.param("target=a", "would answer 400", id="target"),
        pytest.param("target=/a&group=g", "group needs user", id="group"),
        pytest.param("target=/a&path=/", "expected the parameters method", id="unknown"),
        pytest.param("target=/a&header=x", "expected a header such as X-Team:red", id="header"),
        pytest.param("&".join(["a=b"] * 300), f"more than {MAX_PARAMETERS}", id="many"),
    ],
)
def test_refused_question(query: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        question(query, Settings())
