"""What a proxy holds now, by its metrics: seats, requests, connections."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from time import monotonic

from loadtest.seat_watch import fetch

SAMPLE = re.compile(r"^([a-z_]+)(?:\{([^}]*)\})? ([0-9.e+-]+)$", re.MULTILINE)
QUIET_WITHIN_S = 8.0
"""More than any deadline that the load tests set."""


@dataclass(frozen=True, slots=True)
class ProxyState:
    """What is under way.

    Attributes:
        seats: In use in all priority levels, those of requests that linger included.
        executing: Requests that have seats or have none because they are long-running.
        waiting: Requests in queues.
        upstream_active: Connections to the origin that a request uses.
        upstream_idle: Those that none does.
        upstream_waiters: Requests that wait for one.
        downstream: Connections of clients.
    """

    seats: int
    executing: int
    waiting: int
    upstream_active: int
    upstream_idle: int
    upstream_waiters: int
    downstream: int

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way but idle connections."""
        return not (
            self.seats
            or self.executing
            or self.waiting
            or self.upstream_active
            or self.upstream_waiters
        )


async def read_state(admin_port: int) -> ProxyState:
    """Read the metrics page.

    Args:
        admin_port: Of the proxy's admin listener.
    """
    sums: dict[str, float] = {}
    for name, labels, value in SAMPLE.findall(await fetch(admin_port, "/metrics")):
        state = re.search(r'state="([a-z]+)"', labels)
        key = f"{name}/{state[1]}" if state else name
        sums[key] = sums.get(key, 0.0) + float(value)
    control = "apiserver_flowcontrol_current_"
    return ProxyState(
        int(sums[f"{control}executing_seats"]),
        int(sums.get(f"{control}executing_requests", 0)),
        int(sums.get(f"{control}inqueue_requests", 0)),
        int(sums["apfproxy_upstream_connections/active"]),
        int(sums["apfproxy_upstream_connections/idle"]),
        int(sums["apfproxy_upstream_waiters"]),
        int(sums["apfproxy_downstream_connections"]),
    )


async def wait_until_quiet(admin_port: int) -> ProxyState:
    """Give the state once nothing is under way, or that after a while in which this did not come.

    Args:
        admin_port: Of the proxy's admin listener.
    """
    end_s = monotonic() + QUIET_WITHIN_S
    state = await read_state(admin_port)
    while not state.is_quiet and monotonic() < end_s:
        await asyncio.sleep(0.1)
        state = await read_state(admin_port)
    return state
