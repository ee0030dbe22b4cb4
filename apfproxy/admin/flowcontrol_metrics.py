"""The flow-control metrics of kube-apiserver, with its names, labels and buckets.

Two deprecated ones are left out.  R and the bounds of S are computed at the scrape; kube-apiserver
sets them at each change and each dispatch, for which it visits all queues.

As there, a series with the label of a FlowSchema appears at its first use: gauges and counters with
the FlowSchema's first request, a histogram with its first observation.  kube-apiserver has all
series of a level from the start, and so has the full set of metrics here; the lean one has only the
limits of a level that was never used.  Either has all families.

Families come in parts (see `families`), each read when it is made: a series is of one moment, the
page is not.
"""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any

from apfproxy.admin.families import (
    NO_LABELS,
    NS_PER_S,
    HistogramFamily,
    bound_texts,
    by_label,
    counter_parts,
    gauge,
    gauge_parts,
    readings,
)
from apfproxy.flowcontrol.meters import (
    DEMAND_RATIO_BOUNDS,
    DURATION_BOUNDS_S,
    QUEUE_LENGTH_BOUNDS,
    RATIO_BOUNDS,
    REQUEST_RATIO_BOUNDS,
    SEAT_RATIO_BOUNDS,
    SEATS_BOUNDS,
    WATCH_COUNT_BOUNDS,
)
from apfproxy.flowcontrol.queue_set import NS_PER_TICK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from apfproxy.admin.families import Labels, Series
    from apfproxy.base.clock import Clock
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.meters import FlowSchemaCounters, KindMeter
    from apfproxy.flowcontrol.priority_level import PriorityLevel

    HistogramRow = tuple[str, str, tuple[float, ...], int, dict[str, Labels]]
    """Name, help, bounds in the metric's unit, recorded units in one of the metric's, and the
    attributes that are its series, with their labels."""

PREFIX = "apiserver_flowcontrol_"
TICKS_PER_SEAT_SECOND = NS_PER_S // NS_PER_TICK

LIMIT_GAUGES: Series = {
    ("nominal_limit_seats", "nominal_limit"): "Seats that the shares of the priority level buy it",
    ("lower_limit_seats", "lower_limit"): "Seats that the priority level never lends",
    ("upper_limit_seats", "upper_limit"): (
        "Seats that the priority level can have at most, borrowed ones included"
    ),
    ("current_limit_seats", "current_limit"): (
        "Seats that the priority level has until the next adjustment"
    ),
}
LEVEL_GAUGES: Series = {
    ("target_seats", "target"): "Seats that the priority level wanted at the last adjustment",
    ("demand_seats_high_watermark", "demand.stats.high_watermark"): (
        "Largest seat demand in the last adjustment period"
    ),
    ("demand_seats_average", "demand.stats.average"): (
        "Time-weighted average of the seat demand in the last adjustment period"
    ),
    ("demand_seats_stdev", "demand.stats.stddev"): (
        "Time-weighted standard deviation of the seat demand in the last adjustment period"
    ),
    ("demand_seats_smoothed", "demand.smoothed"): (
        "Envelope of the seat demand: rises at once, decays slowly"
    ),
}
R_GAUGES: Series = {
    ("current_r", "queue_set.current_r"): (
        "Progress meter R of the priority level now, in seat-seconds for each queue"
    ),
    ("dispatch_r", "queue_set.dispatch_r"): "R at the last dispatch from a queue",
    ("latest_s", "queue_set.latest_s"): (
        "Virtual start S of the request dispatched last from a queue"
    ),
}
"""In ticks, shown in seat-seconds."""

S_BOUNDS = {
    "next_s_bounds": "Least and largest virtual start S among the oldest requests of the queues",
    "next_discounted_s_bounds": (
        "Like next_s_bounds, each S less the assumed work that its queue has in execution"
    ),
}
"""Named like the methods of a queue set that compute them."""

SCHEMA_GAUGES: Series = {
    ("current_executing_requests", "executing_requests"): (
        "Requests that execute; a WATCH counts until its initial events are through"
    ),
    ("current_executing_seats", "executing_seats"): (
        "Seats held by requests that execute or linger after their end"
    ),
    ("current_inqueue_requests", "inqueue_requests"): "Requests that wait in queues",
    ("current_inqueue_seats", "inqueue_seats"): (
        "Seats that the requests waiting in queues will need"
    ),
}
SCHEMA_COUNTERS: Series = {
    ("dispatched_requests_total", "dispatched"): "Requests that were given seats",
    ("request_dispatch_no_accommodation_total", "no_accommodation"): (
        "Times that a request was next but did not fit into the free seats"
    ),
}

REJECTIONS = ("concurrency-limit", "queue-full", "time-out")
ADDED_REJECTIONS = ("ban", "long-running", "rate")
"""Reasons by additions to objects, which are rare: shown if there are any."""

SCHEMA_HISTOGRAMS: tuple[HistogramRow, ...] = (
    (
        "request_wait_duration_seconds",
        "Time in a queue, by whether the request was executed after it",
        DURATION_BOUNDS_S,
        NS_PER_S,
        {"wait_executed_ns": {"execute": "true"}, "wait_rejected_ns": {"execute": "false"}},
    ),
    (
        "request_execution_seconds",
        "Time of execution; of a WATCH its initialization",
        DURATION_BOUNDS_S,
        NS_PER_S,
        {"execution_regular_ns": {"type": "regular"}, "execution_watch_ns": {"type": "watch"}},
    ),
    (
        "request_queue_length_after_enqueue",
        "Length of the queue that a request joined, itself included",
        QUEUE_LENGTH_BOUNDS,
        1,
        {"queue_length_after_enqueue": {}},
    ),
    (
        "work_estimated_seats",
        "Most seats that a request was estimated to need at any stage",
        SEATS_BOUNDS,
        1,
        {"work_estimated_seats": {}},
    ),
    (
        "watch_count_samples",
        "Watches that a mutating request was estimated to notify",
        WATCH_COUNT_BOUNDS,
        1,
        {"watch_count": {}},
    ),
)
METER_HISTOGRAMS: tuple[HistogramRow, ...] = (
    (
        "priority_level_request_utilization",
        "Nanoseconds by requests that execute or wait, as a part of what there is room for",
        REQUEST_RATIO_BOUNDS,
        1,
        {"requests_executing": {"phase": "executing"}, "requests_waiting": {"phase": "waiting"}},
    ),
    (
        "priority_level_seat_utilization",
        "Nanoseconds by seats in use, as a part of the concurrency limit",
        SEAT_RATIO_BOUNDS,
        1,
        {"seats_in_use": {"phase": "executing"}},
    ),
    (
        "demand_seats",
        "Nanoseconds by seats in use or waited for, as a part of the current limit",
        DEMAND_RATIO_BOUNDS,
        1,
        {"seat_demand": {}},
    ),
)


class FlowControlMetrics:
    """Makes metric families of a controller and its counters.

    Args:
        clock: The controller's.
        controller: What they are of.
        kind_meter: What those by request kind are of.
        is_full: Whether to have series of what was never used, as of now.
    """

    def __init__(
        self,
        clock: Clock,
        controller: Controller,
        kind_meter: KindMeter,
        *,
        is_full: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._controller = controller
        self._kind_meter = kind_meter
        self._is_full = is_full

    def collect(self) -> Iterator[Metric]:
        """All families, in parts."""
        is_full = self._is_full()
        yield from self._level_families(list(self._controller.levels.values()), is_full=is_full)
        used = [each for each in self._controller.flow_schema_counters() if each.has_counted]
        yield from self._schema_families(used)
        yield from self._kind_families(is_full=is_full)

    def _level_families(self, levels: list[PriorityLevel], *, is_full: bool) -> Iterator[Metric]:
        used = levels if is_full else list(filter(was_used, levels))
        for rows, units, shown in (
            (LIMIT_GAUGES, 1, levels),
            (LEVEL_GAUGES, 1, used),
            (R_GAUGES, TICKS_PER_SEAT_SECOND, used),
        ):
            for name, help_text, value in readings(PREFIX, rows):
                values = ((labels, value(level) / units) for labels, level in synced(shown))
                yield from gauge_parts(name, help_text, values)
        for name, help_text in S_BOUNDS.items():
            bounds_of = methodcaller(name)
            yield from gauge_parts(
                PREFIX + name,
                help_text,
                (
                    ({**labels, "bound": bound}, ticks / TICKS_PER_SEAT_SECOND)
                    for labels, level in synced(used)
                    for bound, ticks in zip(("min", "max"), bounds_of(level.queue_set), strict=True)
                ),
            )
        yield gauge(
            PREFIX + "seat_fair_frac",
            "Part of its target that each priority level not at a bound got last time",
            [(NO_LABELS, self._controller.seat_fair_frac)],
        )
        for row in METER_HISTOGRAMS:
            yield from self._histogram_parts(
                row, ((labels, level.queue_set.meter) for labels, level in synced(used))
            )

    def _schema_families(self, schemas: list[FlowSchemaCounters]) -> Iterator[Metric]:
        labelled: list[tuple[Labels, FlowSchemaCounters]] = [
            (
                {"flow_schema": counters.flow_schema, "priority_level": counters.priority_level},
                counters,
            )
            for counters in schemas
        ]
        for parts_of, rows in ((gauge_parts, SCHEMA_GAUGES), (counter_parts, SCHEMA_COUNTERS)):
            for name, help_text, value in readings(PREFIX, rows):
                values = ((labels, value(counters)) for labels, counters in labelled)
                yield from parts_of(name, help_text, values)
        yield from counter_parts(
            PREFIX + "rejected_requests_total",
            "Requests that got no seats, by reason",
            (
                ({**labels, "reason": reason}, rejected)
                for labels, counters in labelled
                for reason in REJECTIONS + ADDED_REJECTIONS
                if (rejected := getattr(counters, f"rejected_{reason.replace('-', '_')}"))
                or reason in REJECTIONS
            ),
        )
        for row in SCHEMA_HISTOGRAMS:
            yield from self._histogram_parts(row, labelled, only_used=True)

    def _histogram_parts(
        self, row: HistogramRow, recorded: Iterable[tuple[Labels, Any]], *, only_used: bool = False
    ) -> Iterator[Metric]:
        name, help_text, bounds, units, attributes = row

        def series() -> Iterator[tuple[Labels, list[int], float]]:
            for labels, owner in recorded:
                for attribute, own_labels in attributes.items():
                    histogram = getattr(owner, attribute)
                    if not only_used or any(histogram.counts):
                        yield {**labels, **own_labels}, histogram.counts, histogram.sum / units

        return self._histogram(PREFIX + name, help_text, bounds).parts(series())

    def _kind_families(self, *, is_full: bool) -> Iterator[Metric]:
        now_ns = self._clock.now_ns()
        yield gauge(
            "apiserver_current_inflight_requests",
            "Most requests that executed at a time in the last second, by kind",
            by_label("request_kind", self._kind_meter.in_flight(now_ns)),
        )
        yield gauge(
            "apiserver_current_inqueue_requests",
            "Most requests that waited at a time in the last second, by kind",
            by_label("request_kind", self._kind_meter.in_queue(now_ns)),
        )
        family = self._histogram(
            PREFIX + "read_vs_write_current_requests",
            "Nanoseconds by requests that execute or wait, as a part of the limit, by kind",
            RATIO_BOUNDS,
        )
        for usage in self._kind_meter.usages(now_ns):
            if not is_full and not usage.ratio_ns:
                continue  # none of the kind ever was in this phase
            family.add(
                {"phase": usage.phase, "request_kind": usage.request_kind},
                usage.bucket_ns,
                usage.ratio_ns,
            )
        yield family.metric

    def _histogram(self, name: str, help_text: str, bounds: tuple[float, ...]) -> HistogramFamily:
        return HistogramFamily(name, help_text, bound_texts(bounds))


def synced(levels: Iterable[PriorityLevel]) -> Iterator[tuple[Labels, PriorityLevel]]:
    """Each level with its label, its meters up to date when it is its turn."""
    for level in levels:
        level.queue_set.sync()
        yield {"priority_level": level.name}, level


def was_used(level: PriorityLevel) -> bool:
    """Whether any request has come to a level."""
    counts = level.queue_set
    return counts.dispatched_total + counts.rejected_total + counts.requests_waiting > 0
