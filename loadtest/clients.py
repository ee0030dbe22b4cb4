"""Clients of load tests over HTTP/1.1: closed loops, open loops, and watches.

A `Connection` has one request at a time.  In a closed loop each sends its next request when it has
the response to the last; in an open loop a request is sent when it is due, whatever became of those
before, on an idle connection or a new one.  As any client does, an open loop opens a connection
again that was closed while it was idle.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, cast

import httptools

from loadtest.processes import LoadTestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OK = 200
RETRY_AFTER_S = 0.1
"""Pause after a rejection; the response asks for whole seconds, in which no flow is greedy."""
TICK_S = 0.002
AT_MOST = 3000
"""Requests under way in an open loop; further ones are late, as something is overloaded."""
IDLE_GRACE_S = 1.0
"""The default of `drain.idleGrace`."""
BROKEN, LOST, HUNG, MISPAIRED, REFUSED = "broken", "lost", "hung", "mispaired", "refused"
"""Ends without a response: in its middle, before it, never; that of another request; unsent."""


class Connection(asyncio.Protocol):
    """A connection with one request at a time; as a context manager it is closed.

    Attributes:
        sent_s, first_s, ended_s: When the request was sent and its response began and ended.
        fields, body: Of the last response.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._status: asyncio.Future[int] | None = None
        self._pieces: list[bytes] = []
        self.is_gone = self.keeps = False
        self.sent_s = self.first_s = self.ended_s = 0.0
        self.fields: dict[bytes, bytes] = {}

    @classmethod
    async def open(cls, port: int, *arguments: Any) -> Self:  # noqa: ANN401 - of subclasses, too
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(lambda: cls(*arguments), "127.0.0.1", port))[1]

    @property
    def body(self) -> bytes:
        return b"".join(self._pieces)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_gone = True
        self._end(0)

    def data_received(self, data: bytes) -> None:
        if not self.first_s:
            self.first_s = monotonic()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields[name.lower()] = value

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        self.keeps = self._parser.should_keep_alive()
        self._end(self._parser.get_status_code())

    def ask(self, data: bytes) -> asyncio.Future[int]:
        """Send a request: the status of its response, 0 if the connection is closed before."""
        self._status = asyncio.get_running_loop().create_future()
        self.first_s, self.fields, self._pieces = 0.0, {}, []
        self.sent_s = monotonic()
        if self.is_gone:
            self._end(0)
        else:
            self._transport.write(data)
        return self._status

    def close(self) -> None:
        self._transport.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _end(self, status: int) -> None:
        if self._status is not None and not self._status.done():
            self.ended_s = monotonic()
            self._status.set_result(status)


def percentile(numbers: Sequence[float], percent: float) -> float:
    ranked = sorted(numbers)
    return ranked[math.ceil(len(ranked) * percent / 100) - 1]


@dataclass(slots=True)
class Flow:
    """One user's load, and its results in the measured time.

    Attributes:
        responses: All so far, those of the lead-in included.
    """

    user: str
    in_flight: int
    path: str = "/api/v1/namespaces/default/configmaps/x"
    latencies_ms: list[float] = field(default_factory=list)
    responses: int = 0
    rejected: int = 0
    failed: int = 0

    def per_s(self, seconds: float) -> float:
        return len(self.latencies_ms) / seconds


def request_for(flow: Flow, port: int) -> bytes:
    user = flow.user
    group = "system:serviceaccounts" if user.startswith("system:serviceaccount:") else "developers"
    return (
        f"GET {flow.path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"User-Agent: loadtest\r\nAccept: application/json\r\n"
        f"X-Remote-User: {user}\r\nX-Remote-Group: {group}\r\n\r\n"
    ).encode()


async def drive(
    flows: Sequence[Flow], *, port: int, lead_in_s: float, seconds: float, may_starve: bool = False
) -> None:
    """Load a server with closed loops for a while; each flow then holds its results.

    Connections begin at random moments of the lead-in, as independent clients do; beginning
    together would keep an origin of constant delay in lockstep.
    """
    measure_from_s = monotonic() + lead_in_s

    async def ask(flow: Flow, connection: Connection) -> None:
        # Half of the lead-in is for the queues to fill.
        await asyncio.sleep(random.random() * lead_in_s / 2)  # noqa: S311
        while status := await connection.ask(request_for(flow, port)):
            if status != OK:
                flow.rejected += status == 429
                flow.failed += status != 429
                await asyncio.sleep(RETRY_AFTER_S)
                continue
            flow.responses += 1
            if connection.ended_s >= measure_from_s:
                flow.latencies_ms.append((connection.ended_s - connection.sent_s) * 1000)
        flow.failed += 1

    everyone = [flow for flow in flows for _ in range(flow.in_flight)]
    connections = [await Connection.open(port) for _ in everyone]
    asking = [asyncio.create_task(ask(*each)) for each in zip(everyone, connections, strict=True)]
    try:
        await asyncio.sleep(measure_from_s - monotonic() + seconds)
    finally:
        for task, connection in zip(asking, connections, strict=True):
            task.cancel()
            connection.close()
    await asyncio.gather(*asking, return_exceptions=True)
    for flow in flows:
        if flow.failed or not (flow.latencies_ms or may_starve):
            raise LoadTestError(
                f"flow of {flow.user!r} on port {port}: {len(flow.latencies_ms)} responses, "
                f"{flow.rejected} rejected, {flow.failed} failed; look at the server's output"
            )


@dataclass(slots=True)
class Outcome:
    """A request of an open loop, and its end.

    Attributes:
        due_s, done_s: When it had to be sent, and when its result was known.
        result: The status of a whole response, or one of the ends without.
        idle_s: How long its connection had been idle; None for a new one.
    """

    number: int
    kind: str
    due_s: float
    done_s: float = 0.0
    result: str = ""
    origin: str = ""
    idle_s: float | None = None

    @property
    def is_write(self) -> bool:
        return self.kind in ("POST", "PUT")


@dataclass(slots=True)
class Tally:
    """Outcomes, counted.

    Attributes:
        broken_new, broken_kept: Requests whose connection ended, by whether it was a new one.
        statuses: Responses that are not 200.
        raced: Requests on a connection that had been idle for longer than a draining proxy waits:
            it closes then, and a request may be on its way.  No server can help that; clients
            repeat such a request.  They are not among `broken_kept`.
        late: Requests that were not sent when they were due.
    """

    refused: int = 0
    broken_new: int = 0
    broken_kept: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    raced: int = 0
    unanswered: int = 0
    late: int = 0
    connections: int = 0
    latencies_ms: list[float] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return len(self.latencies_ms)

    @property
    def failed(self) -> int:
        broken = self.refused + self.broken_new + self.broken_kept + self.unanswered
        return broken + self.statuses.total()

    def add(self, outcome: Outcome) -> None:
        idle_s = outcome.idle_s
        match outcome.result:
            case "200":
                self.latencies_ms.append((outcome.done_s - outcome.due_s) * 1000)
            case "refused":
                self.refused += 1
            case "hung":
                self.unanswered += 1
            case "broken" | "lost" if idle_s is None:
                self.broken_new += 1
            case "broken" | "lost" if idle_s is not None and idle_s >= IDLE_GRACE_S:
                self.raced += 1
            case "broken" | "lost":
                self.broken_kept += 1
            case status:
                self.statuses[status] += 1


def plain_request(number: int) -> tuple[str, bytes]:
    del number
    return "GET", b"GET /api/v1/namespaces/default/configmaps/x HTTP/1.1\r\nHost: a\r\n\r\n"


class OpenLoop:
    """Requests at a steady rate to one port; `outcomes` are in the order of their starts."""

    def __init__(
        self,
        port: int,
        rate: float,
        *,
        new_percent: int = 0,
        request: Callable[[int], tuple[str, bytes]] = plain_request,
        check: Callable[[Connection, Outcome], None] | None = None,
        patience_s: float = 30.0,
    ) -> None:
        self._port = port
        self._rate = rate
        self._new_percent = new_percent
        self._request = request
        self._check = check
        self._patience_s = patience_s
        self._idle: list[Connection] = []
        self._asking: set[asyncio.Task[None]] = set()
        self._number = 0
        self.outcomes: list[Outcome] = []
        self._late = self._connections = 0

    async def run(self, count: int, is_done: Callable[[], bool] = lambda: True) -> float:
        """Send so many requests, and more until `is_done`; for how many seconds."""
        begun_s = paced_from_s = monotonic()
        while self._number < count or not is_done():
            due = int((monotonic() - paced_from_s) * self._rate) + 1
            while self._number < due and (self._number < count or not is_done()):
                if len(self._asking) >= AT_MOST:
                    self._late += due - self._number
                    paced_from_s += (due - self._number) / self._rate
                    break
                due_s = paced_from_s + self._number / self._rate
                self._number += 1
                task = asyncio.create_task(self._ask(self._number, due_s))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
            await asyncio.sleep(TICK_S)
        lasted_s = monotonic() - begun_s
        await asyncio.gather(*self._asking)
        for each in self._idle:
            each.close()
        return lasted_s

    def tally(self) -> Tally:
        tally = Tally(late=self._late, connections=self._connections)
        for outcome in self.outcomes:
            tally.add(outcome)
        return tally

    async def _ask(self, number: int, due_s: float) -> None:
        kind, data = self._request(number)
        outcome = Outcome(number, kind, due_s)
        self.outcomes.append(outcome)
        is_own = number * self._new_percent % 100 < self._new_percent
        try:
            connection = await self._connection(outcome, is_new=is_own)
        except OSError:
            outcome.done_s, outcome.result = monotonic(), REFUSED
            return
        try:
            async with asyncio.timeout(self._patience_s):
                status = await connection.ask(data)
            outcome.result = str(status) if status else BROKEN if connection.first_s else LOST
        except TimeoutError:
            status, outcome.result = 0, HUNG
        outcome.done_s = monotonic()
        if status and self._check is not None:
            self._check(connection, outcome)
        if status and connection.keeps and not connection.is_gone and not is_own:
            self._idle.append(connection)
        else:
            connection.close()

    async def _connection(self, outcome: Outcome, *, is_new: bool) -> Connection:
        while self._idle and not is_new:
            connection = self._idle.pop()
            if not connection.is_gone:
                outcome.idle_s = monotonic() - connection.ended_s
                return connection
        connection = await Connection.open(self._port)
        self._connections += 1
        return connection
