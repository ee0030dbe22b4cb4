"""The PROXY protocol, by which a load balancer says for whom it connects: versions 1 and 2.

1. The header stands before everything else, TLS included.  It is read to its last byte and no
   further, since what follows is the connection's.
2. What it is not for a client (LOCAL of a health check, UNKNOWN, another family) leaves the
   connection the address that it has.
3. What else a header of version 2 carries is skipped, up to a bound.

https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Final

from apfproxy.base.address import address_from

if TYPE_CHECKING:
    import asyncio

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
TEXT: Final = b"PROXY "
"""The begin of version 1, whose shortest line is longer than the signature."""
MAX_LINE_BYTES: Final = 107
"""Bounds version 1, as its specification has it."""
HEAD_BYTES: Final = 16
MAX_REST_BYTES: Final = 4096
"""Bounds version 2 behind its head: addresses take 36 bytes, balancers add a few hundred."""
_VERSION, _LOCAL, _PROXY = 0x20, 0, 1
_ADDRESS_BYTES: Final = {0x1: 4, 0x2: 16}
_PORTS_BYTES: Final = 4
_STREAM, _UNSPECIFIED = 0x1, 0x0
_MAX_PORT: Final = 65535


class ProxyHeaderError(Exception): ...


async def read_source(loop: asyncio.AbstractEventLoop, client: socket.socket) -> str:
    """The address that a new connection is for; "" where it is for no one else.

    ProxyHeaderError: what comes is no PROXY header; EOFError: the connection ends before.
    """
    start = await _take(loop, client, len(SIGNATURE))
    if start == SIGNATURE:
        head = start + await _take(loop, client, HEAD_BYTES - len(start))
        return source_of_v2(head, await _take(loop, client, rest_bytes(head)))
    if not start.startswith(TEXT):
        raise ProxyHeaderError("it begins with something else")
    return source_of_v1(await _take_line(loop, client, start))


async def _take(loop: asyncio.AbstractEventLoop, client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = await loop.sock_recv(client, size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


async def _take_line(loop: asyncio.AbstractEventLoop, client: socket.socket, start: bytes) -> bytes:
    if b"\r\n" in start:
        raise ProxyHeaderError("its line is shorter than any")
    line = start
    while not line.endswith(b"\r\n"):
        if len(line) >= MAX_LINE_BYTES:
            raise ProxyHeaderError(f"its line is longer than {MAX_LINE_BYTES} bytes")
        await _wait(loop, client)
        try:
            seen = client.recv(MAX_LINE_BYTES - len(line), socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            continue
        if not seen:
            raise EOFError
        end = (line + seen).find(b"\r\n")
        line += client.recv(len(seen) if end < 0 else end + 2 - len(line))
    return line


async def _wait(loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
    ready = loop.create_future()

    def be_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(client, be_ready)
    try:
        await ready
    finally:
        loop.remove_reader(client)


def source_of_v1(line: bytes) -> str:
    """The client's address by a whole line of version 1; "" if that names none."""
    words = line[:-2].split(b" ")
    if words[1] == b"UNKNOWN":
        return ""
    if words[1] not in (b"TCP4", b"TCP6") or len(words) != 6:
        raise ProxyHeaderError("its line is not PROXY, a protocol, two addresses and two ports")
    version = 4 if words[1] == b"TCP4" else 6
    source, _ = (_address(word, version) for word in words[2:4])
    for port in words[4:]:
        if not port.isdigit() or len(port) > len(str(_MAX_PORT)) or int(port) > _MAX_PORT:
            raise ProxyHeaderError("a port is none")
    return source


def _address(word: bytes, version: int) -> str:
    address = None if b"%" in word else address_from(word.decode("latin-1"))
    if address is None or (version == 4) == (b":" in word):
        raise ProxyHeaderError(f"an address is none of IPv{version}")
    return str(address)


def rest_bytes(head: bytes) -> int:
    """How many bytes follow the head of version 2."""
    if head[12] & 0xF0 != _VERSION or head[12] & 0x0F not in (_LOCAL, _PROXY):
        raise ProxyHeaderError("its version or command is unknown")
    size = int.from_bytes(head[14:16], "big")
    if size > MAX_REST_BYTES:
        raise ProxyHeaderError(f"it is longer than {HEAD_BYTES + MAX_REST_BYTES} bytes")
    return size


def source_of_v2(head: bytes, rest: bytes) -> str:
    """The client's address by a header of version 2; "" if that names none."""
    if head[12] & 0x0F == _LOCAL:
        return ""
    family, transport = head[13] >> 4, head[13] & 0x0F
    if transport not in (_STREAM, _UNSPECIFIED):
        raise ProxyHeaderError("it is not of a connection")
    size = _ADDRESS_BYTES.get(family)
    if size is None or transport == _UNSPECIFIED:
        return ""
    if len(rest) < 2 * size + _PORTS_BYTES:
        raise ProxyHeaderError("it ends within its addresses")
    address = ipaddress.ip_address(rest[:size])
    return str(getattr(address, "ipv4_mapped", None) or address)
