"""All that pages, metrics and commands show of a process: one value, which adds up over workers.

Each field's annotation has its rule of adding up, which `summed` follows.  A worker sends its
state to its parent once a second; a process without workers makes it when it is asked.  The counts
of a process that ended stay in the sum, so that no counter ever falls.

A field at its default is not sent.  All fields have defaults, so that a parent and a worker of
different versions understand each other.
"""

from __future__ import annotations

from functools import cache
from itertools import chain, zip_longest
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec.structs import astuple

from apfproxy.fleet.view import FleetView, MemberView  # noqa: TC001 - annotations are read here
from apfproxy.flowcontrol.limit_view import LimitView  # noqa: TC001 - read here
from apfproxy.upstream.counters import CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    Values = Sequence[Any]
    Rule = Callable[[Values, Values], Any]
    """How the values of a field become one: those of processes that live, and that ended."""

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

NS_PER_S: Final = 1_000_000_000

NOTHING: Final = object()
MAX_RECORDS: Final = 10_000
"""For one list of records in a sum: those that ended processes had could grow without end."""


def _living(add: Callable[[Values], Any]) -> Rule:
    return lambda living, _: add(living) if living else NOTHING


def _all(add: Callable[[Values], Any]) -> Rule:
    return lambda living, ended: add([*living, *ended])


def _by(*key: str, outlives: bool = False) -> Rule:
    """Records of which the attributes `key` are the same are one.

    Records of ended processes alone are left out unless they outlive them, or nothing lives.
    """
    name_of = attrgetter(*key)

    def add(living: Values, ended: Values) -> list[Any]:
        groups: dict[Hashable, tuple[list[Any], list[Any]]] = {}
        stay = outlives or not living
        for place, lists in enumerate((living, ended)):
            for record in chain.from_iterable(lists):
                name = name_of(record)
                if name not in groups:
                    if (place and not stay) or len(groups) >= MAX_RECORDS:
                        continue
                    groups[name] = [], []
                groups[name][place].append(record)
        return [summed(*group) for group in groups.values()]

    return add


def _by_key(dicts: Values) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in chain.from_iterable(each.items() for each in dicts):
        found[key] = found.get(key, 0) + value
    return found


def _by_place(lists: Values) -> list[Any]:
    return list(map(sum, zip_longest(*lists, fillvalue=0)))


def _largest(lists: Values) -> list[float]:
    return list(map(max, zip(*filter(None, lists), strict=True)))


def _either(dicts: Values) -> dict[str, bool]:
    return {key: any(each.get(key, False) for each in dicts) for some in dicts for key in some}


def _joined(lists: Values) -> list[Any]:
    return list(chain.from_iterable(lists))


def _union(lists: Values) -> list[Any]:
    return list(dict.fromkeys(chain.from_iterable(lists)))


def _by_text(dicts: Values) -> dict[str, list[str]]:
    return {key: _joined([each.get(key, []) for each in dicts]) for key in _union(dicts)}


FIRST: Final[Rule] = lambda living, ended: (living or ended or (NOTHING,))[0]  # noqa: E731
SUM: Final = _living(sum)
MAX: Final = _living(max)
MIN: Final = _living(min)
ANY: Final = _living(any)
ALL: Final = _living(all)
MEAN: Final = _living(fmean)
COUNT: Final = _all(sum)
BY_NAME: Final = _by("name")
NEVER_EMPTY: Final[Rule] = lambda living, ended: BY_NAME(list(filter(None, living)), ended)  # noqa: E731
"""A list without which nothing serves: records of ended processes stay until then."""
BY_KIND: Final = _by("kind", outlives=True)
BY_LEVEL: Final = _by("priority_level", "name", outlives=True)
BY_FILE: Final = _by("setting", "file")
JOINED, UNION = _living(_joined), _living(_union)

First = Annotated[T, FIRST]
Amount = Annotated[int, SUM]
Total = Annotated[float, SUM]
Amounts = Annotated[dict[str, int], _living(_by_key)]
Places = Annotated[list[int], _living(_by_place)]
Count = Annotated[int, COUNT]
Counts = Annotated[dict[str, int], _all(_by_key)]
Slots = Annotated[list[int], _all(_by_place)]


class State(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """Base of the parts that are made at once."""


class Growing(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Base of the parts that are made bit by bit."""


@cache
def plan(part: type[msgspec.Struct]) -> list[tuple[str, Rule, Any]]:
    hints = get_type_hints(part, include_extras=True)
    rules = [
        getattr(hints[each], "__metadata__", [OF_ITS_OWN])[0] for each in part.__struct_fields__
    ]
    return list(zip(part.__struct_fields__, rules, astuple(part()), strict=True))


def summed(living: Sequence[S], ended: Sequence[S] = ()) -> S:
    """The sum of states or of parts, of which there is at least one."""
    states = [*living, *ended]
    part: Any = type(states[0])
    values = {}
    for (name, rule, default), column in zip(
        plan(part), zip(*map(astuple, states), strict=True), strict=True
    ):
        if column.count(default) == len(column):
            continue  # as most of what is seldom used
        value = rule(
            [each for each in column[: len(living)] if each is not None],
            [each for each in column[len(living) :] if each is not None],
        )
        if value is not NOTHING:
            values[name] = value
    found: S = part(**values)
    return found


OF_ITS_OWN: Final[Rule] = lambda *both: summed(*both) if any(both) else NOTHING  # noqa: E731


class Times(State, frozen=True):
    counts: Slots = []
    sum: Annotated[float, COUNT] = 0.0


# Flow control.


class Holder(State, frozen=True):
    """A flow that wants seats of a level: those that it has, and those that it waits for."""

    flow_schema: First[str] = ""
    flow: First[str] = ""
    seats: Amount = 0
    waits_for: Amount = 0


def _greatest(lists: Values) -> list[Holder]:
    found = _by("flow_schema", "flow")(lists, ())
    return sorted(found, key=lambda each: -each.seats - each.waits_for)[:1]


class MeterState(State, frozen=True):
    requests_executing: Times = Times()
    requests_waiting: Times = Times()
    seats_in_use: Times = Times()
    seat_demand: Times = Times()


class LevelState(Growing):
    """A priority level; all from `is_used` on is at its default if no request ever came to it.

    Attributes:
        queues, queue_seats: Of the first queues; a flow has the same queues in all workers.
        holders: The flow that wants most, if a request may lack a seat.
        r: R now, at the last dispatch, the S dispatched last, the bounds of the next S and of the
            next S discounted, in seat-seconds.
    """

    name: First[str] = ""
    uid: First[str] = ""
    is_exempt: First[bool] = False
    is_quiescing: Annotated[bool, ALL] = False
    nominal_limit: Amount = 0
    lower_limit: Amount = 0
    upper_limit: Amount = 0
    current_limit: Amount = 0
    failed_total: Count = 0
    target: Total = 0.0

    is_reachable: Annotated[bool, ANY] = True
    shares: First[int] = 0
    lendable_percent: First[int] = 0
    borrowing_limit_percent: First[int | None] = None
    priority: First[int | None] = None
    queue_count: Annotated[int, MAX] = 0

    is_used: Annotated[bool, _all(any)] = False
    is_idle: Annotated[bool, ALL] = True
    seats_in_use: Amount = 0
    requests_executing: Amount = 0
    requests_waiting: Amount = 0
    dispatched_total: Count = 0
    rejected_total: Count = 0
    timed_out_total: Count = 0
    cancelled_total: Count = 0
    high_watermark: Amount = 0
    average: Total = 0.0
    stddev: Total = 0.0
    smoothed: Total = 0.0
    meter: MeterState = MeterState()

    active_queues: Amount = 0
    queues: Places = []
    queue_seats: Places = []
    oldest_wait_s: Annotated[float, MAX] = 0.0
    holders: Annotated[list[Holder], _living(_greatest)] = []
    r: Annotated[list[float], _living(_largest)] = []

    @property
    def type(self) -> str:
        return "Exempt" if self.is_exempt else "Limited"

    @property
    def maximum(self) -> int | None:
        return None if self.is_exempt else self.upper_limit


class TokensState(State, frozen=True):
    """Completions of a FlowSchema at a level, of which tokens are counted."""

    open_streams: Amount = 0
    completions: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    first_token_ns: Times = Times()
    first_token_executing_ns: Times = Times()
    between_tokens_ns: Times = Times()


class FlowSchemaState(Growing):
    """A FlowSchema at a level, maybe a former one; a flow is a `kind`, `user` is its only user."""

    name: First[str] = ""
    priority_level: First[str] = ""
    uid: First[str] = ""
    matching_precedence: First[int] = 0
    weight: First[int] = 1
    place: First[int] = 0
    kind: First[str] = ""
    user: First[str] = ""
    until_s: First[float | None] = None
    is_in_force: Annotated[bool, ANY] = False

    has_counted: Annotated[bool, _all(any)] = False
    executing_requests: Amount = 0
    executing_seats: Amount = 0
    inqueue_requests: Amount = 0
    inqueue_seats: Amount = 0
    dispatched: Count = 0
    no_accommodation: Count = 0
    cancelled: Count = 0
    rejected_concurrency_limit: Count = 0
    rejected_queue_full: Count = 0
    rejected_time_out: Count = 0
    rejected_ban: Count = 0
    rejected_flow_requests: Count = 0
    rejected_long_running: Count = 0
    rejected_rate: Count = 0
    rejected_token_rate: Count = 0
    paced_ns: Count = 0
    wait_executed_ns: Times = Times()
    wait_rejected_ns: Times = Times()
    execution_regular_ns: Times = Times()
    execution_watch_ns: Times = Times()
    queue_length_after_enqueue: Times = Times()
    work_estimated_seats: Times = Times()
    watch_count: Times = Times()
    tokens: TokensState | None = None


class UsageState(State, frozen=True):
    phase: First[str] = ""
    kind: First[str] = ""
    times: Times = Times()


class Flow(State, frozen=True):
    """A flow that used much lately, see `TopFlows`; its name is cut unless it `is_whole`."""

    flow_schema: First[str] = ""
    priority_level: First[str] = ""
    flow: First[str] = ""
    is_whole: First[bool] = True
    seat_seconds: Total = 0.0
    wait_seconds: Total = 0.0
    rejected: Total = 0.0
    tokens: Total = 0.0


class FlowsState(State, frozen=True):
    """The flows with most by each measure; the sum of all flows and the error by measure."""

    capacity: First[int] = 0
    totals: Annotated[list[float], _living(_by_place)] = []
    errors: Annotated[list[float], _living(_by_place)] = []
    flows: Annotated[list[Flow], _by("flow_schema", "priority_level", "flow")] = []


# Servers behind.

UP, FAILING, UNKNOWN, EJECTED, DRAINING = "up", "failing", "unknown", "ejected", "draining"
OUT: Final = frozenset({EJECTED, FAILING})
"""States of an endpoint that gets no requests, unless all are like that."""
BEST_FIRST: Final = (UP, UNKNOWN, DRAINING, EJECTED, FAILING)


class Health(State, frozen=True):
    """How a server behind is, or all of them: the state, why, and since when, in unix seconds."""

    state: str = UNKNOWN
    problem: str | None = None
    since_s: float | None = None

    @property
    def is_up(self) -> bool | None:
        return self.state == UP if self.state in {UP, *OUT} else None


def _badness(health: Health) -> int:
    return BEST_FIRST.index(health.state)


WORST: Final = _living(lambda found: max(found, key=_badness))
"""An endpoint is as the worker sees it that sees it worst."""
BEST: Final = _living(lambda found: min(found, key=_badness))
"""The servers together fail only where they fail for all workers."""


class ServedState(State, frozen=True):
    """Responses of servers by status code, failures by how, times to heads of responses."""

    answers: Counts = {}
    failures: Counts = {}
    head_ns: Times = Times()


class Connections(State, frozen=True):
    open_count: Amount = 0
    idle_count: Amount = 0

    @property
    def active_count(self) -> int:
        return self.open_count - self.idle_count


class EndpointState(Connections, frozen=True):
    url: First[str] = ""
    health: Annotated[Health, WORST] = Health()
    weight: First[int] = 1
    ramp: Annotated[float, MIN] = 1.0
    share: Annotated[float, MEAN] = 0.0
    seats: Amount = 0
    busy_count: Amount = 0
    ejections_total: Count = 0
    served: ServedState = ServedState()

    @property
    def is_drained(self) -> bool:
        return self.health.state == DRAINING


class UpstreamState(Connections, frozen=True):
    address: First[str] = ""
    health: Annotated[Health, BEST] = Health()
    awaiting: Amount = 0
    silent_s: Annotated[float, MAX] = 0.0
    endpoint_count: Annotated[int, MAX] = 0
    healthy_count: Annotated[int, MIN] = 0
    seats_per_endpoint: First[int | None] = None
    served: ServedState = ServedState()
    endpoints: Annotated[list[EndpointState], _by("url", "is_drained")] = []
    waiting_count: Amount = 0
    bytes_received: Count = 0
    bytes_sent: Count = 0
    connections_opened: Count = 0
    rebalanced: Count = 0
    handshakes: Counts = {}


# A cluster.


class RequestsState(State, frozen=True):
    abandoned_given_up: Count = 0
    abandoned_requests: Count = 0
    bans: Count = 0
    client_aborts: Count = 0
    own_responses: Counts = {}
    slow_reader_releases: Count = 0
    slow_readers_open: Amount = 0
    tunnels_by_protocol: Counts = {}
    tunnels_open: Amount = 0
    upstream_retries: Count = 0


class LoadsState(Growing):
    """Loads of a cluster's objects since its start; one that skips an object has failed."""

    succeeded: Count = 0
    failed: Count = 0
    problems: Annotated[int, MAX] = 0
    last_success_unix_s: Annotated[float, MIN] = 0.0

    def loaded(self, problems: int, unix_s: float) -> None:
        self.problems = problems
        if problems:
            self.failed += 1
        else:
            self.succeeded += 1
            self.last_success_unix_s = unix_s


class AuthenticationState(State, frozen=True):
    authenticated: Count = 0
    anonymous: Count = 0
    unverified: Count = 0
    crowded: Count = 0
    refused: Count = 0
    unavailable: Count = 0


class ReviewState(State, frozen=True):
    kind: First[str] = ""
    asked_total: Count = 0
    failures_total: Count = 0
    stand_ins_total: Count = 0
    unasked_total: Counts = {}
    waiting: Amount = 0
    under_way: Amount = 0


class Expiry(State, frozen=True):
    setting: First[str] = ""
    file: First[str] = ""
    since_s: Annotated[float, MIN] = 0.0
    until_s: Annotated[float, MIN] = 0.0


class Share(State, frozen=True):
    name: str = ""
    seats_in_use: int = 0
    executing: int = 0
    waiting: int = 0
    dispatched: int = 0
    loop_delay_s: float = 0.0


def _weighted(lists: Values) -> list[float]:
    total = sum(weight for _, weight in filter(None, lists))
    return (
        [sum(each * weight for each, weight in filter(None, lists)) / total, total] if total else []
    )


def _fleet(views: Values, ended: Values) -> FleetView:
    """The fleet as a member that holds its claim says; each member of this machine as it says."""
    shown = next((view for view in views if view.state == "held"), (*views, *ended)[0])
    own = {
        member.key: msgspec.structs.replace(member, state=view.state)
        for view in views
        for member in view.members
        if member.is_self
    }
    seats, counts = ("claim", "in_force", "safe_share"), ("refreshes", "conflicts", "failures")
    found: FleetView = msgspec.structs.replace(
        shown,
        **{name: sum(getattr(view, name) for view in views) for name in seats},
        **{name: sum(getattr(view, name) for view in (*views, *ended)) for name in counts},
        problem=next((view.problem for view in views if view.problem), ""),
        lost=max(view.lost for view in (*views, *ended)),
        members=tuple(own.get(member.key, member) for member in shown.members),
    )
    return found


def _found_limit(views: Values, ended: Values) -> Any:  # noqa: ANN401 - as rules return
    """The limit as the process says that finds it, and the decisions of all."""
    if not views:
        return NOTHING
    shown = next((view for view in views if view.is_leading), views[0])
    decided = _by_key([view.decided for view in (*views, *ended)])
    return msgspec.structs.replace(shown, decided=decided)


class ClusterState(Growing):
    """A cluster; if it is not serving, it may be what ended processes had.

    Attributes:
        problem: Why its settings are not in force; "" if they are.
        shared_limit, members: The limit that a fleet shares, and how many share it.
        client_problems: Why clients are not told apart as they could be.
        found_limit: The server limit that is found; None where the settings say it.
        fair: Seats given per seat wanted at the last division among levels, and seats wanted.
        in_flight, in_queue: Most requests at a time in the last second, by kind.
    """

    name: First[str] = ""
    where: First[str] = ""
    problem: First[str] = ""
    is_serving: Annotated[bool, ANY] = False

    enforcement: First[str] = "enforce"
    server_concurrency_limit: Amount = 0
    shared_limit: First[int | None] = None
    members: First[int | None] = None
    found_limit: Annotated[LimitView | None, _found_limit] = None
    fair: Annotated[list[float], _living(_weighted)] = []
    generation: Annotated[int, MAX] = 0
    source: First[str] = ""
    ban_command: First[list[str]] = []  # what comes before the user, and after
    client_problems: Annotated[list[str], UNION] = []
    dangling: Annotated[int, MAX] = 0
    unused_additions: Annotated[int, MAX] = 0
    loads: LoadsState = msgspec.field(default_factory=LoadsState)
    levels: Annotated[list[LevelState], NEVER_EMPTY] = []
    flow_schemas: Annotated[list[FlowSchemaState], BY_LEVEL] = []
    in_flight: Amounts = {}
    in_queue: Amounts = {}
    usages: Annotated[list[UsageState], _by("phase", "kind", outlives=True)] = []
    top_flows: FlowsState | None = None
    fleet: Annotated[FleetView | None, _fleet] = None
    workers: Annotated[list[Share], JOINED] = []

    upstream: UpstreamState = UpstreamState()
    requests: RequestsState = RequestsState()
    authentications: AuthenticationState = AuthenticationState()
    reviews: Annotated[list[ReviewState], BY_KIND] = []
    certificates: Annotated[list[Expiry], BY_FILE] = []
    tokens: Annotated[list[Expiry], BY_FILE] = []

    @property
    def seat_fair_frac(self) -> float:
        return self.fair[0] if self.fair else 0.0


# A process.


class Http2State(State, frozen=True):
    connections: Count = 0
    connections_open: Amount = 0
    floods: Counts = {}
    goaways: Counts = {}
    requests: Count = 0
    resets: Counts = {}
    streams_open: Amount = 0


class ListenerState(State, frozen=True):
    bytes_from_clients: Count = 0
    bytes_to_clients: Count = 0
    connections_accepted: Count = 0
    connections_open: Amount = 0
    connections_refused: Counts = {}
    handshake_failures: Counts = {}
    handshakes: Counts = {}
    held_bytes: Amount = 0
    held_refusals: Counts = {}
    loop_delay_ns: Annotated[int, MAX] = 0
    malformed_requests: Count = 0
    overloads: Annotated[dict[str, bool], _living(_either)] = {}
    own_responses: Counts = {}
    proxy_header_failures: Counts = {}
    unrouted_requests: Count = 0
    http2: Http2State = Http2State()

    @property
    def loop_delay_s(self) -> float:
        return self.loop_delay_ns / NS_PER_S


class AccessLogState(State, frozen=True):
    written: Count = 0
    dropped: Count = 0
    write_errors: Count = 0
    queued: Amount = 0
    left_out: Counts = {}


class TracesState(State, frozen=True):
    exported: Count = 0
    failed: Count = 0
    dropped: Count = 0
    queued: Amount = 0


class AdminState(State, frozen=True):
    connections: Amount = 0
    ended: Counts = {}
    refused: Counts = {}


class UsedState(State, frozen=True):
    """Bytes, descriptors and seconds of processor time."""

    cpu_s: Annotated[float, COUNT] = 0.0
    virtual_bytes: Amount = 0
    resident_bytes: Amount = 0
    started_s: Annotated[float, MIN] = 0.0
    open_files: Annotated[int, MAX] = 0
    max_files: Annotated[int, MIN] = 0


class CheckState(Growing):
    name: First[str] = ""
    pages: First[list[str]] = []
    is_blocking: Annotated[bool, ANY] = False
    problems: Annotated[dict[str, list[str]], _living(_by_text)] = {}


class EventState(State, frozen=True):
    """A change of the configuration, or its error; `is_own` if each worker has its own."""

    unix_s: float = 0.0
    message: str = ""
    is_error: bool = False
    cluster: str = ""
    is_own: bool = False
    workers: list[str] = []


SAME_EVENT_S: Final = 10.0
"""Workers read the same files within so many seconds."""
MAX_EVENTS: Final = 50


def _same_events(lists: Sequence[Sequence[EventState]]) -> list[EventState]:
    found: list[EventState] = []
    for event in _joined(lists):
        for place, known in enumerate(found):
            is_same = known.message == event.message
            is_same &= abs(known.unix_s - event.unix_s) <= SAME_EVENT_S
            if is_same and not set(known.workers) & set(event.workers):
                workers = known.workers + event.workers
                found[place] = msgspec.structs.replace(known, workers=workers)
                break
        else:
            found.append(event)
    return sorted(found, key=attrgetter("unix_s"))[-MAX_EVENTS:]


class WorkerState(State, frozen=True):
    name: str = ""
    state: str = ""
    problem: str = ""


class ProcessState(Growing):
    """A process, or a parent with its workers; `restarts` are of those that ended unasked."""

    version: Annotated[list[str], UNION] = []
    is_full: Annotated[bool, ANY] = False
    has_several: Annotated[bool, ANY] = False
    used: UsedState = UsedState()
    listener: ListenerState = ListenerState()
    health: Annotated[list[CheckState], BY_NAME] = []
    events: Annotated[list[EventState], _living(_same_events)] = []
    faults: Counts = {}
    shortages: Count = 0
    access_log: AccessLogState | None = None
    traces: TracesState | None = None
    admin: AdminState | None = None
    clusters: Annotated[list[ClusterState], NEVER_EMPTY] = []
    workers: Annotated[list[WorkerState], JOINED] = []
    restarts: Count = 0


def of_worker(state: ProcessState, name: str) -> ProcessState:
    """Have a state say of which worker its problems, its events and its seats are."""
    for check in state.health:
        check.problems = {problem: [name] for problem in check.problems}
    state.events = [msgspec.structs.replace(each, workers=[name]) for each in state.events]
    for cluster in state.clusters:
        levels = cluster.levels
        cluster.workers = [
            Share(
                name=name,
                seats_in_use=sum(level.seats_in_use for level in levels),
                executing=sum(level.requests_executing for level in levels),
                waiting=sum(level.requests_waiting for level in levels),
                dispatched=sum(level.dispatched_total for level in levels),
                loop_delay_s=state.listener.loop_delay_s,
            )
        ]
    return state


# Readings.


def cluster_of(clusters: Iterable[ClusterState], name: str) -> ClusterState | None:
    return next((each for each in clusters if each.name == name), None)


def by_class(answers: Mapping[str, int]) -> dict[str, int]:
    """Responses by class of status code, all classes; one above 599 is in `5xx`."""
    found = dict.fromkeys(CLASSES, 0)
    for code, number in answers.items():
        found[CLASSES[min(int(code) // 100, len(CLASSES)) - 1]] += number
    return found


def is_silent(member: MemberView) -> bool:
    """Whether nothing was heard of it for so long that it may be gone; of another member."""
    return not member.is_self and member.age_s > (SILENT_PART * member.lease_s or SILENT_S)


SILENT_PART: Final = 0.7
"""A member writes three times in this part of its lease, and a look may miss one of them."""
SILENT_S: Final = 4.0


def total_demand(member: MemberView) -> int:
    return sum(member.demand.values())
