"""Tests of apfproxy.base.transitions."""

from __future__ import annotations

import pytest

from apfproxy.base.transitions import Event, TransitionError


def test_an_event() -> None:
    """It makes one state of another, or cannot happen."""
    close = Event("close", {"open": {"close": "closed"}, "closed": {}})

    assert "closed" == close["open"]
    assert "<Event close>" == repr(close)
    with pytest.raises(TransitionError, match="close in state closed"):
        close["closed"]
