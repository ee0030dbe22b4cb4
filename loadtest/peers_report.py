"""The report of a comparison: rounds, medians, and what they mean.

A mix over TLS has a name of its own, such as `cluster+tls`; over HTTP/2 it is `cluster+h2+tls`.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from loadtest.contenders import WITH
from loadtest.site import COMPILED, INTERPRETED, kind_of
from loadtest.tables import Table
from loadtest.wrk import Measurement

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

BASELINE = "haproxy"
"""The proxy that others are related to."""

DIRECT = "direct"
"""The origin itself, which a rate of requests is sent to as well."""

MAX_ADDED_MS = 0.2
"""The most that apfproxy's compiled build may add to the median at a rate."""

MAX_FEATURES_RATIO = 1.1
"""The most that features may make of the CPU per request."""

MAX_ENDPOINTS_RATIO = 1.05
"""The most that three endpoints may make of it."""


TARGETS: dict[str, dict[str, float]] = {
    COMPILED: {"cluster": 1.5, "cluster+h2+tls": 1.6, "varied": 1.8, "same": 1.15},
    INTERPRETED: {"cluster": 2.5, "varied": 3.0},
}
"""The limits of builds, per mix as `mix_name` has it."""


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
            known_as = mix_name(mix, tls=options.tls, upstream_tls=options.upstream_tls)
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
            is_endpoints = options.features == ["endpoints"]
            limit = MAX_ENDPOINTS_RATIO if is_endpoints else MAX_FEATURES_RATIO
            features = ", ".join(options.features)
            text = f"{name} with {features}, {mix}: {ratio:.3f} times the CPU per request without"
            say(text, ratio, limit)
        if DIRECT in options.proxies:
            print_added(results, mix, options)
    for name in options.proxies:
        print_growth(results, name, options)
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


def print_growth(results: Sequence[Result], name: str, options: argparse.Namespace) -> None:
    """Print the CPU per request with each number of connections, relative to the first one."""
    for alike in {(load.mix, load.streams): None for load in options.loads.values()}:
        first, *others = (
            name for name, load in options.loads.items() if (load.mix, load.streams) == alike
        )
        ratios = [(load, median_ratio(results, (load, name), (first, name))) for load in others]
        if ratios:
            texts = (f"{load} {ratio:.2f}" for load, ratio in ratios)
            print(f"{name}, times the CPU per request of {first}: {', '.join(texts)}")


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


def mix_name(mix: str, *, tls: bool, upstream_tls: bool) -> str:
    return mix + "+tls" * tls + "+upstream-tls" * upstream_tls
