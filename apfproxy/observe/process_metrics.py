"""Metrics of what a process has beside requests: its log, its admin listener, its health."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.observe.families import NO_LABELS, by_label, counter, gauge
from apfproxy.observe.proxy_metrics import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.faults import Faults
    from apfproxy.observe.access_log import AccessLog
    from apfproxy.observe.health import HealthRegistry


class Connections(Protocol):
    """The connections of a listener."""

    @property
    def ended(self) -> Mapping[str, int]:
        """Those that lost their place or were refused, by reason; each only goes up."""

    def __len__(self) -> int:
        """Those that are open."""


def access_log_families(access_log: AccessLog) -> Iterator[Metric]:
    """All families of the access log, as of now."""
    yield counter(
        f"{PREFIX}access_log_lines_total",
        "Lines of the access log, by whether they are in the file or were dropped on their way",
        [({"result": "written"}, access_log.written), ({"result": "dropped"}, access_log.dropped)],
    )
    yield counter(
        f"{PREFIX}access_log_errors_total",
        "Writes and openings of the access log that failed",
        [(NO_LABELS, access_log.write_errors)],
    )
    yield gauge(
        f"{PREFIX}access_log_queued_lines",
        "Lines of the access log that wait to be written",
        [(NO_LABELS, access_log.queued)],
    )


def admin_families(connections: Connections) -> Iterator[Metric]:
    """All families of the admin listener, as of now."""
    yield gauge(
        f"{PREFIX}admin_connections",
        "Connections of the admin listener",
        [(NO_LABELS, len(connections))],
    )
    yield counter(
        f"{PREFIX}admin_connections_ended_total",
        "Connections of the admin listener that made way, were late, or were a watch too many",
        by_label("reason", connections.ended),
    )


def fault_families(faults: Faults) -> Iterator[Metric]:
    """Errors of the program itself so far, each of which is a bug."""
    yield counter(
        f"{PREFIX}internal_errors_total",
        "Errors of the proxy itself that were contained, by the part of it in which they came up",
        by_label("part", faults.totals),
    )


def health_families(health: HealthRegistry) -> Iterator[Metric]:
    """Whether each check is well, so that a failure which no page is asked for can alert."""
    yield gauge(
        f"{PREFIX}healthcheck",
        "Whether a check of the health pages is well (1) or fails (0)",
        [({"name": check.name}, float(check.problem is None)) for check in health],
    )
