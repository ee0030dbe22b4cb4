"""What waits and executes in a priority level of several workers, as one list of each."""

from __future__ import annotations

from typing import Any

from apfproxy.admin.live_requests import MAX_REQUESTS
from apfproxy.admin.merged_requests import merged_requests


def page(*seconds: float) -> dict[str, Any]:
    """Of a worker: requests that execute for so long, oldest first."""
    executing = [{"seconds": each} for each in seconds]
    return {
        "waiting": [],
        "executing": executing,
        "waitingCount": 0,
        "executingCount": len(executing),
    }


def test_oldest_first() -> None:
    """Requests are in the order of their age, each with its worker."""
    found = merged_requests([("1", page(3.0, 1.0)), ("2", page(2.0))])

    assert [(each["seconds"], each["worker"]) for each in found["executing"]] == [
        (3.0, "1"),
        (2.0, "2"),
        (1.0, "1"),
    ]
    assert (found["waitingCount"], found["executingCount"]) == (0, 3)


def test_no_more_than_fit() -> None:
    """The list is as long as that of one worker."""
    many = page(*[1.0] * MAX_REQUESTS)
    found = merged_requests([("1", many), ("2", many)])

    assert len(found["executing"]) == MAX_REQUESTS
    assert found["executingCount"] == 2 * MAX_REQUESTS
