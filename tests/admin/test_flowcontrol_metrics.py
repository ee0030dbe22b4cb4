"""The values of the flow-control metrics, for a controller with a known history."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from apfproxy.admin.flowcontrol_metrics import FlowControlMetrics
from apfproxy.flowcontrol.queue_set import RejectReason, WorkEstimate
from apfproxy.objects.types import QueuingConfiguration
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import MS, Scene

LEVEL = {"priority_level": "queued"}
SCHEMA = {"flow_schema": "everyone", "priority_level": "queued"}


class Values:
    """Samples of a scene, by name without the common prefix and by labels."""

    def __init__(self, scene: Scene, *, is_full: bool = False) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(
            FlowControlMetrics(
                scene.clock,
                scene.controller,
                scene.kind_meter,
                is_full=lambda: is_full,
            )
        )

    def of(self, name: str, labels: dict[str, str]) -> float | None:
        """The value of a sample; None if there is none."""
        return self.registry.get_sample_value(f"apiserver_flowcontrol_{name}", labels)


@pytest.fixture
def scene() -> Scene:
    """A level of two seats and one queue, where two requests execute and one waits, at 10 ms."""
    scene = Scene(
        (
            priority_level(
                "queued",
                queuing=QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=1),
            ),
            flow_schema("everyone", "queued", group_subject("everyone")),
        ),
        server_concurrency_limit=2,
    )
    scene.ticket("ann")
    scene.clock.run_until(4 * MS)
    scene.ticket("ann")
    scene.clock.run_until(10 * MS)
    scene.ticket("ann")
    assert scene.ask("ann") is RejectReason.QUEUE_FULL
    return scene


def test_gauges_of_now(scene: Scene) -> None:
    """What executes and what waits is what there is now."""
    values = Values(scene)

    assert values.of("current_executing_requests", SCHEMA) == 2
    assert values.of("current_executing_seats", SCHEMA) == 2
    assert values.of("current_inqueue_requests", SCHEMA) == 1
    assert values.of("current_inqueue_seats", SCHEMA) == 1


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("ban", "rejected_ban"),
        ("long-running", "rejected_long_running"),
        ("rate", "rejected_rate"),
    ],
)
def test_rejections_by_additions(scene: Scene, reason: str, name: str) -> None:
    """They show once there are any, beside the reasons that Kubernetes has."""
    labels = {**SCHEMA, "reason": reason}
    assert Values(scene).of("rejected_requests_total", labels) is None
    for counters in scene.controller.flow_schema_counters():
        if counters.flow_schema == "everyone":
            setattr(counters, name, 3)

    assert Values(scene).of("rejected_requests_total", labels) == 3


def test_counters(scene: Scene) -> None:
    """Dispatches and rejections are counted, each rejection by its reason."""
    values = Values(scene)

    assert values.of("dispatched_requests_total", SCHEMA) == 2
    assert values.of("rejected_requests_total", {**SCHEMA, "reason": "queue-full"}) == 1
    assert values.of("rejected_requests_total", {**SCHEMA, "reason": "time-out"}) == 0
    assert values.of("rejected_requests_total", {**SCHEMA, "reason": "concurrency-limit"}) == 0


def test_durations_are_seconds(scene: Scene) -> None:
    """A wait of 25 ms is in the bucket up to 50 ms, and its sum is in seconds."""
    queue_set = scene.controller.levels["queued"].queue_set
    scene.clock.run_until(35 * MS)
    queue_set.finish(next(iter(queue_set.executing)))
    values = Values(scene)
    waited = {**SCHEMA, "execute": "true"}

    assert values.of("request_wait_duration_seconds_bucket", {**waited, "le": "0.02"}) == 2
    assert values.of("request_wait_duration_seconds_bucket", {**waited, "le": "0.05"}) == 3
    assert values.of("request_wait_duration_seconds_count", waited) == 3
    assert values.of("request_wait_duration_seconds_sum", waited) == 0.025
    regular = {**SCHEMA, "type": "regular"}
    assert values.of("request_execution_seconds_sum", regular) == 0.035
    assert values.of("request_execution_seconds_count", {**SCHEMA, "type": "watch"}) is None


def test_estimates_and_lengths(scene: Scene) -> None:
    """Each request that came counts in the estimates; a queue length includes the request."""
    scene.controller.levels["queued"].queue_set.set_concurrency_limit(99)
    scene.ticket("ann", estimate=WorkEstimate(3))
    values = Values(scene)

    assert values.of("work_estimated_seats_bucket", {**SCHEMA, "le": "1"}) == 4
    assert values.of("work_estimated_seats_sum", SCHEMA) == 7
    assert values.of("request_queue_length_after_enqueue_count", SCHEMA) == 4
    assert values.of("watch_count_samples_count", SCHEMA) is None


def test_utilisation_counts_nanoseconds(scene: Scene) -> None:
    """For 4 ms one of two seats was in use, for 6 ms both; then a scrape looks at 13 ms."""
    scene.clock.run_until(13 * MS)
    values = Values(scene)
    executing = {**LEVEL, "phase": "executing"}

    name = "priority_level_seat_utilization"
    assert values.of(f"{name}_bucket", {**executing, "le": "0.4"}) == 0
    assert values.of(f"{name}_bucket", {**executing, "le": "0.5"}) == 4 * MS
    assert values.of(f"{name}_bucket", {**executing, "le": "1"}) == 13 * MS
    assert values.of(f"{name}_sum", executing) == 0.5 * 4 * MS + 9 * MS
    name = "priority_level_request_utilization"
    assert values.of(f"{name}_count", executing) == 13 * MS
    assert values.of(f"{name}_sum", {**LEVEL, "phase": "waiting"}) == 3 * MS
    assert values.of("demand_seats_bucket", {**LEVEL, "le": "1"}) == 10 * MS
    assert values.of("demand_seats_bucket", {**LEVEL, "le": "1.7"}) == 13 * MS


def test_limits(scene: Scene) -> None:
    """A level that neither lends nor borrows has its nominal limit throughout."""
    values = Values(scene)

    for name in ("nominal", "lower", "upper", "current"):
        assert values.of(f"{name}_limit_seats", LEVEL) == 2
    assert values.of("seat_fair_frac", {}) == scene.controller.seat_fair_frac
    assert values.of("target_seats", LEVEL) == scene.controller.levels["queued"].target


def test_demand(scene: Scene) -> None:
    """Statistics of demand are those of the adjustment period that ended last."""
    scene.clock.run_until(20 * MS)
    scene.controller.adjust_limits()
    values = Values(scene)
    stats = scene.controller.levels["queued"].demand.stats

    assert values.of("demand_seats_high_watermark", LEVEL) == 3
    assert values.of("demand_seats_average", LEVEL) == (4 * 1 + 6 * 2 + 10 * 3) / 20
    assert values.of("demand_seats_stdev", LEVEL) == stats.stddev
    smoothed = scene.controller.levels["queued"].demand.smoothed
    assert values.of("demand_seats_smoothed", LEVEL) == smoothed


def test_virtual_time_is_in_seat_seconds(scene: Scene) -> None:
    """R ran at one seat for 4 ms and at two for 6 ms; S of what waits is at least its arrival R."""
    values = Values(scene)
    queue_set = scene.controller.levels["queued"].queue_set

    assert values.of("current_r", LEVEL) == 0.016
    assert values.of("dispatch_r", LEVEL) == queue_set.dispatch_r / 1e8
    assert values.of("latest_s", LEVEL) == queue_set.latest_s / 1e8
    for bound in ("min", "max"):
        labels = {**LEVEL, "bound": bound}
        assert values.of("next_s_bounds", labels) == 0.016
        assert values.of("next_discounted_s_bounds", labels) == pytest.approx(0.010)


def test_kinds(scene: Scene) -> None:
    """Requests are told apart by whether they change anything."""
    scene.kind_meter.kinds[True].executing.begin(scene.clock.now_ns())
    scene.kind_meter.kinds[False].waiting.begin(scene.clock.now_ns())
    scene.clock.run_until(1010 * MS)
    values = Values(scene)
    mutating = {"request_kind": "mutating"}
    labels = {"phase": "executing", **mutating}

    in_flight = "apiserver_current_inflight_requests"
    assert values.registry.get_sample_value(in_flight, mutating) == 1
    assert values.registry.get_sample_value(in_flight, {"request_kind": "readOnly"}) == 0
    in_queue = "apiserver_current_inqueue_requests"
    assert values.registry.get_sample_value(in_queue, mutating) == 0
    assert values.registry.get_sample_value(in_queue, {"request_kind": "readOnly"}) == 1
    assert values.of("read_vs_write_current_requests_count", labels) == 1010 * MS
    assert values.of("read_vs_write_current_requests_sum", labels) == 1000 * MS


def test_unused_levels(scene: Scene) -> None:
    """A level has its limits from the start, and all else from its first request on."""
    unused = {"priority_level": "catch-all"}
    rest = {
        "target_seats": unused,
        "current_r": unused,
        "next_s_bounds": {**unused, "bound": "min"},
        "demand_seats_count": unused,
        "priority_level_seat_utilization_count": {**unused, "phase": "executing"},
    }
    lean, full = Values(scene), Values(scene, is_full=True)

    assert 1 == lean.of("nominal_limit_seats", unused)
    assert 1 == lean.of("current_limit_seats", unused)
    assert [None] * len(rest) == [lean.of(*each) for each in rest.items()]
    assert None not in [full.of(*each) for each in rest.items()]
    scene.ask("eve", group="strangers")
    assert None not in [lean.of(*each) for each in rest.items()]


def test_unused_kinds(scene: Scene) -> None:
    """A kind of requests has series from the first request of it on, in each phase."""
    name = "read_vs_write_current_requests_count"
    labels = {"phase": "executing", "request_kind": "mutating"}
    lean, full = Values(scene), Values(scene, is_full=True)
    assert (None, True) == (lean.of(name, labels), full.of(name, labels) is not None)
    scene.kind_meter.kinds[True].executing.begin(scene.clock.now_ns())
    scene.kind_meter.kinds[False].waiting.begin(scene.clock.now_ns())
    scene.clock.run_until(20 * MS)

    assert lean.of(name, labels) is not None
    assert None is lean.of(name, {**labels, "phase": "waiting"})
    assert None is lean.of(name, {**labels, "request_kind": "readOnly"})


def test_all_families_are_there() -> None:
    """Also where nothing was used: what reads them finds out what they mean."""
    scene = Scene(())
    families = {}
    for is_full in (False, True):
        names = [metric.name for metric in Values(scene, is_full=is_full).registry.collect()]
        families[is_full] = list(dict.fromkeys(names))

    assert families[True] == families[False]
    assert "apiserver_flowcontrol_priority_level_seat_utilization" in families[False]
