"""The report of `apfproxy find-limit`: for JSON, as text, and as a plot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from apfproxy.cli.offline import offline_controller
from apfproxy.cli.parameters import aligned, fitted
from apfproxy.cli.simulate_tables import duration_text
from apfproxy.flowcontrol.level_summary import shortfalls, summarize_levels
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.lint.known_resources import is_of_kubernetes
from apfproxy.objects.field_errors import one_line
from apfproxy.settings import HTTP_API, KUBERNETES_API
from apfproxy.simulation.plots import GAP, HEADING, HIGH, WIDTH, chart, document, heading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apfproxy.base.address import Address
    from apfproxy.cli.stepped_load import Search, Step

    Row = dict[str, Any]

COLUMNS = ("CONCURRENCY", "RESPONSES/S", "P50", "P99", "ERRORS")
INTERRUPTED = "It was interrupted before the best limit was known."
TIME = "The time was up before the best limit was known: give a longer --max-duration."
BUSY = (
    "No limit was found: find-limit itself was busy, so the server may do more.  Give paths that"
    " the server works on for longer; if it has none, the default limit does no harm."
)
BROKEN = (
    "No limit was found: {} with {} at a time, and none of as many before.  The server has not"
    " recovered, or fails for another reason: see to it, then give --max-concurrency {}."
)
MOST = "The throughput still grew: give a greater --max-concurrency."


def report_of(
    server: Address, paths: Sequence[str], search: Search, *, is_interrupted: bool
) -> Row:
    """The report of a search with at least one step that did not fail.

    Its `limit` is None where this program was too slow to find it, or the server broke.
    """
    notes = []
    broken = search.broken
    if (failed := search.failed) is not None:
        notes.append(f"{failures_text(failed)} with {failed.concurrency} at a time.")
    is_cut = search.next() is not None
    if broken is not None:
        highest = search.good[-1].concurrency
        notes.append(BROKEN.format(failures_text(broken), broken.concurrency, highest))
    elif search.is_busy:
        notes.append(BUSY)
    elif is_cut:
        notes.append(INTERRUPTED if is_interrupted else TIME)
    elif search.is_open:
        notes.append(MOST)
    kubernetes = PRESETS[KUBERNETES_API]
    attributes = [kubernetes.attributes_of("GET", each.encode()) for each in paths]
    preset = KUBERNETES_API if any(map(is_of_kubernetes, attributes)) else HTTP_API
    is_found = broken is None and not search.is_busy
    limit = search.knee.concurrency if is_found else None
    levels = {}
    if limit is not None:
        controller = offline_controller((), preset=preset, server_concurrency_limit=limit)
        summary = summarize_levels(controller)
        levels = {each.name: each.nominal for each in summary.levels if each.type != "Exempt"}
        notes += (f"{each}." for each in shortfalls(summary))
    return {
        "upstream": server.url,
        "paths": paths,
        "limit": limit,
        "isLowerBound": broken is None and (is_cut or search.is_open),
        "highest": search.best.concurrency,
        "notes": notes,
        "steps": [row_of(each) for _, each in sorted(search.steps.items())],
        "preset": preset,
        "levels": levels,
    }


def row_of(step: Step) -> Row:
    return {
        "concurrency": step.concurrency,
        "seconds": step.duration_s,
        "responses": len(step.latencies_s),
        "responsesPerSecond": step.throughput,
        "p50Seconds": step.percentile_s(50),
        "p99Seconds": step.percentile_s(99),
        "errors": dict(step.failures),
    }


def failures_text(step: Step) -> str:
    (name, _), *_ = step.failures.most_common(1)
    return f"{step.failures.total():,} of {step.requests:,} requests failed ({name})"


def lines_of(report: Row) -> Iterator[str]:
    rows = [
        [
            str(row["concurrency"]),
            f"{row['responsesPerSecond']:,.0f}",
            latency(row["p50Seconds"]),
            latency(row["p99Seconds"]),
            ", ".join(f"{name}: {count:,}" for name, count in row["errors"].items()) or "0",
        ]
        for row in report["steps"]
    ]
    yield from aligned(COLUMNS, rows, frozenset({0, 1, 2, 3}))
    yield ""
    if report["limit"] is not None:
        yield fitted(recommendation(report))
    yield from (fitted(one_line(each)) for each in report["notes"])
    if report["limit"] is None:
        return
    named = ", ".join(f"{name} {seats}" for name, seats in report["levels"].items())
    which = f"Of preset {report['preset']} the levels have these seats"
    yield fitted(f"{which}, and lend them: {named}.")


def recommendation(report: Row) -> str:
    by_concurrency = {row["concurrency"]: row for row in report["steps"]}
    knee, highest = by_concurrency[report["limit"]], by_concurrency[report["highest"]]
    at_least = " at least" * report["isLowerBound"]
    begin = f"Set --server-concurrency-limit {report['limit']}{at_least}: "
    most = f"{highest['responsesPerSecond']:,.0f}/s"
    p99 = f"p99 is {latency(knee['p99Seconds'])}"
    if knee is highest:
        return f"{begin}it has the highest throughput, {most}; {p99}."
    part = knee["responsesPerSecond"] / highest["responsesPerSecond"]
    return (
        f"{begin}{part:.0%} of the highest throughput ({most} at {highest['concurrency']});"
        f" {p99} there, {latency(highest['p99Seconds'])} at {highest['concurrency']}."
    )


def latency(seconds: float | None) -> str:
    return "-" if seconds is None else duration_text(seconds)


PLOTS = (
    ("responses a second", {"seats": ("", "responsesPerSecond", 1)}),
    ("ms", {"waiting": ("p50", "p50Seconds", 1000), "rejected": ("p99", "p99Seconds", 1000)}),
)
"""Title, then style: its name, field and unit."""


def picture(report: Row) -> str:
    """Draw throughput and latency against concurrency, with a line at the limit.

    Each concurrency is twice the last one at the same distance.
    """
    rows, limit = report["steps"], report["limit"]
    doublings = math.log2(rows[-1]["concurrency"])
    marks = [(power / (doublings or 1.0), str(2**power)) for power in range(int(doublings) + 1)]

    def place(concurrency: int) -> float:
        return math.log2(concurrency) / (doublings or 1.0)

    y = HEADING
    parts = [heading(GAP, y, f"{report['upstream']}: limit {limit or 'not found'}")]
    for title, lines in PLOTS:
        y += HEADING + GAP
        parts.append(f'<text x="{GAP}" y="{y}">{title}')
        parts += (
            f'<tspan fill="var(--{style})"> {name}</tspan>' for style, (name, *_) in lines.items()
        )
        points = {
            style: [(place(row["concurrency"]), (row[key] or 0.0) * unit) for row in rows]
            for style, (_, key, unit) in lines.items()
        }
        most = max(value for each in points.values() for _, value in each) or 1.0
        if limit:
            points["limit"] = [(place(limit), 0.0), (place(limit), most)]
        drawn = chart(points, marks, HIGH, most)
        parts.append(f'</text><g transform="translate({GAP},{y})">{drawn}</g>')
        y += HIGH
    return document(WIDTH + 2 * GAP, y + GAP, parts)
