"""Plain integers of the API server that its metrics page reads at scrape."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from apfproxy.flowcontrol.meters import NS_PER_S, Histogram, KindMeter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REQUEST_BOUNDS_S = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30,
    45, 60,
)  # fmt: skip
"""Kubernetes' buckets of `apiserver_request_duration_seconds`."""
REQUEST_BOUNDS_NS = tuple(round(bound * NS_PER_S) for bound in REQUEST_BOUNDS_S)
RESPONSE_BOUNDS = tuple(10**digits for digits in range(3, 10))
"""Bytes; Kubernetes' buckets."""

COMMIT_BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
"""An fsync takes half a millisecond on a good disk, and seconds on a failing one."""
COMMIT_BOUNDS_NS = tuple(round(bound * NS_PER_S) for bound in COMMIT_BOUNDS_S)

Resource = tuple[str, str, str]
"""Group, version and plural name."""


class RequestLabels(NamedTuple):
    """The labels that requests are counted by; all have bounded variety.

    Attributes:
        verb: Kubernetes' word in capitals, such as `LIST`; `other` for unknown methods.
        group: "" for the core group, and for what is no resource that is served.
        subresource: Such as `status`, or "".
        scope: `resource`, `namespace`, `cluster`, or "" for what is no resource.
        dry_run: `All`, `invalid`, or "".
    """

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""
    dry_run: str = ""


@dataclass(slots=True)
class RequestCounters:
    """Counts of requests with the same labels.

    Attributes:
        by_code: HTTP status to requests; 0 for those whose client left before the response.
        duration_ns: From the head of the request to the end of its response.
        response_bytes: Of reads.
    """

    by_code: Counter[int] = field(default_factory=Counter)
    duration_ns: Histogram = field(default_factory=lambda: Histogram(REQUEST_BOUNDS_NS))
    response_bytes: Histogram = field(default_factory=lambda: Histogram(RESPONSE_BOUNDS))


@dataclass(slots=True)
class Tally:
    """A count that many watches share; a slot is cheaper for them than a key."""

    count: int = 0


class WatchMeter(NamedTuple):
    """Learns of one watch when its initial events are written, and how many events it writes."""

    on_initial: Callable[[], None]
    events: Tally


@dataclass(slots=True)
class ApiServerCounters:
    """Counts of the API server; those of open requests are gauges, all others only grow.

    Attributes:
        in_flight: Current requests by kind; without watches that have their initial events.
        long_running: Watches that are open now.
        terminations: Labels and code of requests that the server ended in self-defence.
        watch_events: Resource to the events that its watches were sent.
        removals: Deprecated resources, with the Kubernetes version that has them no more.
        injected_faults: Kind of fault to the number of requests that got it.
        commit_ns: Of batches of writes that are kept, from hand-over to fsync.
        committed_changes: That are kept.
        commit_failures: Batches that the disk refused.
    """

    requests: defaultdict[RequestLabels, RequestCounters] = field(
        default_factory=lambda: defaultdict(RequestCounters)
    )
    in_flight: KindMeter = field(default_factory=lambda: KindMeter(0))
    long_running: Counter[RequestLabels] = field(default_factory=Counter)
    terminations: Counter[tuple[RequestLabels, int]] = field(default_factory=Counter)
    watch_events: defaultdict[Resource, Tally] = field(default_factory=lambda: defaultdict(Tally))
    removals: Mapping[Resource, str] = field(default_factory=dict)
    injected_faults: Counter[str] = field(default_factory=Counter)
    commit_ns: Histogram = field(default_factory=lambda: Histogram(COMMIT_BOUNDS_NS))
    committed_changes: int = 0
    commit_failures: int = 0
