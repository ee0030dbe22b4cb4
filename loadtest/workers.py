"""What several workers cost and bring, and what clients notice as others take their places.

1. Costs: wrk keeps 64 connections a process busy, through a proxy of one process, of several
   workers, and through as many proxies that share nothing, which are what the machine allows; and
   through one process the connections of several.
   Counted is the CPU of the proxies, of their parent, of wrk and of the server, so that it can be
   seen what the processors were busy with.  Where there are only two, the load and the server need
   their part, and requests a second say little; CPU a request is the figure.  With `--pin` the
   proxies have the first processor, and the load and the server another one, so that neither
   takes caches and turns from the other.  As processors have slow and fast moments, there is also
   the CPU of the proxies for each microsecond of wrk and server, which feel them as much; smaller
   batches are in both.  The rounds alternate between these; figures are the medians.
2. What the parent and the workers cost while nobody asks.
3. Replacement: clients ask at a rate, a tenth of them on new connections, while SIGUSR2 replaces
   the workers again and again, and while one of them is killed.  Counted is every request without
   its answer; where a worker is killed these are those that it had.

    python -m loadtest.workers --workers 1,2 --rounds 5 --pin
    python -m loadtest.workers --rate 5000 --requests 100000 --replacements 5

The exit status is 2 if a request failed that no killed worker had.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import uvloop

from loadtest.arguments import Parser, count_up_to, output_file
from loadtest.driver import percentile
from loadtest.nginx_origin import start_nginx_origin
from loadtest.paced_clients import PacedClients
from loadtest.processes import CPUS, LoadTestError, Process, installed, pin, start_apfproxy
from loadtest.program import measured
from loadtest.site import Site
from loadtest.wrk import TARGET, Variety, script_text

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECTIONS = 64
REPORT = re.compile(r'"requests":(\d+),"duration_us":(\d+)')
STARTED = b"the parent is process"
REPLACED = b"all workers are replaced"
SERVES_AGAIN = b"serves again"
PAUSE_S = 1.0
"""Between two replacements."""
IDLE_S = 5.0
SAYS_WITHIN_S = 60.0


class Kind(NamedTuple):
    """What is measured.

    Attributes:
        processes: Of proxies.
        is_apart: Whether they share nothing.
        loads: Processes of wrk, each with its connections.
    """

    processes: int
    is_apart: bool
    loads: int

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.processes:>7} {'apart' if self.is_apart else '':5}{self.loads:>6}"


def kinds_of(counts: Sequence[int]) -> list[Kind]:
    """What is measured of some numbers of processes."""
    most = max(counts)
    found: list[Kind] = []
    for count in counts:
        found.append(Kind(count, is_apart=False, loads=count))
        if count > 1:
            found.append(Kind(count, is_apart=True, loads=count))
        elif most > 1:
            found.append(Kind(count, is_apart=False, loads=most))
    return found


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process so far, in nanoseconds."""
    return sum(
        int((thread / "schedstat").read_text(encoding="ascii").split()[0])
        for thread in Path(f"/proc/{pid}/task").iterdir()
    )


def cpu_of(pids: Sequence[int]) -> int:
    """The same of several."""
    return sum(map(cpu_ns, pids))


def start(site: Site, origin: Process, workers: int) -> Process:
    """Start a proxy of so many workers; with one, a process without a parent."""
    proxy, _ = start_apfproxy(
        upstream_port=origin.port,
        directory=site.directory,
        core=site.proxy_core,
        arguments=("--workers", str(workers)) if workers > 1 else (),
        name=f"apfproxy-{workers}",
    )
    end_s = time.monotonic() + SAYS_WITHIN_S
    # The first worker answers before the others do, and signals mean nothing till then.
    while workers > 1 and STARTED not in proxy.log.read_bytes():
        if time.monotonic() > end_s:
            proxy.stop()
            raise LoadTestError("the workers did not start; is the machine this busy?")
        time.sleep(0.02)
    return proxy


def wrk(ports: Sequence[int], seconds: int, directory: Path) -> tuple[int, float, float]:
    """Drive ports, each with a process of wrk: requests, seconds, and CPU seconds of wrk itself."""
    script = directory / "same.lua"
    script.write_text(script_text("same", Variety()))
    before = os.times()
    driving = [
        subprocess.Popen(
            [
                *(installed("wrk"), "--threads=1", f"--connections={CONNECTIONS}"),
                *(f"--duration={seconds}s", f"--script={script}"),
                f"http://127.0.0.1:{port}{TARGET}",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for port in ports
    ]
    said = [each.communicate()[0] for each in driving]
    after = os.times()
    found = [REPORT.search(each) for each in said]
    for each, report in zip(said, found, strict=True):
        if report is None or '"bad_statuses":0,"socket_errors":0' not in each:
            raise LoadTestError(f"wrk: {each.strip().splitlines()[-1:]}")
    reports = [each for each in found if each is not None]
    spent_s = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    requests = sum(int(each[1]) for each in reports)
    return requests, max(int(each[2]) for each in reports) / 1e6, spent_s


def cost(site: Site, origin: Process, kind: Kind, seconds: int) -> dict[str, float]:
    """What processes cost, busy and idle: workers, or proxies that share nothing."""
    with contextlib.ExitStack() as stack:
        proxies = [
            stack.enter_context(start(site, origin, 1 if kind.is_apart else kind.processes))
            for _ in range(kind.processes if kind.is_apart else 1)
        ]
        has_parent = kind.processes > 1 and not kind.is_apart
        serving = children_of(proxies[0].pid) if has_parent else [each.pid for each in proxies]
        parent = [proxies[0].pid] if has_parent else []
        ports = [each.port for each in proxies] * (kind.loads // len(proxies))
        wrk(ports, 1, site.directory)  # pools and caches fill
        before = cpu_of(serving), cpu_of(parent), origin.cpu_ns()
        former = [cpu_ns(each) for each in serving]
        requests, lasted_s, wrk_s = wrk(ports, seconds, site.directory)
        by_worker = [cpu_ns(each) - at for each, at in zip(serving, former, strict=True)]
        spent = [
            each - former
            for each, former in zip(
                (cpu_of(serving), cpu_of(parent), origin.cpu_ns()), before, strict=True
            )
        ]
        idle = cpu_of(serving), cpu_of(parent)
        time.sleep(IDLE_S)
        rest = cpu_of(serving) - idle[0], cpu_of(parent) - idle[1]
    return {
        "requests_per_s": requests / lasted_s,
        "workers_us_per_request": spent[0] / 1e3 / requests,
        "parent_us_per_request": spent[1] / 1e3 / requests,
        "wrk_us_per_request": wrk_s * 1e6 / requests,
        "origin_us_per_request": spent[2] / 1e3 / requests,
        "workers_to_load": spent[0] / (spent[2] + wrk_s * 1e9),
        "busy_processors": (sum(spent) / 1e9 + wrk_s) / lasted_s,
        "evenness": min(by_worker) / max(by_worker),
        "idle_workers_ms_per_s": rest[0] / 1e6 / IDLE_S,
        "idle_parent_ms_per_s": rest[1] / 1e6 / IDLE_S,
    }


def costs(
    site: Site, origin: Process, kinds: Sequence[Kind], seconds: int, rounds: int
) -> list[dict[str, Any]]:
    """What each kind costs: the medians of some rounds."""
    found: dict[Kind, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            found[kind].append(cost(site, origin, kind, seconds))
    return [
        {
            **kind._asdict(),
            **{
                name: statistics.median(each[name] for each in each_round) for name in each_round[0]
            },
            "rounds": each_round,
        }
        for kind, each_round in found.items()
    ]


def print_cost(kind: Kind, found: dict[str, Any]) -> None:
    """Print a line of the table."""
    print(
        f"{kind.name}{found['requests_per_s']:>10.0f}"
        f"{found['workers_us_per_request']:>12.1f}{found['parent_us_per_request']:>11.2f}"
        f"{found['wrk_us_per_request']:>8.1f}{found['origin_us_per_request']:>9.1f}"
        f"{found['workers_to_load']:>10.2f}"
        f"{found['busy_processors']:>8.2f}{found['evenness']:>10.2f}"
        f"{found['idle_workers_ms_per_s']:>11.2f}{found['idle_parent_ms_per_s']:>11.2f}",
        flush=True,
    )


def print_throughput(results: Sequence[dict[str, Any]]) -> None:
    """Print what so many processes would serve, each on a processor of its own."""
    several = [each for each in results if each["processes"] > 1]
    for one in (each for each in results if each["processes"] == each["loads"] == 1):
        for each in several:
            times, to_load = (
                each["processes"] * one[name] / each[name]
                for name in ("workers_us_per_request", "workers_to_load")
            )
            what = "proxies that share nothing" if each["is_apart"] else "workers"
            print(
                f"{each['processes']} {what}, on a processor each: {times:.2f} times the throughput"
                f" of one process by CPU a request, {to_load:.2f} by CPU to that of load and server"
            )


class Log:
    """The log of a proxy, read to where something is said."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = path.stat().st_size

    async def says(self, text: bytes) -> None:
        """Wait until it says something that it has not said before."""
        end_s = time.monotonic() + SAYS_WITHIN_S
        while (found := self._path.read_bytes().find(text, self._seen)) < 0:
            if time.monotonic() > end_s:
                words = self._path.read_text(encoding="utf-8").splitlines()[-3:]
                raise LoadTestError(f"the proxy did not say {text.decode()!r}, but {words}")
            await asyncio.sleep(0.02)
        self._seen = found + len(text)


async def replace(
    site: Site, origin: Process, workers: int, options: dict[str, int]
) -> dict[str, Any]:
    """Replace the workers under load, or kill one of them: what came of the requests."""
    with start(site, origin, workers) as proxy:
        log = Log(proxy.log)
        clients = PacedClients(proxy.port, options["rate"], new_percent=10)
        done: list[float] = []

        async def disturb() -> None:
            for _ in range(options["replacements"]):
                await asyncio.sleep(PAUSE_S)
                begun_s = time.monotonic()
                os.kill(proxy.pid, signal.SIGUSR2)
                await log.says(REPLACED)
                done.append(time.monotonic() - begun_s)
            for _ in range(options["kills"]):
                await asyncio.sleep(PAUSE_S)
                begun_s = time.monotonic()
                os.kill(children_of(proxy.pid)[0], signal.SIGKILL)
                await log.says(SERVES_AGAIN)
                done.append(time.monotonic() - begun_s)
            await asyncio.sleep(PAUSE_S)

        disturbing = asyncio.ensure_future(disturb())
        lasted_s = await clients.run(options["requests"], disturbing.done)
        await disturbing
    tally = clients.tally
    return {
        "workers": workers,
        "answered": tally.answered,
        "requests_per_s": tally.answered / lasted_s,
        "failed": tally.failed,
        "refused": tally.refused,
        "broken_new": tally.broken_new,
        "broken_kept": tally.broken_kept,
        "statuses": tally.statuses,
        "unanswered": tally.unanswered,
        "raced": tally.raced,
        "late": tally.late,
        "connections": tally.connections,
        "p50_ms": percentile(tally.latencies_ms, 50),
        "p99_ms": percentile(tally.latencies_ms, 99),
        "longest_ms": max(tally.latencies_ms),
        "seconds_each": done,
    }


def print_replaced(what: str, found: dict[str, Any]) -> None:
    """Print what came of the requests."""
    print(
        f"{what}: {found['answered']} requests answered at {found['requests_per_s']:.0f} a second"
        f" on {found['connections']} connections; failed {found['failed']}"
        f" (refused {found['refused']}, broken {found['broken_new']} new and"
        f" {found['broken_kept']} kept, {found['unanswered']} never answered, other answers"
        f" {found['statuses']}), late {found['late']};"
        f" p50 {found['p50_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms,"
        f" longest {found['longest_ms']:.0f} ms; seconds each:"
        f" {', '.join(f'{each:.1f}' for each in found['seconds_each'])}; besides,"
        f" {found['raced']} requests met the end of a connection that had been idle",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load test."""
    parser = Parser(__doc__)
    parser.add_argument("--workers", default="1,2", help="how many, several runs; default 1,2")
    parser.add_argument("--seconds", type=count_up_to(600), default=5, help="of wrk; default 5")
    parser.add_argument("--rounds", type=count_up_to(100), default=3, help="default 3")
    parser.add_argument("--rate", type=count_up_to(50_000), default=5000, help="default 5000")
    parser.add_argument(
        "--requests", type=count_up_to(10**8), default=100_000, help="at least; default 100000"
    )
    parser.add_argument("--replacements", type=count_up_to(1000, 0), default=5, help="default 5")
    parser.add_argument("--kills", type=count_up_to(1000, 0), default=3, help="default 3")
    parser.add_argument("--pin", action="store_true", help="proxies and load on processors apart")
    parser.add_argument("--json", type=output_file, help="file for the results")
    options = parser.parse_args(arguments)

    def run(directory: Path) -> tuple[object, Sequence[str]]:
        site = Site(directory, *((0, 1) if options.pin else (None, None)))
        if options.pin:
            pin(0, 1)
        counts = [int(each) for each in options.workers.split(",")]
        kinds = kinds_of(counts)
        most = max(2, *counts)
        results: dict[str, Any] = {"processors": len(CPUS), "is_pinned": options.pin}
        print(
            "workers       wrks requests/s  workers us  parent us  wrk us  server us   to load"
            "  busy      even  idle ms/s  parent ms/s"
        )
        with start_nginx_origin(site) as origin:
            results["costs"] = costs(site, origin, kinds, options.seconds, options.rounds)
            for kind, each in zip(kinds, results["costs"], strict=True):
                print_cost(kind, each)
            print_throughput(results["costs"])
            for what, replacements, kills in (
                ("replaced", options.replacements, 0),
                ("killed", 0, options.kills),
            ):
                if not replacements + kills:
                    continue
                wanted = {
                    "rate": options.rate,
                    "requests": options.requests,
                    "replacements": replacements,
                    "kills": kills,
                }
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    results[what] = runner.run(replace(site, origin, most, wanted))
                print_replaced(what, results[what])
        failed = results["replaced"]["failed"] if options.replacements else 0
        return results, [f"{failed} requests failed"] if failed else []

    return measured("workers", run, descriptors=8192, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
