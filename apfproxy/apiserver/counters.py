"""Plain integers of the API server that `observe` reads at scrape.

The event loop writes them, but for those of commits, which the store's one thread writes; reading
needs no lock.
"""

from __future__ import annotations

from typing import NamedTuple

from apfproxy.flowcontrol.counters import NS_PER_S, Histogram

REQUEST_BOUNDS_S = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30,
    45, 60,
)  # fmt: skip
"""Kubernetes' buckets of `apiserver_request_duration_seconds`."""
REQUEST_BOUNDS_NS = tuple(round(bound * NS_PER_S) for bound in REQUEST_BOUNDS_S)

COMMIT_BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
"""An fsync takes from half a millisecond on a good disk to seconds on one that fails."""
COMMIT_BOUNDS_NS = tuple(round(bound * NS_PER_S) for bound in COMMIT_BOUNDS_S)


class RequestLabels(NamedTuple):
    """What requests are counted by; all of bounded variety.

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


class RequestCounters:
    """What became of requests with the same labels.

    Attributes:
        by_code: HTTP status to requests that ended with it; 0 for those whose client left before.
        duration_ns: From the head of the request to the end of its answer.
        long_running: Watches that are open now.
    """

    __slots__ = ("by_code", "duration_ns", "long_running")

    def __init__(self) -> None:
        self.by_code: dict[int, int] = {}
        self.duration_ns = Histogram(REQUEST_BOUNDS_NS)
        self.long_running = 0

    def end(self, code: int, duration_ns: int) -> None:
        """Count a request that ended."""
        self.by_code[code] = self.by_code.get(code, 0) + 1
        self.duration_ns.observe(duration_ns)


class ApiServerCounters:
    """What the API server did; `in_flight_*` are gauges, all else only grows.

    Attributes:
        requests: By their labels.
        in_flight_read_only: Requests now that change nothing; without watches.
        in_flight_mutating: Requests now that may change something.
        injected_faults: Kind of fault to the number of requests that got it.
        commit_ns: Of batches of writes that are kept, from hand-over to fsync.
        committed_changes: That are kept.
        commit_failures: Batches that the disk refused.
    """

    __slots__ = (
        "commit_failures",
        "commit_ns",
        "committed_changes",
        "in_flight_mutating",
        "in_flight_read_only",
        "injected_faults",
        "requests",
    )

    def __init__(self) -> None:
        self.requests: dict[RequestLabels, RequestCounters] = {}
        self.in_flight_read_only = 0
        self.in_flight_mutating = 0
        self.injected_faults: dict[str, int] = {}
        self.commit_ns = Histogram(COMMIT_BOUNDS_NS)
        self.committed_changes = 0
        self.commit_failures = 0

    def of(self, labels: RequestLabels) -> RequestCounters:
        """The counters of requests with these labels."""
        found = self.requests.get(labels)
        if found is None:
            found = self.requests[labels] = RequestCounters()
        return found

    def count_fault(self, kind: str) -> None:
        """Count a fault that was injected."""
        self.injected_faults[kind] = self.injected_faults.get(kind, 0) + 1
