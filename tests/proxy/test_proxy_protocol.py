"""Headers of the PROXY protocol: what they say, what is none, and that nothing behind is read."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy.handshake import (
    MAX_LINE_BYTES,
    MAX_REST_BYTES,
    SIGNATURE,
    ProxyHeaderError,
    read_source,
)
from tests.end_to_end.scene import on_uvloop

if TYPE_CHECKING:
    from collections.abc import Iterator

BEHIND = b"GET / HTTP/1.1\r\n\r\n"


def v2(command: int, family: int, rest: bytes, length: int | None = None) -> bytes:
    size = len(rest) if length is None else length
    return SIGNATURE + bytes((command, family)) + size.to_bytes(2, "big") + rest


def addresses(source: str, target: str) -> bytes:
    return ip_address(source).packed + ip_address(target).packed + b"\x12\x34\x00\x50"


IPV4 = addresses("192.0.2.7", "10.0.0.1")
IPV6 = addresses("2001:db8::7", "2001:db8::1")
MAPPED = addresses("::ffff:192.0.2.7", "::1")
TLV = b"\x04\x00\x02ab"
LONGEST = b"PROXY UNKNOWN " + b"x" * (MAX_LINE_BYTES - 16) + b"\r\n"

HEADERS = {
    "tcp4": (b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n", "192.0.2.7"),
    "tcp4-ports": (b"PROXY TCP4 192.0.2.7 10.0.0.1 0 65535\r\n", "192.0.2.7"),
    "tcp6": (b"PROXY TCP6 2001:DB8:0::7 2001:db8::1 56324 443\r\n", "2001:db8::7"),
    "tcp6-mapped": (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", "192.0.2.7"),
    "unknown": (b"PROXY UNKNOWN\r\n", ""),
    "unknown-with-more": (b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", ""),
    "longest": (LONGEST, ""),
    "v2-ipv4": (v2(0x21, 0x11, IPV4), "192.0.2.7"),
    "v2-ipv6": (v2(0x21, 0x21, IPV6), "2001:db8::7"),
    "v2-mapped": (v2(0x21, 0x21, MAPPED), "192.0.2.7"),
    "v2-with-more": (v2(0x21, 0x11, IPV4 + TLV * 100), "192.0.2.7"),
    "v2-most": (v2(0x21, 0x11, IPV4 + b"x" * (MAX_REST_BYTES - len(IPV4))), "192.0.2.7"),
    "v2-local": (v2(0x20, 0x00, b""), ""),
    "v2-local-with-addresses": (v2(0x20, 0x11, IPV4), ""),
    "v2-unspecified": (v2(0x21, 0x00, b""), ""),
    "v2-unspecified-with-more": (v2(0x21, 0x00, TLV), ""),
    "v2-unix": (v2(0x21, 0x31, b"x" * 216), ""),
}
"""Headers, and the address that each gives the connection; "" for its own."""

MALFORMED = {
    "http": b"GET /a HTTP/1.1\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 20,
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "lower-case": b"proxy TCP4 192.0.2.7 10.0.0.1 1 2\r\n",
    "too-short": b"PROXY A\r\nGET /a HTTP/1.1\r\n\r\n",
    "nothing": b"PROXY \r\nGET /a HTTP/1.1\r\n\r\n",
    "too-long": LONGEST.replace(b"x", b"xx", 1),
    "never-ends": b"PROXY TCP4 " + b"1" * 200,
    "another-protocol": b"PROXY UDP4 192.0.2.7 10.0.0.1 1 2\r\n",
    "words": b"PROXY TCP4 192.0.2.7 10.0.0.1 1\r\n",
    "more-words": b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2 3\r\n",
    "two-spaces": b"PROXY TCP4  192.0.2.7 10.0.0.1 1 2\r\n",
    "no-address": b"PROXY TCP4 localhost 10.0.0.1 1 2\r\n",
    "no-target": b"PROXY TCP4 192.0.2.7 10.0.0 1 2\r\n",
    "leading-zero": b"PROXY TCP4 192.0.2.07 10.0.0.1 1 2\r\n",
    "another-family": b"PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n",
    "families-mixed": b"PROXY TCP6 2001:db8::7 10.0.0.1 1 2\r\n",
    "zone": b"PROXY TCP6 fe80::1%eth0 fe80::2 1 2\r\n",
    "not-ascii": b"PROXY TCP4 \xff\xfe 10.0.0.1 1 2\r\n",
    "port": b"PROXY TCP4 192.0.2.7 10.0.0.1 1 65536\r\n",
    "long-port": b"PROXY TCP4 192.0.2.7 10.0.0.1 000000001 2\r\n",
    "signed-port": b"PROXY TCP4 192.0.2.7 10.0.0.1 +1 2\r\n",
    "v2-version": v2(0x11, 0x11, IPV4),
    "v2-command": v2(0x22, 0x11, IPV4),
    "v2-datagram": v2(0x21, 0x12, IPV4),
    "v2-transport": v2(0x21, 0x13, IPV4),
    "v2-short": v2(0x21, 0x11, IPV4[:-1]),
    "v2-short-ipv6": v2(0x21, 0x21, IPV4),
    "v2-too-long": v2(0x21, 0x11, IPV4, MAX_REST_BYTES + 1),
}


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


@pytest.mark.parametrize(("header", "source"), HEADERS.values(), ids=HEADERS.keys())
@pytest.mark.parametrize("is_slow", [False, True])
@on_uvloop
async def test_header(
    pair: tuple[socket.socket, socket.socket], header: bytes, source: str, is_slow: bool
) -> None:
    ours, theirs = pair
    loop = asyncio.get_running_loop()
    reading = asyncio.ensure_future(read_source(loop, ours))
    step = 1 if is_slow else len(header)
    for at in range(0, len(header), step):
        theirs.sendall(header[at : at + step])
        await asyncio.sleep(0)
    theirs.sendall(BEHIND)

    assert source == await reading
    assert BEHIND == ours.recv(100)


@pytest.mark.parametrize("header", MALFORMED.values(), ids=MALFORMED.keys())
@on_uvloop
async def test_malformed(pair: tuple[socket.socket, socket.socket], header: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(header)

    with pytest.raises(ProxyHeaderError):
        await read_source(asyncio.get_running_loop(), ours)


@pytest.mark.parametrize("header", [HEADERS["tcp4"][0], HEADERS["v2-with-more"][0]])
@on_uvloop
async def test_connection_that_ends(header: bytes) -> None:
    for end in range(0, len(header), 3):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.sendall(header[:end])
            theirs.close()
            with pytest.raises(EOFError):
                await read_source(asyncio.get_running_loop(), ours)
