"""Tests of work, its estimates and how it is counted."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.queue_set import (
    ONE_SEAT,
    WorkEstimate,
    format_seat_seconds,
    ns_per_seat,
    seat_ticks,
)
from tests.flowcontrol.level import ONE_QUEUE, Level


@pytest.mark.parametrize(
    ("estimate", "max_seats", "work"),
    [
        pytest.param(ONE_SEAT, 1, 300_000, id="one-seat"),
        pytest.param(WorkEstimate(3), 3, 900_000, id="wide"),
        pytest.param(WorkEstimate(1, 4, 5_000_000), 4, 2_300_000, id="final-seats-are-more"),
        pytest.param(WorkEstimate(4, 1, 5_000_000), 4, 1_700_000, id="initial-seats-are-more"),
    ],
)
def test_work_estimate(estimate: WorkEstimate, max_seats: int, work: int) -> None:
    """It holds the larger number of seats; its work is that of both its phases."""
    assert max_seats == estimate.max_seats
    assert work == estimate.work


def test_a_cut_estimate_keeps_its_final_work() -> None:
    """Fewer final seats are held for longer."""
    cut = WorkEstimate(3, 8, 5_000_000).cut(2)

    assert repr(cut) == "WorkEstimate(3, 2, 20000000)"
    assert cut.work == WorkEstimate(3, 8, 5_000_000).work


@pytest.mark.parametrize(
    ("seats", "duration_ns", "ticks"),
    [
        pytest.param(1, 3_000_000, 300_000, id="the-guess"),
        pytest.param(1, 4, 0, id="down"),
        pytest.param(1, 5, 1, id="half-away-from-zero"),
        pytest.param(1, -5, -1, id="negative-half-away-from-zero"),
        pytest.param(1, -4, 0, id="negative-up"),
        pytest.param(1 / 3, 100, 3, id="a-share"),
        pytest.param(0.49999999999999994, 10, 0, id="just-below-a-half"),
        pytest.param(1, 45_035_996_273_704_970, 4_503_599_627_370_497, id="beyond-2**52"),
    ],
)
def test_seat_ticks(seats: float, duration_ns: int, ticks: int) -> None:
    """Work is rounded once, half away from zero."""
    assert ticks == seat_ticks(seats, duration_ns)


@pytest.mark.parametrize(
    ("work", "seats", "duration_ns"),
    [(300_000, 1, 3_000_000), (100, 3, 333), (0, 5, 0)],
)
def test_ns_per_seat(work: int, seats: int, duration_ns: int) -> None:
    """The time is rounded down."""
    assert duration_ns == ns_per_seat(work, seats)


@pytest.mark.parametrize(
    ("work", "text"),
    [(0, "0.00000000ss"), (300_000, "0.00300000ss"), (-150_000_000, "-1.50000000ss")],
)
def test_format_seat_seconds(work: int, text: str) -> None:
    """Seat-seconds have eight decimals and a unit."""
    assert text == format_seat_seconds(work)


def test_reprs() -> None:
    """A log can tell what a queue set works with apart."""
    level = Level(ONE_QUEUE, limit=1)
    ticket = level.admit()
    level.admit()
    queue = level.queue_set.queues[0]

    assert "<Queue 0: 1 waiting, 1 executing, next_dispatch_r 300000>" == repr(queue)
    assert repr(ticket).endswith(" executing>")
    assert repr(level.queue_set).startswith("<QueueSet level: 1 waiting, 1 executing")
