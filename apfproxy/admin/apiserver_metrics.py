"""Metrics of the API server, in kube-apiserver's names, labels and buckets where it has them.

Source: Kubernetes 1.36, "Kubernetes Metrics Reference".
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from apfproxy.admin.gathering import times, used_state
from apfproxy.admin.metrics import PREFIX, PROCESS, by, itself, of, one, page
from apfproxy.admin.state import NS_PER_S, Times
from apfproxy.apiserver.counters import COMMIT_BOUNDS_S, REQUEST_BOUNDS_S, RESPONSE_BOUNDS
from apfproxy.flowcontrol.meters import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from apfproxy.admin.metrics import Labelled, Labels, Numbers
    from apfproxy.admin.state import UsedState
    from apfproxy.apiserver.counters import ApiServerCounters, RequestCounters, RequestLabels

LEFT: Final = "left"
"""The label `code` of requests that got no response: the client left, or a fault was injected."""
COMPONENT: Final = {"component": "apiserver"}
FINER_BOUNDS: Final = 2
"""Buckets of all durations that the ones for service levels do not have."""


class ResourceState(NamedTuple):
    group: str
    resource: str
    objects: int
    watchers: int


class StoreState(NamedTuple):
    resources: Sequence[ResourceState]
    pending_writes: int
    resource_version: int


class ApiServerState(NamedTuple):
    counters: ApiServerCounters
    store: StoreState
    used: UsedState
    in_flight: Mapping[str, int]


def apiserver_page(
    counters: ApiServerCounters, store: StoreState, started_s: float
) -> Iterator[bytes]:
    """The page of an API server that began at a time, in seconds since 1970, in slices."""
    in_flight = counters.in_flight.in_flight(time.monotonic_ns())
    return page(TABLE, {"": ApiServerState(counters, store, used_state(started_s), in_flight)})


def _requests(state: ApiServerState) -> Labelled:
    for labels, series in _series(state):
        for code, ended in sorted(series.by_code.items()):
            yield {**labels, "code": str(code) if code else LEFT}, ended


def _series(state: ApiServerState, *_: bool) -> Iterator[tuple[Labels, RequestCounters]]:
    for labels, series in sorted(state.counters.requests.items()):
        yield {**labels._asdict(), **COMPONENT}, series


def _without_dry_runs(labels: RequestLabels) -> Labels:
    named = labels._asdict()
    del named["dry_run"]
    return {**named, **COMPONENT}


def _long_running(state: ApiServerState) -> Labelled:
    for labels, number in sorted(state.counters.long_running.items()):
        if number:
            yield _without_dry_runs(labels), number


def _terminations(state: ApiServerState) -> Labelled:
    for (labels, code), number in sorted(state.counters.terminations.items()):
        yield {**_without_dry_runs(labels), "code": str(code)}, number


def _sli(state: ApiServerState) -> Labelled:
    """Durations without dry runs; there are no webhooks and queues whose time would not count."""
    for labels, series in sorted(state.counters.requests.items()):
        counts = series.duration_ns.counts
        if not labels.dry_run and any(counts):
            merged = [sum(counts[: FINER_BOUNDS + 1]), *counts[FINER_BOUNDS + 1 :]]
            yield _without_dry_runs(labels), Times(merged, float(series.duration_ns.sum))


def _response_sizes(state: ApiServerState) -> Labelled:
    summed: defaultdict[RequestLabels, Histogram] = defaultdict(lambda: Histogram(RESPONSE_BOUNDS))
    for labels, series in state.counters.requests.items():
        summed[labels._replace(dry_run="")].add(series.response_bytes)
    for labels, sizes in sorted(summed.items()):
        yield _without_dry_runs(labels), times(sizes)


def _events(state: ApiServerState) -> Labelled:
    for (group, version, resource), events in sorted(state.counters.watch_events.items()):
        if events.count:
            yield {"group": group, "version": version, "resource": resource}, events.count


def _deprecated(state: ApiServerState) -> Labelled:
    removals = state.counters.removals
    asked = {
        (*labels[1:5], removals[labels[1:4]])
        for labels in state.counters.requests
        if labels[1:4] in removals and "other" not in {labels.verb, labels.subresource}
    }
    names = ("group", "version", "resource", "subresource", "removed_release")
    for values in sorted(asked):
        yield dict(zip(names, values, strict=True)), 1


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
        ("request_terminations_total", _terminations,
         "Requests that the server ended since they took too long"),
        ("current_inflight_requests", by("request_kind", "in_flight"),
         "Most requests at once in the last second, without watches that have their initial events"
        ),
        ("requested_deprecated_apis", _deprecated, "Deprecated versions that were asked for"),
        ("watch_events_total", _events, "Events that watches were sent"),
        ("request_sli_duration_seconds", _sli, REQUEST_BOUNDS_S[FINER_BOUNDS:], NS_PER_S,
         "Time from a request's head to the end of its answer, without dry runs"),
        ("resource_objects", _of_resources("objects"), "Stored objects, by group and resource"),
        ("storage_objects", _storage_objects, "Stored objects, by resource with its group"),
    ),
    *of(_series, "apiserver_",
        ("request_duration_seconds", one(lambda series: times(series.duration_ns)),
         REQUEST_BOUNDS_S, NS_PER_S, "Time from a request's head to the end of its answer"),
        skips_empty=True,
    ),
    *of(itself, "apiserver_",
        ("response_sizes", _response_sizes, RESPONSE_BOUNDS, 1, "Bytes of responses to reads"),
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
