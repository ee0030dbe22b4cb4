"""Costs of a start: processor time, memory and modules of `apfproxy --version` and of `serve`.

    python -m loadtest.startup [--repeat 5] [--idle 5]

`serve` runs without a settings file before an origin that is not there.  It is ready when `/readyz`
answers 200.  Its memory is read after some idle seconds, in which it is probed and scraped once a
second.  Each figure is the median of all runs, with the least and the greatest one.
"""

from __future__ import annotations

import argparse
import http.client
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loadtest.processes import Process, free_ports, python_module

LIMITS = {
    "version, CPU seconds": 0.15,
    "serve until ready, CPU seconds": 0.6,
    "serve idle, resident MiB": 60.0,
}
COUNTING = (
    "import sys, apfproxy.cli.{module} as _; print(len(sys.modules),"
    " sum(name.startswith('apfproxy.apiserver') for name in sys.modules))"
)
POLL_S = 0.02


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def version_cost() -> float:
    before = children_cpu_s()
    subprocess.run(
        [sys.executable, "-m", "apfproxy", "--version"], check=True, stdout=subprocess.DEVNULL
    )
    return children_cpu_s() - before


def status_of(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
    except OSError:
        return 0
    finally:
        connection.close()
    return response.status


def serve_cost(idle_s: int, directory: Path) -> tuple[float, float]:
    """Processor time of `serve` until it is ready, and its resident MiB after idle seconds."""
    listen, admin = free_ports(2)
    command = (
        f"serve --upstream http://127.0.0.1:9 --listen 127.0.0.1:{listen} --admin 127.0.0.1:{admin}"
    )
    argv = [*python_module("apfproxy"), *command.split()]
    with Process("serve", argv, port=admin, directory=directory) as process:
        while status_of(admin, "/readyz") != http.client.OK:
            time.sleep(POLL_S)
        ready_s = process.cpu_ns() / 1e9
        for _ in range(idle_s):
            time.sleep(1)
            status_of(admin, "/readyz")
            status_of(admin, "/metrics")
        return ready_s, process.rss_bytes() / (1 << 20)


def modules_of(module: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", COUNTING.format(module=module)],
        check=True,
        capture_output=True,
        text=True,
    )
    total, of_apiserver = result.stdout.split()
    return f"{total} modules, {of_apiserver} of the API server"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.startup", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="runs of each")
    parser.add_argument("--idle", type=int, default=5, metavar="SECONDS", help="before memory")
    options = parser.parse_args()
    figures: dict[str, list[float]] = {name: [] for name in LIMITS}
    version, ready, idle = figures.values()
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(options.repeat):
            version.append(version_cost())
            ready_s, resident_mib = serve_cost(options.idle, Path(directory))
            ready.append(ready_s)
            idle.append(resident_mib)
    is_good = True
    print(f"{'':34}{'median':>8}{'least':>8}{'most':>8}{'limit':>8}")
    for name, values in figures.items():
        median, limit = statistics.median(values), LIMITS[name]
        is_good = is_good and median <= limit
        numbers = (median, min(values), max(values), limit)
        print(f"{name:34}" + "".join(f"{number:8.2f}" for number in numbers))
    for module in ("main", "commands", "serve"):
        print(f"cli.{module}: {modules_of(module)}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
