"""Costs of a start: processor time and memory of `apfproxy --version` and of `serve`.

    python -m loadtest.startup [--repeat 5] [--idle 5]

`serve` runs without a settings file before an origin that is not there.  It is ready when `/readyz`
answers 200.  Its memory is read after some idle seconds, in which it is probed and scraped once a
second.  Each figure is the median of all runs, with the least and the greatest one.

The exit status is 2 if a figure is beyond its limit.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from loadtest.processes import LoadTestError, Process, fetch, free_ports, python_module
from loadtest.program import Parser, Results, Table, count_up_to, measured

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

LIMITS = {
    "version, CPU seconds": 0.15,
    "serve until ready, CPU seconds": 0.6,
    "serve idle, resident MiB": 60.0,
}
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


def is_ready(port: int) -> bool:
    with suppress(OSError, LoadTestError):
        asyncio.run(fetch(port, "/readyz"))
        return True
    return False


def serve_cost(idle_s: int, directory: Path) -> tuple[float, float]:
    """Processor time of `serve` until it is ready, and its resident MiB after idle seconds."""
    listen, admin = free_ports(2)
    command = (
        f"serve --upstream http://127.0.0.1:9 --listen 127.0.0.1:{listen} --admin 127.0.0.1:{admin}"
    )
    argv = [*python_module("apfproxy"), *command.split()]
    with Process("serve", argv, port=admin, directory=directory) as process:
        while not is_ready(admin):
            time.sleep(POLL_S)
        ready_s = process.cpu_ns() / 1e9
        for _ in range(idle_s):
            time.sleep(1)
            is_ready(admin)
            asyncio.run(fetch(admin, "/metrics"))
        return ready_s, process.rss_bytes() / (1 << 20)


def measure(options: argparse.Namespace, directory: Path) -> Results:
    figures: dict[str, list[float]] = {name: [] for name in LIMITS}
    version, ready, idle = figures.values()
    for _ in range(options.repeat):
        version.append(version_cost())
        ready_s, resident_mib = serve_cost(options.idle, directory)
        ready.append(ready_s)
        idle.append(resident_mib)
    wrong = []
    table = Table(" <34 | median >8.2f | least >8.2f | most >8.2f | limit >8.2f")
    table.head()
    for name, values in figures.items():
        median, limit = statistics.median(values), LIMITS[name]
        table.row(name, median, min(values), max(values), limit)
        if median > limit:
            wrong.append(f"{name}: {median:.2f}, more than {limit:g}")
    return figures, wrong


def main() -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--repeat", type=count_up_to(1000), default=5, metavar="N", help="runs of each (5)")
    add("--idle", type=count_up_to(600), default=5, metavar="SECONDS", help="before memory (5)")
    options = parser.parse_args()
    return measured(options, measure, descriptors=100)


if __name__ == "__main__":
    sys.exit(main())
