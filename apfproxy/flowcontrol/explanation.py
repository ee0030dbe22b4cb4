"""Explanations of a request: its FlowSchema, its flow, its seats, its place.

An explanation is made of the configuration and the queues as they are, and changes nothing there
that could be seen.  It is plain data, so that it can be sent and shown elsewhere.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from apfproxy.flowcontrol.classifier import MODEL, no_header
from apfproxy.flowcontrol.dealer import Dealer
from apfproxy.flowcontrol.mismatch import Mismatch, mismatches, quoted
from apfproxy.flowcontrol.passage import (
    BYTES_PER_SEAT,
    LIST_VERBS,
    MAX_LIST_SEATS,
    MUTATING_VERBS,
    WATCHES_PER_SEAT,
    WorkEstimator,
    is_completion,
    takes_seats,
)
from apfproxy.flowcontrol.queue_set import QueueSetKind
from apfproxy.flowcontrol.ticket import RejectReason
from apfproxy.objects.additions import TOKENS, describe
from apfproxy.objects.field_errors import counted
from apfproxy.objects.types import FlowSchema, kind_of, stable_uid

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.controller import Classification, Controller
    from apfproxy.flowcontrol.learned_costs import LearnedCosts
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.flowcontrol.queue_set import QueueSet
    from apfproxy.flowcontrol.ticket import Queue, Ticket, WorkEstimate
    from apfproxy.request.attributes import RequestAttributes, User

NS_PER_S = 1_000_000_000
NO_COMPLETION = (
    "the model does not count: only of completions it is read, which are POSTs to a path such as"
    " /v1/chat/completions, with --preset http or llm"
)

IDLE_WEIGHT = (
    "the weight does not count: only where flows of a level wait in several queues, and differ in"
    " their weights"
)


class UserPart(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    groups: tuple[str, ...]


class RequestPart(msgspec.Struct, frozen=True, rename="camel"):
    verb: str
    path: str
    is_resource_request: bool
    api_group: str
    api_version: str
    namespace: str
    resource: str
    subresource: str
    name: str
    long_running: bool = msgspec.field(name="isLongRunning")
    long_running_by: str = ""
    path_prefix: str = ""


class FlowSchemaPart(msgspec.Struct, frozen=True, rename="camel"):
    """A FlowSchema and the request, which belongs to the first that matches: `is_chosen`.

    `uid` is as responses name it; `mismatches` say why it does not match, rule by rule.
    """

    name: str
    uid: str
    matching_precedence: int
    priority_level: str
    matches: bool
    is_chosen: bool
    mismatches: tuple[Mismatch, ...]


class LevelPart(msgspec.Struct, frozen=True, rename="camel"):
    """The priority level; limits and what is in use in seats, the last three of queues only.

    `uid` is as responses name it; `kind` is what becomes of a request that does not fit: `queue`,
    `reject`, or `exempt`.
    """

    name: str
    uid: str
    kind: str
    nominal_limit: int
    lower_limit: int
    upper_limit: int
    current_limit: int
    seats_in_use: int
    requests_executing: int
    requests_waiting: int
    queues: int
    hand_size: int
    queue_length_limit: int


class QueuePart(msgspec.Struct, frozen=True, rename="camel"):
    index: int
    requests_waiting: int
    requests_executing: int
    seats_in_use: int


class FlowPart(msgspec.Struct, frozen=True, rename="camel"):
    """The flow, with its hand in the order dealt; among weights, with the queue that it gets.

    It is `distinguished_by` `ByUser` or `ByNamespace`, or an addition's `group`, `user-agent`,
    `header NAME`; "" if the FlowSchema is one flow.  The distinguisher is "" also if the level has
    no queues to tell flows apart for.  The hash is 16 hexadecimal digits, since numbers of JSON do
    not hold 64 bits.
    """

    flow_schema: str
    distinguished_by: str
    distinguisher: str
    hash: str
    hand: tuple[QueuePart, ...]
    weight: int = 1


class EstimatePart(msgspec.Struct, frozen=True, rename="camel"):
    """A `WorkEstimate`; `source` says where it came from.  Long-running requests take no seats."""

    initial_seats: int
    final_seats: int
    additional_latency_seconds: float
    takes_seats: bool
    source: str


class OutcomePart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fate of the request if it came now, by a `Foresight`; `text` says it."""

    decision: str
    queue: int | None = None
    ahead: int = 0
    reason: str = ""
    text: str


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """Everything about a request.

    Attributes:
        flow_schemas: Those in force, in the order in which they are tried.
        dangling: FlowSchemas that are not used, to the priority levels that they lack.
        additions: What annotations of the chosen FlowSchema and its level add, a sentence each.
    """

    user: UserPart
    request: RequestPart
    flow_schemas: tuple[FlowSchemaPart, ...]
    dangling: dict[str, str]
    flow_schema: str
    priority_level: LevelPart
    flow: FlowPart
    estimate: EstimatePart
    outcome: OutcomePart
    additions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def explain(
    controller: Controller,
    costs: LearnedCosts,
    user: User,
    attributes: RequestAttributes,
    header_of: Callable[[str], str] = no_header,
    max_list_seats: int = MAX_LIST_SEATS,
) -> Explanation:
    """Explain what becomes of a request that came now."""
    notes = []
    if header_of(MODEL) and not is_completion(attributes):
        notes.append(NO_COMPLETION)
        header_of = _without_model(header_of)
    found = controller.classify(user, attributes, header_of)
    level = found.level
    queue_set = level.queue_set
    queue_set.sync()
    hand = hand_of(queue_set, found.flow.hash)
    estimator = WorkEstimator(costs.object_stats, costs.watch_count, max_list_seats)
    estimate = estimator.estimate(attributes, level.max_seats).weighed(found.weight)
    has_seats = takes_seats(attributes)
    schemas = tuple(
        FlowSchemaPart(
            name=schema.metadata.name,
            uid=stable_uid(schema),
            matching_precedence=schema.spec.matching_precedence,
            priority_level=schema.spec.priority_level_configuration.name,
            matches=not (failed := mismatches(schema, user, attributes, header_of)),
            is_chosen=schema is found.flow_schema,
            mismatches=failed,
        )
        for schema in controller.flow_schemas()
    )
    if not any(schema.matches for schema in schemas):
        notes.append(
            "no FlowSchema matches; such a request goes where the one named catch-all says"
        )
    notes += [
        f"of {kind_of(obj)} {quoted(obj.metadata.name)} this does not count: {error}"
        for obj in (found.flow_schema, level.configuration)
        for error in obj.additions.errors
    ]
    if found.flow_schema.additions.weight > found.weight:
        notes.append(IDLE_WEIGHT)
    if level.costs.cost == TOKENS and is_completion(attributes):
        output, unit_ns = level.costs.expected_output(found.flow), level.costs.ns_per_unit
        notes.append(
            f"a response of this flow is expected to have {counted(round(output), 'token')},"
            f" if the client allows as many; a token counts for {unit_ns / 1e6:.3g} ms of a seat"
        )
    refused = found.limits and found.limits.foreseen_reason(
        found.flow.distinguisher,
        controller.now_ns(),
        is_long_running=attributes.long_running,
        is_completion=is_completion(attributes),
    )
    if refused:
        outcome = _refused(refused)
    elif has_seats:
        limit = controller.foreseen_seat_limit(level, estimate.max_seats)
        outcome = _outcome(queue_set, estimate, foresee(queue_set, hand, estimate, limit), limit)
        if not level.is_exempt and limit > level.current_limit:
            notes.append(
                f"the level's limit is {level.current_limit} now; a request that would wait gets"
                " idle seats of other levels at once, and a level that has lent all that it has"
                " serves one request at a time (flowControl.limitAdjustment: prompt)"
            )
    else:
        text = (
            "executes at once: it may last as long as its client likes, so it takes no seats;"
            f" {attributes.long_running_by}"
        )
        outcome = OutcomePart(decision=Decision.EXECUTE.value, text=text)
    return Explanation(
        user=msgspec.convert(user, UserPart, from_attributes=True),
        request=msgspec.convert(attributes, RequestPart, from_attributes=True),
        flow_schemas=schemas,
        dangling=dict(sorted(controller.in_force.dangling.items())),
        flow_schema=found.flow_schema.metadata.name,
        priority_level=_level_part(level),
        flow=_flow_part(found, hand),
        estimate=EstimatePart(
            initial_seats=estimate.initial_seats,
            final_seats=estimate.final_seats,
            additional_latency_seconds=estimate.additional_latency_ns / NS_PER_S,
            takes_seats=has_seats,
            source=estimate_source(attributes, costs, level.max_seats, max_list_seats),
        ),
        outcome=outcome,
        additions=describe(found.flow_schema.additions) + describe(level.additions),
        notes=tuple(notes),
    )


def _without_model(header_of: Callable[[str], str]) -> Callable[[str], str]:
    return lambda name: "" if name == MODEL else header_of(name)


def hand_of(queue_set: QueueSet, flow_hash: int) -> tuple[int, ...]:
    """The queues of which a flow's next request gets one."""
    config = queue_set.config
    if config.kind is not QueueSetKind.QUEUE:
        return ()
    hand = Dealer(config.queues, config.hand_size).deal(flow_hash)
    if not config.has_weights:
        return hand
    offset = queue_set.enqueues % len(hand)
    return (queue_set.queue_of(flow_hash, hand[offset:] + hand[:offset]).index,)


def _level_part(level: PriorityLevel) -> LevelPart:
    queue_set, config = level.queue_set, level.queue_set.config
    return LevelPart(
        name=level.name,
        uid=level.uid,
        kind=config.kind.value,
        nominal_limit=level.nominal_limit,
        lower_limit=level.lower_limit,
        upper_limit=level.upper_limit,
        current_limit=level.current_limit,
        seats_in_use=queue_set.seats_in_use,
        requests_executing=queue_set.requests_executing,
        requests_waiting=queue_set.requests_waiting,
        queues=config.queues,
        hand_size=config.hand_size,
        queue_length_limit=config.queue_length_limit,
    )


def _flow_part(found: Classification, hand: tuple[int, ...]) -> FlowPart:
    queues = found.level.queue_set.queues
    return FlowPart(
        flow_schema=found.flow_schema.metadata.name,
        distinguished_by=distinguished_by(found.flow_schema),
        distinguisher=found.flow.distinguisher,
        hash=f"{found.flow.hash:016x}",
        hand=tuple(msgspec.convert(queues[card], QueuePart, from_attributes=True) for card in hand),
        weight=found.weight,
    )


def _outcome(
    queue_set: QueueSet, estimate: WorkEstimate, foresight: Foresight, limit: int
) -> OutcomePart:
    seats = counted(estimate.max_seats, "seat")
    if queue_set.config.kind is QueueSetKind.EXEMPT:
        used = f"{in_use(queue_set.seats_in_use)}, and none is counted against a limit"
    else:
        used = in_use(limit, f"{queue_set.seats_in_use} of ")
    reason = foresight.reason
    if foresight.decision is Decision.EXECUTE:
        text = f"executes at once: it needs {seats}, and {used}"
    elif foresight.decision is Decision.WAIT:
        behind = f"behind {counted(foresight.ahead, 'request')}" if foresight.ahead else "first"
        text = f"waits in queue {foresight.queue}, {behind}: it needs {seats}, and {used}"
    elif reason is RejectReason.QUEUE_FULL:
        text = (
            f"rejected with 429, {reason}: queue {foresight.queue}, the best of its hand,"
            f" has {counted(foresight.ahead, 'request')} waiting, as many as it may, and {used}"
        )
    else:
        text = (
            f"rejected with 429, {reason}: it needs {seats}, {used}, and level"
            f" {quoted(queue_set.name)} has no queues"
        )
    return OutcomePart(
        decision=foresight.decision.value,
        queue=foresight.queue,
        ahead=foresight.ahead,
        reason=reason.value if reason is not None else "",
        text=text,
    )


def in_use(seats: int, some_of: str = "") -> str:
    return f"{some_of}{counted(seats, 'seat')} {'is' if seats == 1 else 'are'} in use"


def _refused(reason: RejectReason) -> OutcomePart:
    status, why = {
        RejectReason.BAN: (403, "the priority level rejects every request"),
        RejectReason.RATE: (429, "the flow has made as many requests as its rate allows"),
        RejectReason.FLOW_REQUESTS: (429, "the flow has as many requests under way as it may"),
        RejectReason.TOKEN_RATE: (429, "the flow has had more tokens than its rate allows"),
    }.get(reason, (429, "the flow has as many long-running requests as it may"))
    return OutcomePart(
        decision=Decision.REJECT.value,
        reason=reason.value,
        text=f"rejected with {status}, {reason}: {why}",
    )


def distinguished_by(schema: FlowSchema) -> str:
    added = schema.additions.distinguisher
    if added is not None:
        return f"{added.kind.value} {added.header}".rstrip()
    method = schema.spec.distinguisher_method
    return "" if method is None else method.type


MAX_DISPATCHES = 500
"""Dispatches before its own, left by a withdrawal, after which an arrival is taken to wait."""


class Decision(enum.StrEnum):
    EXECUTE = "execute"
    WAIT = "wait"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Foresight:
    """Holds what a queue set would do.

    Attributes:
        queue: Index of the queue that the request would be in; None at a level without queues.
        ahead: Requests that would wait in that queue before it.
        reason: Why it would be rejected.
    """

    decision: Decision
    queue: int | None = None
    ahead: int = 0
    reason: RejectReason | None = None


def foresee(
    queue_set: QueueSet, hand: tuple[int, ...], estimate: WorkEstimate, limit: int
) -> Foresight:
    """Return what `admit` would do now; `sync` the queue set first.

    `hand` is empty at a level without queues.  `limit` is the seats that requests may use by then,
    `queue_set.seat_limit` or more.
    """
    seats = estimate.max_seats
    in_use = queue_set.seats_in_use
    if queue_set.config.kind is not QueueSetKind.QUEUE:
        if fits(limit, in_use, queue_set.requests_executing, seats):
            return Foresight(Decision.EXECUTE)
        return Foresight(Decision.REJECT, reason=RejectReason.CONCURRENCY_LIMIT)
    queue = chosen_queue(queue_set, hand)
    if not queue_set.requests_waiting and in_use + seats <= limit:
        return Foresight(Decision.EXECUTE, queue.index)
    if queue_set.is_full(queue) and in_use >= queue_set.seat_limit:
        return Foresight(
            Decision.REJECT, queue.index, queue.requests_waiting, RejectReason.QUEUE_FULL
        )
    return _after_dispatch(queue_set, queue, estimate, limit)


def chosen_queue(queue_set: QueueSet, hand: tuple[int, ...]) -> Queue:
    offset = queue_set.enqueues % len(hand)
    cards = hand[offset:] + hand[:offset]
    return min((queue_set.queues[card] for card in cards), key=lambda queue: queue.work_waiting)


def fits(limit: int, in_use: int, executing: int, seats: int) -> bool:
    return executing == 0 if seats > limit else in_use + seats <= limit


class _Line:
    """A queue where something waits, as it would go on; the arrival is last if it is there."""

    def __init__(self, queue: Queue) -> None:
        self.index = queue.index
        self.oldest: Ticket | None = queue.oldest
        self.start_r = queue.next_dispatch_r
        self.arrival: WorkEstimate | None = None

    @property
    def next_estimate(self) -> WorkEstimate:
        if self.oldest is not None:
            return self.oldest.estimate
        assert self.arrival is not None
        return self.arrival


def _after_dispatch(
    queue_set: QueueSet, queue: Queue, estimate: WorkEstimate, limit: int
) -> Foresight:
    now_r, count = queue_set.current_r, len(queue_set.queues)
    lines = {each.index: _Line(each) for each in queue_set.queues if each.requests_waiting}
    own = lines.setdefault(queue.index, _Line(queue))
    own.arrival = estimate
    if own.oldest is None:
        own.start_r = max(own.start_r, now_r) if queue.is_active else now_r
    last = queue_set.robin.last_index
    in_use, executing = queue_set.seats_in_use, queue_set.requests_executing
    for _ in range(MAX_DISPATCHES):
        if in_use >= limit:
            break
        line = min(
            lines.values(),
            key=lambda each: (
                each.start_r + each.next_estimate.work,
                (each.index - last - 1) % count,
            ),
        )
        next_estimate = line.next_estimate
        if not fits(limit, in_use, executing, next_estimate.max_seats):
            break
        if line.oldest is None:
            return Foresight(Decision.EXECUTE, queue.index)
        last = line.index
        is_cut = next_estimate.final_seats > limit
        in_use += (next_estimate.cut(limit) if is_cut else next_estimate).max_seats
        executing += 1
        line.start_r += next_estimate.work
        line.oldest = line.oldest.next
        if line.oldest is not None:
            line.start_r = max(line.start_r, line.oldest.arrival_r)
        elif line is own:
            line.start_r = max(line.start_r, now_r)
        else:
            del lines[line.index]
    ahead, ticket = 0, own.oldest
    while ticket is not None:
        ahead, ticket = ahead + 1, ticket.next
    return Foresight(Decision.WAIT, queue.index, ahead)


def estimate_source(
    attributes: RequestAttributes, costs: LearnedCosts, max_seats: int, max_list_seats: int
) -> str:
    """Where the estimate of a request's work comes from; `max_seats` 0 is no limit."""
    if attributes.is_plain:
        return "every request of an API that is not Kubernetes takes one seat (preset: http or llm)"
    most = f", {max_seats} at most here" if max_seats else ""
    if WorkEstimator(costs.object_stats, costs.watch_count).fixed(attributes) is not None:
        if attributes.verb == "watch":
            return "a watch that begins without the objects there are takes one seat"
        if attributes.verb in MUTATING_VERBS:
            return "a write that no watch is told of takes one seat"
        return f"{attributes.verb!r} is no list, watch or write, so one seat"
    if attributes.verb in LIST_VERBS:
        options = attributes.list_options
        assert options is not None
        if not 0 < max_seats <= max_list_seats:
            most = f", {max_list_seats} at most (flowControl.maxListSeats)"
        if not options.is_decodable:
            return f"its options cannot be decoded, so it counts as the dearest list{most}"
        stats = costs.object_stats(attributes)
        if stats is None:
            return "nothing is known about how many objects there are, so one seat"
        known, are = counted(stats.count, "object"), "is" if stats.count == 1 else "are"
        return (
            f"{known} of {stats.average_bytes} bytes {are} known; a seat for"
            f" each {BYTES_PER_SEAT // 1000} kB of those that are read at once{most}"
        )
    count = costs.watch_count(attributes)
    if count < WATCHES_PER_SEAT:
        return (
            f"a write that fewer than {WATCHES_PER_SEAT} watches are told of takes one seat;"
            f" here it is {count}"
        )
    return f"{count} watches are told of this write: so many seats for so long after its end{most}"
