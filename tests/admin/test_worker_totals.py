"""What workers have counted, also those that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin import worker_totals
from apfproxy.admin.merged_metrics import merged_slices, page_of
from apfproxy.admin.worker_totals import WorkerTotals

if TYPE_CHECKING:
    import pytest


def page(served: int, connections: int = 0) -> bytes:
    """A page with a counter and a gauge."""
    return (
        b"# HELP served_total Served\n# TYPE served_total counter\nserved_total %d.0\n"
        b"# HELP open Open\n# TYPE open gauge\nopen %d.0\n" % (served, connections)
    )


def lines(totals: WorkerTotals, **pages: bytes | None) -> list[str]:
    """The samples of the merged page."""
    read = {name: None if each is None else page_of(each) for name, each in pages.items()}
    merged = b"".join(merged_slices(totals.take(read))).decode()
    return [line for line in merged.splitlines() if not line.startswith("#")]


def test_sum() -> None:
    """Workers that answer are counted as they are."""
    assert lines(WorkerTotals(), a=page(5, 1), b=page(7, 2)) == ["served_total 12.0", "open 3.0"]


def test_counts_of_a_worker_that_is_gone_stay() -> None:
    """The sum does not fall where a worker makes room for the next one; gauges are of now."""
    totals = WorkerTotals()
    lines(totals, a=page(5, 1), b=page(7, 2))

    assert lines(totals, a=page(6, 1), c=page(0, 0)) == ["served_total 13.0", "open 1.0"]
    assert lines(totals, c=page(2, 0)) == ["served_total 15.0", "open 0.0"]
    assert lines(totals, c=page(3, 0)) == ["served_total 16.0", "open 0.0"]


def test_counts_of_a_worker_that_does_not_answer_stay() -> None:
    """Its gauges are left out, and its counters are those of its last answer."""
    totals = WorkerTotals()
    lines(totals, a=page(5, 1), b=page(7, 2))

    assert lines(totals, a=page(6, 1), b=None) == ["served_total 13.0", "open 1.0"]
    assert lines(totals, a=page(6, 1), b=page(8, 3)) == ["served_total 14.0", "open 4.0"]


def test_last_counts() -> None:
    """A worker that has handed them over has them in the sum once, also if it was just asked."""
    totals = WorkerTotals()
    lines(totals, a=page(5, 1), b=page(7, 2))
    totals.bury("a", page_of(page(6, 1)))
    totals.bury("never asked", page_of(page(100)))

    assert lines(totals, a=page(5, 1), b=page(7, 2)) == ["served_total 113.0", "open 2.0"]
    assert lines(totals, b=page(8, 2)) == ["served_total 114.0", "open 2.0"]


def test_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of workers that are gone has a bound."""
    monkeypatch.setattr(worker_totals, "MAX_GONE_BYTES", 0)
    totals = WorkerTotals()
    lines(totals, a=page(5), b=page(7))

    assert lines(totals, b=page(7)) == ["served_total 12.0", "open 0.0"]
    assert lines(totals, c=page(1)) == ["served_total 8.0", "open 0.0"]


def test_a_worker_that_never_answered_has_no_counts() -> None:
    """There is nothing to keep of it."""
    totals = WorkerTotals()

    assert lines(totals, a=page(5, 1), b=None) == ["served_total 5.0", "open 1.0"]
    assert repr(totals) == "<WorkerTotals of 1 workers>"
