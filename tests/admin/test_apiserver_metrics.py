"""The API server's metrics."""

from __future__ import annotations

import pytest

from apfproxy.admin.apiserver_metrics import ResourceState, StoreState, apiserver_page
from apfproxy.apiserver.counters import ApiServerCounters, RequestLabels
from apfproxy.sources.object_counts import CountsParser

STATE = StoreState(
    [ResourceState("", "pods", 3, 1), ResourceState("policy", "poddisruptionbudgets", 2, 0)], 4, 99
)
LABELS = RequestLabels("LIST", "", "v1", "pods", "", "cluster")


def page(counters: ApiServerCounters | None = None) -> bytes:
    return b"".join(apiserver_page(counters or ApiServerCounters(), lambda: STATE, 1.0).slices())


def test_counts_can_be_read() -> None:
    """The proxy reads the numbers of objects from this page."""
    parser = CountsParser()
    parser.feed(page())

    assert {"pods": 3, "poddisruptionbudgets.policy": 2} == parser.finish()


def test_requests() -> None:
    counters = ApiServerCounters()
    counters.requests[LABELS].end(200, 30_000_000)
    counters.requests[LABELS].end(0, 30_000_000)
    counters.requests[RequestLabels("WATCH")].long_running = 2
    text = page(counters).decode()
    labels = (
        'component="apiserver",dry_run="",group="",resource="pods",scope="cluster",'
        'subresource="",verb="LIST",version="v1"'
    )

    assert f'apiserver_request_total{{code="200",{labels}}} 1.0' in text
    assert f'apiserver_request_total{{code="left",{labels}}} 1.0' in text
    assert f"apiserver_request_duration_seconds_count{{{labels}}} 2.0" in text
    assert 1 == text.count("apiserver_longrunning_requests{")


@pytest.mark.parametrize(
    "line",
    [
        'apiserver_current_inflight_requests{request_kind="mutating"} 0.0',
        'apiserver_current_inflight_requests{request_kind="readOnly"} 7.0',
        'apfproxy_apiserver_injected_faults_total{kind="500"} 1.0',
        'apiserver_storage_objects{resource="poddisruptionbudgets.policy"} 2.0',
        'apfproxy_apiserver_watchers{group="",resource="pods"} 1.0',
        "apfproxy_apiserver_store_commit_duration_seconds_count 1.0",
        "apfproxy_apiserver_store_committed_changes_total 5.0",
        "apfproxy_apiserver_store_pending_writes 4.0",
        "apfproxy_apiserver_store_resource_version 99.0",
    ],
)
def test_own(line: str) -> None:
    counters = ApiServerCounters()
    counters.in_flight["readOnly"] = 7
    counters.injected_faults["500"] += 1
    counters.commit_ns.observe(1_000_000)
    counters.committed_changes = 5

    assert line in page(counters).decode().splitlines()
