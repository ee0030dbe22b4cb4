"""Tables of the debug pages: as kube-apiserver has them, and in its layout.

Cells are laid out as Go's text/tabwriter does: each but the last of a row ends with a comma; a
column is one space wider than its widest cell with that comma, and at least eight wide.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

from apfproxy.admin.state import NS_PER_S, is_silent, total_demand
from apfproxy.fleet.ledger import LeaseState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apfproxy.fleet.view import FleetView, MemberView

Cell = str | int | bool
Row = tuple[Cell, ...]
Table = Mapping[str, Callable[[Any], Cell]]
"""The name of each column, and its cell of a record."""

PRIORITY_LEVELS: Final[Table] = {
    "PriorityLevelName": attrgetter("name"),
    "ActiveQueues": attrgetter("active_queues"),
    "IsIdle": attrgetter("is_idle"),
    "IsQuiescing": attrgetter("is_quiescing"),
    "WaitingRequests": attrgetter("requests_waiting"),
    "ExecutingRequests": attrgetter("requests_executing"),
    "DispatchedRequests": attrgetter("dispatched_total"),
    # kube-apiserver counts what clients left as they waited, too.
    "RejectedRequests": lambda level: level.rejected_total + level.cancelled_total,
    "TimedoutRequests": attrgetter("timed_out_total"),
    "CancelledRequests": attrgetter("cancelled_total"),
}
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
ENDPOINTS: Final[Table] = {
    "Endpoint": attrgetter("url"),
    "State": attrgetter("health.state"),
    "Since": lambda each: since_text(each.health.since_s),
    "Weight": attrgetter("weight"),
    "SharePercent": lambda each: f"{100 * each.share:.1f}",
    "Seats": attrgetter("seats"),
    "RequestsInFlight": attrgetter("busy_count"),
    "IdleConnections": attrgetter("idle_count"),
    "Answers": lambda each: sum(each.served.answers.values()),
    "Failures": lambda each: sum(each.served.failures.values()),
    "Ejections": attrgetter("ejections_total"),
    "Problem": lambda each: each.health.problem or "",
}
FLOWS: Final[Table] = {
    "FlowSchemaName": attrgetter("flow_schema"),
    "PriorityLevelName": attrgetter("priority_level"),
    "Flow": attrgetter("flow"),
    "SeatSeconds": lambda flow: f"{flow.seat_seconds:.3f}",
    "WaitSeconds": lambda flow: f"{flow.wait_seconds:.3f}",
    "Rejected": lambda flow: f"{flow.rejected:.0f}",
    "Tokens": lambda flow: f"{flow.tokens:.0f}",
}
OBJECTS: Final[Table] = {each: itemgetter(each.lower()) for each in ("Kind", "Name", "UID", "What")}
CLUSTERS: Final[Table] = {
    "Cluster": itemgetter("name"),
    "State": itemgetter("state"),
    "Servers": "{0[healthyCount]}/{0[endpointCount]}".format,
    "Seats": "{0[seatsInUse]}/{0[serverConcurrencyLimit]}".format,
    "Executing": itemgetter("executing"),
    "Waiting": itemgetter("waiting"),
    "ServedPerSecond": "{0[servedPerSecond]:.1f}".format,
    "FailedPerSecond": "{0[failedPerSecond]:.1f}".format,
    "RejectedPerSecond": "{0[rejectedPerSecond]:.1f}".format,
    "P99Seconds": lambda row: "" if row["p99"] is None else f"{row['p99']:g}",
    "Where": itemgetter("where"),
    "Problem": itemgetter("problem"),
}


def rows(table: Table, records: Iterable[Any]) -> list[Row]:
    return [tuple(cell(each) for cell in table.values()) for each in records]


def request_columns(*, with_details: bool) -> tuple[str, ...]:
    return REQUEST_COLUMNS + REQUEST_DETAIL_COLUMNS if with_details else REQUEST_COLUMNS


def members(view: FleetView) -> Table:
    """The columns of the members of a fleet."""
    return {
        "Member": attrgetter("name"),
        "IsSelf": attrgetter("is_self"),
        "State": lambda member: view.state if member.is_self else how_seen(view, member),
        "Claim": attrgetter("claim"),
        "SharePercent": lambda member: share_text(member.claim, view.limit),
        "Used": attrgetter("used"),
        "Demand": total_demand,
        "Limit": attrgetter("limit"),
        "IsAlike": attrgetter("is_alike"),
        "SeenSecondsAgo": lambda member: f"{member.age_s:.1f}",
    }


def how_seen(view: FleetView, member: MemberView) -> str:
    """How another member is: `seen`, `silent`, or `unknown` where nothing is heard of anybody."""
    if view.state != LeaseState.HELD or view.problem:
        return "unknown"
    return "silent" if is_silent(member) else "seen"


def share_text(claim: int, limit: int) -> str:
    return f"{100 * claim / limit:.1f}" if limit else ""


# Layout.

MIN_WIDTH: Final = 8
PADDING: Final = 1
LARGEST_SHORT: Final = 0xFFFF
"""Code points from there on take eight digits as an escape."""


def table_text(header: Iterable[str], rows: Iterable[Sequence[Cell]]) -> str:
    """One line a row; what cannot be printed, and could fake a row, is shown as an escape."""
    lines = [tuple(header), *(tuple(map(cell_text, row)) for row in rows)]
    widths = [
        max(MIN_WIDTH, max(map(len, column)) + 1 + PADDING) for column in zip(*lines, strict=True)
    ]
    template = "".join(f"{{:<{width}}}" for width in widths[:-1])
    return "".join(
        template.format(*(f"{cell}," for cell in line[:-1])) + line[-1] + "\n" for line in lines
    )


def table_json(header: Iterable[str], rows: Iterable[Sequence[Cell]]) -> str:
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


def since_text(unix_s: float | None) -> str:
    return ZERO_TIME if unix_s is None else time_text(round(unix_s) * NS_PER_S)


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
