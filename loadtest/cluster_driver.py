"""Send the mix `cluster` to a proxy and report as JSON: a loop on epoll, as lean as Python can.

wrk's scripts do not know which connection a request is for, so it can have a client for each
connection only as a thread; but then each response wakes another thread, which makes every proxy's
writes dearer by half.  This loop takes 10 us for a request, as wrk does with one thread.

It connects, says READY, waits for a line on its input, and then keeps one request in flight on each
connection until the time is over and the last response is there.  With `--rate` it sends so many
requests a second instead, each on the connection that has been idle longest, and a latency begins
when its request is sent.  With `--streams` it speaks HTTP/2 and keeps so many requests in flight on
each connection.  `wrk.drive` runs it.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import select
import socket
import ssl
import struct
import sys
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hpack import Encoder
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from loadtest.cluster import Heads, Http2Fields, draw_request, draw_user, users

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from loadtest.cluster import Request

REQUESTS_PER_S = 40_000
"""How many requests are drawn for a second; a client repeats those it has sent."""

MOST_REQUESTS = 160_000
"""For which there are at most as many; drawing more takes long."""

RESPONDS_WITHIN_S = 20.0
BUFFER_BYTES = 1 << 16
MOST_HTTP2_REQUESTS = 20_000
"""For which the encoding takes long as well."""
LONGEST_BODY = b"0123456789abcdef" * 256
NOTHING: tuple[int, ...] = ()

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK = END_STREAM = 1
END_HEADERS = 4

FRAME = struct.Struct(">HBBBL")
"""The head of a frame: 16 and 8 bits of its length, kind, flags, stream."""
FRAME_BYTES = FRAME.size
WINDOW = 65_535
"""Bytes of a new stream and of a new connection, unless SETTINGS say otherwise."""
GOS_WINDOW = 4 << 20
GOS_CONNECTION_WINDOW = 1 << 30
GOS_REFRESH = 4 << 10
"""Bytes that Go's client has taken at least before it gives them back to the connection."""
EMPTY_TABLE = b"\x20\x3f\xe1\x1f"
"""At the start of a block: the dynamic table is made 0 bytes, then 4096."""


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return frame_head(len(payload), kind, flags, stream) + payload


def frame_head(size: int, kind: int, flags: int, stream: int) -> bytes:
    return FRAME.pack(size >> 8, size & 255, kind, flags, stream)


def window_update(stream: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">L", size))


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
OPENING = (
    PREFACE
    + frame(SETTINGS, 0, 0, struct.pack(">HLHLHL", 2, 0, 4, GOS_WINDOW, 6, 10 << 20))
    + window_update(0, GOS_CONNECTION_WINDOW)
)

SETTINGS_ACK = frame(SETTINGS, ACK, 0, b"")


def first_status(block: bytes) -> int:
    """The status that a response's block of fields begins with."""
    at = 0
    while block[at] & 0xE0 == 0x20:  # the size of the table
        at += 1 if block[at] & 0x1F != 0x1F else 1 + _continued(block[at + 1 :])
    if block[at] & 0x80:
        name, value = HeaderTable.STATIC_TABLE[(block[at] & 0x7F) - 1]
    else:
        index = block[at] & (0x3F if block[at] & 0x40 else 0x0F)
        name = HeaderTable.STATIC_TABLE[index - 1][0]
        size = block[at + 1] & 0x7F
        value = block[at + 2 : at + 2 + size]
        if block[at + 1] & 0x80:
            value = decode_huffman(value)
    if name != b":status":
        raise ValueError(f"a response begins with {name!r}")
    return int(value)


def _continued(data: bytes) -> int:
    return next(at for at, byte in enumerate(data, 1) if byte < 0x80)


class DriverError(Exception):
    """A response that is none, or no success."""


class Http1Client:
    """A connection of one user, who repeats its requests, with one in flight.

    `receive` reads what is there, and gives the times at which the requests were sent whose
    responses are whole now; so does that of `Http2Client`.
    """

    def __init__(self, sock: socket.socket, heads: Heads, requests: list[Request]) -> None:
        self.sock = sock
        self.heads = heads
        self.requests = requests
        self.sent = 0
        self.sent_ns = 0
        self.awaited = 0
        """Bytes of the response's body that are still to come."""
        self.head = b""
        """The response's head, as long as it is not whole."""

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
        raise DriverError(f"a response is no success: {head[:80]!r}")
    head = head.lower()
    start = head.find(b"\r\ncontent-length: ")
    if start < 0:
        raise DriverError("a response has no Content-Length")
    return int(head[start + 18 : head.find(b"\r", start + 2)])


def _send(sock: socket.socket, data: bytes) -> None:
    if sock.send(data) != len(data):
        raise DriverError("a request did not fit into the socket's buffer")


class Http2Request(NamedTuple):
    block: bytes
    body_bytes: int


def encode_requests(
    fields: Http2Fields, requests: Sequence[Request], rng: random.Random
) -> list[Http2Request]:
    """Encode requests, to be sent on one connection in this order, again and again."""
    encoder = Encoder()
    blocks = [encoder.encode(fields.of(request, rng)) for request in requests]
    blocks[0] = EMPTY_TABLE + blocks[0]
    sizes = (request.body_bytes for request in requests)
    return list(map(Http2Request, blocks, sizes))


class Http2Client:
    """A connection over HTTP/2, with as many requests in flight as `send` is called for.

    As Go's client does, it sends HEADERS and DATA of each request at once and by themselves, has
    windows that no response fills, and gives bytes back to the connection by the 4 KiB.
    """

    def __init__(self, sock: socket.socket, requests: list[Http2Request]) -> None:
        self.sock = sock
        self.requests = requests
        self.sent = 0
        self.next_id = 1
        self.began: dict[int, int] = {}
        """Streams without a whole response, and when they began."""
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
                raise DriverError(f"a response is no success: {status}")
        elif kind == WINDOW_UPDATE:
            if not stream:  # streams have room for their bodies from the start
                self.room += int.from_bytes(payload)
                self._send_bodies()
        elif kind in (SETTINGS, PING) and not flags & ACK:
            _send(self.sock, SETTINGS_ACK if kind == SETTINGS else frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM and any(
            payload
        ):  # without, a response has ended before its request
            raise DriverError(f"a stream was reset: code {int.from_bytes(payload)}")
        elif kind == GOAWAY:
            raise DriverError(f"a connection was ended: code {int.from_bytes(payload[4:8])}")


Client = Http1Client | Http2Client


def connect(options: argparse.Namespace) -> list[Client]:
    context = ssl.create_default_context(cafile=options.ca_file) if options.ca_file else None
    if context is not None:
        context.set_alpn_protocols(["h2" if options.streams else "http/1.1"])
    rng = random.Random(options.seed)  # noqa: S311 - requests of a test
    everybody = users()
    most = MOST_HTTP2_REQUESTS if options.streams else MOST_REQUESTS
    all_of_them = min(REQUESTS_PER_S * options.seconds, most)
    count = max(1, all_of_them // options.connections)
    makes: list[Callable[[socket.socket], Client]] = []
    for _ in range(options.connections):
        user, requests = draw_user(rng, everybody), [draw_request(rng) for _ in range(count)]
        if options.streams:
            fields = Http2Fields(user, "http" if context is None else "https")
            encoded = encode_requests(fields, requests, rng)
            makes.append(partial(Http2Client, requests=encoded))
        else:
            makes.append(partial(Http1Client, heads=Heads(user), requests=requests))
    clients = []
    # Only now: a connection that brings no request is not kept for long.
    for make in makes:
        sock = socket.create_connection(("127.0.0.1", options.port), timeout=RESPONDS_WITHIN_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            sock = secured = context.wrap_socket(sock, server_hostname="localhost")
            if options.streams and secured.selected_alpn_protocol() != "h2":
                raise DriverError("the proxy does not speak HTTP/2")
        sock.setblocking(False)
        clients.append(make(sock))
    return clients


def watched(clients: list[Client]) -> tuple[select.epoll, dict[int, Client]]:
    epoll = select.epoll()
    by_descriptor = {client.sock.fileno(): client for client in clients}
    for descriptor in by_descriptor:
        epoll.register(descriptor, select.EPOLLIN)
    return epoll, by_descriptor


def exchange(clients: list[Client], seconds: int, at_once: int) -> list[int]:
    """Keep requests in flight on each connection for a while; the latencies in nanoseconds."""
    epoll, by_descriptor = watched(clients)
    buffer = bytearray(BUFFER_BYTES)
    latencies: list[int] = []
    clock = time.perf_counter_ns
    end_ns = clock() + seconds * 10**9
    for client in clients * at_once:
        client.send(clock())
    in_flight = len(clients) * at_once
    while in_flight:
        events = epoll.poll(RESPONDS_WITHIN_S)
        if not events:
            raise DriverError(f"no response came for {RESPONDS_WITHIN_S:g} s")
        for descriptor, _ in events:
            client = by_descriptor[descriptor]
            for sent_ns in client.receive(buffer):
                now_ns = clock()
                latencies.append(now_ns - sent_ns)
                if now_ns < end_ns:
                    client.send(now_ns)
                else:
                    in_flight -= 1
    return latencies


def exchange_at_rate(clients: list[Client], seconds: int, at_once: int, rate: int) -> list[int]:
    """Send requests at a steady rate; the latencies in nanoseconds."""
    epoll, by_descriptor = watched(clients)
    buffer = bytearray(BUFFER_BYTES)
    latencies: list[int] = []
    clock = time.perf_counter_ns
    idle = deque(clients * at_once)
    start_ns = clock()
    sent, all_of_them = 0, seconds * rate
    while len(latencies) < all_of_them:
        now_ns = clock()
        due_ns = start_ns + sent * 10**9 // rate
        if sent < all_of_them and idle and due_ns <= now_ns:
            idle.popleft().send(clock())
            sent += 1
            continue
        wait_s = (due_ns - now_ns) / 1e9 if sent < all_of_them and idle else RESPONDS_WITHIN_S
        # Of the two this one takes less than a millisecond for a time-out.
        if not select.select([epoll], [], [], wait_s)[0]:
            if wait_s == RESPONDS_WITHIN_S:
                raise DriverError(f"no response came for {RESPONDS_WITHIN_S:g} s")
            continue
        for descriptor, _ in epoll.poll(0):
            client = by_descriptor[descriptor]
            for sent_ns in client.receive(buffer):
                latencies.append(clock() - sent_ns)
                idle.append(client)
    return latencies


def report(latencies: list[int], seconds: float) -> dict[str, float]:
    latencies.sort()
    return {
        "requests": len(latencies),
        "duration_us": seconds * 1e6,
        "p50_us": latencies[len(latencies) // 2] / 1000,
        "p99_us": latencies[len(latencies) * 99 // 100] / 1000,
        "bad_statuses": 0,
        "socket_errors": 0,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    for name in ("--port", "--connections", "--seconds", "--seed"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--streams", type=int, default=0)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--ca-file")
    options = parser.parse_args(arguments)
    try:
        clients = connect(options)
        gc.disable()
        print("READY", flush=True)
        sys.stdin.readline()
        start = time.monotonic()
        at_once = options.streams or 1
        if options.rate:
            latencies = exchange_at_rate(clients, options.seconds, at_once, options.rate)
        else:
            latencies = exchange(clients, options.seconds, at_once)
        print(f"REPORT {json.dumps(report(latencies, time.monotonic() - start))}", flush=True)
        # Connections stay until the caller has read what the proxy spent.
        sys.stdin.readline()
    except (DriverError, OSError) as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
