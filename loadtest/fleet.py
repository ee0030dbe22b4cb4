"""A fleet before a server that counts its requests: never more at once than the limit.

Members are `apfproxy serve`, each a process of its own, and reach the store through a link of their
own.  Clients keep more requests waiting than there are seats, first at all members and then at one
after the other.  Meanwhile the store is killed, hangs and comes back, members are cut off from it,
and members die, leave and come back.  Requests of the server at once
are counted by itself: that is the figure which may not exceed the limit, but where the table says
by how much and why.  Found besides: how soon seats follow the load.

    python -m loadtest.fleet --members 3 --json fleet.json
    python -m loadtest.fleet --members 20 --limit 200 --service-ms 400 --moves 10
    python -m loadtest.fleet --store kubernetes

Twenty members and their clients on two cores are mostly idle at 400 ms a request.

The exit status is 2 if there were too many requests at once, or seats did not follow.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import msgspec

from loadtest.clients import BROKEN, REFUSED, Connection
from loadtest.echo import level_of
from loadtest.faulty_link import Ending, FaultyLink
from loadtest.origin import Origin
from loadtest.processes import LoadTestError, Process, Proxy, free_ports, python_module
from loadtest.program import Parser, Results, Table, count_up_to, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

FOLLOWS_WITHIN_S = 1.0
"""How soon seats have to follow the load, at the median, where a store tells members at once."""
TELLS = {"redis"}
"""Stores that do."""
STEPS = Table("step <16 | s >6.1f | good >9 | other >7 | peak >6 | may be >8 | after s >9.2f")
NEARLY_ALL = 0.9
"""For the limit: between two requests a seat is free for a moment, and `catch-all` has one."""
GOOD_PART = 0.6
"""For what a member is to have where all want as much; whole seats are not quite even."""
CROWD = 1.25
"""Requests of all clients at once, times the limit: some always wait."""
AFTER_LEASES = 2.4
"""So long a store is away, or a member cut off, until everybody knows."""
GIVES_UP_S = 15.0
MOVED = "moved"
"""How the name of a step begins in which all load moves to one member."""
OK = "200"
PAUSE_S = 0.1
"""For a client, after anything but a good response."""
MEMBER = re.compile(r"/members/([0-9]{1,4})/")

NAMESPACE = b'{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}'
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: fleet
clusters: [{{name: fleet, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: fleet, user: {{}}}}]
contexts: [{{name: fleet, context: {{name: fleet, cluster: fleet, user: fleet}}}}]
"""
USERS = 20
LEVELS = ("odd", "even")
SETTINGS = """
flowControl:
  serverConcurrencyLimit: {fleet.limit}
  objects: [objects.yaml]
  suggestedObjects: false
fleet:
  member: {name}
  replicas: {fleet.members}
  lease: {fleet.lease_s}s
  {store}
logLevel: info
"""


class FleetOrigin(Origin):
    """The server, in this process, which counts how many requests it has at once.

    A path such as `/members/3/...` says which member a request came through; other paths do not
    count.  A request counts from when it is read until its response is written, so never longer
    than its seat in a proxy; a member that is killed leaves its requests running.

    Attributes:
        running, by_member: Requests that it has now, and those of each member.
        peak, answered: The most at once since `begin`, and responses since then by member.
    """

    def __init__(self, limit: int, service_s: float) -> None:
        super().__init__(delay_s=service_s)
        self.limit = limit
        self.running = self.peak = 0
        self.by_member: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self._awaited: dict[asyncio.Future[None], Callable[[], bool]] = {}

    def begin(self) -> None:
        self.peak = self.running
        self.answered.clear()

    async def until(self, is_so: Callable[[], bool], within_s: float) -> float | None:
        begun_s = monotonic()
        future = asyncio.get_running_loop().create_future()
        self._awaited[future] = is_so
        self._count(-1, 0)
        try:
            async with asyncio.timeout(within_s):
                await future
        except TimeoutError:
            return None
        finally:
            self._awaited.pop(future, None)
        return monotonic() - begun_s

    def on_begin(self, target: str) -> None:
        if found := MEMBER.match(target):
            self._count(int(found[1]), 1)

    def on_end(self, target: str) -> None:
        if found := MEMBER.match(target):
            self.answered[int(found[1])] += 1
            self._count(int(found[1]), -1)

    def _count(self, member: int, change: int) -> None:
        self.running += change
        self.by_member[member] += change
        self.peak = max(self.peak, self.running)
        for future, is_so in tuple(self._awaited.items()):
            if is_so() and not future.done():
                future.set_result(None)


class FleetClients:
    """Clients of each member, in closed loops, with `results` since they were last cleared."""

    def __init__(self, members: int) -> None:
        self.ports: list[int] = []
        self.results: Counter[str] = Counter()
        self._wanted = [0] * members
        self._clients: list[list[asyncio.Task[None]]] = [[] for _ in range(members)]

    def aim(self, counts: Mapping[int, int]) -> None:
        for member, clients in enumerate(self._clients):
            self._wanted[member] = counts.get(member, 0)
            clients[:] = [each for each in clients if not each.done()]
            for place in range(len(clients), self._wanted[member]):
                clients.append(asyncio.create_task(self._ask(member, place)))

    def stop(self) -> None:
        for each in itertools.chain(*self._clients):
            each.cancel()

    async def _ask(self, member: int, place: int) -> None:
        user = place % USERS
        request = (
            f"GET /members/{member}/x HTTP/1.1\r\nHost: fleet\r\n"
            f"X-Remote-User: user-{user}\r\nX-Remote-Group: {LEVELS[user % 2]}\r\n\r\n"
        ).encode()
        connection: Connection | None = None
        try:
            while place < self._wanted[member]:
                try:
                    if connection is None or connection.is_gone:
                        connection = await Connection.open(self.ports[member])
                    result = str(await connection.ask(request) or BROKEN)
                except OSError:
                    result = REFUSED
                self.results[result] += 1
                if result != OK:
                    await asyncio.sleep(PAUSE_S)
        finally:
            if connection is not None:
                connection.close()


class RedisServer(Process):
    """A redis-server that keeps nothing on the disk."""

    def __init__(self, directory: Path) -> None:
        (port,) = free_ports(1)
        argv = [
            *("redis-server", "--port", str(port), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no", "--dir", str(directory)),
        ]
        super().__init__("store", argv, port=port, directory=directory)

    async def prepare(self) -> None:
        """Nothing is to be prepared."""

    def settings(self, port: int, directory: Path) -> str:
        del directory
        return f"store: 'redis://127.0.0.1:{port}/0'"


class KubernetesApi(Process):
    """`apfproxy apiserver`, which has one ConfigMap for the fleet."""

    def __init__(self, directory: Path) -> None:
        (port,) = free_ports(1)
        arguments = ["--listen", f"127.0.0.1:{port}", "--controllers", "-*", "--log-level", "error"]
        argv = [*python_module("apfproxy"), "apiserver", *arguments]
        super().__init__("store", argv, port=port, directory=directory)

    async def prepare(self) -> None:
        head = (
            b"POST /api/v1/namespaces HTTP/1.1\r\nHost: fleet\r\nContent-Type: application/json\r\n"
        )
        with await Connection.open(self.port) as connection:
            data = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(NAMESPACE), NAMESPACE)
            status = await connection.ask(data)
        if status != 201:
            raise LoadTestError(f"the API server does not create a namespace: {status}")

    def settings(self, port: int, directory: Path) -> str:
        path = directory / f"kubeconfig-{port}"
        path.write_text(KUBECONFIG.format(port=port))
        return f"store: 'kubernetes:default/fleet'\n  kubeconfig: {path}"


STORES: dict[str, type[RedisServer | KubernetesApi]] = {
    "redis": RedisServer,
    "kubernetes": KubernetesApi,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Settings of a fleet.

    Attributes:
        limit: Seats that the members share.
        service_s: How long a request takes; less than a fifth of a lease, or what runs when a
            lease ends may count above the limit.
    """

    store: str = "redis"
    members: int = 3
    limit: int = 60
    service_s: float = 0.15
    lease_s: float = 5.0


class Site:
    """The fleet, and a link of each member to the store; at the end all of it is stopped."""

    def __init__(self, directory: Path, fleet: Fleet) -> None:
        self.fleet = fleet
        self.origin = FleetOrigin(fleet.limit, fleet.service_s)
        self.store = STORES[fleet.store](directory)
        self.members: list[Proxy] = []
        self.clients = FleetClients(fleet.members)
        dice = random.Random()  # noqa: S311 - no secret
        self.links = [FaultyLink(self.store.port, dice) for _ in range(fleet.members)]
        self._directory = directory

    async def start(self) -> None:
        objects = [
            level_of(each, shares=10_000, lendable_percent=50, queue_length_limit=400)
            for each in LEVELS
        ]
        (self._directory / "objects.yaml").write_text("".join(objects))
        await self.origin.start()
        await self.store.prepare()
        for at, link in enumerate(self.links):
            await link.listen()
            store = self.store.settings(link.port, self._directory)
            member = await asyncio.to_thread(
                Proxy,
                self._directory,
                [self.origin.port],
                name=f"member-{at}",
                settings=SETTINGS.format(fleet=self.fleet, store=store, name=f"member-{at}"),
            )
            self.members.append(member)
            self.clients.ports.append(member.port)

    async def start_store(self) -> None:
        await asyncio.to_thread(self.store.start)
        await self.store.prepare()

    async def start_member(self, at: int) -> None:
        await asyncio.to_thread(self.members[at].start)

    async def end_member(self, at: int) -> None:
        await asyncio.to_thread(self.members[at].stop)

    def cut_off(self, members: Iterable[int]) -> None:
        for at in members:
            self.links[at].strike(Ending.VANISH)
            self.links[at].swallow()

    async def heal(self) -> None:
        for link in self.links:
            link.drop()
            await link.listen()

    def everywhere(self, requests: int, without: Iterable[int] = ()) -> dict[int, int]:
        members = [at for at in range(self.fleet.members) if at not in set(without)]
        every, rest = divmod(requests, len(members))
        return {at: max(1, every + (place < rest)) for place, at in enumerate(members)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clients.stop()
        for process in (*self.members, self.store):
            process.stop()
        for link in self.links:
            link.stop()
        self.origin.stop()


@dataclass(slots=True)
class Step:
    """A step, and its results.

    Attributes:
        name: Of the event at its beginning.
        permitted: Requests at once that the server may have.
        why: Why these are more than the limit; "" if they are not.
        peak: Requests at once.
        after_s: How long until an awaited state came; None if it did not.
    """

    name: str
    permitted: int
    why: str = ""
    seconds: float = 0.0
    peak: int = 0
    is_awaited: bool = False
    after_s: float | None = None
    results: Counter[str] = field(default_factory=Counter)

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
        begun_s = monotonic()
        if action is not None and (done := action()) is not None:
            await done
        if aim is not None:
            site.clients.aim(aim)
        if until is not None:
            step.after_s = await origin.until(until, GIVES_UP_S + site.fleet.lease_s)
        await self._pause(max(0.0, begun_s + lasts_s - monotonic()))
        step.seconds = monotonic() - begun_s
        step.peak = origin.peak
        step.results = Counter(site.clients.results)
        self.steps.append(step)
        self._on_step(step)
        return step

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
        await self.step("back", site.start_store, until=partial(self.has_moved, 0))
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

    async def lose_members(self) -> None:
        site = self._site
        last = site.fleet.members - 1
        everyone = site.everywhere(self._crowd)
        others = site.everywhere(self._crowd, without=[last])
        await self.step("all members", aim=everyone, until=self.is_spread)
        await self.step("member dies", site.members[last].kill, aim=others, until=self.is_whole)
        start = partial(site.start_member, last)
        await self.step("is back", start, aim=everyone, until=self.all_serve)
        leave = partial(site.end_member, last)
        await self.step("leaves", leave, aim=others, until=self.is_whole)
        await self.step("is back", start, aim=everyone, until=self.all_serve)
        # A newcomer has its safe share until it has watched the record for a lease.
        await self.move("all to newcomer", last)
        await self.step("all members", aim=everyone, until=self.is_spread)
        held = site.origin.by_member[last]
        pause = site.members[last].hang
        lasts_s = AFTER_LEASES * site.fleet.lease_s
        await self.step("stands still", pause, aim=others, until=self.is_whole, lasts_s=lasts_s)
        go_on = site.members[last].go_on
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
    note = f"  ({step.why})" if step.why and step.peak > step.permitted - 1 else ""
    STEPS.row(
        step.name,
        step.seconds,
        step.results[OK],
        step.bad,
        step.peak,
        step.permitted,
        "never" if step.after_s is None and step.is_awaited else step.after_s,
        more=note,
    )


async def measure(options: argparse.Namespace, directory: Path) -> Results:
    fleet = Fleet(
        store=options.store,
        members=options.members,
        limit=options.limit,
        service_s=options.service_ms / 1000,
    )
    with Site(directory, fleet) as site:
        await site.start()
        STEPS.head()
        course = Course(site, asyncio.sleep, print_step)
        steps = await course.run(moves=options.moves, lasts_s=options.seconds)
    wrong = judge(steps, fleet.limit)
    found = totals(steps)
    median_s = found["moved_median_s"]
    if options.store in TELLS and (median_s is None or median_s > FOLLOWS_WITHIN_S):
        wrong.append(f"seats follow the load after {median_s} s at the median")
    print(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in found.items()))
    return {"totals": found, "wrong": wrong, "steps": msgspec.to_builtins(steps)}, wrong


def main() -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--store", choices=tuple(STORES), default="redis", help="where the record lives (redis)")
    add("--members", type=count_up_to(50, 2), default=3, help="of the fleet (3)")
    add("--limit", type=count_up_to(1000, 10), default=60, help="seats that they share (60)")
    add("--service-ms", type=count_up_to(5000), default=150, help="of a request (150)")
    add("--moves", type=count_up_to(1000), default=10, help="of all load (10)")
    add("--seconds", type=count_up_to(3600), default=10, help="of steady load, and of none (10)")
    options = parser.parse_args()
    return measured(options, measure, descriptors=8000)


if __name__ == "__main__":
    sys.exit(main())
