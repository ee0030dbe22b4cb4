"""What several workers cost and bring, and what clients notice of replacements and restarts.

1. Costs: wrk keeps 64 connections a process busy, through a proxy of one process, of several
   workers, and through as many proxies that share nothing, which are what the machine allows; and
   through one process the connections of several.  Counted is the CPU of the proxies, of their
   parent, of wrk and of the origin.  Where there are only two processors, the load and the origin
   need their part, and requests a second say little; CPU a request is the figure.  With `--pin` the
   proxies have the first processor, and the load and the origin another one.  As processors have
   slow and fast moments, there is also the CPU of the proxies for each microsecond of wrk and
   origin, which feel them as much.  The rounds alternate between these; figures are the medians.
2. What the parent and the workers cost while no request comes.
3. Replacement: clients ask at a rate, a tenth of them on new connections, while SIGUSR2 replaces
   the workers again and again, while one of them is killed, and while a process without a parent is
   restarted behind a socket that this program holds, as systemd does.  Counted is every request
   without its response; where a worker is killed these are those that it had.

    python -m loadtest.workers --workers 1,2 --rounds 5 --pin
    python -m loadtest.workers --rate 5000 --requests 100000 --replacements 20 --activations 20

The exit status is 2 if a request failed that no killed worker had.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import uvloop

from loadtest.arguments import Parser, count_up_to, output_file
from loadtest.clients import OpenLoop, Tally, percentile
from loadtest.nginx_origin import start_nginx_origin
from loadtest.processes import (
    CPUS,
    SEARCHED,
    LoadTestError,
    Process,
    cpu_ns,
    free_ports,
    installed,
    measured,
    pin,
    python_module,
    start_apfproxy,
)
from loadtest.site import Site
from loadtest.wrk import TARGET, Variety, script_text

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECTIONS = 64
REPORT = re.compile(r'"requests":(\d+),"duration_us":(\d+)')
STARTED = b"the parent is process"
REPLACED = b"all workers are replaced"
SERVES_AGAIN = b"serves again"
LISTENS = b"listens on"
PAUSE_S = 1.0
"""Between two replacements."""
IDLE_S = 5.0
SAYS_WITHIN_S = 60.0
AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Gives a command a listening socket."""


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
        return f"{self.processes:>7} {'apart' if self.is_apart else '':5}{self.loads:>6}"


def kinds_of(counts: Sequence[int]) -> list[Kind]:
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
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


def cpu_of(pids: Sequence[int]) -> int:
    return sum(map(cpu_ns, pids))


def start(site: Site, upstream_port: int, workers: int) -> Process:
    proxy, _ = start_apfproxy(
        upstream_port=upstream_port,
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
    with contextlib.ExitStack() as stack:
        proxies = [
            stack.enter_context(start(site, origin.port, 1 if kind.is_apart else kind.processes))
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


class Activated:
    """A process without a parent behind a socket that stays, another one after each restart."""

    def __init__(self, directory: Path, upstream_port: int) -> None:
        (self.port,) = free_ports(1)
        self._socket = socket.create_server(("127.0.0.1", self.port), backlog=4096)
        self._socket.set_inheritable(True)
        self._directory = directory
        self._command = [
            *(sys.executable, "-c", AS_SYSTEMD, str(self._socket.fileno())),
            *(*python_module("apfproxy"), "serve", "--admin", "none"),
            *("--upstream", f"http://127.0.0.1:{upstream_port}"),
            *("--listen", f"127.0.0.1:{self.port}"),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    async def restart(self) -> None:
        await asyncio.to_thread(self.stop)
        self._starts += 1
        path = self._directory / f"activated-{self._starts}.log"
        with path.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - takes a millisecond
                self._command,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": SEARCHED},
                close_fds=False,
                start_new_session=True,
            )
        await Log(path, 0).says(LISTENS)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.stop()
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
    """Disturb a proxy under load."""
    if by == "activated":
        activated = Activated(directory, upstream_port)
        try:
            await activated.restart()
            return await disturbed(activated.port, options, activated.restart)
        finally:
            activated.close()
    with start(Site(directory, None, None), upstream_port, workers) as proxy:
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--workers", default="1,2", help="how many, several runs; default 1,2")
    add("--seconds", type=count_up_to(600), default=5, help="of wrk; default 5")
    add("--rounds", type=count_up_to(100, 0), default=3, help="default 3; 0 leaves out the costs")
    add("--rate", type=count_up_to(50_000), default=5000, help="default 5000")
    add("--requests", type=count_up_to(10**8), default=100_000, help="at least; default 100000")
    add("--replacements", type=count_up_to(1000, 0), default=5, help="default 5")
    add("--kills", type=count_up_to(1000, 0), default=3, help="default 3")
    add("--activations", type=count_up_to(1000, 0), default=3, help="default 3")
    add("--pin", action="store_true", help="proxies and load on processors apart")
    add("--json", type=output_file, help="file for the results")
    options = parser.parse_args(arguments)

    def run(directory: Path) -> tuple[object, Sequence[str]]:
        site = Site(directory, *((0, 1) if options.pin else (None, None)))
        if options.pin:
            pin(0, 1)
        counts = [int(each) for each in options.workers.split(",")]
        results: dict[str, Any] = {"processors": len(CPUS), "is_pinned": options.pin}
        with start_nginx_origin(site) as origin:
            if options.rounds:
                kinds = kinds_of(counts)
                print(
                    "workers       wrks requests/s  workers us  parent us  wrk us  origin us"
                    "   to load  busy      even  idle ms/s  parent ms/s"
                )
                results["costs"] = costs(site, origin, kinds, options.seconds, options.rounds)
                for kind, each in zip(kinds, results["costs"], strict=True):
                    print_cost(kind, each)
                print_throughput(results["costs"])
            for by, times in (
                ("replaced", options.replacements),
                ("killed", options.kills),
                ("activated", options.activations),
            ):
                if times:
                    wanted = {"rate": options.rate, "requests": options.requests, "times": times}
                    most = max(2, *counts)
                    results[by] = uvloop.run(replace(by, most, origin.port, directory, wanted))
                    print_replaced(by, results[by])
        wrong = [
            f"{by}: {results[by]['failed']} requests failed"
            for by in ("replaced", "activated")
            if by in results and results[by]["failed"]
        ]
        return results, wrong

    return measured("workers", run, descriptors=8192, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
