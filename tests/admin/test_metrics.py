"""The metrics: the page, and the values in it of a state that is known."""

from __future__ import annotations

import platform
from dataclasses import fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

import apfproxy
from apfproxy.admin.access_log import AccessLog
from apfproxy.admin.gathering import ClusterParts, ProcessParts, admin_state, gathered
from apfproxy.admin.metric_table import MAX_ENDPOINTS, OTHER, TABLE
from apfproxy.admin.metrics import MOST_SAMPLES, page
from apfproxy.admin.state import ProcessState, WorkerState, summed
from apfproxy.base import build
from apfproxy.base.faults import Faults, Part
from apfproxy.base.health_checks import READYZ, HealthRegistry
from apfproxy.base.tls_files import Lifetime
from apfproxy.flowcontrol.queue_set import RejectReason, WorkEstimate
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.proxy.counters import HandshakeFailure, Refusal
from apfproxy.upstream.counters import UpstreamFailure
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import MS, Scene
from tests.admin.servers import StillUpstream, StillWatch
from tests.fleet.views import fleet, member
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.objects.types import FlowControlObject

LEVELS = (flow_schema("everyone", "catch-all", group_subject("everyone")),)
LEVEL = {"priority_level": "queued"}
SCHEMA = {"flow_schema": "everyone", "priority_level": "queued"}
FLOW_CONTROL = "apiserver_flowcontrol_"


class Values:
    """The samples of a page."""

    def __init__(self, state: ProcessState) -> None:
        self.text = b"".join(page(TABLE, {"": state})).decode()
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in parse_text(self.text)
            for sample in family.samples
        }

    def of(self, name: str, labels: dict[str, str] | None = None, **more: str) -> float | None:
        """The value of a sample of flow control; None if there is none."""
        return self.samples.get(
            (FLOW_CONTROL + name, frozenset({**(labels or {}), **more}.items()))
        )

    def own(self, name: str, **labels: str) -> float | None:
        """The value of a sample of the proxy's own; None if there is none."""
        return self.samples.get((f"apfproxy_{name}", frozenset(labels.items())))

    def series(self, name: str) -> dict[tuple[str, ...], float]:
        """All samples of a name of the proxy's own, by the values of their labels."""
        return {
            tuple(value for _, value in sorted(labels)): number
            for (found, labels), number in self.samples.items()
            if found == f"apfproxy_{name}"
        }


# The page.


def many(*, schemas: int, levels: int) -> tuple[FlowControlObject, ...]:
    """So many FlowSchemas, of groups of their own, and levels."""
    return (
        *(priority_level(f"level-{number}") for number in range(levels)),
        *(
            flow_schema(
                f"schema-{number}", f"level-{number % levels}", group_subject(f"group-{number}")
            )
            for number in range(schemas)
        ),
    )


def test_text() -> None:
    """The page is Prometheus' own text, with bounds as Kubernetes writes them."""
    metrics = Scene(LEVELS).metrics
    text = b"".join(metrics.slices()).decode()
    types = [line for line in text.splitlines() if line.startswith("# TYPE")]

    assert metrics.content_type.startswith("text/plain; version=0.0.4")
    assert 'le="1",' in text
    assert len(types) == len(set(types)) > 100
    assert "process_cpu_seconds" in {family.name for family in parse_text(text)}


def test_slices_are_small() -> None:
    """However many levels and used FlowSchemas there are, each slice has a bounded part of them."""
    scene = Scene(many(schemas=300, levels=150))
    for number in range(300):
        scene.ask("ann", group=f"group-{number}")
    slices = list(scene.metrics.slices())
    samples = [sum(line[:1] != b"#" for line in each.splitlines()) for each in slices]
    text = b"".join(slices).decode()
    counts = {family.name: len(family.samples) for family in parse_text(text)}

    assert MOST_SAMPLES == max(samples)
    assert counts["apiserver_flowcontrol_work_estimated_seats"] == 300 * 11
    assert text.count("# TYPE") == len(counts)


def test_unused_schemas_have_no_series() -> None:
    """A FlowSchema that no request came to costs the page nothing; a used one shows as it is."""
    scene = Scene(many(schemas=1000, levels=1))
    scene.ticket("ann", group="group-7")
    found = Values(scene.state()).samples

    assert {"schema-7"} == {dict(labels).get("flow_schema") for _, labels in found} - {None}


def test_all_families_are_there() -> None:
    """Also where nothing was used: what reads them finds out what they mean."""
    scene = Scene(())
    full, lean = Values(scene.state()), Values(scene.state(is_full=False))
    names = [
        [line for line in each.text.splitlines() if line.startswith("# TYPE")]
        for each in (full, lean)
    ]

    assert names[0] == names[1]
    assert "apiserver_flowcontrol_priority_level_seat_utilization" in lean.text


def test_clusters() -> None:
    """Each sample of several clusters says whose it is; no family appears twice."""
    scenes = {name: Scene(LEVELS) for name in "abc"}
    scenes["b"].ticket("ann")
    clusters = [ClusterParts(name=name, serving=scene.parts()) for name, scene in scenes.items()]
    *_, state = gathered(
        ProcessParts(
            started_s=1.0,
            health=(),
            clusters=[*clusters, ClusterParts(name="wrong", serving=None)],
            has_several=True,
        )
    )
    found = Values(state)
    names = [line.split()[2] for line in found.text.splitlines() if line.startswith("# TYPE")]

    assert len(names) == len(set(names))
    assert {"a", "b", "c"} == {dict(labels).get("cluster") for _, labels in found.samples} - {None}
    assert ["b"] == [
        dict(labels)["cluster"]
        for name, labels in found.samples
        if name == "apiserver_flowcontrol_dispatched_requests_total"
    ]
    assert 0 == found.own("unrouted_requests_total")


# Flow control.


@pytest.fixture
def scene() -> Scene:
    """A level of two seats and one queue, where two requests execute and one waits, at 10 ms."""
    queuing = QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=1)
    scene = Scene(
        (
            priority_level("queued", queuing=queuing),
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


def test_flow_schemas(scene: Scene) -> None:
    """What executes and waits is of now; dispatches and rejections are counted by reason."""
    values = Values(scene.state())

    assert values.of("current_executing_requests", SCHEMA) == 2
    assert values.of("current_executing_seats", SCHEMA) == 2
    assert values.of("current_inqueue_requests", SCHEMA) == 1
    assert values.of("current_inqueue_seats", SCHEMA) == 1
    assert values.of("dispatched_requests_total", SCHEMA) == 2
    assert values.of("rejected_requests_total", SCHEMA, reason="queue-full") == 1
    assert values.of("rejected_requests_total", SCHEMA, reason="time-out") == 0
    assert values.of("rejected_requests_total", SCHEMA, reason="concurrency-limit") == 0


@pytest.mark.parametrize("reason", ["ban", "long-running", "rate"])
def test_rejections_by_additions(scene: Scene, reason: str) -> None:
    """They show once there are any, beside the reasons that Kubernetes has."""
    assert Values(scene.state()).of("rejected_requests_total", SCHEMA, reason=reason) is None
    for counters in scene.controller.flow_schema_counters():
        if counters.flow_schema == "everyone":
            setattr(counters, f"rejected_{reason.replace('-', '_')}", 3)

    assert Values(scene.state()).of("rejected_requests_total", SCHEMA, reason=reason) == 3


def test_durations_are_seconds(scene: Scene) -> None:
    """A wait of 25 ms is in the bucket up to 50 ms, and its sum is in seconds."""
    queue_set = scene.controller.levels["queued"].queue_set
    scene.clock.run_until(35 * MS)
    queue_set.finish(next(iter(queue_set.executing)))
    values = Values(scene.state())
    waited = {**SCHEMA, "execute": "true"}

    assert values.of("request_wait_duration_seconds_bucket", waited, le="0.02") == 2
    assert values.of("request_wait_duration_seconds_bucket", waited, le="0.05") == 3
    assert values.of("request_wait_duration_seconds_count", waited) == 3
    assert values.of("request_wait_duration_seconds_sum", waited) == 0.025
    assert values.of("request_execution_seconds_sum", SCHEMA, type="regular") == 0.035
    assert values.of("request_execution_seconds_count", SCHEMA, type="watch") is None


def test_estimates_and_lengths(scene: Scene) -> None:
    """Each request that came counts in the estimates; a queue length includes the request."""
    scene.controller.levels["queued"].queue_set.set_concurrency_limit(99)
    scene.ticket("ann", estimate=WorkEstimate(3))
    values = Values(scene.state())

    assert values.of("work_estimated_seats_bucket", SCHEMA, le="1") == 4
    assert values.of("work_estimated_seats_sum", SCHEMA) == 7
    assert values.of("request_queue_length_after_enqueue_count", SCHEMA) == 4
    assert values.of("watch_count_samples_count", SCHEMA) is None


def test_utilisation_counts_nanoseconds(scene: Scene) -> None:
    """For 4 ms one of two seats was in use, for 6 ms both; then a scrape looks at 13 ms."""
    scene.clock.run_until(13 * MS)
    values = Values(scene.state())
    executing = {**LEVEL, "phase": "executing"}

    name = "priority_level_seat_utilization"
    assert values.of(f"{name}_bucket", executing, le="0.4") == 0
    assert values.of(f"{name}_bucket", executing, le="0.5") == 4 * MS
    assert values.of(f"{name}_bucket", executing, le="1") == 13 * MS
    assert values.of(f"{name}_sum", executing) == 0.5 * 4 * MS + 9 * MS
    name = "priority_level_request_utilization"
    assert values.of(f"{name}_count", executing) == 13 * MS
    assert values.of(f"{name}_sum", LEVEL, phase="waiting") == 3 * MS
    assert values.of("demand_seats_bucket", LEVEL, le="1") == 10 * MS
    assert values.of("demand_seats_bucket", LEVEL, le="1.7") == 13 * MS


def test_limits_and_demand(scene: Scene) -> None:
    """The limits are those of the moment, demand is that of the last adjustment period."""
    scene.clock.run_until(20 * MS)
    scene.controller.adjust_limits()
    values = Values(scene.state())
    level = scene.controller.levels["queued"]

    for name in ("nominal", "lower", "upper", "current"):
        assert values.of(f"{name}_limit_seats", LEVEL) == 2
    assert values.of("seat_fair_frac") == scene.controller.seat_fair_frac
    assert values.of("target_seats", LEVEL) == level.target
    assert values.of("demand_seats_high_watermark", LEVEL) == 3
    assert values.of("demand_seats_average", LEVEL) == (4 * 1 + 6 * 2 + 10 * 3) / 20
    assert values.of("demand_seats_stdev", LEVEL) == level.demand.stats.stddev
    assert values.of("demand_seats_smoothed", LEVEL) == level.demand.smoothed


def test_virtual_time_is_in_seat_seconds(scene: Scene) -> None:
    """R ran at one seat for 4 ms and at two for 6 ms; S of what waits is at least its arrival R."""
    values = Values(scene.state())
    queue_set = scene.controller.levels["queued"].queue_set

    assert values.of("current_r", LEVEL) == 0.016
    assert values.of("dispatch_r", LEVEL) == queue_set.dispatch_r / 1e8
    assert values.of("latest_s", LEVEL) == queue_set.latest_s / 1e8
    for bound in ("min", "max"):
        assert values.of("next_s_bounds", LEVEL, bound=bound) == 0.016
        assert values.of("next_discounted_s_bounds", LEVEL, bound=bound) == pytest.approx(0.010)


def test_kinds(scene: Scene) -> None:
    """Requests are told apart by whether they change anything; what never was has no series."""
    name = "read_vs_write_current_requests_count"
    labels = {"phase": "executing", "request_kind": "mutating"}
    assert Values(scene.state(is_full=False)).of(name, labels) is None
    assert Values(scene.state()).of(name, labels) is not None
    scene.kind_meter.kinds[True].executing.begin(scene.clock.now_ns())
    scene.kind_meter.kinds[False].waiting.begin(scene.clock.now_ns())
    scene.clock.run_until(1010 * MS)
    values = Values(scene.state(is_full=False))
    mutating, reading = (frozenset({("request_kind", kind)}) for kind in ("mutating", "readOnly"))

    in_flight, in_queue = (f"apiserver_current_{each}_requests" for each in ("inflight", "inqueue"))
    assert (1, 0) == (values.samples[in_flight, mutating], values.samples[in_flight, reading])
    assert (0, 1) == (values.samples[in_queue, mutating], values.samples[in_queue, reading])
    assert values.of(name, labels) == 1010 * MS
    assert values.of("read_vs_write_current_requests_sum", labels) == 1000 * MS
    assert values.of(name, {**labels, "phase": "waiting"}) is None


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
    lean, full = Values(scene.state(is_full=False)), Values(scene.state())
    scene.ask("eve", group="strangers")
    used = Values(scene.state(is_full=False))

    assert (1, 1) == (
        lean.of("nominal_limit_seats", unused),
        lean.of("current_limit_seats", unused),
    )
    assert [None] * len(rest) == [lean.of(*each) for each in rest.items()]
    assert None not in [full.of(*each) for each in rest.items()]
    assert None not in [used.of(*each) for each in rest.items()]


def test_objects(scene: Scene) -> None:
    """Levels, and the FlowSchemas that responses may have named, with their UIDs."""
    found = Values(scene.state()).series("flowcontrol_object_info")

    assert ("FlowSchema", "everyone") in {each[:2] for each in found}
    assert ("FlowSchema", "catch-all") not in {each[:2] for each in found}
    assert ("PriorityLevelConfiguration", "queued") in {each[:2] for each in found}
    assert all(uid for _, _, uid in found)


# Requests, servers behind, and the process.


def test_each_counter_is_exposed_once() -> None:
    """Every plain counter of a cluster has a metric of its own, whose value it is."""
    scene = Scene(())
    numbers = [
        each.name
        for each in fields(scene.counters)
        if isinstance(getattr(scene.counters, each.name), int) and each.name != "is_observing"
    ]
    for number, name in enumerate(numbers, 1001):
        setattr(scene.counters, name, number)
    values = list(Values(scene.state()).samples.values())

    assert [1] * len(numbers) == [values.count(1001 + each) for each in range(len(numbers))]


def test_answers_by_code() -> None:
    """A code outside the usual range does not get a label value of its own."""
    scene = Scene(())
    scene.counters.pool.unattributed.answers.update({200: 2, 404: 1, 600: 1, 999: 1})
    scene.counters.count_own(404)
    scene.counters.listener.count_own(431)
    values = Values(scene.state())

    assert {("200",): 2, ("404",): 2, ("431",): 1, ("other",): 2} == (
        values.series("responses_total")
    )
    assert {("200",): 2, ("404",): 1, ("other",): 2} == values.series("upstream_answers_total")


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("connections_refused_total", Refusal),
        ("tls_handshake_failures_total", HandshakeFailure),
        ("upstream_failures_total", UpstreamFailure),
        ("overloaded", (Refusal.LOOP_DELAY, Refusal.MEMORY)),
        ("tls_handshakes_total", ("full", "resumed")),
        ("upstream_tls_handshakes_total", ("full", "resumed")),
        ("tunnels_total", ("SPDY/3.1", "websocket")),
    ],
)
def test_reasons(name: str, reasons: Iterable[str]) -> None:
    """Every reason is there from the start, so that a first increase is seen as one."""
    assert dict.fromkeys([(str(reason),) for reason in reasons], 0) == (
        Values(Scene(()).state()).series(name)
    )


def test_upstream() -> None:
    """Connections of the pool are active or idle; times are in seconds."""
    scene = Scene(())
    for head_ns in (30 * MS, 30 * MS, 99_000 * MS):
        scene.counters.pool.unattributed.head_ns.observe(head_ns)
    scene.counters.listener.loop_delay_ns = 250 * MS
    values = Values(scene.state())

    assert {("idle",): 2, ("active",): 3} == values.series("upstream_connections")
    assert values.own("upstream_waiters") == 1
    assert values.own("upstream_response_head_seconds_bucket", le="0.02") == 0
    assert values.own("upstream_response_head_seconds_bucket", le="0.05") == 2
    assert values.own("upstream_response_head_seconds_bucket", le="30") == 2
    assert values.own("upstream_response_head_seconds_bucket", le="+Inf") == 3
    assert values.own("upstream_response_head_seconds_sum") == 99.06
    assert values.own("loop_delay_seconds") == 0.25


@pytest.mark.parametrize(
    ("state", "expected"), [("up", {(): 1.0}), ("failing", {(): 0.0}), ("unknown", {})]
)
def test_upstream_up(state: str, expected: dict[tuple[str, ...], float]) -> None:
    """It is up or not, once that is known."""
    scene = Scene(())
    scene.upstream.state = state

    assert expected == Values(scene.state()).series("upstream_up")


def test_configuration() -> None:
    """Loads count by result; what is in force is the controller's."""
    scene = Scene((flow_schema("lost", "nowhere", group_subject("everyone")),))
    scene.loads.loaded(0, 1234.5)
    scene.loads.loaded(2, 2345.5)
    values = Values(scene.state())

    assert {("success",): 1, ("failure",): 1} == values.series("config_loads_total")
    assert values.own("config_problems") == 2
    assert values.own("config_last_success_timestamp_seconds") == 1234.5
    assert values.own("config_generation") == 2
    assert values.own("dangling_flow_schemas") == 1
    assert values.own("enforcement", mode="enforce") == 1


def test_build_info() -> None:
    """The versions of the program and of Python are labels, and whether it is compiled."""
    labels = {
        "version": apfproxy.__version__,
        "build": build.kind(),
        "python_version": platform.python_version(),
    }

    assert Values(ProcessState()).own("build_info", **labels) == 1


def behind(*states: str) -> Scene:
    """A cluster with servers in these states."""
    scene = Scene(())
    scene.upstream = StillUpstream(*states)
    return scene


def watches(scene: Scene) -> list[StillWatch]:
    return list(scene.upstream.watches.values())


def test_endpoints() -> None:
    """Each of several has its state, its load, and what requests counted."""
    scene = behind("up", "failing", "unknown")
    first, second, _ = watches(scene)
    first.endpoint.counters.answers.update({200: 3, 503: 1})
    first.endpoint.counters.fail(UpstreamFailure.CONNECT, "refused")
    first.endpoint.counters.head_ns.observe(1000 * MS)
    second.ejections_total = 2
    values, full = Values(scene.state(is_full=False)), Values(scene.state())
    a, b, c = (each.endpoint.url for each in watches(scene))

    assert {("unknown",): 1, ("up",): 1, ("ejected",): 0, ("failing",): 1, ("draining",): 0} == (
        values.series("endpoints")
    )
    assert {(a,): 1, (b,): 0} == values.series("endpoint_up")
    assert dict.fromkeys([(a,), (b,), (c,)], 5) == values.series("endpoint_seats")
    assert (2, 1) == tuple(
        values.own("endpoint_connections", endpoint=a, state=state) for state in ("active", "idle")
    )
    assert 2 == values.own("endpoint_ejections_total", endpoint=b)
    assert {("2xx", a): 3, ("5xx", a): 1} == values.series("endpoint_answers_total")
    assert {(a, "connect"): 1} == values.series("endpoint_failures_total")
    assert {(a,): 1} == values.series("endpoint_response_head_seconds_count")
    assert 15 == len(full.series("endpoint_answers_total"))
    assert {(a,): 1, (b,): 0, (c,): 0} == full.series("endpoint_response_head_seconds_count")


def test_one_endpoint() -> None:
    """Of the only server there is nothing but its state."""
    values = Values(behind("up").state())

    assert 1 == values.own("endpoints", state="up")
    assert {} == values.series("endpoint_seats")


def test_very_many_endpoints() -> None:
    """The last ones have series together, and no state."""
    values = Values(behind(*["up"] * (MAX_ENDPOINTS + 3)).state())

    assert 15 == values.own("endpoint_seats", endpoint=OTHER)
    assert len(values.series("endpoint_up")) == MAX_ENDPOINTS
    assert len(values.series("endpoint_seats")) == MAX_ENDPOINTS + 1


def test_an_endpoint_that_came_back() -> None:
    """While it is drained it is already there again: both are one series, with its new state."""
    state = behind("up").state()
    upstream = state.clusters[0].upstream
    (first,) = upstream.endpoints
    drained = msgspec.structs.replace(
        first, health=msgspec.structs.replace(first.health, state="draining")
    )
    upstream.endpoints.append(drained)
    values = Values(state)

    assert {(first.url,): 1} == values.series("endpoint_up")
    assert {(first.url,): 10} == values.series("endpoint_seats")


def test_authentication() -> None:
    """Each outcome counts by itself, and questions by their kind."""
    scene = Scene(())
    scene.authentications.crowded = 6
    api = SimpleNamespace(
        asked_total=10,
        failures_total=20,
        stand_ins_total=30,
        unasked_total={"queue-full": 1, "time-out": 2},
        line=SimpleNamespace(waiting=31, under_way=32),
    )
    values = Values(scene.state(reviews={"token": api}))
    names = (
        *("reviews_total", "review_failures_total", "review_stand_ins_total"),
        *("reviews_waiting", "reviews_under_way"),
    )

    assert 6 == values.own("authentications_total", result="crowded")
    assert 6 == len(values.series("authentications_total"))
    assert [10, 20, 30, 31, 32] == [values.own(name, kind="token") for name in names]
    assert {("token", "queue-full"): 1, ("token", "time-out"): 2} == (
        values.series("reviews_refused_total")
    )
    assert "reviews_total" not in Values(scene.state()).text


class Certificates:
    """Those of one file, which expire then."""

    file = ("upstream.tls.caFile", "ca.crt")

    def next_unix_s(self, _now_unix_s: float) -> float:
        return 4600.0


def test_expiries() -> None:
    """Each file with its setting, and when it expires; of a token also when it was issued."""
    tokens = [("upstream.tokenFile", "token", Lifetime(1000.0, 4600.0))]
    values = Values(Scene(()).state(certificates=[Certificates()], tokens=tokens))

    assert {("ca.crt", "upstream.tls.caFile"): 4600} == (
        values.series("certificate_expiry_timestamp_seconds")
    )
    assert {("token", "upstream.tokenFile"): 4600} == values.series(
        "token_expiry_timestamp_seconds"
    )
    assert {("token", "upstream.tokenFile"): 1000} == values.series(
        "token_issued_timestamp_seconds"
    )


def test_fleet() -> None:
    """Its own claim, and sums of what all said last."""
    view = fleet(
        member("a", is_self=True),
        member("b", is_alike=False, demand={"batch": 400}),
        member("c", 100, 40, age_s=9.0),
        lost=2,
    )
    values = Values(Scene(()).state(fleet=view))
    young = Values(Scene(()).state(fleet=fleet(state="joining", age_s=None)))

    assert {
        "members": 3,
        "silent_members": 1,
        "unlike_members": 1,
        "limit_seats": 600,
        "claims_seats": 500,
        "used_seats": 340,
        "demand_seats": 590,
        "claim_seats": 200,
        "in_force_seats": 200,
        "safe_share_seats": 200,
        "record_age_seconds": 0.4,
        "refreshes_total": 90,
        "conflicts_total": 4,
        "failures_total": 0,
        "lost_members_total": 2,
    } == {
        name.removeprefix("apfproxy_fleet_"): value
        for (name, labels), value in values.samples.items()
        if name.startswith("apfproxy_fleet_") and not labels
    }
    assert {("joining",): 0, ("held",): 1, ("expired",): 0, ("partitioned",): 0} == (
        values.series("fleet_state")
    )
    assert ({}, 1) == (
        young.series("fleet_record_age_seconds"),
        young.own("fleet_state", state="joining"),
    )


class Places(list[int]):
    """Some connections of the admin listener, and why others ended."""

    ended = {"replaced": 2, "late": 0}  # noqa: RUF012 - never changed


def process_parts(**more: Any) -> ProcessState:  # noqa: ANN401 - any part
    """The state of a process without clusters."""
    *_, state = gathered(ProcessParts(**{"started_s": 1.0, "health": HealthRegistry(), **more}))
    return state


def test_process() -> None:
    """The access log, traces, the admin listener and errors, whatever they are of."""
    log = AccessLog("log", 1, VirtualClock())
    log.write(lambda: b"a\n", 1)
    log.write(lambda: b"b\n", 1)
    log.write_errors = 3
    faults = Faults()
    faults.totals[Part.SWEEP] = 3
    traces = SimpleNamespace(exported=5, failed=4, dropped=3, queued=2)
    admin = admin_state(Places([1, 2, 3]), {"no-credentials": 4})  # type: ignore[arg-type]
    values = Values(
        process_parts(
            access_log=log, left_out={"refused": 4}, faults=faults, traces=traces, admin=admin
        )
    )

    assert {("refused",): 4} == values.series("access_log_left_out_total")
    assert {("written",): 0, ("dropped",): 1} == values.series("access_log_lines_total")
    assert (3, 1) == (
        values.own("access_log_errors_total"),
        values.own("access_log_queued_lines"),
    )
    assert {("exported",): 5, ("failed",): 4, ("dropped",): 3} == values.series("traces_total")
    assert 2 == values.own("traces_queued")
    assert {("no-credentials",): 4} == values.series("admin_refused_requests_total")
    assert 3 == values.own("admin_connections")
    assert {("replaced",): 2, ("late",): 0} == values.series("admin_connections_ended_total")
    assert {(part.value,): 3.0 if part is Part.SWEEP else 0.0 for part in Part} == (
        values.series("internal_errors_total")
    )
    assert "access_log" not in Values(process_parts()).text


def test_health() -> None:
    """Each check is well or not at the moment of the scrape, on whatever page it is."""
    problems: list[str | None] = ["the API cannot be followed", None]
    health = HealthRegistry()
    health.add("kubernetes", pages=(READYZ,), is_blocking=False, look=lambda: problems[0])
    failing = Values(process_parts(health=health)).series("healthcheck")
    problems.reverse()

    assert {("ping",): 1, ("kubernetes",): 0} == failing
    assert {("ping",): 1, ("kubernetes",): 1} == (
        Values(process_parts(health=health)).series("healthcheck")
    )


def test_workers() -> None:
    """A parent has the sum of its workers, or the series of each, and how they are."""
    scene = Scene(LEVELS)
    scene.ticket("ann")
    state = scene.state()
    workers = [
        WorkerState(name="1", state="serving"),
        WorkerState(name="2", state="silent", problem="it shows no life"),
    ]
    own = ProcessState(workers=workers, restarts=3)
    values = Values(summed([state, own], [state]))
    each = b"".join(page(TABLE, {"1": state, "2": state, "": own})).decode()

    assert 2 == values.of("dispatched_requests_total", SCHEMA | {"priority_level": "catch-all"})
    assert 1 == values.of("current_executing_requests", SCHEMA | {"priority_level": "catch-all"})
    assert {("1",): 1, ("2",): 0} == values.series("worker_up")
    assert (1, 1, 0) == tuple(
        values.own("workers", state=each) for each in ("serving", "silent", "ended")
    )
    assert 3 == values.own("worker_restarts_total")
    assert 2 == each.count("apiserver_flowcontrol_seat_fair_frac{worker=")
    assert 'apfproxy_worker_up{worker="1"} 1.0' in each
