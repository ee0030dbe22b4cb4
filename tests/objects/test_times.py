"""Points in time as RFC 3339 has them."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.objects.go_text import EARLIEST_S, LATEST_S, parse_time, rfc3339

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@given(st.integers(EARLIEST_S, LATEST_S))
@settings(max_examples=200)
def test_texts_are_those_of_the_calendar(seconds: int) -> None:
    """Every second has the text that the standard library gives it, and is read back from it."""
    expected = (EPOCH + dt.timedelta(seconds=seconds)).strftime("T%H:%M:%SZ")
    date = (EPOCH + dt.timedelta(seconds=seconds)).date().isoformat()

    assert date + expected == rfc3339(seconds)
    assert seconds == parse_time(rfc3339(seconds))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.999, "1970-01-01T00:00:01Z"), (-0.5, "1969-12-31T23:59:59Z"), (0, "1970-01-01T00:00:00Z")],
)
def test_fractions_are_cut_off(seconds: float, text: str) -> None:
    """A second has begun when it is named."""
    assert text == rfc3339(seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01.25Z", 1.25),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T22:30:00-01:30", 0),
        ("2000-02-29T00:00:00Z", 951_782_400),
    ],
)
def test_other_zones_and_fractions_are_read(text: str, seconds: float) -> None:
    """RFC 3339 allows both."""
    assert seconds == parse_time(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2006-01-02",
        "2006-01-02 15:04:05Z",
        "2006-01-02T15:04:05",
        "2006-13-02T15:04:05Z",
        "2006-00-02T15:04:05Z",
        "2006-01-32T15:04:05Z",
        "2006-02-00T15:04:05Z",
        "2006-01-02T24:04:05Z",
        "2006-01-02T15:60:05Z",
        "2006-01-02T15:04:60Z",
        "2006-01-02T15:04:05+25:00",
        "2006-01-02T15:04:05+01:61",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "1900-02-29T00:00:00Z",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r"is no time|out of range|outside"):
        parse_time(text)
