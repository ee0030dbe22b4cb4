"""Tests of what a client accepts."""

from __future__ import annotations

import pytest

from apfproxy.http.grammar import accepted, elements, weight_of


def test_elements() -> None:
    assert [b"a", b"b", b"c"] == elements([b" a,, b ", b"", b"c\t"])


def test_accepted() -> None:
    found = accepted("text/html ;level=1; q = 0.4 ,, gzip;q")

    assert [("text/html", [("level", "1"), ("q", "0.4")]), ("", []), ("gzip", [("q", "")])] == found


@pytest.mark.parametrize(("text", "weight"), [("0.5", 0.5), ("1", 1.0), ("", 0.0), ("much", 0.0)])
def test_weight_of(text: str, weight: float) -> None:
    assert weight == weight_of(text)
