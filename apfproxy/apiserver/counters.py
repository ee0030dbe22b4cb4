"""Plain integers of the API server that `observe` reads at scrape."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from apfproxy.flowcontrol.meters import NS_PER_S, Histogram

REQUEST_BOUNDS_S = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30,
    45, 60,
)  # fmt: skip
"""Kubernetes' buckets of `apiserver_request_duration_seconds`."""
REQUEST_BOUNDS_NS = tuple(round(bound * NS_PER_S) for bound in REQUEST_BOUNDS_S)

COMMIT_BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
"""An fsync takes half a millisecond on a good disk, and seconds on a failing one."""
COMMIT_BOUNDS_NS = tuple(round(bound * NS_PER_S) for bound in COMMIT_BOUNDS_S)

MUTATING, READ_ONLY = "mutating", "readOnly"
"""Kinds of requests, in the words of Kubernetes' metrics."""


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
        by_code: HTTP status to requests that ended with it; 0 for those whose client left before.
        duration_ns: From the head of the request to the end of its answer.
        long_running: Watches that are open now.
    """

    by_code: Counter[int] = field(default_factory=Counter)
    duration_ns: Histogram = field(default_factory=lambda: Histogram(REQUEST_BOUNDS_NS))
    long_running: int = 0

    def end(self, code: int, duration_ns: int) -> None:
        """Count a request that ended."""
        self.by_code[code] += 1
        self.duration_ns.observe(duration_ns)


@dataclass(slots=True)
class ApiServerCounters:
    """Counts of the API server; those of requests in flight are gauges, all others only grow.

    Attributes:
        requests: By their labels.
        in_flight: Current requests, of `MUTATING` and `READ_ONLY` ones; without watches.
        injected_faults: Kind of fault to the number of requests that got it.
        commit_ns: Of batches of writes that are kept, from hand-over to fsync.
        committed_changes: That are kept.
        commit_failures: Batches that the disk refused.
    """

    requests: defaultdict[RequestLabels, RequestCounters] = field(
        default_factory=lambda: defaultdict(RequestCounters)
    )
    in_flight: dict[str, int] = field(default_factory=lambda: {MUTATING: 0, READ_ONLY: 0})
    injected_faults: Counter[str] = field(default_factory=Counter)
    commit_ns: Histogram = field(default_factory=lambda: Histogram(COMMIT_BOUNDS_NS))
    committed_changes: int = 0
    commit_failures: int = 0
