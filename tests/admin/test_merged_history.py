"""The last minutes of several workers as those of one proxy."""

from __future__ import annotations

import math
from typing import Any

import pytest

from apfproxy.admin.live_history import FIELDS
from apfproxy.admin.merged_history import MergedHistory, WorkerSeconds, merged_values


def columns(*times: float, served: float = 1.0, level: str = "a") -> dict[str, Any]:
    """Seconds of a worker with one level."""
    fields: dict[str, list[float | None]] = {field: [0.0] * len(times) for field in FIELDS}
    fields["served"] = [served] * len(times)
    fields["waitSeconds"] = fields["waitP99Seconds"] = [None] * len(times)
    return {"times": list(times), "levels": {level: fields}}


def seconds(*times: float, served: float = 1.0, level: str = "a") -> WorkerSeconds:
    """A worker that took samples at these times."""
    found = WorkerSeconds()
    found.begin(columns(*times, served=served, level=level))
    return found


def served(history: MergedHistory, level: str = "a") -> list[float]:
    """Its requests by second."""
    found: list[float] = history.columns()["levels"][level]["served"]
    return found


def test_nearest_samples_add_up() -> None:
    """Workers take their samples at moments of their own."""
    history = MergedHistory()
    history.begin([seconds(10.0, 11.0, 12.0), seconds(10.4, 11.4, 12.4, served=2.0)])

    assert history.columns()["times"] == [10.0, 11.0, 12.0]
    assert served(history) == [3.0, 3.0, 3.0]
    assert history.taken == 3


def test_worker_that_came_later() -> None:
    """Before it was there, the sum is that of the others; the longest history has the times."""
    history = MergedHistory()
    history.begin([seconds(12.1, served=2.0), seconds(10.0, 11.0, 12.0)])

    assert served(history) == [1.0, 1.0, 3.0]


def test_further_seconds() -> None:
    """A second comes once; one without any sample is left out."""
    worker = seconds(10.0)
    history = MergedHistory()
    history.begin([worker])
    worker.add(columns(10.0, 11.0))
    history.sample([worker], 10.0)
    history.sample([worker], 10.9)
    history.sample([worker], 15.0)

    assert history.columns()["times"] == [10.0, 10.9]
    assert history.columns(1)["times"] == [10.9]
    assert list(worker.times) == [10.0, 11.0]


def test_levels_that_come() -> None:
    """A level that only one worker has is there with its numbers alone."""
    history = MergedHistory()
    history.begin([seconds(10.0), seconds(10.0, level="b", served=7.0)])
    worker = seconds(11.0, level="b")
    history.sample([worker], 11.0)

    assert served(history, "b") == [7.0, 1.0]
    assert math.isnan(served(history)[1])


def test_clock_that_is_put_back() -> None:
    """Times begin anew, for the worker and for all."""
    worker = seconds(1000.0, 1001.0)
    history = MergedHistory()
    history.begin([worker])
    worker.add(columns(5.0, 6.0))
    history.sample([worker], 6.0)

    assert list(worker.times) == [5.0, 6.0]
    assert history.columns()["times"] == [6.0]


def test_without_workers() -> None:
    """There is nothing to see."""
    history = MergedHistory()
    history.begin([])
    history.sample([], 5.0)

    assert history.columns() == {"times": [], "levels": {}}


NAN = math.nan


@pytest.mark.parametrize(
    ("waits", "mean", "bound"),
    [
        pytest.param([(0.1, 0.2), (0.3, 0.5)], 0.25, 0.5, id="weighted-by-requests"),
        pytest.param([(NAN, NAN), (0.3, math.inf)], 0.3, math.inf, id="only-one-had-requests"),
        pytest.param([(NAN, NAN), (NAN, NAN)], NAN, NAN, id="nobody-had"),
    ],
)
def test_waits(waits: list[tuple[float, float]], mean: float, bound: float) -> None:
    """Mean waits are weighted; the bound is the worst of all."""
    found = [(1.0 + 2 * place, 0.0, 0.0, *wait, 1.0, 2.0) for place, wait in enumerate(waits)]
    merged = merged_values(found)

    assert merged[3:5] == pytest.approx((mean, bound), nan_ok=True)
    assert merged[5:] == (2.0, 4.0)
