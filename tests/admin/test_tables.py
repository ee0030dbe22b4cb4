"""Text tables in the layout of kube-apiserver's debug pages, and times as Go prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.admin.tables import cell_text, duration_text, table_text, time_text


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    expected = (
        "Name,        A,      Last\nж-кузнецова, 1,      true\nx,           -1,     a longer one\n"
    )

    assert expected == table_text(
        ("Name", "A", "Last"), [("ж-кузнецова", 1, True), ("x", -1, "a longer one")]
    )


@given(cell=st.text(max_size=20))
def test_no_cell_adds_a_line(cell: str) -> None:
    assert 2 == len(table_text(("A", "B"), [(cell, "")]).splitlines())


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("a\nb", "a\\u000ab"),
        ("\x1b[2J\x9b2J", "\\u001b[2J\\u009b2J"),
        ("a\u202eb\u2028", "a\\u202eb\\u2028"),
        ("a\u200bb", "a\\u200bb"),
        ("a\U000e0001", "a\\U000e0001"),
        ("a\udcff", "a\\udcff"),
        ("\u05d0 ж é", "\u05d0 ж é"),
    ],
    ids=["line", "cursor", "direction", "no-width", "beyond-16-bits", "no-unicode", "letters"],
)
def test_cell_text_escapes_what_cannot_be_printed(cell: str, expected: str) -> None:
    assert expected == cell_text(cell)


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


DURATIONS = """
0 0s, 1 1ns, 999 999ns, 1_000 1µs, 1_500 1.5µs, 999_999 999.999µs, 1_000_000 1ms, 5_000_000 5ms,
1_050_000 1.05ms, 999_999_999 999.999999ms, 1_000_000_000 1s, 1_500_000_000 1.5s,
59_000_000_001 59.000000001s, 60_000_000_000 1m0s, 3_599_000_000_000 59m59s,
3_600_000_000_000 1h0m0s, 90_061_250_000_000 25h1m1.25s, -1_500_000 -1.5ms
"""


@pytest.mark.parametrize("case", DURATIONS.replace("\n", " ").split(","))
def test_duration_text(case: str) -> None:
    """The unit is the largest that leaves a whole part; hours, minutes and seconds combine."""
    duration_ns, text = case.split()
    assert text == duration_text(int(duration_ns))
