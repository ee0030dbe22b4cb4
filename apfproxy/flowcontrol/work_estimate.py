"""How many seats a request needs, and how long it works on after its end.

- A LIST, and a WATCH that begins with initial events, takes a seat per 100 kB that the server
  holds in memory for it.
- A write takes one seat, and then, when its answer is out, seats for the watchers to be told.
- Everything else takes one seat.

Source: kubernetes/apiserver pkg/util/flowcontrol/request (list_work_estimator.go,
mutating_work_estimator.go, config.go, seat_seconds.go), with the feature gates WatchList and
SizeBasedListCostEstimate on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from apfproxy.flowcontrol.ticket import ONE_SEAT, WorkEstimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.meters import FlowSchemaCounters
    from apfproxy.request.attributes import ListOptions, RequestAttributes

# All of these as in Kubernetes.
BYTES_PER_SEAT: Final = 100_000
MAX_LIST_SEATS: Final = 100
MAX_CACHED_LIST_BYTES: Final = 1_000_000  # the watch cache streams what it has, piece by piece
MAX_OBJECT_BYTES: Final = 1_500_000  # the largest request that etcd takes
MAX_MUTATING_SEATS: Final = 10
WATCHES_PER_SEAT: Final = 10
SEAT_TICKS_PER_EVENT: Final = 500_000  # of 1e-8 seat-seconds: one seat for 5 ms
NS_PER_SEAT_TICK: Final = 10

LIST_VERBS: Final = frozenset({"list", "watch"})
MUTATING_VERBS: Final = frozenset({"create", "update", "patch", "delete"})

LIST_ESTIMATES: Final = (ONE_SEAT, *(WorkEstimate(seats) for seats in range(1, MAX_LIST_SEATS + 1)))
"""Estimates by seats, shared: most LISTs need one of few widths."""


class ObjectStats(msgspec.Struct, frozen=True, gc=False):
    """How many objects a resource has, and the bytes of one in memory; 0 if unknown."""

    count: int
    average_bytes: int


class WorkEstimator:
    """Estimates the work of requests, from what is known of objects and of open WATCHes."""

    def __init__(
        self,
        object_stats: Callable[[RequestAttributes], ObjectStats | None],
        watch_count: Callable[[RequestAttributes], int],
    ) -> None:
        self._object_stats = object_stats
        self._watch_count = watch_count

    def fixed(self, attributes: RequestAttributes) -> WorkEstimate | None:
        """The estimate if it depends on nothing but the attributes, else None."""
        verb = attributes.verb
        if attributes.is_plain:
            return ONE_SEAT
        if verb in LIST_VERBS:
            options = attributes.list_options
            assert options is not None
            if verb == "watch" and options.is_decodable and not options.sends_initial_events:
                return ONE_SEAT
            return None
        if verb in MUTATING_VERBS and not _makes_no_event(attributes):
            return None
        return ONE_SEAT

    def estimate(
        self,
        attributes: RequestAttributes,
        max_seats: int,
        counters: FlowSchemaCounters | None = None,
    ) -> WorkEstimate:
        """Estimate the work of a request; `max_seats` is its level's bound, 0 for none.

        `counters` count the watches that a write is of interest to.
        """
        estimate = self.fixed(attributes)
        if estimate is not None:
            return estimate
        if attributes.verb in LIST_VERBS:
            return LIST_ESTIMATES[self._list_seats(attributes, max_seats)]
        watch_count = self._watch_count(attributes)
        if counters is not None:
            counters.watch_count.observe(watch_count)
        return _mutating(watch_count, max_seats)

    def _list_seats(self, attributes: RequestAttributes, max_seats: int) -> int:
        most = min(max_seats or MAX_LIST_SEATS, MAX_LIST_SEATS)
        options = attributes.list_options
        assert options is not None
        if not options.is_decodable:
            return most  # bound to fail, and as dear as it can be until it has
        stats = self._object_stats(attributes)
        if stats is None:
            return 1
        is_from_cache = attributes.verb == "watch" or options.is_from_cache
        held = _bytes_held(
            stats, options, is_from_cache=is_from_cache, is_one=attributes.name != ""
        )
        return max(1, min(-(-held // BYTES_PER_SEAT), most))


def _bytes_held(
    stats: ObjectStats, options: ListOptions, *, is_from_cache: bool, is_one: bool
) -> int:
    average_bytes = stats.average_bytes
    if average_bytes <= 0 and stats.count != 0:
        average_bytes = MAX_OBJECT_BYTES
    count = stats.count
    if 0 < options.limit < count:
        count = options.limit
    if is_one:
        count = 1
    elif options.has_selector and not is_from_cache:
        count = max(count, stats.count // 2)
    held = count * average_bytes
    return min(held, MAX_CACHED_LIST_BYTES) if is_from_cache else held


def _mutating(watch_count: int, max_seats: int) -> WorkEstimate:
    if watch_count < WATCHES_PER_SEAT:
        return ONE_SEAT
    seats = -(-watch_count // WATCHES_PER_SEAT)
    work = seats * SEAT_TICKS_PER_EVENT
    # Narrower and longer, with the same work: a wide request keeps seats idle until all it needs
    # are free.
    seats = min(seats, max_seats or MAX_MUTATING_SEATS, MAX_MUTATING_SEATS)
    return WorkEstimate(1, seats, int(work / seats * NS_PER_SEAT_TICK))


def _makes_no_event(attributes: RequestAttributes) -> bool:
    return attributes.resource == "serviceaccounts" and attributes.subresource == "token"
