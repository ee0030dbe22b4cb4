"""Requests as they stand on the wire."""

from __future__ import annotations

import pytest

from apfproxy.cli.raw_request import CLAIMS, IMPERSONATES, NAMELESS, read_raw_request
from apfproxy.request.user import ANONYMOUS, User

START = b"POST /api/v1/namespaces?dryRun=All HTTP/1.1\r\nHost: a.test\r\n"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(START + b"\r\n", id="whole"),
        pytest.param(START + b"Content-Length: 3\r\n\r\nabc", id="with-a-body"),
        pytest.param(START, id="without-an-end"),
        pytest.param(START.replace(b"\r\n", b"\n"), id="bare-lf"),
        pytest.param(b"\n" + START.replace(b"\r\n", b"\n") + b"\nx\n", id="bare-lf-and-body"),
    ],
)
def test_request(data: bytes) -> None:
    """The head is read however its lines end, and whatever follows it."""
    found = read_raw_request(data)

    assert ("POST", b"/api/v1/namespaces?dryRun=All", ANONYMOUS, ()) == (
        found.method,
        found.target,
        found.user,
        found.notes,
    )


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
    """Fields that name somebody are believed, and that is said; tokens name nobody here."""
    found = read_raw_request(START + fields + b"\r\n")

    assert (user, notes) == (found.user, found.notes)


def test_headers_without_secrets() -> None:
    """Headers are kept, but for those that hold secrets."""
    found = read_raw_request(START + b"X-Team: red\r\nCookie: a=b\r\nAuthorization: Basic x\r\n")

    assert (("host", "a.test"), ("x-team", "red")) == found.headers


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "there is no request on standard input", id="nothing"),
        pytest.param(b"\r\n\r\n", "there is no request on standard input", id="empty-lines"),
        pytest.param(b"hello\n", "the proxy would answer 400: malformed request", id="no-request"),
        pytest.param(
            b"GET / HTTP/1.1\n",
            "the proxy would answer 400: a request must have exactly one valid Host field",
            id="no-host",
        ),
        pytest.param(START + b"a: b\r\n" * 200, "the proxy would answer 431", id="many-fields"),
        pytest.param(START + b"a: " + b"b" * 70_000, "longer than 65536 bytes", id="long"),
    ],
)
def test_refused(data: bytes, message: str) -> None:
    """What the proxy would refuse is refused in its words."""
    with pytest.raises(ValueError, match=message):
        read_raw_request(data)
