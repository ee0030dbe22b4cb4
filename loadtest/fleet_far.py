"""Members of a fleet whose store is far away: what of the limit they use, and what it is asked.

Members are memberships in this process, each with a controller, clients that keep more requests
waiting than there are seats, and a link of its own to a Redis that is late by half a round trip in
each direction.  At first all of them want as much, then what each wants changes at random, and
then all load moves from one member to the next.

    python -m loadtest.fleet_far --members 3 20 --round-trips-ms 0 50 200
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import msgspec
import uvloop
from msgspec.structs import replace

from apfproxy.base.clock import LoopClock
from apfproxy.base.events import ConfigurationEvents
from apfproxy.fleet.ledger import LeaseState
from apfproxy.fleet.membership import Membership
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.queue_set import ONE_SEAT, Ticket
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.request.attributes import User, parse_attributes
from apfproxy.settings import FleetSettings
from apfproxy.sources.fleet_store import open_store
from loadtest.arguments import Parser, count_up_to, output_file
from loadtest.faulty_link import Fault, FaultyLink
from loadtest.fleet_stores import RedisServer
from loadtest.objects import flow_schema, priority_level, user_subject
from loadtest.program import measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

SERVICE_S = 0.15
CROWD = 1.25
"""Requests of all clients at once, times the limit: some always wait."""
CHANGES_S = 0.5
"""Between two changes of what members want, while it is random."""
MOVES_S = 5.0
QUEUING = QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=10_000)
COLUMNS = (
    f"{'members':>7}{'ms':>5}  {'load':<8}{'seats':>7}{'peak':>6}{'expired/min':>12}"
    f"{'failed/min':>12}{'written/s':>11}{'conflicts/s':>13}{'scripts/s':>11}"
)


class Gauge:
    """Requests of all members at once.

    Attributes:
        peak: The most at once since `begin`.
    """

    def __init__(self) -> None:
        self._running = 0
        self.begin()

    def begin(self) -> None:
        """Forget what was so far."""
        self._begun_s = self._changed_s = monotonic()
        self._seat_s = 0.0
        self.peak = self._running

    def add(self, count: int) -> None:
        """So many more."""
        now_s = monotonic()
        self._seat_s += self._running * (now_s - self._changed_s)
        self._changed_s = now_s
        self._running += count
        self.peak = max(self.peak, self._running)

    def mean(self) -> float:
        """On average since `begin`."""
        self.add(0)
        return self._seat_s / max(self._changed_s - self._begun_s, 1e-9)

    def __repr__(self) -> str:
        return f"<Gauge: {self._running}, peak {self.peak}>"


class FarMember:
    """A membership and its clients, each of which asks again when it is answered.

    Attributes:
        expirations: How often its lease ended.
        wanted: How many clients it has.
    """

    def __init__(
        self, name: str, url: str, limit: int, gauge: Gauge, fleet: FleetSettings, members: int
    ) -> None:
        self.expirations = 0
        self.wanted = 0
        self._clients = 0
        self._gauge = gauge
        self._loop = asyncio.get_running_loop()
        self.controller = Controller(
            LoopClock(self._loop), limit, 0, is_prompt=True, on_short=self._on_short
        )
        self.controller.commit(
            self.controller.digest(
                [
                    priority_level("a", shares=10_000, queuing=QUEUING),
                    flow_schema("s", "a", user_subject("*")),
                ]
            )
        )
        found = self.controller.classify(
            User("alice", ()), parse_attributes("GET", b"/api/v1/namespaces/default/pods/a")
        )
        self._flow, self._queue_set = found.flow, found.level.queue_set
        self._was = LeaseState.JOINING
        settings = replace(fleet, store=url, name="far", member=name, replicas=members)
        self.membership = Membership(
            self.controller,
            open_store(settings, "far"),
            settings,
            lambda: limit,
            ConfigurationEvents(),
            self._on_change,
        )

    def want(self, clients: int) -> None:
        """Have so many clients from now on; those that are too many end with their next answer."""
        self.wanted = clients
        while self._clients < clients:
            self._clients += 1
            self._ask()

    def _ask(self) -> None:
        ticket = self._queue_set.admit(self._flow, ONE_SEAT, self._serve)
        assert isinstance(ticket, Ticket), "the queue is long enough"
        if ticket.is_executing:
            self._serve(ticket)

    def _serve(self, ticket: Ticket) -> None:
        self._gauge.add(1)
        self._loop.call_later(SERVICE_S, self._served, ticket)

    def _served(self, ticket: Ticket) -> None:
        self._gauge.add(-1)
        self._queue_set.finish(ticket)
        if self._clients > self.wanted:
            self._clients -= 1
        else:
            self._ask()

    def _on_short(self, level: str, seats: int) -> None:
        self.membership.on_short(level, seats)

    def _on_change(self) -> None:
        state = self.membership.ledger.state
        self.expirations += state is LeaseState.EXPIRED and self._was is LeaseState.HELD
        self._was = state

    def __repr__(self) -> str:
        return f"<FarMember {self.membership!r}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Far:
    """What came of one load.

    Attributes:
        seats: Used on average.
        peak: The most at once.
        expired_per_min, failed_per_min: Of all members: leases that ended, looks that failed.
        written_per_s, conflicts_per_s: Of all members.
        scripts_per_s: What the store was asked.
    """

    members: int
    round_trip_ms: int
    load: str
    seats: float
    peak: int
    expired_per_min: float
    failed_per_min: float
    written_per_s: float
    conflicts_per_s: float
    scripts_per_s: float

    def print(self) -> None:
        """Print a line of the table."""
        print(
            f"{self.members:>7}{self.round_trip_ms:>5}  {self.load:<8}{self.seats:>7.1f}"
            f"{self.peak:>6}{self.expired_per_min:>12.1f}{self.failed_per_min:>12.1f}"
            f"{self.written_per_s:>11.1f}{self.conflicts_per_s:>13.1f}{self.scripts_per_s:>11.1f}",
            flush=True,
        )


class Distance:
    """A fleet so far from its store.

    Args:
        store: It runs.
        members: Those of the fleet.
        round_trip_ms: Between each and the store.
        limit: Seats that they share.
    """

    def __init__(
        self,
        store: RedisServer,
        members: list[FarMember],
        round_trip_ms: int,
        limit: int,
        gauge: Gauge,
        chance: random.Random,
    ) -> None:
        self._store = store
        self._members = members
        self._round_trip_ms = round_trip_ms
        self._crowd = round(CROWD * limit)
        self._gauge = gauge
        self._chance = chance

    async def _figures(self) -> list[int]:
        parts = [each.membership for each in self._members]
        return [
            sum(each.expirations for each in self._members),
            sum(each.failures for each in parts),
            sum(each.refreshes for each in parts),
            sum(each.conflicts for each in parts),
            (await self._store.commands())["evalsha"],
        ]

    async def measure(self, load: str, seconds: float) -> Far:
        """One of the loads below."""
        before = await self._figures()
        self._gauge.begin()
        begun_s = monotonic()
        await {"even": self.even, "random": self.random, "moves": self.moves}[load](seconds)
        lasted_s = monotonic() - begun_s
        seats, peak = self._gauge.mean(), self._gauge.peak
        expirations, failed, written, conflicts, scripts = (
            (after - was) / lasted_s
            for after, was in zip(await self._figures(), before, strict=True)
        )
        return Far(
            members=len(self._members),
            round_trip_ms=self._round_trip_ms,
            load=load,
            seats=seats,
            peak=peak,
            expired_per_min=60 * expirations,
            failed_per_min=60 * failed,
            written_per_s=written,
            conflicts_per_s=conflicts,
            scripts_per_s=scripts,
        )

    async def even(self, seconds: float) -> None:
        """All want as much."""
        for each in self._members:
            each.want(-(-self._crowd // len(self._members)))
        await asyncio.sleep(seconds)

    async def random(self, seconds: float) -> None:
        """What each wants changes again and again; in all it is as much."""
        for _ in range(round(seconds / CHANGES_S)):
            parts = [self._chance.random() ** 2 for _ in self._members]
            for part, each in zip(parts, self._members, strict=True):
                each.want(round(self._crowd * part / sum(parts)))
            await asyncio.sleep(CHANGES_S)

    async def moves(self, seconds: float) -> None:
        """One member wants all, and then another one."""
        for turn in range(round(seconds / MOVES_S)):
            for at, each in enumerate(self._members):
                each.want(self._crowd if at == turn % len(self._members) else 0)
            await asyncio.sleep(MOVES_S)

    def __repr__(self) -> str:
        return f"<Distance of {self._round_trip_ms} ms, {len(self._members)} members>"


@asynccontextmanager
async def far_fleet(
    directory: Path, members: int, round_trip_ms: int, options: argparse.Namespace
) -> AsyncIterator[Distance]:
    """A fleet that has joined; all of it ends with the block."""
    chance = random.Random(0)  # noqa: S311 - no secret
    gauge = Gauge()
    fleet = FleetSettings(lease_s=options.lease, refresh_interval_s=options.refresh_ms / 1000)
    async with AsyncExitStack() as stack:
        store = RedisServer(directory)
        await store.start()
        stack.callback(store.stop)
        found = []
        for at in range(members):
            link = FaultyLink(store.port, chance)
            link.choose = partial(Fault, delay_s=round_trip_ms / 2000)
            await link.listen()
            stack.callback(link.stop)
            url = f"redis://127.0.0.1:{link.port}"
            each = FarMember(f"member-{at}", url, options.limit, gauge, fleet, members)
            stack.push_async_callback(each.membership.leave)
            stack.callback(each.membership.stop)
            await each.membership.join()
            found.append(each)
        yield Distance(store, found, round_trip_ms, options.limit, gauge, chance)
        for each in found:
            each.want(0)


async def measure(directory: Path, options: argparse.Namespace) -> list[Far]:
    """All fleets at all distances, with all loads."""
    results = []
    print(COLUMNS)
    for members in options.members:
        for round_trip_ms in options.round_trips_ms:
            async with far_fleet(directory, members, round_trip_ms, options) as distance:
                await distance.even(2 * options.lease)
                for load in options.loads:
                    results.append(await distance.measure(load, options.seconds))
                    results[-1].print()
    return results


LOADS = ("even", "random", "moves")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; wrong input ends the program with one line."""
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--members", type=count_up_to(50, 2), nargs="+", default=[3, 20], help="of it (3 20)")
    add("--round-trips-ms", type=count_up_to(2000, 0), nargs="+", default=[0, 50, 200])
    add("--loads", choices=LOADS, nargs="+", default=LOADS, help="(all)")
    add("--limit", type=count_up_to(1000, 10), default=60, help="seats that they share (60)")
    add("--lease", type=count_up_to(600), default=5, help="seconds (5)")
    add("--refresh-ms", type=count_up_to(60_000, 100), default=1000, help="of a member (1000)")
    add("--seconds", type=count_up_to(3600), default=30, help="of each load (30)")
    add("--json", type=output_file, metavar="FILE", help="write all results there as well")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load test; the result is the exit status."""
    options = parse_arguments(arguments)

    def run(directory: Path) -> tuple[object, list[str]]:
        results = uvloop.run(measure(directory, options))
        return msgspec.to_builtins(results), []

    return measured("fleet-far", run, descriptors=4000, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
