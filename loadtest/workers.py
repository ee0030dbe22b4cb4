"""Covers what several workers cost and bring, and what clients notice of replacements and restarts.

1. Costs: wrk keeps 64 connections a worker busy.  Counted is the CPU of the workers and of their
   parent.  Where there are only two processors, the load and the origin need their part, and
   requests a second say little; CPU a request is the figure.  With `--pin` the proxies have the
   first processor, and the load and the origin another one.  The rounds alternate between the
   numbers of workers; figures are the medians.
2. Replacement: clients ask at a rate, a tenth of them on new connections, while SIGUSR2 replaces
   the workers again and again, while one of them is killed, and while a process without a parent is
   restarted behind a socket that this program holds, as systemd does.  Counted is every request
   without its response; where a worker is killed these are those that it had.

    python -m loadtest.workers --workers 1,2 --rounds 5 --pin
    python -m loadtest.workers --rate 5000 --requests 100000 --replacements 20 --activations 20

The exit status is 2 if a request failed that no killed worker had.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import statistics
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadtest.clients import OpenLoop, Tally, percentile
from loadtest.contenders import Site, start_nginx_origin
from loadtest.processes import (
    CPUS,
    LoadTestError,
    Process,
    Proxy,
    cpu_ns,
    free_ports,
    pin,
    python_module,
)
from loadtest.program import Parser, Results, Table, count_up_to, counts_up_to, measured
from loadtest.wrk import Measurement, Variety, drive

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Sequence

CONNECTIONS = 64
STARTED = b"the parent is process"
REPLACED = b"all workers are replaced"
SERVES_AGAIN = b"serves again"
LISTENS = b"listens on"
PAUSE_S = 1.0
SAYS_WITHIN_S = 60.0
AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Gives a command a listening socket."""


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


class Log:
    """The log of a proxy, read to where something is said."""

    def __init__(self, path: Path, seen: int | None = None) -> None:
        self._path = path
        self._seen = path.stat().st_size if seen is None else seen

    async def says(self, text: bytes) -> None:
        end_s = time.monotonic() + SAYS_WITHIN_S
        while (found := self._path.read_bytes().find(text, self._seen)) < 0:
            if time.monotonic() > end_s:
                words = self._path.read_text(encoding="utf-8").splitlines()[-3:]
                raise LoadTestError(f"the proxy did not say {text.decode()!r}, but {words}")
            await asyncio.sleep(0.02)
        self._seen = found + len(text)


@asynccontextmanager
async def started(site: Site, upstream_port: int, workers: int) -> AsyncIterator[Proxy]:
    with Proxy(
        site.directory,
        [upstream_port],
        name=f"apfproxy-{workers}",
        arguments=("--workers", str(workers)) if workers > 1 else (),
        core=site.proxy_core,
    ) as proxy:
        if workers > 1:
            # The first worker answers before the others do, and signals mean nothing till then.
            await Log(proxy.log, 0).says(STARTED)
        yield proxy


async def cost(site: Site, origin: Process, workers: int, seconds: int) -> dict[str, float]:
    async with started(site, origin.port, workers) as proxy:
        everybody = {proxy.pid, *(children_of(proxy.pid) if workers > 1 else ())}

        def load(lasts_s: int) -> Measurement:
            return drive(
                proxy,
                mix="same",
                variety=Variety(),
                seconds=lasts_s,
                connections=CONNECTIONS * workers,
                core=site.load_core,
                directory=site.directory,
            )

        load(1)  # pools and caches fill
        before = {pid: cpu_ns(pid) for pid in everybody}
        found = load(seconds)
        spent = {pid: cpu_ns(pid) - before[pid] for pid in everybody}
    return {
        "requests_per_s": found.requests_per_s,
        "cpu_us_per_request": sum(spent.values()) / 1e3 / found.requests,
        "parent_us_per_request": spent[proxy.pid] * (workers > 1) / 1e3 / found.requests,
    }


async def costs(
    site: Site, origin: Process, counts: Sequence[int], seconds: int, rounds: int
) -> dict[int, dict[str, float]]:
    """The medians of some rounds, by number of workers; prints a table."""
    found: dict[int, list[dict[str, float]]] = {count: [] for count in counts}
    for _ in range(rounds):
        for count in counts:
            found[count].append(await cost(site, origin, count, seconds))
    medians = {
        count: {name: statistics.median(each[name] for each in of) for name in of[0]}
        for count, of in found.items()
    }
    first = medians[counts[0]]["cpu_us_per_request"]
    table = Table("workers >7 | req/s >12.0f | CPU us >9.1f | parent us >11.2f")
    table.head()
    for count, each in medians.items():
        times = count / counts[0] * first / each["cpu_us_per_request"]
        more = f"  on a processor each {times:.2f} times the throughput"
        table.row(count, *each.values(), more=more)
    return medians


class Activated(Process):
    """A process without a parent behind a socket that stays when it is restarted."""

    def __init__(self, directory: Path, upstream_port: int) -> None:
        (port,) = free_ports(1)
        self._socket = socket.create_server(("127.0.0.1", port), backlog=4096)
        argv = [
            *(sys.executable, "-c", AS_SYSTEMD, str(self._socket.fileno())),
            *(*python_module("apfproxy"), "serve", "--admin", "none"),
            *("--upstream", f"http://127.0.0.1:{upstream_port}", "--listen", f"127.0.0.1:{port}"),
        ]
        descriptors = [self._socket.fileno()]
        super().__init__("activated", argv, port=port, directory=directory, descriptors=descriptors)

    async def restart(self) -> None:
        log = Log(self.log)
        await asyncio.to_thread(self.stop)
        await asyncio.to_thread(self.start)
        await log.says(LISTENS)

    def __exit__(self, *error: object) -> None:
        super().__exit__()
        self._socket.close()


async def disturbed(port: int, options: dict[str, int], disturb: Any) -> dict[str, Any]:  # noqa: ANN401
    clients = OpenLoop(port, options["rate"], new_percent=10)
    done: list[float] = []

    async def all_of_it() -> None:
        for _ in range(options["times"]):
            await asyncio.sleep(PAUSE_S)
            begun_s = time.monotonic()
            await disturb()
            done.append(time.monotonic() - begun_s)
        await asyncio.sleep(PAUSE_S)

    disturbing = asyncio.create_task(all_of_it())
    lasted_s = await clients.run(options["requests"], disturbing.done)
    await disturbing
    tally = clients.tally()
    figures = {name: getattr(tally, name) for name in Tally.__dataclass_fields__}
    latencies_ms = figures.pop("latencies_ms")
    return figures | {
        "answered": tally.answered,
        "requests_per_s": tally.answered / lasted_s,
        "failed": tally.failed,
        "p50_ms": percentile(latencies_ms, 50),
        "p99_ms": percentile(latencies_ms, 99),
        "longest_ms": max(latencies_ms),
        "seconds_each": done,
    }


async def replace(
    by: str, workers: int, upstream_port: int, directory: Path, options: dict[str, int]
) -> dict[str, Any]:
    if by == "activated":
        with Activated(directory, upstream_port) as activated:
            await Log(activated.log, 0).says(LISTENS)
            return await disturbed(activated.port, options, activated.restart)
    async with started(Site(directory, None, None), upstream_port, workers) as proxy:
        log = Log(proxy.log)

        async def once() -> None:
            if by == "replaced":
                os.kill(proxy.pid, signal.SIGUSR2)
                await log.says(REPLACED)
            else:
                os.kill(children_of(proxy.pid)[0], signal.SIGKILL)
                await log.says(SERVES_AGAIN)

        return await disturbed(proxy.port, options, once)


def print_replaced(by: str, found: dict[str, Any]) -> None:
    print(
        f"{by}: {found['answered']} responses at {found['requests_per_s']:.0f} a second"
        f" on {found['connections']} connections; failed {found['failed']}"
        f" (refused {found['refused']}, broken {found['broken_new']} new and"
        f" {found['broken_kept']} kept, {found['unanswered']} hung, other statuses"
        f" {dict(found['statuses'])}), late {found['late']};"
        f" p50 {found['p50_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms,"
        f" longest {found['longest_ms']:.0f} ms; seconds each:"
        f" {', '.join(f'{each:.1f}' for each in found['seconds_each'])}; besides,"
        f" {found['raced']} requests met the end of a connection that had been idle",
        flush=True,
    )


async def measure(options: argparse.Namespace, directory: Path) -> Results:
    site = Site(directory, *((0, 1) if options.pin else (None, None)))
    if options.pin:
        pin(0, 1)
    results: dict[str, Any] = {"processors": len(CPUS), "is_pinned": options.pin}
    with start_nginx_origin(site) as origin:
        if options.rounds:
            found = await costs(site, origin, options.workers, options.seconds, options.rounds)
            results["costs"] = found
        for by, times in (
            ("replaced", options.replacements),
            ("killed", options.kills),
            ("activated", options.activations),
        ):
            if times:
                wanted = {"rate": options.rate, "requests": options.requests, "times": times}
                most = max(2, *options.workers)
                results[by] = await replace(by, most, origin.port, directory, wanted)
                print_replaced(by, results[by])
    wrong = [
        f"{by}: {results[by]['failed']} requests failed"
        for by in ("replaced", "activated")
        if by in results and results[by]["failed"]
    ]
    return results, wrong


def main() -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--workers", type=counts_up_to(64), default=[1, 2], help="several runs; default 1,2")
    add("--seconds", type=count_up_to(600), default=5, help="of wrk; default 5")
    add("--rounds", type=count_up_to(100, 0), default=3, help="default 3; 0 leaves out the costs")
    add("--rate", type=count_up_to(50_000), default=5000, help="default 5000")
    add("--requests", type=count_up_to(10**8), default=100_000, help="at least; default 100000")
    add("--replacements", type=count_up_to(1000, 0), default=5, help="default 5")
    add("--kills", type=count_up_to(1000, 0), default=3, help="default 3")
    add("--activations", type=count_up_to(1000, 0), default=3, help="default 3")
    add("--pin", action="store_true", help="proxies and load on processors apart")
    options = parser.parse_args()
    return measured(options, measure, descriptors=8192)


if __name__ == "__main__":
    sys.exit(main())
