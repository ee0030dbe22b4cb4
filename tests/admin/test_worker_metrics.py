"""Metrics of the process that several workers belong to."""

from __future__ import annotations

from apfproxy.admin.worker_answers import WorkerAdmin
from apfproxy.admin.worker_metrics import worker_families


def test_families() -> None:
    """Workers are counted by state, each state being there; another one is, too."""
    workers = [WorkerAdmin(index, "path", "serving", index) for index in (1, 2)]
    workers.append(WorkerAdmin(3, "path", "resting", 3))
    samples = {
        (each.name, *each.labels.values()): each.value
        for family in worker_families(workers, 4, {"1": True, "2": False})
        for each in family.samples
    }

    assert samples == {
        ("apfproxy_workers", "starting"): 0,
        ("apfproxy_workers", "serving"): 2,
        ("apfproxy_workers", "silent"): 0,
        ("apfproxy_workers", "draining"): 0,
        ("apfproxy_workers", "ended"): 0,
        ("apfproxy_workers", "resting"): 1,
        ("apfproxy_worker_up", "1"): 1,
        ("apfproxy_worker_up", "2"): 0,
        ("apfproxy_worker_restarts_total",): 4,
    }
