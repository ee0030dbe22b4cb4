"""The proxy's own metrics, all named `apfproxy_*`.

`downstream` is the side of the clients, `upstream` that of the upstream.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from typing import TYPE_CHECKING, Protocol

from apfproxy.admin.families import (
    NO_LABELS,
    NS_PER_S,
    HistogramFamily,
    bound_texts,
    by_label,
    counter,
    gauge,
    plain,
)
from apfproxy.flowcontrol.meters import DURATION_BOUNDS_NS, DURATION_BOUNDS_S, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.admin.config_status import ConfigStatus
    from apfproxy.admin.endpoint_state import Endpoint
    from apfproxy.admin.families import Series
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.proxy.counters import ProxyCounters

PREFIX = "apfproxy_"

GAUGES: Series = {
    ("slow_readers", "slow_readers_open"): (
        "Answers under way that gave their seats back since their client takes them slowly"
    ),
    ("tunnels_open", "tunnels_open"): "Upgraded connections that are open",
}

COUNTERS: Series = {
    ("downstream_aborts_total", "client_aborts"): (
        "Requests whose client left before its answer was complete"
    ),
    ("slow_reader_releases_total", "slow_reader_releases"): (
        "Requests whose seats went back while the rest of their answer waited for its client alone"
    ),
    ("abandoned_requests_total", "abandoned_requests"): (
        "Requests that kept their seats after their client had left, until the upstream was through"
    ),
    ("abandoned_requests_given_up_total", "abandoned_given_up"): (
        "Of those, the ones that the upstream did not answer within upstream.abandonedWait"
    ),
    ("upstream_retries_total", "upstream_retries"): (
        "Requests sent again because their kept connection was closed meanwhile"
    ),
}

POOL_COUNTERS: Series = {
    ("upstream_received_bytes_total", "bytes_received"): "Bytes received from the upstream",
    ("upstream_sent_bytes_total", "bytes_sent"): "Bytes sent to the upstream",
    ("upstream_connections_opened_total", "connections_opened"): (
        "Connections opened to the upstream"
    ),
    ("upstream_rebalanced_total", "rebalanced"): (
        "Watches that were ended so that another server behind gets them"
    ),
}

LOAD_GAUGES: Series = {
    ("config_problems", "problems"): (
        "Objects that the last load skipped and files that it could not read"
    ),
    ("config_last_success_timestamp_seconds", "last_success_unix_s"): (
        "When a load last succeeded, in seconds since 1970"
    ),
}
CONTROLLER_GAUGES: Series = {
    ("config_generation", "generation"): "Goes up whenever another configuration comes into force",
    ("unused_additions", "unused_additions"): (
        "Annotations under apfproxy.io/ that do not count since they are wrong"
    ),
}

STATUS_CODES = range(100, 600)
"""Codes with their own label value; an upstream may send any three digits."""


class PoolState(Protocol):
    """The current state of a pool of upstream connections."""

    @property
    def open_count(self) -> int:
        """Connections that are open."""

    @property
    def idle_count(self) -> int:
        """Open connections that no request uses."""

    @property
    def waiting_count(self) -> int:
        """Requests that wait for a connection."""

    @property
    def draining(self) -> Iterable[Endpoint]:
        """Servers that are named no more, but have requests."""


class ProxyMetrics:
    """Makes metric families of a cluster's data plane and of its configuration.

    `is_only` says whether answers to what is no cluster's request count as its own.
    """

    def __init__(
        self,
        counters: ProxyCounters,
        pool: PoolState,
        config_status: ConfigStatus,
        controller: Controller,
        *,
        is_only: bool = True,
    ) -> None:
        self._is_only = is_only
        self._counters = counters
        self._pool = pool
        self._config_status = config_status
        self._controller = controller
        self._duration_bounds = bound_texts(DURATION_BOUNDS_S)

    def collect(self) -> Iterator[Metric]:
        """All families, as of now."""
        yield from self._data_plane()
        yield from self._configuration()

    def _data_plane(self) -> Iterator[Metric]:
        counters = self._counters
        yield from plain(PREFIX, GAUGES, COUNTERS, counters)
        yield from plain(PREFIX, {}, POOL_COUNTERS, counters.pool)
        idle = self._pool.idle_count
        yield gauge(
            PREFIX + "upstream_connections",
            "Connections to the upstream that are open, by whether a request uses them",
            [({"state": "active"}, self._pool.open_count - idle), ({"state": "idle"}, idle)],
        )
        yield gauge(
            PREFIX + "upstream_waiters",
            "Admitted requests that wait for a connection to the upstream",
            [(NO_LABELS, self._pool.waiting_count)],
        )
        yield counter(
            PREFIX + "upstream_failures_total",
            "Requests that the upstream did not answer, and answers that it cut short, by how",
            by_label("reason", counters.upstream.failures),
        )
        yield counter(
            PREFIX + "upstream_tls_handshakes_total",
            "TLS handshakes with the upstream that succeeded, by whether they took up a session",
            by_label("kind", counters.pool.handshakes),
        )
        responses = counters.requests_by_status if self._is_only else counters.responses
        for name, help_text, answers in (
            ("responses_total", "Final answers sent to clients", responses),
            ("upstream_answers_total", "Final answers of the upstream", counters.upstream.answers),
        ):
            yield counter(
                PREFIX + name, f"{help_text}, by status code", by_label("code", by_code(answers))
            )
        yield counter(
            PREFIX + "tunnels_total",
            "Connections that were upgraded, by protocol",
            by_label("protocol", dict(sorted(counters.tunnels_by_protocol.items()))),
        )
        head = HistogramFamily(
            PREFIX + "upstream_response_head_seconds",
            "Time from a request sent to the head of the upstream's answer",
            self._duration_bounds,
        )
        head_ns = counters.upstream.head_ns
        head.add(NO_LABELS, coarser(head_ns), head_ns.sum / NS_PER_S)
        yield head.metric

    def _configuration(self) -> Iterator[Metric]:
        status = self._config_status
        is_observing = self._counters.is_observing
        yield gauge(
            PREFIX + "enforcement",
            "Whether flow control is enforced, or only observed: then no request is rejected or"
            " delayed, and apiserver_* metrics tell what would have happened",
            [({"mode": "enforce"}, not is_observing), ({"mode": "observe"}, is_observing)],
        )
        yield counter(
            PREFIX + "config_loads_total",
            "Loads of the configuration, the first included, by whether all of it was good",
            [({"result": "success"}, status.succeeded), ({"result": "failure"}, status.failed)],
        )
        yield from plain(PREFIX, LOAD_GAUGES, {}, status)
        yield from plain(PREFIX, CONTROLLER_GAUGES, {}, self._controller)
        yield gauge(
            PREFIX + "dangling_flow_schemas",
            "FlowSchemas that are ignored since the priority level they name does not exist",
            [(NO_LABELS, len(self._controller.in_force.dangling))],
        )


def by_code(answers: Mapping[int, int]) -> dict[str, int]:
    """Answers by their code as a label, `other` for codes that no standard has."""
    found: dict[str, int] = {}
    for code, number in sorted(answers.items()):
        label = str(code) if code in STATUS_CODES else "other"
        found[label] = found.get(label, 0) + number
    return found


def coarser(histogram: Histogram) -> list[int]:
    """The counts of a histogram with the metrics' bounds, all of which are among its own."""
    found = Histogram(DURATION_BOUNDS_NS)
    for bound_ns, count in zip((*histogram.bounds, inf), histogram.counts, strict=True):
        found.counts[bisect_left(DURATION_BOUNDS_NS, bound_ns)] += count
    return found.counts
