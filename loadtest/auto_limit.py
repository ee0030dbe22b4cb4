"""Show that the server limit finds itself, beside the best fixed one.

`servers`: before real servers (the embedded API server with `--capacity`, a program on one core,
nginx before a backend of 8 places, a small API before PostgreSQL) 60 requests in flight of one user
stand beside 2 of another.  At first fixed limits are tried, in turns; the best one is the least
with 98 % of the most responses.  Then `auto` begins with a tenth and with ten times that, and is
measured from 30 s on, between two turns of the best limit: it has to have 85 % of its responses,
and its modest user's p99 at most 1.3 times.

`--seeds`: as many random servers with places of their own, which become half or twice as many after
60 s; `auto` begins with a tenth and ten times of them.

`--incidents`: a server that stands still for 5 s, requests that become 20 times as dear, and a
server that is never the bottleneck, beside the limit 600.

    python -m loadtest.auto_limit --servers apiserver,cpu --seconds 20 --json auto_limit.json
    python -m loadtest.auto_limit --servers none --seeds 20 --incidents
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from loadtest.clients import Connection, Flow, drive, percentile
from loadtest.processes import (
    LoadTestError,
    Process,
    Proxy,
    free_ports,
    python_module,
    read_limits,
    start_origin,
)
from loadtest.program import Parser, Table, count_up_to, measured, names_from

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

GREEDY, MODEST = 60, 2
LEAD_IN_S = 1.0
LEARNED_S = 30.0
LIMITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
TURNS = 3
BEST = 0.98
LEAST_GOODPUT, MOST_P99 = 0.85, 1.3
POSTGRES = Path("/usr/lib/postgresql")
NGINX = """
daemon off; pid {directory}/nginx.pid; error_log stderr error; worker_processes 1;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_body_temp_path {directory}; proxy_temp_path {directory};
  fastcgi_temp_path {directory}; uwsgi_temp_path {directory}; scgi_temp_path {directory};
  upstream backend {{ server 127.0.0.1:{backend}; keepalive 100; }}
  server {{ listen 127.0.0.1:{port}; keepalive_requests 1000000;
    location / {{ proxy_pass http://backend; proxy_http_version 1.1;
      proxy_set_header Connection ""; }} }}
}}
"""
TABLE = Table(
    "server <11 | limit <12 | responses/s >14.1f | of the best >13.2f | p99 ms of 2 >14.1f"
    " | of the best >13.2f | limit at the end >18 | deviation >11.2f"
)
CHANGE_S, LASTS_S, RECOVERS_S = 60, 90, 15
SEEDS_TABLE = Table(
    "seed <5 | places >7 | then >5 | overload >9.1f | begins >7 | responses >10.2f | p99 >6.2f"
    " | recovers s >11 | deviation >10.2f"
)
MOST_RATE = 200.0
HEAVY, STALL_S = 20, 5
AT_ONCE = 3
NONE = "none"


class Measured(NamedTuple):
    """Holds what one limit gave.

    Attributes:
        rate: Responses a second.
        limits: Seconds since the begin and the limit then, some five a second.
        seconds: Responses of each second, those of the lead-in included.
        p99_ms: Of the modest user in the measured time, but not after `CHANGE_S`.
    """

    rate: float
    p99_ms: float
    limits: list[tuple[float, int]]
    seconds: list[int]

    @property
    def deviation(self) -> float:
        """The standard deviation of the learned limit, over its mean."""
        limits = [limit for at_s, limit in self.limits if LEARNED_S <= at_s < CHANGE_S]
        return statistics.pstdev(limits) / statistics.mean(limits)

    def recovers_s(self, change_s: int, least: float) -> int | str:
        """Seconds after a change until three in a row have so many responses in the mean."""
        later = self.seconds[change_s:]
        means = [statistics.mean(later[at : at + 3]) for at in range(len(later) - 2)]
        return next((at for at, mean in enumerate(means) if mean >= least), "never")


@contextmanager
def apiserver(directory: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    argv = [*python_module("apfproxy"), "apiserver", "--listen", f"127.0.0.1:{port}"]
    argv += ["--latency", "40ms", "--capacity", "16"]
    with Process("apiserver", argv, port=port, directory=directory) as process:
        asyncio.run(create(process.port))
        yield process.port


async def create(port: int) -> None:
    body = json.dumps({"metadata": {"name": "x"}}).encode()
    with await Connection.open(port) as connection:
        head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: a\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        await connection.ask(head.encode() + body)


@contextmanager
def cpu(directory: Path) -> Iterator[int]:
    with limited(directory, "cpu", "--cpu-ms", "4") as process:
        yield process.port


@contextmanager
def nginx(directory: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    arguments = ["--delay-ms", "50", "--jitter-percent", "50", "--slots", "8"]
    with start_origin(directory=directory, arguments=arguments) as origin:
        file = directory / "nginx.conf"
        file.write_text(NGINX.format(directory=directory, backend=origin.port, port=port))
        argv = ["nginx", "-c", str(file), "-e", "stderr"]
        with Process("nginx", argv, port=port, directory=directory) as process:
            yield process.port


@contextmanager
def postgres(directory: Path) -> Iterator[int]:
    """A server of its own, in the directory, that trusts all who reach its socket."""
    programs = sorted(POSTGRES.glob("*/bin"))
    if not programs:
        raise LoadTestError("PostgreSQL is not installed (Debian's package postgresql)")
    data = directory / "postgres"
    data.mkdir()
    user = None
    if not os.getuid():  # it refuses to run as root
        user = "nobody"
        for each in (directory, directory.parent):
            each.chmod(0o711)
        shutil.chown(data, user)
    initdb, server = (str(programs[-1] / name) for name in ("initdb", "postgres"))
    subprocess.run(
        [initdb, "-D", str(data), "-U", "postgres", "--no-sync"],
        user=user, check=True, stdout=subprocess.DEVNULL, cwd=data,
    )  # fmt: skip
    options = {"listen_addresses": "", "unix_socket_directories": data, "max_connections": 300}
    argv = [server, "-D", str(data)]
    argv += [f"-c{name}={value}" for name, value in options.items()]
    running = subprocess.Popen(argv, user=user, cwd=data, stderr=subprocess.DEVNULL)
    try:
        socket = data / ".s.PGSQL.5432"
        with limited(directory, "postgres", "--socket", str(socket), "--rows", "30000") as process:
            yield process.port
    finally:
        running.terminate()
        running.wait()


def limited(directory: Path, *arguments: str) -> Process:
    (port,) = free_ports(1)
    argv = [*python_module("loadtest.limited_servers"), *arguments, "--port", str(port)]
    return Process(arguments[0], argv, port=port, directory=directory)


SERVERS = {"apiserver": apiserver, "cpu": cpu, "nginx": nginx, "postgres": postgres}


async def measure_limit(
    directory: Path,
    upstream: int,
    seconds: float,
    *,
    fixed: int = 0,
    initial: int = 0,
    lead_in_s: float = LEARNED_S,
    flows: Sequence[Flow] = (),
) -> Measured:
    settings = f"flowControl: {{serverConcurrencyLimit: {fixed or 'auto'}"
    if not fixed:
        settings += f", autoLimit: {{initial: {initial}, min: 1}}"
    proxy = Proxy(directory, [upstream], settings=settings + "}\n", arguments=["--preset", "http"])
    flows = flows or [Flow("greedy", GREEDY), Flow("modest", MODEST)]
    limits: list[tuple[float, int]] = []
    counts: list[int] = []
    before_change = [0]

    async def watch() -> None:
        begun_s = monotonic()
        while True:
            await asyncio.sleep(0.2)
            now_s = monotonic() - begun_s
            counts.extend([sum(flow.responses for flow in flows)] * (int(now_s) - len(counts)))
            if now_s < CHANGE_S:
                before_change[0] = len(flows[1].latencies_ms)
            found = await read_limits(proxy.admin_port)
            limits.append((round(now_s, 1), found["serverConcurrencyLimit"]))

    with proxy:
        watching = asyncio.create_task(watch())
        await drive(flows, port=proxy.port, lead_in_s=lead_in_s, seconds=seconds)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    rate = sum(flow.per_s(seconds) for flow in flows)
    of_seconds = [after - before for before, after in pairwise([0, *counts])]
    latencies_ms = flows[1].latencies_ms
    if lead_in_s + seconds > CHANGE_S:
        latencies_ms = latencies_ms[: before_change[0]]
    if not latencies_ms:
        raise LoadTestError(
            f"no response to the modest user within {seconds:.0f} s: measure longer"
        )
    return Measured(rate, percentile(latencies_ms, 99), limits, of_seconds)


async def measure_server(
    name: str, directory: Path, upstream: int, seconds: float
) -> tuple[dict[str, object], list[str]]:
    async def turn(limit: int, lasts_s: float) -> Measured:
        return await measure_limit(directory, upstream, lasts_s, fixed=limit, lead_in_s=LEAD_IN_S)

    turns: dict[int, list[Measured]] = {limit: [] for limit in LIMITS}
    for _ in range(TURNS):
        for limit in random.sample(LIMITS, len(LIMITS)):
            turns[limit].append(await turn(limit, seconds / 5))
    rates = {limit: statistics.median(x.rate for x in each) for limit, each in turns.items()}
    best = next(limit for limit, rate in rates.items() if rate >= BEST * max(rates.values()))
    for limit, each in turns.items():
        p99_ms = statistics.median(x.p99_ms for x in each)
        TABLE.row(name, limit, rates[limit], None, p99_ms, None, None, None)
    found: dict[str, object] = {"best": best, "fixed": rates}
    wrong = []
    for start, initial in (("a tenth", max(1, best // 10)), ("ten times", best * 10)):
        beside = [await turn(best, seconds / 2)]
        auto = await measure_limit(directory, upstream, seconds, initial=initial)
        beside.append(await turn(best, seconds / 2))
        rate = auto.rate / statistics.mean(x.rate for x in beside)
        p99 = auto.p99_ms / statistics.mean(x.p99_ms for x in beside)
        TABLE.row(
            name, start, auto.rate, rate, auto.p99_ms, p99, auto.limits[-1][1], auto.deviation
        )  # fmt: skip
        found[start] = auto._asdict() | {"beside": [x._asdict() for x in beside]}
        wrong += judged(f"{name}, {start}", rate, p99)
    return found, wrong


def judged(name: str, rate: float, p99: float) -> list[str]:
    wrong = []
    if rate < LEAST_GOODPUT:
        wrong.append(f"{name}: {rate:.2f} of the best limit's responses")
    if p99 > MOST_P99:
        wrong.append(f"{name}: p99 {p99:.2f} times that at the best limit")
    return wrong


def measure_seed(seed: int, directory: Path) -> tuple[dict[str, object], list[str]]:
    draw = random.Random(seed)  # noqa: S311  to be repeated
    places = round(math.exp(draw.uniform(math.log(2), math.log(64))))
    then = max(1, round(places * draw.choice((0.5, 2.0))))
    rate = math.exp(draw.uniform(math.log(MOST_RATE / 10), math.log(MOST_RATE)))
    overload = draw.choice((1.0, draw.uniform(1.1, 2.0)))
    server = ["places", "--places", f"{places}", "--time-ms", f"{1000 * places / rate:.3f}"]
    server += ["--overload", f"{overload:.2f}"]
    greedy = max(40, 6 * places)

    def run(name: str, seconds: float, *more: str, fixed: int = 0, initial: int = 0) -> Measured:
        place = directory / f"{seed}-{name}"
        place.mkdir()
        flows = [Flow("greedy", greedy), Flow("modest", MODEST)]
        with limited(place, *server, *more) as process:
            measuring = measure_limit(
                place, process.port, seconds, fixed=fixed, initial=initial, flows=flows
            )
            return asyncio.run(measuring)

    best = run("fixed", 30, fixed=places)
    found: dict[str, object] = {"places": (places, then), "fixed": best._asdict()}
    wrong = []
    for initial in (max(1, places // 10), 10 * places):
        changing = ["--then", f"{CHANGE_S}:{then}"]
        each = run(f"{initial}", LASTS_S - LEARNED_S, *changing, initial=initial)
        of_best = statistics.mean(each.seconds[int(LEARNED_S) : CHANGE_S]) / best.rate
        recovers = each.recovers_s(CHANGE_S, LEAST_GOODPUT * best.rate * then / places)
        p99 = each.p99_ms / best.p99_ms
        SEEDS_TABLE.row(
            seed, places, then, overload, initial, of_best, p99, recovers, each.deviation
        )  # fmt: skip
        found[f"{initial}"] = each._asdict()
        wrong += judged(f"seed {seed}, {initial}", of_best, p99)
        if recovers == "never" or int(recovers) > RECOVERS_S:
            wrong.append(f"seed {seed}, {initial}: {recovers} s until it had followed the change")
    return found, wrong


async def measure_incidents(directory: Path) -> tuple[dict[str, object], list[str]]:
    places = 16

    async def run(
        name: str,
        *server: str,
        fixed: int = 0,
        initial: int = 16,
        heavy: bool = False,
        stop: bool = False,
    ) -> Measured:
        place = directory / f"{name}-{fixed}"
        place.mkdir()
        with limited(place, "places", *server, "--time-ms", "40") as process:
            flows = [Flow("greedy", GREEDY), Flow("modest", MODEST)]
            shift = asyncio.create_task(happen(process, flows, heavy=heavy, stop=stop))
            try:
                return await measure_limit(
                    place, process.port, LASTS_S - LEARNED_S,
                    fixed=fixed, initial=initial, flows=flows,
                )  # fmt: skip
            finally:
                await shift

    async def happen(process: Process, flows: Sequence[Flow], *, heavy: bool, stop: bool) -> None:
        await asyncio.sleep(CHANGE_S)
        if heavy:
            for flow in flows:
                flow.path = "/heavy"
        if stop:
            os.kill(process.pid, signal.SIGSTOP)
            await asyncio.sleep(STALL_S)
            os.kill(process.pid, signal.SIGCONT)

    best = places / 0.04
    own = ("--places", f"{places}")
    stalled, heavy, auto, fixed = (
        await run("stall", *own, stop=True),
        await run("heavy", *own, heavy=True),
        await run("free", "--places", "1000", initial=600),
        await run("free", "--places", "1000", fixed=600),
    )
    back_s = stalled.recovers_s(CHANGE_S + STALL_S, LEAST_GOODPUT * best)
    least = min(
        statistics.mean(heavy.seconds[at : at + 5]) * HEAVY / best
        for at in range(CHANGE_S + 3, LASTS_S - 5)
    )
    of_fixed = auto.rate / fixed.rate
    print(f"stands still for {STALL_S} s: as before {back_s} s later")
    print(f"{HEAVY} times as dear: never less than {least:.2f} of the best in 5 s")
    print(f"never the bottleneck: {of_fixed:.3f} of the responses that the limit 600 has")
    wrong = []
    if back_s == "never" or int(back_s) > 2 * STALL_S:
        wrong.append(f"stands still: back after {back_s} s")
    if least < 0.5:
        wrong.append(f"dear requests: {least:.2f} of the best")
    if of_fixed < 0.97:
        wrong.append(f"never the bottleneck: {of_fixed:.3f} of what 600 has")
    found = {"stall": stalled, "heavy": heavy, "free": auto, "free fixed": fixed}
    return {name: each._asdict() for name, each in found.items()}, wrong


def measure(options: argparse.Namespace, directory: Path) -> tuple[dict[str, object], list[str]]:
    results: dict[str, object] = {}
    wrong: list[str] = []
    servers = [name for name in options.servers if name != NONE]
    if servers:
        TABLE.head()
    for name in servers:
        place = directory / name
        place.mkdir()
        with SERVERS[name](place) as upstream:
            measuring = measure_server(name, place, upstream, options.seconds)
            results[name], more = asyncio.run(measuring)
        wrong += more
    if options.incidents:
        results["incidents"], more = asyncio.run(measure_incidents(directory))
        wrong += more
    if options.seeds:
        SEEDS_TABLE.head()
        seeds = range(1, options.seeds + 1)
        with ProcessPoolExecutor(AT_ONCE) as pool:
            for seed, found in zip(
                seeds, pool.map(partial(measure_seed, directory=directory), seeds), strict=True
            ):
                results[f"seed {seed}"], more = found
                wrong += more
    return results, wrong


def main() -> int:
    parser = Parser(__doc__)
    names = names_from((*SERVERS, NONE), "server")
    parser.add_argument("--servers", type=names, default=list(SERVERS), help="with commas, or none")
    parser.add_argument("--seconds", type=count_up_to(3600), default=20, help="measured of each")
    parser.add_argument("--seeds", type=count_up_to(1000, 0), default=0, help="random servers")
    parser.add_argument("--incidents", action="store_true", help="measure what may happen, too")
    return measured(parser.parse_args(), measure, descriptors=4000)


if __name__ == "__main__":
    sys.exit(main())
