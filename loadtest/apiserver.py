"""Measure `apfproxy apiserver` with 20 000 ResourceSlices: lists, watches, writes and memory.

The server has one core, this program the other.  Requests are made before the clock starts, and
each figure is from a request's first byte sent to its response's last byte received.  The store on
the disk is in a directory of its own, which `--directory` puts where the disk is that matters.

    python -m loadtest.apiserver --slices 20000 --watches 2000 --json apiserver.json

With `--against` another build, of a checkout or a virtual environment, runs beside this one, and
each batch of requests goes to both in turn, so that what slows the machine down slows down both.
Ratios are this one's medians over the rounds by the other one's.

    python -m loadtest.apiserver --against before=../other-checkout --rounds 3 --slices 5000

The exit status is 2 if a figure of this build is beyond its limit.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from loadtest.clients import Connection, percentile
from loadtest.contenders import THIS, Build, named_build
from loadtest.processes import SEARCHED, LoadTestError, Process, free_ports, pin
from loadtest.program import Parser, Results, Table, count_up_to, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

SERVER_CORE, CLIENT_CORE = 0, 1
SPARE_DESCRIPTORS = 500

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
BETA_SLICES = "/apis/resource.k8s.io/v1beta1/resourceslices"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
APPLY = "application/apply-patch+yaml"
PAGE = 500
REPEATS = 40
FEW = 7
SLOW_READERS = 10
LISTERS = 4
WITHIN_S = 60.0
"""How long a load, or a change on its way to all watches, may take in all."""
WATCHES_AT_ONCE = 50
"""Watches that are opened side by side: fewer than a listening socket's backlog."""
SMALL_BUFFER_BYTES = 16 * 1024
"""The receive buffer of a slow reader, so that the server has to hold back the rest."""
TOKEN = re.compile(rb'"continue":"([^"]*)"')
SLOW_S = 2.0


class Limit(NamedTuple):
    """The most that a figure may be, in its unit, or the least."""

    bound: float
    is_least: bool = False

    def is_kept(self, value: float) -> bool:
        return value >= self.bound if self.is_least else value <= self.bound


LIMITS = {
    "create, in memory": Limit(1000, is_least=True),
    "create, with fsync": Limit(300, is_least=True),
    "list of 500, p99": Limit(25),
    "list of all": Limit(1500),
    "a slow reader of all holds": Limit(1024),
    "a change at the last watch": Limit(500),
}


class Figure(NamedTuple):
    name: str
    value: float
    unit: str


class Report:
    """The figures of each build, this one's last, printed as they come."""

    def __init__(self, builds: Sequence[str]) -> None:
        self._builds = builds
        self._values: dict[tuple[str, str], list[list[float]]] = {}
        columns = " | ".join(f"{name} >12" for name in builds)
        self._table = Table(f" <44 | {columns} | {'ratio' if len(builds) > 1 else 'limit'} >10")
        self._table.head()

    def add(self, figures: Sequence[Figure]) -> None:
        name, _, unit = figures[0]
        values = [figure.value for figure in figures]
        self._values.setdefault((name, unit), []).append(values)
        self._print(name, unit, values)

    def medians(self) -> tuple[dict[str, dict[str, object]], list[str]]:
        """The medians over the rounds, and what is beyond its limit; prints those of several."""
        found: dict[str, dict[str, object]] = {}
        wrong = []
        if any(len(rounds) > 1 for rounds in self._values.values()):
            print("medians")
        for (name, unit), rounds in self._values.items():
            values = [statistics.median(of_build) for of_build in zip(*rounds, strict=True)]
            if len(rounds) > 1:
                self._print(name, unit, values)
            others = dict(zip(self._builds[:-1], values, strict=False))
            found[name] = {"value": values[-1], "unit": unit, **others}
            if name in LIMITS and not LIMITS[name].is_kept(values[-1]):
                wrong.append(f"{name}: {values[-1]:.2f}, the limit is {LIMITS[name].bound:g}")
        return found, wrong

    def _print(self, name: str, unit: str, values: Sequence[float]) -> None:
        limit, more = LIMITS.get(name), ""
        last = f"{limit.bound:,.0f}" if limit else ""
        if limit and not limit.is_kept(values[-1]):
            more = "  BEYOND"
        if len(values) > 1:
            last = f"{values[-1] / values[0]:.3f}" if values[0] else ""
        shown = (f"{value:,.0f}" if value >= 100 else f"{value:.2f}" for value in values)
        self._table.row(f"{name}, {unit}", *shown, last, more=more)


def request(
    method: str,
    target: str,
    body: bytes = b"",
    *,
    content_type: str = "application/json",
    accept: str = "application/json",
    encoding: str = "identity",
) -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: apiserver",
        "User-Agent: loadtest/1.0",
        f"Accept: {accept}",
        f"Accept-Encoding: {encoding}",
    ]
    if body:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(slots=True)
class Load:
    """Requests that got their responses, and when.

    Attributes:
        seconds: From the first request to the last response.
        first_ms, latencies_ms: From each request to the first and the last byte of its response.
        body: Of the last response.
    """

    seconds: float = 0.0
    first_ms: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    body: bytes = b""

    @property
    def per_s(self) -> float:
        return len(self.latencies_ms) / self.seconds

    def latency_ms(self, percent: float) -> float:
        return percentile(self.latencies_ms, percent)


async def work(server: Process, requests: Iterator[bytes], load: Load) -> None:
    with await Connection.open(server.port) as connection:
        for each in requests:
            status = await connection.ask(each)
            load.first_ms.append((connection.first_s - connection.sent_s) * 1e3)
            load.latencies_ms.append((connection.ended_s - connection.sent_s) * 1e3)
            load.body = connection.body
            if not 200 <= status < 300:
                text = load.body[:200].decode(errors="replace")
                raise LoadTestError(f"status {status or 'none'}: {text}; see its log")


async def answers(server: Process, requests: Sequence[bytes], connections: int = 1) -> Load:
    load, remaining = Load(), iter(requests)
    start = time.perf_counter()
    try:
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*(work(server, remaining, load) for _ in range(connections)))
    except TimeoutError as error:
        count = f"{len(load.latencies_ms)} of {len(requests)}"
        raise LoadTestError(f"{server.name}: {count} responses within {WITHIN_S:g} s") from error
    load.seconds = time.perf_counter() - start
    return load


async def walk(server: Process, target: str, limit: int) -> tuple[Load, int]:
    load, token = Load(), ""
    while True:
        query = f"?limit={limit}" + (f"&continue={token}" if token else "")
        page = await answers(server, [request("GET", target + query)])
        load.latencies_ms += page.latencies_ms
        load.seconds += page.seconds
        found = TOKEN.search(page.body[:4096])
        if found is None:
            return load, len(load.latencies_ms)
        token = found[1].decode()


async def beside(server: Process, text: bytes, count: int, others: bytes, connections: int) -> Load:
    is_over = False

    def more() -> Iterator[bytes]:
        while not is_over:
            yield others

    busy = [asyncio.create_task(work(server, more(), Load())) for _ in range(connections)]
    try:
        return await answers(server, [text] * count)
    finally:
        is_over = True
        await asyncio.gather(*busy)


class Watch(Connection):
    def __init__(self, crowd: Crowd) -> None:
        super().__init__()
        self._crowd = crowd
        self._last = b""
        self.events = 0
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_headers_complete(self) -> None:
        self.begun.set_result(None)

    def on_body(self, data: bytes) -> None:
        # An event is a line, which ends where a value does, and its end may be cut in two.
        events = (self._last + data).count(b"}\n")
        self._last = data[-1:]
        self.events += events
        self._crowd.add(events)


class Crowd:
    """Many watches of one collection, each on a connection of its own."""

    def __init__(self) -> None:
        self._events = self._awaited = 0
        self._arrived: asyncio.Future[None] | None = None
        self._watches: list[Watch] = []

    async def open(self, server: Process, target: str, count: int) -> None:
        for start in range(0, count, WATCHES_AT_ONCE):
            opened = await asyncio.gather(
                *(Watch.open(server.port, self) for _ in range(min(WATCHES_AT_ONCE, count - start)))
            )
            for watch in opened:
                watch.ask(request("GET", target))
                self._watches.append(watch)
            async with asyncio.timeout(WITHIN_S):
                await asyncio.gather(*(watch.begun for watch in opened))

    async def see(self, server: Process, change: bytes) -> float:
        """Make a change: milliseconds until the last watch has it."""
        self._expect(self._events + len(self._watches))
        start = time.perf_counter()
        await answers(server, [change])
        await self._arrival()
        return (time.perf_counter() - start) * 1e3

    async def fill(self, server: Process, target: str, events: int) -> float:
        """Open one watch: milliseconds until the last of the events that it begins with."""
        self._expect(events)
        start = time.perf_counter()
        await self.open(server, target, 1)
        await self._arrival()
        return (time.perf_counter() - start) * 1e3

    def add(self, events: int) -> None:
        self._events += events
        if self._events >= self._awaited and self._arrived and not self._arrived.done():
            self._arrived.set_result(None)

    def close(self) -> None:
        counts = {watch.events for watch in self._watches}
        for watch in self._watches:
            watch.close()
        if len(counts) > 1:
            raise LoadTestError(f"watches got {min(counts)} to {max(counts)} events, not the same")

    def _expect(self, events: int) -> None:
        self._awaited, self._arrived = events, asyncio.get_running_loop().create_future()

    async def _arrival(self) -> None:
        assert self._arrived is not None
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._arrived
        except TimeoutError as error:
            missing = self._awaited - self._events
            raise LoadTestError(f"{missing} events did not arrive in {WITHIN_S:g} s") from error


async def read_slowly(server: Process, text: bytes, readers: int, seconds: float) -> int:
    """Let clients read a little at a time: bytes that the server's memory grew by, at most."""
    before, most = server.rss_bytes(), 0
    loop = asyncio.get_running_loop()
    sockets = []
    try:
        for _ in range(readers):
            connection = socket.socket()
            sockets.append(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
            connection.setblocking(False)
            await loop.sock_connect(connection, ("127.0.0.1", server.port))
            await loop.sock_sendall(connection, text)
        async with asyncio.timeout(seconds):
            while True:
                for connection in sockets:
                    if not await loop.sock_recv(connection, SMALL_BUFFER_BYTES):
                        raise LoadTestError("the server ended a response to a slow reader")
                most = max(most, server.rss_bytes() - before)
                await asyncio.sleep(0.01)
    except TimeoutError:
        return most
    finally:
        for connection in sockets:
            connection.close()


def slice_of(name: str, *, team: str = "a") -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "labels": {"team": team}},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": f"node-{name}",
            "pool": {"name": f"node-{name}", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{index}",
                    "attributes": {
                        "model": {"string": "H100"},
                        "index": {"int": index},
                        "driverVersion": {"version": "1.2.3"},
                        "uuid": {"string": f"GPU-{name}-{index}"},
                    },
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for index in range(4)
            ],
        },
    }


def encoded(obj: dict[str, Any]) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()


def name_of(index: int) -> str:
    # A number times an odd one that is no divisor: all differ, and neighbours come far apart.
    return f"slice-{index * 7919 % 1_000_003:07}"


def creations(start: int, count: int) -> list[bytes]:
    names = [name_of(index) for index in range(start, start + count)]
    return [request("POST", SLICES, encoded(slice_of(name))) for name in names]


def names_in(listed: bytes) -> list[str]:
    return [item["metadata"]["name"] for item in json.loads(listed)["items"]]


async def measure_memory(server: Process, options: argparse.Namespace) -> AsyncIterator[Figure]:
    await answers(server, creations(0, 1))  # imports and caches are paid for once
    empty = server.rss_bytes()
    load = await answers(server, creations(1, options.slices), options.connections)
    yield Figure("create, in memory", load.per_s, "a second")
    yield Figure("create, p99", load.latency_ms(99), "ms")
    yield Figure("memory of an object", (server.rss_bytes() - empty) / 1024 / options.slices, "KiB")
    for part in (_lists, _reads_and_writes, _watches):
        async for figure in part(server, options):
            yield figure


async def _lists(server: Process, options: argparse.Namespace) -> AsyncIterator[Figure]:
    some, every = request("GET", f"{SLICES}?limit={PAGE}"), request("GET", SLICES)
    load = await answers(server, [some] * REPEATS)
    if len(names_in(load.body)) != min(PAGE, options.slices + 1):
        raise LoadTestError("a list of 500 has not so many objects")
    yield Figure("list of 500, p50", load.latency_ms(50), "ms")
    yield Figure("list of 500, p99", load.latency_ms(99), "ms")
    table = request("GET", f"{SLICES}?limit={PAGE}", accept=TABLE)
    load = await answers(server, [table] * REPEATS)
    yield Figure("Table of 500, p50", load.latency_ms(50), "ms")
    load = await answers(server, [request("GET", f"{BETA_SLICES}?limit={PAGE}")] * REPEATS)
    yield Figure("list of 500 in v1beta1, p50", load.latency_ms(50), "ms")
    load = await answers(server, [every] * FEW)
    count = len(names_in(load.body))
    if count != options.slices + 1:
        raise LoadTestError(f"the list of all has {count} objects, not {options.slices + 1}")
    yield Figure("list of all", load.latency_ms(100), "ms")
    yield Figure("list of all, its first byte", percentile(load.first_ms, 100), "ms")
    yield Figure("list of all, size", len(load.body) / 2**20, "MiB")
    load = await answers(server, [request("GET", SLICES, encoding="gzip")] * FEW)
    yield Figure("list of all, gzip", load.latency_ms(100), "ms")
    yield Figure("list of all, gzip, size", len(load.body) / 2**20, "MiB")
    load = await answers(server, [request("GET", f"{SLICES}?pretty=true")] * FEW)
    yield Figure("list of all, indented", load.latency_ms(100), "ms")
    load = await answers(server, [request("GET", f"{SLICES}?labelSelector=team%3Db")] * FEW)
    yield Figure("list of none by label among all", load.latency_ms(50), "ms")
    load, pages = await walk(server, SLICES, PAGE)
    yield Figure(f"walk of all in {pages} pages", load.seconds * 1e3, "ms")
    crowd = Crowd()
    took_ms = await crowd.fill(server, f"{SLICES}?watch=true&resourceVersion=0", count)
    crowd.close()
    yield Figure("watch of all, its first events", took_ms, "ms")
    one = request("GET", f"{SLICES}/{name_of(0)}")
    load = await beside(server, one, REPEATS * FEW, every, LISTERS)
    yield Figure(f"get beside {LISTERS} lists of all, p99", load.latency_ms(99), "ms")
    grown = await read_slowly(server, every, SLOW_READERS, SLOW_S)
    yield Figure("a slow reader of all holds", grown / 1024 / SLOW_READERS, "KiB")


async def _reads_and_writes(server: Process, options: argparse.Namespace) -> AsyncIterator[Figure]:
    def each(make: Callable[[str], bytes]) -> list[bytes]:
        indices = (index * 7919 % (options.slices + 1) for index in range(options.writes))
        return [make(name_of(index)) for index in indices]

    operations: dict[str, list[bytes]] = {
        "get": each(lambda name: request("GET", f"{SLICES}/{name}")),
        "update": each(
            lambda name: request("PUT", f"{SLICES}/{name}", encoded(slice_of(name, team="b")))
        ),
        "merge patch": each(
            lambda name: request(
                "PATCH",
                f"{SLICES}/{name}",
                b'{"metadata":{"labels":{"team":"c"}}}',
                content_type="application/merge-patch+json",
            )
        ),
        "server-side apply": each(
            lambda name: request(
                "PATCH",
                f"{SLICES}/{name}?fieldManager=driver&force=true",
                encoded(slice_of(name, team="d")),
                content_type=APPLY,
            )
        ),
    }
    for name, requests in operations.items():
        load = await answers(server, requests, options.connections)
        yield Figure(name, load.per_s, "a second")


async def _watches(server: Process, options: argparse.Namespace) -> AsyncIterator[Figure]:
    load = await answers(server, [request("GET", f"{SLICES}?limit=1")])
    version = json.loads(load.body)["metadata"]["resourceVersion"]
    target = f"{SLICES}?watch=true&resourceVersion={version}"
    crowd = Crowd()
    before = server.rss_bytes()
    await crowd.open(server, target, options.watches)
    yield Figure("memory of a watch", (server.rss_bytes() - before) / 1024 / options.watches, "KiB")
    times = []
    for index in range(options.changes):
        name = name_of(index % (options.slices + 1))
        change = encoded(slice_of(name, team=f"round-{index}"))
        times.append(await crowd.see(server, request("PUT", f"{SLICES}/{name}", change)))
    crowd.close()
    yield Figure("a change at the last watch, median", percentile(times, 50), "ms")
    yield Figure("a change at the last watch", max(times), "ms")


async def measure_disk(server: Process, options: argparse.Namespace) -> AsyncIterator[Figure]:
    await answers(server, creations(0, 1))
    requests = creations(1, options.disk_writes)
    load = await answers(server, requests, options.connections)
    yield Figure("create, with fsync", load.per_s, "a second")
    yield Figure("create, with fsync, p99", load.latency_ms(99), "ms")
    some = [request("DELETE", f"{SLICES}/{name_of(index)}") for index in range(PAGE)]
    load = await answers(server, some)
    yield Figure("delete, with fsync, one at a time", load.per_s, "a second")


async def take_turns(
    measure: Callable[[Process, argparse.Namespace], AsyncIterator[Figure]],
    servers: Sequence[Process],
    options: argparse.Namespace,
    report: Report,
) -> None:
    """Measure several servers, one figure of each after the other."""
    runs = [measure(server, options) for server in servers]
    while figures := [figure for run in runs if (figure := await anext(run, None)) is not None]:
        report.add(figures)


def start(name: str, build: Build, directory: Path, *arguments: str, core: int | None) -> Process:
    (port,) = free_ports(1)
    return Process(
        f"apiserver-{name}",
        [*build.command(), "apiserver", "--listen", f"127.0.0.1:{port}", *arguments],
        port=port,
        core=core,
        directory=directory,
        environment=build.environment(),
    )


async def measure(options: argparse.Namespace, directory: Path) -> Results:
    if not options.no_pin:
        pin(0, CLIENT_CORE)
    core = None if options.no_pin else SERVER_CORE
    this = THIS._replace(path=SEARCHED)
    builds: Mapping[str, Build] = {**dict(options.against), "measured": this}
    report = Report(list(builds))
    for number in range(options.rounds):
        for measuring, is_stored in ((measure_memory, False), (measure_disk, True)):
            with ExitStack() as running:
                servers = []
                for name, build in builds.items():
                    store = ["--store", f"{directory}/{name}-{number}.db"] if is_stored else []
                    server = start(name, build, directory, *store, core=core)
                    servers.append(running.enter_context(server))
                await take_turns(measuring, servers, options, report)
    return report.medians()


def main() -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--slices", type=count_up_to(500_000, 500), default=20_000, help="objects (20000)")
    add("--watches", type=count_up_to(20_000), default=2000, help="watches at once (2000)")
    add("--changes", type=count_up_to(10_000), default=50, help="that watches see (50)")
    add("--connections", type=count_up_to(1000), default=16, help="of writers (16)")
    add("--writes", type=count_up_to(500_000), default=4000, help="of each kind (4000)")
    add("--disk-writes", type=count_up_to(500_000, 500), default=5000, help="with fsync (5000)")
    add("--directory", type=Path, help="an existing one for the store (the system's temporary)")
    add(
        "--against",
        type=named_build,
        action="append",
        default=[],
        metavar="NAME=CHECKOUT",
        help="another build beside this one: of a checkout, or NAME=PYTHON",
    )
    add("--rounds", type=count_up_to(100), default=1, help="with new servers each (1)")
    add("--no-pin", action="store_true", help="let the scheduler choose cores")
    options = parser.parse_args()
    descriptors = options.watches * (1 + len(options.against)) + SPARE_DESCRIPTORS
    return measured(options, measure, descriptors=descriptors, directory=options.directory)


if __name__ == "__main__":
    sys.exit(main())
