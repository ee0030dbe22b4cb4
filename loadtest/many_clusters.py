"""Many clusters behind one gateway: whether bad ones are noticed in the others, and what one costs.

Three of the clusters are special: one has a configuration of no use, one has dead servers, one more
requests than its servers can do.  The others get requests at a steady rate.  In each round the
special ones get theirs as well, or clusters that are well get as many more, in turn: the ratio of
the two p99s is what the others notice.  Then a cluster is added, changed and removed under load, by
SIGHUP, again and again.  At last gateways with one cluster and with all are started: the difference
is what a cluster costs.

    python -m loadtest.many_clusters --json clusters.json
    python -m loadtest.many_clusters --clusters 30 --rounds 1 --changes 3

The exit status is 2 if a cluster that is well had a bad answer, or a limit is exceeded.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from loadtest.arguments import Parser, count_up_to, output_file
from loadtest.clusters_gateway import (
    MIB,
    SPECIAL,
    Gateway,
    cluster,
    make_clusters,
    place_of,
    weigh,
)
from loadtest.faults import log_problem
from loadtest.gateway_clients import Clients
from loadtest.gateway_notes import GOOD, percentile_ms
from loadtest.gateway_servers import Servers
from loadtest.processes import LoadTestError
from loadtest.program import measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from loadtest.gateway_notes import Outcome

SERVERS = 3
"""Of the clusters that are well, which share them."""
SPECIAL_SHARE = 0.2
"""Of the rate: what the special clusters get besides."""
MOVING = "moving"
"""The cluster that comes and goes."""
UNKNOWN = "404"
"""The answer of a host that no cluster has."""
STARTING = "503"
"""That of a cluster which was added just now."""
MOST_TOLD = 5
KNOWN_WITHIN_S = 10.0
"""How soon a change has to be in force."""
MAX_RATIO = 1.5
"""Of the others' p99 with special clusters to that without; a busy machine is as noisy."""


@dataclass(slots=True)
class Round:
    """What a round gave.

    Attributes:
        with_special: Whether the special clusters had requests.
        p50_ms: Of the others.
        p99_ms: Of the others.
        others: Answers of the others by result.
        special: Answers of the special clusters by result.
    """

    with_special: bool
    p50_ms: float
    p99_ms: float
    others: Counter[str] = field(default_factory=Counter)
    special: Counter[str] = field(default_factory=Counter)


async def run_round(
    port: int, names: Sequence[str], rate: float, seconds: float, *, with_special: bool
) -> Round:
    """Send requests for a while.

    Args:
        port: The gateway's.
        names: Of the clusters that are well.
        rate: Requests a second of these.
        seconds: How long.
        with_special: Whether the special clusters get theirs, or some of the others more.
    """
    others = Clients(port, rate, places=[place_of(name) for name in names])
    more = SPECIAL if with_special else names[: len(SPECIAL)]
    besides = Clients(port, rate * SPECIAL_SHARE, places=[place_of(name) for name in more])
    count = int(rate * seconds)
    await asyncio.gather(others.ask(count), besides.ask(int(count * SPECIAL_SHARE)))
    for clients in (others, besides):
        clients.close()
    outcomes = others.notes.outcomes
    return Round(
        with_special,
        percentile_ms(outcomes, 50),
        percentile_ms(outcomes, 99),
        Counter(each.result for each in outcomes),
        Counter(each.result for each in besides.notes.outcomes),
    )


@dataclass(slots=True)
class Changes:
    """What came of changes under load.

    Attributes:
        count: How many.
        others: Answers of the other clusters by result.
        moving: Answers of the cluster that came and went by result.
        lost: Those that none of the changes explains; the first few.
        known_s: How long until each was in force.
    """

    count: int = 0
    others: Counter[str] = field(default_factory=Counter)
    moving: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    known_s: list[float] = field(default_factory=list)


async def change_clusters(
    gateway: Gateway, names: Sequence[str], ports: Sequence[int], rate: float, times: int
) -> Changes:
    """Add, change and remove a cluster again and again under load.

    Args:
        gateway: It runs.
        names: Of the clusters that are well.
        ports: Of servers that are well.
        rate: Requests a second.
        times: How often.
    """
    changes = Changes()
    clients = Clients(gateway.process.port, rate, places=[place_of(name) for name in names])
    place = place_of(MOVING)._replace(host_behind="")
    moving = Clients(gateway.process.port, rate * SPECIAL_SHARE, places=[place])
    asking = [asyncio.create_task(each.ask(10**9)) for each in (clients, moving)]
    added, changed = cluster(MOVING, ports, limit=50), cluster(MOVING, ports[:1], limit=70)
    changed["upstream"]["hostHeader"] = "changed.behind"
    steps = (
        (added, GOOD, added["upstream"]["hostHeader"], {GOOD, UNKNOWN, STARTING}),
        (changed, GOOD, changed["upstream"]["hostHeader"], {GOOD}),
        (None, UNKNOWN, "", {GOOD, UNKNOWN}),
    )
    permitted: list[tuple[float, set[str]]] = [(0.0, {UNKNOWN})]
    for _ in range(times):
        for settings, result, host, results in steps:
            permitted.append((monotonic(), results))
            if settings is None:
                del gateway.clusters[MOVING]
            else:
                gateway.clusters[MOVING] = settings
            gateway.reload()
            changes.known_s.append(await _known(moving, result, host))
            changes.count += 1
    for each in (clients, moving):
        each.stop()
    await asyncio.gather(*asking)
    for each, counts in ((clients, changes.others), (moving, changes.moving)):
        counts.update(outcome.result for outcome in each.notes.outcomes)
        each.close()
    changes.lost = find_lost(moving.notes.outcomes, permitted)[:MOST_TOLD]
    return changes


def find_lost(
    outcomes: Sequence[Outcome], permitted: Sequence[tuple[float, set[str]]]
) -> list[str]:
    """Say which answers no step explains that was on while their requests were.

    Args:
        outcomes: Of requests.
        permitted: When each step began, and the results that requests may have in it.
    """
    ends_s = [begun_s for begun_s, _ in permitted[1:]] + [math.inf]
    lost = []
    for outcome in outcomes:
        results = set[str]().union(
            *(
                results
                for (begun_s, results), end_s in zip(permitted, ends_s, strict=True)
                if begun_s <= outcome.done_s and outcome.due_s <= end_s
            )
        )
        if outcome.result not in results:
            lost.append(f"{outcome.result} {outcome.text.decode(errors='replace')}")
    return lost


async def _known(clients: Clients, result: str, host: str) -> float:
    """How long until an answer is one that a change makes.

    Args:
        clients: Of the cluster.
        result: Of their answers.
        host: What its servers get as Host.
    """
    begun_s = monotonic()
    outcomes = clients.notes.outcomes
    while monotonic() < begun_s + KNOWN_WITHIN_S:
        await asyncio.sleep(0.02)
        last = outcomes[-1] if outcomes else None
        if last and (last.result, last.host_behind) == (result, host):
            return monotonic() - begun_s
    raise LoadTestError(
        f"{KNOWN_WITHIN_S:g} s after a change answers of {MOVING} are {outcomes[-1:]}, "
        f"not {result} {host}"
    )


def print_round(number: int, each: Round) -> None:
    """Print a line of the table."""
    print(
        f"{number:<7}{'special' if each.with_special else 'well':<9}{each.p50_ms:>8.1f}"
        f"{each.p99_ms:>8.1f}  {_counts(each.others):<24}  {_counts(each.special)}",
        flush=True,
    )


def _counts(counts: Mapping[str, int]) -> str:
    return " ".join(f"{result}:{count}" for result, count in sorted(counts.items()))


async def measure(options: argparse.Namespace, directory: Path) -> tuple[dict[str, Any], list[str]]:
    """Measure all: the results, and what is wrong with them.

    Args:
        options: The command line.
        directory: An existing directory for all files.
    """
    wrong: list[str] = []
    with ExitStack() as running:
        servers = running.enter_context(Servers(directory, SERVERS + 1))
        await servers.be(SERVERS, "slow")
        clusters = make_clusters(options.clusters, servers.ports)
        names = [name for name in clusters if name not in SPECIAL]
        gateway = await asyncio.to_thread(partial(Gateway, directory, "gateway", clusters))
        running.enter_context(gateway.process)
        port = gateway.process.port
        print(f"{'round':<7}{'besides':<9}{'p50 ms':>8}{'p99 ms':>8}  {'others':<24}  besides")
        await run_round(port, names, options.rate, 2, with_special=True)
        rounds: list[Round] = []
        for number in range(1, options.rounds + 1):
            for with_special in (False, True) if number % 2 else (True, False):
                each = await run_round(
                    port, names, options.rate, options.seconds, with_special=with_special
                )
                print_round(number, each)
                rounds.append(each)
        rss_mib = gateway.process.rss_bytes() / MIB
        changes = await change_clusters(
            gateway, names, servers.ports[:SERVERS], options.rate, options.changes
        )
        if problem := log_problem(gateway.process.log):
            wrong.append(problem)
    weights = await asyncio.to_thread(partial(weigh, directory, clusters))
    p99s = {
        with_special: [each.p99_ms for each in rounds if each.with_special is with_special]
        for with_special in (False, True)
    }
    ratio = statistics.median(p99s[True]) / statistics.median(p99s[False])
    noise = max(p99s[False]) / min(p99s[False])
    print(f"p99 of the others: {ratio:.2f} times that without (rounds without: {noise:.2f} apart)")
    print(
        f"{changes.count} changes, in force after {max(changes.known_s):.2f} s at most; others:"
        f" {_counts(changes.others)}; the one that came and went: {_counts(changes.moving)}"
    )
    print(
        f"{weights['rss_all_mib']:.0f} MiB with {options.clusters} clusters at the start,"
        f" {rss_mib:.0f} MiB under load, {weights['rss_one_mib']:.0f} with one:"
        f" {weights['rss_each_kib']:.0f} KiB each; start {weights['start_all_s']:.2f} s instead of"
        f" {weights['start_one_s']:.2f}: {weights['start_cpu_each_ms']:.1f} ms of CPU each"
    )
    wrong += judge(rounds, changes, ratio)
    for text in wrong:
        print(f"WRONG: {text}")
    results = {
        "rounds": [msgspec.to_builtins(each) for each in rounds],
        "changes": msgspec.to_builtins(changes),
        "weights": weights,
        "rss_under_load_mib": rss_mib,
        "ratio": ratio,
        "noise": noise,
        "wrong": wrong,
    }
    return results, wrong


def judge(rounds: Sequence[Round], changes: Changes, ratio: float) -> list[str]:
    """See what was promised."""
    wrong = [
        f"answers of clusters that are well: {_counts(counts)}"
        for counts in (*(each.others for each in rounds), changes.others)
        if set(counts) - {GOOD}
    ]
    wrong += [f"an answer of the one that came and went: {text}" for text in changes.lost]
    if ratio > MAX_RATIO:
        wrong.append(f"the special clusters made the others' p99 {ratio:.2f} times as long")
    return wrong


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; wrong input ends the program with one line."""
    parser = Parser(__doc__)
    add = parser.add_argument
    least = 2 * len(SPECIAL)
    add("--clusters", type=count_up_to(1000, least), default=100, help="behind the gateway (100)")
    add("--rate", type=count_up_to(20_000), default=1000, help="requests a second (1000)")
    add("--rounds", type=count_up_to(1000), default=5, help="of two measurements each (5)")
    add("--seconds", type=count_up_to(3600), default=6, help="of a measurement (6)")
    add("--changes", type=count_up_to(10_000), default=10, help="times a cluster comes (10)")
    add("--json", type=output_file, metavar="FILE", help="write all results there as well")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load test; the result is the exit status."""
    options = parse_arguments(arguments)

    def run(directory: Path) -> tuple[object, Sequence[str]]:
        return uvloop.run(measure(options, directory))

    return measured("many-clusters", run, descriptors=8000, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
