"""What a client accepts."""

from __future__ import annotations

import pytest

from apfproxy.admin.negotiation import accepts_gzip, qualities, wants_json


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", {}),
        ("*/*", {"*/*": 1.0}),
        ("Text/Plain;version=0.0.4;q=0.5, a/b ; Q=0.1,,", {"text/plain": 0.5, "a/b": 0.1}),
        ("gzip;q=", {"gzip": 0.0}),
    ],
)
def test_qualities(header: str, expected: dict[str, float]) -> None:
    """Each choice has its weight, 1 without one, and 0 if it is no number."""
    assert expected == qualities(header)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", False),
        ("*/*", False),
        ("application/*", False),
        ("text/html,*/*;q=0.8", False),
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/json, */*", True),
        ("application/json;q=0", False),
        ("application/json;q=0.5, text/plain", False),
        ("application/json, text/plain;q=0.5", True),
    ],
)
def test_wants_json(accept: str, *, expected: bool) -> None:
    """Text is what one gets without asking for JSON by name."""
    assert expected == wants_json(accept)


@pytest.mark.parametrize(
    ("accept_encoding", "expected"),
    [
        ("", False),
        ("identity", False),
        ("gzip, deflate, br", True),
        ("gzip;q=0, *", False),
        ("*", True),
        ("*;q=0", False),
    ],
)
def test_accepts_gzip(accept_encoding: str, *, expected: bool) -> None:
    """A wildcard stands for gzip unless it is named itself."""
    assert expected == accepts_gzip(accept_encoding)
