"""Tests of `apfproxy.apiserver.answers`."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.answers import LONGEST_WARNINGS, headers_for, quoted
from apfproxy.apiserver.negotiation import AS_JSON


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", '"plain"', id="plain"),
        pytest.param('a "b" \\', '"a \\"b\\" \\\\"', id="quotes"),
    ],
)
def test_quoted(text: str, expected: str) -> None:
    """Quotes and backslashes are escaped."""
    assert expected == quoted(text)


def test_warnings_are_bounded() -> None:
    """Only so many characters of warnings as fit; none is said twice."""
    long = "x" * (LONGEST_WARNINGS - 1)
    headers = headers_for(AS_JSON, ["a", "a", long, "more"])

    assert ['299 - "a"', f'299 - "{long}"'] == [v for k, v in headers if k == "Warning"]
