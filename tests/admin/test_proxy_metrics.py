"""The proxy's own metrics."""

from __future__ import annotations

import platform
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

import apfproxy
from apfproxy.admin.config_status import ConfigStatus
from apfproxy.admin.listener_metrics import listener_families
from apfproxy.admin.metrics import Collected
from apfproxy.admin.proxy_metrics import COUNTERS, GAUGES, ProxyMetrics
from apfproxy.base import build
from apfproxy.proxy.counters import HandshakeFailure, ProxyCounters, Refusal
from apfproxy.upstream.counters import UpstreamFailure
from loadtest.objects import flow_schema, group_subject
from tests.admin.scene import Scene, StillPool

if TYPE_CHECKING:
    from collections.abc import Iterable

MS = 1_000_000


class Values:
    """Samples of the proxy's metrics, by name without the common prefix."""

    def __init__(self, counters: ProxyCounters, status: ConfigStatus, scene: Scene) -> None:
        self._registry = CollectorRegistry()
        of_cluster = ProxyMetrics(counters, StillPool(), status, scene.controller)
        of_clients = partial(listener_families, counters.listener)
        self._registry.register(Collected(of_cluster.collect, of_clients))

    def of(self, name: str, **labels: str) -> float | None:
        """The value of a sample; None if there is none."""
        return self._registry.get_sample_value(f"apfproxy_{name}", labels)


@pytest.fixture
def values() -> Values:
    """Counters that are all different, an answer of each sort, and two loads."""
    counters = ProxyCounters()
    numbers = (
        each.name for each in fields(counters) if isinstance(getattr(counters, each.name), int)
    )
    for number, name in enumerate(numbers, 1):
        setattr(counters, name, number)
    counters.pool.unattributed.answers.update({200: 2, 404: 1, 600: 1, 999: 1})
    counters.count_own(404)
    for head_ns in (30 * MS, 30 * MS, 99_000 * MS):
        counters.pool.unattributed.head_ns.observe(head_ns)
    status = ConfigStatus()
    status.loaded(0, 1234.5)
    status.loaded(2, 2345.5)
    scene = Scene((flow_schema("lost", "nowhere", group_subject("everyone")),))
    return Values(counters, status, scene)


def test_each_counter_is_exposed_once(values: Values) -> None:
    """Every plain counter has a metric of its own."""
    found = [values.of(name) for name, _ in (*GAUGES, *COUNTERS)]

    assert None not in found
    assert len(found) == len(set(found))


def test_answers_by_code(values: Values) -> None:
    """A code outside the usual range does not get a label value of its own."""
    assert values.of("responses_total", code="200") == 2
    assert values.of("responses_total", code="404") == 2
    assert values.of("upstream_answers_total", code="404") == 1
    assert values.of("upstream_answers_total", code="other") == 2
    assert values.of("responses_total", code="other") == 2
    assert values.of("responses_total", code="600") is None


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("connections_refused_total", Refusal),
        ("tls_handshake_failures_total", HandshakeFailure),
        ("upstream_failures_total", UpstreamFailure),
        ("overloaded", (Refusal.LOOP_DELAY, Refusal.MEMORY)),
    ],
)
def test_reasons(values: Values, name: str, reasons: Iterable[str]) -> None:
    """Every reason is there from the start, so that a first increase is seen as one."""
    assert [0] * len([*reasons]) == [values.of(name, reason=reason) for reason in reasons]


def test_tunnels() -> None:
    """Each protocol is there from the start."""
    counters = ProxyCounters()
    counters.tunnels_open = 1
    counters.tunnels_by_protocol["websocket"] = 3
    values = Values(counters, ConfigStatus(), Scene(()))

    assert values.of("tunnels_open") == 1
    assert values.of("tunnels_total", protocol="websocket") == 3
    assert values.of("tunnels_total", protocol="SPDY/3.1") == 0


def test_loop_delay() -> None:
    """It is in seconds."""
    counters = ProxyCounters()
    counters.listener.loop_delay_ns = 250 * MS
    values = Values(counters, ConfigStatus(), Scene(()))

    assert values.of("loop_delay_seconds") == 0.25


def test_upstream(values: Values) -> None:
    """Connections of the pool are active or idle; times are in seconds."""
    assert values.of("upstream_connections", state="idle") == 2
    assert values.of("upstream_connections", state="active") == 3
    assert values.of("upstream_waiters") == 1
    assert values.of("upstream_response_head_seconds_bucket", le="0.02") == 0
    assert values.of("upstream_response_head_seconds_bucket", le="0.05") == 2
    assert values.of("upstream_response_head_seconds_bucket", le="30") == 2
    assert values.of("upstream_response_head_seconds_bucket", le="+Inf") == 3
    assert values.of("upstream_response_head_seconds_sum") == 99.06


def test_configuration(values: Values) -> None:
    """Loads count by result; what is in force is the controller's."""
    assert values.of("config_loads_total", result="success") == 1
    assert values.of("config_loads_total", result="failure") == 1
    assert values.of("config_problems") == 2
    assert values.of("config_last_success_timestamp_seconds") == 1234.5
    assert values.of("config_generation") == 2
    assert values.of("dangling_flow_schemas") == 1


def test_build_info(values: Values) -> None:
    """The versions of the program and of Python are labels, and whether it is compiled."""
    labels = {
        "version": apfproxy.__version__,
        "build": build.kind(),
        "python_version": platform.python_version(),
    }

    assert values.of("build_info", **labels) == 1


@pytest.mark.parametrize("name", ["tls_handshakes_total", "upstream_tls_handshakes_total"])
def test_kinds_of_handshakes(values: Values, name: str) -> None:
    """Both kinds are there from the start."""
    assert [0, 0] == [values.of(name, kind=kind) for kind in ("full", "resumed")]
