"""Clients of an API server that cost little beside it: requests made beforehand, bare protocols."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from httptools import HttpResponseParser

from loadtest.driver import percentile
from loadtest.processes import LoadTestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from loadtest.processes import Process

ANSWER_WITHIN_S = 60.0
"""How long a load, or a change on its way to all watchers, may take in all."""

WATCHES_AT_ONCE = 50
"""Watches that are opened side by side: fewer than a listening socket's backlog."""

SMALL_BUFFER_BYTES = 16 * 1024
"""What the socket of a slow reader takes in, so that the server has to hold back the rest."""

TOKEN = re.compile(rb'"continue":"([^"]*)"')


def request(
    method: str,
    target: str,
    body: bytes = b"",
    *,
    content_type: str = "application/json",
    accept: str = "application/json",
    encoding: str = "identity",
) -> bytes:
    """Make a request, head and body.

    Args:
        method: Of the request.
        target: Path and query.
        body: Empty for none.
        content_type: Of the body.
        accept: Media types that the answer may have.
        encoding: Content codings that it may have.
    """
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: apiserver",
        "User-Agent: loadtest/1.0",
        f"Accept: {accept}",
        f"Accept-Encoding: {encoding}",
    ]
    if body:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(slots=True)
class Load:
    """Requests that were answered, and when.

    Attributes:
        seconds: From the first request to the last answer.
        first_ms: From each request to the first byte of its answer.
        latencies_ms: From each request to the last byte of its answer.
        body: Of the answer that came last.
    """

    seconds: float = 0.0
    first_ms: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    body: bytes = b""

    @property
    def per_s(self) -> float:
        """Answers in a second."""
        return len(self.latencies_ms) / self.seconds

    def latency_ms(self, percent: float) -> float:
        """A percentile of the times to the last byte."""
        return percentile(self.latencies_ms, percent)


class Client(asyncio.Protocol):
    """One connection that sends the next of the shared requests when it has an answer."""

    def __init__(self, load: Load, requests: Iterable[bytes]) -> None:
        self._load = load
        self._requests = iter(requests)
        self._parser = HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._chunks: list[bytes] = []
        self._sent_s = 0.0
        self._is_first = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Take a part of an answer."""
        if self._is_first:
            self._is_first = False
            self._load.first_ms.append((time.perf_counter() - self._sent_s) * 1e3)
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        """Keep a part of a body."""
        self._chunks.append(data)

    def on_message_complete(self) -> None:
        """Count an answer and go on."""
        self._load.latencies_ms.append((time.perf_counter() - self._sent_s) * 1e3)
        status = self._parser.get_status_code()
        self._load.body = b"".join(self._chunks)
        self._chunks = []
        if not 200 <= status < 300:
            text = self._load.body[:200].decode(errors="replace")
            self._end(LoadTestError(f"the server answered {status}: {text}"))
            return
        self._parser = HttpResponseParser(self)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """End, if the server ended it."""
        self._end(exc or LoadTestError("the server closed a connection; see its log"))

    def _send(self) -> None:
        assert self._transport is not None
        following = next(self._requests, None)
        if following is None:
            self._end(None)
            return
        self._sent_s = time.perf_counter()
        self._is_first = True
        self._transport.write(following)

    def _end(self, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
        assert self._transport is not None
        self._transport.close()


async def answers(server: Process, requests: Sequence[bytes], connections: int = 1) -> Load:
    """Send requests, each when one of the connections is free.

    Args:
        server: Answers them.
        requests: Whole ones.
        connections: How many requests are under way at once.

    Raises:
        LoadTestError: One was not answered, or not with a success.
    """
    load = Load()
    loop = asyncio.get_running_loop()
    remaining = iter(requests)
    start = time.perf_counter()
    clients = []
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            for _ in range(connections):
                _, client = await loop.create_connection(
                    lambda: Client(load, remaining), "127.0.0.1", server.port
                )
                clients.append(client)
            await asyncio.gather(*(client.done for client in clients))
    except TimeoutError as error:
        raise LoadTestError(
            f"{server.name} answered {len(load.latencies_ms)} of {len(requests)} requests"
            f" within {ANSWER_WITHIN_S:g} s"
        ) from error
    load.seconds = time.perf_counter() - start
    return load


async def walk(server: Process, target: str, limit: int) -> tuple[Load, int]:
    """Read a whole list in pages.

    Args:
        server: Answers.
        target: Of the list, without parameters.
        limit: Objects of a page.

    Returns:
        All pages as one load, and how many there were.

    Raises:
        LoadTestError: As for `answers`.
    """
    load = Load()
    token = ""
    while True:
        query = f"?limit={limit}" + (f"&continue={token}" if token else "")
        page = await answers(server, [request("GET", target + query)])
        load.latencies_ms += page.latencies_ms
        load.seconds += page.seconds
        found = TOKEN.search(page.body[:4096])
        if found is None:
            return load, len(load.latencies_ms)
        token = found[1].decode()


async def beside(server: Process, text: bytes, count: int, others: bytes, connections: int) -> Load:
    """Send a request over and over while other clients keep the server busy.

    Args:
        server: Answers.
        text: The request that is measured.
        count: How often.
        others: The request of the others.
        connections: How many of them.
    """
    is_over = False

    def more() -> Iterator[bytes]:
        while not is_over:
            yield others

    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda: Client(Load(), more()), "127.0.0.1", server.port))[1]
        for _ in range(connections)
    ]
    try:
        return await answers(server, [text] * count)
    finally:
        is_over = True
        await asyncio.gather(*(client.done for client in clients))


class Crowd:
    """Many watches of one collection, each on a connection of its own.

    Attributes:
        events: That all watches got, together.
    """

    def __init__(self) -> None:
        self.events = 0
        self._awaited = 0
        self._arrived: asyncio.Future[None] | None = None
        self._watches: list[Watch] = []

    async def open(self, server: Process, target: str, count: int) -> None:
        """Open watches and wait until the server has begun to answer all of them."""
        loop = asyncio.get_running_loop()
        text = request("GET", target)
        for start in range(0, count, WATCHES_AT_ONCE):
            opened = await asyncio.gather(
                *(
                    loop.create_connection(lambda: Watch(self, text), "127.0.0.1", server.port)
                    for _ in range(min(WATCHES_AT_ONCE, count - start))
                )
            )
            watches = [watch for _, watch in opened]
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await asyncio.gather(*(watch.begun for watch in watches))
            self._watches += watches

    async def see(self, server: Process, change: bytes) -> float:
        """Make a change and wait until all watches have it.

        Returns:
            From sending the change to its arrival at the last watch, in milliseconds.

        Raises:
            LoadTestError: It did not arrive everywhere.
        """
        self._awaited = self.events + len(self._watches)
        self._arrived = asyncio.get_running_loop().create_future()
        start = time.perf_counter()
        await answers(server, [change])
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._arrived
        except TimeoutError as error:
            raise LoadTestError(
                f"{self._awaited - self.events} of {len(self._watches)} watches did not get a"
                f" change within {ANSWER_WITHIN_S:g} s"
            ) from error
        return (time.perf_counter() - start) * 1e3

    async def fill(self, server: Process, target: str, events: int) -> float:
        """Open one watch and wait for the events that it begins with.

        Returns:
            Until the last of them, in milliseconds.
        """
        self._awaited = events
        self._arrived = asyncio.get_running_loop().create_future()
        start = time.perf_counter()
        await self.open(server, target, 1)
        async with asyncio.timeout(ANSWER_WITHIN_S):
            await self._arrived
        return (time.perf_counter() - start) * 1e3

    def add(self, events: int) -> None:
        """Count events that a watch got."""
        self.events += events
        if self.events >= self._awaited and self._arrived and not self._arrived.done():
            self._arrived.set_result(None)

    def close(self) -> None:
        """End all watches.

        Raises:
            LoadTestError: They did not all get the same number of events.
        """
        counts = {watch.events for watch in self._watches}
        for watch in self._watches:
            watch.close()
        if len(counts) > 1:
            raise LoadTestError(f"watches got {min(counts)} to {max(counts)} events, not the same")


class Watch(asyncio.Protocol):
    """One watch that counts its events."""

    def __init__(self, crowd: Crowd, text: bytes) -> None:
        self._crowd = crowd
        self._text = text
        self._last = b""
        self._transport: asyncio.Transport | None = None
        self.events = 0
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._text)

    def data_received(self, data: bytes) -> None:
        """Count events: lines of JSON, each in a chunk."""
        if not self.begun.done():
            if data.startswith(b"HTTP/1.1 200 "):
                self.begun.set_result(None)
            else:
                self.begun.set_exception(LoadTestError(f"a watch was answered {data[:200]!r}"))
        # A line ends where a value does, and its end may be cut in two.
        events = (self._last + data).count(b"}\n")
        self._last = data[-1:]
        if events:
            self.events += events
            self._crowd.add(events)

    def close(self) -> None:
        """End it."""
        assert self._transport is not None
        self._transport.close()


async def read_slowly(server: Process, text: bytes, readers: int, seconds: float) -> int:
    """Let clients take their answers a little at a time, and see what the server holds for them.

    Args:
        server: Answers.
        text: The request of each.
        readers: How many at once.
        seconds: How long; they leave then.

    Returns:
        Bytes that the server's memory grew by, at most.
    """
    before = server.rss_bytes()
    most = 0
    loop = asyncio.get_running_loop()
    sockets = []
    try:
        for _ in range(readers):
            connection = socket.socket()
            sockets.append(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
            connection.setblocking(False)
            await loop.sock_connect(connection, ("127.0.0.1", server.port))
            await loop.sock_sendall(connection, text)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for connection in sockets:
                if not await loop.sock_recv(connection, SMALL_BUFFER_BYTES):
                    raise LoadTestError("the server ended an answer to a slow reader")
            most = max(most, server.rss_bytes() - before)
            await asyncio.sleep(0.01)
    finally:
        for connection in sockets:
            connection.close()
    return most
