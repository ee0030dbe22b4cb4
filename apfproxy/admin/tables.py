"""Tables of the debug pages: as kube-apiserver has them, and in its layout.

Cells are laid out as Go's text/tabwriter does: each but the last of a row ends with a comma; a
column is one space wider than its widest cell with that comma, and at least eight wide.
"""

from __future__ import annotations

import datetime as dt
import json
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from apfproxy.admin.state import NS_PER_S, is_silent, total_demand
from apfproxy.fleet.ledger import LeaseState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from apfproxy.admin.state import ClusterState, Flow, UpstreamState
    from apfproxy.fleet.view import FleetView, MemberView

Cell = str | int | bool
Row = tuple[Cell, ...]

PRIORITY_LEVEL_COLUMNS: Final = (
    *("PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests"),
    *("ExecutingRequests", "DispatchedRequests", "RejectedRequests", "TimedoutRequests"),
    "CancelledRequests",
)
QUEUE_COLUMNS: Final = (
    *("PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse"),
    *("NextDispatchR", "InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum"),
)
REQUEST_COLUMNS: Final = (
    *("PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue"),
    "FlowDistingsher",  # spelt so by kube-apiserver, and by what reads its page
    *("ArriveTime", "InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"),
)
REQUEST_DETAIL_COLUMNS: Final = (
    *("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"),
)
ENDPOINT_COLUMNS: Final = (
    *("Endpoint", "State", "Since", "Weight", "SharePercent", "Seats", "RequestsInFlight"),
    *("IdleConnections", "Answers", "Failures", "Ejections", "Problem"),
)
FLEET_COLUMNS: Final = (
    *("Member", "IsSelf", "State", "Claim", "SharePercent", "Used", "Demand", "Limit", "IsAlike"),
    "SeenSecondsAgo",
)
FLOW_COLUMNS: Final = (
    *("FlowSchemaName", "PriorityLevelName", "Flow", "SeatSeconds", "WaitSeconds", "Rejected"),
)
OBJECT_COLUMNS: Final = ("Kind", "Name", "UID", "What")
CLUSTER_COLUMNS: Final = (
    *("Cluster", "State", "Servers", "Seats", "Executing", "Waiting", "ServedPerSecond"),
    *("FailedPerSecond", "RejectedPerSecond", "P99Seconds", "Where", "Problem"),
)

# Rows.


LEVEL_CELLS: Final = attrgetter(
    *("name", "active_queues", "is_idle", "is_quiescing", "requests_waiting"),
    *("requests_executing", "dispatched_total", "without_seats_total", "timed_out_total"),
    "cancelled_total",
)


def priority_level_rows(cluster: ClusterState) -> Iterator[Row]:
    return map(LEVEL_CELLS, cluster.levels)


def request_columns(*, with_details: bool) -> tuple[str, ...]:
    return REQUEST_COLUMNS + REQUEST_DETAIL_COLUMNS if with_details else REQUEST_COLUMNS


def endpoint_rows(upstream: UpstreamState) -> Iterator[Row]:
    """Responses and failures are those since the start; an unknown time is Go's zero."""
    for each in upstream.endpoints:
        since_s = each.health.since_s
        yield (
            each.url,
            each.health.state,
            ZERO_TIME if since_s is None else time_text(round(since_s) * NS_PER_S),
            each.weight,
            f"{100 * each.share:.1f}",
            each.seats,
            each.busy_count,
            each.idle_count,
            sum(each.served.answers.values()),
            sum(each.served.failures.values()),
            each.ejections_total,
            each.health.problem or "",
        )


def member_rows(view: FleetView) -> Iterator[Row]:
    """A row for each member of a fleet, in the order of the record."""
    for member in view.members:
        yield (
            member.name,
            member.is_self,
            view.state if member.is_self else how_seen(view, member),
            member.claim,
            share_text(member.claim, view.limit),
            member.used,
            total_demand(member),
            member.limit,
            member.is_alike,
            f"{member.age_s:.1f}",
        )


def how_seen(view: FleetView, member: MemberView) -> str:
    """How another member is: `seen`, `silent`, or `unknown` where nothing is heard of anybody."""
    if view.state != LeaseState.HELD or view.problem:
        return "unknown"
    return "silent" if is_silent(member) else "seen"


def share_text(claim: int, limit: int) -> str:
    return f"{100 * claim / limit:.1f}" if limit else ""


def flow_row(flow: Flow) -> Row:
    numbers = f"{flow.seat_seconds:.3f}", f"{flow.wait_seconds:.3f}", f"{flow.rejected:.0f}"
    return flow.flow_schema, flow.priority_level, flow.flow, *numbers


def cluster_rows(overview: dict[str, Any]) -> Iterator[Row]:
    for row in overview["clusters"]:
        rates = (f"{row[f'{what}PerSecond']:.1f}" for what in ("served", "failed", "rejected"))
        yield (
            row["name"],
            row["state"],
            f"{row['healthyCount']}/{row['endpointCount']}",
            f"{row['seatsInUse']}/{row['serverConcurrencyLimit']}",
            row["executing"],
            row["waiting"],
            *rates,
            "" if row["p99"] is None else f"{row['p99']:g}",
            row["where"],
            row["problem"],
        )


# Layout.

MIN_WIDTH: Final = 8
PADDING: Final = 1
LARGEST_SHORT: Final = 0xFFFF
"""Code points from there on take eight digits as an escape."""


def table_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """One line a row; what cannot be printed, and could fake a row, is shown as an escape."""
    lines = [tuple(header), *(tuple(map(cell_text, row)) for row in rows)]
    widths = [
        max(MIN_WIDTH, max(map(len, column)) + 1 + PADDING) for column in zip(*lines, strict=True)
    ]
    template = "".join(f"{{:<{width}}}" for width in widths[:-1])
    return "".join(
        template.format(*(f"{cell}," for cell in line[:-1])) + line[-1] + "\n" for line in lines
    )


def table_json(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """The table as a JSON array of objects whose keys are the names of the columns."""
    # Row by row: one call for a large table would block all other threads.
    texts = (json.dumps(dict(zip(header, row, strict=True))) for row in rows)
    return f"[{', '.join(texts)}]"


def cell_text(cell: Cell) -> str:
    """A cell as Go prints it, on one line."""
    if not isinstance(cell, str):
        return str(cell).lower()
    return cell if cell.isprintable() else "".join(map(_printed, cell))


def _printed(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\u{code:04x}" if code <= LARGEST_SHORT else f"\\U{code:08x}"


# Times and durations.

ZERO_TIME = "0001-01-01T00:00:00Z"

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def time_text(unix_ns: int) -> str:
    """Nanoseconds since 1970 as RFC 3339, in UTC, with as many of nine decimals as it needs."""
    seconds, fraction_ns = divmod(unix_ns, NS_PER_S)
    moment = EPOCH + dt.timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}{_fraction(fraction_ns, 9)}Z"


def duration_text(duration_ns: int) -> str:
    """A duration in Go's format: `0s`, `250ns`, `1.5ms`, `5s`, `1m0.25s`, `2h0m0s`."""
    if duration_ns < 0:
        return f"-{duration_text(-duration_ns)}"
    for unit, digits in (("ns", 0), ("µs", 3), ("ms", 6)):
        if 0 < duration_ns < 10 ** (digits + 3):
            whole, fraction = divmod(duration_ns, 10**digits)
            return f"{whole}{_fraction(fraction, digits)}{unit}"
    whole_s, fraction_ns = divmod(duration_ns, NS_PER_S)
    minutes, seconds = divmod(whole_s, 60)
    hours, rest = divmod(minutes, 60)
    text = f"{seconds}{_fraction(fraction_ns, 9)}s"
    if hours:
        return f"{hours}h{rest}m{text}"
    return f"{minutes}m{text}" if minutes else text


def _fraction(value: int, digits: int) -> str:
    """A decimal fraction with its point, without trailing zeros; nothing for zero."""
    return f".{value:0{digits}d}".rstrip("0") if value else ""
