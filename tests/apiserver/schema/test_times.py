"""What is said of texts that are no points in time, as a real server says it."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.schema.times import MICRO_LAYOUT, micro_time, time_error

SECONDS = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yesterday", f' as "{SECONDS}": cannot parse "yesterday" as "2006"'),
        ("2024-01-01", f' as "{SECONDS}": cannot parse "" as "T"'),
        ("2024-01-01T00:00:00", f' as "{SECONDS}": cannot parse "" as "Z07:00"'),
        ("2024-1-01T00:00:00Z", f' as "{SECONDS}": cannot parse "1-01T00:00:00Z" as "01"'),
        ("2024-13-01T00:00:00Z", ": month out of range"),
        ("2024-02-30T00:00:00Z", ": day out of range"),
        ("2024-01-01T24:00:00Z", ": hour out of range"),
        ("2024-01-01T00:60:00Z", ": minute out of range"),
        ("2024-01-01T00:00:60Z", ": second out of range"),
        ("2024-01-01T00:00:00.5Zx", ': extra text: "x"'),
        ("2024-01-01T00:00:00+25:00", ": time zone offset hour out of range"),
        ("2024-01-01T00:00:00+00:61", ": time zone offset minute out of range"),
        (
            "9999-12-31T23:59:59-01:00",
            f' as "{SECONDS}": cannot parse "9999-12-31T23:59:59-01:00" as "2006"',
        ),
    ],
)
def test_first_element_that_does_not_fit(text: str, expected: str) -> None:
    """The first element that does not fit is told, with what is left of the text."""
    assert f'parsing time "{text}"{expected}' == time_error(text)


def test_text_is_quoted() -> None:
    """Quotes are escaped, and bytes beyond ASCII shown by number."""
    expected = r'parsing time "é\"" as'.replace("é", r"\xc3\xa9")
    assert time_error('é"').startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-01T00:00:00Z", f' as "{MICRO_LAYOUT}": cannot parse "Z" as ".000000"'),
        ("2024-01-01T00:00:00.1234567Z", f' as "{MICRO_LAYOUT}": cannot parse "7Z" as "Z07:00"'),
        ("2024-01-01T00:00:00.123456Z!", ': extra text: "!"'),
    ],
)
def test_microseconds(text: str, expected: str) -> None:
    """With microseconds there are six digits of a second."""
    assert f'parsing time "{text}"{expected}' == time_error(text, MICRO_LAYOUT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05.000006Z", "2026-01-02T03:04:05.000006Z"),
        ("2026-01-02T03:04:05,123456+01:30", "2026-01-02T01:34:05.123456Z"),
        ("0001-01-01T00:00:00.000001Z", "0001-01-01T00:00:00.000001Z"),
        ("0001-01-01T00:00:00.000000Z", None),
    ],
)
def test_micro_time(text: str, expected: str | None) -> None:
    """A time with microseconds, in UTC."""
    assert expected == micro_time(text)


@pytest.mark.parametrize(
    "text", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.1234567Z", "2026-02-30T00:00:00.000000Z"]
)
def test_no_micro_time(text: str) -> None:
    """Another number of digits is wrong, and so is what is no time."""
    with pytest.raises(ValueError, match="is no time"):
        micro_time(text)
