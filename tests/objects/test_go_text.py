"""Texts as Go writes and reads them."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apfproxy.objects.go_text import (
    EARLIEST_S,
    LATEST_S,
    as_json,
    parse_int64,
    parse_time,
    quoted,
    rfc3339,
)


def test_quoted() -> None:
    quotes = {
        "a b": "a b",
        '"\\': '\\"\\\\',
        "\n\t\x07": "\\n\\t\\a",
        "\x00\x7f": "\\x00\\x7f",
        "é<&>": "é<&>",
        "\u2028\uffff\U000e0001": "\\u2028\\uffff\\U000e0001",
    }

    assert {text: f'"{inside}"' for text, inside in quotes.items()} == {
        text: quoted(text) for text in quotes
    }
    assert '{"a":"\\u003c\\u0026\\u003e\\u2028é"}' == as_json({"a": "<&>\u2028é"})


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 50), st.sampled_from(["", "+"]))
@example(-(1 << 63), 10_000, "")
@example((1 << 63) - 1, 0, "+")
def test_parse_int64(value: int, zeros: int, plus: str) -> None:
    sign = "-" if value < 0 else plus

    assert value == parse_int64(f"{sign}{zeros * '0'}{abs(value)}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, f'strconv.ParseInt: parsing "{text}": invalid syntax')
            for text in ["", "+", " 1", "1_0", "0x1", "1.0", "\u0661"]
        ),
        (
            "9223372036854775808",
            'strconv.ParseInt: parsing "9223372036854775808": value out of range',
        ),
        (10_000 * "1", f'strconv.ParseInt: parsing "{40 * "1"}": value out of range'),
    ],
)
def test_parse_int64_refuses(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_int64(text)


@given(st.integers(EARLIEST_S, LATEST_S))
@settings(max_examples=200)
def test_texts_are_those_of_the_calendar(seconds: int) -> None:
    expected = (dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)).isoformat()  # noqa: DTZ001

    assert f"{expected}Z" == rfc3339(seconds)
    assert seconds == parse_time(rfc3339(seconds))


def test_fractions_are_cut_off() -> None:
    assert "1970-01-01T00:00:01Z" == rfc3339(1.999)
    assert "1969-12-31T23:59:59Z" == rfc3339(-0.5)


def test_other_zones_and_fractions_are_read() -> None:
    assert 1.25 == parse_time("1970-01-01T00:00:01.25Z")
    assert 0 == parse_time("1970-01-01T01:00:00+01:00") == parse_time("1969-12-31T22:30:00-01:30")


@pytest.mark.parametrize(
    "text",
    [
        *("", "2006-01-02", "2006-01-02 15:04:05Z", "2006-01-02T15:04:05", "2006-13-02T15:04:05Z"),
        *("2006-00-02T15:04:05Z", "2006-01-32T15:04:05Z", "2006-02-00T15:04:05Z"),
        *("2006-01-02T24:04:05Z", "2006-01-02T15:60:05Z", "2006-01-02T15:04:60Z"),
        *("2006-01-02T15:04:05+25:00", "2006-01-02T15:04:05+01:61", "0000-01-01T00:00:00Z"),
        *("0001-01-01T00:00:00+01:00", "1900-02-29T00:00:00Z"),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no time|out of range|outside"):
        parse_time(text)
