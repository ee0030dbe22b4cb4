"""The table of all metrics of a proxy: of its flow control, its requests, its processes.

The flow-control metrics have kube-apiserver's names, labels and buckets; two deprecated ones are
left out.  A series with the label of a FlowSchema appears at its first use.  In the full set all
series of a level are there from the start, as in kube-apiserver; the lean one has only the limits
of a level that was never used.  Either has all families.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from apfproxy.admin.gathering import flow_control_parts
from apfproxy.admin.metrics import (
    CONTENT_TYPE,
    NONE,
    PREFIX,
    PROCESS,
    Collected,
    Family,
    by,
    cases,
    each,
    itself,
    of,
    one,
    one_of,
    page,
)
from apfproxy.admin.state import (
    NS_PER_S,
    AuthenticationState,
    ClusterState,
    EndpointState,
    FlowSchemaState,
    Health,
    ProcessState,
    ServedState,
    Times,
    by_class,
    is_silent,
    summed,
    total_demand,
)
from apfproxy.fleet.ledger import LeaseState
from apfproxy.flowcontrol import meters
from apfproxy.flowcontrol.limit_finder import FinderState
from apfproxy.upstream.counters import LATENCY_BOUNDS_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.admin.metrics import Labelled, Labels, Numbers
    from apfproxy.fleet.view import MemberView
    from apfproxy.flowcontrol.passage import FlowControl

__all__ = ["CONTENT_TYPE", "TABLE", "page"]

FLOW_CONTROL: Final = "apiserver_flowcontrol_"
OTHER: Final = "other"
MAX_ENDPOINTS: Final = 64
STATUS_CODES: Final = range(100, 600)

# What series are of.


def clusters(state: ProcessState, counts: bool) -> Iterator[tuple[Labels, ClusterState]]:
    """List those that are served; if `counts`, also those that were by what ended or is silent."""
    for cluster in state.clusters:
        if cluster.is_serving or (counts and cluster.levels):
            yield {"cluster": cluster.name} if cluster.name else NONE, cluster


def parent(state: ProcessState, _counts: bool) -> Labelled:
    return [(NONE, state)] if state.workers else []


def several(state: ProcessState, _counts: bool) -> Labelled:
    has_names = state.has_several or any(each.name for each in state.clusters)
    return [(NONE, state.listener)] if has_names else []


def responses(state: ProcessState, counts: bool) -> Iterator[tuple[Labels, dict[str, int]]]:
    """Final responses by code; of the only cluster with those to what was no cluster's yet."""
    for labels, cluster in clusters(state, counts):
        own = ServedState(answers=cluster.requests.own_responses)
        former = ServedState(answers={} if cluster.name else state.listener.own_responses)
        yield labels, summed([cluster.upstream.served, own, former]).answers


class Shown(NamedTuple):
    endpoint: EndpointState
    is_full: bool


def endpoints(state: ProcessState, counts: bool) -> Labelled:
    """Each of several; those without series of their own together, under the last name."""
    for labels, cluster in clusters(state, counts):
        groups: dict[str, list[EndpointState]] = {}
        for place, endpoint in enumerate(cluster.upstream.endpoints):
            groups.setdefault(endpoint.url if place < MAX_ENDPOINTS else OTHER, []).append(endpoint)
        for name, group in groups.items() if len(cluster.upstream.endpoints) > 1 else ():
            # One that is drained may have come back, and follows its successor.
            health = Health() if name == OTHER else group[0].health
            yield (
                {**labels, "endpoint": name},
                Shown(replace(summed(group), health=health), state.is_full),
            )


# Numbers that no attribute is.


def by_code(answers: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for code, number in sorted(answers.items(), key=lambda item: int(item[0])):
        label = code if int(code) in STATUS_CODES else OTHER
        found[label] = found.get(label, 0) + number
    return found


def coarser(times: Times) -> Times:
    counts = [0] * (len(meters.DURATION_BOUNDS_NS) + 1)
    for bound_ns, count in zip((*LATENCY_BOUNDS_NS, inf), times.counts, strict=False):
        counts[bisect_left(meters.DURATION_BOUNDS_NS, bound_ns)] += count
    return Times(counts=counts, sum=times.sum)


ALWAYS = ("concurrency-limit", "queue-full", "time-out")


def rejections(schema: FlowSchemaState) -> Labelled:
    """By reason; those that only additions to objects bring come if there are any."""
    for reason in (*ALWAYS, "ban", "flow-requests", "long-running", "rate", "token-rate"):
        number = getattr(schema, f"rejected_{reason.replace('-', '_')}")
        if number or reason in ALWAYS:
            yield {"reason": reason}, number
    if schema.cancelled:
        yield {"reason": "cancelled"}, schema.cancelled


def objects(cluster: ClusterState) -> Labelled:
    for level in cluster.levels:
        yield {"kind": "PriorityLevelConfiguration", "name": level.name, "uid": level.uid}, 1
    used = {schema.name for schema in cluster.flow_schemas if schema.has_counted}
    for schema in sorted(cluster.flow_schemas, key=attrgetter("name")):
        if schema.uid and schema.name in used:
            used.discard(schema.name)
            yield {"kind": "FlowSchema", "name": schema.name, "uid": schema.uid}, 1


def connections(path: str) -> Numbers:
    return cases("state", active=f"{path}.active_count", idle=f"{path}.idle_count")


def counts(states: list[str], *known: str) -> Labelled:
    return [({"state": state}, states.count(state)) for state in dict.fromkeys((*known, *states))]


def endpoint_states(cluster: ClusterState) -> Labelled:
    states = [endpoint.health.state for endpoint in cluster.upstream.endpoints]
    return counts(states, "unknown", "up", "ejected", "failing", "draining")


def worker_states(state: ProcessState) -> Labelled:
    states = [worker.state for worker in state.workers]
    return counts(states, "starting", "serving", "silent", "draining", "ended")


def unless_zero(numbers: Numbers) -> Numbers:
    """Return those of an endpoint, without what never happened unless all is wanted."""
    return lambda shown: [each for each in numbers(shown) if each[1] or shown.is_full]


def endpoint_heads(shown: Shown) -> Times | None:
    served = shown.endpoint.served
    return coarser(served.head_ns) if shown.is_full or served.answers else None


def of_members(read: Callable[[MemberView], int]) -> Numbers:
    return one(lambda view: sum(map(read, view.members)))


def r(*places: int) -> Numbers:
    """Virtual times of a level, of which two are bounds."""
    labels = [NONE] if len(places) == 1 else [{"bound": "min"}, {"bound": "max"}]
    return lambda level: [
        (label, level.r[place] if level.r else 0.0)
        for label, place in zip(labels, places, strict=True)
    ]


FLOW_SCHEMAS: Final = each(
    *(clusters, "flow_schemas"),
    only="has_counted",
    flow_schema="name",
    priority_level="priority_level",
)
REQUESTS_BY_PHASE: Final = cases(
    "phase", executing="meter.requests_executing", waiting="meter.requests_waiting"
)
WAITS: Final = cases("execute", true="wait_executed_ns", false="wait_rejected_ns")
EXECUTIONS: Final = cases("type", regular="execution_regular_ns", watch="execution_watch_ns")
FIRST_TOKENS: Final = cases("since", arrival="first_token_ns", dispatch="first_token_executing_ns")
RESULTS: Final = AuthenticationState.__struct_fields__
AUTHENTICATIONS: Final = cases("result", **{each: f"authentications.{each}" for each in RESULTS})

# A family in one line or two: its name, where its numbers are, and its help text.
# fmt: off
TABLE: Final[tuple[Family, ...]] = (
    *of(each(clusters, "levels", priority_level="name"), FLOW_CONTROL,
        ("nominal_limit_seats", "nominal_limit",
         "Seats that the shares of the priority level buy it"),
        ("lower_limit_seats", "lower_limit", "Seats that the priority level never lends"),
        ("upper_limit_seats", "upper_limit",
         "Seats that the priority level can have at most, borrowed ones included"),
        ("current_limit_seats", "current_limit",
         "Seats that the priority level has until the next adjustment"),
    ),
    *of(each(clusters, "levels", only="is_used", priority_level="name"), FLOW_CONTROL,
        ("target_seats", "target", "Seats that the priority level wanted at the last adjustment"),
        ("demand_seats_high_watermark", "high_watermark",
         "Largest seat demand in the last adjustment period"),
        ("demand_seats_average", "average",
         "Time-weighted average of the seat demand in the last adjustment period"),
        ("demand_seats_stdev", "stddev",
         "Time-weighted standard deviation of the seat demand in the last adjustment period"),
        ("demand_seats_smoothed", "smoothed",
         "Envelope of the seat demand: rises at once, decays slowly"),
        ("current_r", r(0),
         "Progress meter R of the priority level now, in seat-seconds for each queue"),
        ("dispatch_r", r(1), "R at the last dispatch from a queue"),
        ("latest_s", r(2), "Virtual start S of the request dispatched last from a queue"),
        ("next_s_bounds", r(3, 4),
         "Least and largest virtual start S among the oldest requests of the queues"),
        ("next_discounted_s_bounds", r(5, 6),
         "Like next_s_bounds, each S less the assumed work that its queue has in execution"),
        ("priority_level_request_utilization", REQUESTS_BY_PHASE, meters.REQUEST_RATIO_BOUNDS, 1,
         "Nanoseconds by requests that execute or wait, as a part of what there is room for"),
        ("priority_level_seat_utilization",
         cases("phase", executing="meter.seats_in_use"), meters.SEAT_RATIO_BOUNDS, 1,
         "Nanoseconds by seats in use, as a part of the concurrency limit"),
        ("demand_seats", "meter.seat_demand", meters.DEMAND_RATIO_BOUNDS, 1,
         "Nanoseconds by seats in use or waited for, as a part of the current limit"),
    ),
    *of(clusters, FLOW_CONTROL,
        ("seat_fair_frac", "seat_fair_frac",
         "Part of its target that each priority level not at a bound got last time"),
    ),
    *of(each(clusters, "usages", phase="phase", request_kind="kind"), FLOW_CONTROL,
        ("read_vs_write_current_requests", "times", meters.RATIO_BOUNDS, 1,
         "Nanoseconds by requests that execute or wait, as a part of the limit, by kind"),
    ),
    *of(FLOW_SCHEMAS, FLOW_CONTROL,
        ("current_executing_requests", "executing_requests",
         "Requests that execute; a WATCH counts until its initial events are through"),
        ("current_executing_seats", "executing_seats",
         "Seats held by requests that execute or linger after their end"),
        ("current_inqueue_requests", "inqueue_requests", "Requests that wait in queues"),
        ("current_inqueue_seats", "inqueue_seats",
         "Seats that the requests waiting in queues will need"),
        ("dispatched_requests_total", "dispatched", "Requests that were given seats"),
        ("request_dispatch_no_accommodation_total", "no_accommodation",
         "Times that a request was next but did not fit into the free seats"),
        ("rejected_requests_total", rejections, "Requests that got no seats, by reason"),
        ("request_wait_duration_seconds", WAITS, meters.DURATION_BOUNDS_S, NS_PER_S,
         "Time in a queue, by whether the request was executed after it"),
        ("request_execution_seconds", EXECUTIONS, meters.DURATION_BOUNDS_S, NS_PER_S,
         "Time of execution; of a WATCH its initialization"),
        ("request_queue_length_after_enqueue", "queue_length_after_enqueue",
         meters.QUEUE_LENGTH_BOUNDS, 1,
         "Length of the queue that a request joined, itself included"),
        ("work_estimated_seats", "work_estimated_seats", meters.SEATS_BOUNDS, 1,
         "Most seats that a request was estimated to need at any stage"),
        ("watch_count_samples", "watch_count", meters.WATCH_COUNT_BOUNDS, 1,
         "Watches that a mutating request was estimated to notify"),
        skips_empty=True,
    ),
    *of(each(FLOW_SCHEMAS, "tokens"), f"{PREFIX}completion",
        ("s_total", "completions",
         "Completions of language models that are over and of which tokens are known"),
        ("_streams_open", "open_streams",
         "Responses under way in which tokens come as they are made"),
        ("_prompt_tokens_total", "prompt_tokens",
         "Tokens of prompts, where the response says its usage"),
        ("_tokens_total", "completion_tokens",
         "Tokens that were made, as they come: by usage, else by events or lines of a stream"),
        ("_first_token_seconds", FIRST_TOKENS, meters.FIRST_TOKEN_BOUNDS_S, NS_PER_S,
         "Time to the first token of a stream, since its request's arrival or its dispatch"),
        ("_between_tokens_seconds", "between_tokens_ns", meters.BETWEEN_TOKENS_BOUNDS_S, NS_PER_S,
         "Time from one token of a stream to the next"),
        is_always=False,
        skips_empty=True,
    ),
    *of(FLOW_SCHEMAS, PREFIX,
        ("paced_seconds_total", one(lambda schema: schema.paced_ns / NS_PER_S or None),
         "Time that responses waited for their flow's bytes per second"),
    ),
    *of(clusters, "apiserver_",
        ("current_inflight_requests", by("request_kind", "in_flight"),
         "Most requests that executed at a time in the last second, by kind"),
        ("current_inqueue_requests", by("request_kind", "in_queue"),
         "Most requests that waited at a time in the last second, by kind"),
    ),
    *of(clusters, PREFIX,
        ("downstream_aborts_total", "requests.client_aborts",
         "Requests whose client left before its answer was complete"),
        ("slow_reader_releases_total", "requests.slow_reader_releases",
         ("Requests whose seats went back while the rest of their answer waited for its client "
         "alone")),
        ("abandoned_requests_total", "requests.abandoned_requests",
         ("Requests that kept their seats after their client had left, until the upstream was "
         "through")),
        ("abandoned_requests_given_up_total", "requests.abandoned_given_up",
         "Of those, the ones that the upstream did not answer within upstream.abandonedWait"),
        ("tunnels_total", by("protocol", "requests.tunnels_by_protocol"),
         "Connections that were upgraded, by protocol"),
        ("upstream_retries_total", "requests.upstream_retries",
         "Requests sent again because their kept connection was closed meanwhile"),
        ("upstream_received_bytes_total", "upstream.bytes_received",
         "Bytes received from the upstream"),
        ("upstream_sent_bytes_total", "upstream.bytes_sent", "Bytes sent to the upstream"),
        ("upstream_connections_opened_total", "upstream.connections_opened",
         "Connections opened to the upstream"),
        ("upstream_rebalanced_total", "upstream.rebalanced",
         "Watches that were ended so that another server behind gets them"),
        ("upstream_failures_total", by("reason", "upstream.served.failures"),
         "Requests that the upstream did not answer, and answers that it cut short, by how"),
        ("upstream_tls_handshakes_total", by("kind", "upstream.handshakes"),
         "TLS handshakes with the upstream that succeeded, by whether they took up a session"),
        ("upstream_answers_total", by("code", "upstream.served.answers", by_code),
         "Final answers of the upstream, by status code"),
        ("config_loads_total", cases("result", success="loads.succeeded", failure="loads.failed"),
         "Loads of the configuration, the first included, by whether all of it was good"),
        ("authentications_total", AUTHENTICATIONS,
         "Authentications of requests, by result; cached ones are not counted"),
        ("slow_readers", "requests.slow_readers_open",
         "Answers under way that gave their seats back since their client takes them slowly"),
        ("tunnels_open", "requests.tunnels_open", "Upgraded connections that are open"),
        ("upstream_connections", connections("upstream"),
         "Connections to the upstream that are open, by whether a request uses them"),
        ("upstream_waiters", "upstream.waiting_count",
         "Admitted requests that wait for a connection to the upstream"),
        ("upstream_up", "upstream.health.is_up",
         "Whether the server behind is up (1) or fails (0)"),
        ("enforcement", one_of("mode", "enforcement", ("enforce", "observe")),
         ("Whether flow control is enforced, or only observed: then no request is rejected or "
         "delayed, and apiserver_* metrics tell what would have happened")),
        ("config_problems", "loads.problems",
         "Objects that the last load skipped and files that it could not read"),
        ("config_last_success_timestamp_seconds", "loads.last_success_unix_s",
         "When a load last succeeded, in seconds since 1970"),
        ("config_generation", "generation",
         "Goes up whenever another configuration comes into force"),
        ("unused_additions", "unused_additions",
         "Annotations under apfproxy.io/ that do not count since they are wrong"),
        ("dangling_flow_schemas", "dangling",
         "FlowSchemas that are ignored since the priority level they name does not exist"),
        ("endpoints", endpoint_states, "Servers behind, by how they are"),
        ("upstream_response_head_seconds",
         one(lambda cluster: coarser(cluster.upstream.served.head_ns)),
         meters.DURATION_BOUNDS_S, NS_PER_S,
         "Time from a request sent to the head of the upstream's answer"),
        ("flowcontrol_object_info", objects, "Objects by the UIDs that answers name them by"),
    ),
    *of(each(clusters, "found_limit"), f"{PREFIX}server_concurrency_limit_",
        ("seats", "limit", "Server limit that is found (serverConcurrencyLimit: auto)"),
        ("found_seats", "found",
         "Fewest seats with which the server does about all that it can; none while not known"),
        ("state", one_of("state", "state", tuple(FinderState)),
         "1 for what finds the server limit does: searching, holding, or probing another limit"),
        ("highest_goodput", "highest_goodput",
         ("Highest goodput seen lately: responses a second, each weighed by the seconds that its "
         "class takes")),
        ("decisions_total", by("kind", "decided"),
         "How often another server limit was set, by kind of reason"),
        is_always=False,
    ),
    *of(responses, PREFIX,
        ("responses_total", by("code", "", by_code),
         "Final answers sent to clients, by status code"),
    ),
    *of(endpoints, PREFIX,
        ("endpoint_up", "endpoint.health.is_up",
         "Whether a server behind is well and gets requests (1) or not (0)"),
        ("endpoint_seats", "endpoint.seats", "Seats of the requests that a server behind works on"),
        ("endpoint_connections", connections("endpoint"),
         "Connections to a server behind that are open, by whether a request uses them"),
        ("endpoint_ejections_total", "endpoint.ejections_total",
         "How often a server behind got no more requests since too many failed in a row"),
        ("endpoint_answers_total", unless_zero(by("class", "endpoint.served.answers", by_class)),
         "Final answers of a server behind, by class of their status code"),
        ("endpoint_failures_total", unless_zero(by("reason", "endpoint.served.failures")),
         "Requests that a server behind did not answer, and answers cut short, by how"),
        ("endpoint_response_head_seconds", one(endpoint_heads), meters.DURATION_BOUNDS_S, NS_PER_S,
         "Time from a request sent to the head of the answer of a server behind"),
    ),
    *of(each(clusters, "reviews", kind="kind"), PREFIX,
        ("reviews_total", "asked_total",
         "Reviews that the upstream was asked for: of tokens, and of access to impersonate"),
        ("review_failures_total", "failures_total", "Reviews that failed"),
        ("review_stand_ins_total", "stand_ins_total",
         "Earlier answers that were used because no new one could be had"),
        ("reviews_refused_total", by("reason", "unasked_total"),
         "Reviews that were dropped before they were sent, by reason: queue-full or time-out"),
        ("reviews_waiting", "waiting", "Reviews that wait for their turn"),
        ("reviews_under_way", "under_way", "Reviews that were sent and have no answer yet"),
        is_always=False,
    ),
    *of(each(clusters, "certificates", setting="setting", file="file"), PREFIX,
        ("certificate_expiry_timestamp_seconds", "until_s",
         "When the certificates in a file expire that a setting names, in seconds since 1970"),
    ),
    *of(each(clusters, "tokens", setting="setting", file="file"), PREFIX,
        ("token_expiry_timestamp_seconds", "until_s",
         "When a token of the proxy's own expires that a setting names, in seconds since 1970"),
        ("token_issued_timestamp_seconds", "since_s",
         "When a token of the proxy's own was issued that a setting names, in seconds since 1970"),
    ),
    *of(each(clusters, "fleet"), PREFIX,
        ("fleet_state", one_of("state", "state", tuple(LeaseState)),
         ("1 for the state of this member's lease: joining, held, expired, or partitioned from "
         "the store for longer than any lease")),
        ("fleet_members", one(lambda view: len(view.members)),
         "Members of the fleet in its record"),
        ("fleet_silent_members", of_members(is_silent),
         "Members of which nothing was heard for most of their lease"),
        ("fleet_unlike_members", of_members(lambda member: not member.is_alike),
         "Members with another limit or other priority levels than this one"),
        ("fleet_limit_seats", "limit", "Seats of the server that all members share"),
        ("fleet_claims_seats", "claims",
         "Seats that all members have claimed, as this one last saw"),
        ("fleet_used_seats", of_members(lambda member: member.used),
         "Seats that the requests of all members hold, as this one last saw"),
        ("fleet_demand_seats", of_members(total_demand),
         "Seats that the requests of all members hold and wait for, as this one last saw"),
        ("fleet_claim_seats", "claim", "Seats that this member has claimed"),
        ("fleet_in_force_seats", "in_force",
         "Seats that this member uses at most now: its claim, or less"),
        ("fleet_safe_share_seats", "safe_share",
         "Seats that this member falls back to while the record's store is away"),
        ("fleet_record_age_seconds", "age_s", "Time since this member last wrote to the record"),
        ("fleet_refreshes_total", "refreshes", "How often this member wrote to the record"),
        ("fleet_conflicts_total", "conflicts",
         "Writes that were refused, as another member had written first; they are tried again"),
        ("fleet_failures_total", "failures",
         "Refreshes that failed, as the store was away or the record could not be used"),
        ("fleet_lost_members_total", "lost",
         "Members whose lease ended before they left, as this one saw"),
        is_always=False,
    ),
    *PROCESS,
    *of(itself, PREFIX,
        ("downstream_connections", "listener.connections_open",
         "Connections of clients that are open"),
        ("downstream_held_bytes", "listener.held_bytes", "Bytes of clients that wait in the proxy"),
        ("overloaded", by("reason", "listener.overloads"),
         "Whether new connections are shed because the proxy itself has too much to do"),
        ("loop_delay_seconds", "listener.loop_delay_s",
         "How late the event loop runs what is due, smoothed"),
        ("http2_connections", "listener.http2.connections_open",
         "Connections of clients that speak HTTP/2"),
        ("http2_streams", "listener.http2.streams_open", "Streams that are open on them"),
        ("downstream_connections_accepted_total", "listener.connections_accepted",
         "Connections accepted from clients"),
        ("downstream_received_bytes_total", "listener.bytes_from_clients",
         "Bytes received from clients"),
        ("downstream_sent_bytes_total", "listener.bytes_to_clients", "Bytes sent to clients"),
        ("downstream_malformed_requests_total", "listener.malformed_requests",
         "Requests refused because their bytes are not proper HTTP"),
        ("connections_refused_total", by("reason", "listener.connections_refused"),
         "Connections of clients that were not taken, by the limit that they were over"),
        ("downstream_held_refusals_total", by("bound", "listener.held_refusals"),
         "Requests that were refused since there was no room to hold them, by the bound"),
        ("tls_handshakes_total", by("kind", "listener.handshakes"),
         "TLS handshakes of clients that succeeded, by whether they took up a session"),
        ("tls_handshake_failures_total", by("reason", "listener.handshake_failures"),
         "Connections of clients that ended in their TLS handshake"),
        ("proxy_protocol_failures_total", by("reason", "listener.proxy_header_failures"),
         "Connections that were closed for want of a PROXY header that counts"),
        ("http2_connections_accepted_total", "listener.http2.connections",
         "Connections that began to speak HTTP/2"),
        ("http2_requests_total", "listener.http2.requests", "Requests that came over HTTP/2"),
        ("http2_resets_total", by("by", "listener.http2.resets"),
         "Streams that were reset, by the client before their answer began, or for a broken rule"),
        ("http2_goaways_total", by("reason", "listener.http2.goaways"),
         "Connections of HTTP/2 whose end the proxy announced, by reason"),
        ("http2_floods_total", by("kind", "listener.http2.floods"),
         "Connections of HTTP/2 that were closed for frames that bring nothing, by their kind"),
        ("descriptor_shortages_total", "shortages",
         "Seconds in which the process had no file descriptor left for a connection"),
        ("internal_errors_total", by("part", "faults"),
         "Errors of the proxy itself that were contained, by the part of it in which they came up"),
    ),
    *of(several, PREFIX,
        ("unrouted_requests_total", "unrouted_requests",
         "Requests that are of no cluster by their host and path"),
        ("listener_responses_total", by("code", "own_responses", by_code),
         "Final answers to what is no cluster's request, by status code"),
        is_always=False,
    ),
    *of(each(itself, "health", name="name"), PREFIX,
        ("healthcheck", one(lambda check: not check.problems),
         "Whether a check of the health pages is well (1) or fails (0)"),
    ),
    *of(each(itself, "access_log"), PREFIX,
        ("access_log_left_out_total", by("cause", "left_out"),
         ("Requests without a line in the access log: refused ones beyond some, or for lack of "
         "bytes")),
        ("access_log_lines_total", cases("result", written="written", dropped="dropped"),
         "Lines of the access log, by whether they are in the file or were dropped on their way"),
        ("access_log_errors_total", "write_errors",
         "Writes and openings of the access log that failed"),
        ("access_log_queued_lines", "queued", "Lines of the access log that wait to be written"),
        is_always=False,
    ),
    *of(each(itself, "traces"), PREFIX,
        ("traces_total", cases("result", exported="exported", failed="failed", dropped="dropped"),
         "Traced requests, by whether their spans were exported, refused, or dropped before that"),
        ("traces_queued", "queued", "Traced requests whose spans wait to be exported"),
        is_always=False,
    ),
    *of(each(itself, "admin"), PREFIX,
        ("admin_connections", "connections", "Connections of the admin listener"),
        ("admin_connections_ended_total", by("reason", "ended"),
         "Connections of the admin listener that made way, were late, failed, or were too many"),
        ("admin_refused_requests_total", by("reason", "refused"),
         "Requests of the admin listener that got 401, by what was wrong with their credentials"),
        is_always=False,
    ),
    *of(parent, PREFIX,
        ("workers", worker_states, "Processes that serve requests, by what they do"),
        ("worker_restarts_total", "restarts",
         "Workers that were started again since their process had ended by itself"),
        is_always=False,
    ),
    *of(each(itself, "workers", worker="name"), PREFIX,
        ("worker_up", one(lambda worker: not worker.problem),
         "Whether a worker answered for this scrape (1) or not (0)"),
        is_always=False,
    ),
)
# fmt: on


def flow_control_metrics(control: FlowControl) -> Collected:
    """A collector of the metrics of flow control alone, for a registry of prometheus_client."""

    def metrics() -> Iterator[Metric]:
        parts = flow_control_parts(control.controller, control.kinds)
        state = ProcessState(clusters=[ClusterState(is_serving=True, **parts)])
        for family in TABLE:
            if family.name.startswith(FLOW_CONTROL):
                yield family.metric(family.samples({"": state}))

    return Collected(metrics)
