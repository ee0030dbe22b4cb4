"""Tests of apfproxy.transitions."""

from __future__ import annotations

import pytest

from apfproxy.transitions import Row, TransitionError


def test_a_row() -> None:
    """An event has its state, or cannot happen."""
    row = Row("closed", {"open": "opened"})

    assert "opened" == row["open"]
    with pytest.raises(TransitionError, match="close in state closed"):
        row["close"]
