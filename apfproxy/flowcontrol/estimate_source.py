"""Where the estimate of a request's work comes from, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.flowcontrol.work_estimate import (
    BYTES_PER_SEAT,
    LIST_VERBS,
    MUTATING_VERBS,
    WATCHES_PER_SEAT,
    WorkEstimator,
)

if TYPE_CHECKING:
    from apfproxy.flowcontrol.work_estimate import ObjectStats
    from apfproxy.request.attributes import RequestAttributes


class Costs(Protocol):
    """What is known of the costs of requests; `LearnedCosts` in a proxy."""

    def object_stats(self, attributes: RequestAttributes, /) -> ObjectStats | None:
        """What is known about the objects of a request's resource."""

    def watch_count(self, attributes: RequestAttributes, /) -> int:
        """How many open WATCHes a write is of interest to."""


def takes_seats(attributes: RequestAttributes) -> bool:
    """Whether a request takes seats; of the long-running ones only a WATCH does, until it began."""
    is_watch = attributes.is_resource_request and attributes.verb == "watch"
    return is_watch or not attributes.long_running


def estimate_source(attributes: RequestAttributes, costs: Costs, max_seats: int) -> str:
    """Where the estimate of a request's work comes from, in words; `max_seats` 0 is no limit."""
    if attributes.is_plain:
        return "every request of an API that is not Kubernetes takes one seat (preset: http)"
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
        if not options.is_decodable:
            return f"its options cannot be decoded, so it counts as the dearest list{most}"
        stats = costs.object_stats(attributes)
        if stats is None:
            return "nothing is known about how many objects there are, so one seat"
        known = "1 object" if stats.count == 1 else f"{stats.count} objects"
        are = "is" if stats.count == 1 else "are"
        return (
            f"{known} of {stats.average_bytes} bytes {are} known; a seat for each"
            f" {BYTES_PER_SEAT // 1000} kB of those that are read at once{most}"
        )
    count = costs.watch_count(attributes)
    if count < WATCHES_PER_SEAT:
        return (
            f"a write that fewer than {WATCHES_PER_SEAT} watches are told of takes one seat;"
            f" here it is {count}"
        )
    return f"{count} watches are told of this write: so many seats for so long after its end{most}"
