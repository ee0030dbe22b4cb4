"""Metrics of the admin listener's connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.observe.families import NO_LABELS, counter, gauge
from apfproxy.observe.proxy_metrics import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric


class Connections(Protocol):
    """The connections of a listener."""

    @property
    def ended(self) -> Mapping[str, int]:
        """Those that lost their place or were refused, by reason; each only goes up."""

    def __len__(self) -> int:
        """Those that are open."""


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
        [({"reason": str(reason)}, number) for reason, number in connections.ended.items()],
    )
