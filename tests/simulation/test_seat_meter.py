"""Integrals of seats."""

from __future__ import annotations

from apfproxy.flowcontrol.meters import LevelMeter, pack
from apfproxy.simulation.seat_meter import SeatMeter


def test_integrates() -> None:
    """Seats, waiting requests and borrowed seats are weighted by time."""
    replaced = LevelMeter()
    replaced.time_at[pack(1, 3, 0, 0)] = 10
    meter = SeatMeter(replaced, nominal_limit=2)
    replaced.time_at[pack(1, 1, 4, 4)] = 100
    meter.fold()

    assert (130, 400, 10) == (meter.seat_ns, meter.waiting_ns, meter.borrowed_ns)
    assert (3, 4) == (meter.max_seats, meter.max_waiting)
    assert {} == replaced.time_at
