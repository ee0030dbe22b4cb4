"""A gateway before several servers, which die, hang, are slow, fail, leave and come back in turn.

Clients send requests at a steady rate and hold watches, while one server after the other has a bad
time and then a good one.  Each server writes down what it got, so it is known of every request
whether it was lost or sent twice, and by whom it was answered.  What a killed or hung server had
before anybody could know is its own; every other bad answer is the gateway's.  Found besides: how
evenly requests are spread over the servers that are well, and how soon the limit follows their
number.  HAProxy, which has no such limit, shows that the program is fair.

    python -m loadtest.gateway --requests 100000 --rate 2000 --json gateway.json --plot gateway.png
    python -m loadtest.gateway --by haproxy --requests 20000

At the end the server that left has no watches.  With --rest they are held on until they are in
balance again, which takes two minutes or more, since only those that are a minute old are ended.

    python -m loadtest.gateway --requests 100000 --rest 150

The exit status is 2 if a promise was not kept.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from loadtest.arguments import Parser, count_up_to, output_file
from loadtest.faults import OBJECTS, log_problem
from loadtest.gateway_clients import Clients
from loadtest.gateway_notes import GOOD, Notes
from loadtest.gateway_phases import (
    DETECTED_WITHIN_S,
    FAULTS,
    Event,
    Phase,
    judge,
    judge_limits,
    schedule,
)
from loadtest.gateway_servers import NAMES, Servers, start_gateway
from loadtest.program import measured
from loadtest.seat_watch import fetch

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path


WATCHES = 60
SEATS_PER_ENDPOINT = 200
POLL_S = 0.05
MOST_WATCHES = 1.1
"""What a server may have of the watches, times its part, and one more."""

SETTINGS = f"""
downstream: {{requestTimeout: 6s}}
upstream:
  connectTimeout: 500ms
  answerTimeout: 2s
  slowStart: 1s
  healthCheck: {{path: /readyz, interval: 500ms, timeout: 500ms, unhealthyThreshold: 2}}
  ejection: {{failures: 5, pause: 1s, maxPause: 2s}}
  rebalance: {{percentPerMinute: 100}}
flowControl: {{perEndpoint: {SEATS_PER_ENDPOINT}, objects: [objects.yaml]}}
logLevel: warning
"""


async def strike(servers: Servers, phase: Phase) -> None:
    """Have happen what a phase begins with."""
    phase.begun_s = monotonic()
    at = phase.victim
    if at is not None:
        match phase.event:
            case Event.KILLED:
                await servers.kill(at)
            case Event.HUNG:
                servers.hang(at)
            case Event.SLOW:
                await servers.be(at, "slow")
            case Event.FAILING:
                await servers.be(at, "failing")
            case Event.DRAINED:
                await servers.drain(at)
            case _:
                await servers.be_well(at)
    phase.done_s = monotonic()


async def follow_limit(admin_port: int, phase: Phase, end_s: float) -> None:
    """Find when the limit is that of the phase."""
    while monotonic() < min(end_s, phase.begun_s + DETECTED_WITHIN_S):
        limit = json.loads(await fetch(admin_port, "/debug/limits"))["serverConcurrencyLimit"]
        if limit == phase.limit:
            phase.follows_s = monotonic() - phase.begun_s
            return
        await asyncio.sleep(POLL_S)


async def run_phases(
    servers: Servers, notes: Notes, admin_port: int | None, phase_s: float
) -> list[Phase]:
    """Go through all phases."""
    phases = schedule(servers.count)
    for phase in phases:
        is_less = phase.event in FAULTS and phase.event is not Event.SLOW
        phase.limit = SEATS_PER_ENDPOINT * (servers.count - is_less)
        striking = asyncio.create_task(strike(servers, phase))
        await asyncio.sleep(0)
        end_s = monotonic() + phase_s
        if admin_port is not None:
            await follow_limit(admin_port, phase, end_s)
        await asyncio.sleep(end_s - monotonic())
        await striking
        phase.end_s = monotonic()
        phase.watching = {name: notes.watching[name] for name in servers.names}
        print(f"\r{phase.label:<11}", end="", flush=True)
    print()
    return phases


async def rest(notes: Notes, names: Sequence[str], seconds: float) -> list[str]:
    """Hold watches until they are in balance: what is wrong if they are not in time."""
    begun_s = monotonic()
    watching = notes.watching
    while monotonic() < begun_s + seconds:
        await asyncio.sleep(POLL_S)
        counts = [watching[name] for name in names]
        if max(counts) <= sum(counts) / len(counts) * MOST_WATCHES + 1:
            print(f"watches in balance after {monotonic() - begun_s:.0f} s: {counts}")
            return []
    return [f"watches are not in balance after {seconds} s: {counts}"]


def print_phases(phases: Sequence[Phase], names: Sequence[str], *, has_limit: bool) -> None:
    """Print a table with a line for each phase."""
    servers = "/".join(names)
    print(
        f"{'phase':<11}{'requests':>9}{'good':>8}{'own':>6}{'bad':>6}{'p99 ms':>8}"
        f"{f'requests {servers}':>22}{'spread':>8}{f'watches {servers}':>18}"
        f"{'limit':>7}{'after s':>9}"
    )
    for phase in phases:
        limit, follows = "", ""
        if has_limit:
            limit = str(phase.limit)
            follows = "never" if phase.follows_s is None else f"{phase.follows_s:.2f}"
        print(
            f"{phase.label:<11}{sum(phase.counts.values()):>9}{phase.counts[GOOD]:>8}"
            f"{phase.own:>6}{sum(phase.bad.values()):>6}{phase.p99_ms:>8.1f}"
            f"{'/'.join(map(str, phase.requests.values())):>22}{phase.spread:>8.1%}"
            f"{'/'.join(map(str, phase.watching.values())):>18}{limit:>7}{follows:>9}"
        )


async def measure(
    by: str,
    servers_count: int,
    requests: int,
    rate: float,
    directory: Path,
    rest_s: float = 0,
) -> tuple[dict[str, Any], list[str]]:
    """Run all phases: the results, and what is wrong with them.

    Args:
        by: Which gateway.
        servers_count: How many servers are behind it.
        requests: How many, at least.
        rate: How many of them a second.
        directory: An existing directory for all files.
        rest_s: How long watches may take to come back into balance; 0 if that is not tried.
    """
    (directory / "objects.yaml").write_text(OBJECTS)
    (directory / "settings.yaml").write_text(SETTINGS)
    with ExitStack() as running:
        servers = running.enter_context(Servers(directory, servers_count))
        gateway, admin_port = await asyncio.to_thread(start_gateway, by, servers.ports, directory)
        running.enter_context(gateway)
        clients = Clients(gateway.port, rate)
        watching = [asyncio.create_task(clients.watch()) for _ in range(WATCHES)]
        phase_s = requests / rate / len(schedule(servers_count))
        asking = asyncio.create_task(clients.ask(requests))
        phases = await run_phases(servers, clients.notes, admin_port, phase_s)
        await asking
        unbalanced = await rest(clients.notes, servers.names, rest_s) if rest_s else []
        for each in watching:
            each.cancel()
        watch_ends = len(clients.notes.watch_ends)
        clients.close()
        problem = log_problem(gateway.log)
        journals = servers.journals()
    del clients.notes.watch_ends[watch_ends:]
    wrong, totals = judge(phases, clients.notes, journals)
    wrong += unbalanced
    if admin_port is not None:
        wrong += judge_limits(phases)
    if problem:
        wrong.append(problem)
    print_phases(phases, servers.names, has_limit=admin_port is not None)
    print(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in totals.items()))
    for text in wrong:
        print(f"WRONG: {text}")
    results = {
        "totals": totals,
        "wrong": wrong,
        "phases": [msgspec.to_builtins(phase) for phase in phases],
        "journals": [[entry.at_s for entry in journal] for journal in journals],
    }
    return results, wrong


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; wrong input ends the program with one line."""
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--by", choices=("apfproxy", "haproxy"), default="apfproxy", help="the gateway (apfproxy)")
    add("--servers", type=count_up_to(len(NAMES), 2), default=3, help="behind the gateway (3)")
    add("--requests", type=count_up_to(10**8), default=100_000, help="in all (100000)")
    add("--rate", type=count_up_to(20_000), default=2000, help="requests a second (2000)")
    add("--rest", type=count_up_to(3600, 0), default=0, help="seconds for the watches at the end")
    add("--json", type=output_file, metavar="FILE", help="write all results there as well")
    add("--plot", type=output_file, metavar="FILE", help="write a PNG of requests over time there")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load test; the result is the exit status."""
    options = parse_arguments(arguments)

    def run(directory: Path) -> tuple[object, Sequence[str]]:
        results, wrong = uvloop.run(
            measure(
                options.by,
                options.servers,
                options.requests,
                options.rate,
                directory,
                options.rest,
            )
        )
        if options.plot:
            from loadtest.gateway_plot import plot_gateway  # noqa: PLC0415 - needs matplotlib

            plot_gateway(options.plot, results)
        del results["journals"]
        return results, wrong

    return measured("gateway", run, descriptors=8000, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
