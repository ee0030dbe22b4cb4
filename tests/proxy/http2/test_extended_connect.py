"""CONNECT with a protocol, as HTTP/1.1 asks for it."""

from __future__ import annotations

from base64 import b64decode

import pytest

from apfproxy.http.head_error import HeadError
from apfproxy.proxy.http2.extended_connect import as_upgrade, new_key
from apfproxy.proxy.http2.request_head import HAS_LENGTH, head_of


@pytest.mark.parametrize("protocol", [b"websocket", b"WebSocket"])
def test_handshake(protocol: bytes) -> None:
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
def test_refused(protocol: bytes, marks: int, code: int) -> None:
    """A tunnel to any place, protocols that nobody here speaks, and tunnels of a length."""
    with pytest.raises(HeadError) as caught:
        as_upgrade((b"CONNECT", b"https", b"a", b"/", protocol, b"", marks), b"KEY")

    assert code == caught.value.code


def test_keys() -> None:
    """16 bytes, others each time."""
    first, second = new_key(), new_key()

    assert (16, 16) == (len(b64decode(first)), len(b64decode(second)))
    assert first != second
