"""The connections of `cluster_driver.py`: a user's, over HTTP/1.1 or over HTTP/2."""

from __future__ import annotations

import ssl
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from loadtest.http2_frames import (
    ACK,
    DATA,
    EMPTY_TABLE,
    END_HEADERS,
    END_STREAM,
    FRAME,
    FRAME_BYTES,
    GOAWAY,
    GOS_REFRESH,
    HEADERS,
    OPENING,
    PING,
    RST_STREAM,
    SETTINGS,
    SETTINGS_ACK,
    WINDOW,
    WINDOW_UPDATE,
    FieldEncoder,
    first_status,
    frame,
    frame_head,
    window_update,
)

if TYPE_CHECKING:
    import random
    import socket
    from collections.abc import Sequence

    from loadtest.cluster import Heads, Http2Fields, Request

LONGEST_BODY = b"0123456789abcdef" * 256
NOTHING: tuple[int, ...] = ()


class DriverError(Exception):
    """An answer that is none, or no success."""


class Client(Protocol):
    """A connection of one user, which sends its requests one after the other, again and again."""

    sock: socket.socket

    def send(self, now_ns: int) -> None:
        """Send the next request."""

    def receive(self, buffer: bytearray) -> Sequence[int]:
        """Read what is there; when the requests were sent whose answers are whole now."""


class Http1Client:
    """A connection over HTTP/1.1, with one request in flight."""

    __slots__ = ("awaited", "head", "heads", "requests", "sent", "sent_ns", "sock")

    def __init__(self, sock: socket.socket, heads: Heads, requests: list[Request]) -> None:
        self.sock = sock
        self.heads = heads
        self.requests = requests
        self.sent = 0
        self.sent_ns = 0
        self.awaited = 0
        """Bytes of the answer's body that are still to come."""
        self.head = b""
        """The answer's head, as long as it is not whole."""

    def send(self, now_ns: int) -> None:
        request = self.requests[self.sent % len(self.requests)]
        data = self.heads.of(request)
        if request.body_bytes:
            data += LONGEST_BODY[: request.body_bytes]
        self.sent += 1
        self.sent_ns = now_ns
        _send(self.sock, data)

    def receive(self, buffer: bytearray) -> Sequence[int]:
        while True:
            try:
                count = self.sock.recv_into(buffer)
            except (ssl.SSLWantReadError, BlockingIOError):
                return NOTHING
            if count == 0:
                raise DriverError("a connection was closed")
            if self.awaited:
                self.awaited -= count
            else:
                self.head += buffer[:count]
                if (end := self.head.find(b"\r\n\r\n")) < 0:
                    continue
                self.awaited = _body_bytes(self.head[: end + 2]) + end + 4 - len(self.head)
                self.head = b""
            if self.awaited == 0:
                return (self.sent_ns,)


def _body_bytes(head: bytes) -> int:
    if not head.startswith(b"HTTP/1.1 2"):
        raise DriverError(f"an answer is no success: {head[:80]!r}")
    head = head.lower()
    start = head.find(b"\r\ncontent-length: ")
    if start < 0:
        raise DriverError("an answer has no Content-Length")
    return int(head[start + 18 : head.find(b"\r", start + 2)])


def _send(sock: socket.socket, data: bytes) -> None:
    if sock.send(data) != len(data):
        raise DriverError("a request did not fit into the socket's buffer")


class Http2Request(NamedTuple):
    """A request as it goes over HTTP/2."""

    block: bytes
    """Its fields."""

    body_bytes: int


def encode_requests(
    fields: Http2Fields, requests: Sequence[Request], rng: random.Random
) -> list[Http2Request]:
    """Encode requests, to be sent on one connection in this order, again and again.

    Args:
        fields: Of the user.
        requests: At least one.
        rng: Draws the order of fields.
    """
    encoder = FieldEncoder()
    blocks = [encoder.encode(fields.of(request, rng)) for request in requests]
    blocks[0] = EMPTY_TABLE + blocks[0]
    return [
        Http2Request(block, request.body_bytes)
        for block, request in zip(blocks, requests, strict=True)
    ]


class Http2Client:
    """A connection over HTTP/2, with as many requests in flight as `send` is called for.

    As Go's client does, it sends HEADERS and DATA of each request at once and by themselves, has
    windows that no answer fills, and gives bytes back to the connection by the 4 KiB.
    """

    __slots__ = (
        "began",
        "bodies",
        "ends",
        "left",
        "next_id",
        "partial",
        "requests",
        "room",
        "sent",
        "sock",
        "taken",
    )

    def __init__(self, sock: socket.socket, requests: list[Http2Request]) -> None:
        self.sock = sock
        self.requests = requests
        self.sent = 0
        self.next_id = 1
        self.began: dict[int, int] = {}
        """Streams without a whole answer, and when they began."""
        self.bodies: deque[tuple[int, int]] = deque()
        """Streams and sizes of the bodies that wait for room."""
        self.room = WINDOW
        """Bytes that the connection may send."""
        self.taken = 0
        """Bytes that are to be given back to the connection."""
        self.partial = b""
        """The start of a frame."""
        self.left = 0
        """Bytes of DATA that are still to come of the frame."""
        self.ends = 0
        """The stream that ends with them."""
        _send(sock, OPENING)

    def send(self, now_ns: int) -> None:
        block, body_bytes = self.requests[self.sent % len(self.requests)]
        stream = self.next_id
        self.sent += 1
        self.next_id += 2
        self.began[stream] = now_ns
        flags = END_HEADERS if body_bytes else END_HEADERS | END_STREAM
        _send(self.sock, frame(HEADERS, flags, stream, block))
        if body_bytes:
            self.bodies.append((stream, body_bytes))
            self._send_bodies()

    def receive(self, buffer: bytearray) -> Sequence[int]:
        began_ns: list[int] = []
        while True:
            try:
                count = self.sock.recv_into(buffer)
            except (ssl.SSLWantReadError, BlockingIOError):
                break
            if count == 0:
                raise DriverError("a connection was closed")
            if self.partial:
                data = self.partial + buffer[:count]
                self._take(data, len(data), began_ns)
            else:
                self._take(buffer, count, began_ns)
        if self.taken >= GOS_REFRESH:
            _send(self.sock, window_update(0, self.taken))
            self.taken = 0
        return began_ns

    def _send_bodies(self) -> None:
        while self.bodies and self.bodies[0][1] <= self.room:
            stream, size = self.bodies.popleft()
            self.room -= size
            _send(self.sock, frame_head(size, DATA, END_STREAM, stream) + LONGEST_BODY[:size])

    def _take(self, data: bytes | bytearray, count: int, began_ns: list[int]) -> None:
        at = 0
        self.partial = b""
        while True:
            if self.left:
                step = min(self.left, count - at)
                at += step
                self.left -= step
                if self.left:
                    return
            if self.ends:
                began_ns.append(self.began.pop(self.ends))
                self.ends = 0
            if count - at < FRAME_BYTES:
                break
            high, low, kind, flags, stream = FRAME.unpack_from(data, at)
            size = high << 8 | low
            if kind == DATA:
                at += FRAME_BYTES
                self.left = size
                self.taken += size
            else:
                if count - at < FRAME_BYTES + size:
                    break
                at += FRAME_BYTES + size
                self._take_frame(kind, flags, stream, bytes(data[at - size : at]))
            if flags & END_STREAM and kind in (DATA, HEADERS):
                self.ends = stream
        self.partial = bytes(data[at:count])

    def _take_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == HEADERS:
            # Indexed, as of all successes; anything else is read to say what it is.
            if payload[0] != 0x88 and (status := first_status(payload)) != 200:
                raise DriverError(f"an answer is no success: {status}")
        elif kind == WINDOW_UPDATE:
            if not stream:  # streams have room for their bodies from the start
                self.room += int.from_bytes(payload)
                self._send_bodies()
        elif kind in (SETTINGS, PING) and not flags & ACK:
            _send(self.sock, SETTINGS_ACK if kind == SETTINGS else frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM and any(payload):  # without, an answer has ended before its request
            raise DriverError(f"a stream was reset: code {int.from_bytes(payload)}")
        elif kind == GOAWAY:
            raise DriverError(f"a connection was ended: code {int.from_bytes(payload[4:8])}")
