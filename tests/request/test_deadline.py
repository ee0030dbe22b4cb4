"""Tests of `apfproxy.request.deadline`."""

from __future__ import annotations

import pytest

from apfproxy.request.attributes import parse_attributes
from apfproxy.request.deadline import DeadlineError, parse_duration_ns, request_timeout_ns

MINUTE_NS = 60_000_000_000


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0", 0),
        ("30s", 30_000_000_000),
        ("1m30s", 90_000_000_000),
        ("1.5h", 5_400_000_000_000),
        (".5ms1.us", 501_000),
        ("2\u00b5s3\u03bcs4ns", 5004),
        ("+1s", 1_000_000_000),
        ("-1s", -1_000_000_000),
    ],
)
def test_durations(text: str, duration_ns: int) -> None:
    """Durations are read in Go's notation."""
    assert duration_ns == parse_duration_ns(text)


@pytest.mark.parametrize(
    "text", ["", "-", "1", "s", ".s", "1m30", "1 s", "1d", "--1s", "9999999h", 65 * "0" + "s"]
)
def test_no_durations(text: str) -> None:
    """All else is refused."""
    with pytest.raises(DeadlineError, match="is not a duration"):
        parse_duration_ns(text)


@pytest.mark.parametrize(
    ("query", "timeout_ns"),
    [
        (b"", MINUTE_NS),
        (b"?timeout=", MINUTE_NS),
        (b"?timeout=0s", MINUTE_NS),
        (b"?timeout=-1s", MINUTE_NS),
        (b"?timeout=-9000h", MINUTE_NS),
        (b"?timeout=10s&timeout=x", MINUTE_NS // 6),
        (b"?timeout=1h", MINUTE_NS),
        (b"?watch=1&timeout=10s", MINUTE_NS),
        (b"?watch=1&timeout=30", MINUTE_NS),
    ],
)
def test_request_timeout(query: bytes, timeout_ns: int) -> None:
    """The first parameter shortens the server's own limit, unless the request is long-running."""
    attributes = parse_attributes("GET", b"/api/v1/pods" + query)

    assert timeout_ns == request_timeout_ns(attributes, MINUTE_NS)
