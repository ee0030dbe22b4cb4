"""A fleet under test: a counting server, members before it, and a link from each to the store."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from loadtest.faulty_link import GOOD, Ending, Fault, FaultyLink
from loadtest.fleet_clients import FleetClients
from loadtest.fleet_origin import FleetOrigin
from loadtest.fleet_stores import STORES
from loadtest.processes import Process, start_apfproxy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from loadtest.fleet_stores import KubernetesApi, RedisServer

USERS = 20
OBJECTS = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {{name: {name}}}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 10000
    lendablePercent: 50
    limitResponse: {{type: Queue, queuing: {{queues: 32, handSize: 4, queueLengthLimit: 400}}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {{name: {name}}}
spec:
  matchingPrecedence: 100
  priorityLevelConfiguration: {{name: {name}}}
  distinguisherMethod: {{type: ByUser}}
  rules:
  - subjects: [{users}]
    nonResourceRules: [{{verbs: ["*"], nonResourceURLs: ["/members/*"]}}]
"""
SETTINGS = """
flowControl:
  serverConcurrencyLimit: {fleet.limit}
  objects: [objects.yaml]
  suggestedObjects: false
fleet:
  member: {name}
  replicas: {fleet.members}
  refreshInterval: {fleet.refresh_s}s
  lease: {fleet.lease_s}s
  {store}
logLevel: info
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What is tested.

    Attributes:
        store: The name of one of `STORES`.
        members: How many.
        limit: Seats that they share.
        service_s: How long a request takes; less than a fifth of a lease, or what runs when a
            lease ends may count above the limit.
        lease_s: Of the members.
        refresh_s: Between two looks of a member at the record.
    """

    store: str = "redis"
    members: int = 3
    limit: int = 60
    service_s: float = 0.15
    lease_s: float = 5.0
    refresh_s: float = 1.0


class Site:
    """The fleet; as a context manager everything is stopped at the end.

    Args:
        directory: An existing directory for all files.
        fleet: What is tested.
        seed: Of the delays of links.

    Attributes:
        links: Of each member to the store.
    """

    def __init__(self, directory: Path, fleet: Fleet, *, seed: int = 0) -> None:
        self.fleet = fleet
        self.origin = FleetOrigin(fleet.limit, fleet.service_s)
        self.store: RedisServer | KubernetesApi = STORES[fleet.store](directory)
        self.ports = [0] * fleet.members
        self.admin_ports = [0] * fleet.members
        self.clients = FleetClients(self.ports, USERS)
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.links = [FaultyLink(self.store.port, self.chance) for _ in self.ports]
        self._directory = directory
        self._processes: list[Process | None] = [None] * fleet.members
        self._paused: set[int] = set()
        self._running = ExitStack()

    async def start(self) -> None:
        """Start all of it, one member after the other."""
        levels = []
        for number, name in enumerate(("odd", "even")):
            users = ", ".join(
                f"{{kind: User, user: {{name: user-{user}}}}}" for user in range(number, USERS, 2)
            )
            levels.append(OBJECTS.format(name=name, users=users))
        (self._directory / "objects.yaml").write_text("---\n".join(levels))
        await self.origin.start()
        await self.store.start()
        for at, link in enumerate(self.links):
            await link.listen()
            await self.start_member(at)

    async def start_member(self, at: int) -> None:
        """Start a member, which is not running."""
        settings = self._directory / f"member-{at}.yaml"
        settings.write_text(
            SETTINGS.format(
                fleet=self.fleet,
                store=self.store.settings(self.links[at].port, self._directory),
                name=f"member-{at}",
            )
        )
        process, admin_port = await asyncio.to_thread(
            start_apfproxy,
            upstream_port=self.origin.port,
            directory=self._directory,
            arguments=["--settings", str(settings)],
            name=f"member-{at}",
        )
        self._running.enter_context(process)
        self._processes[at] = process
        self.ports[at], self.admin_ports[at] = process.port, admin_port

    def member(self, at: int) -> Process:
        """The process of a member that was started."""
        process = self._processes[at]
        assert process is not None
        return process

    async def kill_member(self, at: int) -> None:
        """End a member at once."""
        os.kill(self.member(at).pid, signal.SIGKILL)
        await self.end_member(at)

    async def end_member(self, at: int) -> None:
        """Have a member leave in order."""
        await asyncio.to_thread(self.member(at).stop)

    def pause_member(self, at: int) -> None:
        """Have a member do nothing more, as on a machine that hangs."""
        self._paused.add(at)
        os.kill(self.member(at).pid, signal.SIGSTOP)

    def resume_member(self, at: int) -> None:
        """The end of that."""
        self._paused.discard(at)
        os.kill(self.member(at).pid, signal.SIGCONT)

    def cut_off(self, members: Iterable[int]) -> None:
        """Have nothing come through between some members and the store."""
        for at in members:
            self.links[at].strike(Ending.VANISH)
            self.links[at].swallow()

    def delay(self, most_s: float) -> None:
        """Have each new connection to the store be late by up to so much, and no others remain."""

        def late() -> Fault:
            return Fault(delay_s=self.chance.uniform(0, most_s))

        for link in self.links:
            link.choose = late
            link.strike(Ending.RESET)

    async def heal(self) -> None:
        """Have all links be good, on new connections."""
        for link in self.links:
            link.choose = lambda: GOOD
            link.drop()
            await link.listen()

    def everywhere(self, requests: int, without: Iterable[int] = ()) -> dict[int, int]:
        """So many clients, evenly on all members but some; each of the others has one."""
        members = [at for at in range(self.fleet.members) if at not in set(without)]
        every, rest = divmod(requests, len(members))
        return {at: max(1, every + (place < rest)) for place, at in enumerate(members)}

    def cpu_ns(self) -> int:
        """What all members have cost that run."""
        processes = [each for each in self._processes if each is not None and each.is_running]
        return sum(each.cpu_ns() for each in processes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clients.stop()
        for at in tuple(self._paused):
            self.resume_member(at)
        self._running.close()
        for link in self.links:
            link.stop()
        self.store.stop()
        self.origin.stop()

    def __repr__(self) -> str:
        return f"<Site of {self.fleet.members} members before {self.origin!r}>"
