"""The three debug pages of API Priority and Fairness, as kube-apiserver has them.

`dump_priority_levels` has a row for each priority level, `dump_queues` one for each queue, and
`dump_requests` one for each request that waits or executes.  Levels come in the order of their
names, queues by index; of each queue first what waits, oldest first, then what executes, then what
executes without a queue.  A request outside a queue has the queue index -1, an executing one the
request index -1, and a waiting one a start time of Go's zero.

Everything is read at the request.  Rows and views are generated one by one: a thousand levels have
so many that other tasks must run in between.  The requests of a level are of one moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.admin.go_format import ZERO_TIME, duration_text, time_text
from apfproxy.flowcontrol.queue_set import format_seat_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apfproxy.admin.table import Cell
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.flowcontrol.queue_set import Ticket
    from apfproxy.request.attributes import RequestAttributes

Row = tuple["Cell", ...]

PRIORITY_LEVEL_COLUMNS = (
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
)
QUEUE_COLUMNS = (
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
)
REQUEST_COLUMNS = (
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",  # spelt so by kube-apiserver, and by what reads its page
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
)
REQUEST_DETAIL_COLUMNS = (
    "UserName",
    "Verb",
    "APIPath",
    "Namespace",
    "Name",
    "APIVersion",
    "Resource",
    "SubResource",
)


class RequestDetails(Protocol):
    """A ticket's `details`: its request."""

    @property
    def user_name(self) -> str:
        """Who asks."""

    @property
    def attributes(self) -> RequestAttributes:
        """What is asked."""


def priority_level_rows(controller: Controller) -> Iterator[Row]:
    """The rows of `dump_priority_levels`."""
    for level in levels_by_name(controller):
        queue_set = level.queue_set
        yield (
            level.name,
            sum(queue.requests_waiting > 0 for queue in queue_set.queues),
            queue_set.is_idle,
            level.is_quiescing,
            queue_set.requests_waiting,
            queue_set.requests_executing,
            queue_set.dispatched_total,
            queue_set.rejected_total,
            queue_set.timed_out_total,
            queue_set.cancelled_total,
        )


def queue_rows(controller: Controller) -> Iterator[Row]:
    """The rows of `dump_queues`; a level without queues has none."""
    for level in levels_by_name(controller):
        for queue in tuple(level.queue_set.queues):
            yield (
                level.name,
                queue.index,
                queue.requests_waiting,
                queue.requests_executing,
                queue.seats_in_use,
                format_seat_seconds(queue.next_dispatch_r),
                queue.initial_seats_waiting,
                queue.seats_waiting,
                format_seat_seconds(queue.work_waiting),
            )


def request_columns(*, with_details: bool) -> tuple[str, ...]:
    """The columns of `dump_requests`, with or without those that `request_rows` adds."""
    return REQUEST_COLUMNS + REQUEST_DETAIL_COLUMNS if with_details else REQUEST_COLUMNS


class RequestView:
    """A request as it was at one moment; what it refers to does not change."""

    __slots__ = (
        "arrived_ns",
        "details",
        "dispatched_ns",
        "estimate",
        "flow",
        "place",
        "priority_level",
        "queue_index",
    )

    def __init__(self, priority_level: str, queue_index: int, place: int, ticket: Ticket) -> None:
        self.priority_level = priority_level
        self.queue_index = queue_index
        self.place = place
        self.flow = ticket.flow
        self.estimate = ticket.estimate
        self.arrived_ns = ticket.arrived_ns
        self.dispatched_ns = ticket.dispatched_ns
        self.details: RequestDetails = ticket.details


def request_views(controller: Controller) -> Iterator[RequestView]:
    """Every request that waits or executes, in the order of `dump_requests`.

    Takes 2 us a request, a tenth of what `request_rows` takes, which another thread may call.
    """
    for level in levels_by_name(controller):
        name, queue_set = level.name, level.queue_set
        if not queue_set.requests_waiting and not queue_set.executing:
            continue
        views: list[RequestView] = []
        executing: dict[int, list[Ticket]] = {}
        for ticket in queue_set.executing:
            index = -1 if ticket.queue is None else ticket.queue.index
            executing.setdefault(index, []).append(ticket)
        for queue in queue_set.queues:
            index = queue.index
            views += [
                RequestView(name, index, place, ticket)
                for place, ticket in enumerate(queue.tickets())
            ]
            views += [RequestView(name, index, -1, ticket) for ticket in executing.get(index, ())]
        views += [RequestView(name, -1, -1, ticket) for ticket in executing.get(-1, ())]
        yield from views


def request_rows(
    views: Iterable[RequestView], wall_offset_ns: int, *, with_details: bool
) -> list[Row]:
    """The rows of `dump_requests`.

    The offset is what to add to a clock reading to get nanoseconds since 1970.
    """
    rows = []
    for view in views:
        row = _request_cells(view, wall_offset_ns)
        rows.append(row + _detail_cells(view.details) if with_details else row)
    return rows


def levels_by_name(controller: Controller) -> list[PriorityLevel]:
    """All priority levels, quiescing ones too, in the order of their names."""
    return [level for _, level in sorted(controller.levels.items())]


def _request_cells(view: RequestView, wall_offset_ns: int) -> Row:
    estimate, dispatched_ns = view.estimate, view.dispatched_ns
    return (
        view.priority_level,
        view.flow.counters.flow_schema,
        view.queue_index,
        view.place,
        view.flow.distinguisher,
        time_text(view.arrived_ns + wall_offset_ns),
        estimate.initial_seats,
        estimate.final_seats,
        duration_text(estimate.additional_latency_ns),
        time_text(dispatched_ns + wall_offset_ns) if dispatched_ns >= 0 else ZERO_TIME,
    )


def _detail_cells(details: RequestDetails) -> Row:
    attributes = details.attributes
    group, version = attributes.api_group, attributes.api_version
    return (
        details.user_name,
        attributes.verb,
        attributes.path,
        attributes.namespace,
        attributes.name,
        f"{group}/{version}" if group else version,
        attributes.resource,
        attributes.subresource,
    )
