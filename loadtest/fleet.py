"""A fleet before a server that counts its requests: never more at once than the limit.

Members are `apfproxy serve`, each a process of its own, and reach the store through a link of their
own.  Clients keep more requests waiting than there are seats, first at all members and then at one
after the other.  Meanwhile the store is killed, hangs and comes back, members are cut off from it,
what they say to it is late, and members die, leave and come back.  Requests of the server at once
are counted by itself: that is the figure which may not exceed the limit, but where the table says
by how much and why.  Found besides: how soon seats follow the load, and what the store costs.

    python -m loadtest.fleet --members 3 --json fleet.json
    python -m loadtest.fleet --members 20 --limit 200 --service-ms 400 --moves 10
    python -m loadtest.fleet --store kubernetes

Twenty members and their clients on two cores are mostly idle at 400 ms a request.

The exit status is 2 if there were too many requests at once, or seats did not follow.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from loadtest.arguments import Parser, count_up_to
from loadtest.fleet_site import OK, STORES, Fleet, Site
from loadtest.fleet_steps import Course, judge, totals
from loadtest.processes import measured
from loadtest.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from loadtest.fleet_steps import Step

FOLLOWS_WITHIN_S = 1.0
"""How soon seats have to follow the load, at the median, where a store tells members at once."""
TELLS = {"redis"}
"""Stores that do."""
STEPS = Table(
    "step <16 | s >6.1f | good >9 | other >7 | peak >6 | may be >8 | mean >7.1f | after s >9.2f"
    "| store % >9.1f | members % >11.1f"
)


def print_step(step: Step) -> None:
    costs = [
        None if each is None else 100 * each / step.seconds
        for each in (step.store_cpu_s, step.members_cpu_s)
    ]
    commands = (f"{name} {count / step.seconds:.1f}" for name, count in step.commands.most_common())
    note = f"  ({step.why})" if step.why and step.peak > step.permitted - 1 else ""
    STEPS.row(
        step.name,
        step.seconds,
        step.results[OK],
        step.bad,
        step.peak,
        step.permitted,
        step.mean,
        "never" if step.after_s is None and step.is_awaited else step.after_s,
        *costs,
        more=f"  {', '.join(commands)}{note}",
    )


async def measure(
    directory: Path, fleet: Fleet, *, moves: int, lasts_s: float
) -> tuple[dict[str, Any], list[str]]:
    """Run all steps: the results, and what is wrong with them."""
    with Site(directory, fleet) as site:
        await site.start()
        STEPS.head("  commands a second")
        course = Course(site, asyncio.sleep, print_step)
        steps = await course.run(moves=moves, lasts_s=lasts_s)
    wrong = judge(steps, fleet.limit)
    found = totals(steps)
    return {"totals": found, "wrong": wrong, "steps": msgspec.to_builtins(steps)}, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--store", choices=tuple(STORES), default="redis", help="where the record lives (redis)")
    add("--members", type=count_up_to(50, 2), default=3, help="of the fleet (3)")
    add("--limit", type=count_up_to(1000, 10), default=60, help="seats that they share (60)")
    add("--service-ms", type=count_up_to(5000), default=150, help="of a request (150)")
    add("--lease", type=count_up_to(600), default=5, help="seconds (5)")
    add("--refresh-ms", type=count_up_to(60_000, 100), default=1000, help="of a member (1000)")
    add("--moves", type=count_up_to(1000), default=10, help="of all load (10)")
    add("--seconds", type=count_up_to(3600), default=10, help="of steady load, and of none (10)")
    options = parser.parse_args(arguments)

    def run(directory: Path) -> tuple[object, Sequence[str]]:
        fleet = Fleet(
            store=options.store,
            members=options.members,
            limit=options.limit,
            service_s=options.service_ms / 1000,
            lease_s=options.lease,
            refresh_s=options.refresh_ms / 1000,
        )
        results, wrong = uvloop.run(
            measure(directory, fleet, moves=options.moves, lasts_s=options.seconds)
        )
        found = results["totals"]
        median_s = found["moved_median_s"]
        if options.store in TELLS and (median_s is None or median_s > FOLLOWS_WITHIN_S):
            wrong.append(f"seats follow the load after {median_s} s at the median")
        print(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in found.items()))
        return results, wrong

    return measured("fleet", run, descriptors=8000, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
