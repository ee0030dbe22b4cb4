"""Metrics of the health checks, so that a failure which no page is asked for can alert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.observe.families import gauge
from apfproxy.observe.proxy_metrics import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from apfproxy.observe.health import HealthRegistry


def health_families(health: HealthRegistry) -> Iterator[Metric]:
    """Whether each check is well, as of now, whatever page lists it."""
    yield gauge(
        f"{PREFIX}healthcheck",
        "Whether a check of the health pages is well (1) or fails (0)",
        [({"name": check.name}, float(check.problem is None)) for check in health],
    )
