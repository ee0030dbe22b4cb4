"""Each of the servers behind in the live page's JSON."""

from __future__ import annotations

from apfproxy.admin.endpoint_state import (
    MAX_ENDPOINTS,
    EndpointView,
    endpoint_states,
    endpoint_views,
    shown,
)
from apfproxy.upstream.counters import UpstreamFailure
from tests.admin.servers import StillEndpoint, StillWatch, view

S = 1_000_000_000


class StillServers:
    """Two servers, and one that is drained."""

    def __init__(self) -> None:
        self.endpoints = [StillEndpoint("a"), StillEndpoint("b")]
        self.watches = {each.url: StillWatch(each) for each in self.endpoints}
        self.draining = [StillEndpoint("c", is_drawn=False)]


def test_all_of_them() -> None:
    """Those that are drained come last."""
    servers = StillServers()
    views = endpoint_views(servers, servers)

    assert [("a", "up"), ("b", "up"), ("c", "draining")] == [
        (each.endpoint.url, each.state) for each in views
    ]


def test_state() -> None:
    """It has its share, what it does now and what it did in the last seconds."""
    endpoint = StillEndpoint("https://a:6443", ramp=0.25, share=0.5)
    watch = StillWatch(endpoint)
    watch.ejections_total = 3
    endpoint.counters.answers[200] = 20
    endpoint.counters.head_ns.observe(S)
    endpoint.counters.fail(UpstreamFailure.TLS, "odd")
    watch.recent.sample(10 * S)
    found = endpoint_states([EndpointView(endpoint, watch), view("b"), view("c", "failing")])

    assert {
        "url": "https://a:6443",
        "state": "up",
        "problem": None,
        "since": 7.0,
        "weight": 1,
        "ramp": 0.25,
        "share": 0.3333,
        "seats": 5,
        "inFlight": 2,
        "connections": {"open": 3, "idle": 1},
        "answersPerSecond": {"1xx": 0.0, "2xx": 2.0, "3xx": 0.0, "4xx": 0.0, "5xx": 0.0},
        "failuresPerSecond": 0.1,
        "ejections": 3,
        "p50": 0.9,
        "p99": 0.998,
    } == found[0]
    assert [(0.6667, None), (0.0, "connection refused")] == [
        (each["share"], each["problem"]) for each in found[1:]
    ]


def test_drained() -> None:
    """Nobody looks at it any more: what it has under way is known."""
    [found] = endpoint_states([view("a", "draining")])

    assert ("draining", None, None, 2, {}, 0.0, None, 0) == tuple(
        found[name]
        for name in (
            "state",
            "problem",
            "since",
            "inFlight",
            "answersPerSecond",
            "failuresPerSecond",
            "p99",
            "ejections",
        )
    )


def test_bound() -> None:
    """Of very many servers those that are not well are shown first, in their order."""
    views = [view(str(place), "failing" if place % 100 == 99 else "up") for place in range(200)]
    names = [each.endpoint.url for each in shown(views, MAX_ENDPOINTS)]

    assert len(names) == MAX_ENDPOINTS
    assert [*map(str, range(MAX_ENDPOINTS - 2)), "99", "199"] == names
    assert views[:3] == shown(views[:3], 3)
