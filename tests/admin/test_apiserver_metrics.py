"""The API server's metrics."""

from __future__ import annotations

from apfproxy.admin.apiserver_metrics import ResourceState, StoreState, apiserver_page
from apfproxy.apiserver.counters import ApiServerCounters, RequestLabels
from apfproxy.sources.object_counts import CountsParser

STATE = StoreState(
    [ResourceState("", "pods", 3, 1), ResourceState("policy", "poddisruptionbudgets", 2, 0)], 4, 99
)
TERMINATIONS = (
    'apiserver_request_terminations_total{code="504",component="apiserver",group="",'
    'resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 2.0'
)


def page(counters: ApiServerCounters | None = None) -> bytes:
    return b"".join(apiserver_page(counters or ApiServerCounters(), STATE, 1.0))


def test_counts_can_be_read() -> None:
    parser = CountsParser()
    parser.feed(page())

    assert {"pods": 3, "poddisruptionbudgets.policy": 2} == parser.finish()


def test_own() -> None:
    counters = ApiServerCounters()
    counters.injected_faults["500"] += 1
    counters.commit_ns.observe(1_000_000)
    counters.committed_changes = 5
    counters.terminations[RequestLabels("POST", "", "v1", "pods", "", "resource"), 504] = 2

    assert {
        'apfproxy_apiserver_injected_faults_total{kind="500"} 1.0',
        'apiserver_storage_objects{resource="poddisruptionbudgets.policy"} 2.0',
        'apfproxy_apiserver_watchers{group="",resource="pods"} 1.0',
        "apfproxy_apiserver_store_commit_duration_seconds_count 1.0",
        "apfproxy_apiserver_store_committed_changes_total 5.0",
        "apfproxy_apiserver_store_pending_writes 4.0",
        "apfproxy_apiserver_store_resource_version 99.0",
        TERMINATIONS,
    } <= set(page(counters).decode().splitlines())
