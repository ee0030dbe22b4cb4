"""Metrics of errors of the program itself, each of which is a bug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.observe.families import counter
from apfproxy.observe.proxy_metrics import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from apfproxy.faults import Faults


def fault_families(faults: Faults) -> Iterator[Metric]:
    """How many there were so far."""
    yield counter(
        f"{PREFIX}internal_errors_total",
        "Errors of the proxy itself that were contained, by the part of it in which they came up",
        [({"part": part}, total) for part, total in faults.totals.items()],
    )
