"""Tests of `apfproxy.objects.selectors.errors`."""

from __future__ import annotations

from apfproxy.objects.selectors.errors import SelectorError


def test_selector_error() -> None:
    """Who knows nothing of selectors can treat their errors as wrong values."""
    assert isinstance(SelectorError("a"), ValueError)
