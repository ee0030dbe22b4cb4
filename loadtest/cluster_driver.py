"""Send the mix `cluster` to a proxy and report as JSON: a loop on epoll, as lean as Python can.

wrk's scripts do not know which connection a request is for, so it can have a client for each
connection only as a thread; but then each answer wakes another thread, which makes every proxy's
writes dearer by half.  This loop takes 10 us for a request, as wrk does with one thread.

It connects, says READY, waits for a line on its input, and then keeps one request in flight on each
connection until the time is over and the last answer is there.  With `--rate` it sends so many
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
import sys
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from loadtest.cluster import Heads, Http2Fields, draw_request, draw_user, users
from loadtest.cluster_clients import (
    Client,
    DriverError,
    Http1Client,
    Http2Client,
    encode_requests,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REQUESTS_PER_S = 40_000
"""How many requests are drawn for a second; a client repeats those it has sent."""

MOST_REQUESTS = 160_000
"""Of which there are at most as many; drawing more takes long."""

ANSWER_WITHIN_S = 20.0
BUFFER_BYTES = 1 << 16


def connect(options: argparse.Namespace) -> list[Client]:
    context = ssl.create_default_context(cafile=options.ca_file) if options.ca_file else None
    if context is not None:
        context.set_alpn_protocols(["h2" if options.streams else "http/1.1"])
    rng = random.Random(options.seed)  # noqa: S311 - requests of a test
    everybody = users()
    all_of_them = min(REQUESTS_PER_S * options.seconds, MOST_REQUESTS)
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
        sock = socket.create_connection(("127.0.0.1", options.port), timeout=ANSWER_WITHIN_S)
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
        events = epoll.poll(ANSWER_WITHIN_S)
        if not events:
            raise DriverError(f"no answer came for {ANSWER_WITHIN_S:g} s")
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
        wait_s = (due_ns - now_ns) / 1e9 if sent < all_of_them and idle else ANSWER_WITHIN_S
        # Of the two this one takes less than a millisecond for a time-out.
        if not select.select([epoll], [], [], wait_s)[0]:
            if wait_s == ANSWER_WITHIN_S:
                raise DriverError(f"no answer came for {ANSWER_WITHIN_S:g} s")
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
