"""Tests of `apfproxy.api.selectors.errors`."""

from __future__ import annotations

from apfproxy.api.selectors.errors import SelectorError


def test_selector_error() -> None:
    """Who knows nothing of selectors can treat their errors as wrong values."""
    assert isinstance(SelectorError("a"), ValueError)
