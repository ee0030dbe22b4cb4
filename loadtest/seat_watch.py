"""Watch through the admin listener whether any seat stays idle while a request waits.

The proxy's pages are made between two events, so every sample is a state in which it rests: no
seat that a waiting request fits may be free in one.  Every request of these load tests takes one
seat, so the executing requests of `dump_priority_levels` are the seats in use.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

from loadtest.processes import LoadTestError

LEVELS = "/debug/api_priority_and_fairness/dump_priority_levels"
LIMIT = re.compile(
    r'^apiserver_flowcontrol_current_limit_seats\{priority_level="([^"]+)"\} ([0-9.e+]+)$',
    re.MULTILINE,
)

ANSWER_WITHIN_S = 10.0
LIMITS_EVERY_S = 10.0
"""As often as limits move; rendering the metrics takes 10 ms, in which answers bunch up."""


@dataclass(slots=True)
class SeatWatch:
    """What the samples said so far."""

    admin_port: int
    period_s: float = 0.1
    samples: int = 0
    samples_with_waiting: int = 0
    samples_with_idle_seats: int = 0
    limits: dict[str, int] = field(default_factory=dict)
    peak_waiting: int = 0

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            if self.samples % max(1, round(LIMITS_EVERY_S / self.period_s)) == 0:
                await self.read_limits()
            await self.sample()
            await asyncio.sleep(self.period_s)

    async def sample(self) -> None:
        """Take one sample."""
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
        """Read each level's seats of now."""
        page = await fetch(self.admin_port, "/metrics")
        self.limits = {name: int(float(limit)) for name, limit in LIMIT.findall(page)}
        if not self.limits:
            raise LoadTestError("/metrics has no apiserver_flowcontrol_current_limit_seats")


async def fetch(port: int, target: str) -> str:
    """Get a page of this machine's by HTTP/1.0.

    Args:
        port: The server's port of 127.0.0.1.
        target: Path and query.

    Returns:
        The body.

    Raises:
        LoadTestError: The answer is not 200, or does not come.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {target} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        async with asyncio.timeout(ANSWER_WITHIN_S):
            head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    except TimeoutError as error:
        raise LoadTestError(f"GET {target} on port {port}: no answer in time") from error
    finally:
        writer.close()
    if b" 200 " not in head.split(b"\r\n")[0] + b" ":
        raise LoadTestError(f"GET {target} on port {port}: {head[:80]!r} instead of 200")
    return body.decode()
