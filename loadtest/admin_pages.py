"""Pages of a proxy's admin listener: what it holds, and whether a seat idles while a request waits.

The pages are made between two events, so every sample is a state in which the proxy rests: no seat
that a waiting request fits may be free in one.  Every request of these load tests takes one seat,
so the executing requests of `dump_priority_levels` are the seats in use.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from loadtest.processes import LoadTestError

LEVELS = "/debug/api_priority_and_fairness/dump_priority_levels"
RESPONDS_WITHIN_S = 10.0
LIMITS_EVERY_S = 10.0
"""As often as limits move."""
SAMPLE = re.compile(r"^([a-z_]+)(?:\{([^}]*)\})? ([0-9.e+-]+)$", re.MULTILINE)
QUIET_WITHIN_S = 8.0
"""More than any deadline that the load tests set."""


async def fetch(port: int, target: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {target} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        async with asyncio.timeout(RESPONDS_WITHIN_S):
            head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    except TimeoutError as error:
        raise LoadTestError(f"GET {target} on port {port}: no response in time") from error
    finally:
        writer.close()
    if b" 200 " not in head.split(b"\r\n")[0] + b" ":
        raise LoadTestError(f"GET {target} on port {port}: {head[:80]!r} instead of 200")
    return body.decode()


async def read_limits(admin_port: int) -> dict[str, Any]:
    limits: dict[str, Any] = json.loads(await fetch(admin_port, "/debug/limits"))
    return limits


@dataclass(frozen=True, slots=True)
class ProxyState:
    """Seats, requests and connections of a proxy.

    Attributes:
        seats: In use in all priority levels, those of requests that linger included.
        executing: Requests that have seats or have none because they are long-running.
        upstream_active, upstream_idle: Connections to the origin, with and without a request.
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
        return not (
            self.seats
            or self.executing
            or self.waiting
            or self.upstream_active
            or self.upstream_waiters
        )


async def read_state(admin_port: int) -> ProxyState:
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


async def wait_until_quiet(
    admin_port: int, within_s: float = QUIET_WITHIN_S, *, clients_leave: bool = False
) -> ProxyState:
    """The state once nothing is under way, or after a while."""
    end_s = monotonic() + within_s
    state = await read_state(admin_port)
    while (not state.is_quiet or (clients_leave and state.downstream)) and monotonic() < end_s:
        await asyncio.sleep(0.1)
        state = await read_state(admin_port)
    return state


@dataclass(slots=True)
class SeatWatch:
    admin_port: int
    period_s: float = 0.1
    samples: int = 0
    samples_with_waiting: int = 0
    samples_with_idle_seats: int = 0
    limits: dict[str, int] = field(default_factory=dict)
    peak_waiting: int = 0

    async def run(self) -> None:
        while True:
            if self.samples % max(1, round(LIMITS_EVERY_S / self.period_s)) == 0:
                await self.read_limits()
            await self.sample()
            await asyncio.sleep(self.period_s)

    async def sample(self) -> None:
        rows = [
            [cell.strip() for cell in line.split(",")]
            for line in (await fetch(self.admin_port, LEVELS)).splitlines()
        ]
        if not rows:
            raise LoadTestError(f"{LEVELS} is empty")
        name_at, waiting_at, executing_at = (
            rows[0].index(column)
            for column in ("PriorityLevelName", "WaitingRequests", "ExecutingRequests")
        )
        is_idle = is_waited = False
        for row in rows[1:]:
            name, waiting, executing = row[name_at], int(row[waiting_at]), int(row[executing_at])
            if not waiting:
                continue
            is_waited = True
            self.peak_waiting = max(self.peak_waiting, waiting)
            if executing < self.limits.get(name, 0):
                # Not idle if the limit has just come down: compare with the one of now.
                await self.read_limits()
                is_idle |= executing < self.limits.get(name, 0)
        self.samples += 1
        self.samples_with_waiting += is_waited
        self.samples_with_idle_seats += is_idle

    async def read_limits(self) -> None:
        levels = (await read_limits(self.admin_port))["levels"]
        self.limits = {each["name"]: each["current"] for each in levels}
