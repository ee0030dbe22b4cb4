"""Texts as Go writes and reads them."""

from __future__ import annotations

import re

import pytest

from apfproxy.objects.go_text import as_json, parse_int64, quoted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b", '"a b"'),
        ('"\\', '"\\"\\\\"'),
        ("\n\t\x07", '"\\n\\t\\a"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("é<&>", '"é<&>"'),
        ("\u2028\U000e0001", '"\\u2028\\U000e0001"'),
    ],
)
def test_quoted(text: str, expected: str) -> None:
    """What cannot be printed is escaped."""
    assert expected == quoted(text)


def test_as_json() -> None:
    """JSON is safe inside HTML."""
    assert '{"a":"\\u003c\\u0026\\u003e\\u2028é"}' == as_json({"a": "<&>\u2028é"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("+7", 7),
        ("-007", -7),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775808", -(1 << 63)),
        (10_000 * "0" + "1", 1),
    ],
)
def test_parse_int64(text: str, value: int) -> None:
    """Decimal integers of 64 bits are parsed."""
    assert value == parse_int64(text)


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
    """All else is refused, with the message of Go."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_int64(text)
