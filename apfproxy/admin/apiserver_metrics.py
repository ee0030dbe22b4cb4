"""Metrics of the API server, in kube-apiserver's names, labels and buckets where it has them.

Source: Kubernetes 1.36, "Kubernetes Metrics Reference".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from apfproxy.admin.gathering import times, used_state
from apfproxy.admin.metrics import PREFIX, PROCESS, ScrapedPage, by, itself, of, one
from apfproxy.admin.state import NS_PER_S
from apfproxy.apiserver.counters import COMMIT_BOUNDS_S, REQUEST_BOUNDS_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from apfproxy.admin.metrics import Labelled, Labels, Numbers
    from apfproxy.admin.state import UsedState
    from apfproxy.apiserver.counters import ApiServerCounters, RequestCounters

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
    return ScrapedPage(TABLE, lambda: ApiServerState(counters, store(), used_state(started_s)))


def _requests(state: ApiServerState) -> Labelled:
    for labels, series in _series(state):
        for code, ended in sorted(series.by_code.items()):
            yield {**labels, "code": str(code) if code else LEFT}, ended


def _series(state: ApiServerState, *_: bool) -> Iterator[tuple[Labels, RequestCounters]]:
    for labels, series in sorted(state.counters.requests.items()):
        yield {**labels._asdict(), "component": "apiserver"}, series


def _long_running(state: ApiServerState) -> Labelled:
    for labels, series in _series(state):
        if series.long_running:
            del labels["dry_run"]
            yield labels, series.long_running


def _of_resources(name: str) -> Numbers:
    return lambda state: [
        ({"group": each.group, "resource": each.resource}, getattr(each, name))
        for each in state.store.resources
    ]


def _storage_objects(state: ApiServerState) -> Labelled:
    for each in state.store.resources:
        yield {"resource": f"{each.resource}.{each.group}".removesuffix(".")}, each.objects


# fmt: off
TABLE: Final = (
    *PROCESS,
    *of(itself, "apiserver_",
        ("request_total", _requests, "Requests that ended, by verb, resource and status code"),
        ("longrunning_requests", _long_running, "Watches that are open"),
        ("current_inflight_requests", by("request_kind", "counters.in_flight"),
         "Requests now, without watches that have their initial events"),
        ("resource_objects", _of_resources("objects"), "Stored objects, by group and resource"),
        ("storage_objects", _storage_objects, "Stored objects, by resource with its group"),
    ),
    *of(_series, "apiserver_",
        ("request_duration_seconds", one(lambda series: times(series.duration_ns)),
         REQUEST_BOUNDS_S, NS_PER_S, "Time from a request's head to the end of its answer"),
        skips_empty=True,
    ),
    *of(itself, f"{PREFIX}apiserver_",
        ("injected_faults_total", by("kind", "counters.injected_faults"),
         "Requests that failed because --fault asked for it"),
        ("watchers", _of_resources("watchers"), "Watches and controllers that follow a resource"),
        ("store_commit_duration_seconds", one(lambda state: times(state.counters.commit_ns)),
         COMMIT_BOUNDS_S, NS_PER_S,
         "Time for the disk to keep a batch of writes; none with a store in memory"),
        ("store_committed_changes_total", "counters.committed_changes",
         "Changes that the disk keeps"),
        ("store_commit_failures_total", "counters.commit_failures",
         "Batches of writes that the disk refused"),
        ("store_pending_writes", "store.pending_writes", "Writes that wait for the disk"),
        ("store_resource_version", "store.resource_version",
         "Resource version of the newest change"),
    ),
)
# fmt: on
