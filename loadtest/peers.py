"""Compare apfproxy with HAProxy and nginx: CPU per request, speed, latency, memory.

The mix `cluster` is what clients of a Kubernetes cluster send, one user a connection, with bearer
tokens from a token file.  In `varied` and `same` a small GET carries identity headers, which are
believed; `varied` draws target and user for each, `same` repeats one.

Each proxy runs as one thread on one core before one origin; clients and the origin have the other
core.  In each round every proxy is driven in turn, in an order drawn again, so a machine that slows
down or speeds up hits all of them; compare ratios within a round, not figures of different rounds.
apfproxy runs with its default objects and metrics, and each mix has its own processes.
CPU time is what the kernel says the proxy process used, the kernel's work for it included.

    python -m loadtest.peers --rounds 5 --seconds 4 --mix cluster,varied --json peers.json

With --tls clients speak TLS 1.3 to each proxy.  With --protocol the mix `cluster` goes over HTTP/2
as well, or instead, with several requests in flight on each connection.

    python -m loadtest.peers --tls --mix cluster --protocol h1,h2 --idle 0 --watches 0

With --with a second apfproxy, `apf+with`, has features on that the first has off, in the same
rounds.  With --interpreter more builds of apfproxy take part: what a virtual environment has
installed, or another checkout; it is the last of them that is tried with and without.

    python -m loadtest.peers --proxies apfproxy --with access-log,top-flows --idle 0 --watches 0
    python -m loadtest.peers --mix cluster,same --with auto-limit --idle 0 --watches 0
    python -m loadtest.peers --interpreter before=../other-checkout --proxies haproxy,apfproxy

With --rate so many requests of `cluster` are sent a second, in turn to the origin and through each
proxy, and the median of a proxy less that of the origin is what the proxy adds.

    python -m loadtest.peers --mix cluster --rate 5000 --idle 0 --watches 0
"""

from __future__ import annotations

import random
import statistics
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from loadtest.cluster import users, write_token_file
from loadtest.contenders import (
    COMPILED,
    CONTENDERS,
    FEATURES,
    INTERPRETED,
    MAX_CONNECTIONS,
    THIS,
    WITH,
    Site,
    kind_of,
    make_tls,
    named_build,
    start_contender,
    start_nginx_origin,
)
from loadtest.memory import weigh
from loadtest.program import Parser, Table, count_up_to, measured, names_from
from loadtest.wrk import DEFAULT_CONNECTIONS, MIXES, Measurement, Variety, drive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from loadtest.processes import Process

SPARE_DESCRIPTORS = 500
WARM_UP_S = 1
PROTOCOLS = ("h1", "h2")
BASELINE = "haproxy"
"""The proxy that others are related to."""
DIRECT = "direct"
"""The origin itself, which a rate of requests is sent to as well."""
MAX_ADDED_MS = 0.2
"""The most that apfproxy's compiled build may add to the median at a rate."""
MAX_FEATURES_RATIO = 1.1
TARGETS: dict[str, dict[str, float]] = {
    COMPILED: {"cluster": 1.5, "cluster+h2+tls": 1.6, "varied": 1.8, "same": 1.15},
    INTERPRETED: {"cluster": 2.5, "varied": 3.0},
}
"""The limits of builds, per mix, with what clients speak."""


class Load(NamedTuple):
    """A mix, and its connections, with `streams` at once over HTTP/2; 0 speaks HTTP/1.1."""

    mix: str
    connections: int
    streams: int


class Result(NamedTuple):
    """One measurement and where it belongs; `ratio` is CPU per request relative to HAProxy's."""

    round: int
    mix: str
    proxy: str
    measurement: Measurement
    ratio: float | None

    def as_json(self) -> dict[str, object]:
        where = {"round": self.round, "mix": self.mix, "proxy": self.proxy}
        return {**where, "ratio_to_haproxy": self.ratio, **self.measurement._asdict()}


ROUNDS = Table(
    "round <7 | mix <16 | proxy <12 | CPU us/req >11.1f | req/s >9.0f | p50 ms >9.2f | p99 ms >9.2f"
    "| x HAProxy >11.2f"
)


def print_row(result: Result, label: str) -> None:
    _, *figures = result.measurement
    rate, cpu_us, *latencies_ms = figures
    ROUNDS.row(label, result.mix, result.proxy, cpu_us, rate, *latencies_ms, result.ratio)


def print_round(
    number: int, mix: str, measured: dict[str, Measurement], names: Sequence[str]
) -> list[Result]:
    results = []
    for name in names:
        ratio = None
        if BASELINE in measured:
            baseline = measured[BASELINE].cpu_us_per_request
            ratio = measured[name].cpu_us_per_request / baseline
        results.append(Result(number, mix, name, measured[name], ratio))
        print_row(results[-1], str(number))
    return results


def print_medians(results: Sequence[Result], options: argparse.Namespace) -> list[Result]:
    medians = []
    for mix in options.loads:
        for name in options.proxies:
            mine = [each for each in results if (each.mix, each.proxy) == (mix, name)]
            columns = zip(*(each.measurement for each in mine), strict=True)
            requests, *others = (statistics.median(column) for column in columns)
            measurement = Measurement(int(requests), *others)
            ratio = median_ratio(results, (mix, name), (mix, BASELINE))
            medians.append(Result(0, mix, name, measurement, ratio))
            print_row(medians[-1], "median")
    for mix in options.loads:
        for name in options.builds:
            ratio = median_ratio(results, (mix, name), (mix, BASELINE))
            known_as = mix + "+tls" * options.tls
            target = TARGETS[kind_of(options.versions[name])].get(known_as)
            if ratio is not None and target is not None:
                say(f"{name}, {mix}: {ratio:.2f} times HAProxy's CPU per request", ratio, target)
            relation = median_ratio(results, (mix, name), (mix, "apfproxy"))
            if relation is not None and name != "apfproxy":
                print(f"{name}, {mix}: {relation:.3f} times apfproxy's CPU per request")
        if WITH in options.proxies:
            name = list(options.builds)[-1]
            ratio = median_ratio(results, (mix, WITH), (mix, name))
            assert ratio is not None
            features = ", ".join(options.features)
            text = f"{name} with {features}, {mix}: {ratio:.3f} times the CPU per request without"
            say(text, ratio, MAX_FEATURES_RATIO)
        if DIRECT in options.proxies:
            print_added(results, mix, options)
    return medians


def say(text: str, value: float, limit: float) -> None:
    print(f"{text}, {'within' if value <= limit else 'ABOVE'} the target of {limit}")


def median_ratio(
    results: Sequence[Result], of: tuple[str, str], to: tuple[str, str]
) -> float | None:
    """The median over the rounds of the CPU ratio of two pairs of mix and proxy, if both ran."""
    cpu = {
        (each.round, each.mix, each.proxy): each.measurement.cpu_us_per_request for each in results
    }
    ratios = [
        spent / cpu[number, *to]
        for (number, *pair), spent in cpu.items()
        if tuple(pair) == of and (number, *to) in cpu
    ]
    return statistics.median(ratios) if ratios else None


def print_added(results: Sequence[Result], mix: str, options: argparse.Namespace) -> None:
    """Print what each proxy adds to the median latency of the origin in the same round."""
    p50_ms = {
        (each.round, each.proxy): each.measurement.p50_ms for each in results if each.mix == mix
    }
    for name in options.proxies[1:]:
        rounds = range(1, options.rounds + 1)
        added_ms = statistics.median(p50_ms[at, name] - p50_ms[at, DIRECT] for at in rounds)
        text = f"{name}, {mix}: adds {added_ms:.3f} ms to the median"
        if kind_of(options.versions.get(name, "")) == COMPILED:
            say(text, added_ms, MAX_ADDED_MS)
        else:
            print(text)


def loads_of(options: argparse.Namespace) -> dict[str, Load]:
    loads = {}
    for mix in options.mix:
        for protocol in options.protocol:
            streams = options.streams if protocol == "h2" else 0
            connections = options.connections or max(1, DEFAULT_CONNECTIONS[mix] // max(1, streams))
            loads[mix + "+h2" * bool(streams)] = Load(mix, connections, streams)
    return loads


def compare(options: argparse.Namespace, site: Site) -> list[Result]:
    rng = random.Random(options.seed)  # noqa: S311 - an order and a mix, no secrets
    token_file = site.directory / "tokens.csv"
    write_token_file(token_file, users())
    results: list[Result] = []
    with ExitStack() as running:
        proxies: dict[tuple[str, str, str], Process] = {}
        for mix in options.mix:
            origin = running.enter_context(start_nginx_origin(site, mix))
            for protocol in options.protocol:
                of_mix = site._replace(
                    token_file=token_file if mix == "cluster" else None, http2=protocol == "h2"
                )
                for name in options.proxies:
                    proxies[mix, protocol, name] = (
                        origin
                        if name == DIRECT
                        else running.enter_context(start_contender(name, of_mix, origin.port))
                    )

        def drive_one(name: str, of: str, seconds: int, seed: int) -> Measurement:
            load = options.loads[of]
            return drive(
                proxies[load.mix, "h2" if load.streams else "h1", name],
                mix=load.mix,
                variety=Variety(seed, options.rate, load.streams),
                seconds=seconds,
                connections=load.connections,
                core=site.load_core,
                directory=site.directory,
                tls=site.tls,
            )

        for load in options.loads:
            for name in options.proxies:
                drive_one(name, load, WARM_UP_S, 0)
        ROUNDS.head()
        for number in range(1, options.rounds + 1):
            for load in options.loads:
                order = list(options.proxies)
                rng.shuffle(order)
                seed = rng.getrandbits(32)
                found = {name: drive_one(name, load, options.seconds, seed) for name in order}
                results += print_round(number, load, found, options.proxies)
    return results


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--rounds", type=count_up_to(1000), default=5, help="rounds of each mix (5)")
    add("--seconds", type=count_up_to(3600), default=4, help="seconds per proxy and round (4)")
    add(
        "--connections",
        type=count_up_to(MAX_CONNECTIONS),
        default=0,
        help="at once (cluster 256, by streams over HTTP/2; others 64)",
    )
    add(
        "--protocol",
        type=names_from(PROTOCOLS, "protocol"),
        default=["h1"],
        help="h1,h2: what clients speak to the proxies, HTTP/2 on the mix cluster only (h1)",
    )
    add("--streams", type=count_up_to(100), default=8, help="at once on a connection of h2 (8)")
    add("--mix", type=names_from(MIXES, "mix"), help=f"{','.join(MIXES)} (cluster,varied,same)")
    add("--rate", type=count_up_to(100_000, 0), default=0, help="of cluster, requests a second")
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
    add(
        "--interpreter",
        dest="builds",
        action="append",
        type=named_build,
        default=[],
        metavar="NAME=PYTHON",
        help="one more apfproxy: of a virtual environment, or NAME=CHECKOUT; may be repeated",
    )
    add("--tls", action="store_true", help="clients speak TLS 1.3 to the proxies")
    add(
        "--idle", type=count_up_to(MAX_CONNECTIONS, 0), default=8000, help="idle connections (8000)"
    )
    add("--watches", type=count_up_to(MAX_CONNECTIONS, 0), default=8000, help="watches (8000)")
    add("--memory-only", action="store_true", help="leave out the rounds")
    add("--no-pin", action="store_true", help="let the scheduler choose cores")
    add("--seed", type=int, default=None, help="for the order of proxies in each round")
    options = parser.parse_args(arguments)
    if options.mix is None:
        options.mix = ["cluster"] if "h2" in options.protocol or options.rate else list(MIXES)
    if "h2" in options.protocol and options.mix != ["cluster"]:
        parser.error("--protocol h2 drives the mix cluster only: say --mix cluster")
    if options.rate and (options.tls or options.mix != ["cluster"]):
        parser.error("--rate drives the mix cluster only, without TLS: say --mix cluster")
    complete(parser, options)
    return options


def complete(parser: Parser, options: argparse.Namespace) -> None:
    options.loads = loads_of(options)
    own = [("apfproxy", THIS)] if "apfproxy" in options.proxies else []
    for name, _ in options.builds:
        if name in {*CONTENDERS, *options.proxies}:
            parser.error(f"--interpreter {name}=...: another proxy has that name")
        options.proxies.append(name)
    options.builds = dict([*own, *options.builds])
    if options.features is not None:
        if not options.builds:
            parser.error("--with compares with apfproxy: name it in --proxies")
        options.proxies.append(WITH)
    if options.rate:
        options.proxies.insert(0, DIRECT)
        options.idle = options.watches = 0


def measure(options: argparse.Namespace, directory: Path) -> tuple[dict[str, object], list[str]]:
    options.versions = {name: build.version() for name, build in options.builds.items()}
    for name, version in options.versions.items():
        print(f"{name} is {version}")
    results: list[Result] = []
    medians: list[Result] = []
    weights: dict[str, dict[str, dict[str, float]]] = {}
    tls = make_tls(directory) if options.tls else None
    site = Site(
        directory,
        proxy_core=None if options.no_pin else 0,
        load_core=None if options.no_pin else 1,
        tls=tls,
        features=options.features,
        builds=options.builds,
    )
    if not options.memory_only:
        results = compare(options, site)
        medians = print_medians(results, options)
    if options.idle or options.watches:
        for protocol in options.protocol:
            weights[protocol] = weigh(
                options.proxies,
                site._replace(http2=protocol == "h2"),
                options.idle,
                options.watches,
                options.streams if protocol == "h2" else 0,
            )
    found = {"rounds": results, "medians": medians}
    rows = {name: [each.as_json() for each in of] for name, of in found.items()}
    return {**rows, "memory": weights}, []


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    descriptors = 2 * max(options.idle, options.watches) + SPARE_DESCRIPTORS
    return measured(options, measure, descriptors=descriptors)


if __name__ == "__main__":
    sys.exit(main())
