"""What a proxy adds to the time of a request, at a rate that is half of what it can do.

The clients of `cluster` send at a steady rate, in turn directly to the origin and through each
proxy; the median of a proxy less that of the origin in the same round is what the proxy adds.  Each
proxy has one core, the origin and the clients have the other.

    python -m loadtest.added_latency --rate 5000 --interpreter compiled=/path/to/environment
"""

from __future__ import annotations

import random
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from loadtest.arguments import Parser, count_up_to
from loadtest.builds import COMPILED, THIS, kind_of, named_build
from loadtest.cluster import users, write_token_file
from loadtest.contenders import start_contender
from loadtest.nginx_origin import start_nginx_origin
from loadtest.program import measured
from loadtest.site import Site
from loadtest.wrk import Variety, drive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

MAX_ADDED_MS = 0.2
"""What apfproxy's compiled build may add to the median."""

DESCRIPTORS = 2_000
ORIGIN = "direct"


def measure(options: argparse.Namespace, directory: Path) -> tuple[object, list[str]]:
    """Drive all of them in every round; the medians in ms, and what is beyond its limit."""
    builds = {"apfproxy": THIS, **dict(options.builds)}
    token_file = directory / "tokens.csv"
    write_token_file(token_file, users())
    site = Site(directory, 0, 1, builds=builds, token_file=token_file)
    rng = random.Random(options.seed)  # noqa: S311 - an order, not a secret
    names = [ORIGIN, "haproxy", *builds]
    latencies: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with ExitStack() as running:
        origin = running.enter_context(start_nginx_origin(site, "cluster"))
        targets = {ORIGIN: origin}
        for name in names[1:]:
            targets[name] = running.enter_context(start_contender(name, site, origin.port))
        for number in range(options.rounds + 1):
            order = list(names)
            rng.shuffle(order)
            for name in order:
                found = drive(
                    targets[name],
                    mix="cluster",
                    variety=Variety(seed=number, rate=options.rate),
                    seconds=options.seconds,
                    connections=options.connections,
                    core=site.load_core,
                    directory=directory,
                )
                if number:  # the first one warms up
                    latencies[name].append((found.p50_ms, found.p99_ms))
    print(f"{'':<12}{'p50 ms':>9}{'p99 ms':>9}{'added to p50':>14}")
    added_ms: dict[str, float] = {}
    for name in names:
        p50_ms, p99_ms = map(statistics.median, zip(*latencies[name], strict=True))
        added_ms[name] = statistics.median(
            through[0] - direct[0]
            for through, direct in zip(latencies[name], latencies[ORIGIN], strict=True)
        )
        print(f"{name:<12}{p50_ms:>9.3f}{p99_ms:>9.3f}{added_ms[name]:>14.3f}")
    judged = [name for name, build in builds.items() if kind_of(build.version()) == COMPILED]
    wrong = [name for name in judged if added_ms[name] > MAX_ADDED_MS]
    for name in judged:
        verdict = "ABOVE" if name in wrong else "within"
        print(f"{name} adds {added_ms[name]:.3f} ms, {verdict} the target of {MAX_ADDED_MS} ms")
    return {"latencies": latencies, "added_ms": added_ms}, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measurement; the result is the exit status."""
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--rate", type=count_up_to(100_000), default=5_000, help="requests a second (5000)")
    add("--rounds", type=count_up_to(100), default=5, help="of all of them (5)")
    add("--seconds", type=count_up_to(600), default=4, help="for each in a round (4)")
    add("--connections", type=count_up_to(1_000), default=256, help="of clients (256)")
    add("--seed", type=int, default=None, help="for the order in each round")
    add(
        "--interpreter",
        dest="builds",
        type=named_build,
        action="append",
        default=[],
        metavar="NAME=PYTHON|CHECKOUT",
        help="another build of apfproxy, too",
    )
    add("--json", type=Path, metavar="FILE", help="write all results there as well")
    options = parser.parse_args(arguments)
    return measured(
        "added-latency",
        lambda directory: measure(options, directory),
        descriptors=DESCRIPTORS,
        json_file=options.json,
    )


if __name__ == "__main__":
    sys.exit(main())
