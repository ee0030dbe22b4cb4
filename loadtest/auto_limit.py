"""Show that the server limit finds itself, beside the best fixed one.

Before real servers (the embedded API server with `--capacity`, a program on one core, nginx before
a backend of 8 places, a small API before PostgreSQL) 60 requests in flight of one user stand beside
2 of another.  At first fixed limits are tried: the best one is the least with 98 % of the most
responses.  Then `auto` begins with a tenth and with ten times that, and is measured from 30 s on:
it has to have 85 % of the best limit's responses, and its modest user's p99 at most 1.3 times.

    python -m loadtest.auto_limit --servers apiserver,cpu --seconds 20 --json auto_limit.json
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
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
    from collections.abc import Iterator

GREEDY, MODEST = 60, 2
LEAD_IN_S = 1.0
LEARNED_S = 30.0
LIMITS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
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


class Measured(NamedTuple):
    """Holds what one limit gave: responses a second, the modest user's p99, and the limits seen."""

    rate: float
    p99_ms: float
    limits: list[int]


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
    directory: Path, upstream: int, seconds: float, *, fixed: int = 0, initial: int = 0
) -> Measured:
    settings = f"flowControl: {{serverConcurrencyLimit: {fixed or 'auto'}"
    if not fixed:
        settings += f", autoLimit: {{initial: {initial}, min: 1}}"
    proxy = Proxy(directory, [upstream], settings=settings + "}\n", arguments=["--preset", "http"])
    flows = [Flow("greedy", GREEDY), Flow("modest", MODEST)]
    lead_in_s = LEAD_IN_S if fixed else LEARNED_S
    limits = [fixed] if fixed else []

    async def watch() -> None:
        await asyncio.sleep(lead_in_s)
        while not fixed:
            limits.append((await read_limits(proxy.admin_port))["serverConcurrencyLimit"])
            await asyncio.sleep(0.2)

    with proxy:
        watching = asyncio.create_task(watch())
        await drive(flows, port=proxy.port, lead_in_s=lead_in_s, seconds=seconds)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    rate = sum(flow.per_s(seconds) for flow in flows)
    return Measured(rate, percentile(flows[1].latencies_ms, 99), limits)


async def measure_server(
    name: str, directory: Path, upstream: int, seconds: float
) -> tuple[dict[str, object], list[str]]:
    fixed = {
        limit: await measure_limit(directory, upstream, seconds / 2, fixed=limit)
        for limit in LIMITS
    }
    most = max(each.rate for each in fixed.values())
    best = next(limit for limit, each in fixed.items() if each.rate >= BEST * most)
    found = {f"fixed {limit}": each for limit, each in fixed.items()}
    for factor, initial in (("a tenth", max(1, best // 10)), ("ten times", best * 10)):
        found[f"auto, {factor}"] = await measure_limit(
            directory, upstream, seconds, initial=initial
        )
    wrong = []
    for limit, each in found.items():
        rate, p99 = each.rate / fixed[best].rate, each.p99_ms / fixed[best].p99_ms
        deviation = statistics.pstdev(each.limits) / statistics.mean(each.limits)
        TABLE.row(name, limit, each.rate, rate, each.p99_ms, p99, each.limits[-1], deviation)
        if limit.startswith("auto") and rate < LEAST_GOODPUT:
            wrong.append(f"{name}, {limit}: {rate:.2f} of the best limit's responses")
        if limit.startswith("auto") and p99 > MOST_P99:
            wrong.append(f"{name}, {limit}: p99 {p99:.2f} times that at the best limit")
    return {limit: each._asdict() for limit, each in found.items()} | {"best": best}, wrong


def measure(
    options: argparse.Namespace, directory: Path
) -> tuple[dict[str, dict[str, object]], list[str]]:
    results: dict[str, dict[str, object]] = {}
    wrong: list[str] = []
    TABLE.head()
    for name in options.servers:
        place = directory / name
        place.mkdir()
        with ExitStack() as stack:
            upstream = stack.enter_context(SERVERS[name](place))
            measuring = measure_server(name, place, upstream, options.seconds)
            results[name], more = asyncio.run(measuring)
        wrong += more
    return results, wrong


def main() -> int:
    parser = Parser(__doc__)
    names = names_from(tuple(SERVERS), "server")
    parser.add_argument("--servers", type=names, default=list(SERVERS), help="with commas")
    parser.add_argument("--seconds", type=count_up_to(3600), default=20, help="measured of each")
    return measured(parser.parse_args(), measure, descriptors=2000)


if __name__ == "__main__":
    sys.exit(main())
