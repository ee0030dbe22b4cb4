"""A fleet under test: a counting server, members before it, and a link from each to the store."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Self

import redis.asyncio

from apfproxy.objects.types import QueuingConfiguration
from loadtest.admin_pages import fetch
from loadtest.clients import BROKEN, REFUSED, Connection
from loadtest.faulty_link import GOOD, Ending, Fault, FaultyLink
from loadtest.origin import Origin
from loadtest.processes import LoadTestError, Process, free_ports, python_module, start_apfproxy
from tests.support.builders import as_text, flow_schema, group_subject, priority_level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

OK = "200"
PAUSE_S = 0.1
"""For a client, after anything but a good response."""
MEMBER = re.compile(r"/members/([0-9]{1,4})/")
RESPONDS_WITHIN_S = 5.0
COMMANDS = {"evalsha", "hset", "publish"}
"""Members send the first; a look is one, and a write another."""
REQUESTS = re.compile(
    r'apiserver_request_total\{(?=.*resource="configmaps").*verb="([A-Z]+)".*\} ([0-9.e+]+)'
)

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
  refreshInterval: {fleet.refresh_s}s
  lease: {fleet.lease_s}s
  {store}
logLevel: info
"""


def level_of(group: str) -> str:
    queuing = QueuingConfiguration(queues=32, hand_size=4, queue_length_limit=400)
    level = priority_level(
        group, shares=10_000, queuing=queuing, lendable_percent=50, borrowing_limit_percent=None
    )
    return as_text(level, flow_schema(group, group, group_subject(group)))


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
        self._seat_s = self._over_s = 0.0
        self._begun_s = self._counted_s = monotonic()
        self._awaited: dict[asyncio.Future[None], Callable[[], bool]] = {}

    def begin(self) -> None:
        self._account()
        self._begun_s = self._counted_s
        self._seat_s = self._over_s = 0.0
        self.peak = self.running
        self.answered.clear()

    def mean(self) -> float:
        self._account()
        return self._seat_s / max(self._counted_s - self._begun_s, 1e-9)

    def over_s(self) -> float:
        self._account()
        return self._over_s

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
        self._account()
        self.running += change
        self.by_member[member] += change
        self.peak = max(self.peak, self.running)
        for future, is_so in tuple(self._awaited.items()):
            if is_so() and not future.done():
                future.set_result(None)

    def _account(self) -> None:
        now_s = monotonic()
        elapsed_s = now_s - self._counted_s
        self._counted_s = now_s
        self._seat_s += self.running * elapsed_s
        if self.running > self.limit:
            self._over_s += elapsed_s


class FleetClients:
    """Clients of each member, in closed loops, with `results` since they were last cleared."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.results: Counter[str] = Counter()
        self._ports = ports
        self._wanted = [0] * len(ports)
        self._clients: list[list[asyncio.Task[None]]] = [[] for _ in ports]

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
                        connection = await Connection.open(self._ports[member])
                    result = str(await connection.ask(request) or BROKEN)
                except OSError:
                    result = REFUSED
                self.results[result] += 1
                if result != OK:
                    await asyncio.sleep(PAUSE_S)
        finally:
            if connection is not None:
                connection.close()


class StoreProcess:
    """A store that runs here, and responds while it `is_well`."""

    def __init__(self, directory: Path) -> None:
        (self.port,) = free_ports(1)
        self.is_well = False
        self.directory = directory
        self._process: Process | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    async def start(self) -> None:
        self._process = await asyncio.to_thread(
            Process, "store", self.command(), port=self.port, directory=self.directory
        )
        self.is_well = True

    async def kill(self) -> None:
        self.is_well = False
        await self.process.kill()

    def hang(self) -> None:
        self.is_well = False
        self.process.hang()

    def go_on(self) -> None:
        self.is_well = True
        self.process.go_on()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    @property
    def process(self) -> Process:
        if self._process is None:
            raise LoadTestError("the store has not been started")
        return self._process

    def cpu_ns(self) -> int:
        return self.process.cpu_ns()


class RedisServer(StoreProcess):
    """A redis-server that keeps nothing on the disk."""

    def command(self) -> list[str]:
        return [
            *("redis-server", "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no", "--dir", str(self.directory)),
        ]

    async def commands(self) -> Counter[str]:
        found: Counter[str] = Counter()
        client = redis.asyncio.Redis(port=self.port, socket_timeout=RESPONDS_WITHIN_S)
        try:
            async with client:
                counts = await client.info("commandstats")
        except redis.RedisError as error:
            raise LoadTestError("the store does not respond; see its log") from error
        for name, each in counts.items():
            if (command := name.removeprefix("cmdstat_")) in COMMANDS:
                found[command] = each["calls"]
        return found

    def settings(self, port: int, directory: Path) -> str:
        del directory
        return f"store: 'redis://127.0.0.1:{port}/0'"


class KubernetesApi(StoreProcess):
    """`apfproxy apiserver`, which has one ConfigMap for the fleet."""

    def command(self) -> list[str]:
        listen = f"127.0.0.1:{self.port}"
        arguments = ["apiserver", "--listen", listen, "--controllers", "-*"]
        return [*python_module("apfproxy"), *arguments, "--log-level", "error"]

    async def start(self) -> None:
        await super().start()
        head = (
            b"POST /api/v1/namespaces HTTP/1.1\r\nHost: fleet\r\nContent-Type: application/json\r\n"
        )
        connection = await Connection.open(self.port)
        data = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(NAMESPACE), NAMESPACE)
        status = await connection.ask(data)
        connection.close()
        if status != 201:
            raise LoadTestError(f"the API server does not create a namespace: {status}")

    async def commands(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for line in (await fetch(self.port, "/metrics")).splitlines():
            verb = REQUESTS.match(line)
            if verb is not None:
                found[verb[1].lower()] += int(float(verb[2]))
        return found

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
        refresh_s: Between two looks of a member at the record.
    """

    store: str = "redis"
    members: int = 3
    limit: int = 60
    service_s: float = 0.15
    lease_s: float = 5.0
    refresh_s: float = 1.0


class Site:
    """The fleet, and a link of each member to the store; at the end all of it is stopped."""

    def __init__(self, directory: Path, fleet: Fleet, *, seed: int = 0) -> None:
        self.fleet = fleet
        self.origin = FleetOrigin(fleet.limit, fleet.service_s)
        self.store: RedisServer | KubernetesApi = STORES[fleet.store](directory)
        self.ports = [0] * fleet.members
        self.admin_ports = [0] * fleet.members
        self.clients = FleetClients(self.ports)
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.links = [FaultyLink(self.store.port, self.chance) for _ in self.ports]
        self._directory = directory
        self._processes: list[Process | None] = [None] * fleet.members
        self._running = ExitStack()

    async def start(self) -> None:
        (self._directory / "objects.yaml").write_text("".join(map(level_of, LEVELS)))
        await self.origin.start()
        await self.store.start()
        for at, link in enumerate(self.links):
            await link.listen()
            await self.start_member(at)

    async def start_member(self, at: int) -> None:
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
        process = self._processes[at]
        assert process is not None
        return process

    async def end_member(self, at: int) -> None:
        await asyncio.to_thread(self.member(at).stop)

    def cut_off(self, members: Iterable[int]) -> None:
        for at in members:
            self.links[at].strike(Ending.VANISH)
            self.links[at].swallow()

    def delay(self, most_s: float, least_s: float = 0.0) -> None:
        def late() -> Fault:
            return Fault(delay_s=self.chance.uniform(least_s, most_s))

        for link in self.links:
            link.choose = late
            link.strike(Ending.RESET)

    async def heal(self) -> None:
        for link in self.links:
            link.choose = lambda: GOOD
            link.drop()
            await link.listen()

    def everywhere(self, requests: int, without: Iterable[int] = ()) -> dict[int, int]:
        members = [at for at in range(self.fleet.members) if at not in set(without)]
        every, rest = divmod(requests, len(members))
        return {at: max(1, every + (place < rest)) for place, at in enumerate(members)}

    def cpu_ns(self) -> int:
        processes = [each for each in self._processes if each is not None and each.is_running]
        return sum(each.cpu_ns() for each in processes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clients.stop()
        self._running.close()
        for link in self.links:
            link.stop()
        self.store.stop()
        self.origin.stop()
