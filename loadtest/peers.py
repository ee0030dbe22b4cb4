"""Compare apfproxy with HAProxy and nginx: CPU per request, speed, latency, memory.

The mix `cluster` is what clients of a Kubernetes cluster send, one user a connection, with bearer
tokens from a token file.  In `varied` and `same` a small GET carries identity headers, which are
believed; `varied` draws target and user anew for each, `same` repeats one.

Each proxy runs as one thread on one core before one nginx origin; wrk and the origin have the other
core.  In each round every proxy is driven in turn, in an order drawn anew, so a machine that slows
down or speeds up hits all of them; compare ratios within a round, not figures of different rounds.
apfproxy runs with its default objects and metrics, and each mix has its own processes.
CPU time is what the kernel says the proxy process used, the kernel's work for it included.

With --tls clients speak TLS 1.3 to each proxy, and the mix `new`, with a connection for each
request, says what handshakes cost.  With --upstream-tls the proxies speak it to the origin.

    python -m loadtest.peers --rounds 5 --seconds 4 --mix cluster,varied --json peers.json
    python -m loadtest.peers --tls --upstream-tls --idle 1000 --watches 0

With --with a second apfproxy, `apf+with`, has features on that the first has off, in the same
rounds, and the ratio of the two says what they cost.

    python -m loadtest.peers --proxies apfproxy --with access-log,top-flows --idle 0 --watches 0
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from loadtest.arguments import Parser, count_up_to, names_from
from loadtest.cluster import CONNECTIONS, users, write_token_file
from loadtest.contenders import CONTENDERS, FEATURES, WITH, start_contender
from loadtest.memory import idle_bytes, watch_bytes
from loadtest.nginx_origin import MAX_CONNECTIONS, start_nginx_origin
from loadtest.processes import (
    Process,
    exit_status,
    raise_descriptor_limit,
    start_origin,
)
from loadtest.site import Site
from loadtest.tls_site import make_tls
from loadtest.wrk import KEPT_MIXES, MIXES, Measurement, Variety, drive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

BASELINE = "haproxy"
TARGETS = {"ratio": 1.8, "idle_bytes": 6 * 1024, "watch_bytes": 20 * 1024}
"""What apfproxy is to stay within: times HAProxy's CPU, and bytes per connection and per watch."""

MAX_FEATURES_RATIO = 1.1
"""What features that are on may make of the CPU per request."""

DEFAULT_CONNECTIONS = {"cluster": CONNECTIONS, "varied": 64, "same": 64, "new": 64}
SPARE_DESCRIPTORS = 500
WARM_UP_S = 1


class Result(NamedTuple):
    """One measurement and where it belongs; `ratio` is CPU per request relative to HAProxy's."""

    round: int
    mix: str
    proxy: str
    measurement: Measurement
    ratio: float | None


def compare(options: argparse.Namespace, site: Site) -> list[Result]:
    """Drive every proxy in every round and print each round as it ends.

    Args:
        options: The command line.
        site: Where the programs run.

    Returns:
        The results, in the order measured.
    """
    rng = random.Random(options.seed)  # noqa: S311 - an order and a mix, no secrets
    token_file = site.directory / "tokens.csv"
    write_token_file(token_file, users())
    results: list[Result] = []
    with ExitStack() as running:
        proxies: dict[tuple[str, str], Process] = {}
        for mix in options.mix:
            origin = running.enter_context(start_nginx_origin(site, mix))
            of_mix = site._replace(token_file=token_file) if mix == "cluster" else site
            for name in options.proxies:
                proxy = running.enter_context(start_contender(name, of_mix, origin.port))
                proxies[mix, name] = proxy

        def measure(name: str, mix: str, seconds: int, seed: int) -> Measurement:
            return drive(
                proxies[mix, name],
                mix=mix,
                variety=Variety(options.names, options.users, seed),
                seconds=seconds,
                connections=options.connections or DEFAULT_CONNECTIONS[mix],
                core=site.load_core,
                directory=site.directory,
                tls=site.tls,
            )

        for mix, name in proxies:
            measure(name, mix, WARM_UP_S, 0)
        print_heading()
        for number in range(1, options.rounds + 1):
            for mix in options.mix:
                order = list(options.proxies)
                rng.shuffle(order)
                seed = rng.getrandbits(32)
                measured = {name: measure(name, mix, options.seconds, seed) for name in order}
                results += print_round(number, mix, measured, options.proxies)
    return results


def print_heading() -> None:
    """Print the names of the columns that `print_row` fills."""
    print(
        f"{'round':<7}{'mix':<8}{'proxy':<10}{'CPU us/req':>11}{'req/s':>9}"
        f"{'p50 ms':>9}{'p99 ms':>9}{'x HAProxy':>11}"
    )


def print_row(
    label: str, mix: str, name: str, measurement: Measurement, ratio: float | None
) -> None:
    """Print one line of the table."""
    print(
        f"{label:<7}{mix:<8}{name:<10}{measurement.cpu_us_per_request:>11.1f}"
        f"{measurement.requests_per_s:>9.0f}{measurement.p50_ms:>9.2f}{measurement.p99_ms:>9.2f}"
        + (f"{ratio:>11.2f}" if ratio is not None else f"{'':>11}"),
        flush=True,
    )


def print_round(
    number: int, mix: str, measured: dict[str, Measurement], names: Sequence[str]
) -> list[Result]:
    """Print one round of one mix and relate each proxy's CPU to HAProxy's in the same round."""
    results = []
    for name in names:
        ratio = None
        if BASELINE in measured:
            baseline = measured[BASELINE].cpu_us_per_request
            ratio = measured[name].cpu_us_per_request / baseline
        print_row(str(number), mix, name, measured[name], ratio)
        results.append(Result(number, mix, name, measured[name], ratio))
    return results


def print_medians(results: Sequence[Result], options: argparse.Namespace) -> list[Result]:
    """Print each column's median over the rounds, per mix and proxy.

    Args:
        results: All results.
        options: The command line.

    Returns:
        The medians, as results of round 0.
    """
    medians = []
    for mix in options.mix:
        for name in options.proxies:
            mine = [each for each in results if (each.mix, each.proxy) == (mix, name)]
            columns = zip(*(each.measurement for each in mine), strict=True)
            requests, *others = (statistics.median(column) for column in columns)
            measurement = Measurement(int(requests), *others)
            ratios = [each.ratio for each in mine if each.ratio is not None]
            ratio = statistics.median(ratios) if ratios else None
            print_row("median", mix, name, measurement, ratio)
            medians.append(Result(0, mix, name, measurement, ratio))
    for each in medians:
        if each.proxy == "apfproxy" and each.ratio is not None:
            verdict = "within" if each.ratio <= TARGETS["ratio"] else "ABOVE"
            print(
                f"apfproxy, {each.mix}: {each.ratio:.2f} times HAProxy's CPU per request, "
                f"{verdict} the target of {TARGETS['ratio']}"
            )
    if WITH in options.proxies:
        print_features(results, options)
    return medians


def print_features(results: Sequence[Result], options: argparse.Namespace) -> None:
    """Print what the features cost: the median over the rounds of the ratio within each."""
    for mix in options.mix:
        cpu = {
            (each.round, each.proxy): each.measurement.cpu_us_per_request
            for each in results
            if each.mix == mix
        }
        ratio = statistics.median(
            cpu[number, WITH] / cpu[number, "apfproxy"] for number in range(1, options.rounds + 1)
        )
        verdict = "within" if ratio <= MAX_FEATURES_RATIO else "ABOVE"
        print(
            f"apfproxy with {', '.join(options.features)}, {mix}: {ratio:.3f} times the CPU per "
            f"request without, {verdict} the target of {MAX_FEATURES_RATIO}"
        )


def weigh(options: argparse.Namespace, site: Site) -> dict[str, dict[str, float]]:
    """Measure each proxy's memory per idle connection and per open watch; print both.

    Args:
        options: The command line.
        site: Where the programs run.

    Returns:
        Proxy to `idle_bytes` and `watch_bytes`.
    """
    weights: dict[str, dict[str, float]] = {}
    print(f"\n{'proxy':<10}{'KiB/idle connection':>21}{'KiB/open watch':>16}")
    for name in options.proxies:
        weights[name] = {}
        if options.idle:
            with start_nginx_origin(site) as origin:
                weights[name]["idle_bytes"] = _weigh_one(name, site, origin, options.idle)
        if options.watches:
            with start_origin(directory=site.directory, core=site.load_core) as origin:
                weights[name]["watch_bytes"] = _weigh_one(name, site, origin, options.watches)
        texts = [f"{weights[name].get(key, 0) / 1024:.2f}" for key in ("idle_bytes", "watch_bytes")]
        print(f"{name:<10}{texts[0]:>21}{texts[1]:>16}", flush=True)
    # With TLS most is what OpenSSL holds, in every proxy; compare with the others.
    judged = weights.get("apfproxy", {}) if site.tls is None else {}
    for key, measured in judged.items():
        verdict = "within" if measured <= TARGETS[key] else "ABOVE"
        what = "idle connection" if key == "idle_bytes" else "open watch"
        print(
            f"apfproxy: {measured / 1024:.2f} KiB per {what}, "
            f"{verdict} the target of {TARGETS[key] / 1024:g}"
        )
    return weights


def _weigh_one(name: str, site: Site, origin: Process, count: int) -> float:
    # A new process for each figure: memory that an earlier load left free would hide the growth.
    context = site.tls.client_context() if site.tls is not None else None
    with start_contender(name, site, origin.port) as proxy:
        if origin.name == "origin":
            return watch_bytes(proxy, count, context)
        return idle_bytes(proxy, count, context)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; wrong input ends the program with one line."""
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--rounds", type=count_up_to(1000), default=5, help="rounds of each mix (5)")
    add("--seconds", type=count_up_to(3600), default=4, help="seconds per proxy and round (4)")
    add("--connections", type=count_up_to(MAX_CONNECTIONS), help="of wrk (cluster 256, others 64)")
    add("--mix", type=names_from(MIXES, "mix"), help="cluster,varied,same; with --tls new, too")
    add("--names", type=count_up_to(10**9), default=Variety().names, help="in varied (1000000)")
    add("--users", type=count_up_to(10**9), default=Variety().users, help="in varied (10000)")
    add(
        "--proxies",
        type=names_from(CONTENDERS, "proxy"),
        default=list(CONTENDERS),
        help=",".join(CONTENDERS),
    )
    add(
        "--with",
        dest="features",
        type=names_from(FEATURES, "feature"),
        help="features of a second apfproxy: " + ",".join(FEATURES),
    )
    add("--tls", action="store_true", help="clients speak TLS 1.3 to the proxies")
    add("--upstream-tls", action="store_true", help="the proxies speak TLS 1.3 to the origin")
    add("--add-headers", action="store_true", help="HAProxy and nginx set Via, X-Forwarded-* too")
    add(
        "--idle", type=count_up_to(MAX_CONNECTIONS, 0), default=8000, help="idle connections (8000)"
    )
    add("--watches", type=count_up_to(MAX_CONNECTIONS, 0), default=8000, help="watches (8000)")
    add("--memory-only", action="store_true", help="leave out the rounds")
    add("--no-pin", action="store_true", help="let the scheduler choose cores")
    add("--seed", type=int, default=None, help="for the order of proxies in each round")
    add("--json", type=Path, metavar="FILE", help="write all results there as well")
    options = parser.parse_args(arguments)
    if options.mix is None:
        options.mix = list(MIXES if options.tls else KEPT_MIXES)
    if options.features is not None:
        if "apfproxy" not in options.proxies:
            parser.error("--with compares with apfproxy: name it in --proxies")
        options.proxies.append(WITH)
    return options


def run(options: argparse.Namespace) -> None:
    """Run what the command line asks for and write the JSON file."""
    results: list[Result] = []
    medians: list[Result] = []
    weights: dict[str, dict[str, float]] = {}
    raise_descriptor_limit(2 * max(options.idle, options.watches) + SPARE_DESCRIPTORS)
    with tempfile.TemporaryDirectory(prefix="apfproxy-peers-") as directory:
        proxy_core, load_core = (None, None) if options.no_pin else (0, 1)
        tls = make_tls(Path(directory)) if options.tls or options.upstream_tls else None
        site = Site(
            Path(directory),
            proxy_core,
            load_core,
            adds_headers=options.add_headers,
            tls=tls if options.tls else None,
            upstream_tls=tls if options.upstream_tls else None,
            features=options.features,
        )
        if not options.memory_only:
            results = compare(options, site)
            medians = print_medians(results, options)
        if options.idle or options.watches:
            weights = weigh(options, site)
    if options.json:
        text = json.dumps(
            {
                "rounds": [_as_json(each) for each in results],
                "medians": [_as_json(each) for each in medians],
                "memory": weights,
            },
            indent=2,
        )
        options.json.write_text(text + "\n")


def _as_json(result: Result) -> dict[str, object]:
    return {
        "round": result.round,
        "mix": result.mix,
        "proxy": result.proxy,
        "ratio_to_haproxy": result.ratio,
        **result.measurement._asdict(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; the result is the exit status."""
    options = parse_arguments(arguments)
    return exit_status("peers", lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
