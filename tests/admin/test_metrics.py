"""The metrics: the page, and the values in it of a state that is known."""

from __future__ import annotations

import re
from dataclasses import fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from apfproxy.admin.access_log import AccessLog
from apfproxy.admin.gathering import admin_state, gathered
from apfproxy.admin.metric_table import MAX_ENDPOINTS, OTHER, TABLE
from apfproxy.admin.metrics import CONTENT_TYPE, MOST_SAMPLES, page
from apfproxy.admin.state import ClusterState, summed
from apfproxy.base.faults import Faults, Part
from apfproxy.base.health_checks import READYZ, HealthRegistry
from apfproxy.base.tls_files import Lifetime
from apfproxy.flowcontrol.limit_view import LimitView
from apfproxy.flowcontrol.ticket import RejectReason, WorkEstimate
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.upstream.counters import UpstreamFailure
from tests.admin.scene import MS, Scene, StillUpstream
from tests.fleet.views import fleet, member
from tests.support.builders import flow_schema, group_subject, priority_level
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from apfproxy.admin.state import ProcessState
    from apfproxy.objects.types import FlowControlObject

LEVELS = (flow_schema("everyone", "catch-all", group_subject("everyone")),)
SHORT = {"fc": "apiserver_flowcontrol_", "own": "apfproxy_", "api": "apiserver_"}
Sample = tuple[str, frozenset[str]]


def text_of(*states: ProcessState) -> str:
    named = {"": states[0]} if len(states) == 1 else {str(n): of for n, of in enumerate(states, 1)}
    return b"".join(page(TABLE, named)).decode()


def key_of(series: str) -> Sample:
    name, _, labels = series.rstrip("}").partition("{")
    return name, frozenset(re.findall(r'\w+="[^"]*"', labels))


def samples(text: str) -> dict[Sample, float]:
    lines = [each.rpartition(" ") for each in text.splitlines() if each[:1] != "#"]
    return {key_of(series): float(value) for series, _, value in lines}


def check(state: ProcessState, expected: str) -> None:
    """Check series: a line has a name and labels without quotes, and their value, or none.

    A name that ends in `*` has so many series.  `fc:`, `own:` and `api:` begin names.  In place of
    `@` comes each of what follows `|`.
    """
    found = samples(text_of(state))
    lines = []
    for line in filter(None, map(str.strip, expected.splitlines())):
        stem, _, several = line.rpartition(" | ")
        pairs = [each.split() for each in several.split("; ")] if stem else [line.rsplit(" ", 1)]
        lines += [(stem.replace("@", name) or name, value) for name, value in pairs]
    for series, value in lines:
        prefix, _, rest = series.partition(":")
        name, _, labels = (SHORT[prefix] + rest).partition("{")
        if name.endswith("*"):
            number = sum(each == name[:-1] for each, _ in found)
            assert int(value) == number, series
            continue
        quoted = re.sub(r"(\w+)=([^,}]*)", r'\1="\2"', labels)
        got = found.get(key_of(f"{name}{{{quoted}"))
        assert (None if value == "none" else pytest.approx(float(value))) == got, series


# The page.


def many(*, schemas: int, levels: int) -> tuple[FlowControlObject, ...]:
    names = [(f"schema-{n}", f"level-{n % levels}", f"group-{n}") for n in range(schemas)]
    return (
        *(priority_level(f"level-{number}") for number in range(levels)),
        *(flow_schema(name, level, group_subject(group)) for name, level, group in names),
    )


def test_text() -> None:
    """The page is Prometheus' own text, with bounds as Kubernetes writes them."""
    text = b"".join(Scene(LEVELS).metrics()).decode()
    types = [line for line in text.splitlines() if line.startswith("# TYPE")]

    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
    assert 'le="1",' in text
    assert len(types) == len(set(types)) > 100
    assert "process_cpu_seconds" in {family.name for family in parse_text(text)}


def test_slices_and_unused_schemas_are_small() -> None:
    scene = Scene(many(schemas=60, levels=30))
    for number in range(59):
        scene.ask("ann", group=f"group-{number}")
    slices = list(scene.metrics())
    sizes = [sum(line[:1] != b"#" for line in each.splitlines()) for each in slices]
    text = b"".join(slices).decode()
    counts = {family.name: len(family.samples) for family in parse_text(text)}

    assert MOST_SAMPLES == max(sizes)
    assert counts["apiserver_flowcontrol_work_estimated_seats"] == 59 * 11
    assert text.count("# TYPE") == len(counts)
    assert "schema-59" not in text


def test_all_families_are_there() -> None:
    full, lean = (text_of(Scene(()).state(is_full=each)) for each in (True, False))

    assert re.findall("# TYPE .*", full) == re.findall("# TYPE .*", lean)
    assert "apiserver_flowcontrol_priority_level_seat_utilization" in lean


def test_clusters() -> None:
    """Each sample of several clusters says whose it is; no family appears twice."""
    scenes = {name: Scene(LEVELS) for name in "abc"}
    scenes["b"].ticket("ann")
    clusters = [scene.cluster(name) for name, scene in scenes.items()]
    clusters.append(ClusterState(name="wrong"))
    state = process(clusters=clusters, has_several=True)
    types = re.findall("# TYPE .*", text_of(state))

    assert len(types) == len(set(types))
    assert {"a", "b", "c"} == set(re.findall('cluster="(.*?)"', text_of(state)))
    check(
        state,
        """
        fc:dispatched_requests_total* 1
        fc:dispatched_requests_total{cluster=b,flow_schema=everyone,priority_level=catch-all} 1
        own:unrouted_requests_total 0
        """,
    )


# Flow control.


@pytest.fixture
def scene() -> Scene:
    """A level of two seats and one queue, where two requests execute and one waits, at 10 ms."""
    queuing = QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=1)
    everyone = flow_schema("everyone", "queued", group_subject("everyone"))
    scene = Scene((priority_level("queued", queuing=queuing), everyone), 2)
    scene.ticket("ann")
    scene.clock.run_until(4 * MS)
    scene.ticket("ann")
    scene.clock.run_until(10 * MS)
    scene.ticket("ann")
    assert scene.ask("ann") is RejectReason.QUEUE_FULL
    return scene


def of_schema(text: str) -> str:
    return text.replace("SCHEMA", "flow_schema=everyone,priority_level=queued")


def test_flow_schemas(scene: Scene) -> None:
    """Rejections by additions, and what clients left, show once there are any."""
    for counters in scene.controller.flow_schema_counters():
        counters.rejected_rate = 3
        counters.cancelled = 2
        counters.paced_ns = 1500 * MS
    check(
        scene.state(),
        of_schema("""
        fc:current_@{SCHEMA} | executing_requests 2; executing_seats 2; inqueue_requests 1
        fc:current_inqueue_seats{SCHEMA} 1
        fc:dispatched_requests_total{SCHEMA} 2
        fc:rejected_requests_total{SCHEMA,reason=@} | queue-full 1; time-out 0
        fc:rejected_requests_total{SCHEMA,reason=@} | concurrency-limit 0; rate 3; ban none
        fc:rejected_requests_total{SCHEMA,reason=cancelled} 2
        fc:rejected_requests_total{SCHEMA,reason=long-running} none
        own:paced_seconds_total{SCHEMA} 1.5
        """),
    )
    scene.controller.levels["queued"].queue_set.set_concurrency_limit(99)
    scene.ticket("ann", estimate=WorkEstimate(3))
    check(
        scene.state(),
        of_schema("""
        fc:work_estimated_seats_bucket{SCHEMA,le=1} 4
        fc:work_estimated_seats_sum{SCHEMA} 7
        fc:request_queue_length_after_enqueue_count{SCHEMA} 4
        fc:watch_count_samples_count{SCHEMA} none
        """),
    )


def test_durations_are_seconds(scene: Scene) -> None:
    queue_set = scene.controller.levels["queued"].queue_set
    scene.clock.run_until(35 * MS)
    queue_set.finish(next(iter(queue_set.executing)))
    check(
        scene.state(),
        of_schema("""
        fc:request_wait_duration_seconds_bucket{SCHEMA,execute=true,le=@} | 0.02 2; 0.05 3
        fc:request_wait_duration_seconds_@{SCHEMA,execute=true} | count 3; sum 0.025
        fc:request_wait_duration_seconds_count{SCHEMA,execute=false} 1
        fc:request_execution_seconds_sum{SCHEMA,type=regular} 0.035
        fc:request_execution_seconds_count{SCHEMA,type=watch} none
        """),
    )


def test_tokens(scene: Scene) -> None:
    """Tokens have series once some of the FlowSchema were counted, in workers together."""
    check(scene.state(), "own:completions_total* 0\nown:completion_first_token_seconds_count* 0")
    (counters,) = scene.controller.flow_schema_counters()
    meter = counters.token_meter()
    meter.open_streams, meter.completions, meter.prompt_tokens = 1, 2, 30
    meter.count(400)
    meter.first_token_ns.observe(300 * MS)
    meter.first_token_executing_ns.observe(200 * MS)
    meter.between_tokens_ns.observe_each(4, 80 * MS)
    state = scene.state()
    check(
        state,
        of_schema("""
        own:completion@{SCHEMA} | s_total 2; _streams_open 1; _prompt_tokens_total 30
        own:completion_tokens_total{SCHEMA} 400
        own:completion_first_token_seconds_sum{SCHEMA,since=@} | arrival 0.3; dispatch 0.2
        own:completion_first_token_seconds_bucket{SCHEMA,since=arrival,le=@} | 0.25 0; 0.5 1
        own:completion_between_tokens_seconds_@{SCHEMA} | sum 0.08; count 4
        own:completion_between_tokens_seconds_bucket{SCHEMA,le=@} | 0.01 0; 0.025 4
        """),
    )
    check(
        summed([state, scene.state(is_full=False)], [scene.state()]),
        of_schema("""
        own:completion@{SCHEMA} | s_total 6; _streams_open 2; _tokens_total 1200
        own:completion_between_tokens_seconds_count{SCHEMA} 12
        """),
    )


def test_utilisation_counts_nanoseconds(scene: Scene) -> None:
    scene.clock.run_until(13 * MS)
    check(
        scene.state(),
        """
        fc:priority_level_seat_utilization_bucket{priority_level=queued,phase=executing,le=0.4} 0
        fc:priority_level_seat_utilization_bucket{priority_level=queued,phase=executing,le=0.5} 4e6
        fc:priority_level_seat_utilization_bucket{priority_level=queued,phase=executing,le=1} 13e6
        fc:priority_level_seat_utilization_sum{priority_level=queued,phase=executing} 11e6
        fc:priority_level_request_utilization_count{priority_level=queued,phase=executing} 13e6
        fc:priority_level_request_utilization_sum{priority_level=queued,phase=waiting} 3e6
        fc:demand_seats_bucket{priority_level=queued,le=@} | 1 10e6; 1.7 13e6
        """,
    )


def test_limits_demand_and_virtual_time(scene: Scene) -> None:
    level = scene.controller.levels["queued"]
    check(
        scene.state(),
        f"""
        fc:current_r{{priority_level=queued}} 0.016
        fc:dispatch_r{{priority_level=queued}} {level.queue_set.dispatch_r / 1e8}
        fc:latest_s{{priority_level=queued}} {level.queue_set.latest_s / 1e8}
        fc:next_s_bounds{{priority_level=queued,bound=@}} | min 0.016; max 0.016
        fc:next_discounted_s_bounds{{priority_level=queued,bound=@}} | min 0.01; max 0.01
        """,
    )
    scene.clock.run_until(20 * MS)
    scene.controller.adjust_limits()
    check(
        scene.state(),
        f"""
        fc:@_limit_seats{{priority_level=queued}} | nominal 2; lower 2; upper 2; current 2
        fc:seat_fair_frac {scene.controller.seat_fair_frac}
        fc:target_seats{{priority_level=queued}} {level.target}
        fc:demand_seats_@{{priority_level=queued}} | high_watermark 3; average 2.3
        fc:demand_seats_stdev{{priority_level=queued}} {level.demand.stats.stddev}
        fc:demand_seats_smoothed{{priority_level=queued}} {level.demand.smoothed}
        """,
    )


def test_kinds(scene: Scene) -> None:
    """Requests are told apart by whether they change anything; what never was has no series."""
    name = "fc:read_vs_write_current_requests"
    check(scene.state(is_full=False), f"{name}_count* 0")
    check(scene.state(), f"{name}_count{{phase=executing,request_kind=mutating}} 10e6")
    scene.kind_meter.kinds[True].executing.begin(scene.clock.now_ns())
    scene.kind_meter.kinds[False].waiting.begin(scene.clock.now_ns())
    scene.clock.run_until(1010 * MS)
    check(
        scene.state(is_full=False),
        f"""
        api:current_inflight_requests{{request_kind=@}} | mutating 1; readOnly 0
        api:current_inqueue_requests{{request_kind=@}} | mutating 0; readOnly 1
        {name}_count{{phase=executing,request_kind=mutating}} 1010e6
        {name}_sum{{phase=executing,request_kind=mutating}} 1000e6
        {name}_count{{phase=waiting,request_kind=mutating}} none
        """,
    )


def test_unused_levels(scene: Scene) -> None:
    """A level has its limits from the start, and all else from its first request on."""
    names = "target_seats current_r demand_seats_count priority_level_seat_utilization_count"
    check(scene.state(is_full=False), "fc:nominal_limit_seats{priority_level=catch-all} 1")
    for is_full, count in ((False, 1), (True, 3)):
        check(scene.state(is_full=is_full), "\n".join(f"fc:{n}* {count}" for n in names.split()))
    scene.ask("eve", group="strangers")
    check(scene.state(is_full=False), "\n".join(f"fc:{n}* 2" for n in names.split()))


# Requests, servers behind, and the process.


def test_each_counter_is_exposed_once() -> None:
    scene = Scene(())
    elsewhere = {"bans", "is_observing"}  # bans are rejections of a FlowSchema
    names = [
        each.name
        for each in fields(scene.counters)
        if isinstance(getattr(scene.counters, each.name), int) and each.name not in elsewhere
    ]
    for number, name in enumerate(names, 1001):
        setattr(scene.counters, name, number)
    values = list(samples(text_of(scene.state())).values())

    assert [1] * len(names) == [values.count(1001 + each) for each in range(len(names))]


def test_requests() -> None:
    """Every reason is there from the start, so that a first increase is seen as one."""
    scene = Scene((flow_schema("lost", "nowhere", group_subject("everyone")),))
    counters = scene.counters
    counters.pool.unattributed.answers.update({200: 2, 404: 1, 600: 1, 999: 1})
    counters.count_own(404)
    counters.listener.count_own(431)
    for head_ns in (30 * MS, 30 * MS, 99_000 * MS):
        counters.pool.unattributed.head_ns.observe(head_ns)
    counters.listener.loop_delay_ns = 250 * MS
    scene.loads.loaded(0, 1234.5)
    scene.loads.loaded(2, 2345.5)
    check(
        scene.state(),
        """
        own:responses_total* 4
        own:responses_total{code=@} | 200 2; 404 2; 431 1; other 2
        own:upstream_answers_total* 3
        own:upstream_answers_total{code=@} | 404 1; other 2
        own:connections_refused_total* 4
        own:connections_refused_total{reason=memory} 0
        own:tls_handshake_failures_total* 4
        own:tls_handshake_failures_total{reason=timeout} 0
        own:upstream_failures_total* 5
        own:upstream_failures_total{reason=answer-timeout} 0
        own:overloaded* 2
        own:overloaded{reason=loop-delay} 0
        own:tls_handshakes_total* 2
        own:tls_handshakes_total{kind=resumed} 0
        own:upstream_tls_handshakes_total* 2
        own:upstream_tls_handshakes_total{kind=full} 0
        own:tunnels_total* 2
        own:tunnels_total{protocol=SPDY/3.1} 0
        own:upstream_@ | connections{state=idle} 2; connections{state=active} 3; waiters 1
        own:upstream_response_head_seconds_bucket{le=@} | 0.02 0; 0.05 2; 30 2; +Inf 3
        own:upstream_response_head_seconds_sum 99.06
        own:loop_delay_seconds 0.25
        own:config_@ | loads_total{result=success} 1; loads_total{result=failure} 1; problems 2
        own:config_@ | last_success_timestamp_seconds 1234.5; generation 2
        own:dangling_flow_schemas 1
        own:enforcement{mode=@} | enforce 1; observe 0
        """,
    )


def behind(*states: str) -> Scene:
    scene = Scene(())
    scene.upstream = StillUpstream(*states)
    return scene


def test_endpoints() -> None:
    """Each of several has its state, its load and its counts; the last of many share series."""
    scene = behind("up", "failing", "unknown")
    first, second, _ = scene.upstream.watches.values()
    first.endpoint.counters.answers.update({200: 3, 503: 1})
    first.endpoint.counters.fail(UpstreamFailure.CONNECT, "refused")
    first.endpoint.counters.head_ns.observe(1000 * MS)
    second.ejections_total = 2
    check(
        scene.state(is_full=False),
        """
        own:endpoints{state=@} | unknown 1; up 1; ejected 0; failing 1; draining 0
        own:endpoint_up* 2
        own:endpoint_up{endpoint=http:@} | //0:1 1; //1:1 0
        own:endpoint_seats* 3
        own:endpoint_seats{endpoint=http://2:1} 5
        own:endpoint_connections{endpoint=http://0:1,state=@} | active 2; idle 1
        own:endpoint_ejections_total{endpoint=http://1:1} 2
        own:endpoint_answers_total* 2
        own:endpoint_answers_total{endpoint=http://0:1,class=@} | 2xx 3; 5xx 1
        own:endpoint_failures_total* 1
        own:endpoint_failures_total{endpoint=http://0:1,reason=connect} 1
        own:endpoint_response_head_seconds_count* 1
        """,
    )
    check(scene.state(), "own:endpoint_answers_total* 15")
    check(behind("up").state(), "own:endpoints{state=up} 1\nown:endpoint_seats* 0")
    for state, value in (("up", 1), ("failing", 0), ("unknown", "none")):
        scene.upstream.state = state
        check(scene.state(), f"own:upstream_up {value}")
    check(
        behind(*["up"] * (MAX_ENDPOINTS + 3)).state(),
        f"""
        own:endpoint_seats{{endpoint={OTHER}}} 15
        own:endpoint_up* {MAX_ENDPOINTS}
        own:endpoint_seats* {MAX_ENDPOINTS + 1}
        """,
    )


def test_authentication() -> None:
    scene = Scene(())
    scene.authentications.crowded = 6
    api = SimpleNamespace(
        asked_total=10,
        failures_total=20,
        stand_ins_total=30,
        unasked_total={"queue-full": 1, "time-out": 2},
        line=SimpleNamespace(waiting=31, under_way=32),
    )
    file = SimpleNamespace(file=("caFile", "ca.crt"), next_unix_s=lambda _: 4600.0)
    tokens = [("tokenFile", "token", Lifetime(1000.0, 4600.0))]
    check(
        scene.state(reviews={"token": api}, certificates=[file], tokens=tokens),
        """
        own:authentications_total* 6
        own:authentications_total{result=crowded} 6
        own:reviews_total{kind=token} 10
        own:review_@_total{kind=token} | failures 20; stand_ins 30
        own:reviews_@{kind=token} | waiting 31; under_way 32
        own:reviews_refused_total{kind=token,reason=@} | queue-full 1; time-out 2
        own:certificate_expiry_timestamp_seconds{setting=caFile,file=ca.crt} 4600
        own:token_@_timestamp_seconds{setting=tokenFile,file=token} | expiry 4600; issued 1000
        """,
    )
    assert "reviews_total" not in text_of(scene.state())


def test_fleet() -> None:
    view = fleet(
        member("a", is_self=True),
        member("b", is_alike=False, demand={"batch": 400}),
        member("c", 100, 40, age_s=9.0),
        lost=2,
    )
    check(
        Scene(()).state(fleet=view),
        """
        own:fleet_@ | members 3; silent_members 1; unlike_members 1; limit_seats 600
        own:fleet_@_seats | claims 500; used 340; demand 590; claim 200; in_force 200
        own:fleet_@ | safe_share_seats 200; record_age_seconds 0.4; refreshes_total 90
        own:fleet_@_total | conflicts 4; failures 0; lost_members 2
        own:fleet_state* 4
        own:fleet_state{state=@} | held 1; joining 0
        """,
    )
    young = fleet(state="joining", age_s=None)
    check(
        Scene(()).state(fleet=young),
        "own:fleet_state{state=joining} 1\nown:fleet_record_age_seconds none",
    )


def test_limit_that_is_found() -> None:
    view = LimitView(84, "holding", 80, highest_goodput=2.5, decided={"more": 2, "probe": 0})
    check(
        Scene(()).state(found_limit=view),
        """
        own:server_concurrency_limit_@ | seats 84; found_seats 80; highest_goodput 2.5
        own:server_concurrency_limit_state{state=@} | searching 0; holding 1; probing 0
        own:server_concurrency_limit_decisions_total{kind=@} | more 2; probe 0
        """,
    )
    unknown = msgspec.structs.replace(view, found=None)
    check(Scene(()).state(found_limit=unknown), "own:server_concurrency_limit_found_seats none")
    assert "server_concurrency_limit" not in text_of(Scene(()).state())


class Places(list[int]):
    ended = {"replaced": 2, "late": 0}  # noqa: RUF012 - never changed


def process(**more: Any) -> ProcessState:  # noqa: ANN401 - any part
    *_, state = gathered(**{"started_s": 1.0, "health": HealthRegistry(), **more})
    return state


def test_process() -> None:
    log = AccessLog("log", 1, VirtualClock())
    log.write(lambda: b"a\n", 1)
    log.write(lambda: b"b\n", 1)
    log.write_errors = 3
    faults = Faults()
    faults.totals[Part.SWEEP] = 3
    health = HealthRegistry()
    health.add("kubernetes", pages=(READYZ,), is_blocking=False, problem="cannot be followed")
    check(
        process(
            access_log=log,
            left_out={"refused": 4},
            faults=faults,
            health=health,
            traces=SimpleNamespace(exported=5, failed=4, dropped=3, queued=2),
            admin=admin_state(Places([1, 2, 3]), {"no-credentials": 4}),  # type: ignore[arg-type]
        ),
        f"""
        own:access_log_left_out_total{{cause=refused}} 4
        own:access_log_lines_total{{result=@}} | written 0; dropped 1
        own:access_log_@ | errors_total 3; queued_lines 1
        own:traces_total{{result=@}} | exported 5; failed 4; dropped 3
        own:traces_queued 2
        own:admin_@ | refused_requests_total{{reason=no-credentials}} 4; connections 3
        own:admin_connections_ended_total{{reason=@}} | replaced 2; late 0
        own:internal_errors_total* {len(Part)}
        own:internal_errors_total{{part=sweep}} 3
        own:healthcheck{{name=@}} | ping 1; kubernetes 0
        """,
    )
    assert "access_log" not in text_of(process())
