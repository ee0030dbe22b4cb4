"""Clients that ask at a rate, on connections that they keep or on new ones, and count what fails.

A request is due at its moment whether the ones before are answered or not; a connection that has
none asked on it takes it, or else a new connection is made.  As any client does, they open a kept
connection anew that was closed while nothing was asked on it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = b"GET /api/v1/namespaces/default/configmaps/x HTTP/1.1\r\nHost: a\r\n\r\n"
ENDS = b"\r\nconnection: close\r\n"
LENGTH = b"\r\ncontent-length:"
TICK_S = 0.002
"""Between two looks for requests that are due."""
AT_MOST = 2000
"""Requests under way; those beyond are late, as somebody is overloaded."""
END_WITHIN_S = 30.0
IDLE_GRACE_S = 1.0
"""The default of `drain.idleGrace`."""


@dataclass(slots=True)
class Tally:
    """What came of the requests.

    Attributes:
        refused: Connections that could not be made.
        broken_new, broken_kept: Connections that ended before the answer did; `kept` if they had
            brought an answer before.
        statuses: Answers that are not 200, by their status.
        connections: That were made.
        latencies_ms: Of the answers, in their order.
        late: Requests that were not asked when they were due, as too many were under way.
        raced: Connections that ended so after they had been idle for longer than a draining proxy
            waits for a request: it closes them then, and a request may be on its way.  No server
            can help that; clients ask again.  They are not among `broken_kept`.
        unanswered: Requests that nobody had answered half a minute after the last one.
    """

    refused: int = 0
    broken_new: int = 0
    broken_kept: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    connections: int = 0
    latencies_ms: list[float] = field(default_factory=list)
    late: int = 0
    unanswered: int = 0
    raced: int = 0

    @property
    def failed(self) -> int:
        """Requests without the answer that they should have."""
        broken = self.refused + self.broken_new + self.broken_kept + self.unanswered
        return broken + sum(self.statuses.values())

    @property
    def answered(self) -> int:
        """Requests with it."""
        return len(self.latencies_ms)


class PacedClients:
    """All clients of a port.

    Args:
        port: Of 127.0.0.1.
        rate: Requests a second.
        new_percent: Of the requests, that are on connections of their own.
    """

    def __init__(self, port: int, rate: float, new_percent: int) -> None:
        self._port = port
        self._rate = rate
        self._new_percent = new_percent
        self._loop = asyncio.get_running_loop()
        self._idle: dict[_Connection, None] = {}
        self._under_way = 0
        self._asked = 0
        self.tally = Tally()

    async def run(self, requests: int, done: Callable[[], bool] = lambda: True) -> float:
        """Ask so many requests, and more until `done` says so; for how many seconds."""
        begun_s = paced_from_s = monotonic()
        while self._asked < requests or not done():
            due = int((monotonic() - paced_from_s) * self._rate) - self._asked
            for _ in range(due):
                if self._under_way >= AT_MOST:
                    self.tally.late += due
                    paced_from_s += due / self._rate
                    break
                self._ask()
            await asyncio.sleep(TICK_S)
        lasted_s = monotonic() - begun_s
        end_s = monotonic() + END_WITHIN_S
        while self._under_way and monotonic() < end_s:  # noqa: ASYNC110 - it takes milliseconds
            await asyncio.sleep(TICK_S)
        self.tally.unanswered = self._under_way
        for each in list(self._idle):
            each.close()
        return lasted_s

    def _ask(self) -> None:
        self._asked += 1
        self._under_way += 1
        is_new = self._asked * self._new_percent % 100 < self._new_percent
        if self._idle and not is_new:
            connection, _ = self._idle.popitem()
            connection.ask()
        else:
            # The loop holds the task by its transport.
            task = self._loop.create_task(self._connect(keeps=not is_new))
            task.add_done_callback(_raise)

    async def _connect(self, *, keeps: bool) -> None:
        try:
            _, connection = await self._loop.create_connection(
                lambda: _Connection(self, keeps=keeps), "127.0.0.1", self._port
            )
        except OSError:
            self.tally.refused += 1
            self._under_way -= 1
            return
        self.tally.connections += 1
        connection.ask()

    def on_answer(self, connection: _Connection, status: str, *, is_free: bool) -> None:
        """A request has its answer."""
        self._under_way -= 1
        if status == "200":
            self.tally.latencies_ms.append((monotonic() - connection.asked_s) * 1e3)
        else:
            self.tally.statuses[status] = self.tally.statuses.get(status, 0) + 1
        if is_free:
            self._idle[connection] = None
        else:
            connection.close()

    def on_lost(self, connection: _Connection, *, is_asked: bool, was_used: bool) -> None:
        """A connection has ended."""
        self._idle.pop(connection, None)
        if not is_asked:
            return
        self._under_way -= 1
        if was_used and connection.asked_s - connection.answered_s >= IDLE_GRACE_S:
            self.tally.raced += 1
        elif was_used:
            self.tally.broken_kept += 1
        else:
            self.tally.broken_new += 1


class _Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, clients: PacedClients, *, keeps: bool) -> None:
        self._clients = clients
        self._keeps = keeps
        self._transport: asyncio.Transport
        self._received = b""
        self._is_asked = False
        self._was_used = False
        self.asked_s = self.answered_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def ask(self) -> None:
        """Send a request."""
        self._is_asked = True
        self.asked_s = monotonic()
        self._transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        fields = head.lower() + b"\r\n"
        start = fields.find(LENGTH)
        length = 0 if start < 0 else int(fields[start + len(LENGTH) :].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        self._received = b""
        self._is_asked, self._was_used = False, True
        self.answered_s = monotonic()
        is_free = self._keeps and ENDS not in fields
        self._clients.on_answer(self, head[9:12].decode(), is_free=is_free)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._clients.on_lost(self, is_asked=self._is_asked, was_used=self._was_used)

    def close(self) -> None:
        """End it."""
        self._is_asked = False
        self._transport.abort()


def _raise(task: asyncio.Task[None]) -> None:
    """Do not let an error go unseen."""
    task.result()
