"""Metrics of the API server, in kube-apiserver's names, labels and buckets where it has them.

Source: Kubernetes 1.36, "Kubernetes Metrics Reference".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from apfproxy.admin.gathering import times, used_state
from apfproxy.admin.metrics import (
    NONE,
    PREFIX,
    PROCESS,
    ScrapedPage,
    by,
    counter,
    gauge,
    histogram,
)
from apfproxy.admin.state import NS_PER_S
from apfproxy.apiserver.counters import COMMIT_BOUNDS_S, REQUEST_BOUNDS_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.admin.metrics import Labelled, Labels
    from apfproxy.admin.state import UsedState
    from apfproxy.apiserver.counters import ApiServerCounters, RequestLabels

LEFT: Final = "left"
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


class ApiServerState(NamedTuple):
    """All that the page has."""

    counters: ApiServerCounters
    store: StoreState
    used: UsedState


def apiserver_page(
    counters: ApiServerCounters, store: Callable[[], StoreState], started_s: float
) -> ScrapedPage:
    """The page of an API server that began at a time, in seconds since 1970."""
    return ScrapedPage(
        TABLE, lambda: [{"": ApiServerState(counters, store(), used_state(started_s))}]
    )


def _labels(labels: RequestLabels) -> Labels:
    return {**labels._asdict(), "component": "apiserver"}


def _requests(state: ApiServerState) -> Labelled:
    for labels, series in sorted(state.counters.requests.items()):
        for code, ended in sorted(series.by_code.items()):
            yield {**_labels(labels), "code": str(code) if code else LEFT}, ended


def _durations(state: ApiServerState) -> Labelled:
    for labels, series in sorted(state.counters.requests.items()):
        if any(series.duration_ns.counts):
            yield _labels(labels), times(series.duration_ns)


def _long_running(state: ApiServerState) -> Labelled:
    for labels, series in sorted(state.counters.requests.items()):
        if series.long_running:
            named = _labels(labels)
            del named["dry_run"]
            yield named, series.long_running


def _of_resources(name: str) -> Callable[[ApiServerState], Labelled]:
    return lambda state: [
        ({"group": each.group, "resource": each.resource}, getattr(each, name))
        for each in state.store.resources
    ]


def _storage_objects(state: ApiServerState) -> Labelled:
    for each in state.store.resources:
        yield {"resource": f"{each.resource}.{each.group}".removesuffix(".")}, each.objects


OWN: Final = f"{PREFIX}apiserver_"

# fmt: off
TABLE: Final = (
    *PROCESS,
    counter("apiserver_request_total", _requests,
        "Requests that ended, by verb, resource and status code"),
    histogram("apiserver_request_duration_seconds", _durations, REQUEST_BOUNDS_S, NS_PER_S,
        "Time from a request's head to the end of its answer"),
    gauge("apiserver_longrunning_requests", _long_running,
        "Watches that are open"),
    gauge("apiserver_current_inflight_requests", by("request_kind", "counters.in_flight"),
        "Requests now, without watches that have their initial events"),
    counter(f"{OWN}injected_faults_total", by("kind", "counters.injected_faults"),
        "Requests that failed because --fault asked for it"),
    gauge("apiserver_resource_objects", _of_resources("objects"),
        "Stored objects, by group and resource"),
    gauge("apiserver_storage_objects", _storage_objects,
        "Stored objects, by resource with its group"),
    gauge(f"{OWN}watchers", _of_resources("watchers"),
        "Watches and controllers that follow a resource"),
    histogram(f"{OWN}store_commit_duration_seconds",
        lambda state: [(NONE, times(state.counters.commit_ns))], COMMIT_BOUNDS_S, NS_PER_S,
        "Time for the disk to keep a batch of writes; none with a store in memory"),
    counter(f"{OWN}store_committed_changes_total", "counters.committed_changes",
        "Changes that the disk keeps"),
    counter(f"{OWN}store_commit_failures_total", "counters.commit_failures",
        "Batches of writes that the disk refused"),
    gauge(f"{OWN}store_pending_writes", "store.pending_writes",
        "Writes that wait for the disk"),
    gauge(f"{OWN}store_resource_version", "store.resource_version",
        "Resource version of the newest change"),
)
# fmt: on
