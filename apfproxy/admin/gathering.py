"""Makes the state of a process from the classes that do its work; see `state`."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_origin, get_type_hints

import msgspec

from apfproxy.admin.state import (
    DRAINING,
    NOTHING,
    NS_PER_S,
    OUT,
    AccessLogState,
    AdminState,
    CheckState,
    ClusterState,
    EndpointState,
    EventState,
    Expiry,
    FlowSchemaState,
    Health,
    Holder,
    LevelState,
    ListenerState,
    ProcessState,
    RequestsState,
    ReviewState,
    ServedState,
    Times,
    TokensState,
    TracesState,
    UpstreamState,
    UsageState,
    UsedState,
)
from apfproxy.base import build
from apfproxy.flowcontrol.explanation import distinguished_by
from apfproxy.flowcontrol.level_summary import (
    FLOW_SCHEMA,
    LevelsSummary,
    LevelSummary,
    Sums,
    reachable_levels,
)
from apfproxy.flowcontrol.priority_level import level_shares
from apfproxy.flowcontrol.ticket import NS_PER_TICK
from apfproxy.objects.types import stable_uid
from apfproxy.objects.validation import PRIORITY_LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from apfproxy.admin.access_log import AccessLog
    from apfproxy.admin.places import Places
    from apfproxy.admin.state import LoadsState
    from apfproxy.admin.top_flows import TopFlows
    from apfproxy.admin.tracing import TraceQueue
    from apfproxy.authn.authenticator import AuthenticationCounters
    from apfproxy.authn.upstream_api import UpstreamApi
    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.base.faults import Faults
    from apfproxy.base.health_checks import HealthCheck
    from apfproxy.base.tls_files import Expiries, Lifetime
    from apfproxy.fleet.view import FleetView
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.limit_view import LimitView
    from apfproxy.flowcontrol.meters import Histogram, KindMeter, RatioHistogram
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.flowcontrol.queue_set import QueueSet
    from apfproxy.objects.types import FlowSchema
    from apfproxy.proxy.counters import ListenerCounters, ProxyCounters
    from apfproxy.upstream.endpoint import Endpoint
    from apfproxy.upstream.health import EndpointHealth, UpstreamHealth
    from apfproxy.upstream.pool import Pool

    P = TypeVar("P", bound=msgspec.Struct)
    T = TypeVar("T")

TICKS_PER_SEAT_SECOND: Final = NS_PER_S // NS_PER_TICK
MAX_QUEUES: Final = 4096
"""The first queues of a level; a level may have millions, which no page could show."""
MAX_TICKETS: Final = 5000
"""The first tickets of a level that execute, and that wait: 1 ms of looking for each."""
MAX_NAME: Final = 256
KINDS: Final = {"ByUser": "user", "ByNamespace": "namespace", "user-agent": "program"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingParts:
    """The parts that serve a cluster; `shared` is a fleet's limit and its number of members."""

    controller: Controller
    kinds: KindMeter
    loads: LoadsState
    counters: ProxyCounters
    pool: Pool
    upstream: UpstreamHealth
    authentications: AuthenticationCounters
    enforcement: str = "enforce"
    source: str = ""
    ban_command: Sequence[str] = ()
    seats_per_endpoint: int | None = None
    client_problems: Sequence[str] = ()
    knows_users: bool = True
    is_plain: bool = False
    found_limit: LimitView | None = None
    fleet: FleetView | None = None
    shared: tuple[int, int] | None = None
    top_flows: TopFlows | None = None
    reviews: Mapping[str, UpstreamApi] = field(default_factory=dict)
    certificates: Sequence[Expiries] = ()
    tokens: Sequence[tuple[str, str, Lifetime]] = ()


def gathered(  # noqa: PLR0913 - a parameter for each part of a process
    *,
    started_s: float,
    health: Iterable[HealthCheck],
    faults: Faults | None = None,
    clusters: Iterable[ClusterState] = (),
    has_several: bool = False,
    is_full: bool = False,
    listener: ListenerCounters | None = None,
    events: ConfigurationEvents | None = None,
    shortages: int = 0,
    access_log: AccessLog | None = None,
    left_out: Mapping[str, int] | None = None,
    traces: TraceQueue | None = None,
    admin: AdminState | None = None,
) -> Iterator[ProcessState]:
    """The state now, which is whole at the end: cluster by cluster, so that others can run."""
    state = ProcessState(
        version=[build.short_version()],
        is_full=is_full,
        has_several=has_several,
        used=used_state(started_s),
        listener=ListenerState() if listener is None else read(ListenerState, listener),
        health=[
            read(CheckState, each, problems={displayable(problem): [""]} if problem else {})
            for each, problem in [(check, check.problem) for check in health]
        ],
        events=[
            read(EventState, each, message=displayable(each.message), workers=[])
            for each in events or ()
        ],
        faults={} if faults is None else by_text(faults.totals),
        shortages=shortages,
        access_log=None
        if access_log is None
        else read(AccessLogState, access_log, left_out=by_text(left_out or {})),
        traces=None if traces is None else read(TracesState, traces),
        admin=admin,
    )
    yield state
    for each in clusters:
        state.clusters.append(each)
        yield state


def read(part: type[P], *owners: object, **others: Any) -> P:  # noqa: ANN401 - fields of the part
    names = (name for name in part.__struct_fields__ if name not in others)
    return part(**others, **values(part, names, *owners))


def fill(state: msgspec.Struct, names: Iterable[str], *owners: object) -> None:
    for name, value in values(type(state), names, *owners).items():
        setattr(state, name, value)


def values(part: type[msgspec.Struct], names: Iterable[str], *owners: object) -> dict[str, Any]:
    found, converters = {}, converters_of(part)
    for name in names:
        for owner in owners:
            value = getattr(owner, name, NOTHING)
            if value is not NOTHING:
                break
        assert value is not NOTHING, f"{name} of {part.__name__}"
        convert = converters[name]
        found[name] = value if convert is None else convert(value)
    return found


@cache
def converters_of(part: type[msgspec.Struct]) -> dict[str, Callable[[Any], Any] | None]:
    found: dict[str, Callable[[Any], Any] | None] = {}
    for name, hint in get_type_hints(part).items():
        if hint is Times:
            found[name] = times
        elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            found[name] = partial(read, hint)
        else:
            found[name] = CONVERTERS.get(get_origin(hint))
    return found


def by_text(numbers: Mapping[Any, T]) -> dict[str, T]:
    return {str(key): each for key, each in numbers.items()}


def times(histogram: Histogram | RatioHistogram) -> Times:
    """A histogram; empty if nothing fell into it."""
    counts = histogram.counts
    return Times(counts=list(counts), sum=float(histogram.sum)) if any(counts) else NO_TIMES


NO_TIMES: Final = Times()
CONVERTERS: Final[dict[Any, Callable[[Any], Any]]] = {dict: by_text, list: list}


def used_state(started_s: float) -> UsedState:
    """Return what this process uses; it began at a time, in seconds since 1970."""
    virtual = resident = open_files = 0
    if os.path.isdir("/proc/self/fd"):  # noqa: PTH112 - not on other systems
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            virtual, resident = map(int, file.read().split()[:2])
        open_files = len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208
    return UsedState(
        cpu_s=time.process_time(),
        virtual_bytes=virtual * resource.getpagesize(),
        resident_bytes=resident * resource.getpagesize(),
        started_s=started_s,
        open_files=open_files,
        max_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def admin_state(places: Places, refused: Mapping[str, int]) -> AdminState:
    return AdminState(
        connections=len(places), ended=by_text(places.ended), refused=by_text(refused)
    )


def cluster_state(
    serving: ServingParts | None, *, name: str, where: str, problem: str, is_full: bool
) -> ClusterState:
    """A cluster as the settings name it, and as it serves, if it does."""
    where, problem = displayable(where), displayable(problem)
    if serving is None:
        return ClusterState(name=name, where=where, problem=problem)
    controller, (limit, members) = serving.controller, serving.shared or (None, None)
    parts = flow_control_parts(controller, serving.kinds, is_full=is_full)
    reachable = reachable_levels(
        controller.flow_schemas(), knows_users=serving.knows_users, is_plain=serving.is_plain
    ).union(PRIORITY_LEVELS)
    for level in parts["levels"]:
        level.is_reachable = level.name in reachable
    return read(
        ClusterState,
        serving,
        controller,
        **parts,
        name=name,
        where=where,
        problem=problem,
        is_serving=True,
        shared_limit=limit,
        members=members,
        client_problems=list(serving.client_problems),
        top_flows=serving.top_flows and serving.top_flows.state(),
        workers=[],
        upstream=upstream_state(serving),
        requests=read(RequestsState, serving.counters),
        reviews=[
            read(ReviewState, api, api.line, kind=kind) for kind, api in serving.reviews.items()
        ],
        certificates=[
            Expiry(setting=setting, file=path, until_s=each.next_unix_s(time.time()))
            for each in serving.certificates
            for setting, path in (each.file,)
        ],
        tokens=[
            Expiry(setting=setting, file=path, since_s=of.since_unix_s, until_s=of.until_unix_s)
            for setting, path, of in serving.tokens
        ],
    )


def flow_control_parts(
    controller: Controller, kinds: KindMeter, *, is_full: bool = False
) -> dict[str, Any]:
    """Fields of a cluster's state that flow control alone says."""
    now_ns = controller.now_ns()
    levels = [level for _, level in sorted(controller.levels.items())]
    fair, wanted = controller.seat_fair_frac, sum(level.target for level in levels)
    return {
        "fair": [fair, wanted] if fair else [],
        "dangling": len(controller.in_force.dangling),
        "levels": [level_state(level, now_ns, is_full=is_full) for level in levels],
        "flow_schemas": list(flow_schema_states(controller, controller.flow_schemas())),
        "in_flight": kinds.in_flight(now_ns),
        "in_queue": kinds.in_queue(now_ns),
        "usages": [
            UsageState(
                phase=each.phase,
                kind=each.request_kind,
                times=Times(counts=list(each.bucket_ns), sum=each.ratio_ns),
            )
            for each in kinds.usages(now_ns)
            if is_full or each.ratio_ns
        ],
    }


def level_state(level: PriorityLevel, now_ns: int, *, is_full: bool = False) -> LevelState:
    queue_set = level.queue_set
    shares, lendable_percent, borrowing_limit_percent = level_shares(level.configuration)
    state = LevelState(
        **values(LevelState, FACTS, level),
        shares=shares,
        lendable_percent=lendable_percent,
        borrowing_limit_percent=borrowing_limit_percent,
        priority=level.additions.priority,
        queue_count=len(queue_set.queues),
    )
    state.is_used = is_full or bool(
        queue_set.dispatched_total
        + queue_set.rejected_total
        + queue_set.cancelled_total
        + queue_set.requests_waiting
    )
    if not state.is_used:
        return state
    queue_set.sync()
    fill(state, USE, queue_set, level.demand, level.demand.stats)
    if not state.is_idle:
        queues = queue_set.queues[:MAX_QUEUES]
        state.queues = [queue.requests_waiting for queue in queues]
        state.queue_seats = [queue.seats_in_use for queue in queues]
        state.active_queues = sum(queue.requests_waiting > 0 for queue in queue_set.queues)
        is_full_up = not level.is_exempt and state.seats_in_use >= state.current_limit
        if state.requests_waiting or is_full_up:
            state.holders = greatest_holder(queue_set)
            state.oldest_wait_s = oldest_wait_ns(queue_set, now_ns) / NS_PER_S
    bounds = *queue_set.next_s_bounds(), *queue_set.next_discounted_s_bounds()
    ticks = queue_set.current_r, queue_set.dispatch_r, queue_set.latest_s, *bounds
    state.r = [each / TICKS_PER_SEAT_SECOND for each in ticks]
    return state


def _fields(part: type[msgspec.Struct], first: str, last: str) -> tuple[str, ...]:
    names = part.__struct_fields__
    return names[names.index(first) : names.index(last) + 1]


FACTS: Final = _fields(LevelState, "name", "target")
USE: Final = _fields(LevelState, "is_idle", "meter")
COUNTED: Final = _fields(FlowSchemaState, "has_counted", "watch_count")


def greatest_holder(queue_set: QueueSet) -> list[Holder]:
    """The flow whose requests have and wait for most seats; none if there are no requests.

    What it has does not tell the greedy from the modest: a fair level gives both as much.
    """
    wanted: dict[tuple[str, str], list[int]] = {}
    queues = islice(queue_set.queues, MAX_QUEUES)
    waiting = chain.from_iterable(queue.tickets() for queue in queues)
    for place, tickets in enumerate((queue_set.executing, waiting)):
        for ticket in islice(tickets, MAX_TICKETS):
            key = ticket.flow.counters.flow_schema, ticket.flow.distinguisher
            wanted.setdefault(key, [0, 0])[place] += ticket.estimate.max_seats
    if not wanted:
        return []
    (flow_schema, flow), (seats, waits_for) = max(wanted.items(), key=lambda item: sum(item[1]))
    flow = displayable(flow[:MAX_NAME])
    return [Holder(flow_schema=flow_schema, flow=flow, seats=seats, waits_for=waits_for)]


def oldest_wait_ns(queue_set: QueueSet, now_ns: int) -> int:
    """For how long the oldest request of the queues has waited; 0 if none waits."""
    if not queue_set.requests_waiting:
        return 0
    oldest = (queue.oldest for queue in islice(queue_set.queues, MAX_QUEUES))
    return max((now_ns - ticket.arrived_ns for ticket in oldest if ticket is not None), default=0)


def flow_schema_states(
    controller: Controller, schemas: Sequence[FlowSchema]
) -> Iterator[FlowSchemaState]:
    """List FlowSchemas in force, in the order in which they are tried, then those that were."""
    counted = {
        (each.priority_level, each.flow_schema): each for each in controller.flow_schema_counters()
    }
    states = [
        FlowSchemaState(
            name=schema.metadata.name,
            priority_level=schema.spec.priority_level_configuration.name,
            uid=stable_uid(schema),
            matching_precedence=schema.spec.matching_precedence,
            weight=schema.additions.weight,
            place=place,
            kind=KINDS.get(how := distinguished_by(schema), how),
            user=only_user(schema),
            until_s=schema.additions.until_s,
            is_in_force=True,
        )
        for place, schema in enumerate(schemas)
    ]
    known = {(each.priority_level, each.name) for each in states}
    for level, name in counted.keys() - known:
        checked = controller.in_force.checked.get((FLOW_SCHEMA, name))
        uid = "" if checked is None else checked.uid
        states.append(FlowSchemaState(name=name, priority_level=level, uid=uid))
    for state in states:
        counters = counted.get((state.priority_level, state.name))
        if counters is not None and counters.has_counted:
            fill(state, COUNTED, counters)
            if counters.tokens is not None:
                state.tokens = read(TokensState, counters.tokens)
        yield state


def only_user(schema: FlowSchema) -> str:
    subjects = [each.user for rule in schema.spec.rules for each in rule.subjects]
    names = {"*" if user is None else user.name for user in subjects}
    return "" if len(names) != 1 or "*" in names else displayable(names.pop()[:MAX_NAME])


def upstream_state(serving: ServingParts) -> UpstreamState:
    upstream, pool, counters = serving.upstream, serving.pool, serving.counters.pool
    watches = upstream.watches.values()
    drawn = sum(each.share for each in pool.endpoints if each.is_drawn)
    return read(
        UpstreamState,
        upstream,
        pool,
        counters,
        serving,
        health=_health(upstream),
        endpoint_count=len(watches),
        healthy_count=sum(watch.state not in OUT for watch in watches),
        served=read(ServedState, counters.total()),
        endpoints=[
            *(endpoint_state(watch.endpoint, watch, drawn) for watch in watches),
            *(endpoint_state(endpoint, None, drawn) for endpoint in pool.draining),
        ],
    )


def endpoint_state(endpoint: Endpoint, watch: EndpointHealth | None, drawn: float) -> EndpointState:
    """An endpoint; `drawn` is the share of all that get requests, and without watch it drains."""
    return read(
        EndpointState,
        endpoint,
        health=Health(state=DRAINING) if watch is None else _health(watch),
        weight=endpoint.address.weight,
        share=endpoint.share / drawn if endpoint.is_drawn and drawn else 0.0,
        open_count=len(endpoint.open),
        idle_count=len(endpoint.idle),
        ejections_total=0 if watch is None else watch.ejections_total,
        served=read(ServedState, endpoint.counters),
    )


def _health(watch: UpstreamHealth | EndpointHealth) -> Health:
    return Health(state=str(watch.state), problem=watch.problem, since_s=watch.since_unix_s)


def summary_of(cluster: ClusterState) -> LevelsSummary:
    levels = tuple(
        read(
            LevelSummary,
            level,
            nominal=level.nominal_limit,
            lendable=level.nominal_limit - level.lower_limit,
            borrowing=None if level.is_exempt else level.upper_limit - level.nominal_limit,
            minimum=level.lower_limit,
            maximum=level.maximum,
            current=level.current_limit,
        )
        for level in cluster.levels
    )
    sums = {name: sum(getattr(each, name) for each in levels) for name in Sums.__struct_fields__}
    return read(LevelsSummary, cluster, levels=levels, sums=Sums(**sums))


def displayable(text: str) -> str:
    """The text with escapes for what is no Unicode, which a header may contain."""
    return text.encode(errors="backslashreplace").decode()
