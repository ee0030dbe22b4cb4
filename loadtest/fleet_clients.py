"""Clients of the members of a fleet, which ask one request after another where they are sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, cast

import httptools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OK, TOO_MANY = "200", "429"
BROKEN = "broken"
"""No answer, since the connection broke off."""
REFUSED = "refused"
"""No connection."""
PAUSE_S = 0.1
"""After anything but a good answer."""


class FleetClients:
    """Clients of each member.

    Args:
        ports: Of the members.
        users: How many users they are, one after the other.

    Attributes:
        results: What came of requests since they were last cleared.
    """

    def __init__(self, ports: Sequence[int], users: int) -> None:
        self.results: Counter[str] = Counter()
        self._users = users
        self._ports = ports
        self._clients: list[list[Client]] = [[] for _ in ports]

    def aim(self, counts: Mapping[int, int]) -> None:
        """Have so many clients ask each member; the others end with their next answer."""
        for member, clients in enumerate(self._clients):
            count = counts.get(member, 0)
            while len(clients) < count:
                user = f"user-{len(clients) % self._users}"
                clients.append(Client(self, member, self._ports[member], user))
            for place, client in enumerate(clients):
                client.want(is_wanted=place < count)

    def stop(self) -> None:
        """Close all connections at once."""
        for clients in self._clients:
            for client in clients:
                client.stop()

    def __repr__(self) -> str:
        return f"<FleetClients of {len(self._ports)} members, {dict(self.results)}>"


class Client(asyncio.Protocol):
    """One client of one member, with one request at a time while it is wanted."""

    def __init__(self, clients: FleetClients, member: int, port: int, user: str) -> None:
        self._clients = clients
        self._port = port
        self._request = (
            f"GET /members/{member}/x HTTP/1.1\r\nHost: fleet\r\nX-Remote-User: {user}\r\n\r\n"
        ).encode()
        self._is_wanted = False
        self._is_busy = False  # it connects, asks, or pauses
        self._is_asking = False
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._connecting: asyncio.Task[None] | None = None

    def want(self, *, is_wanted: bool) -> None:
        """Ask from now on, or end with the next answer."""
        self._is_wanted = is_wanted
        if is_wanted and not self._is_busy:
            self._go_on()

    def stop(self) -> None:
        """Close it; what is under way does not count."""
        self._is_wanted = self._is_asking = False
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Connect again if there is more to ask."""
        del exc
        self._transport = None
        if self._is_asking:
            self._end(BROKEN)

    def data_received(self, data: bytes) -> None:
        """Take the answer."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport is not None:
                self._transport.abort()

    def on_message_complete(self) -> None:
        """The answer is whole."""
        self._end(str(self._parser.get_status_code()))

    def _go_on(self) -> None:
        self._is_busy = self._is_wanted
        if not self._is_wanted:
            return
        if self._transport is None or self._transport.is_closing():
            self._connecting = asyncio.create_task(self._connect())
            return
        self._is_asking = True
        self._transport.write(self._request)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        except OSError:
            self._end(REFUSED)

    def _end(self, result: str) -> None:
        self._is_asking = False
        self._clients.results[result] += 1
        if result == OK:
            self._go_on()
        else:
            asyncio.get_running_loop().call_later(PAUSE_S, self._go_on)
