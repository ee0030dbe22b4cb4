"""Values over time."""

from __future__ import annotations

from apfproxy.simulation.series import LevelSeries


def test_halves() -> None:
    """Of each two bins, averages are averaged and numbers of requests added up."""
    series = LevelSeries()
    series.add(1, 2, 3, 4, 5)
    series.add(3, 4, 5, 6, 7)
    series.halve()

    assert ([2], [3], [4], [10], [12]) == (
        series.seats,
        series.waiting,
        series.limit,
        series.dispatched,
        series.rejected,
    )
