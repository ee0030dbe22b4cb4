"""Metrics of the API server, in kube-apiserver's names, labels and buckets where it has them.

Source: Kubernetes 1.36, "Kubernetes Metrics Reference".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.registry import Collector

from apfproxy.admin.families import (
    NO_LABELS,
    HistogramFamily,
    bound_texts,
    build_info,
    by_label,
    counter,
    gauge,
    plain,
)
from apfproxy.apiserver.counters import COMMIT_BOUNDS_S, REQUEST_BOUNDS_S
from apfproxy.flowcontrol.meters import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.core import Metric

    from apfproxy.admin.families import Labels, Series
    from apfproxy.apiserver.counters import ApiServerCounters, RequestLabels

COMPONENT = "apiserver"
PREFIX = "apfproxy_apiserver_"
STORE_COUNTERS: Series = {
    ("store_committed_changes_total", "committed_changes"): "Changes that the disk keeps",
    ("store_commit_failures_total", "commit_failures"): "Batches of writes that the disk refused",
}
STORE_GAUGES: Series = {
    ("store_pending_writes", "pending_writes"): "Writes that wait for the disk",
    ("store_resource_version", "resource_version"): "Resource version of the newest change",
}
LEFT = "left"
"""The label `code` of requests whose client left before they were answered."""


class ResourceState(NamedTuple):
    """A resource that is served, as of now."""

    group: str
    resource: str
    objects: int
    watchers: int


class StoreState(NamedTuple):
    """The store, as of now."""

    resources: Sequence[ResourceState]
    pending_writes: int
    resource_version: int


class ApiServerMetrics(Collector):
    """Makes the families of an API server."""

    def __init__(
        self,
        counters: ApiServerCounters,
        store_state: Callable[[], StoreState],
    ) -> None:
        self._counters = counters
        self._store_state = store_state
        self._request_bounds = bound_texts(REQUEST_BOUNDS_S)
        self._commit_bounds = bound_texts(COMMIT_BOUNDS_S)

    def collect(self) -> Iterator[Metric]:
        """All families, as of now."""
        yield build_info()
        yield from self._requests()
        state = self._store_state()
        yield from self._objects(state.resources)
        yield from self._store(state)

    def _requests(self) -> Iterator[Metric]:
        counters = self._counters
        requests = sorted(counters.requests.items())
        yield counter(
            "apiserver_request_total",
            "Requests that ended, by verb, resource and status code",
            (
                ({**request_labels(labels), "code": str(code) if code else LEFT}, ended)
                for labels, series in requests
                for code, ended in sorted(series.by_code.items())
            ),
        )
        durations = HistogramFamily(
            "apiserver_request_duration_seconds",
            "Time from a request's head to the end of its answer",
            self._request_bounds,
        )
        for labels, series in requests:
            duration = series.duration_ns
            if any(duration.counts):
                durations.add(request_labels(labels), duration.counts, duration.sum / NS_PER_S)
        yield durations.metric
        yield gauge(
            "apiserver_longrunning_requests",
            "Watches that are open",
            (
                (without_dry_run(labels), series.long_running)
                for labels, series in requests
                if series.long_running
            ),
        )
        yield gauge(
            "apiserver_current_inflight_requests",
            "Requests now, without watches that have their initial events",
            by_label("request_kind", counters.in_flight),
        )
        yield counter(
            PREFIX + "injected_faults_total",
            "Requests that failed because --fault asked for it",
            by_label("kind", dict(sorted(counters.injected_faults.items()))),
        )

    def _objects(self, resources: Sequence[ResourceState]) -> Iterator[Metric]:
        labelled = [({"group": each.group, "resource": each.resource}, each) for each in resources]
        yield gauge(
            "apiserver_resource_objects",
            "Stored objects, by group and resource",
            ((labels, each.objects) for labels, each in labelled),
        )
        yield gauge(
            "apiserver_storage_objects",
            "Stored objects, by resource with its group",
            (
                ({"resource": f"{each.resource}.{each.group}".removesuffix(".")}, each.objects)
                for each in resources
            ),
        )
        yield gauge(
            PREFIX + "watchers",
            "Watches and controllers that follow a resource",
            ((labels, each.watchers) for labels, each in labelled),
        )

    def _store(self, state: StoreState) -> Iterator[Metric]:
        counters = self._counters
        commits = HistogramFamily(
            PREFIX + "store_commit_duration_seconds",
            "Time for the disk to keep a batch of writes; none with a store in memory",
            self._commit_bounds,
        )
        commits.add(NO_LABELS, counters.commit_ns.counts, counters.commit_ns.sum / NS_PER_S)
        yield commits.metric
        yield from plain(PREFIX, {}, STORE_COUNTERS, counters)
        yield from plain(PREFIX, STORE_GAUGES, {}, state)


def without_dry_run(labels: RequestLabels) -> Labels:
    """The labels of long-running requests."""
    named = labels._asdict()
    del named["dry_run"]
    return {**named, "component": COMPONENT}


def request_labels(labels: RequestLabels) -> Labels:
    """The labels of requests."""
    return {**labels._asdict(), "component": COMPONENT}
