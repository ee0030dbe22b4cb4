"""Metrics of the process that several workers belong to, beside those that it collects of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from apfproxy.admin.families import NO_LABELS, by_label, counter, gauge
from apfproxy.admin.proxy_metrics import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.admin.worker_answers import WorkerAdmin

STATES = ("starting", "serving", "silent", "draining", "ended")


def worker_families(
    workers: Iterable[WorkerAdmin], restarts: int, answered: Mapping[str, bool]
) -> Iterator[Metric]:
    """All families, as of now; whether each worker has answered is by its name."""
    states = Counter(worker.state for worker in workers)
    yield gauge(
        f"{PREFIX}workers",
        "Processes that serve requests, by what they do",
        by_label("state", {state: states.pop(state, 0) for state in STATES} | states),
    )
    yield gauge(
        f"{PREFIX}worker_up",
        "Whether a worker answered for this scrape (1) or not (0)",
        by_label("worker", answered),
    )
    yield counter(
        f"{PREFIX}worker_restarts_total",
        "Workers that were started again since their process had ended by itself",
        [(NO_LABELS, restarts)],
    )
