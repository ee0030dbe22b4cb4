"""Times and durations as Go prints them."""

from __future__ import annotations

import pytest

from apfproxy.admin.go_format import duration_text, time_text


@pytest.mark.parametrize(
    ("unix_ns", "text"),
    [
        pytest.param(0, "1970-01-01T00:00:00Z", id="epoch"),
        pytest.param(-1, "1969-12-31T23:59:59.999999999Z", id="before-the-epoch"),
        pytest.param(1_792_481_236_671_115_820, "2026-10-20T07:27:16.67111582Z", id="trimmed"),
        pytest.param(1_792_481_236_000_000_001, "2026-10-20T07:27:16.000000001Z", id="nine-digits"),
        pytest.param(1_792_481_236_100_000_000, "2026-10-20T07:27:16.1Z", id="one-digit"),
    ],
)
def test_time_text(unix_ns: int, text: str) -> None:
    """Trailing zeros of the fraction are left out."""
    assert text == time_text(unix_ns)


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (999, "999ns"),
        (1_000, "1µs"),
        (1_500, "1.5µs"),
        (999_999, "999.999µs"),
        (1_000_000, "1ms"),
        (5_000_000, "5ms"),
        (1_050_000, "1.05ms"),
        (999_999_999, "999.999999ms"),
        (1_000_000_000, "1s"),
        (1_500_000_000, "1.5s"),
        (59_000_000_001, "59.000000001s"),
        (60_000_000_000, "1m0s"),
        (3_599_000_000_000, "59m59s"),
        (3_600_000_000_000, "1h0m0s"),
        (90_061_250_000_000, "25h1m1.25s"),
        (-1_500_000, "-1.5ms"),
    ],
)
def test_duration_text(duration_ns: int, text: str) -> None:
    """The unit is the largest that leaves a whole part; hours, minutes and seconds combine."""
    assert text == duration_text(duration_ns)
