"""Send the mix `cluster` to a proxy and report as JSON: a loop on epoll, as lean as Python can.

wrk's scripts do not know which connection a request is for, so it can have a client for each
connection only as a thread; but then each answer wakes another thread, which makes every proxy's
writes dearer by half.  This loop takes 10 us for a request, as wrk does with one thread.

It connects, says READY, waits for a line on its input, and then keeps one request in flight on each
connection until the time is over and the last answer is there.  With `--rate` it sends so many
requests a second instead, each on the connection that has been idle longest, and a latency begins
when its request is sent.  `wrk.drive` runs it.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import select
import socket
import ssl
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from loadtest.cluster import Heads, Request, draw_request, draw_user, users

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUESTS_PER_S = 40_000
"""How many requests are drawn for a second; a client repeats those it has sent."""

ANSWER_WITHIN_S = 20.0
BUFFER_BYTES = 1 << 16
LONGEST_BODY = b"0123456789abcdef" * 256


class DriverError(Exception):
    """An answer that is none, or no success."""


class Client:
    """A connection of one user, with its requests."""

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
        """Send the next request."""
        request = self.requests[self.sent % len(self.requests)]
        data = self.heads.of(request)
        if request.body_bytes:
            data += LONGEST_BODY[: request.body_bytes]
        self.sent += 1
        self.sent_ns = now_ns
        if self.sock.send(data) != len(data):
            raise DriverError("a request did not fit into the socket's buffer")

    def receive(self, buffer: bytearray) -> bool:
        """Read what is there; whether the answer is whole."""
        while True:
            try:
                count = self.sock.recv_into(buffer)
            except (ssl.SSLWantReadError, BlockingIOError):
                return False
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
                return True


def _body_bytes(head: bytes) -> int:
    if not head.startswith(b"HTTP/1.1 2"):
        raise DriverError(f"an answer is no success: {head[:80]!r}")
    head = head.lower()
    start = head.find(b"\r\ncontent-length: ")
    if start < 0:
        raise DriverError("an answer has no Content-Length")
    return int(head[start + 18 : head.find(b"\r", start + 2)])


def connect(options: argparse.Namespace) -> list[Client]:
    """Connect all clients and draw their requests."""
    context = ssl.create_default_context(cafile=options.ca_file) if options.ca_file else None
    rng = random.Random(options.seed)  # noqa: S311 - requests of a test
    everybody = users()
    count = max(1, REQUESTS_PER_S * options.seconds // options.connections)
    clients = []
    for _ in range(options.connections):
        sock = socket.create_connection(("127.0.0.1", options.port), timeout=ANSWER_WITHIN_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname="localhost")
        sock.setblocking(False)
        heads = Heads(draw_user(rng, everybody))
        clients.append(Client(sock, heads, [draw_request(rng) for _ in range(count)]))
    return clients


def watched(clients: list[Client]) -> tuple[select.epoll, dict[int, Client]]:
    """What tells which clients have something to read, and the clients by their descriptors."""
    epoll = select.epoll()
    by_descriptor = {client.sock.fileno(): client for client in clients}
    for descriptor in by_descriptor:
        epoll.register(descriptor, select.EPOLLIN)
    return epoll, by_descriptor


def exchange(clients: list[Client], seconds: int) -> list[int]:
    """Keep a request in flight on each connection for a while; the latencies in nanoseconds."""
    epoll, by_descriptor = watched(clients)
    buffer = bytearray(BUFFER_BYTES)
    latencies: list[int] = []
    clock = time.perf_counter_ns
    end_ns = clock() + seconds * 10**9
    for client in clients:
        client.send(clock())
    in_flight = len(clients)
    while in_flight:
        events = epoll.poll(ANSWER_WITHIN_S)
        if not events:
            raise DriverError(f"no answer came for {ANSWER_WITHIN_S:g} s")
        for descriptor, _ in events:
            client = by_descriptor[descriptor]
            if not client.receive(buffer):
                continue
            now_ns = clock()
            latencies.append(now_ns - client.sent_ns)
            if now_ns < end_ns:
                client.send(now_ns)
            else:
                in_flight -= 1
    return latencies


def exchange_at_rate(clients: list[Client], seconds: int, rate: int) -> list[int]:
    """Send requests at a steady rate; the latencies in nanoseconds."""
    epoll, by_descriptor = watched(clients)
    buffer = bytearray(BUFFER_BYTES)
    latencies: list[int] = []
    clock = time.perf_counter_ns
    idle = deque(clients)
    start_ns = clock()
    sent, all_of_them = 0, seconds * rate
    while len(latencies) < all_of_them:
        now_ns = clock()
        due_ns = start_ns + sent * 10**9 // rate
        if sent < all_of_them and idle and due_ns <= now_ns:
            idle.popleft().send(clock())
            sent += 1
            continue
        wait_s = (due_ns - now_ns) / 1e9 if sent < all_of_them and idle else ANSWER_WITHIN_S
        # Of the two this one takes less than a millisecond for a time-out.
        if not select.select([epoll], [], [], wait_s)[0]:
            if wait_s == ANSWER_WITHIN_S:
                raise DriverError(f"no answer came for {ANSWER_WITHIN_S:g} s")
            continue
        for descriptor, _ in epoll.poll(0):
            client = by_descriptor[descriptor]
            if client.receive(buffer):
                latencies.append(clock() - client.sent_ns)
                idle.append(client)
    return latencies


def report(latencies: list[int], seconds: float) -> dict[str, float]:
    """The figures, named as those of wrk's script."""
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
    """Run the driver; the result is the exit status."""
    parser = argparse.ArgumentParser()
    for name in ("--port", "--connections", "--seconds", "--seed"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--ca-file")
    options = parser.parse_args(arguments)
    try:
        clients = connect(options)
        gc.disable()
        print("READY", flush=True)
        sys.stdin.readline()
        start = time.monotonic()
        if options.rate:
            latencies = exchange_at_rate(clients, options.seconds, options.rate)
        else:
            latencies = exchange(clients, options.seconds)
        print(f"REPORT {json.dumps(report(latencies, time.monotonic() - start))}", flush=True)
        # Connections stay until the caller has read what the proxy spent.
        sys.stdin.readline()
    except (DriverError, OSError) as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
