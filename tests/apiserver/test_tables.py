"""Tests of how long ago something was."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.tables import duration

MINUTE_S, HOUR_S, DAY_S, YEAR_S = 60, 3600, 24 * 3600, 365 * 24 * 3600


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2.5, "<invalid>"),
        (-1.5, "0s"),
        (0.9, "0s"),
        (59, "59s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (10 * MINUTE_S, "10m"),
        (179 * MINUTE_S + 59, "179m"),
        (3 * HOUR_S, "3h"),
        (3 * HOUR_S + 5 * MINUTE_S, "3h5m"),
        (8 * HOUR_S + 59 * MINUTE_S, "8h"),
        (47 * HOUR_S, "47h"),
        (2 * DAY_S, "2d"),
        (2 * DAY_S + HOUR_S, "2d1h"),
        (8 * DAY_S + HOUR_S, "8d"),
        (729 * DAY_S, "729d"),
        (2 * YEAR_S, "2y"),
        (2 * YEAR_S + DAY_S, "2y1d"),
        (8 * YEAR_S + DAY_S, "8y"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    """The older, the coarser the unit."""
    assert expected == duration(seconds)
