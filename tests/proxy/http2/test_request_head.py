"""Heads of HTTP/2, written as HTTP/1.1 writes them."""

from __future__ import annotations

from base64 import b64decode

import pytest

from apfproxy.http.grammar import HeadError
from apfproxy.proxy.http2 import nghttp2
from apfproxy.proxy.http2.request_head import (
    HAS_COOKIES,
    HAS_HOST,
    HAS_LENGTH,
    as_upgrade,
    head_of,
    new_key,
)


def marks_of(fields: bytes) -> int:
    names = [line.partition(b":")[0] for line in fields.split(b"\r\n")]
    return (
        HAS_LENGTH * (b"content-length" in names)
        | HAS_HOST * (b"host" in names)
        | HAS_COOKIES * (names.count(b"cookie") > 1)
    )


def head(
    fields: bytes = b"",
    method: bytes = b"GET",
    path: bytes = b"/a?b=c",
    authority: bytes = b"api.example",
    *,
    is_whole: bool = True,
) -> bytes:
    return head_of(
        (method, b"https", authority, path, b"", fields, marks_of(fields)), is_whole=is_whole
    )


def test_plain() -> None:
    assert (
        b"GET /a?b=c HTTP/1.1\r\nHost: api.example\r\naccept: */*\r\nuser-agent: x\r\n\r\n"
        == head(b"accept: */*\r\nuser-agent: x\r\n")
    )


@pytest.mark.parametrize(
    ("fields", "is_whole", "is_chunked"),
    [
        (b"", True, False),
        (b"", False, True),
        (b"content-length: 7\r\n", False, False),
        (b"a: b\r\ncontent-length: 7\r\n", False, False),
        (b"x-content-length: 7\r\n", False, True),
        (b"a: content-length: 7\r\n", False, True),
    ],
)
def test_framing(fields: bytes, *, is_whole: bool, is_chunked: bool) -> None:
    """A body without a length is chunked."""
    found = head(fields, is_whole=is_whole)

    assert is_chunked == found.endswith(b"\r\ntransfer-encoding: chunked\r\n\r\n")


@pytest.mark.parametrize(
    "fields",
    [
        b"host: API.example\r\na: b\r\n",
        b"a: b\r\nhost: api.example\r\n",
        b"a: b\r\nhost:  api.example \r\n",
    ],
)
def test_host_beside_authority(fields: bytes) -> None:
    assert b"GET /a?b=c HTTP/1.1\r\nHost: api.example\r\na: b\r\n\r\n" == head(fields)


def test_host_alone() -> None:
    """As a proxy of HTTP/1.1 makes it, without an authority."""
    assert b"GET /a?b=c HTTP/1.1\r\nHost: x\r\na: b\r\n\r\n" == head(
        b"a: b\r\nhost: x\r\n", authority=b""
    )


def test_neither() -> None:
    """The reader of heads refuses it, as in HTTP/1.1."""
    assert b"GET /a?b=c HTTP/1.1\r\n\r\n" == head(authority=b"")


def test_cookies() -> None:
    """Crumbs are one field again; another field's value is no cookie."""
    found = head(b"cookie: a=1\r\nx: cookie: z\r\ncookie: b=2\r\nset-cookie: c\r\ncookie: d=3\r\n")

    assert b"Host: api.example\r\nx: cookie: z\r\nset-cookie: c\r\n" in found
    assert found.endswith(b"\r\ncookie: a=1; b=2; d=3\r\n\r\n")
    assert 1 == head(b"cookie: a=1; b=2\r\n").count(b"cookie: a=1; b=2\r\n")


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ((b"GET", b"https", b"a", b"/ HTTP/1.1\r\nX: y", b"", b""), 400),
        ((b"GET /x", b"https", b"a", b"/", b"", b""), 400),
        ((b"GET", b"https", b"a\r\nX: y", b"/", b"", b""), 400),
        ((b"GET", b"https", b"a", b"/\x00", b"", b""), 400),
        ((b"GET", b"https", b"a", b"/", b"", b"host: b\r\n"), 400),
        ((b"GET", b"https", b"", b"/", b"", b"host: a\r\nhost: a\r\n"), 400),
    ],
)
def test_refused(request_: tuple[bytes, bytes, bytes, bytes, bytes, bytes], code: int) -> None:
    with pytest.raises(HeadError) as caught:
        head_of((*request_, marks_of(request_[5])), is_whole=True)

    assert code == caught.value.code


def test_marks() -> None:
    """They are the library's."""
    assert (nghttp2.HAS_LENGTH, nghttp2.HAS_HOST, nghttp2.HAS_COOKIES) == (
        HAS_LENGTH,
        HAS_HOST,
        HAS_COOKIES,
    )


@pytest.mark.parametrize("protocol", [b"websocket", b"WebSocket"])
def test_connect(protocol: bytes) -> None:
    """It has what a handshake of HTTP/1.1 must have, and the client's fields."""
    fields = b"sec-websocket-version: 13\r\nupstream: https://a\r\n"
    request = (b"CONNECT", b"https", b"a", b"/chat?b=c", protocol, fields, 0)

    assert head_of(as_upgrade(request, b"KEY"), is_whole=True) == (
        b"GET /chat?b=c HTTP/1.1\r\nHost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-key: KEY\r\nsec-websocket-version: 13\r\nupstream: https://a\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("protocol", "marks", "code"),
    [(b"", 0, 405), (b"connect-udp", 0, 501), (b"websocket", HAS_LENGTH, 400)],
)
def test_connect_that_is_refused(protocol: bytes, marks: int, code: int) -> None:
    """A tunnel to any place, protocols that nobody here speaks, and tunnels of a length."""
    with pytest.raises(HeadError) as caught:
        as_upgrade((b"CONNECT", b"https", b"a", b"/", protocol, b"", marks), b"KEY")

    assert code == caught.value.code


def test_keys_of_websockets() -> None:
    """16 bytes, others each time."""
    first, second = new_key(), new_key()

    assert (16, 16) == (len(b64decode(first)), len(b64decode(second)))
    assert first != second
