"""What became of requests."""

from __future__ import annotations

from apfproxy.simulation.tally import Tally


def test_merges() -> None:
    """All numbers of two tallies add up."""
    first, second = Tally(), Tally()
    for tally in (first, second):
        tally.executed, tally.queued, tally.cut_off, tally.without_seats = 3, 2, 1, 4
        tally.seat_ns, tally.service_ns = 10, 20
        tally.waits.add(5)
        tally.reject("time-out")
        tally.reject("time-out")
    second.reject("queue-full")
    first.merge(second)

    assert (6, 4, 2, 8) == (first.executed, first.queued, first.cut_off, first.without_seats)
    assert (20, 40, 10) == (first.seat_ns, first.service_ns, first.waits.total_ns)
    assert {"time-out": 4, "queue-full": 1} == first.rejected
    assert (5, 19) == (first.rejected_total, first.requests)
