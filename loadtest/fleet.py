"""A fleet before a server that counts its requests: never more at once than the limit.

Members are `apfproxy serve`, each a process of its own, and reach the store through a link of their
own.  Clients keep more requests waiting than there are seats, first at all members and then at one
after the other.  Meanwhile the store is killed, hangs and comes back, members are cut off from it,
what they say to it is late, and members die, leave and come back.  Requests of the server at once
are counted by itself: that is the figure which may not exceed the limit, but where the table says
by how much and why.  Found besides: how soon seats follow the load, and what the store costs.

    python -m loadtest.fleet --members 3 --json fleet.json
    python -m loadtest.fleet --members 20 --limit 200 --service-ms 400 --moves 10
    python -m loadtest.fleet --store kubernetes

Twenty members and their clients on two cores are mostly idle at 400 ms a request.

The exit status is 2 if there were too many requests at once, or seats did not follow.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from loadtest.arguments import Parser, count_up_to
from loadtest.fleet_site import OK, STORES, Fleet, Site
from loadtest.processes import LoadTestError, measured
from loadtest.tables import Table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

FOLLOWS_WITHIN_S = 1.0
"""How soon seats have to follow the load, at the median, where a store tells members at once."""
TELLS = {"redis"}
"""Stores that do."""
STEPS = Table(
    "step <16 | s >6.1f | good >9 | other >7 | peak >6 | may be >8 | mean >7.1f | after s >9.2f"
    "| store % >9.1f | members % >11.1f"
)
NEARLY_ALL = 0.9
"""For the limit: between two requests a seat is free for a moment, and `catch-all` has one."""
GOOD_PART = 0.6
"""For what a member is to have where all want as much; whole seats are not quite even."""
CROWD = 1.25
"""Requests of all clients at once, times the limit: some always wait."""
AFTER_LEASES = 2.4
"""So long a store is away, or a member cut off, until everybody knows."""
LATE_PART = 20
"""For a lease, that a connection may be late so that some writes do not get through in time."""
GIVES_UP_S = 15.0
"""After which a state is awaited no more."""
MOVED = "moved"
"""How the name of a step begins in which all load moves to one member."""


@dataclass(slots=True)
class Step:
    """A step, and its results.

    Attributes:
        name: Of the event at its beginning.
        permitted: Requests at once that the server may have.
        why: Why these are more than the limit; "" if they are not.
        peak, mean: Requests at once.
        over_s: For how long there were more than the limit.
        after_s: How long until an awaited state came; None if it did not.
        commands: Of members to the store.
        store_cpu_s, members_cpu_s: None where one of them changed.
    """

    name: str
    permitted: int
    why: str = ""
    seconds: float = 0.0
    peak: int = 0
    mean: float = 0.0
    over_s: float = 0.0
    is_awaited: bool = False
    after_s: float | None = None
    results: Counter[str] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    store_cpu_s: float | None = None
    members_cpu_s: float | None = None

    @property
    def bad(self) -> int:
        return self.results.total() - self.results[OK]


class Course:
    def __init__(
        self, site: Site, pause: Callable[[float], Awaitable[None]], on_step: Callable[[Step], None]
    ) -> None:
        self._site = site
        self._pause = pause
        self._on_step = on_step
        self._crowd = round(CROWD * site.fleet.limit)
        self.steps: list[Step] = []

    def is_whole(self) -> bool:
        return self._site.origin.running >= NEARLY_ALL * self._site.fleet.limit

    def is_spread(self) -> bool:
        fleet, by_member = self._site.fleet, self._site.origin.by_member
        least = GOOD_PART * fleet.limit / fleet.members
        return self.is_whole() and all(by_member[at] >= least for at in range(fleet.members))

    def has_moved(self, member: int) -> bool:
        return self._site.origin.by_member[member] >= NEARLY_ALL * self._site.fleet.limit

    def all_serve(self) -> bool:
        answered = self._site.origin.answered
        return all(answered[member] for member in range(self._site.fleet.members))

    async def step(
        self,
        name: str,
        action: Callable[[], Awaitable[None] | None] | None = None,
        *,
        aim: dict[int, int] | None = None,
        until: Callable[[], bool] | None = None,
        lasts_s: float = 0.0,
        more: int = 0,
        why: str = "",
    ) -> Step:
        """Have something happen, wait for what is to come of it, and note what came."""
        site, origin = self._site, self._site.origin
        step = Step(name, site.fleet.limit + more, why, is_awaited=until is not None)
        origin.begin()
        site.clients.results.clear()
        before = await self._costs()
        begun_s = monotonic()
        if action is not None and (done := action()) is not None:
            await done
        if aim is not None:
            site.clients.aim(aim)
        if until is not None:
            step.after_s = await origin.until(until, GIVES_UP_S + site.fleet.lease_s)
        await self._pause(max(0.0, begun_s + lasts_s - monotonic()))
        step.seconds = monotonic() - begun_s
        step.peak, step.mean, step.over_s = origin.peak, origin.mean(), origin.over_s()
        step.results = Counter(site.clients.results)
        after = await self._costs()
        if before is not None and after is not None:
            step.commands = after[0] - before[0]
            step.store_cpu_s = (after[1] - before[1]) / 1e9
            step.members_cpu_s = (after[2] - before[2]) / 1e9
            if step.members_cpu_s < 0 or step.store_cpu_s < 0:
                step.members_cpu_s = step.store_cpu_s = None
        self.steps.append(step)
        self._on_step(step)
        return step

    async def _costs(self) -> tuple[Counter[str], int, int] | None:
        store = self._site.store
        if not store.is_well:
            return None
        try:
            return await store.commands(), store.cpu_ns(), self._site.cpu_ns()
        except (LoadTestError, OSError):
            return None

    async def move(self, name: str, member: int) -> None:
        moved = partial(self.has_moved, member)
        await self.step(name, aim={member: self._crowd}, until=moved)

    async def run(self, *, moves: int, lasts_s: float) -> list[Step]:
        await self.steady(lasts_s)
        for number in range(moves):
            member = number % self._site.fleet.members
            await self.move(f"{MOVED} to {member}", member)
        await self.lose_store()
        await self.hang_store()
        await self.part()
        await self.be_late(moves)
        await self.lose_members()
        return self.steps

    async def steady(self, lasts_s: float) -> None:
        everyone = self._site.everywhere(self._crowd)
        await self.step("all members", aim=everyone, until=self.is_spread)
        await self.step("steady", lasts_s=lasts_s)
        await self.step("ends", aim={}, until=lambda: not self._site.origin.running)
        await self.step("idle", lasts_s=lasts_s)

    async def lose_store(self) -> None:
        site = self._site
        away_s = AFTER_LEASES * site.fleet.lease_s
        everyone = site.everywhere(self._crowd)
        await self.step("all members", aim=everyone, until=self.is_spread)
        await self.step("killed", site.store.kill, lasts_s=away_s)
        await self.step("away", until=self.all_serve, lasts_s=1.0)
        await self.step("away, one", aim={0: self._crowd}, lasts_s=1.0)
        await self.step("back", site.store.start, until=partial(self.has_moved, 0))
        await self.move(f"{MOVED} to 1", 1)

    async def hang_store(self) -> None:
        site = self._site
        away_s = AFTER_LEASES * site.fleet.lease_s
        await self.step("hangs", site.store.hang, aim={0: self._crowd}, lasts_s=away_s)
        everyone = site.everywhere(self._crowd)
        await self.step("away", aim=everyone, until=self.all_serve, lasts_s=1.0)
        await self.step("goes on", site.store.go_on, until=self.is_spread)
        await self.move(f"{MOVED} to 1", 1)

    async def part(self) -> None:
        site = self._site
        everyone = site.everywhere(self._crowd)
        away = range(max(1, site.fleet.members // 3))
        share = site.fleet.limit // site.fleet.members
        more, why = len(away) * share, f"{len(away)} cut off keep to {share} seats each"
        last = site.fleet.members - 1
        step = partial(self.step, more=more, why=why)
        await self.step("all members", aim=everyone, until=self.is_spread)
        lasts_s = AFTER_LEASES * site.fleet.lease_s
        await step("cut off", partial(site.cut_off, away), lasts_s=lasts_s)
        others = {last: self._crowd}
        await step("one of others", aim=others, until=partial(self.has_moved, last), lasts_s=1.0)
        await step("all members", aim=everyone, until=self.all_serve, lasts_s=1.0)
        await step("healed", site.heal, until=self.is_spread, lasts_s=site.fleet.lease_s)
        await self.move(f"{MOVED} to 0", 0)

    async def be_late(self, moves: int) -> None:
        """Delay what members and store say to each other, each connection by so much.

        At first each write is still done before the next one is due, and then it is not: members
        that do not get through in time are as good as cut off.
        """
        site, fleet = self._site, self._site.fleet
        everyone = site.everywhere(self._crowd)
        most_s = fleet.refresh_s / fleet.members / 2
        late = partial(site.delay, most_s)
        await self.step(f"late, {most_s * 1000:.0f} ms", late, aim=everyone, until=self.is_spread)
        for number in range(moves):
            member = number % fleet.members
            await self.move(f"late, to {member}", member)
        most_s = fleet.lease_s / LATE_PART
        share = fleet.limit // fleet.members
        more = fleet.members * share
        why = f"{share} of each member that does not get through"
        late, lasts_s = partial(site.delay, most_s), AFTER_LEASES * fleet.lease_s
        name = f"late, {most_s * 1000:.0f} ms"
        await self.step(name, late, aim=everyone, lasts_s=lasts_s, more=more, why=why)
        step = partial(self.step, more=more, why=why)
        await step("in time", site.heal, aim=everyone, until=self.is_spread, lasts_s=fleet.lease_s)
        await self.move(f"{MOVED} to 0", 0)

    async def lose_members(self) -> None:
        site = self._site
        last = site.fleet.members - 1
        everyone = site.everywhere(self._crowd)
        others = site.everywhere(self._crowd, without=[last])
        await self.step("all members", aim=everyone, until=self.is_spread)
        await self.step("member dies", site.member(last).kill, aim=others, until=self.is_whole)
        start = partial(site.start_member, last)
        await self.step("is back", start, aim=everyone, until=self.all_serve)
        leave = partial(site.end_member, last)
        await self.step("leaves", leave, aim=others, until=self.is_whole)
        await self.step("is back", start, aim=everyone, until=self.all_serve)
        # A newcomer has its safe share until it has watched the record for a lease.
        await self.move("all to newcomer", last)
        await self.step("all members", aim=everyone, until=self.is_spread)
        held = site.origin.by_member[last]
        pause = site.member(last).hang
        lasts_s = AFTER_LEASES * site.fleet.lease_s
        await self.step("stands still", pause, aim=others, until=self.is_whole, lasts_s=lasts_s)
        go_on = site.member(last).go_on
        why = f"a member that stood still may begin as many as it had, {held}"
        await self.step("goes on", go_on, aim=everyone, until=self.all_serve, more=held, why=why)


def judge(steps: list[Step], site_limit: int) -> list[str]:
    wrong = []
    for number, step in enumerate(steps, 1):
        if step.peak > step.permitted:
            wrong.append(
                f"step {number}, {step.name}: {step.peak} requests at once,"
                f" {step.permitted} are permitted, and {site_limit} the limit"
            )
        if step.is_awaited and step.after_s is None:
            wrong.append(f"step {number}, {step.name}: what was to come did not")
    return wrong


def totals(steps: list[Step]) -> dict[str, Any]:
    moved = [
        step.after_s for step in steps if step.name.startswith(MOVED) and step.after_s is not None
    ]
    results: Counter[str] = Counter()
    for step in steps:
        results += step.results
    return {
        "requests": results.total(),
        "results": dict(results),
        "peak_without_reason": max(step.peak for step in steps if not step.why),
        "peak": max(step.peak for step in steps),
        "moves": len(moved),
        "moved_median_s": statistics.median(moved) if moved else None,
        "moved_max_s": max(moved, default=None),
    }


def print_step(step: Step) -> None:
    costs = [
        None if each is None else 100 * each / step.seconds
        for each in (step.store_cpu_s, step.members_cpu_s)
    ]
    commands = (f"{name} {count / step.seconds:.1f}" for name, count in step.commands.most_common())
    note = f"  ({step.why})" if step.why and step.peak > step.permitted - 1 else ""
    STEPS.row(
        step.name,
        step.seconds,
        step.results[OK],
        step.bad,
        step.peak,
        step.permitted,
        step.mean,
        "never" if step.after_s is None and step.is_awaited else step.after_s,
        *costs,
        more=f"  {', '.join(commands)}{note}",
    )


async def measure(
    directory: Path, fleet: Fleet, *, moves: int, lasts_s: float
) -> tuple[dict[str, Any], list[str]]:
    with Site(directory, fleet) as site:
        await site.start()
        STEPS.head("  commands a second")
        course = Course(site, asyncio.sleep, print_step)
        steps = await course.run(moves=moves, lasts_s=lasts_s)
    wrong = judge(steps, fleet.limit)
    found = totals(steps)
    return {"totals": found, "wrong": wrong, "steps": msgspec.to_builtins(steps)}, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--store", choices=tuple(STORES), default="redis", help="where the record lives (redis)")
    add("--members", type=count_up_to(50, 2), default=3, help="of the fleet (3)")
    add("--limit", type=count_up_to(1000, 10), default=60, help="seats that they share (60)")
    add("--service-ms", type=count_up_to(5000), default=150, help="of a request (150)")
    add("--lease", type=count_up_to(600), default=5, help="seconds (5)")
    add("--refresh-ms", type=count_up_to(60_000, 100), default=1000, help="of a member (1000)")
    add("--moves", type=count_up_to(1000), default=10, help="of all load (10)")
    add("--seconds", type=count_up_to(3600), default=10, help="of steady load, and of none (10)")
    options = parser.parse_args(arguments)

    def run(directory: Path) -> tuple[object, Sequence[str]]:
        fleet = Fleet(
            store=options.store,
            members=options.members,
            limit=options.limit,
            service_s=options.service_ms / 1000,
            lease_s=options.lease,
            refresh_s=options.refresh_ms / 1000,
        )
        results, wrong = uvloop.run(
            measure(directory, fleet, moves=options.moves, lasts_s=options.seconds)
        )
        found = results["totals"]
        median_s = found["moved_median_s"]
        if options.store in TELLS and (median_s is None or median_s > FOLLOWS_WITHIN_S):
            wrong.append(f"seats follow the load after {median_s} s at the median")
        print(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in found.items()))
        return results, wrong

    return measured("fleet", run, descriptors=8000, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
