"""Clients before a gateway: requests at a steady rate, whatever comes of them, and watches.

Each request has a number, which its answer has to repeat, together with the origin that gave it.
What became of each is in an `Outcome`.  A request is sent when it is due, on an idle connection or
a new one, so a gateway that is slow meets more requests at once, as in front of real clients.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, cast

import httptools

from loadtest.gateway_notes import (
    ANYWHERE,
    BROKEN,
    GOOD,
    HUNG,
    LOST,
    MISPAIRED,
    REFUSED,
    Notes,
    Outcome,
    Place,
    WatchEnd,
)
from loadtest.gateway_origin import ITEM, LIST_ITEMS

if TYPE_CHECKING:
    from collections.abc import Sequence

PATH = "/api/v1/namespaces/default/configmaps"
KINDS = {"GET": 60, "LIST": 10, "POST": 20, "PUT": 10}
USERS = 20
MAX_BODY_BYTES = 3000
MAX_CONNECTIONS = 3000
PATIENCE_S = 8.0
"""After which a request without an end counts as hung."""
TICK_S = 0.001
KEPT_BYTES = 300
"""Of a bad answer."""
BETWEEN_WATCHES_S = 0.1


class Connection(asyncio.Protocol):
    """A connection with one request at a time, always to the same place."""

    def __init__(self, clients: Clients, place: Place) -> None:
        self._clients = clients
        self.place = place
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._body_bytes = 0
        self._text = b""
        self._number = -1
        self._origin = self._host = ""
        self.outcome: Outcome | None = None
        self.is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Account for the request that is not answered."""
        del exc
        self.is_gone = True
        self._clients.on_closed(self)
        if self.outcome is not None:
            self._end(BROKEN if self._number >= 0 else LOST)

    def send(self, outcome: Outcome, data: bytes) -> None:
        """Send a request."""
        self.outcome = outcome
        self._transport.write(data)

    def give_up(self) -> None:
        """No answer came."""
        self._end(HUNG)
        self._transport.abort()

    def close(self) -> None:
        """Be done."""
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Take the answer apart."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._end(MISPAIRED)
            self._transport.abort()

    def on_message_begin(self) -> None:
        """An answer starts."""
        self._body_bytes, self._number, self._origin, self._host = 0, 0, "", ""
        self._text = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field."""
        match name.lower():
            case b"x-request-id":
                self._number = int(value)
            case b"x-origin":
                self._origin = value.decode()
            case b"x-host":
                self._host = value.decode()

    def on_body(self, data: bytes) -> None:
        """Some of the body."""
        if not self._body_bytes:
            self._text = data[:KEPT_BYTES]
        self._body_bytes += len(data)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        outcome, status = self.outcome, str(self._parser.get_status_code())
        if outcome is None:
            return
        if status == GOOD:
            expected = len(ITEM) * (LIST_ITEMS if outcome.kind == "LIST" else 1)
            is_elsewhere = self.place.host_behind not in ("", self._host)
            if self._number != outcome.number or self._body_bytes != expected or is_elsewhere:
                status = MISPAIRED
        is_kept = self._parser.should_keep_alive() and status != MISPAIRED
        self._end(status)
        self._number = -1
        if is_kept:
            self._clients.on_idle(self)
        else:
            self._transport.close()

    def _end(self, result: str) -> None:
        outcome = self.outcome
        if outcome is None:
            return
        self.outcome = None
        outcome.done_s, outcome.result = monotonic(), result
        outcome.origin, outcome.host_behind = self._origin, self._host
        if result != GOOD:
            outcome.text = self._text
        self._clients.notes.outcomes.append(outcome)


class Watcher(asyncio.Protocol):
    """A watch, until it ends."""

    def __init__(self, notes: Notes, head: bytes) -> None:
        self._notes = notes
        self._head = head
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._is_clean = False
        self._origin = ""
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._head)

    def connection_lost(self, exc: Exception | None) -> None:
        """The watch is over."""
        del exc
        self._notes.watching[self._origin] -= 1
        self._notes.watch_ends.append(WatchEnd(monotonic(), self._origin, self._is_clean))
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        """Take events."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Whose it is."""
        if name.lower() == b"x-origin":
            self._origin = value.decode()

    def on_headers_complete(self) -> None:
        """It has begun, or has not."""
        self._notes.watching[self._origin] += 1

    def on_message_complete(self) -> None:
        """It has ended in order; an error is no watch."""
        self._is_clean = self._parser.get_status_code() == int(GOOD)
        self._transport.close()


class Clients:
    """All that ask.

    Args:
        port: The gateway's, of 127.0.0.1.
        rate: Requests a second.
        seed: Of what is drawn.
        places: Where they are sent, one after the other.
        first: The number of the first request.
    """

    def __init__(
        self,
        port: int,
        rate: float,
        seed: int = 1,
        *,
        places: Sequence[Place] = (ANYWHERE,),
        first: int = 1,
    ) -> None:
        self.notes = Notes()
        self._port = port
        self._rate = rate
        self._places = places
        self._next = first
        self._is_stopped = False
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._kinds = self._random.choices(list(KINDS), list(KINDS.values()), k=10_000)
        self._idle: dict[Place, list[Connection]] = {place: [] for place in places}
        self._open: set[Connection] = set()
        self._waiting: dict[Place, deque[Outcome]] = {place: deque() for place in places}
        self._connecting: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Clients: {len(self.notes.outcomes)} ended, {len(self._open)} connections>"

    async def ask(self, count: int) -> None:
        """Send so many requests at the rate, or until `stop`, and wait for the end of each."""
        begun_s, sent, ended = monotonic(), 0, len(self.notes.outcomes)
        sweeping = asyncio.create_task(self._sweep())
        while sent < count and not self._is_stopped:
            due = min(count, int((monotonic() - begun_s) * self._rate) + 1)
            for at in range(sent, due):
                self._ask(begun_s + at / self._rate)
            sent = due
            await asyncio.sleep(TICK_S)
        while len(self.notes.outcomes) < ended + sent:  # noqa: ASYNC110 - they are many
            await asyncio.sleep(0.05)
        sweeping.cancel()

    async def watch(self) -> None:
        """Watch, again and again."""
        loop = asyncio.get_running_loop()
        head = self._head(self._places[0], "GET", f"{PATH}?watch=true", 0) + b"\r\n"
        while True:
            try:
                _, watcher = await loop.create_connection(
                    lambda: Watcher(self.notes, head), "127.0.0.1", self._port
                )
            except OSError:
                self.notes.watch_ends.append(WatchEnd(monotonic(), "", is_clean=False))
            else:
                await watcher.ended.wait()
            await asyncio.sleep(BETWEEN_WATCHES_S * (1 + self._random.random()))

    def stop(self) -> None:
        """Send no more."""
        self._is_stopped = True

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._open):
            connection.close()

    def on_idle(self, connection: Connection) -> None:
        """A connection is free."""
        waiting = self._waiting[connection.place]
        if waiting:
            self._send(connection, waiting.popleft())
        else:
            self._idle[connection.place].append(connection)

    def on_closed(self, connection: Connection) -> None:
        """A connection is gone."""
        self._open.discard(connection)
        if self._waiting[connection.place]:
            self._open_another(connection.place)

    def _ask(self, due_s: float) -> None:
        number = self._next
        self._next += 1
        place = self._places[number % len(self._places)]
        outcome = Outcome(number, self._kinds[number % len(self._kinds)], due_s, place=place)
        idle = self._idle[place]
        while idle:
            connection = idle.pop()
            if not connection.is_gone:
                self._send(connection, outcome)
                return
        self._waiting[place].append(outcome)
        self._open_another(place)

    def _open_another(self, place: Place) -> None:
        if len(self._open) + len(self._connecting) < MAX_CONNECTIONS:
            task = asyncio.create_task(self._connect(place))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, place: Place) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self, place), "127.0.0.1", self._port
            )
        except OSError:
            if self._waiting[place]:
                outcome = self._waiting[place].popleft()
                outcome.done_s, outcome.result = monotonic(), REFUSED
                self.notes.outcomes.append(outcome)
            return
        self._open.add(connection)
        self.on_idle(connection)

    def _send(self, connection: Connection, outcome: Outcome) -> None:
        number, kind, place = outcome.number, outcome.kind, outcome.place
        if kind in ("POST", "PUT"):
            size = self._random.randrange(MAX_BODY_BYTES)
            target = PATH if kind == "POST" else f"{PATH}/x-{number % 100}"
            head = self._head(place, kind, target, number)
            data = b"%bContent-Length: %d\r\n\r\n%b" % (head, size, b"x" * size)
        elif kind == "LIST":
            data = self._head(place, "GET", f"{PATH}?limit=500", number) + b"\r\n"
        else:
            data = self._head(place, "GET", f"{PATH}/x-{number % 100}", number) + b"\r\n"
        connection.send(outcome, data)

    def _head(self, place: Place, method: str, target: str, number: int) -> bytes:
        return (
            f"{method} {place.prefix}{target} HTTP/1.1\r\nHost: {place.host}\r\n"
            f"X-Remote-User: user-{number % USERS}\r\nX-Remote-Group: testers\r\n"
            f"X-Request-Id: {number}\r\n"
        ).encode()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(PATIENCE_S / 10)
            late_s = monotonic() - PATIENCE_S
            for connection in list(self._open):
                if connection.outcome is not None and connection.outcome.due_s < late_s:
                    connection.give_up()
