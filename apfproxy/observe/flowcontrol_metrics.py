"""The flow-control metrics of kube-apiserver, with its names, labels and buckets.

Two deprecated ones are left out.  R and the bounds of S are computed at the scrape; kube-apiserver
sets them at each change and each dispatch, for which it visits all queues.

As there, a series with the label of a FlowSchema appears at its first use: gauges and counters with
the FlowSchema's first request, a histogram with its first observation.  Families come in parts (see
`families`), each read when it is made: a series is of one moment, the page is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.counters import (
    DURATION_BOUNDS_S,
    QUEUE_LENGTH_BOUNDS,
    SEATS_BOUNDS,
    WATCH_COUNT_BOUNDS,
)
from apfproxy.flowcontrol.kind_meter import RATIO_BOUNDS
from apfproxy.flowcontrol.meter import DEMAND_RATIO_BOUNDS, REQUEST_RATIO_BOUNDS, SEAT_RATIO_BOUNDS
from apfproxy.flowcontrol.seats import NS_PER_TICK
from apfproxy.observe.families import (
    NO_LABELS,
    NS_PER_S,
    HistogramFamily,
    bound_texts,
    counter_parts,
    gauge,
    gauge_parts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from apfproxy.clock import Clock
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.counters import FlowSchemaCounters, Histogram
    from apfproxy.flowcontrol.kind_meter import KindMeter
    from apfproxy.flowcontrol.meter import LevelMeter, RatioHistogram
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.flowcontrol.queue_set import QueueSet
    from apfproxy.observe.families import Labels

    LevelValue = Callable[[PriorityLevel], float]
    SchemaValue = Callable[[FlowSchemaCounters], int]
    SchemaHistogram = Callable[[FlowSchemaCounters], Histogram]
    SBounds = Callable[[QueueSet], tuple[int, int]]
    MeterHistogram = Callable[[LevelMeter], RatioHistogram]

PREFIX = "apiserver_flowcontrol_"
TICKS_PER_SEAT_SECOND = NS_PER_S // NS_PER_TICK

LEVEL_GAUGES: dict[str, tuple[str, LevelValue]] = {
    "nominal_limit_seats": (
        "Seats that the shares of the priority level buy it",
        lambda level: level.nominal_limit,
    ),
    "lower_limit_seats": (
        "Seats that the priority level never lends",
        lambda level: level.lower_limit,
    ),
    "upper_limit_seats": (
        "Seats that the priority level can have at most, borrowed ones included",
        lambda level: level.upper_limit,
    ),
    "current_limit_seats": (
        "Seats that the priority level has until the next adjustment",
        lambda level: level.current_limit,
    ),
    "target_seats": (
        "Seats that the priority level wanted at the last adjustment",
        lambda level: level.target,
    ),
    "demand_seats_high_watermark": (
        "Largest seat demand in the last adjustment period",
        lambda level: level.demand.stats.high_watermark,
    ),
    "demand_seats_average": (
        "Time-weighted average of the seat demand in the last adjustment period",
        lambda level: level.demand.stats.average,
    ),
    "demand_seats_stdev": (
        "Time-weighted standard deviation of the seat demand in the last adjustment period",
        lambda level: level.demand.stats.stddev,
    ),
    "demand_seats_smoothed": (
        "Envelope of the seat demand: rises at once, decays slowly",
        lambda level: level.demand.smoothed,
    ),
    "current_r": (
        "Progress meter R of the priority level now, in seat-seconds for each queue",
        lambda level: level.queue_set.current_r / TICKS_PER_SEAT_SECOND,
    ),
    "dispatch_r": (
        "R at the last dispatch from a queue",
        lambda level: level.queue_set.dispatch_r / TICKS_PER_SEAT_SECOND,
    ),
    "latest_s": (
        "Virtual start S of the request dispatched last from a queue",
        lambda level: level.queue_set.latest_s / TICKS_PER_SEAT_SECOND,
    ),
}

S_BOUNDS: dict[str, tuple[str, SBounds]] = {
    "next_s_bounds": (
        "Least and largest virtual start S among the oldest requests of the queues",
        lambda queue_set: queue_set.next_s_bounds(),
    ),
    "next_discounted_s_bounds": (
        "Like next_s_bounds, each S less the assumed work that its queue has in execution",
        lambda queue_set: queue_set.next_discounted_s_bounds(),
    ),
}

SCHEMA_GAUGES: dict[str, tuple[str, SchemaValue]] = {
    "current_executing_requests": (
        "Requests that execute; a WATCH counts until its initial events are through",
        lambda counters: counters.executing_requests,
    ),
    "current_executing_seats": (
        "Seats held by requests that execute or linger after their end",
        lambda counters: counters.executing_seats,
    ),
    "current_inqueue_requests": (
        "Requests that wait in queues",
        lambda counters: counters.inqueue_requests,
    ),
    "current_inqueue_seats": (
        "Seats that the requests waiting in queues will need",
        lambda counters: counters.inqueue_seats,
    ),
}

SCHEMA_COUNTERS: dict[str, tuple[str, SchemaValue]] = {
    "dispatched_requests_total": ("Requests that were given seats", lambda each: each.dispatched),
    "request_dispatch_no_accommodation_total": (
        "Times that a request was next but did not fit into the free seats",
        lambda counters: counters.no_accommodation,
    ),
}

REJECTIONS: tuple[tuple[str, SchemaValue], ...] = (
    ("concurrency-limit", lambda counters: counters.rejected_concurrency_limit),
    ("queue-full", lambda counters: counters.rejected_queue_full),
    ("time-out", lambda counters: counters.rejected_time_out),
)
ADDED_REJECTIONS: tuple[tuple[str, SchemaValue], ...] = (
    ("ban", lambda counters: counters.rejected_ban),
    ("long-running", lambda counters: counters.rejected_long_running),
    ("rate", lambda counters: counters.rejected_rate),
)
"""Reasons by additions to objects, which are rare: shown if there are any."""

SCHEMA_HISTOGRAMS: tuple[
    tuple[str, str, tuple[float, ...], int, tuple[tuple[Labels, SchemaHistogram], ...]], ...
] = (
    (
        "request_wait_duration_seconds",
        "Time in a queue, by whether the request was executed after it",
        DURATION_BOUNDS_S,
        NS_PER_S,
        (
            ({"execute": "true"}, lambda counters: counters.wait_executed_ns),
            ({"execute": "false"}, lambda counters: counters.wait_rejected_ns),
        ),
    ),
    (
        "request_execution_seconds",
        "Time of execution; of a WATCH its initialization",
        DURATION_BOUNDS_S,
        NS_PER_S,
        (
            ({"type": "regular"}, lambda counters: counters.execution_regular_ns),
            ({"type": "watch"}, lambda counters: counters.execution_watch_ns),
        ),
    ),
    (
        "request_queue_length_after_enqueue",
        "Length of the queue that a request joined, itself included",
        QUEUE_LENGTH_BOUNDS,
        1,
        (({}, lambda counters: counters.queue_length_after_enqueue),),
    ),
    (
        "work_estimated_seats",
        "Most seats that a request was estimated to need at any stage",
        SEATS_BOUNDS,
        1,
        (({}, lambda counters: counters.work_estimated_seats),),
    ),
    (
        "watch_count_samples",
        "Watches that a mutating request was estimated to notify",
        WATCH_COUNT_BOUNDS,
        1,
        (({}, lambda counters: counters.watch_count),),
    ),
)
"""Name, help, bounds in the metric's unit, recorded units in one of the metric's, series."""

METER_HISTOGRAMS: tuple[
    tuple[str, str, tuple[float, ...], tuple[tuple[Labels, MeterHistogram], ...]], ...
] = (
    (
        "priority_level_request_utilization",
        "Nanoseconds by requests that execute or wait, as a part of what there is room for",
        REQUEST_RATIO_BOUNDS,
        (
            ({"phase": "executing"}, lambda meter: meter.requests_executing),
            ({"phase": "waiting"}, lambda meter: meter.requests_waiting),
        ),
    ),
    (
        "priority_level_seat_utilization",
        "Nanoseconds by seats in use, as a part of the concurrency limit",
        SEAT_RATIO_BOUNDS,
        (({"phase": "executing"}, lambda meter: meter.seats_in_use),),
    ),
    (
        "demand_seats",
        "Nanoseconds by seats in use or waited for, as a part of the current limit",
        DEMAND_RATIO_BOUNDS,
        (({}, lambda meter: meter.seat_demand),),
    ),
)


class FlowControlMetrics:
    """Makes metric families of a controller and its counters, with canonical bounds or not."""

    def __init__(
        self, clock: Clock, controller: Controller, kind_meter: KindMeter, *, is_canonical: bool
    ) -> None:
        self._clock = clock
        self._controller = controller
        self._kind_meter = kind_meter
        self._is_canonical = is_canonical

    def collect(self) -> Iterator[Metric]:
        """All families, in parts."""
        yield from self._level_families(list(self._controller.levels.values()))
        used = [each for each in self._controller.flow_schema_counters() if each.has_counted]
        yield from self._schema_families(used)
        yield from self._kind_families()

    def _level_families(self, levels: list[PriorityLevel]) -> Iterator[Metric]:
        for name, (help_text, level_value) in LEVEL_GAUGES.items():
            yield from gauge_parts(
                PREFIX + name,
                help_text,
                ((labels, level_value(level)) for labels, level in synced(levels)),
            )
        for name, (help_text, bounds_of) in S_BOUNDS.items():
            yield from gauge_parts(
                PREFIX + name,
                help_text,
                (
                    ({**labels, "bound": bound}, ticks / TICKS_PER_SEAT_SECOND)
                    for labels, level in synced(levels)
                    for bound, ticks in zip(("min", "max"), bounds_of(level.queue_set), strict=True)
                ),
            )
        yield gauge(
            PREFIX + "seat_fair_frac",
            "Part of its target that each priority level not at a bound got last time",
            [(NO_LABELS, self._controller.seat_fair_frac)],
        )
        for name, help_text, ratio_bounds, level_series in METER_HISTOGRAMS:
            yield from self._histogram(PREFIX + name, help_text, ratio_bounds).parts(
                ({**labels, **own_labels}, ratios.counts, ratios.sum)
                for labels, level in synced(levels)
                for own_labels, ratios in (
                    (own_labels, meter_histogram(level.queue_set.meter))
                    for own_labels, meter_histogram in level_series
                )
            )

    def _schema_families(self, schemas: list[FlowSchemaCounters]) -> Iterator[Metric]:
        labelled: list[tuple[Labels, FlowSchemaCounters]] = [
            (
                {"flow_schema": counters.flow_schema, "priority_level": counters.priority_level},
                counters,
            )
            for counters in schemas
        ]
        for family_of, rows in ((gauge_parts, SCHEMA_GAUGES), (counter_parts, SCHEMA_COUNTERS)):
            for name, (help_text, value) in rows.items():
                yield from family_of(
                    PREFIX + name,
                    help_text,
                    ((labels, value(counters)) for labels, counters in labelled),
                )
        yield from counter_parts(
            PREFIX + "rejected_requests_total",
            "Requests that got no seats, by reason",
            (
                ({**labels, "reason": reason}, value(counters))
                for labels, counters in labelled
                for reason, value in REJECTIONS + ADDED_REJECTIONS
                if (reason, value) in REJECTIONS or value(counters)
            ),
        )
        for name, help_text, bounds, units, schema_series in SCHEMA_HISTOGRAMS:
            yield from self._histogram(PREFIX + name, help_text, bounds).parts(
                ({**labels, **own_labels}, histogram.counts, histogram.sum / units)
                for labels, counters in labelled
                for own_labels, histogram in (
                    (own_labels, schema_histogram(counters))
                    for own_labels, schema_histogram in schema_series
                )
                if any(histogram.counts)
            )

    def _kind_families(self) -> Iterator[Metric]:
        now_ns = self._clock.now_ns()
        yield gauge(
            "apiserver_current_inflight_requests",
            "Most requests that executed at a time in the last second, by kind",
            (
                ({"request_kind": kind}, value)
                for kind, value in self._kind_meter.in_flight(now_ns).items()
            ),
        )
        family = self._histogram(
            PREFIX + "read_vs_write_current_requests",
            "Nanoseconds by requests that execute or wait, as a part of the limit, by kind",
            RATIO_BOUNDS,
        )
        for usage in self._kind_meter.usages(now_ns):
            family.add(
                {"phase": usage.phase, "request_kind": usage.request_kind},
                usage.bucket_ns,
                usage.ratio_ns,
            )
        yield family.metric

    def _histogram(self, name: str, help_text: str, bounds: tuple[float, ...]) -> HistogramFamily:
        return HistogramFamily(
            name, help_text, bound_texts(bounds, is_canonical=self._is_canonical)
        )


def synced(levels: Iterable[PriorityLevel]) -> Iterator[tuple[Labels, PriorityLevel]]:
    """Each level with its label, its meters up to date when it is its turn."""
    for level in levels:
        level.queue_set.sync()
        yield {"priority_level": level.name}, level
