"""The clients of the demo: connections that send one request after another."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, cast

import httptools

if TYPE_CHECKING:
    from collections.abc import Iterable

OK = 200
TOO_MANY_REQUESTS = 429
PAUSE_AFTER_REJECTION_S = 0.1
"""Shorter than the Retry-After that it gets: the greedy client is no polite one."""

BUCKETS_PER_E = 50
"""Latencies are counted in buckets 2 % wide: bounded memory, however long the demo runs."""


class ClientKind(NamedTuple):
    """Clients that behave alike; each of the `users` is a flow, with requests `in_flight`."""

    name: str
    users: tuple[str, ...]
    in_flight: int
    path: str


NAMESPACE = "/namespaces/load-0"
GREEDY = ClientKind(
    "greedy",
    ("greedy",),
    in_flight=200,
    path=f"/apis/policy/v1{NAMESPACE}/poddisruptionbudgets",
)
MODEST = ClientKind(
    "modest",
    tuple(f"modest-{number}" for number in range(5)),
    in_flight=1,
    path=f"/api/v1{NAMESPACE}/pods/app-0-00000",
)
KINDS = (GREEDY, MODEST)


class Tally:
    """What the clients of one kind got since measuring began.

    Attributes:
        failures: Requests that failed, by how.
    """

    def __init__(self) -> None:
        self.answered = 0
        self.rejected = 0
        self.failures: Counter[str] = Counter()
        self._latencies: Counter[int] = Counter()

    def add(self, status: int, latency_s: float) -> None:
        """Count an answer."""
        if status == OK:
            self.answered += 1
            self._latencies[round(math.log(max(latency_s, 1e-6)) * BUCKETS_PER_E)] += 1
        elif status == TOO_MANY_REQUESTS:
            self.rejected += 1
        else:
            self.failures[str(status)] += 1

    @property
    def failed(self) -> int:
        """Requests that got no answer, or another one than 200 and 429."""
        return self.failures.total()

    def percentile_s(self, percent: float) -> float | None:
        """The latency that `percent` of the answered requests did not exceed; None without any."""
        needed = math.ceil(self.answered * percent / 100)
        for bucket in sorted(self._latencies):
            needed -= self._latencies[bucket]
            if needed <= 0:
                return math.exp(bucket / BUCKETS_PER_E)
        return None


class ClientConnection(asyncio.Protocol):
    """Keeps one request in flight, as one user, until it is closed; counts answers in `tally`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, port: int, user: str, path: str, tally: Tally
    ) -> None:
        self._loop = loop
        self._port = port
        self.tally = tally
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: demo\r\nX-Remote-User: {user}\r\n\r\n"
        ).encode()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._sent_s = 0.0
        self._is_closed = False

    async def connect(self) -> None:
        """Connect and send the first request; raises `OSError`."""
        await self._loop.create_connection(lambda: self, "127.0.0.1", self._port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        # uvloop's transports only behave like asyncio's, they do not inherit.
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Count the request that got no answer; the connection stays away."""
        self._transport = None
        if not self._is_closed:
            self.tally.failures["connection closed"] += 1

    def data_received(self, data: bytes) -> None:
        """Parse; what is no HTTP ends the connection."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport is not None:
                self._transport.abort()

    def on_message_complete(self) -> None:
        """Count an answer and send the next request, after a pause if it was a rejection."""
        status = self._parser.get_status_code()
        self.tally.add(status, time.perf_counter() - self._sent_s)
        if status == OK:
            self._send()
        else:
            self._loop.call_later(PAUSE_AFTER_REJECTION_S, self._send)

    def _send(self) -> None:
        if self._transport is not None and not self._is_closed:
            self._sent_s = time.perf_counter()
            self._transport.write(self._request)

    def close(self) -> None:
        """Close at once; what is in flight does not count."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()


class Load:
    """All clients at work against one proxy, or evenly against several, by their ports."""

    def __init__(self, kinds: Iterable[ClientKind], *ports: int) -> None:
        loop = asyncio.get_running_loop()
        self.tallies = {kind.name: Tally() for kind in kinds}
        turn = itertools.cycle(ports)
        self._connections = [
            (
                kind.name,
                ClientConnection(loop, next(turn), user, kind.path, self.tallies[kind.name]),
            )
            for kind in kinds
            for user in kind.users
            for _ in range(kind.in_flight)
        ]
        self._since_s = time.perf_counter()

    @property
    def duration_s(self) -> float:
        """How long has been measured."""
        return time.perf_counter() - self._since_s

    async def start(self) -> None:
        """Connect all clients; raises `OSError`."""
        await asyncio.gather(*(connection.connect() for _, connection in self._connections))

    def measure(self) -> None:
        """Forget what was counted so far; call it when the start is over."""
        self.tallies = {name: Tally() for name in self.tallies}
        self._since_s = time.perf_counter()
        for name, connection in self._connections:
            connection.tally = self.tallies[name]

    def stop(self) -> None:
        """Close all connections at once."""
        for _, connection in self._connections:
            connection.close()


async def wait(event: asyncio.Event, duration_s: float) -> None:
    """Wait for the event, but no longer than the duration."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), duration_s)
