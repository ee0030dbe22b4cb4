"""Heads of HTTP/2, written as HTTP/1.1 writes them."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

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
    authority: bytes = b"h",
    *,
    is_whole: bool = True,
) -> bytes:
    return head_of(
        (method, b"https", authority, path, b"", fields, marks_of(fields)), is_whole=is_whole
    )


@pytest.mark.parametrize(
    ("fields", "authority", "behind"),
    [
        pytest.param(b"a: b\r\n", b"h", b"\r\nHost: h\r\na: b\r\n\r\n", id="plain"),
        pytest.param(b"host: H\r\na: b\r\n", b"h", b"\r\nHost: h\r\na: b\r\n\r\n", id="both"),
        pytest.param(b"a: b\r\nhost:  h \r\n", b"h", b"\r\nHost: h\r\na: b\r\n\r\n", id="spaces"),
        pytest.param(b"a: b\r\nhost: x\r\n", b"", b"\r\nHost: x\r\na: b\r\n\r\n", id="host-alone"),
        pytest.param(b"", b"", b"\r\n\r\n", id="neither"),
        pytest.param(
            b"cookie: a=1\r\nx: cookie: z\r\ncookie: b=2\r\nset-cookie: c\r\ncookie: d=3\r\n",
            b"",
            b"\r\nx: cookie: z\r\nset-cookie: c\r\ncookie: a=1; b=2; d=3\r\n\r\n",
            id="crumbs",
        ),
    ],
)
def test_hosts_and_cookies(fields: bytes, authority: bytes, behind: bytes) -> None:
    """One Host and one Cookie are left; what lacks a host the reader of heads refuses."""
    assert b"GET /a?b=c HTTP/1.1" + behind == head(fields, authority=authority)


@pytest.mark.parametrize(
    ("fields", "is_whole", "is_chunked"),
    [
        (b"", True, False),
        (b"", False, True),
        (b"a: b\r\ncontent-length: 7\r\n", False, False),
        (b"x-content-length: 7\r\n", False, True),
    ],
)
def test_a_body_without_a_length_is_chunked(
    fields: bytes, *, is_whole: bool, is_chunked: bool
) -> None:
    found = head(fields, is_whole=is_whole)

    assert is_chunked == found.endswith(b"\r\ntransfer-encoding: chunked\r\n\r\n")


@pytest.mark.parametrize(
    "changed",
    [
        {"path": b"/ HTTP/1.1\r\nX: y"},
        {"method": b"GET /x"},
        {"authority": b"a\r\nX: y"},
        {"path": b"/\x00"},
        {"fields": b"host: b\r\n"},
        {"authority": b"", "fields": b"host: a\r\nhost: a\r\n"},
    ],
)
def test_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(HeadError) as caught:
        head(**changed)

    assert 400 == caught.value.code


def test_marks_are_those_of_the_library() -> None:
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
    first, second = new_key(), new_key()

    assert 16 == len(b64decode(first)) == len(b64decode(second))
    assert first != second
