"""Report of a comparison of proxies: each round, medians over the rounds, and what they mean."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from loadtest.contenders import WITH
from loadtest.ratios import TARGETS, mix_name
from loadtest.site import COMPILED, kind_of
from loadtest.wrk import Measurement

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

BASELINE = "haproxy"
"""Holds what others are related to."""

DIRECT = "direct"
"""The origin itself, which a rate of requests is sent to as well."""

MAX_ADDED_MS = 0.2
"""Holds what apfproxy's compiled build may add to the median at a rate."""

MAX_FEATURES_RATIO = 1.1
"""Holds what features that are on may make of the CPU per request."""

MAX_ENDPOINTS_RATIO = 1.05
"""Holds what three endpoints may make of it."""


class Result(NamedTuple):
    """One measurement and where it belongs; `ratio` is CPU per request relative to HAProxy's."""

    round: int
    mix: str
    proxy: str
    measurement: Measurement
    ratio: float | None


def print_heading() -> None:
    print(
        f"{'round':<7}{'mix':<16}{'proxy':<12}{'CPU us/req':>11}{'req/s':>9}"
        f"{'p50 ms':>9}{'p99 ms':>9}{'x HAProxy':>11}"
    )


def print_row(
    label: str, mix: str, name: str, measurement: Measurement, ratio: float | None
) -> None:
    print(
        f"{label:<7}{mix:<16}{name:<12}{measurement.cpu_us_per_request:>11.1f}"
        f"{measurement.requests_per_s:>9.0f}{measurement.p50_ms:>9.2f}{measurement.p99_ms:>9.2f}"
        + (f"{ratio:>11.2f}" if ratio is not None else f"{'':>11}"),
        flush=True,
    )


def print_round(
    number: int, mix: str, measured: dict[str, Measurement], names: Sequence[str]
) -> list[Result]:
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
    """Print each column's median over the rounds, per mix and proxy."""
    medians = []
    for mix in options.loads:
        for name in options.proxies:
            mine = [each for each in results if (each.mix, each.proxy) == (mix, name)]
            columns = zip(*(each.measurement for each in mine), strict=True)
            requests, *others = (statistics.median(column) for column in columns)
            measurement = Measurement(int(requests), *others)
            ratios = [each.ratio for each in mine if each.ratio is not None]
            ratio = statistics.median(ratios) if ratios else None
            print_row("median", mix, name, measurement, ratio)
            medians.append(Result(0, mix, name, measurement, ratio))
    for mix in options.loads:
        for name in options.builds:
            print_relations(results, mix, name, options)
    for name in options.proxies:
        print_growth(results, name, options)
    if WITH in options.proxies:
        print_features(results, options)
    if DIRECT in options.proxies:
        print_added(results, options)
    return medians


def print_relations(
    results: Sequence[Result], mix: str, name: str, options: argparse.Namespace
) -> None:
    ratio = median_ratio(results, mix, name, BASELINE)
    known_as = mix_name(mix, tls=options.tls, upstream_tls=options.upstream_tls)
    target = TARGETS[kind_of(options.versions[name])].get(known_as)
    if ratio is not None and target is not None:
        verdict = "within" if ratio <= target else "ABOVE"
        print(
            f"{name}, {mix}: {ratio:.2f} times HAProxy's CPU per request, "
            f"{verdict} the target of {target}"
        )
    relation = None if name == "apfproxy" else median_ratio(results, mix, name, "apfproxy")
    if relation is not None:
        print(f"{name}, {mix}: {relation:.3f} times apfproxy's CPU per request")


def median_ratio(results: Sequence[Result], mix: str, name: str, to: str) -> float | None:
    """The median over the rounds of the ratio within each; None if one took no part."""
    cpu = {
        (each.round, each.proxy): each.measurement.cpu_us_per_request
        for each in results
        if each.mix == mix
    }
    ratios = [
        spent / cpu[number, to]
        for (number, proxy), spent in cpu.items()
        if proxy == name and (number, to) in cpu
    ]
    return statistics.median(ratios) if ratios else None


def print_growth(results: Sequence[Result], name: str, options: argparse.Namespace) -> None:
    cpu = {
        (each.round, each.mix): each.measurement.cpu_us_per_request
        for each in results
        if each.proxy == name
    }
    for alike in {(load.mix, load.streams): None for load in options.loads.values()}:
        first, *others = (
            name for name, load in options.loads.items() if (load.mix, load.streams) == alike
        )
        relations = [
            statistics.median(
                cpu[number, load] / cpu[number, first] for number in range(1, options.rounds + 1)
            )
            for load in others
        ]
        if others:
            texts = (f"{load} {by:.2f}" for load, by in zip(others, relations, strict=True))
            print(f"{name}, times the CPU per request of {first}: {', '.join(texts)}")


def print_features(results: Sequence[Result], options: argparse.Namespace) -> None:
    for mix in options.loads:
        name = list(options.builds)[-1]
        ratio = median_ratio(results, mix, WITH, name)
        if ratio is None:
            continue
        limit = MAX_ENDPOINTS_RATIO if options.features == ["endpoints"] else MAX_FEATURES_RATIO
        verdict = "within" if ratio <= limit else "ABOVE"
        print(
            f"{name} with {', '.join(options.features)}, {mix}: {ratio:.3f} times the CPU per "
            f"request without, {verdict} the target of {limit}"
        )


def print_added(results: Sequence[Result], options: argparse.Namespace) -> None:
    for load in options.loads:
        p50_ms = {
            (each.round, each.proxy): each.measurement.p50_ms
            for each in results
            if each.mix == load
        }
        for name in options.proxies[1:]:
            added_ms = statistics.median(
                p50_ms[number, name] - p50_ms[number, DIRECT]
                for number in range(1, options.rounds + 1)
            )
            version = options.versions.get(name)
            verdict = ""
            if version is not None and kind_of(version) == COMPILED:
                met = "within" if added_ms <= MAX_ADDED_MS else "ABOVE"
                verdict = f", {met} the target of {MAX_ADDED_MS}"
            print(f"{name}, {load}: adds {added_ms:.3f} ms to the median{verdict}")
