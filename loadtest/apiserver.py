"""Measure `apfproxy apiserver` with 20 000 ResourceSlices: lists, watches, writes and memory.

The server has one core, this program the other.  Requests are made before the clock starts, and
each figure is from a request's first byte sent to its response's last byte received.  The store on
the disk is in a directory of its own, which `--directory` puts where the disk is that matters.

    python -m loadtest.apiserver --slices 20000 --watches 2000 --json apiserver.json

The exit status is 2 if a figure is beyond its limit.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from loadtest.clients import Connection, percentile
from loadtest.contenders import THIS
from loadtest.processes import SEARCHED, LoadTestError, Process, free_ports, pin
from loadtest.program import Parser, Results, Table, count_up_to, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

SERVER_CORE, CLIENT_CORE = 0, 1
SPARE_DESCRIPTORS = 500

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
APPLY = "application/apply-patch+yaml"
PAGE = 500
REPEATS = 40
FEW = 7
WITHIN_S = 60.0
"""How long a load, or a change on its way to all watches, may take in all."""
WATCHES_AT_ONCE = 50
"""Watches that are opened side by side: fewer than a listening socket's backlog."""


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
    "a change at the last watch": Limit(500),
}


class Figure(NamedTuple):
    name: str
    value: float
    unit: str


class Report:
    """The figures, printed as they come, and those that are beyond their limits."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, object]] = {}
        self.wrong: list[str] = []
        self._table = Table(" <44 | measured >12 | limit >10")
        self._table.head()

    def add(self, figure: Figure) -> None:
        name, value, unit = figure
        limit, more = LIMITS.get(name), ""
        self.figures[name] = {"value": value, "unit": unit}
        if limit and not limit.is_kept(value):
            self.wrong.append(f"{name}: {value:.2f}, the limit is {limit.bound:g}")
            more = "  BEYOND"
        shown = f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
        bound = f"{limit.bound:,.0f}" if limit else ""
        self._table.row(f"{name}, {unit}", shown, bound, more=more)


def request(
    method: str,
    target: str,
    body: bytes = b"",
    *,
    content_type: str = "application/json",
    encoding: str = "identity",
) -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: apiserver",
        "User-Agent: loadtest/1.0",
        "Accept: application/json",
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
        latencies_ms: From each request to the last byte of its response.
        body: Of the last response.
    """

    seconds: float = 0.0
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
    load = await answers(server, [every] * FEW)
    count = len(names_in(load.body))
    if count != options.slices + 1:
        raise LoadTestError(f"the list of all has {count} objects, not {options.slices + 1}")
    yield Figure("list of all", load.latency_ms(100), "ms")
    yield Figure("list of all, size", len(load.body) / 2**20, "MiB")
    load = await answers(server, [request("GET", SLICES, encoding="gzip")] * FEW)
    yield Figure("list of all, gzip", load.latency_ms(100), "ms")


async def _reads_and_writes(server: Process, options: argparse.Namespace) -> AsyncIterator[Figure]:
    def each(make: Callable[[str], bytes]) -> list[bytes]:
        indices = (index * 7919 % (options.slices + 1) for index in range(options.writes))
        return [make(name_of(index)) for index in indices]

    operations: dict[str, list[bytes]] = {
        "get": each(lambda name: request("GET", f"{SLICES}/{name}")),
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


def start(directory: Path, *arguments: str, core: int | None) -> Process:
    (port,) = free_ports(1)
    build = THIS._replace(path=SEARCHED)
    return Process(
        "apiserver",
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
    report = Report()
    with start(directory, core=core) as server:
        async for figure in measure_memory(server, options):
            report.add(figure)
    with start(directory, "--store", f"{directory}/store.db", core=core) as server:
        async for figure in measure_disk(server, options):
            report.add(figure)
    return report.figures, report.wrong


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
    add("--no-pin", action="store_true", help="let the scheduler choose cores")
    options = parser.parse_args()
    descriptors = options.watches + SPARE_DESCRIPTORS
    return measured(options, measure, descriptors=descriptors, directory=options.directory)


if __name__ == "__main__":
    sys.exit(main())
