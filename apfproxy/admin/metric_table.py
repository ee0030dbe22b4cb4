"""The table of all metrics of a proxy: of its flow control, its requests, its processes.

The flow-control metrics have kube-apiserver's names, labels and buckets; two deprecated ones are
left out.  As there, a series with the label of a FlowSchema appears at its first use.
kube-apiserver has all series of a level from the start, and so has the full set of metrics here;
the lean one has only the limits of a level that was never used.  Either has all families.

`downstream` is the side of the clients.  Members of a fleet have no series for one another.  The
metrics of one of several clusters have its name as one more label, those of a parent of workers
are of all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from apfproxy.admin.metrics import (
    CONTENT_TYPE,
    NONE,
    PREFIX,
    PROCESS,
    Family,
    by,
    by_name,
    counter,
    gauge,
    histogram,
    info,
    of,
    one,
    page,
    parts,
    used,
)
from apfproxy.admin.state import (
    NS_PER_S,
    OUT,
    UNKNOWN,
    UP,
    AuthenticationState,
    ClusterState,
    EndpointState,
    FlowSchemaState,
    ListenerState,
    ProcessState,
    Times,
    UpstreamState,
    by_class,
    is_silent,
    summed,
    total_demand,
)
from apfproxy.fleet.ledger import LeaseState
from apfproxy.flowcontrol.meters import (
    DEMAND_RATIO_BOUNDS,
    DURATION_BOUNDS_NS,
    DURATION_BOUNDS_S,
    QUEUE_LENGTH_BOUNDS,
    RATIO_BOUNDS,
    REQUEST_RATIO_BOUNDS,
    SEAT_RATIO_BOUNDS,
    SEATS_BOUNDS,
    WATCH_COUNT_BOUNDS,
)
from apfproxy.upstream.counters import LATENCY_BOUNDS_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from apfproxy.admin.metrics import Labelled, Labels, Numbers, Owners
    from apfproxy.fleet.view import FleetView, MemberView

__all__ = ["CONTENT_TYPE", "TABLE", "page"]

FLOW_CONTROL: Final = "apiserver_flowcontrol_"
OTHER: Final = "other"
"""The label of all endpoints without series of their own, and of codes that no standard has."""
MAX_ENDPOINTS: Final = 64
"""With series of their own."""
STATUS_CODES: Final = range(100, 600)

# What series are of.


def process(state: ProcessState) -> Labelled:
    return [(NONE, state)]


def clusters(state: ProcessState) -> Iterator[tuple[Labels, ClusterState]]:
    for each in state.clusters:
        if each.is_serving:
            yield {"cluster": each.name} if each.name else NONE, each


def levels(state: ProcessState) -> Labelled:
    for labels, cluster in clusters(state):
        for level in cluster.levels:
            yield {**labels, "priority_level": level.name}, level


def used_levels(state: ProcessState) -> Labelled:
    return ((labels, level) for labels, level in levels(state) if level.is_used)


def flow_schemas(state: ProcessState) -> Labelled:
    for labels, cluster in clusters(state):
        for each in cluster.flow_schemas:
            if each.has_counted:
                own = {"flow_schema": each.name, "priority_level": each.priority_level}
                yield {**labels, **own}, each


def reviews(state: ProcessState) -> Labelled:
    for labels, cluster in clusters(state):
        for each in cluster.reviews:
            yield {**labels, "kind": each.kind}, each


def expiries(name: str) -> Owners:
    def found(state: ProcessState) -> Labelled:
        for labels, cluster in clusters(state):
            for each in getattr(cluster, name):
                yield {**labels, "setting": each.setting, "file": each.file}, each

    return found


class Shown(NamedTuple):
    """An endpoint, or all without series of their own; its state is None for these."""

    endpoint: EndpointState
    state: str | None
    is_full: bool


def endpoints(state: ProcessState) -> Labelled:
    """Each of several; those without series of their own together, under the last name."""
    for labels, cluster in clusters(state):
        groups: dict[str, list[EndpointState]] = {}
        for place, each in enumerate(cluster.upstream.endpoints):
            groups.setdefault(each.url if place < MAX_ENDPOINTS else OTHER, []).append(each)
        for name, group in groups.items() if len(cluster.upstream.endpoints) > 1 else ():
            # One that is drained may have come back, and follows its successor.
            health = None if name == OTHER else group[0].health.state
            yield {**labels, "endpoint": name}, Shown(summed(group), health, state.is_full)


def fleets(state: ProcessState) -> Labelled:
    return ((labels, each.fleet) for labels, each in clusters(state) if each.fleet is not None)


def part(name: str) -> Owners:
    """A part of the process, if it has it."""
    return lambda state: [] if (found := getattr(state, name)) is None else [(NONE, found)]


# Numbers that no attribute is.


def responses(state: ProcessState) -> Iterator[tuple[Labels, dict[str, int]]]:
    """Final responses by code; of the only cluster with those to what was no cluster's yet."""
    for labels, cluster in clusters(state):
        counts = [cluster.upstream.served.answers, cluster.requests.own_responses]
        if not cluster.name:
            counts.append(state.listener.own_responses)
        found: dict[str, int] = {}
        for each in counts:
            for code, number in each.items():
                found[code] = found.get(code, 0) + number
        yield labels, found


def by_code(answers: Mapping[str, int]) -> dict[str, int]:
    """Responses by their code as a label, `other` for codes that no standard has."""
    found: dict[str, int] = {}
    for code, number in sorted(answers.items(), key=lambda item: int(item[0])):
        label = code if int(code) in STATUS_CODES else OTHER
        found[label] = found.get(label, 0) + number
    return found


def coarser(times: Times) -> Times:
    """A histogram with the metrics' bounds, all of which are among its own."""
    counts = [0] * (len(DURATION_BOUNDS_NS) + 1)
    for bound_ns, count in zip((*LATENCY_BOUNDS_NS, inf), times.counts, strict=False):
        counts[bisect_left(DURATION_BOUNDS_NS, bound_ns)] += count
    return Times(counts=counts, sum=times.sum)


def rejections(schema: FlowSchemaState) -> Labelled:
    """By reason; those by additions to objects, which are rare, if there are any."""
    for reason in ("concurrency-limit", "queue-full", "time-out", "ban", "long-running", "rate"):
        number = getattr(schema, f"rejected_{reason.replace('-', '_')}")
        if number or reason in {"concurrency-limit", "queue-full", "time-out"}:
            yield {"reason": reason}, number


def objects(cluster: ClusterState) -> Labelled:
    """Each priority level, and each FlowSchema that a response may have named."""
    for level in cluster.levels:
        yield {"kind": "PriorityLevelConfiguration", "name": level.name, "uid": level.uid}, 1
    used = {each.name for each in cluster.flow_schemas if each.has_counted}
    for schema in sorted(cluster.flow_schemas, key=attrgetter("name")):
        if schema.uid and schema.name in used:
            used.discard(schema.name)
            yield {"kind": "FlowSchema", "name": schema.name, "uid": schema.uid}, 1


def connections(counts: UpstreamState | EndpointState) -> Labelled:
    """Those of a pool or of an endpoint, by whether a request uses them."""
    yield {"state": "active"}, counts.open_count - counts.idle_count
    yield {"state": "idle"}, counts.idle_count


def endpoint_states(cluster: ClusterState) -> Labelled:
    states = [each.health.state for each in cluster.upstream.endpoints]
    for state in (UNKNOWN, UP, "ejected", "failing", "draining"):
        yield {"state": state}, states.count(state)


def endpoint_connections(shown: Shown) -> Labelled:
    return connections(shown.endpoint)


def is_endpoint_up(shown: Shown) -> bool | None:
    return shown.state == UP if shown.state in {UP, *OUT} else None


def classes(shown: Shown) -> Labelled:
    """Responses by class; without what never happened unless all is wanted."""
    for name, number in by_class(shown.endpoint.served.answers).items():
        if number or shown.is_full:
            yield {"class": name}, number


def failures(shown: Shown) -> Labelled:
    for reason, number in shown.endpoint.served.failures.items():
        if number or shown.is_full:
            yield {"reason": reason}, number


def endpoint_heads(shown: Shown) -> Labelled:
    if shown.is_full or shown.endpoint.served.answers:
        yield NONE, coarser(shown.endpoint.served.head_ns)


def of_members(read: Callable[[MemberView], int]) -> Numbers:
    """The sum over the members of a fleet."""
    return one(lambda view: sum(map(read, view.members)))


def worker_states(state: ProcessState) -> Labelled:
    states = [each.state for each in state.workers]
    for each in dict.fromkeys(("starting", "serving", "silent", "draining", "ended", *states)):
        yield {"state": each}, states.count(each)


def parent(state: ProcessState) -> Labelled:
    return [(NONE, state)] if state.workers else []


def several(state: ProcessState) -> Labelled:
    return [(NONE, state.listener)] if state.has_several else []


def r(*places: int) -> Numbers:
    """Virtual times of a level, of which two are bounds."""
    labels = [NONE] if len(places) == 1 else [{"bound": "min"}, {"bound": "max"}]
    return lambda level: [
        (label, level.r[place] if level.r else 0.0)
        for label, place in zip(labels, places, strict=True)
    ]


def answers(cluster: ClusterState) -> Labelled:
    return by("code", by_code)(cluster.upstream.served.answers)


def own_answers(listener: ListenerState) -> Labelled:
    return by("code", by_code)(listener.own_responses)


def heads(cluster: ClusterState) -> Labelled:
    yield NONE, coarser(cluster.upstream.served.head_ns)


def usages(cluster: ClusterState) -> Labelled:
    for each in cluster.usages:
        yield {"phase": each.phase, "request_kind": each.kind}, each.times


def loads(cluster: ClusterState) -> Labelled:
    yield {"result": "success"}, cluster.loads.succeeded
    yield {"result": "failure"}, cluster.loads.failed


def is_up(cluster: ClusterState) -> bool | None:
    state = cluster.upstream.health.state
    return None if state == UNKNOWN else state == UP


def enforcement(cluster: ClusterState) -> Labelled:
    for mode in ("enforce", "observe"):
        yield {"mode": mode}, cluster.enforcement == mode


def upstream_connections(cluster: ClusterState) -> Labelled:
    return connections(cluster.upstream)


def authentications(cluster: ClusterState) -> Labelled:
    return by_name("result", *AuthenticationState.__struct_fields__)(cluster.authentications)


def standing(view: FleetView) -> Labelled:
    for each in LeaseState:
        yield {"state": each}, view.state == each


def loop_delay(state: ProcessState) -> Labelled:
    yield NONE, state.listener.loop_delay_ns / NS_PER_S


def checks(state: ProcessState) -> Labelled:
    for each in state.health:
        yield {"name": each.name}, float(not each.problems)


def workers_up(state: ProcessState) -> Labelled:
    for each in state.workers:
        yield {"worker": each.name}, not each.problem


REQUESTS_BY_PHASE: Final = parts(
    {
        "meter.requests_executing": {"phase": "executing"},
        "meter.requests_waiting": {"phase": "waiting"},
    }
)
SEATS_BY_PHASE: Final = parts({"meter.seats_in_use": {"phase": "executing"}})
WAITS: Final = parts(
    {"wait_executed_ns": {"execute": "true"}, "wait_rejected_ns": {"execute": "false"}},
    only_used=True,
)
EXECUTIONS: Final = parts(
    {"execution_regular_ns": {"type": "regular"}, "execution_watch_ns": {"type": "watch"}},
    only_used=True,
)

# A family in two lines: its name and where its numbers are, and its help text.
# fmt: off
TABLE: Final[tuple[Family, ...]] = (
    *of(levels, FLOW_CONTROL,
        gauge("nominal_limit_seats", "nominal_limit",
            "Seats that the shares of the priority level buy it"),
        gauge("lower_limit_seats", "lower_limit",
            "Seats that the priority level never lends"),
        gauge("upper_limit_seats", "upper_limit",
            "Seats that the priority level can have at most, borrowed ones included"),
        gauge("current_limit_seats", "current_limit",
            "Seats that the priority level has until the next adjustment"),
    ),
    *of(used_levels, FLOW_CONTROL,
        gauge("target_seats", "target",
            "Seats that the priority level wanted at the last adjustment"),
        gauge("demand_seats_high_watermark", "high_watermark",
            "Largest seat demand in the last adjustment period"),
        gauge("demand_seats_average", "average",
            "Time-weighted average of the seat demand in the last adjustment period"),
        gauge("demand_seats_stdev", "stddev",
            "Time-weighted standard deviation of the seat demand in the last adjustment period"),
        gauge("demand_seats_smoothed", "smoothed",
            "Envelope of the seat demand: rises at once, decays slowly"),
        gauge("current_r", r(0),
            "Progress meter R of the priority level now, in seat-seconds for each queue"),
        gauge("dispatch_r", r(1),
            "R at the last dispatch from a queue"),
        gauge("latest_s", r(2),
            "Virtual start S of the request dispatched last from a queue"),
        gauge("next_s_bounds", r(3, 4),
            "Least and largest virtual start S among the oldest requests of the queues"),
        gauge("next_discounted_s_bounds", r(5, 6),
            "Like next_s_bounds, each S less the assumed work that its queue has in execution"),
        histogram("priority_level_request_utilization", REQUESTS_BY_PHASE, REQUEST_RATIO_BOUNDS, 1,
            "Nanoseconds by requests that execute or wait, as a part of what there is room for"),
        histogram("priority_level_seat_utilization", SEATS_BY_PHASE, SEAT_RATIO_BOUNDS, 1,
            "Nanoseconds by seats in use, as a part of the concurrency limit"),
        histogram("demand_seats", parts({"meter.seat_demand": NONE}), DEMAND_RATIO_BOUNDS, 1,
            "Nanoseconds by seats in use or waited for, as a part of the current limit"),
    ),
    *of(clusters, FLOW_CONTROL,
        gauge("seat_fair_frac", "seat_fair_frac",
            "Part of its target that each priority level not at a bound got last time"),
        histogram("read_vs_write_current_requests", usages, RATIO_BOUNDS, 1,
            "Nanoseconds by requests that execute or wait, as a part of the limit, by kind"),
    ),
    *of(flow_schemas, FLOW_CONTROL,
        gauge("current_executing_requests", "executing_requests",
            "Requests that execute; a WATCH counts until its initial events are through"),
        gauge("current_executing_seats", "executing_seats",
            "Seats held by requests that execute or linger after their end"),
        gauge("current_inqueue_requests", "inqueue_requests",
            "Requests that wait in queues"),
        gauge("current_inqueue_seats", "inqueue_seats",
            "Seats that the requests waiting in queues will need"),
        counter("dispatched_requests_total", "dispatched",
            "Requests that were given seats"),
        counter("request_dispatch_no_accommodation_total", "no_accommodation",
            "Times that a request was next but did not fit into the free seats"),
        counter("rejected_requests_total", rejections,
            "Requests that got no seats, by reason"),
        histogram("request_wait_duration_seconds", WAITS, DURATION_BOUNDS_S, NS_PER_S,
            "Time in a queue, by whether the request was executed after it"),
        histogram("request_execution_seconds", EXECUTIONS, DURATION_BOUNDS_S, NS_PER_S,
            "Time of execution; of a WATCH its initialization"),
        histogram("request_queue_length_after_enqueue",
            used("queue_length_after_enqueue"), QUEUE_LENGTH_BOUNDS, 1,
            "Length of the queue that a request joined, itself included"),
        histogram("work_estimated_seats", used("work_estimated_seats"), SEATS_BOUNDS, 1,
            "Most seats that a request was estimated to need at any stage"),
        histogram("watch_count_samples", used("watch_count"), WATCH_COUNT_BOUNDS, 1,
            "Watches that a mutating request was estimated to notify"),
    ),
    *of(clusters, "apiserver_",
        gauge("current_inflight_requests", by("request_kind", "in_flight"),
            "Most requests that executed at a time in the last second, by kind"),
        gauge("current_inqueue_requests", by("request_kind", "in_queue"),
            "Most requests that waited at a time in the last second, by kind"),
    ),
    *of(clusters, PREFIX,
        counter("downstream_aborts_total", "requests.client_aborts",
            "Requests whose client left before its answer was complete"),
        counter("slow_reader_releases_total", "requests.slow_reader_releases",
            "Requests whose seats went back while the rest of their answer waited for its"
            " client alone"),
        counter("abandoned_requests_total", "requests.abandoned_requests",
            "Requests that kept their seats after their client had left, until the upstream"
            " was through"),
        counter("abandoned_requests_given_up_total", "requests.abandoned_given_up",
            "Of those, the ones that the upstream did not answer within upstream.abandonedWait"),
        counter("tunnels_total", by("protocol", "requests.tunnels_by_protocol"),
            "Connections that were upgraded, by protocol"),
        counter("upstream_retries_total", "requests.upstream_retries",
            "Requests sent again because their kept connection was closed meanwhile"),
        counter("upstream_received_bytes_total", "upstream.bytes_received",
            "Bytes received from the upstream"),
        counter("upstream_sent_bytes_total", "upstream.bytes_sent",
            "Bytes sent to the upstream"),
        counter("upstream_connections_opened_total", "upstream.connections_opened",
            "Connections opened to the upstream"),
        counter("upstream_rebalanced_total", "upstream.rebalanced",
            "Watches that were ended so that another server behind gets them"),
        counter("upstream_failures_total", by("reason", "upstream.served.failures"),
            "Requests that the upstream did not answer, and answers that it cut short, by how"),
        counter("upstream_tls_handshakes_total", by("kind", "upstream.handshakes"),
            "TLS handshakes with the upstream that succeeded, by whether they took up a"
            " session"),
        counter("upstream_answers_total", answers,
            "Final answers of the upstream, by status code"),
        counter("config_loads_total", loads,
            "Loads of the configuration, the first included, by whether all of it was good"),
        counter("authentications_total", authentications,
            "Authentications of requests, by result; cached ones are not counted"),
        gauge("slow_readers", "requests.slow_readers_open",
            "Answers under way that gave their seats back since their client takes them slowly"),
        gauge("tunnels_open", "requests.tunnels_open",
            "Upgraded connections that are open"),
        gauge("upstream_connections", upstream_connections,
            "Connections to the upstream that are open, by whether a request uses them"),
        gauge("upstream_waiters", "upstream.waiting_count",
            "Admitted requests that wait for a connection to the upstream"),
        gauge("upstream_up", one(is_up),
            "Whether the server behind is up (1) or fails (0)"),
        gauge("enforcement", enforcement,
            "Whether flow control is enforced, or only observed: then no request is rejected"
            " or delayed, and apiserver_* metrics tell what would have happened"),
        gauge("config_problems", "loads.problems",
            "Objects that the last load skipped and files that it could not read"),
        gauge("config_last_success_timestamp_seconds", "loads.last_success_unix_s",
            "When a load last succeeded, in seconds since 1970"),
        gauge("config_generation", "generation",
            "Goes up whenever another configuration comes into force"),
        gauge("unused_additions", "unused_additions",
            "Annotations under apfproxy.io/ that do not count since they are wrong"),
        gauge("dangling_flow_schemas", "dangling",
            "FlowSchemas that are ignored since the priority level they name does not exist"),
        gauge("endpoints", endpoint_states,
            "Servers behind, by how they are"),
        histogram("upstream_response_head_seconds", heads, DURATION_BOUNDS_S, NS_PER_S,
            "Time from a request sent to the head of the upstream's answer"),
        info("flowcontrol_object_info", objects,
            "Objects by the UIDs that answers name them by"),
    ),
    *of(responses, PREFIX,
        counter("responses_total", by("code", by_code),
            "Final answers sent to clients, by status code"),
    ),
    *of(endpoints, PREFIX,
        gauge("endpoint_up", one(is_endpoint_up),
            "Whether a server behind is well and gets requests (1) or not (0)"),
        gauge("endpoint_seats", "endpoint.seats",
            "Seats of the requests that a server behind works on"),
        gauge("endpoint_connections", endpoint_connections,
            "Connections to a server behind that are open, by whether a request uses them"),
        counter("endpoint_ejections_total", "endpoint.ejections_total",
            "How often a server behind got no more requests since too many failed in a row"),
        counter("endpoint_answers_total", classes,
            "Final answers of a server behind, by class of their status code"),
        counter("endpoint_failures_total", failures,
            "Requests that a server behind did not answer, and answers cut short, by how"),
        histogram("endpoint_response_head_seconds", endpoint_heads, DURATION_BOUNDS_S, NS_PER_S,
            "Time from a request sent to the head of the answer of a server behind"),
    ),
    *of(reviews, PREFIX,
        counter("reviews_total", "asked_total",
            "Reviews that the upstream was asked for: of tokens, and of access to impersonate"),
        counter("review_failures_total", "failures_total",
            "Reviews that failed"),
        counter("review_stand_ins_total", "stand_ins_total",
            "Earlier answers that were used because no new one could be had"),
        counter("reviews_refused_total", by("reason", "unasked_total"),
            "Reviews that were dropped before they were sent, by reason: queue-full or time-"
            " out"),
        gauge("reviews_waiting", "waiting",
            "Reviews that wait for their turn"),
        gauge("reviews_under_way", "under_way",
            "Reviews that were sent and have no answer yet"),
        is_always=False,
    ),
    *of(expiries("certificates"), PREFIX,
        gauge("certificate_expiry_timestamp_seconds", "until_s",
            "When the certificates in a file expire that a setting names, in seconds since"
            " 1970"),
    ),
    *of(expiries("tokens"), PREFIX,
        gauge("token_expiry_timestamp_seconds", "until_s",
            "When a token of the proxy's own expires that a setting names, in seconds since"
            " 1970"),
        gauge("token_issued_timestamp_seconds", "since_s",
            "When a token of the proxy's own was issued that a setting names, in seconds since"
            " 1970"),
    ),
    *of(fleets, PREFIX,
        gauge("fleet_state", standing,
            "1 for the state of this member's lease: joining, held, expired, or partitioned from"
            " the store for longer than any lease"),
        gauge("fleet_members", one(lambda view: len(view.members)),
            "Members of the fleet in its record"),
        gauge("fleet_silent_members", of_members(is_silent),
            "Members of which nothing was heard for most of their lease"),
        gauge("fleet_unlike_members", of_members(lambda member: not member.is_alike),
            "Members with another limit or other priority levels than this one"),
        gauge("fleet_limit_seats", "limit",
            "Seats of the server that all members share"),
        gauge("fleet_claims_seats", "claims",
            "Seats that all members have claimed, as this one last saw"),
        gauge("fleet_used_seats", of_members(lambda member: member.used),
            "Seats that the requests of all members hold, as this one last saw"),
        gauge("fleet_demand_seats", of_members(total_demand),
            "Seats that the requests of all members hold and wait for, as this one last saw"),
        gauge("fleet_claim_seats", "claim",
            "Seats that this member has claimed"),
        gauge("fleet_in_force_seats", "in_force",
            "Seats that this member uses at most now: its claim, or less"),
        gauge("fleet_safe_share_seats", "safe_share",
            "Seats that this member falls back to while the record's store is away"),
        gauge("fleet_record_age_seconds", "age_s",
            "Time since this member last wrote to the record"),
        counter("fleet_refreshes_total", "refreshes",
            "How often this member wrote to the record"),
        counter("fleet_conflicts_total", "conflicts",
            "Writes that were refused, as another member had written first; they are tried"
            " again"),
        counter("fleet_failures_total", "failures",
            "Refreshes that failed, as the store was away or the record could not be used"),
        counter("fleet_lost_members_total", "lost",
            "Members whose lease ended before they left, as this one saw"),
        is_always=False,
    ),
    *PROCESS,
    *of(process, PREFIX,
        gauge("downstream_connections", "listener.connections_open",
            "Connections of clients that are open"),
        gauge("downstream_held_bytes", "listener.held_bytes",
            "Bytes of clients that wait in the proxy"),
        gauge("overloaded", by("reason", "listener.overloads"),
            "Whether new connections are shed because the proxy itself has too much to do"),
        gauge("loop_delay_seconds", loop_delay,
            "How late the event loop runs what is due, smoothed"),
        gauge("http2_connections", "listener.http2.connections_open",
            "Connections of clients that speak HTTP/2"),
        gauge("http2_streams", "listener.http2.streams_open",
            "Streams that are open on them"),
        gauge("healthcheck", checks,
            "Whether a check of the health pages is well (1) or fails (0)"),
        counter("downstream_connections_accepted_total", "listener.connections_accepted",
            "Connections accepted from clients"),
        counter("downstream_received_bytes_total", "listener.bytes_from_clients",
            "Bytes received from clients"),
        counter("downstream_sent_bytes_total", "listener.bytes_to_clients",
            "Bytes sent to clients"),
        counter("downstream_malformed_requests_total", "listener.malformed_requests",
            "Requests refused because their bytes are not proper HTTP"),
        counter("connections_refused_total", by("reason", "listener.connections_refused"),
            "Connections of clients that were not taken, by the limit that they were over"),
        counter("downstream_held_refusals_total", by("bound", "listener.held_refusals"),
            "Requests that were refused since there was no room to hold them, by the bound"),
        counter("tls_handshakes_total", by("kind", "listener.handshakes"),
            "TLS handshakes of clients that succeeded, by whether they took up a session"),
        counter("tls_handshake_failures_total", by("reason", "listener.handshake_failures"),
            "Connections of clients that ended in their TLS handshake"),
        counter("proxy_protocol_failures_total", by("reason", "listener.proxy_header_failures"),
            "Connections that were closed for want of a PROXY header that counts"),
        counter("http2_connections_accepted_total", "listener.http2.connections",
            "Connections that began to speak HTTP/2"),
        counter("http2_requests_total", "listener.http2.requests",
            "Requests that came over HTTP/2"),
        counter("http2_resets_total", by("by", "listener.http2.resets"),
            "Streams that were reset, by the client before their answer began, or for a broken"
            " rule"),
        counter("http2_goaways_total", by("reason", "listener.http2.goaways"),
            "Connections of HTTP/2 whose end the proxy announced, by reason"),
        counter("http2_floods_total", by("kind", "listener.http2.floods"),
            "Connections of HTTP/2 that were closed for frames that bring nothing, by their"
            " kind"),
        counter("descriptor_shortages_total", "shortages",
            "Seconds in which the process had no file descriptor left for a connection"),
        counter("internal_errors_total", by("part", "faults"),
            "Errors of the proxy itself that were contained, by the part of it in which they"
            " came up"),
    ),
    *of(several, PREFIX,
        counter("unrouted_requests_total", "unrouted_requests",
            "Requests that are of no cluster by their host and path"),
        counter("listener_responses_total", own_answers,
            "Final answers to what is no cluster's request, by status code"),
        is_always=False,
    ),
    *of(part("access_log"), PREFIX,
        counter("access_log_left_out_total", by("cause", "left_out"),
            "Requests without a line in the access log: refused ones beyond some, or for lack"
            " of bytes"),
        counter("access_log_lines_total", by_name("result", "written", "dropped"),
            "Lines of the access log, by whether they are in the file or were dropped on their"
            " way"),
        counter("access_log_errors_total", "write_errors",
            "Writes and openings of the access log that failed"),
        gauge("access_log_queued_lines", "queued",
            "Lines of the access log that wait to be written"),
        is_always=False,
    ),
    *of(part("traces"), PREFIX,
        counter("traces_total", by_name("result", "exported", "failed", "dropped"),
            "Traced requests, by whether their spans were exported, refused, or dropped before"
            " that"),
        gauge("traces_queued", "queued",
            "Traced requests whose spans wait to be exported"),
        is_always=False,
    ),
    *of(part("admin"), PREFIX,
        gauge("admin_connections", "connections",
            "Connections of the admin listener"),
        counter("admin_connections_ended_total", by("reason", "ended"),
            "Connections of the admin listener that made way, were late, failed, or were too"
            " many"),
        counter("admin_refused_requests_total", by("reason", "refused"),
            "Requests of the admin listener that got 401, by what was wrong with their"
            " credentials"),
        is_always=False,
    ),
    *of(parent, PREFIX,
        gauge("workers", worker_states,
            "Processes that serve requests, by what they do"),
        gauge("worker_up", workers_up,
            "Whether a worker answered for this scrape (1) or not (0)"),
        counter("worker_restarts_total", "restarts",
            "Workers that were started again since their process had ended by itself"),
        is_always=False,
    ),
)
# fmt: on
