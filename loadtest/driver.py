"""A light closed-loop load driver: flows, each with a fixed number of requests always in flight.

Each request in flight is one keep-alive connection that sends the next request when it has the
answer to the last.  Connections begin at random moments of the lead-in, as clients that know
nothing of each other do; beginning together would keep an origin of constant delay in lockstep,
with all seats coming free at one instant.
"""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, cast

from loadtest.processes import LoadTestError

if TYPE_CHECKING:
    from collections.abc import Sequence

RETRY_AFTER_S = 0.1
"""Pause after a refusal; the answer asks for whole seconds, in which a flow would not be greedy."""

CONTENT_LENGTH = b"content-length:"


@dataclass(slots=True)
class Flow:
    """One user's load, and what came of it in the measured time.

    Attributes:
        answered_s: When each answer of the latencies came, on the monotonic clock.
    """

    user: str
    in_flight: int
    latencies_ms: list[float] = field(default_factory=list)
    answered_s: list[float] = field(default_factory=list)
    rejected: int = 0
    failed: int = 0

    def per_s(self, seconds: float) -> float:
        """Give the throughput in answers per second of `seconds` of measured time."""
        return len(self.latencies_ms) / seconds


def percentile(numbers: Sequence[float], percent: float) -> float:
    """Give the nearest-rank percentile.

    Args:
        numbers: At least one, in any order.
        percent: Above 0, up to 100.
    """
    ranked = sorted(numbers)
    return ranked[math.ceil(len(ranked) * percent / 100) - 1]


class Client(asyncio.Protocol):
    """One connection with one request in flight."""

    def __init__(self, flow: Flow, request: bytes, measure_from_s: float) -> None:
        self._flow = flow
        self._request = request
        self._measure_from_s = measure_from_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._received = b""
        self._sent_s = 0.0
        self._is_stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a connection that somebody else ended."""
        del exc
        if not self._is_stopped:
            self._is_stopped = True
            self._flow.failed += 1

    def data_received(self, data: bytes) -> None:
        """Record the answer once it is whole, and send the next request."""
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator or len(body) < _content_length(head):
            return
        self._received = b""
        now_s = monotonic()
        status = head[9:12]
        if status == b"200":
            if now_s >= self._measure_from_s:
                self._flow.latencies_ms.append((now_s - self._sent_s) * 1000)
                self._flow.answered_s.append(now_s)
            self.send()
            return
        if status == b"429":
            self._flow.rejected += 1
        else:
            self._flow.failed += 1
        self._loop.call_later(RETRY_AFTER_S, self.send)

    def send(self) -> None:
        """Send a request."""
        if not self._is_stopped:
            self._sent_s = monotonic()
            self._transport.write(self._request)

    def stop(self) -> None:
        """Close the connection."""
        self._is_stopped = True
        self._transport.abort()


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(CONTENT_LENGTH):
            return int(line[len(CONTENT_LENGTH) :])
    return 0


def request_for(user: str, port: int) -> bytes:
    """Make the request of a user; a service account also names its group, as Kubernetes would."""
    group = "system:serviceaccounts" if user.startswith("system:serviceaccount:") else "developers"
    return (
        f"GET /api/v1/namespaces/default/configmaps/x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"User-Agent: loadtest\r\nAccept: application/json\r\n"
        f"X-Remote-User: {user}\r\nX-Remote-Group: {group}\r\n\r\n"
    ).encode()


async def drive(
    flows: Sequence[Flow],
    *,
    port: int,
    lead_in_s: float,
    seconds: float,
    may_starve: bool = False,
) -> None:
    """Load a server with flows for a while; each flow then holds what came of it.

    Args:
        flows: New flows.
        port: The server's port of 127.0.0.1.
        lead_in_s: Time in which the connections begin, not measured.
        seconds: Measured time after that.
        may_starve: Whether a flow may have no answer.

    Raises:
        LoadTestError: A flow got something else than success or refusal, or no answer at all.
    """
    loop = asyncio.get_running_loop()
    measure_from_s = monotonic() + lead_in_s
    clients: list[Client] = []
    try:
        for flow in flows:
            request = request_for(flow.user, port)
            for _ in range(flow.in_flight):
                _, client = await loop.create_connection(
                    partial(Client, flow, request, measure_from_s),
                    "127.0.0.1",
                    port,
                )
                clients.append(client)
                # Half of the lead-in is for the queues to fill.
                loop.call_later(random.random() * lead_in_s / 2, client.send)  # noqa: S311
        await asyncio.sleep(measure_from_s - monotonic() + seconds)
    finally:
        for client in clients:
            client.stop()
    for flow in flows:
        if flow.failed or not (flow.latencies_ms or may_starve):
            raise LoadTestError(
                f"flow of {flow.user!r} on port {port}: {len(flow.latencies_ms)} answers, "
                f"{flow.rejected} refused, {flow.failed} failed; look at the server's output"
            )
